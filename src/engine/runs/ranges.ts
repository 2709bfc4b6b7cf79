/** The range that a run was asked for, and whether it re-reads synced ranges. */
import type pg from 'pg';
import type { Client } from '../database/pool.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from './claims.ts';
import { type NewRun, openRun, type Range, type RunKind, type RunState, wasBeside, withAccount } from './runs.ts';

/** States in which the same command resumes a backfill, also while it is deferred by the daily quota, */
const goesOn: readonly RunState[] = ['interrupted', 'failed'];
/** unless it ended longer ago than this. Then it starts anew. */
export const resumeMs = 7 * 24 * 3_600_000;

/**
 * Opens a backfill. If the same backfill is running, the command attaches to it. If it was interrupted, failed, or is
 * deferred, the command resumes it.
 */
export async function openBackfill(
  db: pg.Pool,
  run: Omit<NewRun, 'kind'> & { range: Range },
  now: Date,
): Promise<{ run: number; resumed: boolean }> {
  return withAccount(db, run.account, async client => {
    const { rows } = await client.query<{ id: number; state: RunState; deferred: boolean }>(
      `select id, state, exists (
         select from sync.stored_run_streams s where s.run_id = r.id and s.deferred_until is not null) as deferred
       from sync.stored_runs r
       where account_id = $1 and kind = 'backfill' and again = $2 and since is not distinct from $3 and until is not distinct from $4
         and (select array_agg(stream_key order by stream_key) from sync.stored_run_streams where run_id = r.id)
           = (select array_agg(w order by w) from unnest($5::text[]) w)
         and (state = 'running' or finished_at > $6)
       order by id desc limit 1`,
      [run.account, run.range.again, run.range.since, run.range.until, run.streams, new Date(now.getTime() - resumeMs)],
    );
    const [same] = rows;
    if (same?.state === 'running') return { run: same.id, resumed: true };
    if (same === undefined || !(goesOn.includes(same.state) || same.deferred))
      return { run: await openRun(client, { ...run, kind: 'backfill' }, now), resumed: false };
    await reopen(client, same.id, run.opener);
    return { run: same.id, resumed: true };
  });
}

export async function reopen(client: Client, run: number, opener: number): Promise<void> {
  await client.query(
    `update sync.stored_runs set state = 'running', finished_at = null, opened_by = $2 where id = $1`,
    [run, opener],
  );
  await client.query(
    `update sync.stored_run_streams set state = 'waiting', finished_at = null, error = null, remedy = null, exit_code = null,
       deferred_until = null
     where run_id = $1 and (state = any($2) or deferred_until is not null)`,
    [run, goesOn],
  );
}

/** Resumes backfills and verifications that the daily quota deferred. */
export async function wakeBackfills(client: Client, account: string, opener: number, now: Date): Promise<boolean> {
  const { rows } = await client.query<{ id: number }>(
    `select id from sync.stored_runs r
     where account_id = $1 and kind in ('backfill', 'verify') and state <> 'running' and finished_at > $3 and exists (
       select from sync.stored_run_streams s
       where s.run_id = r.id and s.deferred_until <= $2 and not sync.is_paused(s.account_id, s.stream_key))`,
    [account, now, new Date(now.getTime() - resumeMs)],
  );
  for (const { id } of rows) await reopen(client, id, opener);
  return rows.length > 0;
}

/** The range of messages that a run fetches: its own range, ended at its start at the latest. */
export async function rangeOf(
  db: pg.Pool,
  run: number,
): Promise<Scope & { startedMs: Ms; kind: RunKind; again: boolean }> {
  const { rows } = await db.query<{
    from_ms: Ms | null;
    to_ms: Ms | null;
    started_ms: Ms;
    kind: RunKind;
    again: boolean;
  }>(
    `select kind, again, extract(epoch from since)::float8 * 1000 as from_ms, extract(epoch from until)::float8 * 1000 as to_ms,
       extract(epoch from started_at)::float8 * 1000 as started_ms
     from sync.stored_runs where id = $1`,
    [run],
  );
  const { from_ms, to_ms, started_ms, kind, again } = rows[0]!;
  return { fromMs: from_ms ?? undefined, toMs: to_ms ?? undefined, startedMs: started_ms, kind, again };
}

/** A range that a concurrent backfill has re-read is not re-read for this one. */
export async function joinAgain(db: pg.Pool, { account, run, stream }: Claim): Promise<void> {
  await db.query(
    `update sync.stored_runs r set again_before = (
       select min(o.again_before) from sync.stored_runs o join sync.stored_run_streams s on s.run_id = o.id
       where o.account_id = $1 and o.again and s.stream_key = $3 and ${wasBeside('o', 'r')})
     where id = $2 and again_before is null`,
    [account, run, stream],
  );
}

/**
 * The time of the first stored reply of a run that re-reads: older readings are due. Its own readings are not, even if
 * their replies prove less: see notAgain in waiting.ts.
 */
export async function beginAgain(client: Client, claim: Claim, asOfMs: Ms): Promise<void> {
  await client.query('update sync.stored_runs set again_before = $2 where id = $1 and again_before is null', [
    claim.run,
    new Date(asOfMs),
  ]);
}

/** A range of update times: start inclusive, end exclusive. */
export interface Scope {
  readonly fromMs?: Ms | undefined;
  readonly toMs?: Ms | undefined;
}
