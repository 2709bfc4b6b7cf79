/**
 * `plan` against what the runs then take: the same readings, so the same credits; the same ledger, so the same time. What a sweep or
 * a verification announces comes from the rows alone, and is about right.
 */

import { stripVTControlCharacters } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../packages/sandbox/src/server.ts';
import type { Config } from '../../src/app/config.ts';
import type { Warehouse } from '../../src/app/context.ts';
import { openContext, openLog } from '../../src/app/open-context.ts';
import { cursor } from '../../src/cli/output/frame.ts';
import { runBackfill } from '../../src/cli/work/backfill.ts';
import type { RunResult } from '../../src/cli/work/follow.ts';
import { addPlan, runPlan } from '../../src/cli/work/plan.ts';
import { runSweep } from '../../src/cli/work/sweep.ts';
import { runSync } from '../../src/cli/work/sync.ts';
import { runVerify } from '../../src/cli/work/verify.ts';
import type { Clock } from '../../src/clock.ts';
import { makeBudget } from '../../src/engine/budget/budget.ts';
import { empty, type Limits } from '../../src/engine/budget/ledger.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import { nameOfKey, type StreamKey } from '../../src/engine/database/stream-key.ts';
import { costOfRows } from '../../src/engine/forecast/cost-of-rows.ts';
import { type Part, timeOf } from '../../src/engine/forecast/plan-time.ts';
import type { Question } from '../../src/engine/forecast/planning.ts';
import { exitCodes } from '../../src/errors.ts';
import { command } from '../support/command.ts';
import { keysOf } from '../support/keys.ts';
import { long } from '../support/long.ts';
import { configFor, jobs, noSandboxLimits } from '../support/mirror.ts';
import { freshDatabase } from '../support/postgres.ts';

let db: Awaited<ReturnType<typeof freshDatabase>>;
let sandbox: Sandbox;
beforeAll(async () => {
  db = await freshDatabase();
  sandbox = await startSandbox({ ...noSandboxLimits, tickets: 120, seed: 5, spamListed: false, trashListed: false });
});
afterAll(async () => {
  await sandbox.close();
  await db[Symbol.asyncDispose]();
});

/** In this process. */
async function having<T>(
  work: (config: Config, warehouse: Warehouse, deps: Parameters<typeof runSync>[3]) => Promise<T>,
): Promise<T> {
  const pool = makePool(db.url);
  const warehouse = { url: db.url, pg: pool, ledger: pool, folder: undefined, [Symbol.asyncDispose]: async () => {} };
  const deps = { jobs, signal: new AbortController().signal, carryMs: 0 };
  return work(configFor(db.url, sandbox), warehouse, deps).finally(() => pool.end());
}

const names = keysOf(['users', 'customers', 'tickets', 'messages']);

function runOf(question: Question) {
  return having(async (config, warehouse, deps) => {
    const { streams } = question;
    if (question.kind === 'backfill') return runBackfill(config, warehouse, streams, question.range, deps);
    return runSync(config, warehouse, streams, deps);
  });
}

const rows = async (sql: string, ...values: unknown[]) => (await db.pool.query(sql, values)).rows;

/** What goes to a terminal of this width. */
async function onTerminal(columns: number, work: () => Promise<unknown>): Promise<string> {
  const { stderr } = process;
  const before = { isTTY: stderr.isTTY, columns: stderr.columns, write: stderr.write };
  let told = '';
  const write = (text: string) => {
    told += text;
    return true;
  };
  Object.assign(stderr, { isTTY: true, columns, write });
  await work().finally(() => Object.assign(stderr, before));
  return told;
}

/** Plans, counts what that cost at the source, runs, and compares with what is kept. */
async function compare(question: Question) {
  const before = sandbox.totals.credits;
  const planned = await having((config, warehouse, deps) => runPlan(config, warehouse, question, deps));
  expect(planned.counted_with_credits).toBe(sandbox.totals.credits - before);
  const runs = await rows('select count(*)::int as n from sync.stored_runs');
  const { run, state } = await runOf(question);
  expect(state).toBe('completed');
  expect(await rows('select count(*)::int as n from sync.stored_runs'), 'a plan opens no run').toEqual([
    { n: runs[0].n + 1 },
  ]);
  const [kept] = await rows(
    'select forecast_credits::int as forecast, credits::int, counted_with_credits::int as counted from sync.forecasts where run = $1',
    run,
  );
  expect(kept).toMatchObject({ forecast: planned.credits });
  expect(
    Math.abs(planned.credits - kept.credits) / kept.credits,
    `${question.kind}: ${planned.credits} told, ${kept.credits} used`,
  ).toBeLessThanOrEqual(0.05);
  return planned;
}

test('a first sync, a later one and a backfill take the credits that were told', async () => {
  const first = await compare({ kind: 'sync', streams: names });
  expect(first).toMatchObject({ kind: 'sync', incomplete: false });
  expect(first.counted_with_credits).toBeLessThanOrEqual(0.02 * first.credits + 6);

  const { world } = sandbox;
  const all = [...world.tickets.values()];
  for (const { id } of all.filter((one, i) => i % 9 === 4 && !one.spam && !one.trash))
    world.addMessage(id, { body: 'A reply' });
  const customer = world.customers.add({ first_name: 'New' });
  for (let i = 0; i < 5; i++) world.addTicket({ customer_id: customer.id, subject: `New ${i}` });
  const later = await compare({ kind: 'sync', streams: names });
  expect(later.counted_with_credits).toBeLessThanOrEqual(3);

  const [{ at }] = await rows(
    'select percentile_disc(array[0.3, 0.6]) within group (order by updated_at) as at from helpdesk.tickets where not spam and not trash',
  );
  const within = 'updated_at >= $1 and updated_at < $2 and not spam and not trash';
  await rows(
    `delete from helpdesk.messages where ticket_id in (select id from helpdesk.tickets where ${within})`,
    ...at,
  );
  await rows(`delete from helpdesk.tickets where ${within}`, ...at);
  await rows(
    `update sync.coverage set covered = covered - tstzmultirange(tstzrange($1, $2)) where stream = 'tickets' and list = 'default'`,
    ...at,
  );
  const filled = await compare({ kind: 'backfill', streams: names, range: { since: null, until: null, again: false } });
  expect(filled.credits).toBeGreaterThan(30);
});

test(
  'a sweep and verifications say what their rows cost: no request tells it, and about so much they take',
  long,
  async () => {
    const sweep = (...of: string[]) => having((config, here, deps) => runSweep(config, here, keysOf(of), {}, deps));
    const verify = (sample: number | null) =>
      having((config, here, deps) => runVerify(config, here, { sample, repair: false }, deps));
    const runs = {
      sweep: [() => sweep('customers', 'tickets'), 15],
      'sweep customers': [() => sweep('customers'), 5],
      'verify --sample 50': [() => verify(50), 30],
      'verify --full': [() => verify(null), 70],
    } as const;
    for (const [words, [run, most]] of Object.entries(runs)) {
      const before = sandbox.totals.credits;
      let result: RunResult | undefined;
      const stderr = await onTerminal(120, async () => {
        result = await run();
      });
      expect(result!.exitCode, words + stderr).toBe(exitCodes.ok);
      const line = /The (?:sweep|run) takes about ([\d,]+) credits?, \d+ \w+ at the configured limits\.$/m;
      const [, told] = line.exec(stripVTControlCharacters(stderr))!;
      const [{ used, forecast }] = await rows(
        `select sum(s.credits)::int as used, (select forecast from sync.stored_runs r where r.id = s.run_id) as forecast
       from sync.stored_run_streams s where s.run_id = (select max(id) from sync.stored_runs) group by s.run_id`,
      );
      expect(sandbox.totals.credits - before, words).toBe(used);
      expect(forecast, 'only a plan that is exact is compared').toBeNull();
      // Counting, names and what is asked for by its id come on top of the rows.
      const more = used - Number(told!.replace(',', ''));
      expect(more >= 0 && more <= most, `${words}: ${told} told, ${used} used`).toBe(true);
    }
  },
);

test('rows cost what their requests cost, and the time that the limits allow', async () => {
  const [{ tickets, customers }] = await rows(
    `select count(*) filter (where _deleted_at is null)::int as tickets,
       (select count(*)::int from helpdesk.customers where _deleted_at is null) as customers from helpdesk.tickets`,
  );
  const cost = (keys: StreamKey[], sample: number | null, most: Partial<Limits> = {}) =>
    having(async (config, warehouse, { signal }) => {
      await using ctx = openContext(config, warehouse, { log: openLog({ logLevel: 'silent' }), signal });
      const open = ctx.sources.get('helpdesk')!;
      const sources: typeof ctx.sources = new Map([['helpdesk', { ...open, limits: { ...limits, ...most } }]]);
      return costOfRows({ ...ctx, sources }, keys, sample);
    });
  const listed = Math.max(3, Math.ceil(tickets / 100)) + Math.ceil(customers / 100);
  expect(await cost(['helpdesk.customers', 'helpdesk.tickets'], null)).toEqual({
    credits: listed,
    seconds: listed / 6,
  });
  const sampled = 50 * 2 + Math.min(50, customers);
  expect(await cost(['helpdesk.customers', 'helpdesk.tickets'], 50)).toMatchObject({ credits: sampled });
  const { credits, seconds } = await cost(names, null);
  expect(credits).toBe(listed + 1 + 2 * tickets);
  // 90 credits at once, and 90 each minute.
  expect(seconds).toBeCloseTo(((credits - 90) / 90) * 60);
  expect((await cost(names, null, { credits: 1_000_000 })).seconds).toBeCloseTo(credits / 6);
  expect(await cost(['books.volumes'], null)).toEqual({ credits: 0, seconds: 0 });
});

test('on a terminal there is a line for each stream, the last frame stays, and the cursor comes back', async () => {
  const told = await onTerminal(60, () => runOf({ kind: 'sync', streams: names }));
  expect(told.startsWith(cursor.hide) && told.endsWith(cursor.show)).toBe(true);
  expect(told.split(cursor.hide)).toHaveLength(2);
  const frames = told.slice(cursor.hide.length, -cursor.show.length).split('\u001b[J');
  expect(frames.pop()).toBe('');
  const last = stripVTControlCharacters(frames.at(-1)!).trim().split(/\r?\n/);
  expect(last.map(line => line.slice(0, 12).trimEnd())).toEqual(names.map(key => `✓ ${nameOfKey(key)}`));
  for (const frame of frames)
    for (const line of stripVTControlCharacters(frame).split('\n')) expect(line.length).toBeLessThan(60);
  // Each takes the place of the one before.
  for (const frame of frames.slice(1)) expect(frame.startsWith('\u001b[4A\r')).toBe(true);
});

test('a plan binds the account to nothing, and the mirror begins with the first run that reads', async () => {
  await using empty = await freshDatabase();
  const asked = async (sql: string, ...values: unknown[]) => (await empty.pool.query(sql, values)).rows;
  const pool = makePool(empty.url);
  await using warehouse = {
    url: empty.url,
    pg: pool,
    ledger: pool,
    folder: undefined,
    [Symbol.asyncDispose]: () => pool.end(),
  };
  const deps = { jobs, signal: new AbortController().signal };
  const config = configFor(empty.url, sandbox);
  const mistyped = { ...config, helpdesk: { ...config.helpdesk!, baseUrl: new URL('https://typo.example/api/v1') } };
  const gaps = { since: null, until: null, again: true };
  const backfill: Question = { kind: 'backfill', streams: ['helpdesk.users'], range: gaps };
  expect((await runPlan(mistyped, warehouse, backfill, deps)).counted).toEqual([]);
  const users: Question = { kind: 'sync', streams: ['helpdesk.users'] };
  await runPlan(config, warehouse, users, deps);
  expect(await asked('select address from sync.sources')).toEqual([]);
  expect(await asked('select from sync.targets')).toEqual([]);

  const [{ at }] = await asked(
    `update sync.accounts set mirrored_since = now() - interval '4 days' returning now() as at`,
  );
  expect((await runSync(config, warehouse, ['helpdesk.users'], deps)).state).toBe('completed');
  const bound = await asked(
    'select address, mirrored_since >= $1 as begun from sync.accounts join sync.sources using (account_id)',
    at,
  );
  expect(bound).toEqual([{ address: sandbox.url, begun: true }]);

  // What runs have found stays as it is: since when, and the lists of other settings.
  await asked(`update sync.accounts set mirrored_since = '2020-01-01'`);
  await asked(
    `insert into sync.coverage (account_id, source, stream, list) values ('default', 'helpdesk', 'users', 'other')`,
  );
  await runPlan(config, warehouse, users, deps);
  expect(await asked(`select from sync.coverage where list = 'other'`)).toHaveLength(1);
  expect((await runSync(config, warehouse, ['helpdesk.users'], deps)).state).toBe('completed');
  expect(await asked(`select from sync.coverage where list = 'other'`)).toEqual([]);
  expect(await asked('select mirrored_since from sync.accounts')).toEqual([{ mirrored_since: new Date('2020-01-01') }]);

  // Nor is told what a run would leave out.
  await asked(`insert into sync.paused values ('default', 'users', now(), 'ada@desk', null, 'helpdesk')`);
  const both = await runPlan(
    config,
    warehouse,
    { kind: 'sync', streams: ['helpdesk.users', 'helpdesk.customers'] },
    deps,
  );
  expect(Object.keys(both.streams)).toEqual(['customers']);
});

test('what is planned is shown; what cannot be planned is said', async () => {
  const wrong = [['drift'], ['sync', '--since', '2024-01-01'], ['sweep'], ['verify']];
  for (const args of wrong) {
    const { code } = await command(addPlan, configFor(db.url, sandbox), 'plan', ...args);
    expect(code, args.join(' ')).toBe(exitCodes.usage);
  }
  expect((await command(addPlan, configFor(db.url, sandbox), 'plan', 'sweep')).stderr).toBe(
    'sweep cannot be planned\n`sweep` says what it takes when it starts. Choose from: sync, backfill.\n',
  );
  const { stdout, code } = await command(addPlan, configFor(db.url, sandbox), 'plan', 'sync', 'tickets', '--json');
  expect([code, Object.keys(JSON.parse(stdout).streams)]).toEqual([exitCodes.ok, ['tickets']]);
  const { stdout: shown, stderr } = await command(addPlan, configFor(db.url, sandbox), 'plan');
  expect(shown).toMatch(/^stream +requests +credits +time +from +until\n/);
  expect(stderr).toMatch(/Tickets are complete at \S+Z, their messages at \S+Z\.\n/);
  expect(stderr).toMatch(/Counted with 1 credit: .*tickets that changed, default list \(1\)/);
});

const limits: Limits = { credits: 100, periodMs: 60_000, requestsPerSecond: 6, reserve: 10 };
const [latencyMs, storeMs] = [40, 10];

/** What the real budget grants on a virtual clock, request after request. */
async function really(parts: readonly Part[]): Promise<number> {
  const pool = makePool(db.url);
  let nowMs = 1_700_000_000_000;
  const begunMs = nowMs;
  const clock: Clock = {
    now: () => nowMs,
    monotonic: () => nowMs,
    // Nobody sleeps but who waits for credits. The timer that books a reply alone has a signal of its own: the next grant is earlier.
    sleep: (ms, signal) => {
      if (signal) return new Promise((_, reject) => signal.addEventListener('abort', reject));
      nowMs += Math.ceil(ms);
      return Promise.resolve();
    },
  };
  const budget = makeBudget({
    ...{ pg: pool, clock, account: 'planned', source: 'helpdesk', limits, timeoutMs: 30_000 },
    random: Math.random,
    now: () => nowMs,
  });
  for (const { readers } of parts) {
    for (const { cost, lane, many } of readers[0]!) {
      for (let i = 0; i < many; i++) {
        const grant = await budget.acquire(cost, lane);
        nowMs += latencyMs;
        await budget.settle(grant, { headers: {}, refused: false });
        nowMs += storeMs;
      }
    }
  }
  await budget.book();
  await pool.end();
  return nowMs - begunMs;
}

test('time is what the budget really grants it', async () => {
  const parts: Part[] = [
    { stream: 'tickets', storeMs, readers: [[{ cost: 1, lane: 'fresh', many: 40 }]] },
    {
      stream: 'messages',
      storeMs,
      readers: [
        [
          { cost: 3, lane: 'backfill', many: 5 },
          { cost: 2, lane: 'backfill', many: 150 },
        ],
      ],
    },
  ];
  const rules = { ...limits, timeoutMs: 30_000 };
  const { untilMs } = timeOf(parts, { state: empty, rules, latencyMs, betweenMs: 0, beginMs: 0 }, 1_700_000_000_000);
  const took = await really(parts);
  expect(Math.abs(untilMs - 1_700_000_000_000 - took) / took).toBeLessThan(0.01);
});

test('a long tail is passed over by whole periods of the same ledger, and takes as long', () => {
  const rules = { ...limits, timeoutMs: 30_000 };
  const pace = { state: empty, rules, latencyMs, betweenMs: 0, beginMs: 0 };
  const tail = (many: number): Part[] => [
    { stream: 'messages', storeMs, readers: [[{ cost: 2, lane: 'backfill', many }]] },
  ];
  const of = (many: number) => {
    const { parts, waits } = timeOf(tail(many), pace, 0);
    return { ...parts[0]!, waits };
  };
  const long = of(100_000);
  expect(long).toMatchObject({ requests: 100_000, credits: 200_000 });
  // 90 credits a minute.
  expect(long.untilMs / 60_000).toBeCloseTo(200_000 / 90, -1);
  // The last ones are granted one by one again.
  expect(of(3001).untilMs - of(3000).untilMs).toBeLessThan(5000);
  expect(long.waits.at(-1)).toBeLessThan(5000);
});

test('others who use the account slow it down for as long as it takes; a day that is spent is slept over', () => {
  const rules = { ...limits, timeoutMs: 30_000 };
  const part: Part[] = [{ stream: 'messages', storeMs, readers: [[{ cost: 2, lane: 'backfill', many: 500 }]] }];
  const alone = timeOf(part, { state: empty, rules, latencyMs, betweenMs: 0, beginMs: 0 }, 0);
  const others = { ...empty, others: [[1000, 45]] as [number, number][] };
  const shared = timeOf(part, { state: others, rules, latencyMs, betweenMs: 0, beginMs: 0 }, 0);
  expect(shared.untilMs / alone.untilMs).toBeGreaterThan(1.9);

  const day = {
    credits: 100,
    periodMs: 86_400_000,
    requestsPerSecond: 5,
    reserve: 0,
    evenly: false,
    timeoutMs: 30_000,
    longestWaitMs: 60_000,
  };
  const volumes: Part[] = [{ stream: 'volumes', storeMs, readers: [[{ cost: 1, lane: 'fresh', many: 150 }]] }];
  const [slept] = timeOf(volumes, { state: empty, rules: day, latencyMs, betweenMs: 0, beginMs: 0 }, 0).parts;
  expect(slept!.deferredUntilMs).toBeGreaterThan(80_000_000);
  expect(slept!.untilMs).toBeGreaterThan(86_400_000);
});
