/** Queries for forecasts: facts in the warehouse about future work, and stored forecasts. */
import type pg from 'pg';
import { query, sql } from '../database/sql.ts';
import type { Range as Part } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import type { Range, RunKind } from '../runs/runs.ts';

export type Key = Pick<Claim, 'account' | 'stream'>;

export interface ForecastTotals {
  readonly requests: number;
  readonly credits: number;
  readonly seconds: number;
  readonly streams: Readonly<Record<string, { requests: number; credits: number; seconds: number }>>;
  /** Credits that the forecast itself used, for counting. */
  readonly counted_with_credits: number;
  readonly assumptions: readonly string[];
}

/**
 * The parameters of a forecast without the kind of run. Keys and streams are in a fixed order, so that equal questions
 * are equal JSON.
 */
export type AskedFor = Readonly<Record<string, unknown>>;

/** An answer of `plan` counts this long for a run of the same question. */
const planMs = 3_600_000;

export async function keepPlan(
  db: pg.Pool,
  account: string,
  { kind, question, forecast }: { kind: RunKind; question: AskedFor; forecast: ForecastTotals },
  now: Date,
): Promise<void> {
  await db.query(sql`
    insert into sync.plans (account_id, kind, question, made_at, forecast) values (${account}, ${kind}, ${question}, ${now}, ${forecast})
    on conflict (account_id, kind, question) do update set made_at = excluded.made_at, forecast = excluded.forecast`);
}

export const freshPlan = (
  db: pg.Pool,
  account: string,
  { kind, question }: { kind: RunKind; question: AskedFor },
  now: Date,
): Promise<ForecastTotals | undefined> =>
  query(db).value<ForecastTotals>`
    delete from sync.plans where account_id = ${account} and kind = ${kind} and question = ${question}
      and made_at > ${new Date(now.getTime() - planMs)} returning forecast`;

/** A resumed run keeps its first forecast. */
export async function keepForecast(db: pg.Pool, run: number, forecast: ForecastTotals): Promise<void> {
  await db.query(sql`update sync.stored_runs set forecast = ${forecast} where id = ${run} and forecast is null`);
}

export async function forecastOf(db: pg.Pool, run: number): Promise<ForecastTotals | undefined> {
  const found = await query(db).value<ForecastTotals | null>`
    select forecast from sync.stored_runs where id = ${run}`;
  return found ?? undefined;
}

// --- time and credits of the source
// -------------------------------------------------------------------------------------

/**
 * The average duration of recent requests, and of the time from a reply to the next request; undefined without
 * requests.
 */
export async function paceOf(
  db: pg.Pool,
  { account, source }: { account: string; source: string },
  since: Date,
): Promise<{ latencyMs: number | undefined; storeMs: number | undefined }> {
  const { rows } = await db.query<{ took: number | null; between: number | null }>(sql`
    select sum(took_ms)::float8 / nullif(sum(requests), 0) as took, sum(between_ms)::float8 / nullif(sum(followed), 0) as between
    from (
      select took_ms, requests, followed, between_ms from sync.credit_minutes
      where account_id = ${account} and source = ${source} and minute >= ${since} and requests > 0 order by minute desc limit 60) recently`);
  return { latencyMs: rows[0]!.took ?? undefined, storeMs: rows[0]!.between ?? undefined };
}

/** The ledger, and the clock that it uses. */
export const budgetOf = (
  db: pg.Pool,
  { account, source }: { account: string; source: string },
): Promise<object | undefined> =>
  query(db).value<object>`
    select state from sync.budget where account_id = ${account} and source = ${source}`;

/** The average time from the end of a stream to the beginning of the next one of its run, recently. */
export async function betweenStreamsMs(db: pg.Pool, account: string, since: Date): Promise<number | undefined> {
  const found = await query(db).value<number | null>`
    select extract(epoch from avg(gap))::float8 * 1000 as ms from (
      select s.started_at - lag(s.finished_at) over (partition by s.run_id, k.source order by k.place) as gap
      from sync.stored_run_streams s join sync.streams k using (stream_key)
      where s.account_id = ${account} and s.started_at >= ${since} and s.carried_from is null
      order by s.started_at desc limit 60) gaps
    where gap between interval '0' and interval '2 s'`;
  return found ?? undefined;
}

/**
 * The time that streams of recent commands took beyond their requests, from streams with only a few requests. The first
 * stream of a process takes longer, so the median would mislead.
 */
export async function beginningMs(
  db: pg.Pool,
  account: string,
  { since, perCreditMs }: { since: Date; perCreditMs: number },
): Promise<number> {
  const { rows } = await db.query<{ ms: number | null }>(sql`
    select percentile_cont(0.25) within group (
        order by extract(epoch from s.finished_at - s.started_at)::float8 * 1000 - s.credits * ${perCreditMs}::float8) as ms
    from sync.stored_run_streams s join sync.stored_runs r on r.id = s.run_id
    where s.account_id = ${account} and s.started_at >= ${since} and s.state = 'completed' and s.carried_from is null and s.credits <= 5
      and s.finished_at - s.started_at < interval '5 s' and r.kind in ('sync', 'backfill', 'sweep', 'verify')`);
  return Math.max(0, Math.round(rows[0]!.ms ?? 0));
}

/** Open runs on the same account: they use credits too. */
export const runsAtWork = (db: pg.Pool, account: string): Promise<number[]> =>
  query(db).values`
    select id from sync.runs where account_id = ${account} and state = 'running' order by id`;

// --- stored rows
// --------------------------------------------------------------------------------------------------------

/** The gaps that a backfill of this range would find in a list, the newest first. */
export const gapsIn = (
  db: pg.Pool,
  { account, stream }: Key,
  list: string,
  { since, until, again }: Range,
  { fromTheBeginning, now }: { fromTheBeginning: boolean; now: Date },
): Promise<Part[]> =>
  query(db).rows`
    with asked as (
      select case when ${again} then '{}' else c.covered end as covered,
        coalesce(${until}, case when not ${again} then upper(c.covered) end, ${now}) as until,
        coalesce(${since}, case when ${fromTheBeginning} then '1970-01-01T00:00:00Z' else coalesce(c.since, a.since) end) as since
      from sync.coverage c join sync.accounts a using (account_id)
      where (c.account_id, c.stream_key, c.list) = (${account}, ${stream}, ${list}) and not c.redundant)
    select extract(epoch from lower(gap))::float8 * 1000 as "from", extract(epoch from upper(gap))::float8 * 1000 as "to"
    from asked, unnest(case when since < until then tstzmultirange(tstzrange(since, until)) else '{}' end - covered) gap
    order by gap desc`;
