/**
 * The rotation of re-reading. No source announces every edit and deletion, so each list is read again and again. How often
 * follows from what a reading costs: together the readings cost at most a share of the source's credits. A cheap list is read more
 * often than a dear one: a period that grows with the square root of the cost keeps the mean age of all lists lowest.
 */
import type { DetailStream, ListStream, Row, Stream } from '../../sources/source.ts';
import type { Context, OpenSource } from '../context.ts';
import type { Queryable } from '../database/pool.ts';
import type { StreamKey } from '../database/stream-key.ts';
import { isWholeEachTime } from '../reading/fewer.ts';
import type { Ms } from '../reading/reading.ts';

/** Shortest period: a run has a price of its own. */
const leastMs = 15 * 60_000;
/** The part of the share that is always left to details, of which each costs a request. */
const forDetails = 0.1;

/** A list of a stream that is read again and again. */
export interface Rotating {
  readonly stream: StreamKey;
  readonly list: string;
  /** Stored records that the list shows. */
  readonly rows: number;
  /** Of one reading of the whole list, in the unit of the limit. */
  readonly cost: number;
  /** As of when the oldest part of the list was read again; before the first time, when its first load had ended. */
  readonly checkedMs: Ms | undefined;
  readonly everyMs: number;
}

// @internal Tests hold its sums.
/** Pure. The periods of readings that cost so much, if `perMs` can be spent. */
export function periodsOf(costs: readonly number[], perMs: number): number[] {
  const roots = costs.map(Math.sqrt);
  const sum = roots.reduce((all, root) => all + root, 0);
  return roots.map(root => Math.max(leastMs, (root * sum) / perMs));
}

type Of = Pick<Context, 'pg' | 'account' | 'streams' | 'sweep'>;

/** What may be spent on re-reading in a millisecond; 0: re-reading is left to the nightly run. */
const shareOf = ({ sweep }: Pick<Of, 'sweep'>, { limits }: OpenSource): number =>
  ((sweep.share ?? 0) * (limits.credits - limits.reserve)) / limits.periodMs;

/** The lists of the source that were read to their end. Empty if re-reading is left to the nightly run. */
export async function rotationOf(ctx: Of, source: OpenSource): Promise<Rotating[]> {
  const perMs = shareOf(ctx, source) * (1 - forDetails);
  if (perMs === 0) return [];
  const lists: Omit<Rotating, 'everyMs'>[] = [];
  for (const stream of ctx.streams.filter(one => one.source === source.name))
    if (stream.kind === 'list' && isReread(stream)) lists.push(...(await listsOf(ctx.pg, ctx.account, stream)));
  const periods = periodsOf(
    lists.map(({ cost }) => cost),
    perMs,
  );
  return lists.map((list, n) => ({ ...list, everyMs: periods[n]! }));
}

/** A list that is read whole at each sync needs no sweep. */
const isReread = ({ jobs, ...stream }: Extract<Stream, { kind: 'list' }>): boolean =>
  jobs.sweep !== undefined || isWholeEachTime(stream.read);

async function listsOf(
  db: Queryable,
  account: string,
  stream: ListStream<Row> & Pick<Stream, 'jobs'>,
): Promise<Omit<Rotating, 'everyMs'>[]> {
  const { key, lists, daily, paging } = stream;
  const table = stream.merge.declared.root.name;
  const { rows } = await db.query<{ list: string; rows: number; checked_ms: Ms | null }>(
    `with first_load as (
       select min(s.finished_at) as at from sync.stored_run_streams s
       where (s.account_id, s.stream_key) = ($1, $2) and s.state = 'completed'),
     lists as (
       select c.list, case when $4::boolean then upper(c.covered) end as whole_at from sync.coverage c
       where (c.account_id, c.stream_key) = ($1, $2) and not c.redundant and not isempty(c.covered)
       union all select $3::text, null where $3 is not null)
     select l.list,
       (select count(*) from ${table} t where t.account_id = $1 and t._deleted_at is null
          and (l.list is distinct from $3 or ${daily?.where ?? 'true'})) as rows,
       extract(epoch from greatest(l.whole_at, coalesce((
         select min(w.as_of) from sync.swept w where (w.account_id, w.stream_key, w.list) = ($1, $2, l.list)),
         f.at)))::float8 * 1000 as checked_ms
     from lists l cross join first_load f where f.at is not null`,
    [account, key, daily?.list ?? null, stream.jobs.sweep === undefined || isWholeEachTime(stream.read)],
  );
  const { cost } = stream.request(lists[0].name, { page: 1, perPage: paging.perPage });
  return rows.map(({ list, rows: many, checked_ms }) => ({
    ...{ stream: key, list, rows: many, checkedMs: checked_ms ?? undefined },
    // Rows of lists of their own are few, and are counted with the first list.
    cost: cost * (list === lists[0].name || list === daily?.list ? Math.floor(many / paging.perPage) + 1 : 1),
  }));
}

/** A list is due in a run a little before its time, so that lists of one period are read in one run. */
const early = 0.9;

/** The age at which a sweep reads a part of the list again: `ageMs`, or what the rotation allows. */
export const dueAgeMs = (rotation: readonly Rotating[], stream: StreamKey, list: string, ageMs: number): number =>
  Math.min(
    ageMs,
    ...rotation.filter(one => one.stream === stream && one.list === list).map(one => one.everyMs * early),
  );

/**
 * What is left to details of a source: how many of its records may be read in an hour, and the age at which one is due, so that
 * all are read in turn. Undefined if re-reading is left to people.
 */
export async function detailsLeft(
  ctx: Of,
  source: OpenSource,
  { of, request }: Pick<DetailStream<Row, Row>, 'of' | 'request'>,
): Promise<{ perHour: number; ageMs: number } | undefined> {
  const rotation = await rotationOf(ctx, source);
  const records = rotation.find(({ stream }) => stream === of.key)?.rows ?? 0;
  if (records === 0) return undefined;
  const spent = rotation.reduce((sum, list) => sum + list.cost / list.everyMs, 0);
  const readsPerMs = (shareOf(ctx, source) - spent) / request('', []).cost;
  return { perHour: Math.floor(readsPerMs * 3_600_000), ageMs: Math.max(leastMs, records / readsPerMs) * early };
}

/** The lists whose time has come. */
export const dueIn = (rotation: readonly Rotating[], nowMs: Ms): Rotating[] =>
  rotation.filter(({ checkedMs, everyMs }) => checkedMs !== undefined && nowMs - checkedMs >= everyMs);
