/** One run of a stream of details: reads the records that wait, retries those that failed, and says how it ended. */
import { Gone, Retry } from '../../errors.ts';
import { count } from '../../words.ts';
import { dueRejects, openSince } from '../commit/rejects.ts';
import { type Context, type Outcome, sourceNow, sourceOf } from '../context.ts';
import { stillRejected } from '../load/ask-again.ts';
import { Commits, commitNow } from '../load/commit-queue.ts';
import { isPutOff } from '../load/probe.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim, Work } from '../runs/claims.ts';
import { againBefore, joinAgain, rangeOf, type Scope } from '../runs/ranges.ts';
import { othersWait } from '../runs/runs.ts';
import { type ById, type Detail, unitOf, type Wanted } from './detail-rows.ts';
import { ask, type Details, detailsOf, mostRejected, retryFailed } from './details.ts';
import { Listed } from './listed.ts';
import { recordsForNames } from './names.ts';
import { isRipe, Pending } from './pending.ts';
import { readAll, restIsRejected, share } from './read-all.ts';
import { least, moments, readBoth } from './two-readers.ts';

/** Longest duration of a run that the worker started itself. Its end retries failed records and reports counts. */
const longestMs = 10 * 60_000;
/** Rounds of a sync: first the changes from before its start, then the changes from meanwhile. */
const rounds = 2;
/** Rounds of reading unknown names. */
const mostRounds = 3;
/** Records by id per query. */
const batchSize = 50;

/** What both kinds of run need. */
interface Run {
  readonly details: Details;
  readonly startedMs: Ms;
  /** Whether the run may end although records still wait. */
  readonly isOver: () => Promise<boolean>;
}

/** Reads all records that wait. */
export async function readDetails(ctx: Context, claim: Claim, stream: Detail | ById): Promise<Outcome> {
  const begunMs = ctx.clock.monotonic();
  const startedMs = ctx.clock.now();
  const isOver = async () =>
    isAutomatic(claim) && (ctx.clock.monotonic() - begunMs > longestMs || (await othersWait(ctx.pg, claim)));
  const details = detailsOf(ctx, claim, stream);
  const rejected = await mostRejected(details);
  if (rejected) return rejected;
  const run: Run = { details, startedMs, isOver };
  try {
    return await (stream.kind === 'detail' ? readPending(run, stream) : readListed(run, stream));
  } catch (error) {
    if (error === restIsRejected) return { partial: stillRejected };
    throw error;
  }
}

/** The worker started the run itself. */
const isAutomatic = ({ kind }: Claim): boolean => kind === 'hydrate';

async function readPending({ details, startedMs, isOver }: Run, stream: Detail): Promise<Outcome> {
  const { ctx, claim } = details;
  if (claim.again) await joinAgain(ctx.pg, claim);
  const { fromMs, toMs } = await rangeOf(ctx.pg, claim.run);
  const pending = new Pending(ctx.pg, ctx.account, stream);
  const job = { details, pending, shared: share(details), startedMs, asked: new Set<string>(), isOver };
  const when = () => moments(ctx, stream, startedMs);
  let wanted: Scope = {};
  for (let round = 1; round <= (claim.kind === 'sync' ? rounds : 1); round++) {
    // Before the first reply only this machine's clock is known.
    const { send, lookbackMs } = sourceOf(ctx, stream.source);
    const sourceMs = send.sourceNow() ?? startedMs + lookbackMs;
    wanted = isAutomatic(claim) ? {} : { fromMs, toMs: least(toMs, sourceMs + 1) };
    do await readBoth({ ...job, wanted });
    while (!(await isOver()) && (await pending.any(when(), wanted)));
  }
  await retryFailed(details);
  await readNames(details, stream, () => when().namesMs);
  if (isAutomatic(claim)) return { partial: undefined };
  const open = await openSince(ctx.pg, claim, new Date(startedMs));
  return { partial: notInFull(stream, Math.max(open, await pending.count(when().futureMs, wanted))) };
}

/**
 * The outcome of a run that was waiting for another run's read of the members, if none of its own records is pending
 * now. Otherwise undefined: the run keeps waiting.
 */
export async function isDone(ctx: Context, work: Work, stream: Detail): Promise<Outcome | undefined> {
  const { fromMs, toMs, startedMs, kind, again } = await rangeOf(ctx.pg, work.run);
  if (kind === 'hydrate') return { partial: undefined };
  // This machine's clock may differ from the source's clock, so slightly later changes count as well.
  const wanted = { fromMs, toMs: least(toMs, startedMs + sourceOf(ctx, stream.source).lookbackMs) };
  const pending = new Pending(ctx.pg, ctx.account, stream);
  const when = moments(ctx, stream, ctx.clock.now());
  if (again || (await pending.any(when, wanted))) return undefined;
  return { partial: notInFull(stream, await pending.count(when.futureMs, wanted)) };
}

const notInFull = (stream: Detail, left: number) =>
  left > 0 ? `the ${stream.name} of ${count(left, unitOf(stream))} could not be read in full` : undefined;

/**
 * Reads names that are due and that no pending record mentioned. A name may have been added between the listing and
 * the read of a record. Another record with the name is read. That record may have lost the name or fail, so there
 * are several rounds.
 */
async function readNames(details: Details, stream: Detail, beforeMs: () => Ms): Promise<void> {
  const { ctx, lane } = details;
  const asked = new Set<string>();
  for (let round = 1; round <= mostRounds; round++) {
    const records = await recordsForNames(ctx.pg, ctx.account, stream, [...asked], beforeMs());
    for (const wanted of records) {
      ctx.signal.throwIfAborted();
      asked.add(wanted.id);
      try {
        const reply = await ask(details, wanted, lane);
        if (reply) await commitNow(ctx, details.entry(reply, wanted));
      } catch (error) {
        // A failed name stays due, because due names are derived from the stored rows. The members of the record are
        // unaffected.
        if (!(error instanceof Retry || error instanceof Gone)) throw error;
        ctx.log.debug({ record: wanted.id, reason: error.message }, 'a name could not be read');
      }
    }
    if (records.length === 0) return;
  }
}

async function readListed(run: Run, stream: ById): Promise<Outcome> {
  const { details, startedMs } = run;
  const { ctx, claim, lane, unit } = details;
  const reader = { details, lane, commits: new Commits(ctx), commit: 'next' } as const;
  await readAll(reader, share(details), listedOf(run, stream));
  if (!(await retryFailed(details))) return { partial: stillRejected };
  const open = await openSince(ctx.pg, claim, new Date(startedMs));
  return { partial: open === 0 || isAutomatic(claim) ? undefined : `${count(open, unit)} could not be read` };
}

/** Each record once. */
async function* listedOf({ details, startedMs, isOver }: Run, stream: ById): AsyncGenerator<Wanted> {
  const { ctx, claim } = details;
  const listed = new Listed(ctx.pg, ctx.account, stream);
  const except: string[] = [];
  do {
    const which = { beforeMs: await dueBefore(ctx, claim, stream), startedMs, except };
    const records = await listed.next(which, batchSize);
    for (const wanted of records) {
      ctx.signal.throwIfAborted();
      except.push(wanted.id);
      yield wanted;
    }
    if (records.length === 0) return;
  } while (!(await isOver()));
}

/**
 * Each record is read again after a maximum age; `backfill --again` reads all except those that it has already read.
 */
async function dueBefore(ctx: Context, claim: Claim, stream: ById): Promise<Ms> {
  const sourceMs = sourceNow(ctx, stream.source);
  if (!claim.again) return sourceMs - stream.ageMs(sourceOf(ctx, stream.source));
  // Not the current time: `as_of` is held back, so a record that is read within the next seconds would seem older than
  // this run.
  const lastMs = await new Listed(ctx.pg, ctx.account, stream).lastChecked();
  return againBefore(ctx.pg, claim, 'default', Math.min(lastMs + 1, sourceMs));
}

/** Whether records wait, or one of their rejects is due for a retry. */
export async function detailsAreDue(ctx: Context, stream: Detail | ById): Promise<boolean> {
  const isDue = await (stream.kind === 'detail' ? isPendingDue(ctx, stream) : isListedDue(ctx, stream));
  return isDue && !(await isPutOff(ctx, { account: ctx.account, stream: stream.key }));
}

async function isPendingDue(ctx: Context, stream: Detail): Promise<boolean> {
  const nowMs = ctx.clock.now();
  const ripeMs = sourceNow(ctx, stream.source);
  const futureMs = ripeMs + sourceOf(ctx, stream.source).lookbackMs;
  const agedMs = stream.ageMs === undefined ? undefined : ripeMs - stream.ageMs;
  const when = { ripeMs, futureMs, startedMs: nowMs, namesMs: 0, nowMs, agedMs };
  const pending = new Pending(ctx.pg, ctx.account, stream);
  const first = await pending.first(when);
  const key = { account: ctx.account, stream: stream.key };
  if (isRipe(first, when) || (await pending.aged(when, 1)).length > 0) return true;
  return (await dueRejects(ctx.pg, key, new Date(nowMs))).length > 0;
}

async function isListedDue(ctx: Context, stream: ById): Promise<boolean> {
  const nowMs = ctx.clock.now();
  const listed = new Listed(ctx.pg, ctx.account, stream);
  const beforeMs = sourceNow(ctx, stream.source) - stream.ageMs(sourceOf(ctx, stream.source));
  const waiting = await listed.next({ beforeMs, startedMs: nowMs }, 1);
  return waiting.length > 0 || (await listed.retries(new Date(nowMs))).length > 0;
}
