/**
 * The rotation of re-reading. No source announces every edit and deletion, so each list is read again and again. How often
 * follows from what a reading costs: together the readings cost at most a share of the source's credits. A cheap list is read more
 * often than a dear one: a period that grows with the square root of the cost keeps the mean age of all lists lowest.
 */
import type { DetailStream, ListStream, Row, Stream } from '../../sources/source.ts';
import { type Context, type OpenSource, sourceNow } from '../context.ts';
import { readPages } from '../coverage/pages.ts';
import { type StreamKey, sourceOfKey } from '../database/stream-key.ts';
import { isWholeEachTime } from '../reading/fewer.ts';
import type { Ms } from '../reading/reading.ts';
import type { Target } from '../runs/freshness-targets.ts';
import type { RunKind } from '../runs/runs.ts';
import { shownBy } from './row-facts.ts';

/** Shortest period: a run has a price of its own. */
const leastMs = 15 * 60_000;
/** Due age of what is read each night. Shorter than a day, so that every nightly run finds it due. */
export const dailyMs = 20 * 3_600_000;
/** A list is due in a run a little before its time, so that lists of one period are read in one run. */
const early = 0.9;
/** The part of the share that is always left to details, of which each costs a request. */
const forDetails = 0.1;
/** A list of what changed lately is read if it costs at most this part of the whole list: in a young mirror nearly all changed lately. */
const mostLately = 0.1;

/** A list of a stream that is read again and again. */
export interface Rotating {
  readonly stream: StreamKey;
  readonly list: string;
  /** Stored records that the list shows. */
  readonly rows: number;
  /** Of one reading of the whole list, in the unit of the limit. */
  readonly cost: number;
  /** As of when the oldest part of the list was read again; before the first time, when its first load had ended. */
  readonly checkedMs: Ms;
  readonly everyMs: number;
}

// @internal Tests hold its sums.
/**
 * Pure. The periods of readings that cost so much, if `perMs` can be spent. What cheap lists leave, because none is read more often
 * than in `leastMs`, goes to the others.
 */
export function periodsOf(costs: readonly number[], perMs: number): number[] {
  const cheap = new Set<number>();
  for (;;) {
    const dear = costs.filter((_, n) => !cheap.has(n));
    const restPerMs = perMs - [...cheap].reduce((sum, n) => sum + costs[n]! / leastMs, 0);
    const roots = dear.reduce((sum, cost) => sum + Math.sqrt(cost), 0);
    const periods = costs.map((cost, n) => (cheap.has(n) ? leastMs : (Math.sqrt(cost) * roots) / restPerMs));
    const more = periods.flatMap((period, n) => (period < leastMs ? [n] : []));
    if (more.length === 0) return periods;
    for (const n of more) cheap.add(n);
  }
}

type Of = Pick<Context, 'pg' | 'account' | 'streams' | 'sweep' | 'sources' | 'clock'>;

/** What may be spent on re-reading in a millisecond, by the tightest limit; 0: re-reading is left to the nightly run. */
const shareOf = ({ sweep }: Pick<Of, 'sweep'>, { limits }: OpenSource): number => {
  const perMs = [
    (limits.credits - limits.reserve) / limits.periodMs,
    ...(limits.further ?? []).map(({ requests, ms }) => requests / ms),
  ];
  return (sweep.share ?? 0) * Math.min(...perMs);
};

/** The lists of the source that were read to their end. Empty if re-reading is left to the nightly run. */
export async function rotationOf(ctx: Of, source: OpenSource): Promise<Rotating[]> {
  // Lists are read a little before their time.
  const perMs = shareOf(ctx, source) * (1 - forDetails) * early;
  if (perMs === 0) return [];
  const lists: Omit<Rotating, 'everyMs'>[] = [];
  for (const stream of ctx.streams)
    if (stream.source === source.name && stream.kind === 'list' && isReread(stream))
      lists.push(...(await listsOf(ctx, stream, source.lookbackMs)));
  const periods = periodsOf(
    lists.map(({ cost }) => cost),
    perMs,
  );
  return lists.map((list, n) => ({ ...list, everyMs: periods[n]! }));
}

const isReread = ({ jobs, ...stream }: Extract<Stream, { kind: 'list' }>): boolean =>
  jobs.sweep !== undefined || isWholeEachTime(stream.read);

async function listsOf(
  { pg: db, account, ...now }: Of,
  stream: ListStream<Row> & Pick<Stream, 'jobs' | 'sweptBySync'>,
  lookbackMs: number,
): Promise<Omit<Rotating, 'everyMs'>[]> {
  const { key, lively = [], paging } = stream;
  const nowMs = sourceNow(now, stream.source);
  const table = stream.merge.declared.root.name;
  const [{ name: first }] = stream.lists;
  // Rows that a list of its own shows are counted by its flag.
  const filters = [
    ...stream.lists.map(({ name, flag }) => ({
      name,
      where: name === first || flag === undefined ? 'true' : `t.${flag}`,
    })),
    ...lively.map(one => ({ name: one.list, where: shownBy(stream, one, nowMs).rows })),
  ];
  // A list that is walked, or read whole, is read again from its beginning only.
  const isWhole = isWholeEachTime(stream.read) || (stream.rowFacts && 'before' in stream.rowFacts.created);
  const { rows } = await db.query<{ list: string; rows: number; checked_ms: Ms }>(
    `with first_load as (
       select min(s.finished_at) as at from sync.stored_run_streams s
       where (s.account_id, s.stream_key) = ($1, $2) and s.state = 'completed'),
     counts as (
       select ${filters.map(({ where }, n) => `count(*) filter (where ${where}) as n${n}`).join(', ')}
       from ${table} t where t.account_id = $1 and t._deleted_at is null),
     lists as (
       select f.name, f.n, upper(c.covered) as covered_to
       from (select name, case place ${filters.map((_, n) => `when ${n + 1} then n${n}`).join(' ')} end as n
             from counts, unnest($3::text[]) with ordinality f (name, place)) f
       left join sync.coverage c on (c.account_id, c.stream_key, c.list) = ($1, $2, f.name)
       where f.name = any($4) or (not c.redundant and not isempty(c.covered)))
     select l.name as list, l.n as rows,
       extract(epoch from greatest(case when $5 then l.covered_to end, coalesce((
         select min(w.as_of) from sync.swept w
         where (w.account_id, w.stream_key, w.list) = ($1, $2, l.name) and (not $6 or w.created @> '1970-01-01T00:00:00Z'::timestamptz)),
         f.at)))::float8 * 1000 as checked_ms
     from lists l cross join first_load f where f.at is not null`,
    [
      account,
      key,
      filters.map(({ name }) => name),
      lively.map(one => one.list),
      isReadBySync(stream),
      isWhole ?? false,
    ],
  );
  const { size = paging.perPage } = await readPages(db, { account, stream: key }, first);
  const { cost } = stream.request(first, { page: 1, perPage: paging.perPage });
  const lists = rows.map(({ list, rows: many, checked_ms }) => ({
    // A reading counts as of one lookback before it began.
    ...{ stream: key, list, rows: many, checkedMs: checked_ms + lookbackMs },
    cost: cost * (Math.floor(many / Math.min(size, paging.perPage)) + 1),
  }));
  const dear = lists.find(({ list }) => list === first)?.cost ?? 0;
  const isLately = (name: string) =>
    lively.some(({ list, changedWithinMs }) => list === name && changedWithinMs !== undefined);
  return lists.filter(one => !isLately(one.list) || one.cost <= dear * mostLately);
}

/** What a sync reads whole, and judges deletions by, needs no sweep. */
const isReadBySync = (stream: Pick<Stream, 'jobs' | 'sweptBySync'>): boolean =>
  stream.jobs.sweep === undefined || stream.sweptBySync === true;

/** A whole re-reading that is older than three of its periods is late; hours of other work are no reason to call anybody. */
const lateAfter = { periods: 3, leastMs: 6 * 3_600_000, nightsMs: 2 * 24 * 3_600_000 };

/** How old the last re-reading of each stream that is swept may become. Lively lists are not counted: the whole list shows their records, too. */
export function promisesOf(
  { streams, sweep }: Pick<Of, 'streams' | 'sweep'>,
  source: OpenSource,
  rotation: readonly Rotating[],
): Target[] {
  return streams.flatMap(stream => {
    if (stream.source !== source.name || stream.kind !== 'list' || isReadBySync(stream)) return [];
    const whole = rotation.filter(
      one => one.stream === stream.key && stream.lists.some(({ name }) => name === one.list),
    );
    const days = shareOf({ sweep }, source) > 0;
    if (days && whole.length === 0) return [];
    const ms = days
      ? Math.max(lateAfter.leastMs, lateAfter.periods * Math.max(...whole.map(({ everyMs }) => everyMs)))
      : sweep.ageMs + lateAfter.nightsMs;
    return [{ subject: `reread ${stream.key}`, ms: Math.ceil(ms / leastMs) * leastMs }];
  });
}

/** The age at which a sweep reads a part of the list again: `ageMs`, or what the rotation allows. */
export const dueAgeMs = (
  rotation: readonly Rotating[],
  { stream, list, ageMs, lookbackMs }: { stream: StreamKey; list: string; ageMs: number; lookbackMs: number },
): number =>
  Math.min(
    ageMs,
    ...rotation.filter(one => one.stream === stream && one.list === list).map(one => one.everyMs * early + lookbackMs),
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
  const spent = rotation.reduce((sum, list) => sum + list.cost / (list.everyMs * early), 0);
  const readsPerMs = (shareOf(ctx, source) - spent) / request('', []).cost;
  return { perHour: Math.floor(readsPerMs * 3_600_000), ageMs: Math.max(leastMs, records / readsPerMs) * early };
}

/**
 * Until when a list rests, in our time. It is tried once in each period: the first run of its stream that begins in a period reads it, and if
 * that leaves it as it was, however it ended, the others of the period do not. -Infinity: it does not rest. `last`: the last of the runs that
 * read its stream.
 */
export function restsUntilMs(
  ctx: Pick<Context, 'sources' | 'clock'>,
  { stream, checkedMs, everyMs }: Rotating,
  last: { readonly begunMs: Ms } | undefined,
): Ms {
  const nowMs = sourceNow(ctx, sourceOfKey(stream));
  const aheadMs = nowMs - ctx.clock.now();
  const period = Math.floor((nowMs - checkedMs) / everyMs + 1 - early);
  const begunMs = checkedMs + (period - 1 + early) * everyMs - aheadMs;
  return period >= 1 && last !== undefined && last.begunMs >= begunMs ? begunMs + everyMs : -Infinity;
}

/** A stream whose time has come, or comes next. */
export interface Due {
  readonly stream: Stream;
  /** What reads it again. */
  readonly kind: 'sweep' | 'fresh';
  /** Time until it is due; at most 0: now. */
  readonly inMs: number;
  /** Its lists that are due now. */
  readonly lists: readonly Rotating[];
}

/** The runs that read a stream again, by the kind that the rotation opens. */
export const readBy: Record<Due['kind'], readonly RunKind[]> = {
  sweep: ['sweep'],
  fresh: ['sync', 'fresh', 'nightly'],
};

/** The streams of a source, by the lists of each that are due first. */
export function dueOf(ctx: Pick<Context, 'sources' | 'clock' | 'streams'>, rotation: readonly Rotating[]): Due[] {
  return ctx.streams.flatMap(stream => {
    const all = rotation.filter(one => one.stream === stream.key);
    if (all.length === 0) return [];
    const nowMs = sourceNow(ctx, stream.source);
    const inMs = ({ checkedMs, everyMs }: Rotating) => checkedMs + everyMs - nowMs;
    const lists = all.filter(one => inMs(one) <= 0);
    return { stream, lists, kind: isReadBySync(stream) ? 'fresh' : 'sweep', inMs: Math.min(...all.map(inMs)) };
  });
}
