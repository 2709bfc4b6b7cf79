/**
 * The loop that reads shelves: the list of each owner's shelves, then what is on those that have changed. One shelf, one
 * transaction: its volumes, their places, and that it was read. A shelf that moves too fast, or an owner that the catalog
 * does not show, is left out and said; everything else goes on.
 */
import type { Context } from '../context.ts';
import { Gone, Retry, Spent } from '../errors.ts';
import type { Reply } from '../http/request.ts';
import { covering, floorSecond, type Ms } from '../reading/reading.ts';
import { readShelf } from '../reading/shelf.ts';
import type { Row, ShelfStream } from '../streams/stream.ts';
import type { Claim } from '../warehouse/claims.ts';
import { keepBooks, noCounts, textOf, withCare, writeBatch } from '../warehouse/commit.ts';
import { transaction } from '../warehouse/pool.ts';
import { openSince } from '../warehouse/rejects.ts';
import {
  againBefore,
  buryShelf,
  membersOf,
  noteReading,
  type Reading,
  readingsOf,
  type ShelfKey,
  shelve,
} from '../warehouse/shelves.ts';
import { driftOf, itemsBatch, rejectOf } from './batch.ts';
import type { Outcome } from './sync.ts';

type Shelves = ShelfStream<Row, Row>;

/** A list that is as long as the default page of ten may go on, if its total says so. */
const defaultPerPage = 10;
/** To ask whether a shelf is really gone: an id that is not known may answer like one that fails for a moment. */
const fewTries = 2;

interface Job {
  readonly ctx: Context;
  readonly claim: Claim;
  readonly stream: Shelves;
}

export async function readShelves(ctx: Context, claim: Claim, stream: Shelves): Promise<Outcome> {
  const started = new Date(ctx.clock.now());
  const missing: string[] = [];
  for (const owner of ctx.books.owners) missing.push(...(await readOwner({ ctx, claim, stream }, owner)));
  const rejects = await openSince(ctx.pg, claim, started);
  if (rejects > 0) missing.push(`${rejects} records could not be stored`);
  return { partly: missing.length > 0 ? missing.join('; ') : undefined };
}

/** Answers what could not be had of this owner. */
async function readOwner(job: Job, owner: string): Promise<string[]> {
  const { ctx, claim, stream } = job;
  let replies: Reply<Row>[];
  try {
    replies = await requestShelves(job, owner);
  } catch (error) {
    if (!(error instanceof Gone)) throw error;
    return [`the catalog does not show the shelves of ${owner} (${error.message})`];
  }
  const [{ asOf, date }] = replies as [Reply<Row>];
  const before = await readingsOf(ctx.pg, claim.account, owner);
  await commitList(job, owner, replies);

  const missing: string[] = [];
  const shelves = replies.flatMap(reply => reply.records);
  const dueMs = claim.again ? await againBefore(ctx.pg, claim, owner, asOf) : date - ctx.books.shelfAgeMs;
  for (const shelf of newestFirst(stream, shelves)) {
    const reading = before.get(shelf.id) ?? undefined;
    const version = stream.version(shelf);
    const unchanged = reading !== undefined && reading.version === version && reading.asOfMs >= dueMs;
    if (unchanged && version !== null) continue;
    const left = await readOne(job, owner, shelf, { reading, look: unchanged });
    if (left !== undefined) missing.push(left);
  }
  const unreadable = replies.some(reply => reply.unreadable.length > 0);
  const listed = new Set(shelves.map(({ id }) => id));
  // A record without a readable id may be any of them.
  const vanished = unreadable ? [] : [...before.keys()].filter(id => !listed.has(id));
  for (const id of vanished) missing.push(...(await confirmGone(job, owner, id)));

  if (missing.length === 0 && !unreadable) await coverOwner(job, owner, asOf);
  return missing;
}

/** One request, unless the list is longer than a page. */
async function requestShelves({ ctx, stream }: Job, owner: string): Promise<Reply<Row>[]> {
  const replies: Reply<Row>[] = [];
  const met = new Set<string>();
  for (let start = 0; ; ) {
    const reply = await ctx.books.send(stream.request(owner, start), { lane: 'fresh', signal: ctx.signal });
    const news = reply.records.filter(({ id }) => !met.has(id));
    if (start > 0 && news.length === 0) return replies;
    replies.push(reply);
    for (const { id } of news) met.add(id);
    start += reply.arrived;
    const short = reply.arrived < stream.perPage && reply.arrived !== defaultPerPage;
    const total = reply.total ?? 0;
    if (short || (reply.arrived < stream.perPage && total <= start)) return replies;
  }
}

const newestFirst = (stream: Shelves, shelves: readonly Row[]) =>
  shelves.toSorted((a, b) => (stream.changed(b) || 0) - (stream.changed(a) || 0));

async function commitList({ ctx, claim, stream }: Job, owner: string, replies: readonly Reply<Row>[]): Promise<void> {
  for (const reply of replies) {
    const at = { nowMs: ctx.clock.now(), asOfMs: reply.asOf };
    const credits = ctx.books.send.takeCredits();
    const { batch: rows, unreadable } = itemsBatch(stream, [reply]);
    const batch = { ...rows, parameters: () => [owner] };
    // A shelf id says little without its owner.
    const named = (id: string | undefined) => (id === undefined ? owner : `${owner}/${id}`);
    await withCare(ctx.pg, async (client, care) => {
      const { counts, rejects } = await writeBatch(client, claim, batch, at, care);
      const refused = [...unreadable.map(one => rejectOf(one, batch)), ...rejects].map(reject => ({
        ...reject,
        recordId: reject.recordId && named(reject.recordId),
        askId: named(reject.recordId),
      }));
      await keepBooks(client, claim, at, {
        counts: { ...counts, seen: reply.arrived, rejected: refused.length, credits },
        rejects: refused,
        stored: [owner, ...batch.records.map(({ id }) => named(id))],
        drift: driftOf(stream, reply.records, unreadable, counts.cleaned),
      });
    });
  }
}

/** Answers why the shelf could not be read; undefined if it was, or has not changed. */
async function readOne(
  job: Job,
  owner: string,
  shelf: Row,
  { reading, look }: { reading: Omit<Reading, 'known'> | undefined; look: boolean },
): Promise<string | undefined> {
  const { ctx, claim, stream } = job;
  const key = { account: claim.account, owner, shelf: shelf.id };
  const known = reading && (await membersOf(ctx.pg, key));
  const steps = readShelf({ known, look, perPage: stream.perPage });
  /** Of the reading that is under way. */
  let replies: { startIndex: number; reply: Reply<Row> }[] = [];
  let step = steps.next();
  while (!step.done) {
    ctx.signal.throwIfAborted();
    const { startIndex, maxResults } = step.value;
    const request = stream.members.request(owner, shelf.id, startIndex, maxResults);
    const reply = await unlessGone(ctx.books.send(request, { lane: 'fresh', signal: ctx.signal }));
    if (reply === undefined) return `shelf ${shelf.id} of ${owner} was gone when its volumes were asked for`;
    if (startIndex === 0) replies = [];
    replies.push({ startIndex, reply });
    step = steps.next({ ids: idsOf(reply), asOf: reply.asOf });
  }
  const { value } = step;
  if (value.found === 'moved') return `shelf ${shelf.id} of ${owner} moved while it was read`;
  const found = { reading, replies: replies.map(({ reply }) => reply) };
  const ids = found.replies.flatMap(idsOf);
  const isKnown = value.found === 'unchanged' || ids.join('\n') === (known ?? []).join('\n');
  await commitShelf(job, key, shelf, {
    ...found,
    startIndex: replies[0]!.startIndex,
    asOf: value.asOf,
    changedMs: isKnown ? value.asOf : await changedMs(job, key, shelf, found),
    whole: value.found === 'whole',
  });
  return undefined;
}

function unlessGone<T>(reply: Promise<T>): Promise<T | undefined> {
  return reply.catch((error: unknown) => {
    if (error instanceof Gone) return undefined;
    throw error;
  });
}

/** By their places: '' for a record whose id cannot be read. */
function idsOf({ records, unreadable, arrived }: Reply<Row>): string[] {
  const gaps = new Set(unreadable.map(({ place }) => place));
  const readable = records.values();
  return Array.from({ length: arrived }, (_, place) => (gaps.has(place) ? '' : readable.next().value!.id));
}

interface Found {
  readonly replies: readonly Reply<Row>[];
  readonly startIndex: number;
  readonly reading: Omit<Reading, 'known'> | undefined;
  readonly asOf: Ms;
  /** When what has changed did so at the latest. */
  readonly changedMs: Ms;
  /** All of the shelf; else its end. */
  readonly whole: boolean;
}

async function commitShelf({ ctx, claim, stream }: Job, key: ShelfKey, shelf: Row, found: Found): Promise<void> {
  const at = { nowMs: ctx.clock.now(), asOfMs: found.asOf };
  const credits = ctx.books.send.takeCredits();
  const { batch, unreadable } = itemsBatch(stream.members, found.replies);
  const name = `${key.owner}/${key.shelf}`;
  await withCare(ctx.pg, async (client, care) => {
    const listed = await writeBatch(client, claim, batch, at, care);
    const left = new Set(listed.rejects.map(({ recordId }) => recordId));
    const places = batch.records.filter(({ id }) => !left.has(id)).map(({ place }) => place);
    const all = found.whole && left.size === 0 && unreadable.length === 0;
    const shelved = await shelve(client, key, stream.members.varying, {
      text: textOf(batch, places, care).text,
      positions: places.map(place => found.startIndex + place),
      all,
      ...at,
      changedMs: found.changedMs,
      beforeMs: found.reading?.asOfMs,
    });
    if (all) await noteReading(client, key, { asOfMs: found.asOf, version: stream.version(shelf) });
    const refused = [...unreadable.map(one => rejectOf(one, batch)), ...listed.rejects].map(reject => ({
      ...reject,
      askId: name,
    }));
    const { seen, inserted, updated, deleted } = shelved;
    await keepBooks(client, claim, at, {
      counts: {
        ...noCounts(),
        ...{ seen, inserted, updated, deleted, unchanged: seen - inserted - updated },
        rejected: refused.length,
        cleaned: listed.counts.cleaned,
        credits,
      },
      rejects: refused,
      stored: [name],
      drift: driftOf(
        stream.members,
        found.replies.flatMap(reply => reply.records),
        unreadable,
        listed.counts.cleaned,
      ),
    });
  });
}

/**
 * When what has changed on the shelf did so at the latest: as the shelf itself says, if that is news; else when it was seen.
 * What the list of shelves said is older than what was read then: something may have changed in between. So the shelf is
 * asked once more, and if it does not say the same any more, when that was is not known.
 */
async function changedMs(
  { ctx, stream }: Job,
  { owner }: ShelfKey,
  shelf: Row,
  { reading, replies }: Pick<Found, 'reading' | 'replies'>,
): Promise<Ms> {
  const said = stream.changed(shelf);
  const version = stream.version(shelf);
  const seenMs = Math.max(latest(replies.at(-1)!.date), (reading?.asOfMs ?? 0) + 1);
  // What was read included up to two seconds after its `as_of`: what the version was then tells.
  const isNews = said > (reading?.asOfMs ?? Number.NEGATIVE_INFINITY) && said <= seenMs && version !== reading?.version;
  const volumes = replies.reduce((sum, { arrived }) => sum + arrived, 0);
  if (!isNews || (stream.count(shelf) ?? volumes) !== volumes) return seenMs;
  try {
    const options = { lane: 'fresh', signal: ctx.signal, tries: fewTries } as const;
    const [still] = (await ctx.books.send(stream.get(owner, shelf.id), options)).records;
    return still !== undefined && stream.version(still) === version ? said : seenMs;
  } catch (error) {
    if (error instanceof Gone || error instanceof Retry || error instanceof Spent) return seenMs;
    throw error;
  }
}

/** The source writes whole seconds. */
const latest = (date: Ms): Ms => date + 999;

/**
 * A shelf that the list does not show any more: only what the source says it has no more gets a tombstone. Where it cannot
 * be asked for the shelf itself, a second list that lacks it has to do. Answers why it is left as it was.
 */
async function confirmGone(job: Job, owner: string, id: string): Promise<string[]> {
  const { ctx, stream } = job;
  try {
    await ctx.books.send(stream.get(owner, id), { lane: 'fresh', signal: ctx.signal, tries: fewTries });
    return [`the list of shelves of ${owner} leaves out shelf ${id}, which is there`];
  } catch (error) {
    if (error instanceof Gone) {
      await bury(job, { account: job.claim.account, owner, shelf: id }, error.asOf);
      return [];
    }
    if (!(error instanceof Retry)) throw error;
  }
  const replies = await requestShelves(job, owner);
  const isThere = replies.some(reply => reply.unreadable.length > 0 || reply.records.some(record => record.id === id));
  if (isThere) return [`the list of shelves of ${owner} showed shelf ${id} only the second time`];
  await bury(job, { account: job.claim.account, owner, shelf: id }, replies[0]!.asOf);
  return [];
}

async function bury({ ctx, claim, stream }: Job, key: ShelfKey, asOfMs: Ms): Promise<void> {
  const at = { nowMs: ctx.clock.now(), asOfMs };
  const credits = ctx.books.send.takeCredits();
  const before = (await readingsOf(ctx.pg, key.account, key.owner)).get(key.shelf);
  const changedMs = Math.max(latest(ctx.books.send.sourceNow() ?? asOfMs), (before?.asOfMs ?? 0) + 1);
  await transaction(ctx.pg, async client => {
    const nothing = { text: '[]', positions: [], all: true, ...at, changedMs, beforeMs: before?.asOfMs };
    const { deleted } = await shelve(client, key, stream.members.varying, nothing);
    await buryShelf(client, key, changedMs, at.nowMs);
    await keepBooks(client, claim, at, {
      counts: { ...noCounts(), deleted: deleted + 1, credits },
      rejects: [],
      stored: [`${key.owner}/${key.shelf}`],
      drift: [],
    });
  });
}

/** Everything of this owner is here, as of the list of shelves. */
async function coverOwner({ ctx, claim }: Job, owner: string, asOf: Ms): Promise<void> {
  const at = { nowMs: ctx.clock.now(), asOfMs: asOf };
  await transaction(ctx.pg, client =>
    keepBooks(client, claim, at, {
      counts: { ...noCounts(), credits: 0 },
      rejects: [],
      stored: [],
      drift: [],
      list: owner,
      proof: covering(0, floorSecond(asOf)),
    }),
  );
}
