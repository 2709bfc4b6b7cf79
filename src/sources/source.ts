/**
 * A source is a value: how to reach it, how it limits requests, and its streams. A stream is a declaration and pure
 * functions: which request reads it, in which order its list moves, which column comes from which field, and what the
 * stream can do. The engine does all I/O. index.ts is the only place that names sources.
 *
 * Stream functions are written as methods, so that a stream of tickets passes for a stream of records with an id: the
 * engine hands back to a stream only records that its own requests brought.
 */

import type { z } from 'zod';
import type { Setting } from '../app/setting-types.ts';
import type { Limits } from '../engine/budget/budget.ts';
import type { Merge } from '../engine/commit/merge.ts';
import type { Context, OpenSource } from '../engine/context.ts';
import type { Client } from '../engine/database/pool.ts';
import { type StreamKey, streamKey } from '../engine/database/stream-key.ts';
import type { Planning, Question } from '../engine/forecast/plan.ts';
import type { Part as Requests } from '../engine/forecast/plan-time.ts';
import type { Dialect, Token } from '../engine/http/dialect.ts';
import type { Request, SourceName } from '../engine/http/request.ts';
import type { Replaying } from '../engine/load/replay.ts';
import type { Reads } from '../engine/load/run-stream.ts';
import type { Ask, Cuts, Ms, Reader } from '../engine/reading/reading.ts';
import type { Claim } from '../engine/runs/claims.ts';
import type { UsageError } from '../errors.ts';
import type { PersonalRules } from '../privacy/redact.ts';

/**
 * `Part`: what the source adds to the configuration of an account. `Whole`: a configuration that holds it.
 */
export interface Source<Part extends object = object, Whole = Part> {
  /** Also the schema of its tables: `helpdesk`. */
  readonly name: SourceName;
  /** As people read it: `the help desk`. */
  readonly label: string;
  /** What its limits count. */
  readonly unit: 'credit' | 'request';
  /** Environment variables by name. */
  readonly settings: Readonly<Record<string, Setting>>;
  /** The setting of its address. Without it the source is not configured. */
  readonly address: string;
  /** The settings that connect it, as people read them. */
  readonly requires: string;
  /** In the order of a full sync. */
  readonly streams: readonly Stream[];
  /** SQL that makes its schema and tables, each file applied once. Without them its tables are those of the migrations. */
  readonly schemaFiles?: readonly URL[];
  /** The values of its settings for an account that has none here, from what the warehouse knows of it. */
  settingsFrom?(known: Known): Readonly<Record<string, string>>;
  /** From the values of all settings. Throws UsageError where settings of its own contradict each other. */
  configure(values: Values, of: SettingsOf): Part;
  /** What is wrong with settings that are right each by itself. */
  contradictions(values: Values, of: SettingsOf): UsageError[];
  /** Undefined unless it is configured. */
  connect(config: Whole): Connection | undefined;
  /** Two accounts of one identity would spend one budget twice; undefined: none is known. */
  identityOf(config: Whole): string | undefined;
  /** What a run will request. Streams of other sources are no part of it. */
  forecast(planning: Planning, question: Question): Promise<readonly Requests[]>;
  /** Re-reads random records while nothing else needs the credits; undefined: no audit. */
  readonly audit?: Audit;
}

/** What the warehouse knows of a source of an account. */
export interface Known {
  readonly address: URL;
  /** The coverage lists of each of its streams, by the short name. */
  readonly lists: ReadonlyMap<string, readonly string[]>;
}

/** The parsed values of all settings. A source reads its own. */
// biome-ignore lint/suspicious/noExplicitAny: each source types the values of its own settings
export type Values = any;

/** Whose settings these are, and where people change them. */
export interface SettingsOf {
  readonly account: string;
  /** `the environment`, `line 7 of fleet.yml` */
  whereIs(name: string): string;
  /** `in the environment` */
  readonly whereTo: string;
}

/** How a configured source is reached. */
export interface Connection {
  readonly baseUrl: URL;
  readonly dialect: Dialect;
  readonly token: Token | undefined;
  readonly limits: Limits;
  /** How late a record may appear after its own time. */
  readonly lookbackMs: number;
  /** A step of the clock of the source beyond this counts as a move; undefined: its clock is not watched. */
  readonly clockToleranceMs?: number;
  /** The longest wait for quota. Beyond it a run is deferred until the quota resets. */
  readonly longestWaitMs?: number;
  /** Settings that only its own streams need. */
  readonly own?: object;
}

export interface Audit {
  /** The streams of an audit run. */
  readonly streams: readonly StreamKey[];
  /** Streams that the run reads beside them: none may be paused. */
  readonly beside: readonly StreamKey[];
  isWanted(source: OpenSource): boolean;
  /** SQL, $1 the account: a row if something is here to be compared. */
  readonly isThere: string;
  /** SQL, $1 the account: a row if other work of the source waits that no run shows. */
  readonly othersWant?: string;
}

/** Which values of a stream tell who somebody is. */
export interface PersonalData {
  /** Columns that readers without the right to personal data see masked. Erasure clears them: none of them is `not null`. */
  readonly columns: readonly string[];
  /**
   * Outermost fields of a record that hold an address or a phone number, at any depth: erasure recognises a person by these.
   * Their columns are personal too.
   */
  readonly contacts: readonly string[];
}

/** What runs do with a stream. What is missing, the stream cannot do. */
export interface StreamJobs {
  readonly sync: Reads;
  readonly backfill?: Reads;
  readonly sweep?: Reads;
  readonly verify?: Reads;
  readonly audit?: Reads;
}

/** What every record has. */
export interface Row {
  id: string;
}

/** Rows that a list lacked where it should have shown them: sync.deletion_candidates. Each is fetched by id. */
export interface Candidates {
  /** The source showed these ids as of this time: they are no candidates any more. */
  clear(client: Client, claim: Claim, ids: readonly string[], asOfMs: Ms): Promise<void>;
  /** Adds rows of a reply that is older than the sweep of their range: that sweep did not find them here. */
  addLate(
    client: Client,
    claim: Pick<Claim, 'account' | 'stream'>,
    ids: readonly string[],
    of: { readonly asOfMs: Ms; readonly lookbackMs: number },
  ): Promise<void>;
}

interface Described {
  /** The short name, unique within its source. */
  readonly name: string;
  readonly source: SourceName;
  readonly key: StreamKey;
  /** Which runs of the schedule read it. What is asked for by id follows by itself. */
  readonly schedule: readonly ('fresh' | 'nightly')[];
  /** Relations besides its tables whose rows are as new as the stream is complete, without their schema. */
  readonly relations?: readonly string[];
  /** How far it may be behind unless a setting says otherwise: a number with s, m, h or d, as `5m`. */
  readonly target: string;
  /** The coverage lists of a configured source. Without it: those of `lists`. */
  listsOf?(source: OpenSource): readonly string[];
  /** Whether records wait to be fetched by id: then a run of their own starts. */
  isDue?(ctx: Context): Promise<boolean>;
  /** The nightly run fetches the details that are due, though none waits. */
  readonly nightlyDetails?: boolean;
  /** A sweep looks for deletions by id. */
  readonly candidates?: Candidates;
  /**
   * Stores a reject from its stored payload, without a request. Throws NotStored where that is not possible; undefined: the
   * record is fetched again.
   */
  replay?(replaying: Replaying): Promise<void>;
  /** A verify run compares a random sample of its records. */
  readonly sampled?: boolean;
  readonly merge: Merge;
  /** Its personal data; undefined: it has none. */
  readonly personal?: PersonalData;
  /** How erased people are found and redacted in it, where `personal` does not tell. */
  readonly personalRules?: PersonalRules;
  /** Fields that the specification names; any other is drift: kept in `_payload`, and counted. */
  readonly fields: ReadonlySet<string>;
  /** Values that the specification names, by field; any other is drift: kept as it is, and counted. */
  readonly enumerations: Readonly<Record<string, readonly string[]>>;
  /** Where a record has ids that come once: its own, and those of what hangs on it. */
  readonly sets: readonly string[];
  /** Types that are only expected: what differs is drift as well. Those that a record cannot do without are in its request. */
  readonly expected?: z.ZodType;
}

/** A list of a stream. All but the first are read only until the first has shown such records itself. */
export interface List<T> {
  readonly name: string;
  shows?(record: T): boolean;
}

/** Read by lists. */
export interface ListStream<T extends Row> extends Described {
  readonly kind: 'list';
  readonly lists: readonly [List<T>, ...List<T>[]];
  readonly read: Reader;
  /** True where HELPDESK_SINCE says nothing: an old customer may write a new ticket. */
  readonly fromTheBeginning?: boolean;
  /** The largest page, and how many records paging reaches. */
  readonly paging: { readonly perPage: number; readonly depth: number };
  request(list: string, ask: Ask): Request<T>;
  /** What a request of this order is ordered by, in ms; NaN where records do not show it. */
  orderedBy(record: T, order?: Ask['order']): Ms;
  /** Asks for one record again, where the source can. */
  get?(id: string): Request<T>;
  /**
   * How deletions show. Only of a list that is read whole: a row that the list lacks is fetched by id, if the stream has
   * `get`; else its absence is its deletion. `unknown` says why nobody can tell.
   */
  readonly deletions?: 'whole list' | { readonly unknown: string };
  /** When a record was created or changed, in ms, for rows that came after the last sync; NaN where it does not show. */
  changedAt?(record: T): Ms;
  /** A part of what its lists show that changes more than the rest: a sweep reads it every day. */
  readonly daily?: string;
  /** Those of so many ids as fit on a page that a list shows; it may hide some of them. */
  among?(ids: readonly string[]): Request<T>;
  /** Filters that part its records, so that a second with more records than paging reaches is read in parts. */
  cuts?(db: Pick<Client, 'query'>, claim: Pick<Claim, 'account' | 'stream'>): Promise<Cuts>;
  /** Further parameters of the merge ($7…), from what was asked and when the source answered. */
  parameters?(ask: Pick<Ask, 'since'>, date: Ms): unknown[];
}

export interface Named extends Row {
  name?: string | null | undefined;
}

/** Something that has no endpoint: its name rides along with a detail, for a credit. */
export interface Name<P> {
  readonly embed: 'labels' | 'inbox';
  /** The ids that the record mentions: for these a reply that shows no name is the answer. */
  mentioned(record: P): readonly string[];
  /** Names that the record shows, readable or not. */
  shown(record: P): readonly unknown[];
  readonly record: z.ZodType<Named>;
  /** $1 the record, $2 account, $3 now, $4 as_of, $5 the ids that were asked about and that the record mentions. */
  readonly upsert: string;
}

/** A value that is worked out of a record, and what is to be told of that. */
export interface Derived {
  readonly value: unknown;
  readonly drift?: { readonly kind: 'simplified_html'; readonly path: string };
}

/** Read by asking for one record of another stream in detail: its members are replaced as a set. */
export interface DetailStream<P extends Row, T extends Row> extends Described {
  readonly kind: 'detail';
  /** The stream whose record is asked for, and comes along. */
  readonly of: Described;
  request(id: string, more: readonly Name<P>['embed'][]): Request<P>;
  members(record: P): readonly unknown[];
  /** The field of the record that holds them. */
  readonly membersField: string;
  readonly member: z.ZodType<T>;
  /** Works out of a member what costs time. It gives the event loop its turn. */
  derive(member: T): Promise<Derived>;
  /** Further parameters of the merge ($7…), from the derived values of the members, and their places in the record, from 0. */
  parameters(derived: readonly unknown[], places: readonly number[]): unknown[];
  readonly names: readonly Name<P>[];
  version(record: P): Ms;
}

/** A list that is read whole, and what is on each of its records: a set that moves while it is read. */
export interface ShelfStream<S extends Row, V extends Row> extends Described {
  readonly kind: 'shelves';
  /** All shelves of an owner; `startIndex` where a reply may not have shown all. */
  request(owner: string, startIndex: number): Request<S>;
  get(owner: string, id: string): Request<S>;
  /** What tells that nothing on the shelf has changed while it stays the same; null where nothing does. */
  version(shelf: S): string | null;
  /** When the volumes on it were last changed, at the source; NaN where it does not show. */
  changed(shelf: S): Ms;
  /** When the shelf itself, or what is on it, was last changed, at the source; NaN where it does not show. */
  edited(shelf: S): Ms;
  /** How many volumes it says that it holds. */
  count(shelf: S): number | undefined;
  readonly perPage: number;
  /** A row that is not there yet, of nothing but its id. */
  readonly ifAbsent: Merge;
  readonly members: Described & {
    readonly ifAbsent: Merge;
    /** What varies from reply to reply though nothing changed. */
    readonly varying: readonly string[];
    /** Rows of the shelf beside what is here: $7 owner, $8 shelf, $9 the place of each row. */
    readonly places: Pick<Merge, 'declared'>;
    request(owner: string, id: string, startIndex: number, maxResults: number): Request<V>;
  };
}

/** Read by asking for each record by its id, which lists only shorten. */
export interface VolumeStream<V extends Row> extends Described {
  readonly kind: 'volumes';
  /** The stream that tells which there are. */
  readonly of: string;
  request(id: string): Request<V>;
}

export type Declared = ListStream<Row> | DetailStream<Row, Row> | ShelfStream<Row, Row> | VolumeStream<Row>;

/** A stream of the list of sources: its declaration, and its jobs. */
export type Stream = Declared & { readonly jobs: StreamJobs };

/** The identity of a stream: its short name, its source, and the key of both. */
export const identify = <S extends SourceName, N extends string>(source: S, name: N) => ({
  source,
  name,
  key: streamKey(source, name),
});
