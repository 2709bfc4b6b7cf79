/** Runs as people look them up: one line each, or all details of one. */
import type pg from 'pg';
import type { RunKind, StreamProgress } from './runs.ts';

export interface ListedRun {
  run: number;
  kind: RunKind;
  /** As in sync.runs; `paused` if only a pause keeps the run from continuing. */
  state: string;
  started_at: Date;
  finished_at: Date | null;
  /** Until now, while the run is open. */
  seconds: number;
  streams: string[];
  seen: number;
  inserted: number;
  updated: number;
  deleted: number;
  rejected: number;
  credits: number;
  /** The forecast of the run; null if none was made. */
  forecast_credits: number | null;
  /** The run that this one retries. */
  retries: number | null;
  error: string | null;
  remedy: string | null;
}

export interface RunFilter {
  readonly kind?: string | undefined;
  readonly state?: string | undefined;
  readonly limit: number;
}

const stateOf = `case when r.state in ('running', 'interrupted') and r.finished_at is null and t.all_paused then 'paused' else r.state end`;

/** $1: the account, $2: now. The most severe error of the streams is the error of the run. */
const listed = `
  select r.id as run, r.kind, ${stateOf} as state, r.started_at, r.finished_at,
    extract(epoch from coalesce(r.finished_at, $2) - r.started_at)::float8 as seconds,
    t.streams, t.seen, t.inserted, t.updated, t.deleted, t.rejected, t.credits,
    (o.forecast ->> 'credits')::float8 as forecast_credits, o.retries, e.error, e.remedy
  from sync.runs r join sync.stored_runs o on o.id = r.id
  cross join lateral (
    select coalesce(array_agg(s.stream order by k.place), '{}') as streams,
      coalesce(sum(s.seen), 0)::int8 as seen, coalesce(sum(s.inserted), 0)::int8 as inserted,
      coalesce(sum(s.updated), 0)::int8 as updated, coalesce(sum(s.deleted), 0)::int8 as deleted,
      coalesce(sum(s.rejected), 0)::int8 as rejected, coalesce(sum(s.credits), 0)::int8 as credits,
      bool_and(sync.is_paused(s.account_id, s.stream_key)) filter (where s.finished_at is null) as all_paused
    from sync.run_streams s join sync.streams k using (stream_key) where s.run_id = r.id) t
  left join lateral (
    select s.error, s.remedy from sync.run_streams s
    where s.run_id = r.id and s.error is not null
    order by array_position(array[4, 1, 2, 130, 3], s.exit_code), s.finished_at limit 1) e on true
  where r.account_id = $1`;

/** Open runs of these accounts that began before this time, oldest first; not those that only a pause keeps open. */
export async function workingRuns(
  db: pg.Pool,
  accounts: readonly string[],
  before: Date,
): Promise<{ run: number; account: string }[]> {
  const { rows } = await db.query<{ run: number; account: string }>(
    `select r.id as run, r.account_id as account from sync.runs r
     where r.account_id = any ($1) and r.state = 'running' and r.started_at < $2 and exists (
       select from sync.run_streams s where s.run_id = r.id and s.state = 'running')
     order by r.id`,
    [accounts, before],
  );
  return rows;
}

/** The newest first. */
export async function listRuns(db: pg.Pool, account: string, filter: RunFilter, now: Date): Promise<ListedRun[]> {
  const { rows } = await db.query<ListedRun>(
    `select * from (${listed} and ($3::text is null or r.kind = $3)) found
     where $4::text is null or state = $4 order by run desc limit $5`,
    [account, now, filter.kind ?? null, filter.state ?? null, filter.limit],
  );
  return rows;
}

export interface ShownStream extends Omit<StreamProgress, 'account_id'> {
  paused: boolean;
  token: number;
  /** The process and the job that read it, or read it last; null while it waits for the next. */
  worker: number | null;
  job: string | null;
  started_at: Date | null;
  finished_at: Date | null;
  sleeps_until: Date | null;
}

export interface ShownRun extends Omit<ListedRun, 'streams'> {
  since: Date | null;
  until: Date | null;
  again: boolean;
  forecast: object | null;
  /** The slot of the schedule that opened it; null: a command, the page, or the reconciler. */
  schedule: string | null;
  slot: Date | null;
  /** The process that opened it. Host and pid are known while it lives, and for a short time after. */
  opened_by: number | null;
  host: string | null;
  pid: number | null;
  /** Runs that retry this one. */
  retried_by: number[];
  streams: ShownStream[];
  /** Manual operations on the run. */
  operations: { at: string; who: string; action: string; subject: string; outcome: string }[];
}

/** Undefined if the account has no such run. */
export async function readRun(db: pg.Pool, account: string, run: number, now: Date): Promise<ShownRun | undefined> {
  const { rows } = await db.query<ShownRun>(
    `select l.*, o.since, o.until, o.again, o.forecast, p.schedule, p.slot, o.opened_by, w.host, w.pid,
       array(select n.id from sync.stored_runs n where n.account_id = $1 and n.retries = $3 order by 1) as retried_by,
       coalesce((
         select json_agg(json_build_object('at', d.at, 'who', d.who, 'action', d.action, 'subject', d.subject,
           'outcome', d.outcome) order by d.id)
         from sync.operations d
         where d.account_id = $1 and (d.action in ('cancel', 'retry') and d.subject = $3::bigint::text
           or d.outcome = 'done: run ' || $3::bigint::text)), '[]') as operations
     from (${listed} and r.id = $3) l join sync.stored_runs o on o.id = l.run
     left join sync.workers w on w.id = o.opened_by
     left join sync.schedule_slots p on p.account_id = $1 and p.run_id = o.id`,
    [account, now, run],
  );
  const [found] = rows;
  if (found === undefined) return undefined;
  const { rows: streams } = await db.query<ShownStream>(
    `select s.stream, s.state, sync.is_paused(s.account_id, s.stream_key) and s.finished_at is null as paused, s.expected, s.seen,
       s.inserted, s.updated, s.unchanged, s.deleted, s.rejected, s.cleaned, s.credits, s.carried_from, s.waits_for, o.note,
       s.error, s.remedy, s.exit_code, s.token, s.worker, s.job, s.started_at, s.finished_at, s.sleeps_until
     from sync.run_streams s join sync.stored_run_streams o using (run_id, stream_key) join sync.streams k using (stream_key)
     where s.run_id = $1 order by k.place`,
    [run],
  );
  return { ...found, streams };
}
