/** Reads a list whole for a verification, and compares its pages. */

import type { ListStream, Row } from '../../sources/source.ts';
import { type Context, sourceOf } from '../context.ts';
import { beginningOf } from '../deletions/absence.ts';
import type { Reply } from '../http/request.ts';
import { listBatch, pageOf } from '../load/batch.ts';
import { laneOf } from '../load/commit-reply.ts';
import { endsOf } from '../load/list-ends.ts';
import { unlessTooLarge } from '../load/too-large.ts';
import { inFewer, isOfOne, type TooLarge } from '../reading/fewer.ts';
import { type Ends, gapIn, type Ms, type Proof, type Step, secondMs } from '../reading/reading.ts';
import type { Look } from './compare-reply.ts';
import { examineRecords } from './examine-records.ts';

export interface Verifying {
  readonly look: Look;
  readonly stream: ListStream<Row>;
  /** Time through which the stream was complete before. */
  readonly throughMs: Ms;
  /** Number of records that could not be compared. */
  unread: number;
  /** Ids of records that were written while the reply was in flight and that cannot be fetched by id. */
  readonly late: Set<string>;
  readonly gaps: string[];
}

/** A verification believes no end, and no stored set. */
export async function doubtedEnds({ look: { ctx, claim }, stream }: Verifying, list: string): Promise<Ends> {
  return { ...(await endsOf(ctx, claim, stream, list)), doubt: 'always', known: undefined };
}

export async function readPage(
  { ctx, claim }: { readonly ctx: Context } & Pick<Look, 'claim'>,
  stream: ListStream<Row>,
  list: string,
  ask: Step['ask'],
): Promise<{ reply: Reply<Row> | TooLarge; askedMs: Ms }> {
  ctx.signal.throwIfAborted();
  const askedMs = ctx.clock.now();
  const { send } = sourceOf(ctx, stream.source);
  const sent = send(stream.request(list, ask), { lane: laneOf(claim), signal: ctx.signal });
  return { reply: await unlessTooLarge(sent, ask), askedMs };
}

/**
 * Reads the first list whole. Returns the ids that it showed; undefined if the read did not reach the end. `examineAgain`: compares the
 * pages, and is given the ids that were written meanwhile.
 */
export async function readWhole(
  verifying: Verifying,
  examineAgain?: (late: readonly string[]) => Promise<void>,
): Promise<{ shown: Set<string>; askedMs: Ms; asOfMs: Ms } | undefined> {
  const { look, stream, gaps } = verifying;
  const { lookbackMs } = sourceOf(look.ctx, stream.source);
  const [{ name: list }] = stream.lists;
  const ends = await doubtedEnds(verifying, list);
  const reading = inFewer(stream.read, beginningOf(look.ctx, stream), {
    ...stream.paging,
    lookbackMs,
    firstLoad: true,
    ends,
  });
  const shown = new Set<string>();
  const newcomers = new Set<string>();
  let first: { askedMs: Ms; asOfMs: Ms } | undefined;
  let isWhole = true;
  let step: IteratorResult<Step, Proof> = reading.next();
  while (!step.done) {
    const { ask } = step.value;
    const { reply, askedMs } = await readPage(look, stream, list, ask);
    first ??= { askedMs, asOfMs: reply.asOf };
    const isRead = !('tooLarge' in reply);
    step = reading.next(isRead ? pageOf(stream, reply, ask.order) : reply);
    const { gap } = step.done ? step.value : step.value.proof;
    const isOneTooLarge = !isRead && isOfOne(ask);
    if (isOneTooLarge) verifying.unread++;
    if (gap && !isOneTooLarge) gaps.push(gapIn(list, gap));
    // A record without an id could be any missing row. Fetching by id would settle that, if the stream supported it.
    const isUnknown = isRead ? reply.unreadable.some(({ id }) => id === undefined) : isOneTooLarge;
    if (gap || (isUnknown && stream.get === undefined)) isWhole = false;
    if (!isRead) continue;
    for (const { id } of [...reply.records, ...reply.unreadable]) if (id !== undefined) shown.add(id);
    if (examineAgain) await examineAgain(await examinePage(verifying, list, { ask, reply, askedMs }, newcomers));
  }
  // A reading may stop before the end without a gap. Records outside its proof are fetched by id, or stay unknown.
  const isProven = stream.get !== undefined || step.value.covered !== undefined;
  return isWhole && isProven && first ? { shown, ...first } : undefined;
}

/** Compares a page. Returns the ids that were written meanwhile. */
async function examinePage(
  verifying: Verifying,
  list: string,
  { ask, reply, askedMs }: { ask: Step['ask']; reply: Reply<Row>; askedMs: Ms },
  newcomers: Set<string>,
): Promise<readonly string[]> {
  const { look, stream, throughMs } = verifying;
  const batch = listBatch(stream, ask, reply);
  const { unread, late, undecided } = await examineRecords(look, { stream, reply, batch, askedMs, throughMs });
  verifying.unread += unread;
  if (undecided.length === 0) return late;
  // Records that are missing here may have been created since the last sync.
  if (!undecided.every(id => newcomers.has(id)) && !(await readNewcomers(verifying, list, newcomers)))
    // The newcomers exceed the paging depth, so no record can be judged missing.
    for (const id of undecided) newcomers.add(id);
  const left = { ...batch, records: batch.records.filter(({ id }) => undecided.includes(id)) };
  await examineRecords(look, { stream, reply, batch: left, askedMs, newcomers, uncounted: true });
  return late;
}

/** Adds the ids of records created since the stream was complete. Returns false if they exceed the paging depth. */
async function readNewcomers(
  { look, stream, throughMs }: Verifying,
  list: string,
  newcomers: Set<string>,
): Promise<boolean> {
  const { perPage, depth } = stream.paging;
  const since = Math.max(0, throughMs - secondMs);
  for (let page = 1; page * perPage <= depth; page++) {
    const { reply } = await readPage(look, stream, list, { since, page, perPage });
    if ('tooLarge' in reply) return false;
    for (const { id } of reply.records) newcomers.add(id);
    // A short page is not the last one for certain.
    if (reply.arrived === 0) return true;
  }
  return false;
}
