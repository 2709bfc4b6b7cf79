/**
 * The row of the budget in a real PostgreSQL: small stories of processes that share it. An answer is lost, another process is
 * faster, the clock of a machine is wrong, somebody gives up. What the row must hold is what the ledger makes of the same steps.
 */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type * as budgets from '../../../../src/engine/budget/budget.ts';
import type { Reply, Rules, State } from '../../../../src/engine/budget/ledger.ts';
import * as ledger from '../../../../src/engine/budget/ledger.ts';

export type Budgets = Pick<typeof budgets, 'makeBudget'>;

const limits = { credits: 10, periodMs: 60_000, requestsPerSecond: 100, reserve: 1 };
const beginMs = 1_800_000_000_000;
const account = 'acme';
const answered: Reply = { headers: {}, refused: false };
const hourMs = 3_600_000;
/** A reply that nobody waits for is booked alone after this time, and no other sleep of these stories is as long. */
const bookWithinMs = 2000;
/** What nobody may touch: another source, and another account. */
const bystanders = [
  [account, 'books'],
  ['umbrella', 'helpdesk'],
] as const;

type Statement = { name: string; text: string; values: unknown[] };

/** The machine on which a process runs. Sleep is all that makes time pass. */
function machine() {
  const it = {
    ms: beginMs,
    slept: [] as number[],
    /** Ends the wait of a process that has not booked a reply. */
    due: undefined as (() => void) | undefined,
    now: () => it.ms,
    monotonic: () => it.ms,
    async sleep(ms: number, signal?: AbortSignal) {
      signal?.throwIfAborted();
      if (ms === bookWithinMs)
        return new Promise<void>((resolve, reject) => {
          it.due = resolve;
          signal?.addEventListener('abort', () => reject(signal.reason));
        });
      if (it.slept.push(ms) > 200) throw new Error('a process sleeps again and again');
      it.ms += ms;
    },
  };
  return it;
}

function open(pool: pg.Pool, { makeBudget }: Budgets) {
  let seed = 0;
  const clock = machine();
  const it = {
    pool,
    clock,
    /** A process with a budget of its own. Before and after each statement it may be disturbed. */
    process(change: Partial<budgets.BudgetDeps> = {}, simulated: Pick<budgets.BudgetDeps, 'now'> = { now: clock.now }) {
      const own = ++seed / 128;
      let drawn = 0;
      const sent: string[] = [];
      const durable: string[] = [];
      const disturb: { before?: (name: string) => unknown; after?: (name: string) => unknown } = {};
      const query = async (statement: Statement) => {
        const { name } = statement;
        if (sent.push(name) > 300) throw new Error('a process asks again and again');
        await disturb.before?.(name);
        const result = await pool.query(statement);
        if (result.rows[0]?.set_config === 'on') durable.push(name);
        await disturb.after?.(name);
        return result;
      };
      const budget = makeBudget({
        ...{ pg: { query } as unknown as pg.Pool, clock, account, source: 'helpdesk', limits, timeoutMs: 9000 },
        // A multiple of one in 2^40, so that the id says it.
        random: () => own + ++drawn / 2 ** 20,
        ...simulated,
        ...change,
      });
      return { ...budget, sent, durable, disturb };
    },
    /** Processes that know the time from their machine and from the answers of the database. */
    onItsOwnClock() {
      const ours = { skewMs: 0 };
      const own = { ...clock, monotonic: () => performance.now() + ours.skewMs };
      return { ours, process: () => it.process({ clock: own }, {}) };
    },
    async nowMs(): Promise<number> {
      const { rows } = await pool.query('select extract(epoch from clock_timestamp())::float8 * 1000 as ms');
      return rows[0].ms;
    },
    async row(source = 'helpdesk'): Promise<{ state: State; version: number }> {
      const { rows } = await pool.query(
        'select state, version::float8 as version from sync.budget where account_id = $1 and source = $2',
        [account, source],
      );
      return rows[0];
    },
    async minutes() {
      const { rows } = await pool.query(
        `select extract(epoch from minute)::float8 * 1000 - $2 as at, credit_limit::int as limit, interactive::int, fresh::int, backfill::int,
           sweep::int, others::int, waited_ms::int as waited, refused::int, took_ms::int as took, requests::int,
           followed::int, between_ms::int as between
         from sync.credit_minutes where account_id = $1 and source = 'helpdesk' order by minute`,
        [account, beginMs],
      );
      return rows;
    },
  };
  return it;
}
type Desk = ReturnType<typeof open>;

const minute = {
  ...{ at: 0, limit: 10, interactive: 0, fresh: 0, backfill: 0, sweep: 0, others: 0, waited: 0, refused: 0 },
  ...{ took: 0, requests: 0, followed: 0, between: 0 },
};
const rejection = async (what: Promise<unknown>): Promise<Error> => {
  const error = await what.then(
    () => undefined,
    (error: Error) => error,
  );
  assert(error, 'nothing is rejected');
  return error;
};

/** Sends a request, hears its reply, and books it. */
async function spend(process: Sender, lane: ledger.Lane = 'fresh'): Promise<void> {
  await process.settle(await process.acquire(1, lane), answered);
  await process.book();
}

/** The row is what the ledger makes of the same steps, one after the other. */
async function rowIs(desk: Desk, steps: (state: State) => State): Promise<void> {
  const { state, version } = await desk.row();
  assert.deepEqual(state, JSON.parse(JSON.stringify(steps(ledger.empty))));
  const others = await desk.pool.query('select version::int from sync.budget where (account_id, source) <> ($1, $2)', [
    account,
    'helpdesk',
  ]);
  assert.deepEqual(
    others.rows.map(one => one.version),
    bystanders.map(() => 1),
  );
  assert.equal(version === 1, state.atMs === 0);
}

const rules: Rules = { ...limits, timeoutMs: 9000 };
const at = (ms: number) => ({ earliestMs: beginMs + ms, latestMs: beginMs + ms });
const asks =
  (ms: number, { id, lane, cost }: budgets.Grant) =>
  (state: State) =>
    ledger.acquire(state, at(ms), { id, lane, cost }, rules).state;
const hears =
  (ms: number, { id }: budgets.Grant, heardMs = ms) =>
  (state: State) =>
    ledger.settle(state, at(ms), id, answered, rules, at(heardMs)).state;
const all =
  (...steps: ((state: State) => State)[]) =>
  (state: State) =>
    steps.reduce((before, step) => step(before), state);

const stories: Readonly<Record<string, (desk: Desk) => Promise<void>>> = {
  async 'one request after the other'(desk) {
    const one = desk.process();
    const a = await one.acquire(2, 'interactive');
    assert.deepEqual([a.lane, a.cost], ['interactive', 2]);
    await rowIs(desk, asks(0, a));
    desk.clock.ms += 50;
    assert.deepEqual(Object.keys(await one.settle(a, answered)), ['asOfMs']);
    await rowIs(desk, all(asks(0, a), hears(50, a)));
    // A second time it is nothing.
    assert.deepEqual(await one.settle(a, answered), { asOfMs: 0 });
    desk.clock.ms += 1000;
    const b = await one.acquire(1, 'fresh');
    await one.settle(b, answered);
    desk.clock.ms += 1001;
    const c = await one.acquire(3, 'fresh');
    await one.settle(c, answered);
    assert.notEqual(b.id, c.id);
    // The last reply is in flight for others until it is booked.
    const steps = [asks(0, a), hears(50, a), asks(1050, b), hears(1050, b), asks(2051, c)];
    await rowIs(desk, all(...steps));
    await one.book();
    await rowIs(desk, all(...steps, hears(2051, c)));
    await one.book();
    const counted = { interactive: 2, fresh: 4, took: 53, requests: 3, followed: 1, between: 1000 };
    assert.deepEqual(await desk.minutes(), [{ ...minute, ...counted }]);
    // The row is read and made once. The first reply is booked at once, and the others with what is written next. Only a grant
    // waits for the disk.
    const begun = ['budget-read', 'budget-create', 'budget-read', 'budget-grant', 'budget-book'];
    assert.deepEqual(one.sent, [...begun, 'budget-grant', 'budget-book-durably', 'budget-book']);
    assert.deepEqual(one.durable, ['budget-grant', 'budget-grant', 'budget-book-durably']);
  },
  async 'a reply is booked alone in time'(desk) {
    const one = desk.process();
    await spend(one);
    const a = await one.acquire(2, 'fresh');
    desk.clock.ms += 100;
    await one.settle(a, answered);
    const { due } = desk.clock;
    assert.equal((await desk.row()).state.flights.length, 1);
    desk.clock.ms += bookWithinMs;
    const booked = new Promise<void>(resolve => (one.disturb.after = () => resolve()));
    due?.();
    await booked;
    const { state } = await desk.row();
    assert.deepEqual([state.flights, state.lastReplyMs], [[], beginMs + 101]);
    assert.equal(one.sent.at(-1), 'budget-book');
    // What is written with a grant is not written again.
    await one.settle(await one.acquire(1, 'fresh'), answered);
    await one.acquire(1, 'fresh');
    const before = one.sent.length;
    desk.clock.ms += bookWithinMs;
    desk.clock.due?.();
    await one.book();
    assert.equal(one.sent.length, before);
  },
  async 'a reply that is heard while another is booked is booked in time, too'(desk) {
    const one = desk.process();
    await spend(one);
    const [a, b] = [await one.acquire(1, 'fresh'), await one.acquire(2, 'fresh')];
    await one.settle(a, answered);
    desk.clock.due = undefined;
    await Promise.all([one.book(), one.settle(b, answered)]);
    assert.deepEqual(
      (await desk.row()).state.flights.map(({ id }) => id),
      [b.id],
    );
    const due = desk.clock.due as (() => void) | undefined;
    assert(due, 'nobody waits to book it');
    desk.clock.ms += bookWithinMs;
    const booked = new Promise<void>(resolve => (one.disturb.after = () => resolve()));
    due();
    await booked;
    assert.deepEqual((await desk.row()).state.flights, []);
  },
  async 'a reply is booked with the next grant, though another process was faster'(desk) {
    const [one, two] = [desk.process(), desk.process()];
    const first = await one.acquire(1, 'fresh');
    await one.settle(first, answered);
    const a = await one.acquire(2, 'fresh');
    desk.clock.ms += 100;
    await one.settle(a, answered);
    desk.clock.ms += 300;
    const b = await two.acquire(1, 'fresh');
    await two.settle(b, answered);
    const c = await one.acquire(1, 'fresh');
    const begun = [asks(0, first), hears(0, first), asks(0, a), asks(400, b)];
    await rowIs(desk, all(...begun, hears(400, a, 100), asks(400, c)));
    await two.book();
    await rowIs(desk, all(...begun, hears(400, a, 100), asks(400, c), hears(400, b)));
    await one.settle(c, answered);
    await one.book();
    assert.deepEqual(await desk.minutes(), [
      { ...minute, fresh: 5, took: 104, requests: 4, followed: 2, between: 300 },
    ]);
  },
  async 'a booking fails, and goes with the next grant'(desk) {
    const one = desk.process();
    await spend(one);
    await one.settle(await one.acquire(2, 'fresh'), answered);
    one.disturb.before = () => {
      throw new Error('away');
    };
    await one.book();
    one.disturb.before = () => {};
    await one.acquire(1, 'fresh');
    assert.deepEqual(one.sent.slice(-3), ['budget-book', 'budget-read', 'budget-book-durably']);
    assert.deepEqual(await desk.minutes(), [{ ...minute, fresh: 3, took: 2, requests: 2, followed: 1 }]);
  },
  async 'a refusal that cannot be booked stops this process all the same'(desk) {
    const one = desk.process({ limits: { ...limits, evenly: false } });
    await spend(one);
    const a = await one.acquire(1, 'fresh');
    one.disturb.before = () => {
      throw new Error('away');
    };
    const refused: Reply = { headers: {}, refused: true, freezeMs: 3000 };
    assert.equal((await rejection(one.settle(a, refused))).message, 'away');
    one.disturb.before = () => {};
    await one.acquire(1, 'fresh');
    assert.deepEqual(desk.clock.slept, [3001]);
  },
  async 'a refusal stops its process, though the row is not known when it is heard'(desk) {
    const one = desk.process({ limits: { ...limits, credits: 100 } });
    await spend(one);
    const a = await one.acquire(1, 'fresh');
    one.disturb.before = () => {
      throw new Error('away');
    };
    assert.equal((await rejection(one.acquire(1, 'fresh'))).message, 'away');
    const refused: Reply = { headers: {}, refused: true, freezeMs: 3000 };
    assert.equal((await rejection(one.settle(a, refused))).message, 'away');
    one.disturb.before = () => {};
    await one.acquire(1, 'fresh');
    assert.deepEqual(desk.clock.slept, [3001]);
    const [{ refused: noted, requests }] = await desk.minutes();
    assert.deepEqual([noted, requests], [1, 2]);
  },
  async 'requests fly together'(desk) {
    const one = desk.process({ limits: { ...limits, credits: 100 } });
    await one.settle(await one.acquire(1, 'fresh'), answered);
    desk.clock.ms += 56_000;
    await one.settle(await one.acquire(1, 'interactive'), answered);
    desk.clock.ms += 10;
    const [a, b] = await Promise.all([one.acquire(1, 'backfill'), one.acquire(1, 'sweep')]);
    desk.clock.ms += 5000;
    await one.settle(b, { headers: { limit: 50, remaining: 40, used: 1.5, resetSeconds: 10 }, refused: false });
    await one.settle(a, answered);
    const [first, second] = await desk.minutes();
    const before = { fresh: 1, interactive: 1, requests: 2, took: 2 };
    assert.deepEqual(first, { ...minute, ...before, limit: 100 });
    const after = { limit: 50, others: 6, took: 2 * 5001, requests: 2, followed: 1, between: 10 };
    assert.deepEqual(second, { ...minute, ...after, at: 60_000, backfill: 1, sweep: 2 });
  },
  async 'a minute sums up'(desk) {
    const one = desk.process({ limits: { ...limits, credits: 100, evenly: false } });
    const refused: Reply = { headers: { used: 1 }, refused: true, freezeMs: 0 };
    for (const [n, lane] of ledger.lanes.entries())
      for (const reply of [answered, refused, answered, refused]) {
        await one.settle(await one.acquire(n + 1, lane), reply);
        desk.clock.ms += 100;
      }
    const lanes = { interactive: 4, fresh: 6, backfill: 8, sweep: 10 };
    const sums = { limit: 100, refused: 8, took: 16, requests: 16, followed: 15, between: 1500 };
    assert.deepEqual(await desk.minutes(), [{ ...minute, ...lanes, ...sums }]);
  },
  async 'a refusal stops both processes, and is on the disk'(desk) {
    // Where a refusal says nothing of others.
    const change = { limits: { ...limits, evenly: false } };
    const [one, two] = [desk.process(change), desk.process(change)];
    const a = await one.acquire(1, 'fresh');
    const until = await one.settle(a, {
      headers: { limit: 10, remaining: 3, used: 0, resetSeconds: 5 },
      refused: true,
    });
    assert.deepEqual(until.until, new Date(beginMs + 6001));
    const told: number[] = [];
    await two.settle(await two.acquire(1, 'fresh', undefined, ms => told.push(ms)), answered);
    assert.deepEqual(
      [told, desk.clock.slept],
      [
        [6001, 1001],
        [5000, 1001],
      ],
    );
    await two.book();
    const sums = { fresh: 1, waited: 6001, refused: 1, took: 2, requests: 2 };
    assert.deepEqual(await desk.minutes(), [{ ...minute, ...sums }]);
    assert.deepEqual([one.durable, two.durable], [['budget-grant', 'budget-book-durably'], ['budget-grant']]);
    assert.deepEqual(two.sent, ['budget-read', 'budget-write', 'budget-write', 'budget-grant', 'budget-book']);
  },
  async 'another process is faster, at every statement'(desk) {
    for (const [name, losses] of [
      ['budget-read', 0],
      ['budget-grant', 25],
      ['budget-book', 2],
    ] as const) {
      const change = { limits: { ...limits, credits: 100 } };
      const [one, two] = [desk.process({ ...change, random: () => 1 / 4 }), desk.process(change)];
      await spend(two);
      let left = losses || 1;
      one.disturb.before = async now => {
        if (now !== name || left-- <= 0) return;
        await spend(two);
      };
      desk.clock.slept = [];
      await spend(one);
      const { state } = await desk.row();
      assert.deepEqual([state.flights, state.waits], [[], []]);
      assert.equal(
        state.spent.reduce((sum, [, , fresh]) => sum + fresh, 0),
        (losses || 1) + 2,
      );
      // The first loss costs no pause, and each further one a longer one.
      const pauses = Array.from({ length: Math.max(0, losses - 1) }, (_, n) => Math.min(n + 1, 20) / 2);
      assert.deepEqual(desk.clock.slept, pauses);
      desk.clock.ms += 200_000;
    }
    const minutes = await desk.minutes();
    assert.equal(
      minutes.reduce((sum, { fresh }) => sum + fresh, 0),
      1 + 25 + 2 + 3 * 2,
    );
    assert.equal(
      minutes.reduce((sum, { requests }) => sum + requests, 0),
      1 + 25 + 2 + 3 * 2,
    );
  },
  async 'the answer of a grant is lost'(desk) {
    const one = desk.process();
    await one.settle(await one.acquire(1, 'fresh'), answered);
    lose(one, 'budget-grant');
    assert.equal((await rejection(one.acquire(2, 'fresh'))).message, 'lost');
    // It holds its credits until its deadline, and a period.
    assert.deepEqual(
      (await desk.row()).state.flights.map(({ cost }) => cost),
      [2],
    );
    await spend(one);
    assert.deepEqual(await desk.minutes(), [{ ...minute, fresh: 2, requests: 2, took: 2, followed: 1 }]);
    const before = one.sent.length;
    desk.clock.ms += 80_000;
    await one.settle(await one.acquire(9, 'fresh'), answered);
    assert.deepEqual(one.sent.slice(before), ['budget-grant', 'budget-book']);
  },
  async 'the answer of a booking is lost, and it is booked again'(desk) {
    const one = desk.process();
    const a = await one.acquire(2, 'fresh');
    lose(one, 'budget-book');
    assert.equal((await rejection(one.settle(a, answered))).message, 'lost');
    assert.deepEqual(Object.keys(await one.settle(a, answered)), ['asOfMs']);
    await rowIs(desk, all(asks(0, a), hears(0, a)));
    assert.deepEqual(await desk.minutes(), [{ ...minute, fresh: 2, took: 1, requests: 1 }]);
  },
  async 'the database loses what was not on the disk'(desk) {
    const [one, two] = [desk.process(), desk.process()];
    await one.settle(await one.acquire(1, 'fresh'), answered);
    const a = await one.acquire(2, 'fresh');
    const { state, version } = await desk.row();
    await one.settle(a, answered);
    await one.book();
    await desk.pool.query(
      `update sync.budget set state = $1, version = $2 where (account_id, source) = ('acme', 'helpdesk')`,
      [state, version],
    );
    // What others do in its place is not written over.
    const b = await two.acquire(3, 'fresh');
    const c = await one.acquire(1, 'fresh');
    assert.deepEqual(
      (await desk.row()).state.flights.map(({ id }) => id),
      [a.id, b.id, c.id],
    );
  },
  async 'a process dies with a request in flight, and others are there'(desk) {
    const { one, two, ask, die } = await twoAmongOthers(desk);
    const dies = await ask(one);
    await die();
    const before = two.sent.length;
    const told: unknown[] = [];
    const b = await two.acquire(1, 'fresh', undefined, (...wait) => told.push(wait));
    // It looks when a reply takes unusually long, and does not wait for it any longer.
    assert.deepEqual(
      told,
      [10_000, 9800, 9600, 9400, 9200].map(ms => [ms, 'reply']),
    );
    assert.deepEqual(two.sent.slice(before).slice(-4), ['budget-write', 'budget-dead', 'budget-write', 'budget-grant']);
    const { flights } = (await desk.row()).state;
    assert.deepEqual(
      flights.map(({ id, orphaned }) => [id, orphaned]),
      [
        [dies.id, true],
        [b.id, undefined],
      ],
    );
    // It was cut off from the database, and has heard its reply all the same.
    await one.settle(dies, answered);
    await two.settle(b, answered);
    assert.deepEqual((await desk.row()).state.flights, []);
  },
  async 'a living process takes its time, and others are there'(desk) {
    const { one, two, ask, die } = await twoAmongOthers(desk);
    await ask(one);
    await two.acquire(1, 'fresh');
    assert.deepEqual(
      [desk.clock.ms - beginMs >= 20_000, two.sent.filter(name => name === 'budget-dead').length],
      [true, 9],
    );
    // Nobody takes itself for dead.
    await die();
    const itself = desk.process({ sender: () => 8, limits: plenty });
    await itself.acquire(1, 'fresh');
    assert.equal(itself.sent.includes('budget-dead'), false);
  },
  async 'an older program knew less'(desk) {
    await desk.pool.query(`insert into sync.budget (account_id, source, state) values ('acme', 'helpdesk', '{}')`);
    const one = desk.process();
    const a = await one.acquire(2, 'fresh');
    await rowIs(desk, asks(0, a));
  },
  async 'a failure holds up nobody behind it'(desk) {
    const one = desk.process();
    await one.settle(await one.acquire(1, 'fresh'), answered);
    lose(one, 'budget-grant');
    const done = await Promise.allSettled([one.acquire(1, 'fresh'), one.acquire(1, 'fresh'), one.thaw()]);
    assert.deepEqual(
      done.map(({ status }) => status),
      ['rejected', 'fulfilled', 'fulfilled'],
    );
    // One after the other: the first had lost its answer before the second was sent.
    assert.deepEqual(one.sent.slice(-4), ['budget-grant', 'budget-read', 'budget-grant', 'budget-write']);
  },
  async 'somebody gives up'(desk) {
    const one = desk.process();
    const reason = new Error('enough');
    assert.equal(await rejection(one.acquire(1, 'fresh', AbortSignal.abort(reason))), reason);
    assert.deepEqual(one.sent, []);
    const late = new AbortController();
    one.disturb.after = name => {
      if (name === 'budget-grant') late.abort(reason);
    };
    assert.equal(await rejection(one.acquire(9, 'fresh', late.signal)), reason);
    one.disturb.after = () => {};
    await one.settle(await one.acquire(9, 'fresh'), answered);
    const { state } = await desk.row();
    assert.deepEqual(state.flights, []);
    assert.deepEqual(desk.clock.slept, []);
    const waiting = new AbortController();
    const ends = one.acquire(1, 'fresh', waiting.signal, () => waiting.abort(reason));
    assert.equal(await rejection(ends), reason);
    // It is not held up by what hangs.
    const hangs = Promise.withResolvers<void>();
    const stuck = new AbortController();
    one.disturb.before = () => {
      stuck.abort(reason);
      return hangs.promise;
    };
    assert.equal(await rejection(one.acquire(1, 'interactive', stuck.signal)), reason);
    assert.equal(await rejection(one.acquire(1, 'interactive', AbortSignal.abort(reason))), reason);
    // Nor does it ask for anything once its turn comes.
    const behind = new AbortController();
    const queued = rejection(one.acquire(9, 'interactive', behind.signal));
    behind.abort(reason);
    assert.equal(await queued, reason);
    const before = one.sent.length;
    one.disturb.before = () => {};
    hangs.resolve();
    await one.thaw();
    assert.deepEqual(one.sent.slice(before), ['budget-write']);
    assert.deepEqual((await desk.row()).state.flights, []);
  },
  async 'what would wait too long is told so'(desk) {
    const change = { longestWaitMs: 10_000, label: 'the shelf' };
    const one = desk.process(change);
    await one.settle(await one.acquire(9, 'fresh'), answered);
    const spent = (await rejection(one.acquire(1, 'fresh'))) as Error & { until: Date };
    assert.deepEqual([spent.name, spent.until], ['Spent', new Date(beginMs + 60_001)]);
    assert.equal(spent.message.split(';')[0], 'the shelf asked for a pause');
    for (const [freezeMs, what] of [
      [hourMs - 60_001, 'the shelf asked for a pause'],
      [hourMs - 60_000, 'the quota of the shelf is used up'],
    ] as const) {
      desk.clock.ms += 2 * hourMs;
      const daily = desk.process({ ...change, limits: { ...limits, periodMs: 24 * hourMs, evenly: false } });
      await daily.settle(await daily.acquire(1, 'fresh'), { headers: {}, refused: true, freezeMs: freezeMs - 1 });
      assert.equal((await rejection(daily.acquire(1, 'fresh'))).message.split(';')[0], what);
    }
    await one.thaw();
    await one.settle(await one.acquire(1, 'fresh'), answered);
    assert.deepEqual(desk.clock.slept, []);
  },
  async 'what can never be sent is refused'(desk) {
    const one = desk.process();
    assert.match(
      (await rejection(one.acquire(10, 'fresh'))).message,
      /^a request of 10 credits can never .* 1 is reserved/,
    );
    const two = desk.process({ limits: { ...limits, reserve: 2 } });
    assert.match((await rejection(two.acquire(9, 'fresh'))).message, / 2 are reserved/);
    assert.deepEqual(one.sent, []);
    assert.equal((await one.acquire(9, 'fresh')).cost, 9);
  },
  async 'a short wait of backfill writes nothing'(desk) {
    const one = desk.process({ limits: { ...limits, credits: 60, reserve: 0 } });
    const told: number[] = [];
    const request = async () => one.settle(await one.acquire(3, 'backfill', undefined, ms => told.push(ms)), answered);
    await request();
    await request();
    desk.clock.ms += 1000;
    const before = one.sent.length;
    await request();
    // A credit a second, less the 3.5 s that it may make up for.
    assert.deepEqual([told, desk.clock.slept], [[1500], [1500]]);
    assert.deepEqual(one.sent.slice(before), ['budget-book-durably']);
    desk.clock.ms += 1001;
    const two = desk.process({ limits: { ...limits, credits: 60, reserve: 0 } });
    await two.acquire(1, 'backfill');
    assert.deepEqual(two.sent, ['budget-read', 'budget-grant']);
    await one.book();
    const sums = { limit: 60, backfill: 9, waited: 1500, took: 3, requests: 3, followed: 2, between: 1000 };
    assert.deepEqual(await desk.minutes(), [{ ...minute, ...sums }]);
  },
  async 'a machine whose clock is wrong'(desk) {
    const { ours, process } = desk.onItsOwnClock();
    const one = process();
    await one.settle(await one.acquire(9, 'fresh'), answered);
    // A little too late is not noticed; ahead, or late by more, the row is read again.
    for (const [skewMs, sent] of [
      [-600, ['budget-write']],
      [-1400, ['budget-write', 'budget-read', 'budget-write']],
      [hourMs, ['budget-grant', 'budget-read', 'budget-write']],
    ] as const) {
      const before = one.sent.length;
      ours.skewMs += skewMs;
      const waits = new AbortController();
      await rejection(one.acquire(1, 'fresh', waits.signal, () => waits.abort(new Error('enough'))));
      assert.deepEqual(one.sent.slice(before), sent);
    }
    // What is read again counts from then on, whatever the machine says.
    ours.skewMs -= hourMs;
    const two = process();
    two.disturb.before = () => {
      ours.skewMs -= 2000;
    };
    await two.thaw();
    assert.deepEqual(two.sent, ['budget-read', 'budget-write', 'budget-read', 'budget-write']);
  },
  async 'a slow answer leaves the time unsure'(desk) {
    const { ours, process } = desk.onItsOwnClock();
    const one = process();
    await one.settle(await one.acquire(1, 'fresh'), answered);
    one.disturb.after = () => {
      ours.skewMs += 700;
    };
    await one.thaw();
    const nowMs = await desk.nowMs();
    await one.acquire(1, 'fresh');
    const { flights, lastGrantMs } = (await desk.row()).state;
    const { grantedMs } = flights[0]!;
    assert(Math.abs(lastGrantMs - grantedMs - 700) < 100, `unsure by ${lastGrantMs - grantedMs} ms`);
    const waits = new AbortController();
    const told: number[] = [];
    const stop = (ms: number) => {
      told.push(ms);
      waits.abort(new Error('enough'));
    };
    await rejection(one.acquire(9, 'fresh', waits.signal, stop));
    assert(told[0]! > 4990, `to wait ${told[0]} ms`);
    assert(Math.abs(grantedMs - nowMs) < 300, `granted ${grantedMs - nowMs} ms late`);
  },
  async 'the clock of the source is set back'(desk) {
    await desk.pool.query('insert into sync.accounts (account_id) values ($1) on conflict do nothing', [account]);
    await desk.pool.query(`delete from sync.coverage`);
    await desk.pool.query(
      `insert into sync.coverage (account_id, source, stream, list, covered)
       values ($1, 'helpdesk', 'tickets', 'default', tstzmultirange(tstzrange(null, to_timestamp($2::float8 / 1000))))`,
      [account, beginMs],
    );
    const one = desk.process({ clockToleranceMs: 120_000 });
    const told = async (dateMs: number) =>
      (await one.settle(await one.acquire(1, 'fresh'), { ...answered, dateMs })).clock;
    assert.deepEqual(await told(beginMs), { moves: 0, byMs: 0, steady: true });
    assert.equal((await desk.row()).state.records?.leastMs, 0);
    desk.clock.ms += 5000;
    const moved = await told(beginMs - hourMs);
    assert.equal(moved?.steady, false);
    const { rows } = await desk.pool.query(
      'select extract(epoch from upper(covered))::float8 * 1000 as ms from sync.coverage',
    );
    assert.deepEqual(rows, [{ ms: moved?.voidFromMs }]);
    const deaf = desk.process();
    const { clock, asOfMs } = await deaf.settle(await deaf.acquire(1, 'fresh'), { ...answered, dateMs: beginMs });
    assert.equal(clock, undefined);
    assert(asOfMs !== undefined && asOfMs <= beginMs, `as of ${asOfMs}`);
    assert.notEqual((await desk.row()).state.clock, null);
  },
};

/** Two processes that hold their locks, and a reply that has told of others. */
async function twoAmongOthers(desk: Desk) {
  const locks = new pg.Client({ connectionString: desk.pool.options.connectionString });
  await locks.connect();
  await locks.query('select pg_advisory_lock(1397248855, n) from generate_series(7, 8) n');
  const [one, two] = [7, 8].map(id => desk.process({ sender: () => id, limits: plenty })) as [Sender, Sender];
  const ask = (process: Sender) => process.acquire(1, 'fresh');
  const headers = { limit: 1000, remaining: 990, used: 1, resetSeconds: 60 };
  await one.settle(await ask(one), { headers, refused: false });
  desk.clock.ms += 11_000;
  const die = async () => {
    await locks.query('select pg_advisory_unlock_all()');
    await locks.end();
  };
  return { one, two, ask, die };
}
/** So that the even pace is no wait. */
const plenty = { ...limits, credits: 1000 };
type Sender = ReturnType<Desk['process']>;

/** The next such statement is done, and its answer does not come. */
function lose({ disturb }: ReturnType<Desk['process']>, name: string): void {
  disturb.after = now => {
    if (now !== name) return;
    disturb.after = () => {};
    throw new Error('lost');
  };
}

async function inTime(story: Promise<void>): Promise<void> {
  const ended = new AbortController();
  const late = async () => {
    await delay(30_000, undefined, { signal: ended.signal });
    throw new Error('it never ends');
  };
  await Promise.race([story, late()]).finally(() => ended.abort());
}

export async function rowWrong(url: string, product: Budgets): Promise<string | undefined> {
  const pool = new pg.Pool({ connectionString: url, max: 1, options: '-c synchronous_commit=off' });
  // Its database is dropped before the last connection has ended.
  pool.on('error', () => {});
  try {
    for (const [name, play] of Object.entries(stories)) {
      await pool.query('delete from sync.budget; delete from sync.credit_minutes');
      for (const [whose, source] of bystanders)
        await pool.query('insert into sync.budget (account_id, source, state) values ($1, $2, $3)', [
          ...[whose, source],
          JSON.stringify(ledger.empty),
        ]);
      const wrong = await inTime(play(open(pool, product))).then(
        () => undefined,
        (error: Error) => `${name}: ${error.message.replaceAll(/\s+/g, ' ')}`,
      );
      if (wrong) return wrong;
      const { rows } = await pool.query('show synchronous_commit');
      if (rows[0].synchronous_commit !== 'off') return `${name}: from now on every statement waits for the disk`;
    }
    return undefined;
  } finally {
    await pool.end();
  }
}
