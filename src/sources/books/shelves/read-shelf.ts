/** Reads one shelf until its content at one moment is known, and stores it in one transaction. */

import { createHash } from 'node:crypto';
import { newOnes, noteAges } from '../../../engine/commit/change-latency.ts';
import { commitWork, keepBooks, withCare } from '../../../engine/commit/commit.ts';
import type { Batch, Reject, Tx, Written } from '../../../engine/commit/page.ts';
import { screen, writeBatch } from '../../../engine/commit/rows.ts';
import type { Context } from '../../../engine/context.ts';
import { noteSize } from '../../../engine/coverage/pages.ts';
import type { Reply, Request, Unreadable } from '../../../engine/http/request.ts';
import { bareBatch, driftOf, idsBatch, itemsBatch, rejectOf } from '../../../engine/load/batch.ts';
import { laneOf } from '../../../engine/load/commit-reply.ts';
import { ByPlace, isLost } from '../../../engine/load/too-large.ts';
import { isSame, readShelf } from '../../../engine/reading/collection.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import type { Counts } from '../../../engine/runs/runs.ts';
import { Gone, Retry, Spent } from '../../../errors.ts';
import type { Row, Stream } from '../../source.ts';
import { getShelf, listVolumes } from '../endpoints.ts';
import { booksOf } from '../open.ts';
import type { Shelf } from '../records.ts';
import { listedIfAbsent } from '../volumes/volumes.ts';
import { membersOf, noteReading, type Reading, type ShelfKey, shelve } from './shelf-rows.ts';
import { changedAt, countOf, shelves, versionOf } from './shelves.ts';

export interface Job {
  readonly ctx: Context;
  readonly claim: Claim;
}

/** For optional requests, and for records that may be deleted: an unknown id may answer like a temporary failure. */
export const fewTries = 2;
/** A version that the catalog never shows, so that the next run reads the shelf again. */
const unsettled = 'unsettled';

/** Comparisons yield to reads. */
export const send = <T>(
  { ctx, claim }: Job,
  request: Request<T>,
  options: { tries?: number } = {},
): Promise<Reply<T>> =>
  booksOf(ctx).send(request, {
    ...{ lane: laneOf(claim) === 'sweep' ? 'sweep' : 'fresh', signal: ctx.signal },
    ...options,
  });

/** Keeps how many records a page shows, if others are behind a page with fewer than were asked for. */
export async function noteShort(
  db: Pick<Context['pg'], 'query'>,
  { claim }: Job,
  owner: string,
  replies: readonly Reply<Row>[],
): Promise<void> {
  const full = replies.filter(({ arrived }) => arrived > 0);
  // A source that ignores where a page is to begin shows the same one again.
  const isOther = (one: Reply<Row>, next: Reply<Row>) => !isSame(idsOf(one), idsOf(next));
  const sizes = full.slice(0, -1).flatMap((one, i) => (isOther(one, full[i + 1]!) ? one.arrived : []));
  const size = Math.max(...sizes);
  if (sizes.some(one => one < shelves.perPage))
    await noteSize(db, claim, owner, { size, varies: sizes.some(one => one < size) });
}

/** State of a shelf according to the catalog, with the time of the reply. */
export interface Told {
  readonly shelf: Shelf;
  readonly asOf: Ms;
}

/**
 * Reads a shelf if it has changed. Returns the reason if it could not be read; undefined otherwise. `due`: reads it in
 * any case.
 */
export async function readOne(
  job: Job,
  owner: string,
  listed: Told,
  { reading, due }: { reading: Reading | undefined; due: boolean },
): Promise<string | undefined> {
  const { ctx, claim } = job;
  const key = { account: claim.account, owner, shelf: listed.shelf.id };
  const isUnchanged = (shelf: Shelf) => !due && reading?.version === versionOf(shelf);
  const proves = (shelf: Shelf) => versionOf(shelf) !== null;
  if (proves(listed.shelf) && isUnchanged(listed.shelf)) return undefined;
  // The shelf's own record may state more than the list. If neither states a version, reading the end of the shelf
  // decides.
  const look = !due && reading?.version === null && !proves(listed.shelf);
  const told = look || proves(listed.shelf) ? listed : ((await ask(job, owner, listed.shelf.id)) ?? listed);
  if (proves(told.shelf) && isUnchanged(told.shelf)) return undefined;

  const known = reading?.asOfMs === undefined ? undefined : await membersOf(ctx.pg, key);
  const read = await readVolumes(job, key, { known, look, count: countOf(told.shelf) });
  if (typeof read === 'string') return read;
  const { replies, ids, whole } = read;
  const isAsBefore = !whole || isSame(ids, known ?? []);
  const isShort = !(known && isAsBefore) && ids.length < (countOf(told.shelf) ?? 0);
  const doubt = isShort || ids.includes('') ? doubtOf(ids) : undefined;
  const isDoubted = doubt !== undefined && reading?.version !== doubt;
  const short = isDoubted && isShort ? `shelf ${key.shelf} of ${owner} shows fewer volumes than it counts` : undefined;
  if (short && known) {
    // The stored content stays.
    await commitWork(ctx, claim, 0, async client => {
      await noteReading(client, key, { asOfMs: reading?.asOfMs, version: doubt! });
      return undefined;
    });
    return short;
  }
  const times = isAsBefore
    ? { changedMs: read.asOf, movedMs: read.asOf }
    : await changes(job, key, told.shelf, { reading, replies, known, ids });
  await commitShelf(job, key, { ...read, ...times, reading, version: isDoubted ? doubt : settledVersion(told) });
  return short;
}

export interface Read {
  /** Replies of the successful read, or of the read of the end. */
  readonly replies: readonly Reply<Row>[];
  readonly startIndex: number;
  readonly ids: readonly string[];
  readonly asOf: Ms;
  /** True for the whole shelf; false if only its end was read, and is unchanged. */
  readonly whole: boolean;
}

/** Returns the content of the shelf, or the reason why it is unknown. */
export async function readVolumes(
  job: Job,
  { owner, shelf }: ShelfKey,
  options: { known: readonly string[] | undefined; look: boolean; count: number | undefined },
): Promise<Read | string> {
  const { perPage } = shelves;
  const steps = readShelf({ ...options, perPage });
  /** Replies of the current attempt. */
  let asked: { startIndex: number; reply: Reply<Row> }[] = [];
  let step = steps.next();
  const places = new ByPlace(perPage);
  while (!step.done) {
    job.ctx.signal.throwIfAborted();
    const { startIndex, maxResults } = step.value;
    const page = (most: number) => listVolumes(owner, shelf, { startIndex, maxResults: most });
    const reply = await unlessMissing(places.ask<Row>(maxResults, most => send(job, page(most))));
    if (reply === 'gone') return `shelf ${shelf} of ${owner} was gone when its volumes were asked for`;
    if (reply === 'refused') return `the catalog refuses the volumes of shelf ${shelf} of ${owner}`;
    if (startIndex === 0) asked = [];
    asked.push({ startIndex, reply });
    // Two pages of one such record are not the same page.
    step = steps.next({ ids: isLost(reply) ? [`too large: ${startIndex}`] : idsOf(reply), asOf: reply.asOf });
  }
  const { value } = step;
  if (value.found === 'moved') return `shelf ${shelf} of ${owner} moved while it was read`;
  const replies = asked.map(({ reply }) => reply);
  const ids = replies.flatMap(idsOf);
  return { replies, startIndex: asked[0]!.startIndex, ids, asOf: value.asOf, whole: value.found === 'whole' };
}

/**
 * Version for a doubtful content: fewer volumes than the shelf counts, and not the known ones. Both replies may have
 * lost records or ids. The next run believes the content if it finds the same, because a catalog may count volumes that
 * it does not show. The version contains the ids that were found.
 */
export const doubtOf = (ids: readonly string[]) =>
  `doubted ${createHash('sha256').update(ids.join('\n')).digest('hex').slice(0, 16)}`;

/** Fetches the shelf itself; undefined on failure, which the request for its volumes will report. */
async function ask(job: Job, owner: string, id: string): Promise<Told | undefined> {
  try {
    const { records, asOf } = await send(job, getShelf(owner, id), { tries: fewTries });
    return records[0] && { shelf: records[0], asOf };
  } catch (error) {
    if (error instanceof Gone || error instanceof Retry) return undefined;
    throw error;
  }
}

function unlessMissing<T>(reply: Promise<T>): Promise<T | 'gone' | 'refused'> {
  return reply.catch((error: unknown) => {
    if (error instanceof Gone) return 'gone';
    if (error instanceof Retry && error.everywhere) return 'refused';
    throw error;
  });
}

/** Ids in order of position; '' for a record with an unreadable id. */
function idsOf({ records, unreadable, arrived }: Reply<Row>): string[] {
  const gaps = new Set(unreadable.map(({ place }) => place));
  const readable = records.values();
  return Array.from({ length: arrived }, (_, place) => (gaps.has(place) ? '' : readable.next().value!.id));
}

/** Writes a batch. If a row cannot be stored, its id still is, because others refer to it. */
export async function writeWithIds(
  tx: Tx,
  batch: Batch,
  ifAbsent: Batch['merge'],
): Promise<{ written: Written; left: ReadonlySet<string> }> {
  const written = await writeBatch(tx, batch);
  const left = new Set(written.rejects.map(({ recordId }) => recordId!));
  if (left.size > 0) await writeBatch(tx, idsBatch(ifAbsent, batch, left));
  return { written, left };
}

/** Stores the volumes of a read, as the list shows them, and their positions. */
export async function storeShelf(
  tx: Tx,
  key: ShelfKey,
  found: Pick<Found, 'replies' | 'startIndex' | 'whole' | 'reading' | 'changedMs' | 'movedMs'>,
): Promise<{ listed: Written; counts: Omit<Counts, 'credits'> }> {
  const { batch, unreadable } = itemsBatch(shelves.members, found.replies);
  const { written: listed, left } = await writeWithIds(tx, batch, listedIfAbsent);
  const { seen, inserted, updated, deleted } = await shelve(tx.client, key, {
    text: (await screen(tx, left.size > 0 ? bareBatch(batch, left) : batch)).text,
    positions: batch.records.map(({ place }) => found.startIndex + place),
    // A record without a readable id may be any volume that was not seen.
    all: found.whole && unreadable.length === 0,
    nowMs: tx.at.nowMs,
    asOfMs: tx.at.asOfMs,
    changedMs: found.changedMs,
    movedMs: found.movedMs,
    beforeMs: found.reading?.asOfMs,
  });
  const counts = { seen, inserted, updated, deleted, unchanged: seen - inserted - updated };
  return { listed, counts: { ...listed.counts, ...counts } };
}

interface Kept {
  readonly stream: Pick<Stream, 'fields' | 'enumerations' | 'expected' | 'sets'>;
  readonly replies: readonly Reply<Row>[];
  readonly batch: Batch;
  readonly unreadable: readonly Unreadable[];
  readonly rejects: readonly Reject[];
  readonly counts: Partial<Counts>;
  readonly stored: readonly string[];
}

/** Books what replies brought: counts, rejects and drift. `named`: a reject under the names that tell it from those of other shelves. */
export async function keepRead(tx: Tx, kept: Kept, named: (reject: Reject) => Reject): Promise<void> {
  const { stream, replies, batch, unreadable, counts, stored } = kept;
  const rejects = [...unreadable.map(one => rejectOf(one, batch)), ...kept.rejects].map(named);
  const records = replies.flatMap(reply => reply.records);
  const notUtf8 = replies.some(reply => reply.notUtf8);
  await keepBooks(tx, {
    counts: { ...counts, rejected: rejects.length },
    ...{ filter: batch.filter, rejects, stored },
    drift: driftOf(stream, records, unreadable, (counts.cleaned ?? 0) > 0, notUtf8),
  });
}

interface Found extends Read {
  readonly reading: Reading | undefined;
  readonly version: string | null;
  /** See `Shelving`. */
  readonly changedMs: Ms;
  readonly movedMs: Ms;
}

async function commitShelf({ ctx, claim }: Job, key: ShelfKey, found: Found): Promise<void> {
  const at = { nowMs: ctx.clock.now(), asOfMs: found.asOf };
  const credits = booksOf(ctx).send.takeCredits();
  const { replies } = found;
  const read = itemsBatch(shelves.members, replies);
  const name = `${key.owner}/${key.shelf}/volumes`;
  await withCare(ctx, async (client, care) => {
    const tx = { client, claim, at, care };
    const { listed, counts } = await storeShelf(tx, key, found);
    if (found.whole) await noteShort(client, { ctx, claim }, key.owner, replies);
    if (found.whole) await noteReading(client, key, { asOfMs: found.asOf, version: found.version });
    // If the shelf has no change time, only the time of the read is known, which gives no change latency.
    if (counts.inserted + counts.updated + counts.deleted > 0 && found.changedMs < found.asOf) {
      const ages = await newOnes(client, claim, [found.changedMs]);
      await noteAges(client, claim, ages, booksOf(ctx).send.sourceNow() ?? found.asOf);
    }
    const more = { rejects: listed.rejects, counts: { ...counts, credits }, stored: [name] };
    const kept = { stream: shelves.members, replies, ...read, ...more };
    await keepRead(tx, kept, reject => ({ ...reject, askId: name }));
  });
}

/**
 * Upper bound of the time of the changes on the shelf: the time that the shelf states, if that time is new; otherwise
 * the time of the read. The list of shelves may be older than the read, so the shelf is fetched once more. If its time
 * differs by then, the time of the change is unknown. The time of a move is unknown too if volumes were added or
 * removed, because a move may not update the shelf's time.
 */
async function changes(
  job: Job,
  { owner }: ShelfKey,
  shelf: Shelf,
  found: Pick<Found, 'reading' | 'replies' | 'ids'> & { known: readonly string[] | undefined },
): Promise<Pick<Found, 'changedMs' | 'movedMs'>> {
  const { reading, replies, known = [], ids } = found;
  const said = changedAt(shelf);
  const version = versionOf(shelf);
  const beforeMs = reading?.asOfMs ?? Number.NEGATIVE_INFINITY;
  const seenMs = Math.max(lastOf(replies), beforeMs + 1);
  // The read includes changes up to two seconds after its `as_of`; the version at that time decides.
  const isNews = said > beforeMs && said <= seenMs && version !== reading?.version;
  if (!isNews || (countOf(shelf) ?? ids.length) !== ids.length) return { changedMs: seenMs, movedMs: seenMs };
  const still = await ask(job, owner, shelf.id).catch((error: unknown) => {
    // The read is stored all the same.
    if (error instanceof Spent) return undefined;
    throw error;
  });
  const isStill = still !== undefined && versionOf(still.shelf) === version;
  const changedMs = isStill ? said : seenMs;
  const [stayed, stays] = [known.filter(isIn(ids)), ids.filter(isIn(known))];
  const isSet = stayed.length < known.length || stays.length < ids.length;
  return { changedMs, movedMs: isSet && !isSame(stayed, stays) ? seenMs : changedMs };
}

/** The latest moment that a reading may show: changes are dated by their last possible millisecond. */
export const lastOf = (replies: readonly Reply<Row>[]): Ms => replies.at(-1)!.trueBy - 1;

function isIn(ids: readonly string[]): (id: string) => boolean {
  const all = new Set(ids);
  return id => all.has(id);
}

/**
 * With times in whole seconds, a second change within the same second is invisible. The version proves nothing if the
 * catalog described the shelf within that second.
 */
function settledVersion({ shelf, asOf }: Told): string | null {
  const changedMs = changedAt(shelf);
  return changedMs % 1000 === 0 && asOf < changedMs + 1000 ? unsettled : versionOf(shelf);
}
