/**
 * Verifies a stream: reads all records, or a sample, again and compares them with the stored rows.
 *
 * Tickets are read in the order of creation, so each page also shows which stored rows the source lacks. For customers
 * and users the whole list shows it. Messages are read ticket by ticket. A row that no list shows is fetched by id
 * before it counts as deleted.
 */

import type { Context } from '../../../engine/context.ts';
import { isRedundant } from '../../../engine/coverage/coverage.ts';
import type { Client } from '../../../engine/database/pool.ts';
import { nameOfKey, type StreamKey } from '../../../engine/database/stream-key.ts';
import { scopeOf } from '../../../engine/deletions/walks.ts';
import type { Reply } from '../../../engine/http/request.ts';
import { listBatch, pageOf, singleBatch } from '../../../engine/load/batch.ts';
import { laneOf } from '../../../engine/load/commit-reply.ts';
import { endsOf } from '../../../engine/load/list-ends.ts';
import type { Outcome } from '../../../engine/load/list-loop.ts';
import { unlessTooLarge } from '../../../engine/load/too-large.ts';
import { readByCreation } from '../../../engine/reading/by-creation.ts';
import { inFewer, isOfOne, type TooLarge } from '../../../engine/reading/fewer.ts';
import { type Ends, floorSecond, type Ms, type Proof, type Step, secondMs } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import type { Examined, Look } from '../../../engine/verify/compare-reply.ts';
import { completeThrough, countFindings } from '../../../engine/verify/findings.ts';
import { askedOf, gapsOf, movePlace, noteCounts, placeOf } from '../../../engine/verify/verifications.ts';
import { Gone, Retry } from '../../../errors.ts';
import { count } from '../../../words.ts';
import type { ListStream, Row } from '../../source.ts';
import { examineGone, keepPlace, noteGone, options } from '../deletions/confirm-deletion.ts';
import { helpdeskOf } from '../open.ts';
import { knownCuts } from '../partitions.ts';
import { type Compared, examineNamesOfNothing, examineRecords, examineTicket } from './compare.ts';
import { noteHanging, parentsWithoutRow, type Verifying } from './hanging.ts';
import { chooseAtRandom, noteUnread } from './rows.ts';
import {
  countLive,
  countTickets,
  deletedAfter,
  idsAfter,
  ticketsAfter,
  ticketsForAllNames,
  unshownTickets,
} from './stored.ts';

/** Ids per query. */
const batchSize = 100;

export async function verifyStream(ctx: Context, claim: Claim, compared: Compared): Promise<Outcome> {
  const { sample, repair } = await askedOf(ctx.pg, claim.run);
  const name = nameOfKey(claim.stream) as keyof Compared;
  const table = name === 'messages' ? 'tickets' : name;
  const live = await countLive(ctx.pg, claim.account, table);
  const expected = Math.min(sample ?? live, live);
  const look = { ctx, claim, repair, random: sample !== null, expected };
  const stream = compared[name === 'messages' ? 'tickets' : name];
  const verifying: Verifying = { look, stream, compared, unread: 0, late: new Set(), gaps: [] };
  if (name === 'messages') {
    await verifyMessages(verifying);
    await examineNamesOfNothing(look);
  } else if (name === 'users') await verifyWhole(verifying);
  else {
    for (const list of await listsOf(ctx, claim, stream)) {
      if ((await placeOf(ctx.pg, claim, list)) === undefined) await countList(verifying, list);
      if (sample !== null) continue;
      if (name === 'tickets') await verifyList(verifying, list);
      else await verifyWhole(verifying);
    }
    if (sample !== null) await verifySample(verifying, sample);
  }
  if (sample === null && (name === 'customers' || name === 'tickets')) await verifyDeleted(verifying);
  if (sample === null && (name === 'customers' || name === 'messages')) await verifyHanging(verifying, name);
  const { gaps } = verifying;
  const unread = verifying.unread + verifying.late.size;
  const unjudged = await unjudgedOf(ctx, claim, stream.key);
  const missing = [...gaps, ...unjudged, ...(unread > 0 ? [`${count(unread, 'record')} could not be compared`] : [])];
  return { partial: missing.length > 0 ? missing.join('; ') : undefined };
}

/**
 * Counts the records that could not be compared. A row that was written while the reply was in flight is fetched again
 * by id. If the stream cannot fetch by id, the row counts as not compared.
 */
async function note(verifying: Verifying, { unread, late }: Examined): Promise<void> {
  verifying.unread += unread;
  if (verifying.stream.get !== undefined) await examineUnshown(verifying, late);
  else for (const id of late) verifying.late.add(id);
}

/**
 * Messages about ranges that were never read. The mirror does not claim their records, so none of them can be missing.
 */
async function unjudgedOf(ctx: Context, { account }: Claim, stream: StreamKey): Promise<string[]> {
  const { gaps, from } = await gapsOf(ctx.pg, account, stream);
  if (gaps === 0) return [];
  const what =
    stream === 'helpdesk.tickets'
      ? 'tickets that changed in them were not judged'
      : 'records created since then were not judged';
  return [
    `${count(gaps, 'range has', 'ranges have')} not been read, the first from ${from!.toISOString()}: ${what}, and records created since then were not counted`,
  ];
}

async function listsOf(ctx: Context, claim: Claim, stream: ListStream<Row>): Promise<string[]> {
  const lists: string[] = [];
  for (const { name } of stream.lists) if (!(await isRedundant(ctx.pg, claim, name))) lists.push(name);
  return lists;
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
async function countList({ look: { ctx, claim }, stream }: Verifying, list: string): Promise<void> {
  const none = { list, ours: null, theirs_least: null, theirs_most: null };
  const isTickets = stream.key === 'helpdesk.tickets';
  // The last second of the synced range may be incomplete.
  const through = floorSecond((await completeThrough(ctx.pg, claim.account, stream.key)) ?? 0) - secondMs;
  const { sinceMs } = await sinceOf(ctx, claim);
  if (isTickets && sinceMs > 0) return noteCounts(ctx.pg, claim, none);
  // Undefined if the source gives no count, or counts no further.
  const count = async (since?: Ms) => {
    const ask = { page: 1, perPage: 0, count: true, order: 'created', ...(since !== undefined && { since }) } as const;
    const request = stream.request(list, ask);
    const { total } = await helpdeskOf(ctx).send(request, { lane: laneOf(claim), signal: ctx.signal });
    return total === stream.paging.depth ? undefined : total;
  };
  const before = await count(through);
  const all = await count();
  const live = isTickets ? 0 : await countLive(ctx.pg, claim.account, 'customers');
  const after = await count(through);
  if (all === undefined || before === undefined || after === undefined) return noteCounts(ctx.pg, claim, none);
  const least = all - Math.max(before, after);
  if (!isTickets) {
    const most = all + Math.max(0, after - before);
    return noteCounts(ctx.pg, claim, { list, ours: live, theirs_least: least, theirs_most: most });
  }
  const ours = await countTickets(ctx.pg, claim.account, list, through);
  const most = all - Math.min(before, after);
  await noteCounts(ctx.pg, claim, { list, ours: ours.before, theirs_least: least - ours.within, theirs_most: most });
}

const sinceOf = (ctx: Context, claim: Claim) => scopeOf(ctx.pg, { ...claim, stream: 'helpdesk.tickets' });

// --- by creation
// -------------------------------------------------------------------------------------------------------

async function verifyList(verifying: Verifying, list: string): Promise<void> {
  const { look, stream, gaps } = verifying;
  const { ctx, claim } = look;
  const { sinceMs } = await sinceOf(ctx, claim);
  const before = (await placeOf(ctx.pg, claim, list))?.place;
  const cuts = await knownCuts(ctx.pg, claim, stream.enumerations.type ?? []);
  const reading = inFewer(readByCreation, before ? Number(before) : 0, {
    ...stream.paging,
    lookbackMs: helpdeskOf(ctx).lookbackMs,
    cuts,
    updatedSince: sinceMs > 0 ? sinceMs - secondMs : undefined,
    ends: await doubtedEnds(verifying, list),
  });
  const shown = new Map<string, Ms>();
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
      const batch = listBatch(stream, ask, reply);
      const updated = (record: Row) => stream.orderedBy(record);
      await note(verifying, await examineRecords(look, { stream, reply, batch, askedMs, updated }));
    }
    const proof = step.done ? step.value : step.value.proof;
    if (proof.gap) gaps.push(`${list} list, ${new Date(proof.gap.from).toISOString()}: ${proof.gap.reason}`);
    if (!proof.covered) continue;
    const range = proof.covered;
    const what = { range, shown: [...shown.keys()], sinceMs };
    await examineUnshown(verifying, await unshownTickets(ctx.pg, claim.account, list, what));
    for (const [id, time] of shown) if (time < range.to) shown.delete(id);
    await movePlace(ctx.pg, claim, list, String(range.to));
  }
  const undated = { range: undefined, shown: [...shown.keys()], sinceMs };
  await examineUnshown(verifying, await unshownTickets(ctx.pg, claim.account, list, undated));
}

/** A verification believes no end, and no stored set. */
async function doubtedEnds({ look: { ctx, claim }, stream }: Verifying, list: string): Promise<Ends> {
  return { ...(await endsOf(ctx, claim, stream, list)), doubt: 'always', known: undefined };
}

async function readPage(
  { ctx, claim }: Look,
  stream: ListStream<Row>,
  list: string,
  ask: Step['ask'],
): Promise<{ reply: Reply<Row> | TooLarge; askedMs: Ms }> {
  ctx.signal.throwIfAborted();
  const askedMs = ctx.clock.now();
  const sent = helpdeskOf(ctx).send(stream.request(list, ask), { lane: laneOf(claim), signal: ctx.signal });
  return { reply: await unlessTooLarge(sent, ask), askedMs };
}

/** Fetches each row that a list lacked by id, because a list may hide existing records. */
async function examineUnshown(verifying: Verifying, ids: readonly string[]): Promise<void> {
  for (const id of ids) await examineById(verifying, id);
}

async function examineById(
  verifying: Verifying,
  id: string,
  { more, gone = () => examineGone(verifying.look, verifying.stream, id) }: ById = {},
): Promise<void> {
  const { look, stream } = verifying;
  const { ctx } = look;
  ctx.signal.throwIfAborted();
  const askedMs = ctx.clock.now();
  try {
    const reply = await helpdeskOf(ctx).send(stream.get!(id), options(look));
    const updated = stream.key === 'helpdesk.tickets' ? (record: Row) => stream.orderedBy(record) : undefined;
    if (reply.records[0]?.id === id) {
      const batch = singleBatch(stream, reply);
      const { unread, late } = await examineRecords(look, { stream, reply, batch, askedMs, updated, more });
      verifying.unread += unread + late.length;
      return;
    }
  } catch (error) {
    if (error instanceof Gone && Number.isFinite(error.asOf)) {
      if (!(await gone({ askedMs, asOfMs: error.asOf }))) verifying.unread++;
      return;
    }
    if (!(error instanceof Gone || error instanceof Retry)) throw error;
  }
  verifying.unread++;
  if (more) await keepPlace(look, more);
}

interface ById {
  readonly more?: (client: Client) => Promise<void>;
  /** Handles a 404. Returns whether the state of the record is known now. */
  readonly gone?: (at: { askedMs: Ms; asOfMs: Ms }) => Promise<boolean>;
}

/** Fetches each row with a tombstone by id. No list has to show a record whose tombstone is wrong. */
async function verifyDeleted(verifying: Verifying): Promise<void> {
  const { look } = verifying;
  const { ctx, claim } = look;
  for (let after = (await placeOf(ctx.pg, claim, 'deleted'))?.place ?? ''; ; ) {
    const ids = await deletedAfter(ctx.pg, claim, after, batchSize);
    if (ids.length === 0) return;
    for (const id of ids) {
      const more = (client: Pick<typeof ctx.pg, 'query'>) => movePlace(client, claim, 'deleted', id);
      const gone = () => keepPlace(look, more).then(() => true);
      await examineById(verifying, id, { more, gone });
    }
    after = ids.at(-1)!;
  }
}

// --- whole lists
// -------------------------------------------------------------------------------------------------------

/**
 * Verifies customers or users. A row that no page showed is fetched by id. If the stream cannot fetch by id, the list
 * is read a second time.
 */
async function verifyWhole(verifying: Verifying): Promise<void> {
  const { look, stream } = verifying;
  const { ctx, claim } = look;
  const [{ name: list }] = stream.lists;
  const first = await readWhole(verifying, list, true);
  if (first === undefined) return;
  const unshown: string[] = [];
  for (let after = ''; ; ) {
    const ids = await idsAfter(ctx.pg, claim.account, stream.name as 'customers' | 'users', after, batchSize);
    if (ids.length === 0) break;
    unshown.push(...ids.filter(id => !first.shown.has(id)));
    after = ids.at(-1)!;
  }
  if (stream.get !== undefined) return examineUnshown(verifying, unshown);
  if (unshown.length === 0) return;
  const second = await readWhole(verifying, list, false);
  if (second === undefined) return;
  for (const id of unshown.filter(one => !second.shown.has(one))) {
    if (!(await noteGone(look, stream, id, second))) verifying.unread++;
  }
}

/** Reads a whole list. Returns the ids that it showed; undefined if the read did not reach the end. */
async function readWhole(
  verifying: Verifying,
  list: string,
  compares: boolean,
): Promise<{ shown: Set<string>; askedMs: Ms; asOfMs: Ms } | undefined> {
  const { look, stream, gaps } = verifying;
  const { ctx, claim } = look;
  const { lookbackMs } = helpdeskOf(ctx);
  const begunMs = (await completeThrough(ctx.pg, claim.account, stream.key)) ?? 0;
  const ends = await doubtedEnds(verifying, list);
  const reading = inFewer(stream.read, 0, { ...stream.paging, lookbackMs, firstLoad: true, ends });
  const shown = new Set<string>();
  const newcomers = new Set<string>();
  let first: { askedMs: Ms; asOfMs: Ms } | undefined;
  let isWhole = true;
  let step: IteratorResult<Step, Proof> = reading.next();
  while (!step.done) {
    const { ask } = step.value;
    const { reply, askedMs } = await readPage(look, stream, list, ask);
    first ??= { askedMs, asOfMs: reply.asOf };
    if ('tooLarge' in reply) {
      step = reading.next(reply);
      if (isOfOne(ask)) {
        verifying.unread++;
        isWhole &&= stream.get !== undefined;
      }
      if (step.done && step.value.gap) isWhole = false;
      continue;
    }
    // A record without an id could be any missing row. Fetching by id would settle that, but this stream does not
    // support it.
    if (stream.get === undefined && reply.unreadable.some(({ id }) => id === undefined)) isWhole = false;
    for (const { id } of [...reply.records, ...reply.unreadable]) if (id !== undefined) shown.add(id);
    step = reading.next(pageOf(stream, reply, ask.order));
    const proof = step.done ? step.value : step.value.proof;
    if (proof.gap) {
      gaps.push(`${list} list, ${new Date(proof.gap.from).toISOString()}: ${proof.gap.reason}`);
      isWhole = false;
    }
    if (!compares) continue;
    const batch = listBatch(stream, ask, reply);
    const examined = await examineRecords(look, { stream, reply, batch, askedMs });
    const { undecided } = examined;
    await note(verifying, examined);
    if (undecided.length === 0) continue;
    // Records that are missing here may have been created since the last sync.
    if (!undecided.every(id => newcomers.has(id)) && !(await readNewcomers(verifying, list, begunMs, newcomers)))
      // The newcomers exceed the paging depth, so no record can be judged missing.
      for (const id of undecided) newcomers.add(id);
    const left = { ...batch, records: batch.records.filter(({ id }) => undecided.includes(id)) };
    await examineRecords(look, { stream, reply, batch: left, askedMs, newcomers, uncounted: true });
  }
  return isWhole && first ? { shown, ...first } : undefined;
}

/** Adds the ids of records created since this time. Returns false if they exceed the paging depth. */
async function readNewcomers(
  { look, stream }: Verifying,
  list: string,
  sinceMs: Ms,
  newcomers: Set<string>,
): Promise<boolean> {
  const { perPage, depth } = stream.paging;
  const since = Math.max(0, sinceMs - secondMs);
  for (let page = 1; page * perPage <= depth; page++) {
    const { reply } = await readPage(look, stream, list, { since, page, perPage });
    if ('tooLarge' in reply) return false;
    for (const { id } of reply.records) newcomers.add(id);
    // A short page is not the last one for certain.
    if (reply.arrived === 0) return true;
  }
  return false;
}

// --- by id
// -------------------------------------------------------------------------------------------------------------

async function verifySample(verifying: Verifying, sample: number): Promise<void> {
  const { look, stream, compared } = verifying;
  const { ctx, claim } = look;
  const limit = sample - (await countFindings(ctx.pg, claim));
  for (const id of await chooseAtRandom(ctx.pg, claim, { limit, chance: ctx.random() })) {
    ctx.signal.throwIfAborted();
    const { unread } = verifying;
    if (stream.key !== 'helpdesk.tickets') await examineById(verifying, id);
    else if (!(await examineTicket(look, compared, id, { whole: true }))) verifying.unread++;
    if (verifying.unread > unread)
      await noteUnread(ctx.pg, claim, id, helpdeskOf(ctx).send.sourceNow() ?? ctx.clock.now());
  }
}

/**
 * Reads every ticket by id with its messages. Each label and inbox name is embedded with one of the tickets that use
 * it.
 */
async function verifyMessages(verifying: Verifying): Promise<void> {
  const { look, compared } = verifying;
  const { ctx, claim } = look;
  const embeds = await ticketsForAllNames(ctx.pg, claim.account);
  for (let after = (await placeOf(ctx.pg, claim, 'default'))?.place ?? ''; ; ) {
    const ids = await ticketsAfter(ctx.pg, claim, after, batchSize);
    if (ids.length === 0) return;
    for (const id of ids) {
      ctx.signal.throwIfAborted();
      const more = (client: Pick<typeof ctx.pg, 'query'>) => movePlace(client, claim, 'default', id);
      const ok = await examineTicket(look, compared, id, { whole: false, embeds: embeds.get(id) ?? [], more });
      if (!ok) verifying.unread++;
    }
    after = ids.at(-1)!;
  }
}

/** Verifies child rows whose parent record is missing here. No other reply would reveal them. */
async function verifyHanging(verifying: Verifying, stream: 'customers' | 'messages'): Promise<void> {
  const { ctx, claim } = verifying.look;
  for (const id of await parentsWithoutRow(ctx.pg, claim, stream)) {
    const gone = ({ asOfMs }: { asOfMs: Ms }) => noteHanging(verifying, stream, id, asOfMs);
    await examineById(verifying, id, { gone });
  }
}
