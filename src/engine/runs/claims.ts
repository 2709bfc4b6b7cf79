/**
 * Claims: the right to commit to a stream of a run. Whoever takes the work up raises the token; commits carry it, and fail
 * under an old one. So a worker that was taken for dead, and wakes up, can move nothing.
 */
import type pg from 'pg';
import { FencedOff } from '../../errors.ts';
import { transaction } from '../database/pool.ts';
import { nameOfKey, type StreamKey } from '../database/stream-key.ts';
import { closeRun, isApart, lockAccount, outcome, type RunKind, readerClass } from './runs.ts';

export interface Claim {
  readonly account: string;
  /** Its key, as all work names it. */
  readonly stream: StreamKey;
  readonly run: number;
  readonly token: number;
  readonly kind: RunKind;
  /** A backfill reads also what is covered. */
  readonly again: boolean;
}

/** A stream of a run, as its job names it. */
export type Work = Pick<Claim, 'account' | 'run' | 'stream'>;

/** Who takes up work: a process of sync.workers, under a job of the queue. */
export interface Claimant {
  readonly worker: number;
  readonly job: string;
}

export type TakenUp =
  | { readonly taken: Claim }
  /** Another run, whose worker lives, reads the same. */
  | { readonly busy: number }
  /** The stream is over, in other hands, or paused. */
  | { readonly over: true };

/**
 * Raises the token, unless somebody else is at work. One reader at a time: of the top of a stream, of its holes, and one that
 * sweeps, audits or verifies it; and of what has neither top nor holes (what is asked for by id, shelves) one that reads it.
 * So nothing is paid for twice.
 *
 * A stream that is said to be running is taken from a worker that died, and under the same job from one that lives: the
 * queue delivers a job again only when its worker has stalled. Of itself a process knows that it lives, also while nobody
 * sees it: under another job it takes nothing from itself.
 */
export async function takeUp(db: pg.Pool, key: Work, by: Claimant, time: () => Date): Promise<TakenUp> {
  return transaction(db, async client => {
    await lockAccount(client, key.account);
    // Whoever had it may have ended while the lock was waited for: what comes after it begins later.
    const now = time();
    const { rows } = await client.query(
      `select s.state, r.kind, r.again,
         s.state = 'running' and s.job is distinct from $3 and (s.worker = $4 or sync.is_alive(s.worker)) as held,
         sync.is_paused(s.account_id, s.stream_key) as paused,
         (select o.run_id from sync.stored_run_streams o join sync.stored_runs p on p.id = o.run_id
          where o.account_id = s.account_id and o.stream_key = s.stream_key and o.run_id <> s.run_id and o.state = 'running'
            and (${readerClass('p.kind')} = ${readerClass('r.kind')}
              or k.one_reader and not ${isApart('p.kind')} and not ${isApart('r.kind')})
            and (o.worker = $4 or sync.is_alive(o.worker))
          order by 1 limit 1) as busy
       from sync.stored_run_streams s join sync.stored_runs r on r.id = s.run_id join sync.streams k using (stream_key)
       where s.run_id = $1 and s.stream_key = $2`,
      [key.run, key.stream, by.job, by.worker],
    );
    const found = rows[0];
    if (found === undefined || !['waiting', 'running'].includes(found.state) || found.held) return { over: true };
    if (found.paused || found.busy !== null) {
      // It may have been in the hands of one who died.
      await client.query(
        `update sync.stored_run_streams set state = 'waiting', worker = null, job = null, waits_for = $3
         where run_id = $1 and stream_key = $2`,
        [key.run, key.stream, found.paused ? null : found.busy],
      );
      return found.paused ? { over: true } : { busy: found.busy };
    }
    const { rows: raised } = await client.query<{ token: number }>(
      `update sync.stored_run_streams set token = token + 1, state = 'running', started_at = coalesce(started_at, $3),
         worker = $4, job = $5, waits_for = null
       where run_id = $1 and stream_key = $2
       returning token`,
      [key.run, key.stream, now, by.worker, by.job],
    );
    return { taken: { ...key, kind: found.kind, again: found.again, token: raised[0]!.token } };
  });
}

/** Puts the stream back: somebody else goes on with it. `credits` as for `finish`. False if it was no longer ours. */
export async function release(
  db: pg.Pool,
  claim: Pick<Claim, 'run' | 'stream' | 'token'>,
  credits: number,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update sync.stored_run_streams set state = 'waiting', worker = null, job = null, credits = credits + $4
     where run_id = $1 and stream_key = $2 and token = $3 and state = 'running'`,
    [claim.run, claim.stream, claim.token, credits],
  );
  return rowCount === 1;
}

/** Which of these claims, by their places, nobody may go on with: people have paused the stream, or it is in no hands of theirs. */
export async function stopped(
  db: pg.Pool,
  account: string,
  claims: readonly Pick<Claim, 'run' | 'stream' | 'token'>[],
): Promise<{ place: number; paused: boolean }[]> {
  const { rows } = await db.query<{ place: number; paused: boolean }>(
    `select (c.place - 1)::int as place, s.run_id is not null as paused
     from unnest($2::bigint[], $3::text[], $4::int[]) with ordinality c (run, key, token, place)
     left join sync.stored_run_streams s on (s.run_id, s.stream_key, s.token) = (c.run, c.key, c.token) and s.state = 'running'
     where s.run_id is null or sync.is_paused($1, c.key)`,
    [account, claims.map(({ run }) => run), claims.map(({ stream }) => stream), claims.map(({ token }) => token)],
  );
  return rows;
}

/** What this process is said to be at work on. */
export async function heldBy(
  db: pg.Pool,
  worker: number,
): Promise<{ run: number; stream: StreamKey; token: number; job: string }[]> {
  const { rows } = await db.query(
    `select run_id as run, stream_key as stream, token, job from sync.stored_run_streams where worker = $1 and state = 'running'`,
    [worker],
  );
  return rows;
}

/** Another run reads the stream, and this one need not read what is left of it. */
export async function finishUntaken(
  db: pg.Pool,
  key: Work,
  by: number,
  now: Date,
  end: { partly?: string | undefined },
): Promise<void> {
  const { state, error, remedy, exitCode } = outcome(end);
  await transaction(db, async client => {
    await client.query(
      `update sync.stored_run_streams set state = $5, token = token + 1, carried_from = $3, waits_for = null,
         started_at = coalesce(started_at, $4), finished_at = $4, error = $6, remedy = $7, exit_code = $8
       where run_id = $1 and stream_key = $2 and state = 'waiting'`,
      [key.run, key.stream, by, now, state, error, remedy, exitCode],
    );
    await closeRun(client, key.run, now);
  });
}

/** `credits`: those that no page accounts for: requests that failed for good, and probes. */
export async function finish(
  db: pg.Pool,
  claim: Claim,
  now: Date,
  end: { partly?: string | undefined; error?: unknown; credits: number },
): Promise<void> {
  const { state, error, remedy, exitCode, sleepsUntil = null } = outcome(end);
  await transaction(db, async client => {
    const { rowCount } = await client.query(
      `update sync.stored_run_streams set state = $4, finished_at = $5, error = $6, remedy = $7, exit_code = $8,
         credits = credits + $9, sleeps_until = $10
       where run_id = $1 and stream_key = $2 and token = $3 and state = 'running'`,
      [claim.run, claim.stream, claim.token, state, now, error, remedy, exitCode, end.credits, sleepsUntil],
    );
    if (rowCount === 0) throw new FencedOff(`stream ${nameOfKey(claim.stream)} of run ${claim.run}`);
    await closeRun(client, claim.run, now);
  });
}

/** A job that failed where its run has not been told: before it could take its stream up, or in saying so. */
export async function failUntaken(
  db: pg.Pool,
  job: { id?: string | undefined; data: Partial<Work> },
  now: Date,
  why: unknown,
): Promise<void> {
  const { run, stream } = job.data;
  if (typeof run !== 'number' || typeof stream !== 'string') return;
  const { state, error, remedy, exitCode } = outcome({ error: why });
  await transaction(db, async client => {
    await client.query(
      `update sync.stored_run_streams set state = $4, token = token + 1, finished_at = $5, error = $6, remedy = $7, exit_code = $8
       where run_id = $1 and stream_key = sync.key_of($2) and (state = 'waiting' or (state = 'running' and job = $3))`,
      [run, stream, job.id, state, now, error, remedy, exitCode],
    );
    await closeRun(client, run, now);
  });
}
