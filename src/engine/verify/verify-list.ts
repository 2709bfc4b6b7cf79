/**
 * Verifies a list: reads all records, or a sample, again and compares them with the stored rows.
 *
 * A list whose records show their creation time is read in its order, so each page also shows which stored rows the source lacks. Of
 * other lists the whole list shows it. A row that no list shows is fetched by id before it counts as deleted.
 */

import { Gone, Retry } from '../../errors.ts';
import type { ListStream, Part, Row, RowFacts } from '../../sources/source.ts';
import { count } from '../../words.ts';
import { type Context, type Outcome, sourceNow, sourceOf } from '../context.ts';
import { isRedundant } from '../coverage/coverage.ts';
import type { Client } from '../database/pool.ts';
import type { StreamKey } from '../database/stream-key.ts';
import { beginningOf, idsOfLive } from '../deletions/absence.ts';
import { ownParts } from '../deletions/row-facts.ts';
import { scopeOf } from '../deletions/walks.ts';
import { listBatch, pageOf, singleBatch } from '../load/batch.ts';
import { laneOf } from '../load/commit-reply.ts';
import { counts } from '../load/list-ends.ts';
import { readByCreation } from '../reading/by-creation.ts';
import { inFewer, isOfOne } from '../reading/fewer.ts';
import { floorSecond, gapIn, type Ms, type Proof, type Step, secondMs } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import type { Look } from './compare-reply.ts';
import { examineGone, keepPlace, noteGone, options } from './confirm-deletion.ts';
import { examineRecords } from './examine-records.ts';
import { completeThrough } from './findings.ts';
import { examineSample, fromPlace, liveOf } from './one-by-one.ts';
import { noteOrphans, parentsLost } from './orphans.ts';
import { doubtedEnds, readPage, readWhole, type Verifying } from './read-whole.ts';
import { countCreated, countLive, deletedAfter, unshownRows, versionOf } from './stored-rows.ts';
import { askedOf, gapsOf, movePlace, noteCounts, placeOf, uncompared } from './verifications.ts';

/** Details of the records of a list, which another stream reads. */
export interface Details {
  /** The other stream. */
  readonly key: StreamKey;
  /** Fetches a record with its details, and compares both. Returns whether the comparison was possible. */
  examine(look: Look, id: string): Promise<boolean>;
}

/** `of`: the list whose records are read, if the claim is one of their details. */
export async function beginVerifying(ctx: Context, claim: Claim, of: ListStream<Row>) {
  const { sample, repair } = await askedOf(ctx, claim);
  const live = await countLive(ctx.pg, claim.account, of.key);
  const look: Look = { ctx, claim, repair, random: sample !== null, expected: Math.min(sample ?? live, live) };
  const throughMs = (await completeThrough(ctx.pg, claim.account, of.key)) ?? 0;
  const verifying: Verifying = { look, stream: of, throughMs, unread: 0, late: new Set(), gaps: [] };
  return { verifying, sample };
}

export async function verifyList(
  ctx: Context,
  claim: Claim,
  stream: ListStream<Row>,
  details?: Details,
): Promise<Outcome> {
  const { verifying, sample } = await beginVerifying(ctx, claim, stream);
  const { rowFacts: facts } = stream;
  for (const { name } of stream.lists) {
    if (await isRedundant(ctx.pg, claim, name)) continue;
    if (facts && claim.kind !== 'audit' && (await placeOf(ctx.pg, claim, name)) === undefined)
      await countList(verifying, facts, name);
    if (sample !== null) continue;
    if (facts && 'at' in facts.created) await verifyCreated(verifying, facts, name);
    else await verifyWhole(verifying);
  }
  if (sample !== null) await verifySample(verifying, sample, details);
  else if (facts) await verifyDeleted(verifying);
  if (sample === null) await verifyOrphans(verifying, ownParts(stream.merge), stream.key);
  return outcomeOf(verifying);
}

export async function outcomeOf(verifying: Verifying): Promise<Outcome> {
  const { look, stream, gaps } = verifying;
  const missing = [...gaps, ...(await unjudgedOf(look, stream))];
  return uncompared(look.claim, verifying.unread + verifying.late.size, missing);
}

/**
 * Messages about ranges that were never read. The mirror does not claim their records, so none of them can be missing.
 */
async function unjudgedOf({ ctx, claim }: Look, stream: ListStream<Row>): Promise<string[]> {
  const { gaps, from } = await gapsOf(ctx.pg, claim.account, stream.key);
  if (gaps === 0) return [];
  const what =
    versionOf(stream) === undefined
      ? 'records created since then were not judged'
      : `${stream.name} that changed in them were not judged`;
  return [
    `${count(gaps, 'range has', 'ranges have')} not been read, the first from ${from!.toISOString()}: ${what}, and records created since then were not counted`,
  ];
}

// --- counts
// ------------------------------------------------------------------------------------------------------------

/**
 * Compares the number of stored records with the source's count of records created before the synced range ends.
 *
 * Records created between two count requests may or may not be included, and so may the second of `since` itself. The
 * source's count is therefore a range. No counts are stored if the account starts later than the source, or if the
 * count stops at the paging depth.
 */
async function countList({ look: { ctx, claim }, stream, throughMs }: Verifying, facts: RowFacts, list: string) {
  const none = { list, ours: null, theirs_least: null, theirs_most: null };
  const isDated = 'at' in facts.created;
  // The last second of the synced range may be incomplete.
  const through = floorSecond(throughMs) - secondMs;
  const { sinceMs } = await scopeOf(ctx.pg, claim, stream);
  if (sinceMs > 0 || !counts(stream, list)) return noteCounts(ctx.pg, claim, none);
  // Undefined if the source gives no count, or counts no further.
  const count = async (since?: Ms) => {
    const ask = { page: 1, perPage: 0, count: true, order: 'created', ...(since !== undefined && { since }) } as const;
    const request = stream.request(list, ask);
    const { send } = sourceOf(ctx, stream.source);
    const { total } = await send(request, { lane: laneOf(claim), signal: ctx.signal });
    return total === stream.paging.depth ? undefined : total;
  };
  const before = await count(through);
  const all = await count();
  const live = isDated ? 0 : await countLive(ctx.pg, claim.account, stream.key);
  const after = await count(through);
  if (all === undefined || before === undefined || after === undefined) return noteCounts(ctx.pg, claim, none);
  const least = all - Math.max(before, after);
  if (!isDated) {
    const most = all + Math.max(0, after - before);
    return noteCounts(ctx.pg, claim, { list, ours: live, theirs_least: least, theirs_most: most });
  }
  const ours = await countCreated(ctx.pg, claim.account, stream, facts, { list, beforeMs: through });
  const most = all - Math.min(before, after);
  await noteCounts(ctx.pg, claim, { list, ours: ours.before, theirs_least: least - ours.within, theirs_most: most });
}

// --- by creation
// -------------------------------------------------------------------------------------------------------

async function verifyCreated(verifying: Verifying, facts: RowFacts, list: string): Promise<void> {
  const { look, stream, gaps } = verifying;
  const { ctx, claim } = look;
  const { sinceMs } = await scopeOf(ctx.pg, claim, stream);
  const before = (await placeOf(ctx.pg, claim, list))?.place;
  const reading = inFewer(readByCreation, before ? Number(before) : 0, {
    ...stream.paging,
    lookbackMs: sourceOf(ctx, stream.source).lookbackMs,
    cuts: await stream.cuts?.(ctx.pg, claim),
    updatedSince: sinceMs > 0 ? sinceMs - secondMs : undefined,
    ends: await doubtedEnds(verifying, list),
  });
  const shown = new Map<string, Ms>();
  const unshown = (what: { range: Proof['covered']; shown: readonly string[] }) =>
    unshownRows(ctx.pg, claim.account, stream, facts, { list, sinceMs, ...what });
  let step: IteratorResult<Step, Proof> = reading.next();
  while (!step.done) {
    const { ask } = step.value;
    const { reply, askedMs } = await readPage(look, stream, list, ask);
    if ('tooLarge' in reply) {
      if (isOfOne(ask)) verifying.unread++;
      step = reading.next(reply);
    } else {
      const page = pageOf(stream, reply, ask.order);
      for (const { id } of reply.unreadable) if (id !== undefined) shown.set(id, Number.NaN);
      for (const { id, time } of page.rows) shown.set(id, time);
      step = reading.next(page);
      const examined = await examineRecords(look, { stream, reply, batch: listBatch(stream, ask, reply), askedMs });
      verifying.unread += examined.unread;
      await examineAgain(verifying, examined.late);
    }
    const proof = step.done ? step.value : step.value.proof;
    if (proof.gap) gaps.push(gapIn(list, proof.gap));
    if (!proof.covered) continue;
    const range = proof.covered;
    await examineUnshown(verifying, await unshown({ range, shown: [...shown.keys()] }));
    for (const [id, time] of shown) if (time < range.to) shown.delete(id);
    await movePlace(ctx.pg, claim, list, String(range.to));
  }
  await examineUnshown(verifying, await unshown({ range: undefined, shown: [...shown.keys()] }));
}

// --- whole lists
// -------------------------------------------------------------------------------------------------------

/**
 * Verifies a list that is read or walked whole. A row that no page showed is fetched by id. If the stream cannot fetch
 * by id, the list is read a second time.
 */
async function verifyWhole(verifying: Verifying): Promise<void> {
  const { look, stream } = verifying;
  const { ctx, claim } = look;
  const first = await readWhole(verifying, late => examineAgain(verifying, late));
  if (first === undefined) return;
  const live = await idsOfLive(ctx.pg, claim.account, stream, beginningOf(ctx, stream));
  const unshown = [...live].filter(id => !first.shown.has(id)).sort();
  if (stream.get !== undefined) return examineUnshown(verifying, unshown);
  if (unshown.length === 0) return;
  const second = await readWhole(verifying);
  if (second === undefined) return;
  for (const id of unshown.filter(one => !second.shown.has(one))) {
    if (!(await noteGone(look, stream, id, second))) verifying.unread++;
  }
}

// --- by id
// -------------------------------------------------------------------------------------------------------------

/**
 * Fetches rows again that were written while the reply was in flight. If the stream cannot fetch by id, they count as
 * not compared.
 */
async function examineAgain(verifying: Verifying, late: readonly string[]): Promise<void> {
  if (verifying.stream.get !== undefined) await examineUnshown(verifying, late);
  else for (const id of late) verifying.late.add(id);
}

/** Fetches each row that a list lacked by id, because a list may hide existing records. */
async function examineUnshown(verifying: Verifying, ids: readonly string[]): Promise<void> {
  for (const id of ids) if (!(await examineById(verifying, id))) verifying.unread++;
}

/** Returns whether the record could be compared. */
async function examineById(
  { look, stream, throughMs }: Verifying,
  id: string,
  { more, gone = () => examineGone(look, stream, id) }: ById = {},
): Promise<boolean> {
  const { ctx } = look;
  ctx.signal.throwIfAborted();
  const askedMs = ctx.clock.now();
  try {
    const reply = await sourceOf(ctx, stream.source).send(stream.get!(id), options(look));
    if (reply.records[0]?.id === id) {
      const batch = singleBatch(stream, reply);
      const { unread, late } = await examineRecords(look, { stream, reply, batch, askedMs, throughMs, more });
      return unread + late.length === 0;
    }
  } catch (error) {
    if (error instanceof Gone && Number.isFinite(error.asOf)) return gone(error.asOf);
    if (!(error instanceof Gone || error instanceof Retry)) throw error;
  }
  if (more) await keepPlace(look, more);
  return false;
}

interface ById {
  readonly more?: (client: Client) => Promise<void>;
  /** Handles a 404. Returns whether the state of the record is known now. */
  readonly gone?: (asOfMs: Ms) => Promise<boolean>;
}

/** Fetches each row with a tombstone by id. No list has to show a record whose tombstone is wrong. */
async function verifyDeleted(verifying: Verifying): Promise<void> {
  const { look } = verifying;
  const { ctx, claim } = look;
  const next = (after: string, limit: number) => deletedAfter(ctx.pg, claim, after, limit);
  for await (const id of fromPlace(look, 'deleted', next)) {
    const more = (client: Pick<typeof ctx.pg, 'query'>) => movePlace(client, claim, 'deleted', id);
    const gone = () => keepPlace(look, more).then(() => true);
    if (!(await examineById(verifying, id, { more, gone }))) verifying.unread++;
  }
}

async function verifySample(verifying: Verifying, sample: number, details: Details | undefined): Promise<void> {
  const { look, stream } = verifying;
  if (stream.get === undefined) return;
  verifying.unread += await examineSample(look, {
    ...{ sample, ids: liveOf(look.claim.stream) },
    isCompared: id => (details ? details.examine(look, id) : examineById(verifying, id)),
    ...(details && { also: [details.key] }),
  });
}

/** Verifies parts whose record is missing here. No other reply would reveal them. `as`: the stream of the parts. */
export async function verifyOrphans(verifying: Verifying, parts: readonly Part[], as: StreamKey): Promise<void> {
  const { look, stream } = verifying;
  const { ctx, claim } = look;
  const orphans = { of: { name: stream.key }, parts, as };
  const gone = (id: string) => (asOfMs: Ms) => noteOrphans(look, orphans, id, asOfMs).then(() => true);
  // A list that is read whole has shown that the source has no such record.
  for (const id of await parentsLost(ctx.pg, claim, orphans))
    if (stream.rowFacts === undefined) await gone(id)(sourceNow(ctx, stream.source));
    else if (!(await examineById(verifying, id, { gone: gone(id) }))) verifying.unread++;
}
