/**
 * How a service declares its streams, in a line each: the names of options are those of declarative connectors elsewhere. A list is read
 * whole (`fullRefresh`), from the last change on (`incremental`), or from the last new record on (`created`). A `feed` is read behind
 * the last event. `details` are a list of its own for each record of another stream.
 */
import type { AnyRecord, Facts, Field } from '../record/record.ts';
import type { Paginator } from './paginator.ts';

type NamesOf<R extends AnyRecord> = Extract<keyof R['fields'], string>;
type TimesOf<R extends AnyRecord> = {
  [K in NamesOf<R>]: R['fields'][K] extends Field<unknown, 'timestamptz'> ? K : never;
}[NamesOf<R>];
/** Times that each record has. */
type CertainTimesOf<R extends AnyRecord> = {
  [K in NamesOf<R>]: R['fields'][K] extends Field<string, 'timestamptz'> ? K : never;
}[NamesOf<R>];

/** `/invoices/:id` */
type ById = `${string}:id${string}`;

interface Options {
  /** Path of the records in the body. Default: that of the service. */
  readonly dataSelector?: string;
  /** Parameters of each request. That of the cursor, or of the start, holds until there is a later one. */
  readonly params?: Readonly<Record<string, string>>;
  /** Default: that of the service. */
  readonly paginator?: Paginator;
  /** `fresh`: a run of each minute, and each night. */
  readonly schedule?: 'fresh' | 'nightly';
  /** Freshness target, such as `26h`. Default: that of its schedule. */
  readonly target?: string;
}

export interface ListOptions extends Options {
  /** The path of one record. With it, deletions are confirmed: only a 404 counts. */
  readonly get?: ById;
  /** Path of the record in the body of its own reply. Default: the body is the record. */
  readonly getSelector?: string;
  /** The reason why deletions cannot be detected: the list hides records that exist. */
  readonly deletionsUnknown?: string;
}

export interface FullRefreshOptions<R extends AnyRecord> extends ListOptions {
  /** The time of the last change, by which `verify` tells a late change from a difference. */
  readonly updatedAt?: TimesOf<R>;
}

export interface IncrementalOptions<R extends AnyRecord> extends ListOptions {
  /** The time that grows with each change; of a list by creation the time of creation. The list is in its ascending order. */
  readonly cursor: CertainTimesOf<R>;
  /** The parameter that wants records since a time, inclusive or not. */
  readonly startParam: string;
  /** How the value is written, in UTC: `>=%Y-%m-%d %H:%M:%S`, or `%s` for seconds since 1970. Default: ISO 8601, as in 2026-01-01T00:00:00.000Z. */
  readonly datetimeFormat?: string;
  /** The service shows records that are so much older than it is asked for, so it is asked for a later time. Default: 0. */
  readonly startSlackSeconds?: number;
}

export interface DetailsOptions extends Omit<Options, 'schedule'> {
  /** Name of the stream of the records. It is `incremental`: their details are read when a record is new, or has changed. */
  readonly parent: string;
  /** They are read again after so many days, because they may change without a change of the record. */
  readonly ageDays?: number;
}

export interface FeedOptions<R extends AnyRecord> extends Options {
  /** The parameter that wants what comes behind the event of this id. */
  readonly cursorParam: string;
  /** Path of the word whether more events follow. Default: an empty page is the last one. */
  readonly hasMorePath?: string;
  /** The time of an event, by which one that is listed late is found. Default: `at` of `deletes`. */
  readonly at?: CertainTimesOf<R>;
  /** Its events say that records of other streams were deleted. */
  readonly deletes?: Deletes<R>;
}

/** `of`: the stream of the deleted records, or by the word in the field `type`. */
type Deletes<R extends AnyRecord> = { readonly id: NamesOf<R>; readonly at: CertainTimesOf<R> } & (
  | { readonly of: string }
  | { readonly type: NamesOf<R>; readonly of: Readonly<Record<string, string>> }
);

interface Of<K extends string, O extends object> {
  readonly kind: K;
  readonly record: AnyRecord;
  readonly path: string;
  readonly options: O;
}
// biome-ignore lint/suspicious/noExplicitAny: options are checked where they are written
type Any = any;
export type DeclaredList =
  | Of<'full refresh', FullRefreshOptions<Any>>
  | Of<'incremental' | 'created', IncrementalOptions<Any>>
  | Of<'feed', FeedOptions<Any>>;
export type DeclaredDetails = Of<'details', DetailsOptions>;
export type DeclaredStream = DeclaredList | DeclaredDetails;

export const fullRefresh = <R extends AnyRecord>(
  record: R,
  path: string,
  options: FullRefreshOptions<R> = {},
): DeclaredStream => ({ kind: 'full refresh', record: ofService(record), path, options });

export const incremental = <R extends AnyRecord>(
  record: R,
  path: string,
  options: IncrementalOptions<R>,
): DeclaredStream => ({ kind: 'incremental', record: ofService(record), path, options });

/** Only new records show up in it. An edit shows when a sweep reads all of it. */
export const created = <R extends AnyRecord>(
  record: R,
  path: string,
  options: IncrementalOptions<R>,
): DeclaredStream => ({ kind: 'created', record: ofService(record), path, options });

export const feed = <R extends AnyRecord>(record: R, path: string, options: FeedOptions<R>): DeclaredStream => ({
  kind: 'feed',
  record: withNeeded(ofService(record), options),
  path,
  options,
});

export const details = (record: AnyRecord, path: ById, options: DetailsOptions): DeclaredStream => ({
  kind: 'details',
  record: ofService(record),
  path,
  options,
});

function withFields(record: AnyRecord, change: (facts: Facts, name: string) => Facts): AnyRecord {
  const fields = Object.entries(record.fields as Record<string, Facts>);
  return { ...record, fields: Object.fromEntries(fields.map(([name, facts]) => [name, change(facts, name)])) };
}

/** A service may write ids, and what is declared as text, as numbers. */
const ofService = (record: AnyRecord): AnyRecord => ({
  ...withFields(record, facts => (facts.record ? { ...facts, record: ofService(facts.record) } : facts)),
  mayBeNumbers: true,
});

/** Without these fields an event says nothing. */
function withNeeded(record: AnyRecord, { deletes, at }: Partial<FeedOptions<Any>> = {}): AnyRecord {
  const needed: unknown[] = [at, deletes?.id, deletes?.at, ...(deletes && 'type' in deletes ? [deletes.type] : [])];
  return withFields(record, (facts, name) => (needed.includes(name) ? { ...facts, needed: true } : facts));
}

/** What the streams of a service share. */
export interface Shared {
  readonly name: string;
  readonly label: string;
  readonly paginator: Paginator;
  readonly dataSelector?: string;
}
