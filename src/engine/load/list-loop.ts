/**
 * The loop that reads a list stream: request a page, read it, commit it together with what it proves. The reader of the
 * stream decides which request comes next and what is proven. Readers are pure: see reading/.
 */

import { FencedOff, Gone, Retry } from '../../errors.ts';
import type { ListStream, Row } from '../../sources/source.ts';
import { count } from '../../words.ts';
import { commitWork, type Proven } from '../commit/commit.ts';
import { dueRejects, openSince } from '../commit/rejects.ts';
import { type Context, type Outcome, sourceOf } from '../context.ts';
import { nextGap, readPosition } from '../coverage/coverage.ts';
import { adoptPages, type KnownPages, noteLook, notePages, noteProven } from '../coverage/pages.ts';
import { copiesDiffer, hasRipe, isSettled, settleTies, takenBack } from '../coverage/ties.ts';
import { transaction } from '../database/pool.ts';
import { settleAbsence, type WholeList } from '../deletions/absence.ts';
import type { Reply } from '../http/request.ts';
import { readNewest } from '../reading/ends.ts';
import { inFewer, isOfOne, isWholeEachTime, type TooLarge } from '../reading/fewer.ts';
import { lacksVersion } from '../reading/moving-list.ts';
import {
  type Ask,
  type Cuts,
  type Ends,
  farFuture,
  gapIn,
  type Ms,
  type Pages,
  type Proof,
  type Range,
  type Walk,
} from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { listBatch, pageOf, singleBatch } from './batch.ts';
import { Commits, type Entry } from './commit-queue.ts';
import { commitRecords, type Job, laneOf, recordsOf, requestPage } from './commit-reply.ts';
import { noteFailure } from './failures.ts';
import { endsOf, lookOf } from './list-ends.ts';
import { fewRejects, type Probe, probed } from './probe.ts';
import { booksOf, clearRead, unlessTooLarge } from './too-large.ts';

/** Moves the high-water mark of every list of the stream to now. */
export async function syncList(ctx: Context, claim: Claim, stream: ListStream<Row>): Promise<Outcome> {
  const job = { ctx, claim, stream };
  const rejected = await probed(ctx, claim, probeOf(job));
  if (rejected) return rejected;
  await adoptPages(ctx.pg, claim);
  const partsOf = async function* (list: string) {
    const position = await readPosition(ctx.pg, claim, list, stream.fromTheBeginning);
    if (!position.redundant) yield position;
  };
  const read = () => readLists(job, partsOf, readTakenBack);
  const { partial } = await read();
  // What was read is proven by a look behind it.
  if (!(await lookAtNewest(job))) return { partial };
  return { partial: (await read()).partial ?? partial };
}

/** Whether pages of the source are shorter than they were: then what its lists claim since the look before is taken back. */
async function lookAtNewest({ ctx, claim, stream }: Job): Promise<boolean> {
  const look = await lookOf(ctx, claim, stream);
  if (look === undefined) return false;
  const { pages } = await readPart({ ctx, claim, stream: look.stream }, look.list, look.part);
  const { perPage } = look.stream.paging;
  const isAsKnown = pages === undefined || (!pages.varies && pages.size === look.size);
  if (isAsKnown) {
    await noteLook(ctx.pg, claim, pages === undefined && perPage > (look.size ?? Infinity));
    return false;
  }
  // A look at fewer records than a page does not tell how long pages are.
  const isWhole = perPage === stream.paging.perPage;
  const known = isWhole ? pages : { size: stream.paging.perPage, varies: true };
  await transaction(ctx.pg, client => notePages(client, claim, look.list, known));
  return true;
}

/**
 * Fills the gaps in the range of the run: the newest gap first, each gap in ascending order. Any other order would lose
 * records that move.
 */
export async function backfillList(ctx: Context, claim: Claim, stream: ListStream<Row>): Promise<Outcome> {
  return readLists({ ctx, claim, stream }, async function* (list) {
    // A gap that cannot be filled is left for the next backfill.
    for (let beforeMs = farFuture; ; ) {
      const gap = await nextGap(ctx.pg, claim, list, stream.fromTheBeginning === true, beforeMs);
      if (gap === undefined) return;
      yield { fromMs: gap.from, untilMs: gap.to, walk: gap.walk };
      beforeMs = gap.from;
    }
  });
}

const unlessUndefined = <T>(value: T | undefined): T[] => (value === undefined ? [] : [value]);

/** The part of a list to read: from here to the end of the list, or to the end of a gap. */
interface Part {
  readonly fromMs: Ms;
  readonly untilMs?: Ms;
  readonly firstLoad?: boolean;
  readonly walk: Walk | undefined;
  readonly cuts?: Cuts | undefined;
  readonly ends?: Ends;
  /** What is known about the pages of the list. Default: it is asked. */
  readonly pages?: KnownPages | undefined;
}

/** Reads the parts of each list, then fetches the rejects that are due. */
async function readLists(
  job: Job,
  partsOf: (list: string) => AsyncIterable<Part>,
  afterwards?: typeof readTakenBack,
): Promise<Outcome> {
  const { ctx, claim, stream } = job;
  const started = new Date(ctx.clock.now());
  // A long reading learns of more by itself, so its parts ask anew.
  const cuts = afterwards && (await stream.cuts?.(ctx.pg, claim));
  const gaps: string[] = [];
  let asOf = Infinity;
  /** Reads the parts of a list. False if its pages turned out to be short: then the parts are others. */
  const readList = async (name: string): Promise<boolean> => {
    for await (const part of partsOf(name)) {
      const read = await readPart(job, name, part.firstLoad ? part : { ...part, cuts });
      if (read.pages) return false;
      if (read.isProven) await noteProven(ctx.pg, claim, name);
      gaps.push(...read.gaps);
      if (read.whole && stream.get === undefined && isWholeEachTime(stream.read)) {
        const again = async () => (await readAnew(job, name, part)).whole;
        const absence = { again, accepts: false };
        gaps.push(...unlessUndefined(await settleAbsence(ctx, claim, { stream, list: name }, read.whole, absence)));
      }
      asOf = Math.min(asOf, read.asOf);
    }
    return true;
  };
  for (const { name } of stream.lists) while (!(await readList(name)));
  let rejects = 0;
  if (!(await isSettled(ctx.pg, claim))) {
    if (afterwards) gaps.push(...(await afterwards(job, asOf)));
    await askAgain(job);
    rejects = await openSince(ctx.pg, claim, started);
  }
  const missing = [...gaps, ...(rejects > 0 ? [`${count(rejects, 'record')} could not be stored`] : [])];
  return { partial: missing.length > 0 ? missing.join('; ') : undefined };
}

/**
 * Settles the ties that are certain, now that all lists were read to their end as of `asOf`, and reads the torn ones
 * again, once. Returns the gaps that remain.
 */
async function readTakenBack(job: Job, asOf: Ms): Promise<string[]> {
  const { ctx, claim, stream } = job;
  const knownMs = asOf - sourceOf(ctx, stream.source).lookbackMs;
  const { root } = stream.merge.declared;
  if (await hasRipe(ctx.pg, claim, knownMs))
    await commitWork(ctx, claim, knownMs, async (client, at) => {
      await settleTies(client, claim, root, knownMs, new Date(at.nowMs));
      return undefined;
    });
  const gaps: string[] = [];
  const parts = await takenBack(ctx.pg, claim);
  for (const { list, from, to } of parts) {
    const part = { fromMs: from, untilMs: to, walk: undefined };
    gaps.push(...(await readAnew(job, list, part)).gaps);
  }
  const left = parts.length === 0 || gaps.length > 0 ? [] : await takenBack(ctx.pg, claim);
  return [...gaps, ...left.map(({ list, from }) => gapIn(list, { from, reason: copiesDiffer }))];
}

/** How long a page of old records may wait for the pages behind it. Its age when it is stored matters: see isLate. */
const togetherMs = 5000;
/** The same for a page of new records. Pages that come faster than that are no longer few. */
const freshMs = 100;

/** Reads a part again with what was learned of its pages meanwhile. */
export async function readAnew(job: Job, list: string, part: Part): Promise<PartRead> {
  for (;;) {
    const read = await readPart(job, list, { ...part, pages: undefined });
    if (!read.pages) return read;
  }
}

interface PartRead {
  readonly gaps: string[];
  /** The time of the last page. */
  readonly asOf: Ms;
  /** The ids of the list, if it was read whole. */
  readonly whole: WholeList | undefined;
  /** The reading has stopped, because it has learned that pages are short: claims of the stream were taken back. */
  readonly pages: Pages | undefined;
  /** Each end was counted, up to the end of the list. */
  readonly isProven: boolean;
}

async function readPart(job: Job, list: string, part: Part): Promise<PartRead> {
  const { ctx, claim, stream } = job;
  const { fromMs, untilMs, firstLoad = false, walk } = part;
  const { lookbackMs } = sourceOf(ctx, stream.source);
  const cuts = part.cuts ?? (await stream.cuts?.(ctx.pg, claim));
  const ends = part.ends ?? (await endsOf(ctx, claim, stream, list, part.pages));
  const options = { ...stream.paging, lookbackMs, firstLoad, walk, until: untilMs, cuts, ends };
  const reading = inFewer(stream.read, fromMs, options);
  const met = nothingMet(stream);
  const commits = new Commits(ctx, laneOf(claim) === 'fresh' ? freshMs : togetherMs);
  try {
    for (let step = reading.next(); !step.done && !met.pages; ) {
      ctx.signal.throwIfAborted();
      const { ask } = step.value;
      const reply = await unlessTooLarge(requestPage(job, list, ask), ask);
      step = reading.next('tooLarge' in reply ? reply : pageOf(stream, reply, ask.order));
      const proven = step.done ? step.value : step.value.proof;
      if (proven.tie && stream.merge.declared.root.version === undefined) throw lacksVersion(stream.key);
      if ((step.done && proven.covered === undefined) || proven.gap) met.isWhole = false;
      const proof = stream.read === readNewest ? {} : added(proven, met.claimed);
      const page = { list, proof, until: untilMs };
      meet(met, ask, reply, proven);
      await commits.room();
      if (proof.gap) met.gaps.push(gapIn(list, proof.gap));
      commits.add(entryOf(job, met, { ask, reply, page }), step.done);
      // The stream ends here, so no further request follows.
      if (!('tooLarge' in reply) && reply.clockMovedMs !== undefined) await commits.done();
    }
  } catch (error) {
    // This error ended the reading. Errors of the pages in flight do not replace it, unless the run is another's now.
    await commits.done().catch(failure => {
      if (failure instanceof FencedOff) throw failure;
    });
    throw error;
  }
  await commits.done();
  const { gaps, asOf, pages, shown } = met;
  const isAllRead = met.isAllRead && !pages;
  if (isAllRead && (untilMs !== undefined || isWholeEachTime(stream.read)))
    await clearRead(ctx, claim, list, isWholeEachTime(stream.read) ? wholeTime : { from: fromMs, to: untilMs! });
  const isProven = ends.doubt === 'always' && untilMs === undefined;
  const whole = met.isWhole && isAllRead && shown ? { shown, asOfMs: met.begunMs } : undefined;
  return { gaps, asOf, pages, isProven, whole };
}

const wholeTime: Range = { from: 0, to: farFuture };

interface Met {
  readonly gaps: string[];
  seen: number;
  /** The times of the first and of the last page. */
  begunMs: Ms;
  asOf: Ms;
  claimed: Range | undefined;
  pages: Pages | undefined;
  /** Ids, of a list whose deletions its reading shows. */
  readonly shown: Set<string> | undefined;
  /** Redundant lists that were reported. */
  readonly told: Set<string>;
  isWhole: boolean;
  /** No single record was too large. */
  isAllRead: boolean;
}

function nothingMet(stream: ListStream<Row>): Met {
  const shown = typeof stream.deletions === 'string' ? new Set<string>() : undefined;
  const none = { claimed: undefined, pages: undefined, seen: 0, begunMs: Number.NaN, asOf: Infinity };
  return { ...none, gaps: [], shown, told: new Set(), isWhole: shown !== undefined, isAllRead: true };
}

function meet(met: Met, ask: Ask, reply: Reply<Row> | TooLarge, proven: Proof): void {
  if (Number.isNaN(met.begunMs)) met.begunMs = reply.asOf;
  met.asOf = reply.asOf;
  met.claimed = proven.covered ?? met.claimed;
  if ('tooLarge' in reply) {
    met.isAllRead &&= !isOfOne(ask);
    return;
  }
  met.pages = proven.pages;
  for (const { id } of [...reply.records, ...reply.unreadable]) if (id !== undefined) met.shown?.add(id);
  if (reply.unreadable.some(({ id }) => id === undefined) || reply.clockMovedMs !== undefined) met.isWhole = false;
}

interface Answered {
  readonly ask: Ask;
  readonly reply: Reply<Row> | TooLarge;
  readonly page: Proven & { readonly list: string };
}

/** What is committed of a reply. */
function entryOf(job: Job, met: Met, { ask, reply, page }: Answered): Entry {
  if ('tooLarge' in reply) return booksOf(job, { ask, answer: reply, ...page });
  const { stream } = job;
  // A count covers the list in its own order. For another order it would count records that were seen already.
  const expected = reply.total === undefined || ask.order || ask.page > 1 ? undefined : met.seen + reply.total;
  met.seen += reply.arrived;
  const redundant = page.list === stream.lists[0].name ? shownFirst(stream, reply.records, met.told) : [];
  return recordsOf(job, reply, { batch: listBatch(stream, ask, reply), ...page, redundant, expected });
}

/** Lists that these records show to be redundant, each reported once. */
function shownFirst(stream: ListStream<Row>, records: readonly Row[], told: Set<string>): string[] {
  const shown = stream.lists.filter(({ name, shows }) => shows && !told.has(name) && records.some(shows));
  for (const { name } of shown) told.add(name);
  return shown.map(({ name }) => name);
}

/** The part of a proof that was not claimed before. A range that another run took back meanwhile is not claimed again. */
function added(proof: Proof, claimed: Range | undefined): Proof {
  const { covered } = proof;
  if (!claimed || covered?.from !== claimed.from) return proof;
  return { ...proof, covered: { from: claimed.to, to: Math.max(claimed.to, covered.to) } };
}

/** Fetches due rejects by id: the reply that was rejected may have been malformed once. */
async function askAgain(job: Job): Promise<void> {
  const { ctx, claim, stream } = job;
  if (stream.get === undefined) return;
  const due = () => dueRejects(ctx.pg, claim, new Date(ctx.clock.now()));
  const probe = probeOf(job);
  const first = await due();
  // Many that fail alike are not asked for one by one.
  const areMany = first.length >= fewRejects;
  if (areMany && (await probed(ctx, claim, probe, { now: true }))) return;
  for (const id of areMany ? await due() : first) {
    ctx.signal.throwIfAborted();
    try {
      await probe(id);
    } catch (error) {
      if (error instanceof Retry) await noteFailure(ctx, claim, { askId: id, reason: error.message });
      else throw error;
    }
  }
}

/** Asks for a reject by id, or for the first record of the list. */
function probeOf(job: Job): Probe {
  const { ctx, claim, stream } = job;
  const { send } = sourceOf(ctx, stream.source);
  const options = { lane: laneOf(claim), signal: ctx.signal };
  const { get } = stream;
  return async id => {
    try {
      const ask = { page: 1, perPage: 1 };
      const isSingle = id !== undefined && get !== undefined;
      const reply = await send(isSingle ? get(id) : stream.request(stream.lists[0].name, ask), options);
      const batch = isSingle ? singleBatch(stream, reply) : listBatch(stream, ask, reply);
      await commitRecords(job, reply, { batch });
      return reply.unreadable.length > 0 && reply.records.length === 0 ? 'rejected' : 'stored';
    } catch (error) {
      if (!(error instanceof Gone) || id === undefined) throw error;
      await noteFailure(ctx, claim, { stored: [id] });
      return 'unknown';
    }
  };
}
