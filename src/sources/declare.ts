/**
 * Declares a source and its streams in a few lines. The rest follows from the declaration: how the list is read, compared,
 * swept and forecast. A stream that needs more brings its own functions, as those of the help desk do.
 */
import type { z } from 'zod';
import type { Setting, ValuesOf } from '../app/setting-types.ts';
import { buildMerge, type Column, page } from '../engine/commit/merge.ts';
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

/** A stream whose list is read whole, page after page. */
export interface WholeList<T extends Row> {
  readonly source: string;
  /** The short name, and the name of its table. */
  readonly name: string;
  /** Columns of the table beside those that every mirrored table has. The first one is `id`. */
  readonly columns: readonly Column[];
  /** Checks one record. Fields that it does not name are drift. */
  readonly record: z.ZodObject & z.ZodType<T>;
  /** The largest page. */
  readonly perPage: number;
  /** The request of a page. `ask.cursor` is what the reply before said of the next page. */
  request(ask: Ask): Request<T>;
  /** The request of one record, if the source can: then only a 404 counts as a deletion. */
  get?(id: string): Request<T>;
  /** Why nobody can tell deletions: the list hides records that exist. Without it the list is whole. */
  readonly deletionsUnknown?: string;
  /** Each page begins with the last record of the page before: for a list that moves when a record goes away. */
  readonly overlap?: boolean;
  /** When the record was created or changed, in ms; NaN where it does not show. */
  changedAt?(record: T): Ms;
  readonly personal?: PersonalData;
  /** Values that the specification names, by field. Others are drift. */
  readonly enumerations?: Readonly<Record<string, readonly string[]>>;
  /** The schedules that read it; each night unless told. */
  readonly schedule?: readonly ('fresh' | 'nightly')[];
  /** How far it may be behind, as `26h`. */
  readonly target?: string;
}

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
    request: (_list, ask) => declared.request(ask),
    orderedBy: () => Number.NaN,
    ...(get && { get, sampled: true }),
    deletions: deletionsUnknown === undefined ? 'whole list' : { unknown: deletionsUnknown },
    ...(changedAt && { changedAt }),
    merge: buildMerge({ name: `${source}.${name}`, from: page, columns }),
    ...(personal && { personal }),
    fields: new Set(Object.keys(record.shape)),
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

type Settings = Readonly<Record<string, Setting>>;

/** A source of such streams. */
export interface SourceOf<N extends string, S extends Settings>
  extends Pick<Source, 'label' | 'unit' | 'address' | 'requires' | 'streams'> {
  readonly name: N;
  readonly settings: S;
  readonly schemaFiles: readonly URL[];
  /** From the values of its settings. Undefined unless it is configured. */
  connect(values: ValuesOf<S>): Connection | undefined;
}

/** What such a source adds to the configuration of an account: its connection, under its name. */
type Part<N extends string> = { readonly [K in N]?: Connection | undefined };

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
