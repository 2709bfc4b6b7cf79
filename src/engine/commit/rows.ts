/**
 * The rows of a batch: their text is screened and merged, and sets that it shows are replaced. If PostgreSQL refuses a value,
 * the transaction is repeated with more care, at last record by record, and the bad one is rejected.
 */

import { noteHeld } from '../coverage/ties.ts';
import { type Client, isOfRecord } from '../database/pool.ts';
import type { StreamKey } from '../database/stream-key.ts';
import { cleanJson, cleanText } from '../json-text.ts';
import { noteAges } from './change-latency.ts';
import { nameOf, type Way } from './merge.ts';
import {
  add,
  type Batch,
  type Moment,
  noCounts,
  nothingWritten,
  type Reject,
  type Tx,
  type Writer,
  type Written,
} from './page.ts';

type Rows = Omit<Written, 'rejects'>;

/** A batch as PostgreSQL gets it. */
interface Sent<Text = string> {
  readonly batch: Batch;
  readonly text: Text;
  readonly parameters: readonly unknown[];
  /** Characters that were replaced. */
  readonly cleaned: number;
  readonly way: Way;
}

/** Bytes are those of the text in UTF-8. */
type Came = string | Buffer;

/** What its merge tells: see `Merge`. */
interface Merged extends Sent<Came> {
  readonly seen: number;
  readonly inserted: number;
  readonly updated: number;
  readonly updated_ids: readonly string[];
  readonly changed_ms: readonly number[] | null;
  readonly taken_over: Readonly<Record<string, number>>;
  readonly passed_over: Readonly<Record<string, string>> | null;
  readonly vanished: boolean | null;
  readonly left_alone: number;
  readonly erased: boolean;
  readonly rejects: boolean;
  readonly candidates: boolean;
}

export async function writeBatch(tx: Tx<Writer>, batch: Batch): Promise<Written> {
  if (batch.records.length === 0 && batch.parents === undefined) return nothingWritten();
  if (tx.care === 'one by one') return writeOneByOne(tx, batch);
  return { ...(await writeAll(tx, batch)), rejects: [] };
}

async function writeAll(tx: Tx<Writer>, batch: Batch): Promise<Rows> {
  const merged = (await mergeUnfiltered(tx, batch)) ?? (await merge(tx, await screen(tx, batch)));
  await noteTimes(tx, merged);
  const deleted = await replaceSets(tx, merged);
  const { seen, inserted, updated, cleaned, rejects, candidates } = merged;
  return {
    counts: { seen, inserted, updated, unchanged: seen - inserted - updated, deleted, rejected: 0, cleaned },
    takenOver: merged.taken_over,
    mayClear: { rejects, candidates },
    isWhole: tx.care === 'as it came' && merged.left_alone === 0 && (!batch.filter || merged.way === 'unfiltered'),
  };
}

async function writeOneByOne(tx: Tx<Writer>, batch: Batch): Promise<Written> {
  const counts = noCounts();
  const takenOver = {};
  const rejects: Reject[] = [];
  // A set is replaced only as a whole: a removal for one member would remove its siblings.
  const alone = batch.parents === undefined ? batch : { ...batch, parents: [] };
  for (const record of batch.records) {
    const { place, id } = record;
    const refusal = await attempt(tx.client, async () => {
      const written = await writeAll(tx, { ...alone, records: [record] });
      add(counts, written.counts);
      add(takenOver, written.takenOver);
    });
    if (refusal)
      rejects.push({ recordId: id, askId: id, reason: refusal.message, payload: batch.record(place), place });
  }
  if (rejects.length === 0 && batch.parents)
    counts.deleted += await removeVanished(tx, await screen(tx, batch), batch.parents);
  const mayClear = { rejects: true, candidates: true };
  return {
    ...{ counts: { ...counts, rejected: rejects.length, seen: batch.records.length }, takenOver, rejects, mayClear },
    isWhole: false,
  };
}

/** Rolls back to a savepoint if a value fails, and returns the error. */
export async function attempt(client: Client, work: () => Promise<void>): Promise<Error | undefined> {
  await client.query('savepoint attempt');
  try {
    await work();
  } catch (error) {
    if (!isOfRecord(error)) throw error;
    await client.query('rollback to savepoint attempt');
    return error;
  }
  await client.query('release savepoint attempt');
  return undefined;
}

/** Every batch is stored or compared by way of this, so nothing gets past that may not be kept. */
export async function screen(tx: Tx<Writer>, batch: Batch): Promise<Sent> {
  const text = came(tx, batch);
  const kept = batch.filter === undefined ? text : await batch.filter.page(tx, text);
  return sent(tx, batch, kept, batch.isForced ? 'by force' : 'filtered');
}

const placesOf = ({ records }: Batch) => records.map(({ place }) => place);
const came = ({ care }: Tx<Writer>, batch: Batch): string => batch.text(placesOf(batch), care);

function sent({ care }: Tx<Writer>, batch: Batch, text: string, way: Way): Sent {
  const parameters = batch.parameters(placesOf(batch));
  if (care === 'as it came') return { batch, text, parameters, cleaned: 0, way };
  const deep = (value: unknown): unknown =>
    typeof value === 'string' ? cleanText(value).text : Array.isArray(value) ? value.map(deep) : value;
  return { batch, ...cleanJson(text), parameters: parameters.map(deep), way };
}

/** Usually nobody was erased. The merge asks that itself, so no query precedes it. Undefined: it has stored nothing. */
async function mergeUnfiltered(tx: Tx<Writer>, batch: Batch): Promise<Merged | undefined> {
  if (tx.care !== 'as it came' || batch.isForced || batch.filter === undefined) return undefined;
  const [places, way] = [placesOf(batch), 'unfiltered'] as const;
  const text = batch.bytes?.(places) ?? came(tx, batch);
  const merged = await merge(tx, { batch, text, parameters: batch.parameters(places), cleaned: 0, way });
  return merged.erased ? undefined : merged;
}

async function merge({ client, claim, at }: Tx<Writer>, page: Sent<Came>): Promise<Merged> {
  const { batch, text, way, parameters } = page;
  const { rows } = await client.query<Omit<Merged, keyof Sent>>({
    name: `merge ${nameOf(batch.merge)}`,
    text: batch.merge.upsert,
    values: [
      jsonb(text),
      claim.account,
      new Date(at.nowMs),
      new Date(at.asOfMs),
      claim.run,
      trueBy(at),
      way,
      ...parameters,
    ],
  });
  return { ...page, ...rows[0]! };
}

/** A parameter in bytes is sent in PostgreSQL's own form of jsonb: the number of the form, and the text. */
const jsonb = (text: Came) => (typeof text === 'string' ? text : Buffer.concat([formOfJsonb, text]));
const formOfJsonb = Buffer.from([1]);

const trueBy = ({ trueByMs }: Moment) => (trueByMs === undefined ? null : new Date(trueByMs));

/** How late changes are here, and which records count as older than their rows. */
async function noteTimes({ client, claim: { account }, at }: Tx<Writer>, page: Merged): Promise<void> {
  const { root: table } = page.batch.merge.declared;
  // The table of a stream is named as its key.
  const of = { account, stream: table.name as StreamKey };
  if (page.changed_ms !== null && at.sourceMs !== undefined) await noteAges(client, of, page.changed_ms, at.sourceMs);
  if (page.passed_over !== null) await noteHeld(client, { account, table }, page.passed_over, at.asOfMs);
}

/** Returns the number of removed members. A page without records says nothing of the set that it empties. */
async function replaceSets(tx: Tx<Writer>, page: Merged): Promise<number> {
  const mayVanish = page.vanished !== false || page.seen === 0;
  return mayVanish ? removeVanished(tx, page, page.batch.parents ?? page.updated_ids) : 0;
}

async function removeVanished(
  { client, claim }: Tx<Writer>,
  { batch: { merge }, text }: Sent<Came>,
  parents: readonly string[],
): Promise<number> {
  if (parents.length === 0 || merge.removal === undefined) return 0;
  const { rows } = await client.query<{ deleted: number }>({
    name: `remove ${nameOf(merge)}`,
    text: merge.removal,
    values: [jsonb(text), claim.account, parents],
  });
  return rows[0]!.deleted;
}
