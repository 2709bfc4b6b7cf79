/**
 * Runs: what people started, stream by stream. Whoever takes the work on a stream up raises its token; commits carry the
 * token and fail under an old one. A run holds its account by a lock of a database session, which ends with the process:
 * so two syncs never pay twice for the same page, and a run that is "running" while nobody holds its account has died.
 */
import pg from 'pg';
import { exitCodes, FencedOff, Interrupted, ShelfdeskError } from '../errors.ts';
import { type Client, transaction } from './pool.ts';

/** The right to commit to a stream of a run. */
export interface Claim {
  readonly account: string;
  readonly stream: string;
  readonly run: number;
  readonly token: number;
}

export type RunState = 'waiting' | 'running' | 'completed' | 'partly' | 'failed' | 'interrupted';

export interface Counts {
  seen: number;
  inserted: number;
  updated: number;
  unchanged: number;
  deleted: number;
  rejected: number;
  cleaned: number;
  credits: number;
}

export interface StreamProgress extends Counts {
  account_id: string;
  stream: string;
  state: RunState;
  expected: number | null;
  /** The interrupted run that had completed it moments before. */
  carried_from: number | null;
  error: string | null;
  remedy: string | null;
  exit_code: number | null;
}

/**
 * A new run. If the last one was interrupted or died, this one goes on with it: a stream that it completed no longer ago
 * than `carryMs` is taken over as it is, so that an interruption costs no request that was answered.
 */
export async function openRun(
  db: pg.Pool,
  account: string,
  streams: readonly string[],
  now: Date,
  carryMs: number,
): Promise<number> {
  return transaction(db, async client => {
    const { rows } = await client.query<{ id: number; before: number | null }>(
      `insert into sync.runs (account_id, kind, started_at) values ($1, 'sync', $2)
       returning id, (select l.id from sync.runs l where l.account_id = $1 order by l.id desc limit 1) as before`,
      [account, now],
    );
    const { id: run, before } = rows[0]!;
    await client.query(
      `insert into sync.run_streams (run_id, account_id, stream, state, carried_from, started_at, finished_at, exit_code)
       select $1, $2, w.stream, case when d.run_id is null then 'waiting' else 'completed' end,
         coalesce(d.carried_from, d.run_id), d.started_at, d.finished_at, d.exit_code
       from unnest($3::text[]) w (stream)
       left join lateral (
         select s.* from sync.run_streams s join sync.runs r on r.id = s.run_id
         where s.run_id = $4 and s.stream = w.stream and s.state = 'completed' and s.finished_at > $5
           and r.state = 'interrupted') d on true`,
      [run, account, streams, before, new Date(now.getTime() - carryMs)],
    );
    return run;
  });
}

/** 'SHST': locks of Shelfdesk in this database. */
const lockClass = 0x53_48_53_54;
const lockSql = (fn: string) => `select ${fn}(${lockClass}, hashtext($1)) as locked`;

/** Held by the run that is at work on the account. */
export const accountLock = (account: string) => `account/${account}`;

/** A lock of this process, which ends with it; undefined while another process holds it. */
export async function hold(db: pg.Pool, lock: string): Promise<AsyncDisposable | undefined> {
  const client = await db.connect();
  let lost: Error | undefined;
  const onError = (error: Error) => {
    lost = error;
  };
  client.on('error', onError);
  const release = () => {
    client.off('error', onError);
    client.release(lost);
  };
  try {
    const { rows } = await client.query(lockSql('pg_try_advisory_lock'), [lock]);
    if (rows[0].locked) {
      return {
        async [Symbol.asyncDispose]() {
          if (!lost) await client.query(lockSql('pg_advisory_unlock'), [lock]).catch(onError);
          release();
        },
      };
    }
  } catch (error) {
    lost = error as Error;
    release();
    throw error;
  }
  release();
  return undefined;
}

/** Runs that are said to be running while nobody holds their account. */
export async function deadRuns(db: pg.Pool): Promise<number[]> {
  const { rows } = await db.query<{ account_id: string; runs: number[] }>(
    `select account_id, array_agg(id::int) as runs from sync.runs where state = 'running' group by account_id`,
  );
  const dead: number[] = [];
  for (const { account_id, runs } of rows) {
    await using lock = await hold(db, accountLock(account_id));
    if (lock) dead.push(...runs);
  }
  return dead;
}

/** Writes down that the runs of this account died, for who holds it now. Their token is raised: were one of them only asleep, it can write no more. */
export async function buryRuns(db: pg.Pool, account: string, now: Date): Promise<void> {
  await transaction(db, async client => {
    await client.query(
      `update sync.run_streams set state = 'interrupted', token = token + 1, finished_at = $2,
         error = 'the process died', remedy = 'Nothing to do: the next run goes on where it stopped.',
         exit_code = ${exitCodes.failed}
       where account_id = $1 and state in ('waiting', 'running')`,
      [account, now],
    );
    await client.query(
      `update sync.runs set state = 'interrupted', finished_at = $2 where account_id = $1 and state = 'running'`,
      [account, now],
    );
  });
}

/**
 * Raises the token. Undefined if the stream of this run is over already: a job that
 * was delivered twice, or whose run died.
 */
export async function takeUp(db: pg.Pool, key: Omit<Claim, 'token'>, now: Date): Promise<Claim | undefined> {
  const { rows } = await db.query<{ token: number }>(
    `update sync.run_streams set token = token + 1, state = 'running', started_at = coalesce(started_at, $3)
     where run_id = $1 and stream = $2 and state in ('waiting', 'running')
     returning token`,
    [key.run, key.stream, now],
  );
  return rows[0] && { ...key, token: rows[0].token };
}

/** Credits that no page accounts for: requests that failed for good, and probes. */
export async function finish(
  db: pg.Pool,
  claim: Claim,
  now: Date,
  end: { partly?: string | undefined; error?: unknown; credits: number },
): Promise<void> {
  const { state, error, remedy, exitCode } = outcome(end);
  await transaction(db, async client => {
    const { rowCount } = await client.query(
      `update sync.run_streams set state = $4, finished_at = $5, error = $6, remedy = $7, exit_code = $8,
         credits = credits + $9
       where run_id = $1 and stream = $2 and token = $3 and state = 'running'`,
      [claim.run, claim.stream, claim.token, state, now, error, remedy, exitCode, end.credits],
    );
    if (rowCount === 0) throw new FencedOff(`stream ${claim.stream} of run ${claim.run}`);
    await closeRun(client, claim.run, now);
  });
}

function outcome({ partly, error }: { partly?: string | undefined; error?: unknown }) {
  if (error instanceof Interrupted) {
    return { state: 'interrupted', error: null, remedy: error.remedy, exitCode: error.exitCode };
  }
  if (error instanceof ShelfdeskError) {
    return { state: 'failed', error: error.message, remedy: error.remedy, exitCode: error.exitCode };
  }
  if (error !== undefined) {
    const what = error instanceof Error ? error.message : String(error);
    const remedy =
      error instanceof pg.DatabaseError || what.includes('Connection terminated')
        ? 'Look at the database; then run the same command again: it goes on where this one stopped.'
        : 'This is a bug in Shelfdesk: please report it with the log. Running again is safe.';
    return { state: 'failed', error: what, remedy, exitCode: exitCodes.failed };
  }
  if (partly !== undefined) {
    const remedy = 'See sync.rejects and sync.holes; what can be asked for again is asked for again by later runs.';
    return { state: 'partly', error: partly, remedy, exitCode: exitCodes.partly };
  }
  return { state: 'completed', error: null, remedy: null, exitCode: exitCodes.ok };
}

/** What is left of a run when whoever started it leaves: streams that nobody will take up any more. */
export async function endRun(db: pg.Pool, run: number, now: Date, error: unknown): Promise<void> {
  const end = outcome({ error });
  await transaction(db, async client => {
    await client.query(
      `update sync.run_streams set state = $2, token = token + 1, finished_at = $3, error = $4, remedy = $5, exit_code = $6
       where run_id = $1 and state in ('waiting', 'running')`,
      [run, end.state, now, end.error, end.remedy, end.exitCode],
    );
    await closeRun(client, run, now);
  });
}

/**
 * A run ends with its last stream, or at once when the source refuses us or somebody interrupts: then the streams that
 * still wait are not begun.
 */
async function closeRun(client: Client, run: number, now: Date): Promise<void> {
  await client.query(
    `with last as (
       select exit_code, state, error, remedy from sync.run_streams
       where run_id = $1 and exit_code in (${exitCodes.refused}, ${exitCodes.interrupted})
       order by finished_at limit 1)
     update sync.run_streams s
     set state = last.state, finished_at = $2, error = last.error, remedy = last.remedy, exit_code = last.exit_code
     from last where s.run_id = $1 and s.state = 'waiting'`,
    [run, now],
  );
  await client.query(
    `update sync.runs r set finished_at = $2,
       state = (select case
           when bool_or(s.state = 'failed') then 'failed' when bool_or(s.state = 'interrupted') then 'interrupted'
           when bool_or(s.state = 'partly') then 'partly' else 'completed' end
         from sync.run_streams s where s.run_id = $1)
     where r.id = $1 and not exists (
       select from sync.run_streams s where s.run_id = $1 and s.state in ('waiting', 'running'))`,
    [run, now],
  );
}

export async function readProgress(db: pg.Pool, run: number): Promise<{ state: RunState; streams: StreamProgress[] }> {
  const { rows } = await db.query<StreamProgress & { run_state: RunState }>(
    `select r.state as run_state, s.account_id, s.stream, s.state, s.expected, s.seen, s.inserted, s.updated, s.unchanged, s.deleted,
       s.rejected, s.cleaned, s.credits, s.carried_from, s.error, s.remedy, s.exit_code
     from sync.runs r join sync.run_streams s on s.run_id = r.id
     where r.id = $1`,
    [run],
  );
  return { state: rows[0]!.run_state, streams: rows.map(({ run_state: _, ...stream }) => stream) };
}
