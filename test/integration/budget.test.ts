/** One budget in a real PostgreSQL, used by several instances and processes at once. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import { expect, test, vi } from 'vitest';
import { systemClock } from '../../src/clock.ts';
import { type BudgetDeps, makeBudget } from '../../src/engine/budget/budget.ts';
import { Spent } from '../../src/errors.ts';
import { freshDatabase } from '../support/postgres.ts';

const limits = { credits: 100, periodMs: 60_000, requestsPerSecond: 1000, reserve: 10 };
const whose = { account: 'acme', source: 'helpdesk' };
const settings = { clock: systemClock, ...whose, limits, timeoutMs: 30_000, random: Math.random };
const answered = { headers: {}, refused: false };

/** A budget with connections of its own, as another process would have. */
function another(url: string, change: Partial<BudgetDeps> = {}) {
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  pool.on('error', () => {});
  const budget = makeBudget({ ...settings, pg: pool, ...change });
  return { ...budget, [Symbol.asyncDispose]: () => pool.end() };
}

const stateOf = async (pool: pg.Pool) => (await pool.query('select state from sync.budget')).rows[0].state;

/** Time that passes only by sleeping. */
function virtualTime(startMs = 1_700_000_000_000) {
  let nowMs = startMs;
  const sleep = async (ms: number) => {
    nowMs += ms;
  };
  return { now: () => nowMs, clock: { now: () => nowMs, monotonic: () => nowMs, sleep } };
}

/** A source with a sliding period, that counts over all its clients. */
async function startSource(credits: number, periodMs: number, requestsPerSecond: number) {
  const seen: { atMs: number; cost: number; refused: boolean }[] = [];
  const server = createServer((request, response) => {
    const nowMs = performance.now();
    const cost = Number(new URL(request.url!, 'http://source').searchParams.get('cost'));
    const since = (ms: number) => seen.filter(one => !one.refused && one.atMs > nowMs - ms);
    const used = since(periodMs).reduce((sum, one) => sum + one.cost, 0);
    const refused = used + cost > credits || since(1000).length >= requestsPerSecond;
    seen.push({ atMs: nowMs, cost, refused });
    response.writeHead(refused ? 429 : 200, {
      'rate-limit-limit': credits,
      'rate-limit-remaining': credits - used - (refused ? 0 : cost),
      'rate-limit-used': refused ? 0 : cost,
      'rate-limit-reset': Math.ceil(periodMs / 1000),
    });
    response.end();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = async () => {
    server.closeAllConnections();
    await new Promise(done => server.close(done));
  };
  return { url, seen, [Symbol.asyncDispose]: close };
}

/** A process that makes a budget of its own and does as the script says with `budget`. */
function spawnChild(databaseUrl: string, change: object, script: string) {
  const from = (path: string) => JSON.stringify(new URL(`../../src/${path}`, import.meta.url).href);
  const code = `
    import pg from 'pg';
    import { makeBudget } from ${from('engine/budget/budget.ts')};
    import { systemClock } from ${from('clock.ts')};
    const pool = new pg.Pool({ connectionString: ${JSON.stringify(databaseUrl)} });
    const settings = {
      ...${JSON.stringify({ ...settings, clock: undefined, ...change })}, clock: systemClock, pg: pool, random: Math.random,
    };
    const budget = makeBudget(settings);
    ${script}
    await budget.book();
    await pool.end();`;
  return spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
}

const work = (sourceUrl: string, lane: string, requests: number) => `
  const headers = reply => Object.fromEntries(
    [['limit', 'limit'], ['remaining', 'remaining'], ['used', 'used'], ['resetSeconds', 'reset']]
      .map(([name, header]) => [name, Number(reply.headers.get('rate-limit-' + header))]));
  await Promise.all([1, 2, 3].map(async cost => {
    for (let i = 0; i < ${requests}; i++) {
      const grant = await budget.acquire(cost, '${lane}');
      const reply = await fetch('${sourceUrl}/?cost=' + cost);
      await budget.settle(grant, { headers: headers(reply), refused: reply.status === 429 });
    }
  }));`;

test('four processes share one budget: no request is refused, and every credit is in its minute', async () => {
  await using db = await freshDatabase();
  await using source = await startSource(50, 1000, 20);
  const change = { limits: { credits: 50, periodMs: 1000, requestsPerSecond: 20, reserve: 5 } };
  const children = ['fresh', 'fresh', 'backfill', 'interactive'].map(lane =>
    spawnChild(db.url, change, work(source.url, lane, 6)),
  );
  const codes = await Promise.all(children.map(async child => (await once(child, 'exit'))[0]));
  expect(codes).toEqual([0, 0, 0, 0]);
  expect(source.seen.filter(({ refused }) => refused)).toEqual([]);
  expect(source.seen).toHaveLength(4 * 3 * 6);

  const { rows } = await db.pool.query(`
    select account_id, sum(interactive)::int as interactive, sum(fresh)::int as fresh, sum(backfill)::int as backfill,
      max(credit_limit)::int as credit_limit, max(others)::int as others, sum(refused)::int as refused
    from sync.credit_minutes group by account_id`);
  expect(rows).toEqual([
    { account_id: 'acme', interactive: 36, fresh: 72, backfill: 36, credit_limit: 50, others: 0, refused: 0 },
  ]);
  expect(await stateOf(db.pool)).toMatchObject({ flights: [], waits: [] });
});

test('instances that ask at the same moment are granted exactly what there is', async () => {
  await using db = await freshDatabase();
  await using a = another(db.url);
  await using b = another(db.url);
  await using c = another(db.url);
  await a.settle(await a.acquire(1, 'fresh'), answered);
  const stop = new AbortController();
  const asked = [a, b, c].flatMap(budget => Array.from({ length: 33 }, () => budget.acquire(1, 'fresh', stop.signal)));
  const outcome = Promise.allSettled(asked);
  await vi.waitFor(async () => expect((await stateOf(db.pool)).waits).toHaveLength(10), { timeout: 60_000 });
  stop.abort(new Error('enough'));
  const settled = await outcome;
  const refusals = settled.filter(one => one.status === 'rejected').map(one => one.reason.message);
  expect(refusals).toEqual(Array.from({ length: 10 }, () => 'enough'));
  expect((await stateOf(db.pool)).flights).toHaveLength(89);
});

test('a process that was killed with a request in flight holds up nobody, though another client is there', async () => {
  await using db = await freshDatabase();
  const workers = JSON.stringify(new URL('../../src/engine/runs/workers.ts', import.meta.url).href);
  await db.pool.query("insert into sync.accounts (account_id) values ('acme') on conflict do nothing");
  const child = spawnChild(
    db.url,
    {},
    `const { attend } = await import(${workers});
    const me = { account: 'acme', works: true, host: 'here', pid: process.pid, version: '0' };
    const { id } = await (await attend(${JSON.stringify(db.url)}, systemClock)).enter(me);
    const present = makeBudget({ ...settings, sender: () => id });
    const grant = await present.acquire(1, 'backfill');
    await present.settle(grant, { headers: { limit: 100, remaining: 60, used: 1, resetSeconds: 60 }, refused: false });
    await present.acquire(1, 'backfill');
    console.log('granted');
    setInterval(() => {}, 1e6);`,
  );
  await once(child.stdout, 'data');
  await using survivor = another(db.url);
  const waits: { ms: number; awaits: string }[] = [];
  const asked = survivor.acquire(1, 'fresh', undefined, (ms, awaits) => waits.push({ ms, awaits }));
  // It says what it waits for while the other lives.
  await vi.waitFor(() => expect(waits.some(({ ms, awaits }) => awaits === 'reply' && ms > 20_000)).toBe(true), 20_000);
  child.kill('SIGKILL');
  const mine = await asked;
  const { flights, others } = await stateOf(db.pool);
  expect(others).toHaveLength(1);
  expect(flights).toMatchObject([{ orphaned: true, cost: 1 }, { id: mine.id }]);
  // The source may count it until its deadline.
  expect(flights[1].grantedMs).toBeLessThan(flights[0].deadlineMs);
});

test.each([
  ['used more than was asked for', { used: 60 }],
  ['tells of a lower limit', { limit: 20 }],
])('another process hears at once of a reply that %s', async (_, headers) => {
  await using db = await freshDatabase();
  const { now, clock } = virtualTime();
  // No time passes in which the reply would be booked alone.
  const time = { now, clock: { ...clock, sleep: () => new Promise<void>(() => {}) }, longestWaitMs: 1000 };
  await using a = another(db.url, time);
  await using b = another(db.url, time);
  await a.settle(await a.acquire(1, 'fresh'), answered);
  await a.settle(await a.acquire(1, 'fresh'), { headers, refused: false });
  await expect(b.acquire(50, 'fresh')).rejects.toBeInstanceOf(Spent);
});

test.each([
  ['is carried out', 'select from sync.budget for update'],
  ['is lost to another process', 'update sync.budget set version = version + 1'],
])('what is granted after this process has heard a 429 is given back: a slow statement %s', async (_, sql) => {
  await using db = await freshDatabase();
  const time = virtualTime();
  await using budget = another(db.url, { ...time, limits: { ...limits, evenly: false } });
  // Before the first reply one request is in flight at a time.
  await budget.settle(await budget.acquire(1, 'fresh'), answered);
  const begunMs = time.now();
  const grant = await budget.acquire(1, 'fresh');
  const client = await db.pool.connect();
  await client.query('begin');
  await client.query(sql);
  const asked = budget.acquire(1, 'fresh');
  const blocked = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
  await vi.waitFor(async () => expect((await db.pool.query(blocked)).rowCount).toBe(1));
  const settled = budget.settle(grant, { headers: { limit: 100, remaining: 40, resetSeconds: 20 }, refused: true });
  await client.query('commit');
  client.release();
  await settled;
  expect(time.now()).toBeLessThan(begunMs + 1000);
  await asked;
  expect(time.now()).toBeGreaterThan(begunMs + 21_000);
});
