/** What the engine makes of the declared streams of a service: requests, merge, comparison, sweep, personal data. */
import { shortName } from '../../engine/commit/merge.ts';
import type { Reads } from '../../engine/context.ts';
import type { DeletionEvents } from '../../engine/deletions/deletion-events.ts';
import { replay } from '../../engine/details/detail-jobs.ts';
import type { Request } from '../../engine/http/request.ts';
import { listJobs } from '../../engine/load/list-jobs.ts';
import { readFeed } from '../../engine/reading/by-feed.ts';
import type { Ask } from '../../engine/reading/reading.ts';
import { exitCodes, Fatal, Retry } from '../../errors.ts';
import { declaredRules } from '../../privacy/declared.ts';
import { checkOf, factsOf, timeOf } from '../record/check.ts';
import { personalOf } from '../record/personal.ts';
import { type AnyRecord, columnNameOf, type Facts } from '../record/record.ts';
import { mergeOf, parentColumn, tablesOf } from '../record/tables.ts';
import { identify, type ListStream, type Part, type Row, type SourceTable, type Stream } from '../source.ts';
import { writtenAs } from './datetime-format.ts';
import type { DeclaredList, DeclaredStream, IncrementalOptions, ListOptions, Shared } from './declared.ts';
import { detailsOf } from './details.ts';
import { limitOf, type Paginator, pageRequest, sized, timedReader, valueAt, wholeReader } from './paginator.ts';

/** The tables of a stream, the one of its own records first. `all`: the streams of the service. */
function tablesOfStream(source: string, stream: DeclaredStream, all: readonly DeclaredStream[]): SourceTable[] {
  const { record, kind, options } = stream;
  if (kind === 'details') {
    const parent = all.find(one => one.record.name === options.parent)!;
    return [{ name: `${source}.${record.name}`, record, parent: parentColumn(parent.record) }];
  }
  const tables = tablesOf(source, record);
  if (kind !== 'incremental') return tables;
  const details = all.flatMap(one =>
    one.kind === 'details' && one.options.parent === record.name ? [one.record.name] : [],
  );
  return tables.with(0, { ...tables[0]!, version: columnOf(stream, options.cursor), details });
}

export const tablesOfService = (name: string, streams: readonly DeclaredStream[]) =>
  streams.flatMap(stream => tablesOfStream(name, stream, streams));

const columnOf = ({ record }: DeclaredStream, field: string): string =>
  (record.fields as Record<string, Facts>)[field]?.column ?? columnNameOf(field);

/** Makes the streams of a service. */
export function streamsOf(shared: Shared, declared: readonly DeclaredStream[]): Stream[] {
  const lists = new Map(
    declared.flatMap(one => (one.kind === 'details' ? [] : [[one.record.name, listOf(shared, one, declared)]])),
  );
  return declared.map(one => {
    if (one.kind !== 'details') {
      const list = lists.get(one.record.name)!;
      return { ...list, replay, jobs: jobsOf(list, one, [...lists.values()]) };
    }
    return detailsOf(shared, one, lists.get(one.options.parent)!, tablesOfStream(shared.name, one, declared)[0]!);
  });
}

function jobsOf(list: ListStream<Row>, stream: DeclaredList, all: readonly ListStream<Row>[]): Stream['jobs'] {
  const jobs = listJobs(list);
  if (stream.kind !== 'feed') {
    const sweep: Reads = {
      read: async (ctx, claim) =>
        (await import('../../engine/deletions/sweep-whole-list.ts')).sweepWholeList(ctx, claim, list),
    };
    return { ...jobs, ...(stream.options.deletionsUnknown === undefined && { sweep }) };
  }
  const events = eventsOf(list, stream, all);
  if (events === undefined) return { sync: jobs.sync, ...(jobs.backfill && { backfill: jobs.backfill }) };
  const burying = ({ read, ...rest }: Reads): Reads => ({
    ...rest,
    async read(ctx, claim) {
      const outcome = await read(ctx, claim);
      const { buryByEvents } = await import('../../engine/deletions/deletion-events.ts');
      await buryByEvents(ctx, claim, list.source, events);
      return outcome;
    },
  });
  return { sync: burying(jobs.sync), backfill: burying(jobs.backfill!) };
}

function eventsOf(
  { key, source, name }: ListStream<Row>,
  stream: Extract<DeclaredList, { kind: 'feed' }>,
  all: readonly ListStream<Row>[],
): DeletionEvents | undefined {
  const { deletes } = stream.options;
  if (deletes === undefined) return undefined;
  const target = (to: string) => {
    const found = all.find(one => one.name === to);
    if (found === undefined)
      throw new Fatal(
        `source ${source}: ${name} says that records of ${to} were deleted, and there is no stream ${to}`,
        `Name one of ${all.map(one => one.name).join(', ')}.`,
        exitCodes.usage,
      );
    return found;
  };
  const of = typeof deletes.of === 'string' ? [['', deletes.of] as const] : Object.entries(deletes.of);
  const type = 'type' in deletes ? columnOf(stream, deletes.type) : undefined;
  return {
    table: key,
    ...{ id: columnOf(stream, deletes.id), at: columnOf(stream, deletes.at), type },
    of: of.map(([word, to]) => ({ ...(type !== undefined && { type: word }), stream: target(to) })),
  };
}

function listOf(shared: Shared, stream: DeclaredList, all: readonly DeclaredStream[]): ListStream<Row> {
  const { record, options } = stream;
  const { name } = shared;
  const pages = options.paginator ?? shared.paginator;
  const { schedule = stream.kind === 'full refresh' ? 'nightly' : 'fresh' } = options;
  const check = checkOf(record) as unknown as Request<Row>['record'];
  const time = timeFieldOf(stream);
  const at = (one: Row) => timeOf(String((one as unknown as Record<string, unknown>)[time ?? ''] ?? ''));
  const asked = (ask: Ask): Request<Row> => requestOf(shared, stream, ask, check);
  const tables = tablesOfStream(name, stream, all);
  const { details = [] } = tables[0]!;
  const of = { ...identify(name, record.name), merge: mergeOf(tables) };
  const personal = personalOf(record);
  return {
    ...{ kind: 'list', ...of, target: options.target, lists: [{ name: 'default' }] },
    schedule: schedule === 'fresh' ? ['fresh', 'nightly'] : ['nightly'],
    relations: tables.map(shortName),
    read: readerOf(stream, pages),
    paging: {
      perPage: limitOf(pages),
      depth: Number.POSITIVE_INFINITY,
      byOffset: pages.type === 'offset',
      mayTear: true,
    },
    ...(stream.kind !== 'incremental' && { fromTheBeginning: true }),
    request: (_list, ask) => ({ ...asked(ask), ...(time !== undefined && { stampedAt: at }) }),
    orderedBy: stream.kind === 'full refresh' ? () => Number.NaN : at,
    ...(time !== undefined && { changedAt: at, datedBy: columnOf(stream, time) }),
    ...(stream.kind !== 'feed' && getOf(stream.options, check, record.name)),
    deletions: deletionsOf(stream),
    details,
    parts: details.map(one => partOf(`${name}.${one}`, parentColumn(record))),
    sweptBySync: stream.kind === 'full refresh' && stream.options.get === undefined && details.length === 0,
    ...(personal && { personal: declaredRules(of, personal) }),
    ...factsOf(record),
  };
}

const partOf = (name: string, parent: string): Part => ({ name, parent, key: [parent, 'id'] });

const timeFieldOf = (stream: DeclaredList): string | undefined => {
  if (stream.kind === 'feed') return stream.options.at ?? stream.options.deletes?.at;
  return stream.kind === 'full refresh' ? stream.options.updatedAt : stream.options.cursor;
};

const readerOf = ({ kind }: DeclaredList, pages: Paginator) => {
  if (kind === 'feed') return readFeed;
  return kind === 'full refresh' ? wholeReader(pages) : timedReader(pages, kind === 'created');
};

const deletionsOf = (stream: DeclaredList): NonNullable<ListStream<Row>['deletions']> => {
  if (stream.kind === 'feed') return { unknown: 'a feed says what has happened' };
  const { deletionsUnknown } = stream.options;
  return deletionsUnknown === undefined ? 'whole list' : { unknown: deletionsUnknown };
};

function getOf(
  { get, getSelector: within }: ListOptions,
  record: Request<Row>['record'],
  kind: string,
): Pick<ListStream<Row>, 'get'> {
  if (get === undefined) return {};
  const path = (id: string) => get.replace(':id', encodeURIComponent(id));
  const selected = within === undefined ? {} : { within };
  return {
    get: id => ({
      path: path(id),
      query: {},
      cost: 1,
      shape: 'single',
      kind,
      record,
      selector: 'getSelector',
      ...selected,
    }),
  };
}

function requestOf(shared: Shared, stream: DeclaredList, ask: Ask, record: Request<Row>['record']): Request<Row> {
  const { options, path } = stream;
  const within = options.dataSelector ?? shared.dataSelector;
  const pages = options.paginator ?? shared.paginator;
  const page =
    stream.kind === 'feed'
      ? feedRequest(stream, pages, within, ask)
      : pageRequest(pages, within, ask, stream.kind === 'full refresh');
  const since =
    'startParam' in stream.options && ask.since !== undefined
      ? { [stream.options.startParam]: startOf(stream.options, ask.since) }
      : {};
  return {
    ...page,
    ...{
      path,
      query: { ...options.params, ...page.query, ...since },
      cost: 1,
      shape: 'list',
      selector: 'dataSelector',
    },
    ...(within !== undefined && { within }),
    ...{ kind: stream.record.name, record },
  };
}

type Start = Pick<IncrementalOptions<AnyRecord>, 'datetimeFormat' | 'startSlackSeconds'>;

function startOf({ datetimeFormat, startSlackSeconds = 0 }: Start, sinceMs: number): string {
  const ms = sinceMs + startSlackSeconds * 1000;
  return datetimeFormat === undefined ? new Date(ms).toISOString() : writtenAs(datetimeFormat, ms);
}

function feedRequest(
  { path, options: { cursorParam, hasMorePath } }: Extract<DeclaredStream, { kind: 'feed' }>,
  pages: Paginator,
  within: string | undefined,
  ask: Ask,
): Pick<Request<never>, 'query' | 'next'> {
  return {
    query: {
      ...sized(pages, ask),
      ...(ask.cursor !== undefined && { [cursorParam]: ask.cursor }),
    },
    next: body => {
      const events = within === undefined ? body : valueAt(body, within);
      const ids = (Array.isArray(events) ? events : []).flatMap(one => (one as { id?: unknown } | null)?.id ?? []);
      if (hasMorePath === undefined) return ids.length > 0 ? String(ids.at(-1)) : undefined;
      const more = valueAt(body, hasMorePath);
      if (more === undefined)
        throw new Fatal(
          `GET ${path}: the reply has no field ${hasMorePath}`,
          'Correct hasMorePath of the feed: it names the word whether more events follow.',
          exitCodes.usage,
        );
      if (!/^(true|1)$/i.test(String(more))) return undefined;
      // An event without an id has no place behind which the next page begins.
      if (ids.length === 0)
        throw new Retry(`GET ${path}: more events are said to follow, and none of this page has an id`);
      return String(ids.at(-1));
    },
  };
}
