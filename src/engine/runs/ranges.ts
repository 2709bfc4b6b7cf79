/** The range that a run was asked for, and whether it re-reads synced ranges. */
import type pg from 'pg';
import type { Client } from '../database/pool.ts';
import { query, raw, sql } from '../database/sql.ts';
import { ofStream } from '../database/stream-key.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from './claims.ts';
import { type NewRun, openRun, type Range, type RunKind, type RunState, wasBeside, withAccount } from './runs.ts';

/** States in which the same command resumes a run, also while it is deferred by the daily quota, */
const goesOn: readonly RunState[] = ['interrupted', 'failed'];
/** unless it ended longer ago than this. Then it starts anew. */
export const resumeMs = 7 * 24 * 3_600_000;

/** The last run that was asked for the same. `deferred`: the daily quota was used up. */
interface Same {
  readonly id: number;
  readonly state: RunState;
  readonly deferred: boolean;
  readonly begun: Date;
}

interface Resuming {
  /** How long after its end a run is resumed. */
  readonly withinMs: number;
  /** SQL over `r`, a run of the same kind and streams: it was asked for the same. $5… are `values`. */
  readonly isSame: string;
  readonly values?: readonly unknown[];
  /** Whether a run that has ended is resumed. Default: if it was interrupted, failed or is deferred. */
  readonly mayResume?: (same: Same) => boolean;
}

/**
 * Attaches to a run of the same kind, the same streams and the same question that is running, resumes one that ended before its work, or
 * opens a new one. Call it under the lock of the account.
 */
export async function openOrResume(
  client: Client,
  run: NewRun,
  { withinMs, isSame, values = [], mayResume = ({ state, deferred }) => goesOn.includes(state) || deferred }: Resuming,
  now: Date,
): Promise<{ run: number; resumed: boolean; begun: Date }> {
  const { rows } = await client.query<Same>(
    `select r.id, r.state, r.started_at as begun, exists (
       select from sync.stored_run_streams s where s.run_id = r.id and s.deferred_until is not null) as deferred
     from sync.stored_runs r
     where r.account_id = $1 and r.kind = $2
       and (select array_agg(stream_key order by stream_key) from sync.stored_run_streams where run_id = r.id)
         = (select array_agg(w order by w) from unnest($3::text[]) w)
       and (r.state = 'running' or r.finished_at > $4) and ${isSame}
     order by r.id desc limit 1`,
    [run.account, run.kind, run.streams, new Date(now.getTime() - withinMs), ...values],
  );
  const [same] = rows;
  if (same === undefined || !(same.state === 'running' || mayResume(same)))
    return { run: await openRun(client, run, now), resumed: false, begun: now };
  if (same.state !== 'running') await reopen(client, same.id, run.opener);
  return { run: same.id, resumed: true, begun: same.begun };
}

export async function openBackfill(
  db: pg.Pool,
  run: Omit<NewRun, 'kind'> & { range: Range },
  now: Date,
): Promise<{ run: number; resumed: boolean }> {
  const { again, since, until } = run.range;
  const isSame = 'r.again = $5 and r.since is not distinct from $6 and r.until is not distinct from $7';
  const same = { withinMs: resumeMs, isSame, values: [again, since, until] };
  return withAccount(db, run.account, client => openOrResume(client, { ...run, kind: 'backfill' }, same, now));
}

async function reopen(client: Client, run: number, opener: number): Promise<void> {
  await client.query(sql`
    update sync.stored_runs set state = 'running', finished_at = null, opened_by = ${opener} where id = ${run}`);
  await client.query(sql`
    update sync.stored_run_streams set state = 'waiting', finished_at = null, error = null, remedy = null, exit_code = null,
      deferred_until = null
    where run_id = ${run} and (state = any(${goesOn}) or deferred_until is not null)`);
}

/** Resumes backfills and verifications that the daily quota deferred. */
export async function wakeBackfills(client: Client, account: string, opener: number, now: Date): Promise<boolean> {
  const { rows } = await client.query<{ id: number }>(sql`
    select id from sync.stored_runs r
    where account_id = ${account} and kind in ('backfill', 'verify') and state <> 'running'
      and finished_at > ${new Date(now.getTime() - resumeMs)} and exists (
      select from sync.stored_run_streams s
      where s.run_id = r.id and s.deferred_until <= ${now} and not sync.is_paused(s.account_id, s.stream_key))`);
  for (const { id } of rows) await reopen(client, id, opener);
  return rows.length > 0;
}

/** The range of messages that a run fetches: its own range, ended at its start at the latest. */
export async function rangeOf(
  db: pg.Pool,
  run: number,
): Promise<Scope & { startedMs: Ms; kind: RunKind; again: boolean }> {
  const { from_ms, to_ms, started_ms, kind, again } = await query(db).row<{
    from_ms: Ms | null;
    to_ms: Ms | null;
    started_ms: Ms;
    kind: RunKind;
    again: boolean;
  }>`
    select kind, again, extract(epoch from since)::float8 * 1000 as from_ms, extract(epoch from until)::float8 * 1000 as to_ms,
      extract(epoch from started_at)::float8 * 1000 as started_ms
    from sync.stored_runs where id = ${run}`;
  return { fromMs: from_ms ?? undefined, toMs: to_ms ?? undefined, startedMs: started_ms, kind, again };
}

/** A range that a concurrent backfill has re-read is not re-read for this one. */
export async function joinAgain(db: pg.Pool, { account, run, stream }: Claim): Promise<void> {
  await db.query(sql`
    update sync.stored_runs r set again_before = (
      select min(o.again_before) from sync.stored_runs o join sync.stored_run_streams s on s.run_id = o.id
      where o.account_id = ${account} and o.again and s.stream_key = ${stream} and ${raw(wasBeside('o', 'r'))})
    where id = ${run} and again_before is null`);
}

/**
 * The time of the first stored reply of a run that re-reads: older readings are due. Its own readings are not, even if
 * their replies prove less: see pending.ts.
 */
export async function beginAgain(client: Client, claim: Claim, asOfMs: Ms): Promise<void> {
  await client.query(sql`
    update sync.stored_runs set again_before = ${new Date(asOfMs)} where id = ${claim.run} and again_before is null`);
}

/**
 * For `backfill --again`: records of this list that were read before this time are read again. The time is fixed when
 * the run first reaches the list.
 */
export const againBefore = (db: pg.Pool, claim: Claim, list: string, asOfMs: Ms): Promise<Ms> =>
  query(db).value`
    insert into sync.run_lists as l (run_id, account_id, source, stream, list, until)
    values (${claim.run}, ${claim.account}, ${ofStream(claim.stream)}, ${list}, ${new Date(asOfMs)})
    on conflict (run_id, stream_key, list) do update set until = l.until
    returning extract(epoch from l.until)::float8 * 1000 as until_ms`;

/** A range of update times: start inclusive, end exclusive. */
export interface Scope {
  readonly fromMs?: Ms | undefined;
  readonly toMs?: Ms | undefined;
}
