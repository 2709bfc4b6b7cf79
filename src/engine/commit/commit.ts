/**
 * One page is one transaction: its rows, the coverage that it proves, its counts and its rejects, under the token of
 * the run.
 *
 * PostgreSQL may refuse a page for a value (SQLSTATE class 22, or 54: too deep, too long). Then the page is cleaned and
 * sent again. If that fails too, its records are merged one by one, and the bad one is rejected.
 */

import type pg from 'pg';
import type { Declaring } from '../../privacy/declared.ts';
import { eraseFound } from '../../privacy/erasures.ts';
import { type Erased, nobody, type PersonalRules } from '../../privacy/redact.ts';
import { FoundAgain, screen } from '../../privacy/screen.ts';
import { addGap, makeRedundant, placeWalk } from '../coverage/coverage.ts';
import { notePages } from '../coverage/pages.ts';
import { noteHeld, noteTie } from '../coverage/ties.ts';
import { type Client, isOfRecord, transaction, withKeptPlans } from '../database/pool.ts';
import type { StreamKey } from '../database/stream-key.ts';
import { cleanJson, cleanText } from '../json-text.ts';
import type { Ms, Proof } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import type { Counts } from '../runs/runs.ts';
import { noteAges } from './change-latency.ts';
import { type Merge, nameOf, type Way } from './merge.ts';
import { type Drift, type Reject, settleRejects, writeDrift } from './rejects.ts';
import { note } from './sums.ts';

/** Records that one merge writes. */
export interface Batch {
  readonly merge: Merge;
  /** It is written whatever the versions are: see `Way`. */
  readonly isForced?: true;
  /** How erased people are found and redacted in the records; undefined: the records hold no personal data. */
  readonly personal: PersonalRules | undefined;
  /** Places and ids of the readable records. */
  readonly records: readonly { readonly place: number; readonly id: string }[];
  /**
   * JSON text of exactly the records at these places. Only with the care `as it came` may it hold something else that
   * PostgreSQL refuses.
   */
  readonly text: (places: readonly number[], care: Care) => string;
  /** JSON text of one record as the source sent it, readable or not. */
  readonly record: (place: number) => string;
  /** Further parameters of the merge ($8…) for the records at these places. */
  readonly parameters: (places: readonly number[]) => readonly unknown[];
  /**
   * Parents whose sets are complete in this batch. Undefined: each record brings its own set, and the changed ones
   * count.
   */
  readonly parents?: readonly string[];
}

/** When a reply came, by our clock and by the clock of the source, in ms. */
export interface Moment {
  readonly nowMs: number;
  readonly asOfMs: number;
  /**
   * The reply was true by this time, by each clock (see Reply.shownBy). Undefined: not known, at most a minute after `asOfMs`.
   */
  readonly trueByMs?: number;
  /** Now, by the clock of the source; undefined where the latency of a change would mean nothing. */
  readonly sourceMs?: number | undefined;
}

export type Care = 'as it came' | 'cleaned' | 'one by one';
const cares: readonly Care[] = ['as it came', 'cleaned', 'one by one'];

export interface Written {
  readonly counts: Omit<Counts, 'credits'>;
  readonly rejects: readonly Reject[];
  /** By table, the number of rows whose id moved from one parent record to another. */
  readonly takenOver: Readonly<Record<string, number>>;
  /** Whether the stream may have open rejects and deletion candidates. Stored records clear them. */
  readonly mayClear: { readonly rejects: boolean; readonly candidates: boolean };
}
const mayClearAll = { rejects: true, candidates: true };
export const nothingWritten = (): Written => ({
  counts: noCounts(),
  rejects: [],
  takenOver: {},
  mayClear: mayClearAll,
});

/** The streams tell how erased people are found in their rows. */
export interface Store {
  readonly pg: pg.Pool;
  readonly streams: readonly Declaring[];
}

/** Repeats the transaction with growing care, until PostgreSQL accepts the values. */
export async function withCare<T>(store: Store, work: (client: Client, care: Care) => Promise<T>): Promise<T> {
  for (const care of cares) {
    try {
      return await commitTogether(store, client => work(client, care));
    } catch (error) {
      if (care === 'one by one' || !isOfRecord(error)) throw error;
    }
  }
  throw new Error('unreachable: the last care returns or throws');
}

/** Once for all records that the transaction has written. */
const keepMetrics = 'select internal.keep_touched_metrics()';

/** One attempt finds all erased people of a page, and a transaction has ten pages at most. */
const mostFound = 20;

/**
 * An erased person who shows up under another id is erased first, in a transaction of its own with its own lock. Then
 * the work is repeated.
 */
export async function commitTogether<T>(store: Store, work: (client: Client) => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await transaction(
        store.pg,
        work,
        `${withKeptPlans}; set local shelfdesk.keep_metrics = 'at the end'`,
        `${keepMetrics}; commit`,
      );
    } catch (error) {
      if (!(error instanceof FoundAgain) || tries === mostFound) throw error;
      await eraseFound(store, error);
    }
  }
}

/** The writer of rows: the claim of a job, or no run at all (a replayed reject). */
export type Writer = Pick<Claim, 'account'> & { readonly run: number | null };

export async function writeBatch(
  client: Client,
  claim: Writer,
  batch: Batch,
  at: Moment,
  care: Care,
): Promise<Written> {
  const places = batch.records.map(record => record.place);
  // Usually no one was erased. The merge checks that itself, so no query precedes it.
  if (care === 'as it came' && !batch.isForced && batch.personal !== undefined) {
    const way = 'unfiltered';
    const { erased, ...written } = await mergeOnce(client, claim, batch, {
      where: places,
      at,
      care,
      erased: nobody,
      way,
    });
    if (!erased) return { ...written, rejects: [] };
  }
  const merge = async (what: Batch) => {
    const where = what.records.map(({ place }) => place);
    const erased = await erasedIn(client, claim.account, what, at.nowMs);
    const way = what.isForced ? 'by force' : 'filtered';
    return mergeOnce(client, claim, what, { where, at, care, erased, way });
  };
  if (care !== 'one by one') {
    const { erased: _, ...written } = await merge(batch);
    return { ...written, rejects: [] };
  }

  const total = noCounts();
  const takenOver: Record<string, number> = {};
  const rejects: Reject[] = [];
  // A set is replaced only as a whole: a removal for one member would remove its siblings.
  const alone = batch.parents === undefined ? batch : { ...batch, parents: [] };
  for (const record of batch.records) {
    const { place, id } = record;
    const refusal = await attempt(client, async () => {
      const { counts, takenOver: taken } = await merge({ ...alone, records: [record] });
      add(total, counts);
      for (const [table, n] of Object.entries(taken)) takenOver[table] = (takenOver[table] ?? 0) + n;
    });
    if (refusal)
      rejects.push({ recordId: id, askId: id, reason: refusal.message, payload: batch.record(place), place });
  }
  if (rejects.length === 0 && batch.parents) {
    const erased = await erasedIn(client, claim.account, batch, at.nowMs);
    const { text } = textOf(batch, places, care, erased);
    total.deleted += await removeVanished(client, claim, batch, text, batch.parents);
  }
  return {
    counts: { ...total, rejected: rejects.length, seen: places.length },
    takenOver,
    rejects,
    mayClear: mayClearAll,
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

const trueBy = ({ trueByMs }: Moment) => (trueByMs === undefined ? null : new Date(trueByMs));

async function mergeOnce(
  client: Client,
  claim: Writer,
  batch: Batch,
  { where, at, care, erased, way }: { where: readonly number[]; at: Moment; care: Care; erased: Erased; way: Way },
): Promise<Omit<Written, 'rejects'> & { erased: boolean }> {
  const { text, parameters, cleaned } = textOf(batch, where, care, erased);
  const { rows } = await client.query<{
    seen: number;
    inserted: number;
    updated: number;
    updated_ids: string[];
    changed_ms: number[] | null;
    taken_over: Record<string, number>;
    passed_over: Record<string, string> | null;
    vanished: boolean | null;
    erased: boolean;
    rejects: boolean;
    candidates: boolean;
  }>({
    name: `merge ${nameOf(batch.merge)}`,
    text: batch.merge.upsert,
    values: [text, claim.account, new Date(at.nowMs), new Date(at.asOfMs), claim.run, trueBy(at), way, ...parameters],
  });
  const {
    seen,
    inserted,
    updated,
    updated_ids,
    changed_ms,
    taken_over: takenOver,
    passed_over,
    vanished,
    ...asked
  } = rows[0]!;
  const mayClear = { rejects: asked.rejects, candidates: asked.candidates };
  if (asked.erased) return { counts: noCounts(), takenOver, mayClear, erased: true };
  if (changed_ms !== null && at.sourceMs !== undefined) {
    // The table of a stream is named as its key.
    const stream = batch.merge.declared.root.name as StreamKey;
    await noteAges(client, { account: claim.account, stream }, changed_ms, at.sourceMs);
  }
  if (passed_over !== null)
    await noteHeld(client, { account: claim.account, table: batch.merge.declared.root }, passed_over, at.asOfMs);
  // A page without records says nothing of the set that it empties.
  const mayVanish = vanished !== false || seen === 0;
  const deleted = mayVanish ? await removeVanished(client, claim, batch, text, batch.parents ?? updated_ids) : 0;
  const unchanged = seen - inserted - updated;
  const counts = { seen, inserted, updated, unchanged, deleted, rejected: 0, cleaned };
  return { counts, takenOver, mayClear, erased: false };
}

async function removeVanished(
  client: Client,
  claim: Writer,
  batch: Batch,
  text: string,
  parents: readonly string[],
): Promise<number> {
  const { removal } = batch.merge;
  if (parents.length === 0 || removal === undefined) return 0;
  const { rows } = await client.query<{ deleted: number }>({
    name: `remove ${nameOf(batch.merge)}`,
    text: removal,
    values: [text, claim.account, parents],
  });
  return rows[0]!.deleted;
}

/** Erased people of the batch. The caller asks in the transaction that stores its text. */
export async function erasedIn(client: Client, account: string, batch: Batch, nowMs: Ms): Promise<Erased> {
  const { personal, records } = batch;
  if (personal === undefined || records.length === 0) return nobody;
  const places = records.map(({ place }) => place);
  return screen(client, account, personal, () => batch.text(places, 'as it came'), nowMs);
}

/**
 * The text and the parameters of the records at these places. Every batch reaches PostgreSQL through here, so no
 * personal data of erased people gets past.
 */
export function textOf(
  batch: Batch,
  places: readonly number[],
  care: Care,
  erased: Erased,
): { text: string; parameters: readonly unknown[]; cleaned: number } {
  const [came, parameters] = [batch.text(places, care), batch.parameters(places)];
  const text = batch.personal?.redact(came, erased) ?? came;
  if (care === 'as it came') return { text, parameters, cleaned: 0 };
  const deep = (value: unknown): unknown =>
    typeof value === 'string' ? cleanText(value).text : Array.isArray(value) ? value.map(deep) : value;
  return { ...cleanJson(text), parameters: parameters.map(deep) };
}

export const noCounts = () => ({ seen: 0, inserted: 0, updated: 0, unchanged: 0, deleted: 0, rejected: 0, cleaned: 0 });

export function add<T extends object>(total: T, more: T): void {
  for (const key of Object.keys(total) as (keyof T)[]) {
    total[key] = ((total[key] as number) + (more[key] as number)) as T[keyof T];
  }
}

/**
 * Notes about records that are not stored, or differ. The notes hold text of records, so they are searched for erased
 * people.
 */
type Notes =
  | {
      readonly rejects: readonly Reject[];
      readonly drift: readonly Drift[];
      /** The rules of the stream of the notes. */
      readonly personal: PersonalRules | undefined;
    }
  | { readonly rejects: readonly []; readonly drift: readonly []; readonly personal?: undefined };

/** Everything that the transaction writes besides the rows. */
export type Bookkeeping = Notes & {
  readonly counts: Counts;
  /** Ids of stored records. Their open rejects are cleared. */
  readonly stored: readonly string[];
  readonly list?: string;
  readonly proof?: Proof;
  /** The end of the gap that a backfill reads. */
  readonly until?: Ms | undefined;
  /** Lists whose records the page has shown: they need not be read apart. */
  readonly redundant?: readonly string[];
  /** The number of records that the source counts for this run. */
  readonly expected?: number | undefined;
};

/** Throws unless the claim is still ours: a worker that was taken for dead cannot move a position. */
export async function keepBooks(client: Client, claim: Claim, at: Moment, books: Bookkeeping): Promise<void> {
  const { proof = {}, list = 'default' } = books;
  const now = new Date(at.nowMs);
  await note(client, claim, { ...books, list, covered: proof.covered });
  if (proof.tie) await noteTie(client, claim, list, proof.tie);
  if (proof.walk !== undefined) await placeWalk(client, claim, list, proof.walk, books.until);
  if (proof.pages) await notePages(client, claim, list, proof.pages);
  if (proof.gap) await addGap(client, claim, list, proof.gap, now);
  for (const name of books.redundant ?? []) await makeRedundant(client, claim, name);
  const { stored, rejects, drift, personal } = books;
  await settleRejects(client, claim, { stored, rejects, personal }, at);
  if (drift.length > 0) await writeDrift(client, claim, { drift, personal }, now);
}
