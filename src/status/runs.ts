/** Runs as people look them up. */
import type pg from 'pg';
import { query, raw, sql } from '../engine/database/sql.ts';
import type { Counts, RunKind, StreamProgress } from '../engine/runs/runs.ts';
import { byGravity } from '../errors.ts';

export interface RunStream extends Omit<StreamProgress, 'account_id'> {
  paused: boolean;
  token: number;
  /** The process and the job that read it, or read it last; null while it waits for the next. */
  worker: number | null;
  job: string | null;
  started_at: Date | null;
  finished_at: Date | null;
  deferred_until: Date | null;
}

/** Its counts are those of its streams. */
export interface Run extends Counts {
  account: string;
  run: number;
  kind: RunKind;
  /** The state in sync.runs. */
  state: string;
  /** Only a pause keeps the run from continuing. */
  paused: boolean;
  started_at: Date;
  finished_at: Date | null;
  /** How long the run took. While it is open: how long it has taken so far. */
  seconds: number;
  streams: RunStream[];
  forecast: { readonly credits?: number } | null;
  /** The run that this one retries. */
  retries: number | null;
  /** The most severe error of its streams. */
  error: string | null;
  remedy: string | null;
  since: Date | null;
  until: Date | null;
  again: boolean;
  /** The process that opened it. */
  opened_by: number | null;
}

export const runState = ({ state, paused }: Pick<Run, 'state' | 'paused'>): string => (paused ? 'paused' : state);

/** The forecast of the run; null if none was made. */
export const forecastCredits = ({ forecast }: Pick<Run, 'forecast'>): number | null => forecast?.credits ?? null;

export interface RunsAsked {
  /** Null: runs of all accounts. */
  readonly account: string | null;
  readonly run?: number | undefined;
  readonly kind?: string | undefined;
  /** A state of `runState`. */
  readonly state?: string | undefined;
  readonly open?: boolean;
  readonly endedAfter?: Date;
  /** Runs that are known already. */
  readonly except?: readonly number[];
  readonly limit?: number | undefined;
}

const counts = ['seen', 'inserted', 'updated', 'unchanged', 'deleted', 'rejected', 'cleaned', 'credits'];
const told = [
  'expected',
  ...counts,
  'carried_from',
  'waits_for',
  'error',
  'remedy',
  'exit_code',
  'token',
  'worker',
  'job',
];
const times = ['started_at', 'finished_at', 'deferred_until'] as const;

/** The newest first. */
export async function readRuns(db: Pick<pg.ClientBase, 'query'>, asked: RunsAsked, now: Date): Promise<Run[]> {
  const { account, run, kind, state, open = false, endedAfter, except = [], limit } = asked;
  const shownState = raw(`case when r.finished_at is null and t.paused then 'paused' else r.state end`);
  const rows = await query(db).rows<Run>`
    select r.account_id as account, r.id as run, r.kind, r.state, r.finished_at is null and t.paused as paused, r.started_at, r.finished_at,
      extract(epoch from coalesce(r.finished_at, ${now}) - r.started_at)::float8 as seconds, t.streams,
      ${raw(counts.map(name => `t.${name}`).join(', '))}, o.forecast, o.retries, e.error, e.remedy, r.since, r.until, r.again, r.opened_by
    from sync.stored_runs o join sync.runs r using (id)
    cross join lateral (
      select ${raw(counts.map(name => `coalesce(sum(s.${name}), 0)::int8 as ${name}`).join(', '))},
        coalesce(bool_and(sync.is_paused(s.account_id, s.stream_key)) filter (where s.finished_at is null), false) as paused,
        coalesce(json_agg(json_build_object('stream', sync.name_of(stream_key), 'state', s.state,
          'paused', s.finished_at is null and sync.is_paused(s.account_id, s.stream_key), 'note', n.note,
          ${raw([...told, ...times].map(name => `'${name}', s.${name}`).join(', '))}) order by k.place), '[]') as streams
      from sync.run_streams s join sync.stored_run_streams n using (run_id, stream_key) join sync.streams k using (stream_key)
      where s.run_id = o.id) t
    left join lateral (
      select s.error, s.remedy from sync.stored_run_streams s
      where s.run_id = o.id and s.error is not null
      order by array_position(${byGravity}::int[], s.exit_code), s.finished_at limit 1) e on true
    where (${account}::text is null or o.account_id = ${account}) and (${run}::bigint is null or o.id = ${run})
      and (${kind}::text is null or o.kind = ${kind}) and (${state}::text is null or ${state} = ${shownState})
      and (not ${open} or o.finished_at is null) and (${endedAfter}::timestamptz is null or o.finished_at > ${endedAfter})
      and o.id <> all (${except})
    order by o.id desc limit ${limit}`;
  const date = (time: unknown) => (time === null ? null : new Date(time as string));
  for (const one of rows.flatMap(({ streams }) => streams)) for (const name of times) one[name] = date(one[name]);
  return rows;
}

/** The origin of a run, and the operations of people on it. */
export interface RunOrigin {
  /** The slot of the schedule that opened it; null: a command, the page, or the reconciler. */
  schedule: string | null;
  slot: Date | null;
  /** Host of the process that opened the run: known while the process lives, and for a short time after. */
  host: string | null;
  pid: number | null;
  /** Runs that retry this one. */
  retried_by: number[];
  operations: { at: string; who: string; action: string; subject: string; outcome: string }[];
}

/** Undefined if the account has no such run. */
export async function readRun(
  db: pg.Pool,
  account: string,
  run: number,
  now: Date,
): Promise<(Run & RunOrigin) | undefined> {
  const [found] = await readRuns(db, { account, run }, now);
  if (found === undefined) return undefined;
  const { rows } = await db.query<RunOrigin>(sql`
    select p.schedule, p.slot, w.host, w.pid,
      array(select n.id from sync.stored_runs n where n.account_id = ${account} and n.retries = ${run} order by 1) as retried_by,
      coalesce((
        select json_agg(json_build_object('at', d.at, 'who', d.who, 'action', d.action, 'subject', d.subject,
          'outcome', d.outcome) order by d.id)
        from sync.operations d
        where d.account_id = ${account} and (d.action in ('cancel', 'retry') and d.subject = ${run}::bigint::text
          or d.outcome = 'done: run ' || ${run}::bigint::text)), '[]') as operations
    from (select) o left join sync.workers w on w.id = ${found.opened_by}
    left join sync.schedule_slots p on p.account_id = ${account} and p.run_id = ${run}`);
  return { ...found, ...rows[0]! };
}
