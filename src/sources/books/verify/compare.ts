/**
 * Compares replies of the catalog with stored rows: the shelves of an owner, the content of a shelf. A shelf with another version than
 * the one read is merely behind: it is read, and is no difference.
 */

import type { Batch } from '../../../engine/commit/page.ts';
import { attempt, screen } from '../../../engine/commit/rows.ts';
import type { Context } from '../../../engine/context.ts';
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
import { completeThrough, type Rows, type Standing } from '../../../engine/verify/findings.ts';
import { isReadBeside, ofOneReader } from '../../../engine/verify/one-reader.ts';
import { booksOf } from '../open.ts';
import type { Shelf } from '../records.ts';
import { doubtOf, lastOf, readOne, readVolumes, storeShelf, type Told } from '../shelves/read-shelf.ts';
import {
  lastWritten,
  membersOf,
  noteReading,
  type Reading,
  removeShelf,
  type ShelfKey,
} from '../shelves/shelf-rows.ts';
import { countOf, editedAt, places, shelves, versionOf } from '../shelves/shelves.ts';

export type Key = Pick<ShelfKey, 'owner' | 'shelf'>;
const recordOf = ({ owner, shelf }: Key): string => `${owner}/${shelf}`;

/** A shelf id is unique only with its owner. */
const rows: Rows = { table: 'books.shelves', record: `t.owner_id || '/' || t.id` };

const isReadNow = ({ claim }: Look, db: Pick<Context['pg'], 'query'>, askedMs: Ms): Promise<boolean> =>
  isReadBeside(db, { account: claim.account, stream: shelves.key }, askedMs);

/** Compares the shelves of one owner, as a list or a reply about one shelf (`single`) shows them. */
export async function examineShelves(
  look: Look,
  owner: string,
  {
    reply,
    askedMs,
    single,
    readings,
  }: {
    reply: Reply<Shelf>;
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
  const isNew = (record: Shelf) => !readings.has(record.id) && editedAt(record) > throughMs;
  const judged = (id: string, ours: Standing | undefined): Verdict => {
    const record = shown.get(id)!;
    if (ours === undefined) return isNew(record) ? 'behind' : 'differs';
    return !ours.hasTombstone && editedAt(record) > ours.observedAt.getTime() ? 'behind' : 'differs';
  };
  const subject: Subject = {
    ...ofOneReader(look, shelves.key, rows, { askedMs, asOfMs: reply.asOf }, judged),
    kind: found => kindOfEdit(shelves.merge, found, 'shelf edited'),
  };
  return examine(look, { subject, reply, batch });
}

/** Compares the content of one shelf. Returns what was compared, or the reason why nothing could be. */
export async function examineContents(
  look: Look,
  owner: string,
  told: Told,
  reading: Reading | undefined,
): Promise<Examined | string> {
  const { ctx, claim } = look;
  const { shelf } = told;
  const key: ShelfKey = { account: claim.account, owner, shelf: shelf.id };
  const askedMs = ctx.clock.now();
  const version = versionOf(shelf);
  if (await isReadNow(look, ctx.pg, askedMs)) return `shelf ${shelf.id} of ${owner} was read by another run`;
  if (reading?.asOfMs === undefined || (version !== null && version !== reading.version)) {
    const left = await readOne(look, owner, told, { reading, due: true });
    return left ?? { unread: 0, undecided: [], late: [] };
  }
  const known = await membersOf(ctx.pg, key);
  const read = await readVolumes(look, key, { known, look: false, count: countOf(shelf) });
  if (typeof read === 'string') return read;
  const { replies, ids } = read;
  const isShort = !isSame(ids, known) && ids.length < (countOf(shelf) ?? 0) && reading.version !== doubtOf(ids);
  if (isShort || ids.includes('')) return `shelf ${shelf.id} of ${owner} shows fewer volumes than it counts`;
  const { batch } = itemsBatch(shelves.members, replies);
  // If a volume appears twice, its first position counts.
  const once = { ...batch, records: batch.records.filter(({ id }, i) => ids.indexOf(id) === i) };
  const seenMs = Math.max(lastOf(replies), reading.asOfMs + 1);
  const base = ofOneReader(look, shelves.key, rows, { askedMs, asOfMs: read.asOf }, () => 'differs');
  const subject: Subject = {
    ...base,
    declared: { declared: { root: shelves.merge.declared.root, others: [places] } },
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
      const stored = await storeShelf(tx, key, { ...read, reading, changedMs: seenMs, movedMs: seenMs });
      await noteReading(tx.client, key, { asOfMs: read.asOf, version: reading.version });
      return { counts: stored.counts, rejects: stored.listed.rejects };
    },
  };
  const reply = { arrived: 1, unreadable: [], asOf: read.asOf };
  return examine(look, { subject, reply, batch: { ...batch, records: [{ place: 0, id: recordOf(key) }] } });
}

/** Judges a stored shelf that the source says does not exist. Returns whether its state is known now. */
export function noteShelfGone(
  look: Look,
  one: Key,
  { askedMs, asOfMs }: { askedMs: Ms; asOfMs: Ms },
): Promise<boolean> {
  const { ctx, claim, repair } = look;
  const key = { account: claim.account, ...one };
  const id = recordOf(key);
  const { stream, standing } = ofOneReader(look, shelves.key, rows, { askedMs, asOfMs }, () => 'differs');
  return noteAbsent(
    look,
    {
      ...{ stream, id },
      standing: async client => (await standing(client, [id], repair)).get(id),
      isBelieved: async client => !(await isReadNow(look, client, askedMs)),
      markDeleted: (client, at) =>
        removeShelf(client, claim, key, { ...at, changedMs: goneBy(booksOf(ctx), asOfMs) - 1, beforeMs: undefined }),
    },
    { asOfMs },
  );
}
