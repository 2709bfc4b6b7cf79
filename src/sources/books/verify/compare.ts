/**
 * Compares replies of the catalog with stored rows: a list of shelves, the content of a shelf, a volume by id. A volume
 * with a pending fetch, and a shelf with another version than the one read, are merely behind: they are read, and are
 * no difference. While another run reads the same stream nothing is compared, because rows are ordered by their commits
 * there.
 */

import type { Batch } from '../../../engine/commit/page.ts';
import { attempt, screen } from '../../../engine/commit/rows.ts';
import type { Client } from '../../../engine/database/pool.ts';
import type { StreamKey } from '../../../engine/database/stream-key.ts';
import { goneBy } from '../../../engine/deletions/lag.ts';
import type { Reply } from '../../../engine/http/request.ts';
import { bareBatch, itemsBatch, singleBatch } from '../../../engine/load/batch.ts';
import { isSame } from '../../../engine/reading/collection.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import {
  type Examined,
  examine,
  type Look,
  noteAbsent,
  type Subject,
  type Verdict,
} from '../../../engine/verify/compare-reply.ts';
import { compare } from '../../../engine/verify/comparison-sql.ts';
import { kindOfEdit } from '../../../engine/verify/difference-kinds.ts';
import { completeThrough, isReadBeside, type Standing } from '../../../engine/verify/findings.ts';
import { Gone, Retry } from '../../../errors.ts';
import type { Row, ShelfStream, VolumeStream } from '../../source.ts';
import { booksOf } from '../open.ts';
import {
  doubtOf,
  fewTries,
  type Job,
  lastOf,
  readOne,
  readVolumes,
  storeShelf,
  type Told,
} from '../shelves/read-shelf.ts';
import {
  markShelfDeleted,
  membersOf,
  noteReading,
  type Reading,
  type ShelfKey,
  shelve,
} from '../shelves/shelf-rows.ts';
import { noteChecked } from '../volumes/volume-rows.ts';
import { lastWritten, standingOf } from './verify-rows.ts';

export interface Catalog {
  readonly shelves: ShelfStream<Row, Row>;
  readonly volumes: VolumeStream<Row>;
}

const nothing: Examined = { unread: 0, undecided: [], late: [] };
const unread: Examined = { ...nothing, unread: 1 };

export const recordOf = ({ owner, shelf }: Pick<ShelfKey, 'owner' | 'shelf'>): string => `${owner}/${shelf}`;

const options = ({ ctx }: Look) => ({ lane: 'sweep', signal: ctx.signal, tries: fewTries }) as const;

type Judged = (id: string, ours: Standing | undefined) => Verdict;

/** Common parts of the catalog's streams. */
function subjectOf(
  { claim }: Look,
  stream: StreamKey,
  { askedMs, asOfMs }: { askedMs: Ms; asOfMs: Ms },
  judged: Judged,
): Omit<Subject, 'kind'> {
  const key = { account: claim.account, stream };
  return {
    stream,
    standing: (client, ids, lock) => standingOf(client, key, ids, { askedMs, asOfMs, lock }),
    async judge(client, ids, standing) {
      const isRead = ids.length > 0 && (await isReadBeside(client, key, askedMs));
      const verdictOf = (id: string): Verdict => {
        const ours = standing.get(id);
        return isRead || ours?.isOlder === false ? 'unjudged' : judged(id, ours);
      };
      return new Map(ids.map(id => [id, verdictOf(id)]));
    },
  };
}

// --- volumes -----------------------------------------------------------------------------------------------------------

type More = ((client: Client) => Promise<void>) | undefined;

/**
 * Compares one volume by id. A volume that the catalog does not show counts as unread, because the catalog answers the
 * same for deleted and temporarily unavailable volumes.
 */
export async function examineVolume(look: Look, { volumes }: Catalog, id: string, more?: More): Promise<Examined> {
  const { ctx, claim } = look;
  const askedMs = ctx.clock.now();
  let reply: Reply<Row>;
  try {
    reply = await booksOf(ctx).send(volumes.request(id), options(look));
  } catch (error) {
    if (!(error instanceof Gone || error instanceof Retry)) throw error;
    return unread;
  }
  if (reply.records[0]?.id !== id) return unread;
  const batch = singleBatch(volumes, reply);
  const subject: Subject = {
    ...subjectOf(look, volumes.key, { askedMs, asOfMs: reply.asOf }, (_, ours) => (ours?.waits ? 'behind' : 'differs')),
    kind: found => kindOfEdit(volumes.merge, found, 'volume edited'),
    async written(client, ids) {
      for (const one of ids)
        await noteChecked(client, claim.account, { id: one, since: await waitsSince(client, one) }, reply.asOf);
    },
  };
  const waitsSince = async (client: Client, one: string) => {
    const { rows } = await client.query<{ since: string | null }>(
      'select _waits_since::text as since from books.volumes where account_id = $1 and id = $2 and _waits_since <= $3',
      [claim.account, one, new Date(reply.asOf)],
    );
    return rows[0]?.since ?? null;
  };
  return examine(look, { subject, reply, batch, more });
}

// --- shelves -----------------------------------------------------------------------------------------------------------

/** Compares the shelves of one owner, as a list or a reply about one shelf shows them. */
export async function examineShelves(
  look: Look,
  { shelves }: Catalog,
  owner: string,
  {
    reply,
    askedMs,
    single,
    readings,
  }: {
    reply: Reply<Row>;
    askedMs: Ms;
    single: boolean;
    readings: ReadonlyMap<string, Reading>;
  },
): Promise<Examined> {
  const { ctx, claim } = look;
  const own = single ? singleBatch(shelves, reply) : itemsBatch(shelves, [reply]).batch;
  const named = (id: string) => recordOf({ owner, shelf: id });
  const records = own.records.map(({ place, id }) => ({ place, id: named(id) }));
  const batch = { ...own, records, parameters: () => [owner] };
  const throughMs = (await completeThrough(ctx.pg, claim.account, shelves.key)) ?? 0;
  const shown = new Map(reply.records.map(record => [named(record.id), record]));
  // A shelf with a recorded read but without a row has lost its row.
  const isNew = (record: Row) => !readings.has(record.id) && shelves.edited(record) > throughMs;
  const judged: Judged = (id, ours) => {
    const record = shown.get(id)!;
    if (ours === undefined) return isNew(record) ? 'behind' : 'differs';
    return !ours.hasTombstone && shelves.edited(record) > ours.observedAt.getTime() ? 'behind' : 'differs';
  };
  const subject: Subject = {
    ...subjectOf(look, shelves.key, { askedMs, asOfMs: reply.asOf }, judged),
    kind: found => kindOfEdit(shelves.merge, found, 'shelf edited'),
  };
  return examine(look, { subject, reply, batch });
}

/** Compares the content of one shelf. Returns what was compared, or the reason why nothing could be. */
export async function examineContents(
  look: Look,
  { shelves }: Catalog,
  owner: string,
  told: Told,
  reading: Reading | undefined,
): Promise<Examined | string> {
  const { ctx, claim } = look;
  const job: Job = { ctx, claim, stream: shelves };
  const { shelf } = told;
  const key: ShelfKey = { account: claim.account, owner, shelf: shelf.id };
  const askedMs = ctx.clock.now();
  const version = shelves.version(shelf);
  if (await isReadBeside(ctx.pg, { account: claim.account, stream: shelves.key }, askedMs))
    return `shelf ${shelf.id} of ${owner} was read by another run`;
  const isBehind = reading?.asOfMs === undefined || (version !== null && version !== reading.version);
  if (isBehind) {
    const left = await readOne(job, owner, told, { reading, due: true });
    return left ?? nothing;
  }
  const known = await membersOf(ctx.pg, key);
  const read = await readVolumes(job, key, { known, look: false, count: shelves.count(shelf) });
  if (typeof read === 'string') return read;
  const { replies, ids } = read;
  const isShort = !isSame(ids, known) && ids.length < (shelves.count(shelf) ?? 0) && reading.version !== doubtOf(ids);
  if (isShort || ids.includes('')) return `shelf ${shelf.id} of ${owner} shows fewer volumes than it counts`;
  const { batch } = itemsBatch(shelves.members, replies);
  const record = recordOf(key);
  // If a volume appears twice, its first position counts.
  const once = { ...batch, records: batch.records.filter(({ id }, i) => ids.indexOf(id) === i) };
  const seenMs = Math.max(lastOf(replies), reading.asOfMs! + 1);
  const found = { ...read, reading, changedMs: seenMs, movedMs: seenMs };
  const base = subjectOf(look, shelves.key, { askedMs, asOfMs: read.asOf }, () => 'differs');
  const { root } = shelves.members.places.declared;
  const subject: Subject = {
    ...base,
    declared: { declared: { root: shelves.merge.declared.root, others: [root] } },
    kind: differing => kindOfEdit(shelves.members.places, differing, 'contents of a shelf edited'),
    async judge(client, all, standing) {
      const verdicts = await base.judge(client, all, standing);
      const isWritten = (await lastWritten(client, key, new Date(askedMs))) >= askedMs;
      return isWritten ? new Map(all.map(id => [id, 'unjudged'])) : verdicts;
    },
    async differing(tx) {
      const compared = async (of: Batch, parents: readonly string[]) => {
        const { text } = await screen(tx, of);
        const parameters = [owner, shelf.id, of.records.map(({ place }) => read.startIndex + place)];
        const asked = { account: claim.account, parents, ...tx.at };
        return compare(tx.client, shelves.members.places, asked, { text, parameters });
      };
      if (tx.care !== 'one by one') return { found: await compared(once, [shelf.id]), refused: 0 };
      // If PostgreSQL refuses a volume, its position is still compared, its content is not.
      const refused = new Set<string>();
      for (const one of once.records) {
        const alone = { ...once, records: [one] };
        if (await attempt(tx.client, async () => void (await compared(alone, [])))) refused.add(one.id);
      }
      const found = await compared(bareBatch(once, refused), [shelf.id]);
      return { found: found.filter(({ at, id }) => at !== 'payload' || !refused.has(id)), refused: refused.size };
    },
    async write(tx) {
      const { listed, shelved } = await storeShelf(tx, shelves, key, found);
      await noteReading(tx.client, key, { asOfMs: read.asOf, version: reading.version });
      const { seen, inserted, updated, deleted } = shelved;
      const counts = { ...listed.counts, seen, inserted, updated, deleted, unchanged: seen - inserted - updated };
      return { counts, rejects: listed.rejects };
    },
  };
  const reply = { arrived: 1, unreadable: [], asOf: read.asOf };
  return examine(look, { subject, reply, batch: { ...batch, records: [{ place: 0, id: record }] } });
}

/** Fetches a shelf that no list shows twice by id, as a sweep does. Returns whether its existence is known now. */
export async function examineShelfGone(look: Look, { shelves }: Catalog, key: ShelfKey): Promise<boolean> {
  const { ctx } = look;
  const askedMs = ctx.clock.now();
  let asOfMs = Number.NaN;
  for (let tries = 0; tries < 2; tries++) {
    try {
      await booksOf(ctx).send(shelves.get(key.owner, key.shelf), options(look));
      return false;
    } catch (error) {
      if (!(error instanceof Gone || error instanceof Retry)) throw error;
      if (error instanceof Retry || !Number.isFinite(error.asOf)) return false;
      asOfMs = error.asOf;
    }
  }
  return noteShelfGone(look, { shelves }, key, { askedMs, asOfMs });
}

export function noteShelfGone(
  look: Look,
  { shelves }: Pick<Catalog, 'shelves'>,
  key: ShelfKey,
  { askedMs, asOfMs }: { askedMs: Ms; asOfMs: Ms },
): Promise<boolean> {
  const { ctx, claim, repair } = look;
  const { account } = claim;
  const record = recordOf(key);
  const standing = (client: Client) =>
    standingOf(client, { account, stream: shelves.key }, [record], { askedMs, asOfMs, lock: repair });
  return noteAbsent(
    look,
    {
      stream: shelves.key,
      id: record,
      standing: async client => (await standing(client)).get(record),
      isBelieved: async client => !(await isReadBeside(client, { account, stream: shelves.key }, askedMs)),
      async markDeleted(client, at) {
        const changedMs = goneBy(booksOf(ctx), asOfMs) - 1;
        const empty = {
          text: '[]',
          positions: [],
          all: true,
          ...at,
          changedMs,
          movedMs: changedMs,
          beforeMs: undefined,
        };
        const { deleted } = await shelve(client, key, empty);
        await markShelfDeleted(client, claim, key, changedMs, at.nowMs);
        return deleted + 1;
      },
    },
    { asOfMs },
  );
}
