/**
 * Declares a source and its streams in a few lines. The engine derives reads, comparison, sweeps and forecasts from the
 * declaration. A stream with other needs supplies its own functions, as the streams of the help desk do.
 */
import type { z } from 'zod';
import type { Setting, ValuesOf } from '../app/setting-types.ts';
import { buildMerge, type Column, fieldOf, page } from '../engine/commit/merge.ts';
import { sweepWholeList } from '../engine/deletions/sweep-whole-list.ts';
import { partsOfWholeLists } from '../engine/forecast/plan-whole-lists.ts';
import type { Request } from '../engine/http/request.ts';
import { listJobs } from '../engine/load/list-jobs.ts';
import { readByCursor } from '../engine/reading/by-cursor.ts';
import type { Ask, Ms } from '../engine/reading/reading.ts';
import { verifyWholeList } from '../engine/verify/verify-whole-list.ts';
import {
  type Connection,
  identify,
  type ListStream,
  type PersonalData,
  type Row,
  type Source,
  type Stream,
} from './source.ts';

/** A stream whose list is always read whole, page by page. */
export interface WholeList<T extends Row> {
  readonly source: string;
  /** Short name of the stream, and name of its table. */
  readonly name: string;
  /**
   * Columns of the table in addition to the columns that every mirrored table has. The first one is `id`. Each other text is
   * `personal` or `plain`.
   */
  readonly columns: readonly Column[];
  /** Schema of one record. Fields outside the schema are drift. */
  readonly record: z.ZodObject & z.ZodType<T>;
  /** Largest page size. */
  readonly perPage: number;
  /** Builds the request of one page. `ask.cursor` is the next-page cursor from the previous reply. */
  request(ask: Ask): Omit<Request<T>, 'kind'>;
  /** Builds the request of one record, if the source supports it. With `get`, only a 404 counts as a deletion. */
  get?(id: string): Omit<Request<T>, 'kind'>;
  /**
   * The reason why deletions cannot be detected: the list hides existing records. Undefined if the list shows all
   * records.
   */
  readonly deletionsUnknown?: string;
  /**
   * Whether each page starts with the last record of the previous page. Needed if a deletion shifts the following
   * records.
   */
  readonly overlap?: boolean;
  /** Time in ms when the record was created or changed. NaN if the record does not show it. */
  changedAt?(record: T): Ms;
  readonly personal?: PersonalData;
  /** Allowed values in the specification, by field. Any other value is drift. */
  readonly enumerations?: Readonly<Record<string, readonly string[]>>;
  /** The scheduled runs that read the stream. Default: nightly. */
  readonly schedule?: readonly ('fresh' | 'nightly')[];
  /** Freshness target, such as `26h`. Default: `5m` for streams in the fresh schedule, otherwise `26h`. */
  readonly target?: string;
}

/**
 * Builds a stream whose list is read whole. The stream supports sync, backfill and verify. It supports sweep unless
 * `deletionsUnknown` is set.
 */
export function wholeList<T extends Row>(declared: WholeList<T>): Stream {
  const { source, name, columns, record, perPage, get, changedAt, personal, deletionsUnknown } = declared;
  const { schedule = ['nightly'], target = schedule.includes('fresh') ? '5m' : '26h' } = declared;
  const stream: ListStream<T> = {
    kind: 'list',
    ...identify(source, name),
    schedule,
    target,
    lists: [{ name: 'default' }],
    read: (from, options) => readByCursor(from, options, declared.overlap),
    paging: { perPage, depth: Number.POSITIVE_INFINITY },
    fromTheBeginning: true,
    request: (_list, ask) => ({ ...declared.request(ask), kind: name, ...(changedAt && { stampedAt: changedAt }) }),
    orderedBy: () => Number.NaN,
    ...(get && { get: id => ({ ...get(id), kind: name }), sampled: true }),
    deletions: deletionsUnknown === undefined ? 'whole list' : { unknown: deletionsUnknown },
    ...(changedAt && { changedAt }),
    merge: buildMerge({ name: `${source}.${name}`, from: page, columns }),
    ...(personal && { personal }),
    unsaid: unsaidOf(columns, personal),
    fields: new Set(Object.keys(record.shape)),
    record,
    enumerations: declared.enumerations ?? {},
    sets: ['id'],
  };
  const rows = stream as unknown as ListStream<Row>;
  return {
    ...rows,
    jobs: {
      ...listJobs(rows),
      ...(deletionsUnknown === undefined && { sweep: { read: (ctx, claim) => sweepWholeList(ctx, claim, rows) } }),
      verify: { read: (ctx, claim) => verifyWholeList(ctx, claim, rows) },
    },
  };
}

/** The key names rows and nobody. A column that is read from a contact field is personal. */
function unsaidOf([, ...columns]: readonly Column[], personal: PersonalData | undefined): string[] {
  const { columns: named, contacts } = personal ?? { columns: [], contacts: [] };
  return columns
    .filter(column => column.mayTell && !named.includes(column.name) && !contacts.includes(fieldOf(column)))
    .map(({ name }) => name);
}

type Settings = Readonly<Record<string, Setting>>;

/** A source whose streams are all whole lists. */
export interface SourceOf<N extends string, S extends Settings>
  extends Pick<Source, 'label' | 'unit' | 'address' | 'requires' | 'streams'> {
  readonly name: N;
  readonly settings: S;
  readonly schemaFiles: readonly URL[];
  /** Builds the connection from the setting values. Undefined if the source is not configured. */
  connect(values: ValuesOf<S>): Connection | undefined;
}

/** The configuration of such a source within an account: its connection, under the source's name. */
type Part<N extends string> = { readonly [K in N]?: Connection | undefined };

/** Builds a source from its settings and connection. Accounts with the same address and token share one identity. */
export function defineSource<const N extends string, S extends Settings>(declared: SourceOf<N, S>): Source<Part<N>> {
  const { connect, ...rest } = declared;
  return {
    ...rest,
    configure: values => ({ [declared.name]: connect(values) }) as Part<N>,
    contradictions: () => [],
    connect: config => config[declared.name],
    identityOf: config => {
      const connection: Connection | undefined = config[declared.name];
      return connection?.token && JSON.stringify([connection.baseUrl.href, connection.token.secrets()]);
    },
    forecast: (planning, question) =>
      partsOfWholeLists(planning, question, declared.streams as unknown as readonly ListStream<Row>[]),
  };
}
