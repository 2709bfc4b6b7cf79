/**
 * Reads pending records with two readers, so that a backlog does not delay fresh changes. One reads changes of the last hour in lane
 * fresh, whatever range the run has. The other reads the backlog in lane backfill, newest change first.
 */
import { type Context, sourceNow, sourceOf } from '../context.ts';
import { Commits } from '../load/commit-queue.ts';
import { farFuture, type Ms } from '../reading/reading.ts';
import type { Scope } from '../runs/ranges.ts';
import type { DueNames, Wanted } from './detail-rows.ts';
import type { Details } from './details.ts';
import { freshMs, isRipe, namesMs, type Pending, type When } from './pending.ts';
import { type Reader, readAll, type Shared, withdrawn } from './read-all.ts';

/** Records per query, and the longest use of a query's result in ms. Later the priorities may have changed. */
const batch = { records: 100, maxAgeMs: 5000 };
/**
 * Longest use of a backlog query's result. Order within a backlog hardly changes, because new changes are fresh. At 100
 * credits a minute one query lasts a minute.
 */
const backlogMaxAgeMs = 60_000;
/** How long a record of the backlog may wait for others, to be committed with them. */
const togetherMs = 10_000;
/** Interval for polling fresh changes while a backlog is read. Changes stored by this process wake the reader at once. */
const lookMs = 10_000;

/** State of the job. */
export interface Job {
  readonly details: Details;
  readonly pending: Pending;
  readonly shared: Shared;
  readonly startedMs: Ms;
  /** Ids of names that this run has already requested. A query from before their arrival still lists them as due. */
  readonly asked: Set<string>;
  /** Range of update times that this run must read before it ends. */
  readonly wanted: Scope;
  /** Whether the run may end although records are still pending. */
  readonly isOver: () => Promise<boolean>;
}

/** A request of the backlog reader. */
interface Underway {
  /** Ends it if it has not been sent, because it waits for a credit or a retry. */
  readonly withdraw: () => void;
  /** Resolves when it was answered, failed or was withdrawn. */
  readonly over: Promise<void>;
}

type Aging = Pick<Details, 'source' | 'ageMs' | 'isApart'>;

export function moments(ctx: Context, { source, ageMs, isApart }: Aging, startedMs: Ms): When {
  const { send, lookbackMs } = sourceOf(ctx, source);
  // Before the first reply the source's clock is unknown. Then a reply tells whether its record is a newer version, but members alone
  // do not: of a record that changes twice in a second they could be those in between.
  const sourceMs = send.sourceNow() ?? (isApart ? ctx.clock.now() : undefined);
  return {
    // The `as_of` of a reply is earlier than its request by at most 2 s plus the latency.
    ripeMs: sourceMs === undefined ? farFuture : sourceMs - 2000 - send.latencyMs(),
    futureMs: sourceMs === undefined ? farFuture : sourceMs + lookbackMs,
    startedMs,
    namesMs: (sourceMs ?? startedMs) - namesMs,
    agedMs: ageMs === undefined ? undefined : (sourceMs ?? startedMs) - ageMs,
    nowMs: ctx.clock.now(),
  };
}

export const least = (a: Ms | undefined, b: Ms | undefined): Ms | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);

/** Runs both readers until the backlog is read. If one fails, the other is stopped. */
export async function readBoth(job: Job): Promise<void> {
  const failed = new AbortController();
  const backlogDone = new AbortController();
  const { ctx } = job.details;
  job.shared.doubts.begin();
  job.shared.looksRejected = false;
  const details = { ...job.details, ctx: { ...ctx, signal: AbortSignal.any([ctx.signal, failed.signal]) } };
  const both = new Both({ ...job, details }, new Commits(ctx, togetherMs));
  const stopping = async (work: Promise<void>) => {
    try {
      await work;
    } catch (error) {
      failed.abort(error);
      throw error;
    }
  };
  const first = await both.nextBacklog();
  if (first.length === 0) backlogDone.abort();
  const backlog = readAll(both.ofBacklog, job.shared, both.backlog(first));
  const fresh = readAll(both.ofFresh, job.shared, both.fresh(backlogDone.signal));
  await Promise.allSettled([stopping(backlog.finally(() => backlogDone.abort())), stopping(fresh)]);
  failed.signal.throwIfAborted();
}

class Both {
  readonly #job: Job;
  /** Both readers commit together: a fresh record takes along the backlog's records that wait. */
  readonly #commits: Commits;
  /** Records that the reader of fresh changes has read since the last backlog query. The backlog reader skips them. */
  readonly #freshened = new Set<string>();
  /** Requests that the backlog reader has made since its last query. Their replies may not be stored yet. */
  readonly #underway = new Map<string, Underway>();
  readonly ofFresh: Reader;
  readonly ofBacklog: Reader;

  constructor(job: Job, commits: Commits) {
    this.#job = job;
    this.#commits = commits;
    const { details } = job;
    // The names that the record would have shown are requested with another one.
    const passOver = ({ due = {} }: Wanted) => {
      for (const id of Object.values(due).flat()) job.asked.delete(id);
    };
    const both = { details, commits, passOver };
    this.ofFresh = { ...both, lane: 'fresh', commit: 'soon', take: ({ id }) => this.#takeFresh(id) };
    this.ofBacklog = { ...both, lane: 'backfill', commit: 'together', take: async ({ id }) => this.#takeOld(id) };
  }

  /**
   * If the backlog reader has requested the record, its request ends first. If it waits, it is withdrawn, because fresh
   * changes go first. Otherwise its reply may show the change. The next query for fresh changes tells, after all replies
   * are stored.
   */
  async #takeFresh(id: string): Promise<Disposable | undefined> {
    const other = this.#underway.get(id);
    if (other === undefined) {
      this.#freshened.add(id);
      return { [Symbol.dispose]() {} };
    }
    this.#underway.delete(id);
    other.withdraw();
    await other.over;
    return undefined;
  }

  #takeOld(id: string): (Disposable & { readonly signal: AbortSignal }) | undefined {
    if (this.#freshened.has(id)) return undefined;
    const { ctx } = this.#job.details;
    const stop = new AbortController();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#underway.set(id, { withdraw: () => stop.abort(withdrawn), over: promise });
    return { signal: AbortSignal.any([ctx.signal, stop.signal]), [Symbol.dispose]: resolve };
  }

  /**
   * The next older changes in the run's range, newest first. After them, a re-reading backfill gets the records that it
   * has not re-read yet, and another run those that were read long ago.
   */
  async nextBacklog(): Promise<Wanted[]> {
    const { details, pending, wanted } = this.#job;
    this.#freshened.clear();
    this.#underway.clear();
    const when = this.#moments();
    const scope = { ...wanted, toMs: least(wanted.toMs, this.#freshFrom()) };
    const records = await pending.next(when, batch.records, scope);
    const { again, run } = details.claim;
    if (records.length > 0) return records;
    return again ? pending.again(run, when, batch.records) : pending.aged(when, batch.records);
  }

  async *backlog(first: Wanted[]): AsyncGenerator<Wanted> {
    const { details, isOver } = this.#job;
    const { clock } = details.ctx;
    for (let records = first; records.length > 0; records = await this.nextBacklog()) {
      const untilMs = clock.monotonic() + backlogMaxAgeMs;
      for (let left = records; left.length > 0 && clock.monotonic() < untilMs; ) {
        left = yield* this.#forAWhile(left);
        if (await isOver()) return;
      }
      await this.#commits.done();
    }
  }

  /**
   * Yields changes of the last hour as they arrive. Ends when the backlog is read and no change in the run's range is
   * pending.
   */
  async *fresh(backlogDone: AbortSignal): AsyncGenerator<Wanted> {
    const { details, pending, wanted, isOver } = this.#job;
    const { ctx, source } = details;
    const untilDone = AbortSignal.any([ctx.signal, backlogDone]);
    for (;;) {
      const done = backlogDone.aborted;
      const rung = sourceOf(ctx, source).stored.next();
      const when = this.#moments();
      const scope = { fromMs: this.#freshFrom() };
      const first = await pending.first(when, scope);
      const records = isRipe(first, when) ? await pending.next(when, batch.records, scope) : [];
      yield* this.#forAWhile(records);
      // Without records of its own it leaves those of the backlog to wait for others.
      if (records.length > 0) await this.#commits.done();
      const mine = { ...wanted, fromMs: Math.max(wanted.fromMs ?? 0, scope.fromMs) };
      if (done && ((await isOver()) || !(await pending.any(when, mine)))) return;
      if (records.length > 0) continue;
      const pauseMs = first === undefined ? lookMs : Math.min(lookMs, Math.max(100, first - when.ripeMs));
      const awake = AbortSignal.any([done ? ctx.signal : untilDone, rung]);
      await ctx.clock.sleep(pauseMs, awake).catch(() => ctx.signal.throwIfAborted());
    }
  }

  /** Yields records for at most 5 s. Returns the remaining ones. */
  async *#forAWhile(records: Wanted[]): AsyncGenerator<Wanted, Wanted[]> {
    const { ctx } = this.#job.details;
    const untilMs = ctx.clock.monotonic() + batch.maxAgeMs;
    for (const [n, { id, due = {} }] of records.entries()) {
      ctx.signal.throwIfAborted();
      yield { id, due: this.#unasked(due) };
      if (ctx.clock.monotonic() > untilMs) return records.slice(n + 1);
    }
    return [];
  }

  /** The names that this run has not requested yet. From now on it has. */
  #unasked(due: DueNames): DueNames {
    const { asked } = this.#job;
    const left = Object.entries(due).map(([embed, ids]) => [embed, ids.filter(id => !asked.has(id))] as const);
    for (const [, ids] of left) for (const id of ids) asked.add(id);
    return Object.fromEntries(left);
  }

  #moments(): When {
    const { details, startedMs } = this.#job;
    return moments(details.ctx, details, startedMs);
  }

  /** Start of the fresh range: one hour before the source's time. Before the first reply this machine's clock is used. */
  #freshFrom(): Ms {
    const { ctx, source } = this.#job.details;
    return sourceNow(ctx, source) - freshMs;
  }
}
