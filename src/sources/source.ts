/**
 * The interfaces that a source implements. A source is a value that holds its settings, its connection, its limits and
 * its streams. A stream declares its requests, the order of its lists, its columns and its jobs, with pure functions
 * only. The engine does all I/O. Only index.ts names sources.
 *
 * Stream functions use method syntax, because method parameters are bivariant in TypeScript. A stream of tickets is
 * therefore assignable to a stream of `Row`. The engine passes to a stream only records from that stream's own
 * requests.
 */

import type { z } from 'zod';
import type { Setting } from '../app/setting-types.ts';
import type { Limits } from '../engine/budget/budget.ts';
import type { Merge, Table } from '../engine/commit/merge.ts';
import type { Tx, Writer } from '../engine/commit/page.ts';
import type { StoredReject } from '../engine/commit/rejects.ts';
import type { AuditConfig, Context, OpenSource, Reads } from '../engine/context.ts';
import type { Client } from '../engine/database/pool.ts';
import { type StreamKey, streamKey } from '../engine/database/stream-key.ts';
import type { Part as Requests } from '../engine/forecast/plan-time.ts';
import type { Planning, Question } from '../engine/forecast/planning.ts';
import type { Dialect, Token } from '../engine/http/dialect.ts';
import type { Request, SourceName } from '../engine/http/request.ts';
import type { Ask, Cuts, Ms, Reader } from '../engine/reading/reading.ts';
import type { Claim } from '../engine/runs/claims.ts';
import type { UsageError } from '../errors.ts';
import type { LakeTable } from '../lake/table.ts';
import type { Area, SourceCheck } from '../ops/doctor/checks/check.ts';
import type { Kind } from '../privacy/fields/field-rules.ts';
import type { Personal } from '../privacy/redact.ts';
import type { AnyRecord } from './record/record.ts';

/**
 * A source. `Part`: the configuration that the source adds to an account. `Whole`: a configuration that contains
 * `Part`.
 */
export interface Source<Part extends object = object, Whole = Part> {
  /** Name of the source, and of the database schema of its tables, such as `helpdesk`. */
  readonly name: SourceName;
  /** Name in messages to people, such as `the help desk`. */
  readonly label: string;
  /** The unit of its rate limit. */
  readonly unit: 'credit' | 'request';
  /** Environment variables of the source, by name. */
  readonly settings: Readonly<Record<string, Setting>>;
  /** Name of the setting that holds the source's address. Without this setting the source is not configured. */
  readonly address: string;
  /** The settings that a connection needs, as text for messages. */
  readonly requires: string;
  /** Streams, in the order of a full sync. */
  readonly streams: readonly Stream[];
  /** The tables of its declared records. Comments, masks, and the kinds of the field rules are made of them. */
  readonly tables?: readonly SourceTable[];
  readonly uses?: Uses;
  /** `migrate` makes the schema, and the tables of `tables`. Without it the migrations have made them. */
  readonly schema?: { readonly says: string };
  /** Setting values for a forecast of an account that has no settings here. They come from the warehouse. */
  settingsFrom?(known: Known): Readonly<Record<string, string>>;
  /**
   * Builds the configuration from the values of all settings. Throws UsageError if settings of this source contradict
   * each other.
   */
  configure(values: Values, of: SettingsOf): Part;
  /** Errors of settings that are valid alone but not in combination. */
  contradictions(values: Values, of: SettingsOf): UsageError[];
  /** The connection; undefined if the source is not configured. */
  connect(config: Whole): Connection | undefined;
  /**
   * Identity of the source's rate limit budget. Two accounts with one identity would spend one budget twice. Undefined
   * if unknown.
   */
  identityOf(config: Whole): string | undefined;
  /** The requests that a run will send to this source. Ignores streams of other sources. */
  forecast(planning: Planning, question: Question): Promise<readonly Requests[]>;
  /**
   * Checks of `doctor` for this source. Default: one that asks for a page of the first list, to see whether the source
   * answers and takes the credentials.
   */
  readonly checks?: () => Promise<Area<SourceCheck<Part>>>;
  /** The tables of the source in the lake. Default: none. */
  readonly lakeTables?: readonly LakeTable[];
}

/** Features that field rules may disable or weaken: for each feature and each record, the fields that it needs. */
export type Uses = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;

export interface SourceTable {
  /** With its schema: `helpdesk.messages`. */
  readonly name: string;
  /** The table that stores the rows, if `name` is a view of it. */
  readonly rows?: string;
  readonly record: AnyRecord;
  /** The column with the id of the record that the rows are parts of. */
  readonly parent?: string;
  /** The time by which versions are ordered. */
  readonly version?: string;
  /** Short names of the streams that read details of each record. */
  readonly details?: readonly string[];
  readonly histories?: Kind['histories'];
}

/** Data about one source of an account, from the warehouse. */
interface Known {
  readonly address: URL;
  /** Names of the synced lists of each stream, by the stream's short name. */
  readonly lists: ReadonlyMap<string, readonly string[]>;
}

/** The parsed values of all settings. Each source reads its own values. */
// biome-ignore lint/suspicious/noExplicitAny: each source types the values of its own settings
type Values = any;

/** The account of the settings, and the place where people change them. */
export interface SettingsOf {
  readonly account: string;
  /** Place of one setting for messages: `the environment`, `line 7 of fleet.yml`. */
  whereIs(name: string): string;
  /** Place to add a setting, for messages: `in the environment`. */
  readonly whereTo: string;
}

/** The connection to a configured source. */
export interface Connection {
  readonly baseUrl: URL;
  readonly dialect: Dialect;
  readonly token: Token | undefined;
  readonly limits: Limits;
  /** Longest delay in ms between the time of a record and its appearance in the source's lists. */
  readonly lookbackMs: number;
  /** Start of the mirror of this source, in ms since 1970. Default: everything. */
  readonly sinceMs?: Ms;
  /**
   * Tolerance in ms for steps of the source's clock. A larger step counts as a clock change. Undefined: the clock is
   * not watched.
   */
  readonly clockToleranceMs?: number;
  /** Longest wait for quota, in ms. A longer wait defers the run until the quota resets. */
  readonly longestWaitMs?: number;
  /** What its audit may use. Without it the source has none. */
  readonly audit?: AuditConfig;
  /** Settings that only the streams of this source read. */
  readonly own?: object;
}

/** The jobs of a stream, by kind of run. A stream without a job does not support that kind. */
export interface StreamJobs {
  /** Reads new records up to now. */
  readonly sync: Reads;
  /** Fills gaps in the synced range. */
  readonly backfill?: Reads;
  /** Reads all records again to find deletions and silent changes. */
  readonly sweep?: Reads;
  /** Compares stored records, all or a sample, with the source. */
  readonly verify?: Reads;
}

/** The records that a list has announced and that are fetched by id, each with one request. */
interface Pending {
  /** Name of one such record, such as `ticket`. The plural ends in s. */
  readonly unit: string;
  /** Cost of one request, in the unit of the source's limit. */
  readonly cost: number;
  /** Whether a record is due. If so, a separate run starts. */
  isDue(ctx: Context): Promise<boolean>;
  /**
   * When the record with this id or number was last changed, according to the mirror. Undefined if the mirror does not
   * have it. With this method a single record can be read again.
   */
  changedAt?(db: Pick<Client, 'query'>, account: string, name: string): Promise<Date | undefined>;
  /** Number of records that a run still has to fetch. */
  countLeft(db: Pick<Client, 'query'>, of: { readonly account: string; readonly run: number }): Promise<number>;
}

/** A reject and its stored payload. The transaction says when the payload was true. */
export interface Replaying {
  readonly tx: Tx<Writer>;
  readonly streams: readonly Stream[];
  readonly stream: Stream;
  readonly reject: StoredReject & { readonly payload: string };
}

/** A record of any stream. */
export interface Row {
  id: string;
}

/**
 * Facts about the stored rows of a list. With them the engine sweeps and verifies the list, and confirms each deletion by id. The
 * table has the name of the stream's key. SQL is over `t`, a row of it; `$1` is the account.
 */
export interface RowFacts {
  /**
   * The column with the creation time of a record. at: records show the time, and the list can be read in its order; in a further
   * source the column is `not null`. before: only a bound of it is known, and the list is walked whole. `checkedAt`: the column
   * that tells as of when a walk, or the reading of its details, has shown the row.
   */
  readonly created:
    | { readonly at: string; readonly checkedAt?: string }
    | { readonly before: string; readonly checkedAt: string };
  /** SQL: a time by which the record existed, as rows of other streams prove. */
  readonly provenBy?: string;
}

/** A table of parts of records. `parent`: the column that holds the id of the record. */
export type Part = Pick<Table, 'name' | 'rows' | 'key' | 'tombstone'> & { readonly parent: string };

interface Described {
  /** Short name, unique within its source. */
  readonly name: string;
  readonly source: SourceName;
  readonly key: StreamKey;
  /** The scheduled runs that read the stream. Streams of details are fetched by id and need no schedule. */
  readonly schedule: readonly ('fresh' | 'nightly')[];
  /** Further relations that are as complete as this stream, besides its tables. Names without the schema. */
  readonly relations?: readonly string[];
  /** Further tables and functions that such relations read, with the schema: their rows are of this stream. */
  readonly beneath?: readonly string[];
  /** Default freshness target: a number with s, m, h or d, such as `5m`. Default: that of its schedule. */
  readonly target?: string | undefined;
  /** Names of the lists of a configured source. Default: the names in `lists`. */
  listsOf?(source: OpenSource): readonly string[];
  /** The records that wait to be fetched by id. Undefined for a stream that its lists show whole. */
  readonly pending?: Pending;
  /** A sync finds all that a sweep would: then no night reads the list twice. */
  readonly sweptBySync?: boolean;
  /** Whether the nightly run reads this stream even if no record is waiting, to fetch names that are due. */
  readonly nightlyDetails?: boolean;
  /** Short names of the streams that read details of each record. They have columns in its table (see readingOf). */
  readonly details?: readonly string[];
  /** Rows of other streams that die with the record. */
  readonly parts?: readonly Part[];
  /** For a list that the engine sweeps in the order of creation, or by a walk. */
  readonly rowFacts?: RowFacts;
  /**
   * Stores a reject from its stored payload, without a request. Throws NotStored if that is impossible. Without this
   * method the record is fetched again.
   */
  replay?(replaying: Replaying): Promise<void>;
  readonly merge: Merge;
  /** Rules that find and redact erased people in this stream; undefined if it has no personal data. */
  readonly personal?: Personal;
  /** Fields in the specification. Any other field is drift: the field stays in `_payload` and is counted. */
  readonly fields: ReadonlySet<string>;
  /**
   * Allowed values in the specification, by field. Any other value is drift: the value is stored unchanged and counted.
   */
  readonly enumerations: Readonly<Record<string, readonly string[]>>;
  /** Paths of ids that must be unique in a page: the record's own id and the ids of its parts. A repeated id is drift. */
  readonly sets: readonly string[];
  /**
   * Expected types of fields that a record can lack. A different type is drift. The schema in the request checks the
   * required fields.
   */
  readonly expected?: z.ZodType;
}

/**
 * One list of a stream. Once the first list shows a record for which `shows` is true, this list is redundant and is not
 * read. Until then the first list may hide such records.
 */
interface List<T> {
  readonly name: string;
  shows?(record: T): boolean;
  /** The boolean column that is true for rows of which `shows` is true. */
  readonly flag?: string;
}

/** A part of the first list, which the source shows as a list of its own. */
export interface Lively {
  readonly list: string;
  /** SQL over `t`: a row that the list shows unless the row is in another list. */
  readonly where: string;
  /** The list shows only records that changed within this time, and is read as the rotation has it. Without it: also each night. */
  readonly changedWithinMs?: number;
}

/** A stream that is read by paging through lists. */
export interface ListStream<T extends Row> extends Described {
  readonly kind: 'list';
  readonly lists: readonly [List<T>, ...List<T>[]];
  readonly read: Reader;
  /** True if the stream ignores the start of the mirror. An old customer may open a new ticket, for example. */
  readonly fromTheBeginning?: boolean;
  /**
   * Largest page size, the number of records that paging can reach, whether pages are asked for by offsets, and whether a page may show
   * records that were updated after it was cut.
   */
  readonly paging: {
    readonly perPage: number;
    readonly depth: number;
    readonly byOffset?: boolean;
    readonly mayTear?: boolean;
  };
  /** Request for one page of a list. */
  request(list: string, ask: Ask): Request<T>;
  /** Time in ms by which a request with this order sorts its records. NaN if the record does not show that time. */
  orderedBy(record: T, order?: Ask['order']): Ms;
  /** Request for one record by id, if the source supports it. */
  get?(id: string): Request<T>;
  /**
   * Deletion detection for a list that is read whole. `whole list`: a missing row is fetched by id if the stream has
   * `get`; otherwise its absence is its deletion. `verify`: a missing row stays until `verify` repairs it, and deletions
   * are known as of the last read that showed every row. `unknown`: the reason why deletions cannot be detected.
   */
  readonly deletions?: 'whole list' | 'verify' | { readonly unknown: string };
  /**
   * Time in ms when a record was created or changed, for the freshness of new rows. NaN if the record does not show the
   * time.
   */
  changedAt?(record: T): Ms;
  /** The column with that time. Default: the version. */
  readonly datedBy?: string;
  /**
   * The first list can be asked for its newest records first (`order: 'newest'`). `stored`: how many of the stored records it
   * shows, counted up to a page.
   */
  readonly newestFirst?: { stored(db: Pick<Client, 'query'>, account: string): Promise<number> };
  /** Parts of the first list whose records change most. Sweeps read them more often. */
  readonly lively?: readonly Lively[];
  /** Request for several ids on one page of a list. The list may hide some of these records. */
  among?(ids: readonly string[]): Request<T>;
  /**
   * Filters that partition the records of one second. They are needed if a second has more records than paging reaches.
   */
  cuts?(db: Pick<Client, 'query'>, claim: Pick<Claim, 'account' | 'stream'>): Promise<Cuts>;
  /** Name of an edit that nothing announces, in findings. Default: `edited`. */
  readonly edited?: string;
  /** For a list with a version: names of edits that do not change the version, by field. Default: `edits`. */
  readonly quiet?: Readonly<Record<string, string>>;
  /** Further merge parameters, from $8 on: derived from the request and from `shownBy` of the reply, in ms. */
  parameters?(ask: Pick<Ask, 'since'>, shownBy: Ms): unknown[];
}

interface Named extends Row {
  name?: string | null | undefined;
}

/** Names without an endpoint of their own. A detail request embeds those that its record mentions, for one more credit. */
export interface Name {
  /** What a request embeds, and the field of the reply with the names. */
  readonly embed: string;
  readonly table: StreamKey;
  /** The field, and column, of the record that mentions an id, or a list of ids if `many`. */
  readonly ids: string;
  readonly many: boolean;
  readonly record: z.ZodType<Named>;
}

/** How the members of a record are listed. */
export interface MemberList {
  readonly read: Reader;
  readonly perPage: number;
  /** A page shows how many members there are, or is the last one if it shows very few. Otherwise its reply names the next page. */
  readonly isCounted: boolean;
  request(id: string, ask: Ask): Request<Row>;
}

/** A computed value of a record, and the drift that the computation found. */
export interface Derived {
  readonly value: unknown;
  readonly drift?: { readonly kind: 'simplified_html'; readonly path: string };
}

/**
 * A stream that is read through the details of another stream's record. Each reply replaces the record's members as a
 * set.
 */
export interface DetailStream<P extends Row, T extends Row> extends Described {
  readonly kind: 'detail';
  /** The parent stream, which names this one in `details`. The detail request also returns the parent record, but for a `list`. */
  readonly of: Described;
  /** Request for the parent record with its members, and with the names in `more`. */
  request(id: string, more: readonly string[]): Request<P>;
  /** The members are a list of their own, which is asked for instead. Merges get them with the id of their record in `_parent`. */
  readonly list?: MemberList;
  members(record: P): readonly unknown[];
  /** The field of the parent record that holds the members. */
  readonly membersField: string;
  readonly member: z.ZodType<T>;
  /** Computes the expensive value of a member. Yields to the event loop. */
  derive(member: T): Promise<Derived>;
  /** The fields that `derive` reads. */
  readonly derivesFrom: readonly string[];
  /**
   * Further merge parameters, from $8 on, each a list with one value for each member: made of the derived values of the
   * members, their positions in the record, from 0, and the as_of of the reply.
   */
  parameters(derived: readonly unknown[], places: readonly number[], asOfMs: Ms): (readonly unknown[])[];
  readonly names: readonly Name[];
  /** Update time of the parent record, in ms. Older versions never replace members of newer ones. Undefined for a `list`. */
  version?(record: P): Ms;
  /** Members are read again after this time in ms, because nothing may announce that they have changed. */
  readonly ageMs?: Ms;
  /** Which records are read before others that did not change lately: SQL over `t`, a row of the parent. */
  readonly first?: string;
  /** The kind of a member, if its edits have a name of their own in findings: `note` for `note edits`. */
  kindOf?(member: unknown): string | undefined;
  /** A table of former versions of the parent, with the columns that mention names. */
  readonly former?: StreamKey;
  /** The group of a record that may be refused as a whole: SQL over `t`, a row of the parent. */
  readonly group?: string;
}

/** A whole list whose records each hold a set of volumes. The set may change during the read, so its source reads it. */
export interface ShelfStream extends Described {
  readonly kind: 'shelves';
  readonly perPage: number;
  readonly members: Described & {
    /** SQL for the comparison of stored and received positions: $8 owner, $9 shelf, $10 position of each row. */
    readonly places: Pick<Merge, 'declared'>;
  };
}

/**
 * A stream whose records are fetched one by one by id, because lists show them shortened. An id that the source does not know
 * answers like a temporary failure, so a failure says nothing of the source, and nothing is a deletion.
 */
export interface ByIdStream<T extends Row> extends Described {
  readonly kind: 'by id';
  /** Short name of the stream that lists the ids. */
  readonly of: string;
  request(id: string): Request<T>;
  /** A record is read again after this time in ms. */
  ageMs(source: OpenSource): number;
  readonly rows: ListedRows;
}

/** The rows of a stream that is read by id. SQL is over `t`, a row. */
interface ListedRows {
  /** The column with the time since which a list shows the record as new or changed; null if it was read since. */
  readonly waitsSince: string;
  /** The column that tells as of when the record was last read. */
  readonly checkedAt: string;
  /** What a reading sets besides. */
  readonly read: string;
  /** Selects the places of the record in lists, in order. A record without a place is not read. */
  readonly places: string;
  /** The order of records that wait equally long, over the first `place`. */
  readonly order: string;
  /** When a list first showed a record that was not read yet, if somebody may wait for it. */
  readonly shownAt: string;
  /** Selects the `id`s of all places, also those of records without a row. $1 is the account. */
  readonly placed: string;
  /** SQL over `n`, a row: a list shows it, or has shown it. */
  readonly isShown: string;
}

export type Declared = ListStream<Row> | DetailStream<Row, Row> | ShelfStream | ByIdStream<Row>;

/** A stream of a source: the declaration and the jobs. */
export type Stream = Declared & { readonly jobs: StreamJobs };

/** Short name of the stream whose list announces the records of this one; null for a list. */
export const announcedBy = (stream: Declared): string | null => {
  if (!('of' in stream)) return null;
  return typeof stream.of === 'string' ? stream.of : stream.of.name;
};

/** Builds the identity of a stream: short name, source and key. */
export const identify = <S extends SourceName, N extends string>(source: S, name: N) => ({
  source,
  name,
  key: streamKey(source, name),
});
