/**
 * Sweeps a stream: reads all its records again. A sweep finds silent changes, new records that no list has shown, and
 * deletions.
 *
 * A list whose records show their creation time is read in its order, so a page shows every record of a time range.
 * Stored rows that the page lacks become deletion candidates. The same transaction notes the range as swept.
 *
 * Other lists are walked whole. Their candidates are added after a complete walk. See settle-candidates.ts.
 */

import { Fatal } from '../../errors.ts';
import type { ListStream, Lively, Row, RowFacts } from '../../sources/source.ts';
import { count } from '../../words.ts';
import { openSince } from '../commit/rejects.ts';
import { type Context, type Outcome, sourceNow, sourceOf } from '../context.ts';
import { isRedundant } from '../coverage/coverage.ts';
import type { Client } from '../database/pool.ts';
import { sql } from '../database/sql.ts';
import { listBatch, pageOf } from '../load/batch.ts';
import { commitNow } from '../load/commit-queue.ts';
import { commitRecords, requestPage } from '../load/commit-reply.ts';
import { endsOf } from '../load/list-ends.ts';
import { booksOf, unlessTooLarge } from '../load/too-large.ts';
import { type CreationOptions, readByCreation } from '../reading/by-creation.ts';
import { inFewer } from '../reading/fewer.ts';
import { gapIn, type Ms, type Proof, type Step } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { beginAgain } from '../runs/ranges.ts';
import { lastEnd } from '../runs/runs.ts';
import { addUnshown, addUnwalked } from './candidates.ts';
import { dailyMs, dueAgeMs, type Rotating, readBy, restsUntilMs, rotationOf } from './rotation.ts';
import { factsOf, shownBy } from './row-facts.ts';
import { settleCandidates } from './settle-candidates.ts';
import { noteSwept } from './swept-ranges.ts';
import { beginWalk, coverWalked, isUndated, nextDue, noteChecked, scopeOf, walkedBy, walkName } from './walks.ts';

/** Replies of a walk may be slower than its first reply, so their as_of may be slightly earlier. */
const slackMs = 60_000;
/** Name under which swept rows without a creation time are noted. The source has no such list. */
const undated = 'undated';

interface Sweep {
  readonly ctx: Context;
  readonly claim: Claim;
  readonly stream: ListStream<Row>;
  readonly facts: RowFacts;
  /** Start of the account's data, by update time. Older records are not mirrored. */
  readonly sinceMs: Ms;
  /** Number of stored rows, which is the expected number of records. */
  readonly rows: number;
  readonly rotation: readonly Rotating[];
  /** Lists that a run of this period has tried. */
  readonly resting: readonly Rotating[];
}

export async function sweepStream(ctx: Context, claim: Claim, stream: ListStream<Row>): Promise<Outcome> {
  const facts = factsOf(stream);
  const now = new Date(ctx.clock.now());
  const last = await lastEnd(ctx.pg, claim, readBy.sweep, now);
  const rotation = await rotationOf(ctx, sourceOf(ctx, stream.source));
  const mayRest = claim.kind === 'sweep' && !claim.again && !(await isRetry(ctx, claim));
  const resting = rotation.filter(one => mayRest && restsUntilMs(ctx, one, last) > now.getTime());
  const sweep: Sweep = { ctx, claim, stream, facts, rotation, resting, ...(await scopeOf(ctx.pg, claim, stream)) };
  const gaps = 'before' in facts.created ? await sweepWhole(sweep) : await sweepLists(sweep);
  const unknown = await settleCandidates(ctx, claim, stream, sweep.rows);
  // What keeps a list from being read is no better for what was read of others.
  if (last?.failure && resting.some(one => one.stream === stream.key))
    throw new Fatal(last.failure.message, last.failure.remedy, last.failure.exitCode);
  const rejects = await openSince(ctx.pg, claim, now);
  const missing = [
    ...gaps,
    ...(unknown === undefined ? [] : [unknown]),
    ...(rejects > 0 ? [`${count(rejects, 'record')} could not be stored`] : []),
  ];
  return { partial: missing.length > 0 ? missing.join('; ') : undefined };
}

/** A person has mended what failed, and asks for it once more: nothing rests. Nor does it at night. */
async function isRetry({ pg }: Context, { run }: Claim): Promise<boolean> {
  const { rows } = await pg.query(sql`select from sync.stored_runs where id = ${run} and retries is not null`);
  return rows.length > 0;
}

/** Time before which checked records of the list are due again. */
const dueBefore = ({ ctx, stream, rotation }: Sweep, list: string, ageMs = ctx.sweep.ageMs): Ms =>
  sourceNow(ctx, stream.source) -
  dueAgeMs(rotation, { stream: stream.key, list, ageMs, lookbackMs: sourceOf(ctx, stream.source).lookbackMs });

const rests = ({ stream, resting }: Sweep, list: string): boolean =>
  resting.some(one => one.stream === stream.key && one.list === list);

// --- by creation
// -------------------------------------------------------------------------------------------------------

/** Sweeps every list. Returns the gaps that remain. */
async function sweepLists(sweep: Sweep): Promise<string[]> {
  const { ctx, claim, stream } = sweep;
  const gaps: string[] = [];
  for (const { name } of stream.lists) {
    if (await isRedundant(ctx.pg, claim, name)) continue;
    gaps.push(...(await sweepList(sweep, name)));
  }
  // The sweep may have found that the first list also shows the records of another. Then the first list is due again
  // from its start.
  const [{ name: first }] = stream.lists;
  if (gaps.length === 0 && (await nextDue(ctx.pg, claim, first, { afterMs: 0, checkedMs: 1 }))?.fromMs === 0)
    gaps.push(...(await sweepList(sweep, first)));
  // A sweep requested with `again` has just read these records in the other lists.
  if (claim.again) return gaps;
  for (const lively of stream.lively ?? [])
    if (
      lively.changedWithinMs === undefined ||
      sweep.rotation.some(one => one.stream === stream.key && one.list === lively.list)
    )
      gaps.push(...(await sweepList(sweep, lively.list, { lively, ageMs: dailyMs })));
  return gaps;
}

async function sweepList(
  sweep: Sweep,
  list: string,
  { lively, ageMs }: { lively?: Lively; ageMs?: number } = {},
): Promise<string[]> {
  const { ctx, claim } = sweep;
  if (rests(sweep, list)) return [];
  const checkedMs = dueBefore(sweep, list, ageMs);
  const gaps: string[] = [];
  for (let afterMs = 0; ; ) {
    const due = await nextDue(ctx.pg, claim, list, { afterMs, checkedMs });
    if (due === undefined) return gaps;
    gaps.push(...(await sweepPart(sweep, list, due, lively)));
    if (due.untilMs === undefined) return gaps;
    afterMs = due.untilMs;
  }
}

/** By id: the as_of of the reply that last showed a record, and the record's creation time. */
type Shown = Map<string, { asOf: Ms; created: Ms }>;

async function sweepPart(
  sweep: Sweep,
  list: string,
  { fromMs, untilMs }: { fromMs: Ms; untilMs: Ms | undefined },
  lively?: Lively,
): Promise<string[]> {
  const { ctx, claim, stream, rows } = sweep;
  // One bound for the request and for the rows that it must show.
  const part = lively && shownBy(stream, lively, sourceNow(ctx, stream.source));
  const sinceMs = Math.max(sweep.sinceMs, part?.sinceMs ?? 0);
  const { lookbackMs } = sourceOf(ctx, stream.source);
  const [{ name: first }] = stream.lists;
  const options: CreationOptions = {
    ...stream.paging,
    lookbackMs,
    cuts: await stream.cuts?.(ctx.pg, claim),
    until: untilMs,
    updatedSince: sinceMs > 0 ? sinceMs - 1000 : undefined,
    // Records that a list hides by ending too early are fetched by id.
    ends: { ...(await endsOf(ctx, claim, stream, list)), doubt: 'never' },
  };
  const reading = inFewer(readByCreation, fromMs, options);
  const gaps: string[] = [];
  const shown: Shown = new Map();
  let step: IteratorResult<Step, Proof> = reading.next();
  while (!step.done) {
    ctx.signal.throwIfAborted();
    const { ask } = step.value;
    const reply = await unlessTooLarge(requestPage(sweep, list, ask), ask);
    const isRead = !('tooLarge' in reply);
    if (isRead) {
      const page = pageOf(stream, reply, ask.order);
      for (const { id } of reply.unreadable)
        if (id !== undefined) shown.set(id, { asOf: page.asOf, created: Number.NaN });
      for (const { id, time } of page.rows) shown.set(id, { asOf: page.asOf, created: time });
      step = reading.next(page);
    } else step = reading.next(reply);
    const proof = step.done ? step.value : step.value.proof;
    const isEnd = isRead && step.done && untilMs === undefined && list === first;
    const more = async (client: Client) => {
      await noteProof(client, sweep, { list, lively: part?.rows }, proof, shown);
      if (isEnd) await noteUndated(client, sweep, reply.asOf);
    };
    if (isRead) {
      const others = stream.lists.filter(one => list === first && reply.records.some(r => one.shows?.(r)));
      const redundant = others.map(({ name }) => name);
      await commitRecords(sweep, reply, { batch: listBatch(stream, ask, reply), redundant, expected: rows, more });
    } else await commitNow(ctx, booksOf(sweep, { list, ask, answer: reply, more }));
    const to = proof.covered?.to ?? 0;
    for (const [id, { created }] of shown) if (created < to) shown.delete(id);
    if (proof.gap) gaps.push(gapIn(list, proof.gap));
  }
  return gaps;
}

/**
 * Adds candidates for rows that a completely read range did not show, and notes the range as swept. The source may show
 * a change one lookback late.
 */
async function noteProof(
  client: Client,
  { ctx, claim, stream, facts }: Sweep,
  { list, lively }: { list: string; lively: string | undefined },
  { covered, asOf }: Proof,
  shown: Shown,
): Promise<void> {
  if (covered === undefined || asOf === undefined) return;
  const { lookbackMs } = sourceOf(ctx, stream.source);
  const ids = [...shown].filter(([, one]) => one.asOf >= asOf).map(([id]) => id);
  await addUnshown(client, claim, stream, facts, {
    list,
    lively,
    created: covered,
    asOfMs: asOf,
    lookbackMs,
    shown: ids,
  });
  await noteSwept(client, claim, list, covered, asOf - lookbackMs);
}

/**
 * Makes every row without a creation time a candidate when due. No range covers such rows, so each is fetched by
 * id.
 */
async function noteUndated(client: Client, { ctx, claim, stream, facts }: Sweep, asOfMs: Ms): Promise<void> {
  const checkedMs = claim.again ? asOfMs : asOfMs - ctx.sweep.ageMs;
  if (!(await isUndated(client, claim, facts, { list: undated, checkedMs }))) return;
  const { lookbackMs } = sourceOf(ctx, stream.source);
  await addUnshown(client, claim, stream, facts, { list: undated, asOfMs, lookbackMs, shown: [] });
  await noteSwept(client, claim, undated, { from: -Infinity, to: Infinity }, asOfMs - lookbackMs);
}

// --- whole
// -------------------------------------------------------------------------------------------------------------

/** Walks the whole list and saves the position after each page. Returns the gaps that remain. */
async function sweepWhole(sweep: Sweep): Promise<string[]> {
  const { ctx, claim, stream, facts, rows } = sweep;
  const { lookbackMs } = sourceOf(ctx, stream.source);
  const [{ name: list }] = stream.lists;
  if (rests(sweep, list)) return [];
  // Only a range from the beginning is due. Newer records were checked when they were first read.
  const due = await nextDue(ctx.pg, claim, list, { afterMs: 0, checkedMs: dueBefore(sweep, list) });
  if (due === undefined || due.fromMs > 0) return [];
  const { fromMs, walk } = await beginWalk(ctx.pg, claim, new Date(ctx.clock.now()));
  const ends = { ...(await endsOf(ctx, claim, stream, list)), doubt: 'never' } as const;
  const reading = inFewer(stream.read, fromMs, { ...stream.paging, lookbackMs, firstLoad: true, walk, ends });
  const gaps: string[] = [];
  let step: IteratorResult<Step, Proof> = reading.next();
  while (!step.done) {
    ctx.signal.throwIfAborted();
    const { ask } = step.value;
    const reply = await unlessTooLarge(requestPage(sweep, list, ask), ask);
    const isRead = !('tooLarge' in reply);
    step = reading.next(isRead ? pageOf(stream, reply, ask.order) : reply);
    const { done } = step;
    const proof = step.done ? step.value : step.value.proof;
    if (proof.gap) gaps.push(gapIn(list, proof.gap));
    const kept = { list: walkName, proof: proof.walk === undefined ? {} : { walk: proof.walk } };
    const more = async (client: Client, stored: readonly string[] = []) => {
      await beginAgain(client, claim, reply.asOf - slackMs);
      await noteChecked(client, claim, facts, stored, reply.asOf);
      if (proof.covered) await coverWalked(client, claim, proof.covered);
      const walked = done && gaps.length === 0 ? await walkedBy(client, claim) : undefined;
      if (walked === undefined) return;
      await addUnwalked(client, claim, facts, { begunMs: walked.begunMs, lookbackMs });
      await noteSwept(client, claim, list, { from: 0, to: walked.to }, walked.begunMs - lookbackMs);
    };
    await (isRead
      ? commitRecords(sweep, reply, { batch: listBatch(stream, ask, reply), ...kept, expected: rows, more })
      : commitNow(ctx, booksOf(sweep, { ...kept, ask, answer: reply, more })));
  }
  return gaps;
}
