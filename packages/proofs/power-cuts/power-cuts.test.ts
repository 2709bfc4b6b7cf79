/** A little of `npm run power-cuts` with every test run of CI on Linux: a cut, and the worst moment by itself. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { expect, test } from 'vitest';
import { systemClock } from '../../../src/clock.ts';
import { type Grant, makeBudget } from '../../../src/engine/budget/budget.ts';
import { makeLedgerPool } from '../../../src/engine/database/pool.ts';
import { claimSlot } from '../../../src/engine/runs/slots.ts';
import { settingsFor } from '../../../test/support/cli.ts';
import { keyOf, keysOf } from '../../../test/support/keys.ts';
import { amount, long } from '../../../test/support/long.ts';
import { noSandboxLimits } from '../../../test/support/mirror.ts';
import { at, open, scripted, take } from '../../../test/support/scripted.ts';
import { startSandbox } from '../../sandbox/src/server.ts';
import { disagreements } from './agreement.ts';
import { crewOf } from './crew.ts';
import { defects, mistaken } from './defects.ts';
import { live, makeDatabase } from './life.ts';
import { type Machine, startMachine } from './machine.ts';
import { standingOf } from './standing.ts';

/** Its processes are found in /proc. */
const longOnLinux = { ...long, ...(process.platform !== 'linux' && { skip: true }) };
const few = { tickets: 60, limits: { credits: 20_000, periodSeconds: 60, requestsPerSecond: 300 }, told: () => {} };

const cuts = amount(3, 1);

test.for(defects)('the program has what the mistake stands for: $name', async defect => {
  expect(await mistaken(defect)).not.toBe('');
});

test(`after each power cut (${cuts}) rows and coverage agree, and nothing is refused`, longOnLinux, async () => {
  // A cut may meet a moment in which everything is on disk: then another life has to show what is lost.
  for (let seed = 1, lost = false; !lost; seed++) {
    await using machine = await startMachine();
    const life = await live({ machine, seed, cuts, ...few });
    expect(life.wrong).toEqual([]);
    lost = life.cuts.some(({ lostTransactions }) => lostTransactions > 0);
    expect(lost || seed < 4).toBe(true);
  }
});

test(
  'a worker that outlives the first pages of a list does not prove the list by the others',
  longOnLinux,
  async ({ signal }) => {
    await using machine = await startMachine({ wal_writer_delay: '10s' });
    // Another commit of the worker may have taken the page to the disk.
    for (let n = 1; !(await outlive(machine, `outlived_${n}`, signal)); n++) expect(n).toBeLessThan(5);
  },
);

test('a promise survives a power cut that takes back what was committed after it', longOnLinux, async () => {
  await using machine = await startMachine({ wal_writer_delay: '10s' });
  const url = await makeDatabase(machine, 'promises');
  await using s = await scripted({ database: { url, drop: async () => {} } });
  await s.pool.query('create table power_cuts.later ()');
  const limits = { credits: 100, periodMs: 60_000, requestsPerSecond: 10, reserve: 0 };
  await using stack = new AsyncDisposableStack();
  const ledger = stack.adopt(makeLedgerPool(url), pool => pool.end());
  const budget = makeBudget({
    ...{ pg: ledger, clock: systemClock, account: 'default', source: 'helpdesk', limits },
    ...{ timeoutMs: 30_000, random: Math.random },
  });
  const plan = { schedule: 'fresh', kind: 'fresh', streams: keysOf(['tickets']), unless: [] } as const;
  const run = await open(s.pool, ['tickets'], at(0));
  const grants: Grant[] = [];
  const promises: Record<string, () => Promise<unknown>> = {
    'a fencing token': () => take(s.pool, { account: 'default', run, stream: keyOf('tickets') }, at(1)),
    'a slot and its run': () => claimSlot(s.pool, 'default', plan, { slot: at(2), opener: 0, now: at(2) }),
    'a grant': async () => grants.push(await budget.acquire(1, 'fresh')),
    'a refusal': () => budget.settle(grants[0]!, { headers: {}, refused: true }),
  };
  const ask = async (client: pg.Client) => {
    const { rows } = await client.query(
      `select (select count(*)::int from power_cuts.later) as later, (select state ->> 'frozenUntilMs' from sync.budget) as frozen`,
    );
    return { later: rows[0].later as number, kept: { frozen: rows[0].frozen, ...(await standingOf(client)) } };
  };
  for (const [name, promise] of Object.entries(promises)) {
    await promise();
    await s.pool.query('insert into power_cuts.later default values');
    const { before, after } = await machine.cut('promises', { ask });
    expect(after.kept, name).toEqual(before.kept);
    expect(after.later, name).toBeLessThan(before.later);
  }
});

/** Whether the first pages of the customers were lost. */
async function outlive(machine: Machine, name: string, signal: AbortSignal): Promise<boolean> {
  await using stack = new AsyncDisposableStack();
  const url = await makeDatabase(machine, name);
  const sandbox = await startSandbox({ ...noSandboxLimits, tickets: 5, customers: 250 });
  stack.defer(() => sandbox.close());
  const gate = await gateTo(sandbox.url, path => /\/customers\?.*\bpage=2\b/.test(path));
  stack.defer(gate.close);
  const pool = new pg.Pool({ connectionString: url });
  pool.on('error', () => {});
  stack.defer(() => pool.end());
  const env = { ...settingsFor(url, { url: gate.url, token: sandbox.token }), SCHEDULE_FRESH: '' };
  stack.use(crewOf(1, { ...env, SCHEDULE_NIGHTLY: '0 2 * * *' }));
  const customersIn = async (db: pg.Pool | pg.Client) =>
    (await db.query<{ n: number }>('select count(*)::int as n from helpdesk.customers')).rows[0]!.n;
  const until = async (so: () => Promise<boolean>) => {
    while (!(await so().catch(() => false))) await delay(5, undefined, { signal });
  };
  await gate.held;
  // The walk goes from the last page to the first.
  await until(async () => (await customersIn(pool)) > 100);
  const { before, after } = await machine.cut(name, { ask: customersIn });
  gate.open();
  await until(async () => {
    const { rows } = await pool.query(
      `select from sync.stored_run_streams where stream = 'customers' and state = 'completed'`,
    );
    return rows.length > 0;
  });
  expect(await disagreements(pool, sandbox.world)).toEqual([]);
  return after < before;
}

/** In front of a server: the first request of this kind waits until the gate opens. */
async function gateTo(url: string, holds: (path: string) => boolean) {
  const held = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  const origin = new URL(url);
  const server = createServer(async (request, response) => {
    if (holds(request.url!)) {
      held.resolve();
      await opened.promise;
    }
    const { authorization = '' } = request.headers;
    const reply = await fetch(new URL(request.url!, origin.origin), { headers: { authorization } });
    const headers = Object.fromEntries(
      [...reply.headers].filter(([header]) => !/^(content-|transfer-|connection)/.test(header)),
    );
    response.writeHead(reply.status, { ...headers, 'content-type': reply.headers.get('content-type') ?? 'text/plain' });
    response.end(await reply.text());
  });
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${origin.pathname}`,
    held: held.promise,
    open: () => opened.resolve(),
    close: async () => {
      opened.resolve();
      server.closeAllConnections();
      await new Promise(done => server.close(done));
    },
  };
}
