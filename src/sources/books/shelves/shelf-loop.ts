/**
 * Reads shelves: the list of each owner's shelves, then the content of changed shelves. Each shelf is one transaction:
 * its volumes, their positions, and the time of the read. A shelf that changes too fast, or an owner that the catalog
 * does not show, is skipped and reported; the rest continues.
 */

import { commitWork, keepBooks, withCare } from '../../../engine/commit/commit.ts';
import { openSince } from '../../../engine/commit/rejects.ts';
import { writeBatch } from '../../../engine/commit/rows.ts';
import type { Context, Outcome } from '../../../engine/context.ts';
import { isOfRecord } from '../../../engine/database/pool.ts';
import { goneBy } from '../../../engine/deletions/lag.ts';
import type { Reply } from '../../../engine/http/request.ts';
import { byForce, driftOf, idsBatch, itemsBatch, rejectOf } from '../../../engine/load/batch.ts';
import { ByPlace } from '../../../engine/load/too-large.ts';
import { mostWithout } from '../../../engine/reading/collection.ts';
import { covering, floorSecond, type Ms } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import { Gone, messageOf, Retry } from '../../../errors.ts';
import { count } from '../../../words.ts';
import type { Row } from '../../source.ts';
import { booksOf } from '../open.ts';
import { fewTries, type Job, laneOfShelves, noteShort, readOne, type Shelves } from './read-shelf.ts';
import { againBefore, markShelfDeleted, type Reading, type ShelfKey, shelve, shelvesOf } from './shelf-rows.ts';

export async function readShelves(ctx: Context, claim: Claim, stream: Shelves): Promise<Outcome> {
  const started = new Date(ctx.clock.now());
  const missing: string[] = [];
  for (const owner of booksOf(ctx).owners) missing.push(...(await readOwner({ ctx, claim, stream }, owner)));
  const rejects = await openSince(ctx.pg, claim, started);
  if (rejects > 0) missing.push(`${count(rejects, 'record')} could not be stored`);
  return { partial: missing.length > 0 ? missing.join('; ') : undefined };
}

/** Returns the reasons for shelves of this owner that could not be read. */
async function readOwner(job: Job, owner: string): Promise<string[]> {
  const { ctx, claim, stream } = job;
  let replies: Reply<Row>[];
  try {
    replies = await requestShelves(job, owner);
  } catch (error) {
    if (!(error instanceof Gone)) throw error;
    return [`the catalog does not show the shelves of ${owner} (${error.message})`];
  }
  const [{ asOf }] = replies as [Reply<Row>];
  const before = await shelvesOf(ctx.pg, claim.account, owner);
  await commitList(job, owner, replies);
  await noteShort(ctx.pg, job, owner, replies);

  const missing = isSound(replies) ? [] : [`the list of shelves of ${owner} shows none, and counts some`];
  const shelves = replies.flatMap(reply => reply.records);
  const dueMs = claim.again
    ? await againBefore(ctx.pg, claim, owner, asOf)
    : (booksOf(ctx).send.sourceNow() ?? asOf) - booksOf(ctx).shelfAgeMs;
  for (const shelf of newestFirst(stream, shelves)) {
    const reading = before.get(shelf.id);
    const due = (reading?.asOfMs ?? Number.NEGATIVE_INFINITY) < dueMs;
    const left = await readOne(job, owner, { shelf, asOf }, { reading, due }).catch((error: unknown) => {
      if (!isOfRecord(error)) throw error;
      return `shelf ${shelf.id} of ${owner} cannot be stored (${messageOf(error)})`;
    });
    if (left !== undefined) missing.push(left);
  }
  const unreadable = replies.some(reply => reply.unreadable.length > 0);
  const listed = new Set(shelves.map(({ id }) => id));
  // A record without a readable id may be any missing shelf, so no shelf counts as vanished.
  const vanished = unreadable ? [] : [...before].filter(([id, { isGone }]) => !isGone && !listed.has(id));
  for (const [id, reading] of vanished) missing.push(...(await confirmGone(job, owner, id, reading)));

  if (missing.length === 0 && !unreadable) await coverOwner(job, owner, asOf);
  return missing;
}

/**
 * One request, unless the list is longer than a page. A source may cap its pages, and take shelves out of them. So the list
 * ends where as many shelves came as its total says, or where pages bring nothing new. Totals are estimates: a full page has
 * another behind it.
 */
export async function requestShelves({ ctx, claim, stream }: Job, owner: string): Promise<Reply<Row>[]> {
  const replies: Reply<Row>[] = [];
  const met = new Set<string>();
  let unreadable = 0;
  let longest = 0;
  let without = 0;
  const places = new ByPlace(stream.perPage);
  for (let start = 0; ; ) {
    const options = { lane: laneOfShelves(claim), signal: ctx.signal };
    const reply = await places.ask(stream.perPage, most =>
      booksOf(ctx).send(stream.request(owner, start, most), options),
    );
    const { arrived, total } = reply;
    const news = reply.records.filter(({ id }) => !met.has(id)).length;
    // A page of shelves that cannot be read brings news as well, once.
    const isNew = news > 0 || (arrived > 0 && reply.records.length === 0);
    if (replies.length === 0 || isNew) replies.push(reply);
    for (const { id } of reply.records) met.add(id);
    if (isNew) unreadable += reply.unreadable.length;
    without = isNew ? 0 : without + 1;
    longest = Math.max(longest, arrived);
    const isCounted = met.size + unreadable >= (total ?? 0);
    if (arrived < stream.perPage && total !== undefined && isCounted) return replies;
    start += (isNew && arrived) || longest || stream.perPage;
    if (!isNew && (isCounted || without > mostWithout || start >= (total ?? 0))) return replies;
  }
}

/** A list without records may be a reply that lost them. */
const isSound = (replies: readonly Reply<Row>[]) =>
  replies.some(({ arrived }) => arrived > 0) || replies.every(({ total = 0 }) => total === 0);

const newestFirst = (stream: Shelves, shelves: readonly Row[]) =>
  shelves.toSorted((a, b) => (stream.changed(b) || 0) - (stream.changed(a) || 0));

async function commitList({ ctx, claim, stream }: Job, owner: string, replies: readonly Reply<Row>[]): Promise<void> {
  for (const reply of replies) {
    const at = { nowMs: ctx.clock.now(), asOfMs: reply.asOf };
    const credits = booksOf(ctx).send.takeCredits();
    const { batch: rows, unreadable } = itemsBatch(stream, [reply]);
    // A plain merge skips rows with an equal `_payload`, even if someone has changed a column by hand. Shelves are few,
    // so all are written.
    const batch = byForce({ ...rows, parameters: () => [owner] });
    // A shelf id is unique only with its owner.
    const named = (id: string | undefined) => (id === undefined ? owner : `${owner}/${id}`);
    await withCare(ctx, async (client, care) => {
      const tx = { client, claim, at, care };
      const { counts, rejects } = await writeBatch(tx, batch);
      // If a row cannot be stored, its id still is, because the content of the shelf refers to it.
      const left = new Set(rejects.map(({ recordId }) => recordId!));
      if (left.size > 0) await writeBatch(tx, idsBatch(stream, batch, left));
      const refused = [...unreadable.map(one => rejectOf(one, batch)), ...rejects].map(reject => ({
        ...reject,
        recordId: reject.recordId && named(reject.recordId),
        askId: named(reject.recordId),
      }));
      await keepBooks(tx, {
        counts: { ...counts, seen: reply.arrived, rejected: refused.length, credits },
        filter: batch.filter,
        rejects: refused,
        stored: [owner, ...batch.records.map(({ id }) => named(id))],
        drift: driftOf(stream, reply.records, unreadable, counts.cleaned > 0, reply.notUtf8),
      });
    });
  }
}

/**
 * Handles a shelf that the list no longer shows. It gets a tombstone only if the source says that it does not exist. If
 * the shelf cannot be fetched, a second list must lack it and show others. Returns the reason if the shelf is left
 * unchanged.
 */
async function confirmGone(job: Job, owner: string, id: string, reading: Reading): Promise<string[]> {
  const { ctx, stream } = job;
  const key = { account: job.claim.account, owner, shelf: id };
  try {
    await booksOf(ctx).send(stream.get(owner, id), { lane: 'fresh', signal: ctx.signal, tries: fewTries });
    return [`the list of shelves of ${owner} leaves out shelf ${id}, which is there`];
  } catch (error) {
    if (error instanceof Gone) {
      await markDeleted(job, key, reading, error.asOf);
      return [];
    }
    if (!(error instanceof Retry)) throw error;
  }
  const replies = await requestShelves(job, owner);
  const shows = replies.flatMap(reply => reply.records.map(record => record.id));
  const isReadable = replies.every(({ unreadable }) => unreadable.length === 0);
  if (shows.includes(id)) return [`the list of shelves of ${owner} showed shelf ${id} only the second time`];
  if (shows.length === 0 || !isReadable || counted(replies) > new Set(shows).size)
    return [`whether shelf ${id} of ${owner} is gone could not be asked`];
  await markDeleted(job, key, reading, replies[0]!.asOf);
  return [];
}

const counted = (replies: readonly Reply<Row>[]) => Math.max(...replies.map(({ total = 0 }) => total));

async function markDeleted(
  { ctx, claim }: Job,
  key: ShelfKey,
  { asOfMs: beforeMs }: Reading,
  asOfMs: Ms,
): Promise<void> {
  const changedMs = Math.max(goneBy(booksOf(ctx), asOfMs) - 1, (beforeMs ?? 0) + 1);
  await commitWork(ctx, claim, asOfMs, async (client, at) => {
    const nothing = { text: '[]', positions: [], all: true, ...at, changedMs, movedMs: changedMs, beforeMs };
    const { deleted } = await shelve(client, key, nothing);
    await markShelfDeleted(client, claim, key, changedMs, at.nowMs);
    const place = `${key.owner}/${key.shelf}`;
    return { counts: { deleted: deleted + 1 }, stored: [place, `${place}/volumes`] };
  });
}

/** Records that all shelves of this owner are stored, as of the list. */
const coverOwner = ({ ctx, claim }: Job, owner: string, asOf: Ms): Promise<void> =>
  commitWork(ctx, claim, asOf, async () => ({ list: owner, proof: covering(0, floorSecond(asOf)) }));
