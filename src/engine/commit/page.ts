/** What a transaction stores: records of a reply, how they are kept out or cleaned, and what came of it. */

import type pg from 'pg';
import type { Client } from '../database/pool.ts';
import type { Claim } from '../runs/claims.ts';
import type { Counts } from '../runs/runs.ts';
import type { Merge } from './merge.ts';

/** When a reply came, by our clock and by the clock of the source, in ms. */
export interface Moment {
  readonly nowMs: number;
  readonly asOfMs: number;
  /**
   * The reply was true by this time, by each clock (see Reply.shownBy). Undefined: not known, at most a minute after `asOfMs`.
   */
  readonly trueByMs?: number | undefined;
  /** Now, by the clock of the source; undefined where the latency of a change would mean nothing. */
  readonly sourceMs?: number | undefined;
}

export type Care = 'as it came' | 'cleaned' | 'one by one';

/** The writer of rows: the claim of a job, or no run at all (a replayed reject). */
export type Writer = Pick<Claim, 'account'> & { readonly run: number | null };

/** A transaction that stores what came: the first parameter of each of its stages. */
export interface Tx<Of extends Pick<Claim, 'account'> = Claim> {
  readonly client: Client;
  readonly claim: Of;
  readonly at: Moment;
  readonly care: Care;
}
export type AnyTx = Pick<Tx<Pick<Claim, 'account'>>, 'client' | 'claim' | 'at'>;

/** A text beside the rows, with the ids of its record, and of the record that is fetched for it. */
export interface Aside {
  readonly text: string | undefined;
  readonly recordId?: string | undefined;
  readonly askId?: string | undefined;
}

/** Keeps texts of a stream out that may not be stored. It asks in the transaction that stores the rest: see privacy/filter.ts. */
export interface Filter {
  /** The text of a merge without them. Throws NotYet if other rows have to go first. */
  page(tx: AnyTx, text: string): Promise<string>;
  /** The places of those texts that may not be stored at all. */
  hidden(tx: AnyTx, texts: readonly Aside[]): Promise<ReadonlySet<number>>;
}

/** The warehouse, and all streams with their filters. */
export interface Store {
  readonly pg: pg.Pool;
  readonly streams: readonly { readonly personal?: Filter }[];
}

/** The transaction is repeated, once something else is committed. */
export class NotYet extends Error {
  readonly first: (store: Store) => Promise<void>;

  constructor(message: string, first: (store: Store) => Promise<void>) {
    super(message);
    this.first = first;
  }
}

/** Records that one merge writes. */
export interface Batch {
  readonly merge: Merge;
  /** It is written whatever the versions are: see `Way`. */
  readonly isForced?: true;
  /** Undefined: the records hold nothing that may not be kept. */
  readonly filter: Filter | undefined;
  /** Places and ids of the readable records. */
  readonly records: readonly { readonly place: number; readonly id: string }[];
  /**
   * JSON text of exactly the records at these places. Only with the care `as it came` may it hold something else that
   * PostgreSQL refuses.
   */
  readonly text: (places: readonly number[], care: Care) => string;
  /** The same for the care `as it came`, in UTF-8. Without it, or where it answers undefined, the text serves. */
  readonly bytes?: (places: readonly number[]) => Buffer | undefined;
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

export interface Reject {
  /** What tells it from others where neither id nor text does. */
  readonly key?: string | undefined;
  readonly recordId?: string | undefined;
  /** The id that fetches the record again. */
  readonly askId?: string | undefined;
  /** The record that it is part of, if its id is unique within that only. */
  readonly of?: string | undefined;
  readonly reason: string;
  /** The first field with another shape than documented; empty for the record as a whole. Undefined: another reason. */
  readonly path?: string | undefined;
  /** The source answered 404 for it. */
  readonly gone?: boolean | undefined;
  /** JSON text. Escapes keep characters that PostgreSQL cannot store. */
  readonly payload?: string | undefined;
  /** The place of the record in the reply, from 0. */
  readonly place?: number | undefined;
}

export interface Drift {
  readonly kind:
    | 'unknown_field'
    | 'unknown_value'
    | 'wrong_type'
    | 'unstorable'
    | 'clock'
    | 'simplified_html'
    | 'repeated_id';
  readonly path: string;
  readonly value: string;
  readonly seen: number;
  /** A record with the difference, as JSON text. */
  readonly sample?: string;
  /** The ticket of the record, if the record does not name it. */
  readonly of?: string;
}

export interface Written {
  readonly counts: Omit<Counts, 'credits'>;
  readonly rejects: readonly Reject[];
  /** By table, the number of rows whose id moved from one parent record to another. */
  readonly takenOver: Readonly<Record<string, number>>;
  /** Whether the stream may have open rejects and deletion candidates. Stored records clear them. */
  readonly mayClear: { readonly rejects: boolean; readonly candidates: boolean };
  /** Each record is stored as it came: nothing of it was cleaned or taken out, and no row was left as later. */
  readonly isWhole: boolean;
}

export const noCounts = () => ({ seen: 0, inserted: 0, updated: 0, unchanged: 0, deleted: 0, rejected: 0, cleaned: 0 });

export const nothingWritten = (mayClear = { rejects: true, candidates: true }): Written => ({
  ...{ counts: noCounts(), rejects: [], takenOver: {} },
  mayClear,
  isWhole: true,
});

export function add(total: object, more: object): void {
  const sums = total as Record<string, number>;
  for (const [key, n] of Object.entries(more)) sums[key] = (sums[key] ?? 0) + n;
}
