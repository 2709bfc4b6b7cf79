/**
 * Reads shelves: the list of each owner's shelves, then the content of changed shelves. Each shelf is one transaction:
 * its volumes, their positions, and the time of the read. A shelf that changes too fast, or an owner that the catalog
 * does not show, is skipped and reported; the rest continues.
 */

import { commitWork, withCare } from '../../../engine/commit/commit.ts';
import { openSince } from '../../../engine/commit/rejects.ts';
import type { Context, Outcome } from '../../../engine/context.ts';
import { isOfRecord } from '../../../engine/database/pool.ts';
import { goneBy } from '../../../engine/deletions/lag.ts';
import type { Reply } from '../../../engine/http/request.ts';
import { byForce, itemsBatch } from '../../../engine/load/batch.ts';
import { ByPlace } from '../../../engine/load/too-large.ts';
import { mostWithout } from '../../../engine/reading/collection.ts';
import { covering, floorSecond, type Ms } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import { againBefore } from '../../../engine/runs/ranges.ts';
import { Gone, messageOf, Retry } from '../../../errors.ts';
import { count } from '../../../words.ts';
import { getShelf, listShelves } from '../endpoints.ts';
import { booksOf } from '../open.ts';
import type { Shelf } from '../records.ts';
import { fewTries, type Job, keepRead, noteShort, readOne, send, writeWithIds } from './read-shelf.ts';
import { type Reading, removeShelf, shelvesOf } from './shelf-rows.ts';
import { changedAt, shelves, shelvesIfAbsent } from './shelves.ts';

export async function readShelves(ctx: Context, claim: Claim): Promise<Outcome> {
  const started = new Date(ctx.clock.now());
  const missing: string[] = [];
  for (const owner of booksOf(ctx).owners) missing.push(...(await readOwner({ ctx, claim }, owner)));
  const rejects = await openSince(ctx.pg, claim, started);
  if (rejects > 0) missing.push(`${count(rejects, 'record')} could not be stored`);
  return { partial: missing.length > 0 ? missing.join('; ') : undefined };
}

/** Returns the reasons for shelves of this owner that could not be read. */
async function readOwner(job: Job, owner: string): Promise<string[]> {
  const { ctx, claim } = job;
  let replies: Reply<Shelf>[];
  try {
    replies = await requestShelves(job, owner);
  } catch (error) {
    if (!(error instanceof Gone)) throw error;
    return [`the catalog does not show the shelves of ${owner} (${error.message})`];
  }
  const [{ asOf }] = replies as [Reply<Shelf>];
  const before = await shelvesOf(ctx.pg, claim.account, owner);
  for (const reply of replies) await commitList(job, owner, reply);
  await noteShort(ctx.pg, job, owner, replies);

  const missing = isSound(replies) ? [] : [`the list of shelves of ${owner} shows none, and counts some`];
  const shown = replies.flatMap(reply => reply.records);
  const dueMs = claim.again
    ? await againBefore(ctx.pg, claim, owner, asOf)
    : (booksOf(ctx).send.sourceNow() ?? asOf) - booksOf(ctx).shelfAgeMs;
  const newestFirst = shown.toSorted((a, b) => (changedAt(b) || 0) - (changedAt(a) || 0));
  for (const shelf of newestFirst) {
    const reading = before.get(shelf.id);
    const due = (reading?.asOfMs ?? Number.NEGATIVE_INFINITY) < dueMs;
    const left = await readOne(job, owner, { shelf, asOf }, { reading, due }).catch((error: unknown) => {
      if (!isOfRecord(error)) throw error;
      return `shelf ${shelf.id} of ${owner} cannot be stored (${messageOf(error)})`;
    });
    if (left !== undefined) missing.push(left);
  }
  for (const [id, reading] of vanished(replies, before)) {
    const goneMs = await goneAsOf(job, owner, id);
    if (typeof goneMs === 'string') missing.push(goneMs);
    else await markDeleted(job, owner, id, reading, goneMs);
  }
  if (missing.length > 0 || !isReadable(replies)) return missing;
  // All shelves of this owner are stored, as of the list.
  await commitWork(ctx, claim, asOf, async () => ({ list: owner, proof: covering(0, floorSecond(asOf)) }));
  return [];
}

const isReadable = (replies: readonly Reply<Shelf>[]) => replies.every(({ unreadable }) => unreadable.length === 0);

/** Shelves that the list no longer shows. A record without a readable id may be any missing shelf: then none counts as vanished. */
export function vanished(
  replies: readonly Reply<Shelf>[],
  before: ReadonlyMap<string, Reading & { isGone: boolean }>,
): [id: string, reading: Reading][] {
  const listed = new Set(replies.flatMap(reply => reply.records.map(({ id }) => id)));
  return isReadable(replies) ? [...before].filter(([id, { isGone }]) => !isGone && !listed.has(id)) : [];
}

/**
 * One request, unless the list is longer than a page. A source may cap its pages, and take shelves out of them. So the list
 * ends where as many shelves came as its total says, or where pages bring nothing new. Totals are estimates: a full page has
 * another behind it.
 */
export async function requestShelves(job: Job, owner: string): Promise<Reply<Shelf>[]> {
  const { perPage } = shelves;
  const replies: Reply<Shelf>[] = [];
  const met = new Set<string>();
  let unreadable = 0;
  let longest = 0;
  let without = 0;
  const places = new ByPlace(perPage);
  for (let startIndex = 0; ; ) {
    const page = (maxResults: number) => listShelves(owner, { startIndex, maxResults });
    const reply = await places.ask(perPage, most => send(job, page(most)));
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
    if (arrived < perPage && total !== undefined && isCounted) return replies;
    startIndex += (isNew && arrived) || longest || perPage;
    if (!isNew && (isCounted || without > mostWithout || startIndex >= (total ?? 0))) return replies;
  }
}

/** A list without records may be a reply that lost them. */
const isSound = (replies: readonly Reply<Shelf>[]) =>
  replies.some(({ arrived }) => arrived > 0) || replies.every(({ total = 0 }) => total === 0);

async function commitList({ ctx, claim }: Job, owner: string, reply: Reply<Shelf>): Promise<void> {
  const at = { nowMs: ctx.clock.now(), asOfMs: reply.asOf };
  const credits = booksOf(ctx).send.takeCredits();
  const { batch: rows, unreadable } = itemsBatch(shelves, [reply]);
  // A plain merge skips rows with an equal `_payload`, even if someone has changed a column by hand. Shelves are few,
  // so all are written.
  const batch = byForce({ ...rows, parameters: () => [owner] });
  // A shelf id is unique only with its owner.
  const named = (id: string | undefined) => (id === undefined ? owner : `${owner}/${id}`);
  await withCare(ctx, async (client, care) => {
    const tx = { client, claim, at, care };
    // The content of a shelf refers to its id.
    const { written } = await writeWithIds(tx, batch, shelvesIfAbsent);
    const { rejects, counts: its } = written;
    const counts = { ...its, seen: reply.arrived, credits };
    const stored = [owner, ...batch.records.map(({ id }) => named(id))];
    const kept = { stream: shelves, replies: [reply], batch, unreadable, rejects, counts, stored };
    await keepRead(tx, kept, reject => ({
      ...reject,
      recordId: reject.recordId && named(reject.recordId),
      askId: named(reject.recordId),
    }));
  });
}

/**
 * As of when a shelf that its list no longer shows is gone, or why it stays: only if the source says that it does not
 * exist. If the shelf cannot be fetched, a second list must lack it and show others.
 */
export async function goneAsOf(job: Job, owner: string, id: string): Promise<Ms | string> {
  const unknown = `whether shelf ${id} of ${owner} is gone could not be asked`;
  try {
    await send(job, getShelf(owner, id), { tries: fewTries });
    return `the list of shelves of ${owner} leaves out shelf ${id}, which is there`;
  } catch (error) {
    // A 404 without a Date may come from another system.
    if (error instanceof Gone) return Number.isFinite(error.asOf) ? error.asOf : unknown;
    if (!(error instanceof Retry)) throw error;
  }
  const replies = await requestShelves(job, owner);
  const shows = new Set(replies.flatMap(reply => reply.records.map(record => record.id)));
  if (shows.has(id)) return `the list of shelves of ${owner} showed shelf ${id} only the second time`;
  const counted = Math.max(...replies.map(({ total = 0 }) => total));
  return shows.size === 0 || !isReadable(replies) || counted > shows.size ? unknown : replies[0]!.asOf;
}

function markDeleted(
  { ctx, claim }: Job,
  owner: string,
  shelf: string,
  { asOfMs: beforeMs }: Reading,
  asOfMs: Ms,
): Promise<void> {
  const changedMs = Math.max(goneBy(booksOf(ctx), asOfMs) - 1, (beforeMs ?? 0) + 1);
  const key = { account: claim.account, owner, shelf };
  return commitWork(ctx, claim, asOfMs, async (client, at) => {
    const deleted = await removeShelf(client, claim, key, { ...at, changedMs, beforeMs });
    return { counts: { deleted }, stored: [`${owner}/${shelf}`, `${owner}/${shelf}/volumes`] };
  });
}
