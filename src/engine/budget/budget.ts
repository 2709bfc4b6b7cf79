/**
 * The credits of an account at one source, shared by all processes and machines: one row in PostgreSQL. The pure ledger
 * computes each change, and a compare-and-set writes it. The last state is cached, so a change usually costs one statement.
 * Within a process changes queue up, so that they do not compete.
 *
 * Only a grant has to be in the row before its request leaves. A reply changes the cached state at once, and is booked with
 * the next statement: until then it is in flight for others, as after a death of this process. One that others wait for is
 * booked at once.
 *
 * All times are the database's. Between two statements the time is estimated from the last answer and the monotonic
 * clock of this machine: a statement sent at s and answered at r with database time d bounds the time at any m by [d +
 * (m − r), d + (m − s)]. A statement that finds the estimate wrong (a clock was set, a laptop was suspended) changes
 * nothing, and the state is read anew.
 */
import { createHash } from 'node:crypto';
import type pg from 'pg';
import type { Clock } from '../../clock.ts';
import { Spent, UsageError } from '../../errors.ts';
import { count } from '../../words.ts';
import type { ClocksTold } from './clocks.ts';
import type { Awaited, Lane, Limits, Moment, Reply, Rules, Settled, State } from './ledger.ts';
import * as ledger from './ledger.ts';
import { countSql, minutesOf } from './minutes.ts';

export type { Awaited, Lane, Limits, RateHeaders } from './ledger.ts';

export interface Grant {
  id: string;
  lane: Lane;
  cost: number;
}

/** With what the reply told about the clocks of the source. */
export interface Booked extends ClocksTold {
  /** After a refusal: no request is sent before this time. */
  until?: Date;
}

type OnWait = (ms: number, awaits: Awaited) => void;

export interface Budget {
  /**
   * Waits until a request of this cost may be sent. Rejects with the reason of the signal when it aborts. Rejects with
   * `Spent` immediately if the wait would exceed `longestWaitMs`. `onWait` is told of each wait: how long it is expected
   * to last, in ms, and what for.
   */
  acquire(cost: number, lane: Lane, signal?: AbortSignal, onWait?: OnWait): Promise<Grant>;
  /**
   * Call it once for each grant, after the reply (or after a time-out or reset, with empty headers). A second call does
   * nothing.
   */
  settle(grant: Grant, reply: Reply): Promise<Booked>;
  /** Books what was heard, if anything is not booked yet. What fails stays for the next statement: it never rejects. */
  book(): Promise<void>;
  /** Lifts the freeze of a refusal, because a person asks by hand. Our own use still counts. */
  thaw(): Promise<void>;
}

export interface BudgetDeps {
  /** Its statements are named, so that a session can keep their plans: see makeLedgerPool. */
  pg: pg.Pool;
  clock: Clock;
  account: string;
  /** Each source has its own credits: `helpdesk`. */
  source: string;
  limits: Limits;
  /** Without it, every request waits as long as it takes. */
  longestWaitMs?: number;
  /** The source as people call it. */
  label?: string;
  /** The longest time that a request may take. After that its sender counts as dead. */
  timeoutMs: number;
  /** Watches the clock of the source: a change beyond this counts as a move. */
  clockToleranceMs?: number;
  random: () => number;
  /**
   * The number of this process in `sync.workers`, as soon as it has one. Others see by it whether the sender of a request
   * still lives.
   */
  sender?: () => number | undefined;
  /** Replaces the database's clock, for a simulation. */
  now?: () => number;
}

/** `state` has what this process has heard; the row of this version may lack it. */
interface Row {
  state: State;
  version: number;
}
interface Change {
  state: State;
  /** The state is unchanged except for the time, so nothing is written. */
  unmarked?: number | undefined;
  granted?: boolean;
}
/** A reply that is in the state, and not in the row. */
interface Unbooked {
  readonly id: string;
  readonly reply: Reply;
  readonly betweenMs: number | undefined;
  readonly at: Moment;
  readonly heardMs: number;
  /** Undefined until the row is read, if it was not known when the reply was heard. */
  settled?: Settled;
}

const clockMs = 'extract(epoch from clock_timestamp())::float8 * 1000';

const readSql = `select state, version::float8 as version, ${clockMs} as clock_ms
  from sync.budget where account_id = $1 and source = $2`;

const createSql = 'insert into sync.budget (account_id, source, state) values ($1, $2, $3) on conflict do nothing';

/** $5 and $6: the change is valid if the time of the database is between them. $7: the next version. */
const changed = `
  update sync.budget set state = $3, version = $7
  where account_id = $1 and source = $2 and version = $4 and ${clockMs} between $5 and $6`;

const writeSql = `${changed} returning ${clockMs} as clock_ms`;

const deadSql = 'select id from unnest($1::int[]) id where not sync.is_alive(id)';

/**
 * The statement is on the disk when it has answered. A grant that a power cut took back would be given once more, while
 * its request was sent; a refusal that it took back would be asked for again.
 */
const durably = `set_config('synchronous_commit', 'on', true)`;

/** $8: what is booked, by minutes. If the clock of the source moved back, to $9, the same statement voids the claims behind it. */
const bookSql = `
  with changed as (${changed} returning account_id, source), counted as (${countSql('changed', '$8')})
  select ${clockMs} as clock_ms,
    case when $9::float8 is not null then sync.void_since(account_id, source, to_timestamp($9 / 1000)) end`;

const statements = {
  'budget-write': writeSql,
  'budget-grant': `${writeSql}, ${durably}`,
  'budget-book': `${bookSql} from changed`,
  'budget-book-durably': `${bookSql}, ${durably} from changed`,
};

/**
 * The version of a state is its digest. A number that grows would be given twice: to a change that a crash of the database
 * took back, and to the one that came in its place. A process that still knows the lost state would then write over the other.
 */
const versionOf = (state: string): number => createHash('sha1').update(state).digest().readUIntBE(0, 6);

/** A reply that nobody waits for is booked alone if nothing else is written in this time. */
const bookWithinMs = 2000;

/** Between two looks at whether senders live. */
const lookMs = 1000;

/** How far the estimated clock may lag when a reply is stamped. */
const lagMs = 1000;

export function makeBudget(deps: BudgetDeps): Budget {
  const { clock, limits } = deps;
  const rules: Rules = {
    ...limits,
    timeoutMs: deps.timeoutMs,
    ...(deps.longestWaitMs !== undefined && { longestWaitMs: deps.longestWaitMs }),
    ...(deps.clockToleranceMs !== undefined && { clockToleranceMs: deps.clockToleranceMs }),
  };
  const key = [deps.account, deps.source];
  const time = databaseClock(deps);
  const exclusive = queue();
  let last: Row | undefined;
  /** Refusals that this process has heard and not booked yet: they wait for a statement that is under way. */
  let heard = 0;
  let unbooked: Unbooked[] = [];
  let waiting: AbortController | undefined;
  const busy = betweenRequests(clock);

  async function read(): Promise<Row> {
    for (;;) {
      const { rows } = await time.timed(() => deps.pg.query({ name: 'budget-read', text: readSql, values: key }));
      if (rows[0]) return { state: withHeard({ ...ledger.empty, ...rows[0].state }), version: rows[0].version };
      const values = [...key, JSON.stringify(ledger.empty)];
      await deps.pg.query({ name: 'budget-create', text: createSql, values });
    }
  }

  /** What this process has heard comes to what others have written. What was booked already is in it. */
  function withHeard(state: State): State {
    let all = state;
    const now = time.now();
    unbooked = unbooked.flatMap(one => {
      // The estimate may have been wrong when it was heard, or this machine's clock may have been set since.
      const agoMs = clock.monotonic() - one.heardMs;
      const at = one.at.latestMs > now.latestMs - agoMs ? one.at : back(now, agoMs);
      const done = ledger.settle(all, now, one.id, one.reply, rules, at);
      all = done.state;
      return done.settled ? [Object.assign(one, { settled: done.settled })] : [];
    });
    return all;
  }

  /** The next version. Undefined if another process was faster, or the clock estimate was wrong. */
  async function write(
    version: number,
    { state, granted }: Change,
    now: Moment,
    fresh: boolean,
  ): Promise<number | undefined> {
    const between = deps.now ? [0, '+infinity'] : [now.earliestMs, fresh ? '+infinity' : now.latestMs + lagMs];
    const text = JSON.stringify(state);
    const next = versionOf(text);
    const values: (string | number | null)[] = [...key, text, version, ...between, next];
    const isPromise = granted || unbooked.some(one => one.reply.refused);
    const books = unbooked.length > 0;
    const name = books
      ? isPromise
        ? 'budget-book-durably'
        : 'budget-book'
      : isPromise
        ? 'budget-grant'
        : 'budget-write';
    if (books) values.push(JSON.stringify(minutesOf(unbooked)), voidFrom(unbooked));
    const { rowCount } = await time.timed(() => deps.pg.query({ name, text: statements[name], values }));
    if (rowCount !== 1) return undefined;
    unbooked = [];
    return next;
  }

  /** Applies one step of the ledger to the shared state. */
  async function change<T extends Change>(step: (state: State, now: Moment) => T): Promise<{ done: T; now: Moment }> {
    for (let attempt = 0; ; attempt++) {
      const row: Row = last ?? (await read());
      const now = time.now();
      const done = step(row.state, now);
      if (done.unmarked !== undefined) {
        last = row;
        return { done, now };
      }
      last = undefined;
      const version = await write(row.version, done, now, attempt > 0);
      if (version !== undefined) {
        last = { state: done.state, version };
        return { done, now };
      }
      // The pause grows with each lost race, so that many processes get out of step.
      if (attempt > 0) await clock.sleep(deps.random() * Math.min(attempt, 20) * 2);
    }
  }

  async function acquire(cost: number, lane: Lane, signal?: AbortSignal, onWait?: OnWait): Promise<Grant> {
    refuseImpossible(cost, limits);
    const sender = deps.sender?.();
    const ask = { id: newId(deps.random), lane, cost, ...(sender !== undefined && { sender }) };
    busy.asked(ask.id);
    try {
      await granted(ask, signal, onWait);
    } catch (error) {
      busy.over(ask.id);
      throw error;
    }
    return { id: ask.id, lane, cost };
  }

  async function granted(
    first: ledger.Ask,
    signal: AbortSignal | undefined,
    onWait: OnWait | undefined,
  ): Promise<void> {
    for (let ask = first; ; ) {
      signal?.throwIfAborted();
      const { done, now } = await unlessAborted(
        exclusive(() => attempt(ask, signal)),
        signal,
      );
      if (done.granted) return;
      if (done.tooLong) throw spent(done.waitUntilMs, now, deps.label);
      if (done.unmarked !== undefined) ask = { ...first, sinceMs: done.unmarked };
      if (await buryDead(done.state, now)) continue;
      const { awaits, untilMs } = done.expected;
      onWait?.(Math.max(1, untilMs - now.earliestMs), awaits);
      await clock.sleep(Math.max(1, done.waitUntilMs - now.earliestMs), signal);
    }
  }

  let lookedMs = Number.NEGATIVE_INFINITY;

  /** Looks, at most once a second, whether the senders of slow requests live. True if one is dead. */
  async function buryDead(state: State, now: Moment): Promise<boolean> {
    const others = ledger.overdueSenders(state, now).filter(id => id !== deps.sender?.());
    if (others.length === 0 || clock.monotonic() - lookedMs < lookMs) return false;
    lookedMs = clock.monotonic();
    const { rows } = await deps.pg.query<{ id: number }>({ name: 'budget-dead', text: deadSql, values: [others] });
    if (rows.length === 0) return false;
    const dead = rows.map(({ id }) => id);
    await exclusive(() => change((state, now) => ({ state: ledger.bury(state, now, dead, rules) })));
    return true;
  }

  async function attempt(
    ask: ledger.Ask,
    signal: AbortSignal | undefined,
  ): Promise<{ done: ledger.Acquired; now: Moment }> {
    signal?.throwIfAborted();
    /** Not granted: asks again behind what is queued, with its place among those that wait. */
    const again = (state: State, now: Moment, sinceMs: number): ledger.Acquired => ({
      state,
      granted: false,
      waitUntilMs: now.earliestMs,
      expected: { awaits: 'credits', untilMs: now.earliestMs },
      unmarked: sinceMs,
    });
    const { done, now } = await change((state, now): ledger.Acquired => {
      if (heard === 0) return ledger.acquire(state, now, ask, rules);
      const mark = state.waits.find(({ id }) => id === ask.id);
      return again(state, now, ask.sinceMs ?? mark?.sinceMs ?? Math.floor(now.earliestMs));
    });
    const isVoid = signal?.aborted || heard > 0;
    if (!done.granted || !isVoid) return { done, now };
    // A grant after the abort, or after a refusal, is given back. If that fails, the grant expires.
    await change((state, now) => ({ state: ledger.cancel(state, now, ask.id, rules) }));
    const { grantedMs, waitedMs } = done.state.flights.find(({ id }) => id === ask.id)!;
    return { done: again(done.state, now, grantedMs - waitedMs), now };
  }

  async function settle(grant: Grant, reply: Reply): Promise<Booked> {
    const betweenMs = busy.over(grant.id);
    if (reply.refused) heard++;
    const { settled, frozenUntilMs } = await exclusive(() => hear(grant.id, reply, betweenMs)).finally(() => {
      if (reply.refused) heard--;
    });
    const { clock, asOfMs, shownByMs } = settled ?? forgotten;
    return {
      ...(reply.refused && { until: new Date(frozenUntilMs) }),
      ...(clock && { clock }),
      ...(asOfMs !== undefined && { asOfMs }),
      ...(shownByMs !== undefined && { shownByMs }),
    };
  }

  async function hear(id: string, reply: Reply, betweenMs: number | undefined) {
    const at = time.now();
    const one: Unbooked = { id, reply, betweenMs, at, heardMs: clock.monotonic() };
    let isAwaited = true;
    if (last === undefined) {
      // First, because the database may be away.
      unbooked.push(one);
      last = await read();
    } else {
      const done = ledger.settle(last.state, at, id, reply, rules);
      last = { ...last, state: done.state };
      if (done.settled) unbooked.push(Object.assign(one, { settled: done.settled }));
      isAwaited = done.isAwaited;
    }
    if (one.settled === undefined) return { settled: null, frozenUntilMs: last.state.frozenUntilMs };
    if (!isAwaited) void bookInTime();
    else await bookAll();
    return { settled: one.settled, frozenUntilMs: last.state.frozenUntilMs };
  }

  async function bookAll(): Promise<void> {
    if (unbooked.length > 0) await change(state => ({ state }));
  }

  async function bookInTime(): Promise<void> {
    if (waiting) return;
    waiting = new AbortController();
    const { signal } = waiting;
    try {
      for (let first = unbooked[0]; first && !signal.aborted; first = unbooked[0]) {
        const leftMs = first.heardMs + bookWithinMs - clock.monotonic();
        if (leftMs > 0) await clock.sleep(leftMs, signal);
        else await exclusive(bookAll);
      }
    } catch {
      // It has ended, or the database is away.
    } finally {
      if (!signal.aborted) waiting = undefined;
    }
  }

  async function book(): Promise<void> {
    // First, so that a reply that is heard meanwhile is waited for anew.
    waiting?.abort();
    waiting = undefined;
    await exclusive(bookAll).catch(() => {});
  }

  async function thaw(): Promise<void> {
    await exclusive(() => change((state, now) => ({ state: ledger.thaw(state, now, rules) })));
  }

  return { acquire, settle, book, thaw };
}

/** The grant of this reply is so old that nothing is known of it: the reply proves nothing. */
const forgotten: ClocksTold = { asOfMs: 0 };

/** A quota that is free again within the hour is not a daily quota. */
function spent(untilMs: number, now: Moment, label: string | undefined): Spent {
  return new Spent(new Date(untilMs), untilMs - now.earliestMs < 3_600_000 - 60_000 ? 'pause' : 'day', label);
}

function refuseImpossible(cost: number, limits: Limits): void {
  const most = limits.credits - limits.reserve;
  if (cost <= most) return;
  throw new UsageError(
    `a request of ${count(cost, 'credit')} can never be sent: of ${count(limits.credits, 'credit')} a period ${limits.reserve} ${limits.reserve === 1 ? 'is' : 'are'} reserved for others`,
    'Lower the reserve, or raise the credits a period, if the account really has more.',
  );
}

const back = ({ earliestMs, latestMs }: Moment, ms: number): Moment => ({
  earliestMs: earliestMs - ms,
  latestMs: latestMs - ms,
});

function voidFrom(booked: readonly Unbooked[]): number | null {
  const times = booked.flatMap(({ settled }) => settled?.clock?.voidFromMs ?? []);
  return times.length > 0 ? Math.min(...times) : null;
}

/** A longer time was not spent on storing a reply. */
const longestBetweenMs = 1000;

/** Measures the time from a reply to the next request that follows it. */
function betweenRequests(clock: Clock) {
  const atWork = new Map<string, number | undefined>();
  let repliedMs: number | undefined;
  return {
    asked(id: string): void {
      const ms = atWork.size === 0 && repliedMs !== undefined ? clock.monotonic() - repliedMs : undefined;
      atWork.set(id, ms !== undefined && ms <= longestBetweenMs ? ms : undefined);
    },
    /** The request was answered, or given up. */
    over(id: string): number | undefined {
      const ms = atWork.get(id);
      atWork.delete(id);
      repliedMs = clock.monotonic();
      return ms;
    },
  };
}

/** Unique among the few requests in flight. */
function newId(random: () => number): string {
  return [random(), random()].map(n => Math.floor(n * 2 ** 40).toString(36)).join('-');
}

/**
 * The time of the database as a range, and a way to run a statement that narrows it. Such a statement returns clock_ms.
 */
function databaseClock({ clock, now: simulated }: Pick<BudgetDeps, 'clock' | 'now'>) {
  let answer: { sentMs: number; receivedMs: number; databaseMs: number } | undefined;
  return {
    async timed(statement: () => Promise<pg.QueryResult>): Promise<pg.QueryResult> {
      const sentMs = clock.monotonic();
      const result = await statement();
      const receivedMs = clock.monotonic();
      if (result.rows[0]) answer = { sentMs, receivedMs, databaseMs: result.rows[0].clock_ms };
      return result;
    },
    now(): Moment {
      if (simulated) return { earliestMs: simulated(), latestMs: simulated() };
      if (!answer) throw new Error('the clock of the database is asked for before the first statement');
      const sinceMs = clock.monotonic() - answer.receivedMs;
      const earliestMs = answer.databaseMs + sinceMs;
      return { earliestMs, latestMs: earliestMs + answer.receivedMs - answer.sentMs };
    },
  };
}

/** Runs its tasks one after another, whether they succeed or fail. */
function queue() {
  let tail: Promise<unknown> = Promise.resolve();
  return <T>(work: () => Promise<T>): Promise<T> => {
    const mine = tail.then(work, work);
    tail = mine.catch(() => {});
    return mine;
  };
}

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    const end = () => signal.removeEventListener('abort', abort);
    signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject).finally(end);
  });
}
