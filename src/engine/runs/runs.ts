/** Runs: work that a command or the schedule started, stream by stream. claims.ts says which worker may do it. */
import pg from 'pg';
import { exitCodes, Fatal, Interrupted, messageOf, outageIn, ShelfdeskError, Spent } from '../../errors.ts';
import { upperFirst } from '../../words.ts';
import { byKey, type Client, durably, type Queryable, transaction, withPlansByKey } from '../database/pool.ts';
import { query, raw, sql } from '../database/sql.ts';
import { type StreamKey, sourceAndStream } from '../database/stream-key.ts';
import { cleanText } from '../json-text.ts';
import { noteHandOffs } from './hand-offs.ts';

/**
 * sync, backfill, verify: commands. fresh and nightly: the schedule. sweep: a command, a worker by day, or the nightly schedule.
 * hydrate: tickets wait for their messages, and no other run would fetch them. audit: no other work needs the credits.
 */
export type RunKind = 'sync' | 'fresh' | 'nightly' | 'hydrate' | 'backfill' | Apart;

/** These runs re-read synced ranges, concurrently with any other run. */
const apart = ['sweep', 'audit', 'verify'] as const;
type Apart = (typeof apart)[number];

/** SQL: runs of one class wait for each other. Runs of different classes do not. */
export const readerClass = (kind: string) =>
  `case when ${kind} in (${[...apart, 'backfill'].map(name => `'${name}'`).join(', ')}) then ${kind} else 'top' end`;
export const isApart = (kind: string) => `${kind} in (${apart.map(name => `'${name}'`).join(', ')})`;

export type RunState = 'waiting' | 'running' | 'completed' | 'partial' | 'failed' | 'interrupted';

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

/** Most are rejected: more than five records, and more than half of what was read. */
export const isMostlyRejected = ({ seen, rejected }: Pick<Counts, 'seen' | 'rejected'>): boolean =>
  rejected >= 5 && 2 * rejected > seen;

export interface StreamProgress extends Counts {
  account_id: string;
  stream: string;
  state: RunState;
  expected: number | null;
  /** The run that had already read the stream. */
  carried_from: number | null;
  /** The run on the same stream that this one waits for. */
  waits_for: number | null;
  /** Why the stream makes no progress now. */
  note: string | null;
  error: string | null;
  remedy: string | null;
  exit_code: number | null;
}

/** The range of a backfill; null for a bound that was not given. */
export interface Range {
  readonly since: Date | null;
  readonly until: Date | null;
  readonly again: boolean;
}

export interface NewRun {
  readonly account: string;
  readonly kind: RunKind;
  readonly streams: readonly StreamKey[];
  /** The process of sync.workers that opens it. */
  readonly opener: number;
  readonly range?: Range;
}

/** Opens a run with waiting streams. Call it under the lock of the account. */
export async function openRun(
  client: Client,
  { account, kind, streams, opener, range }: NewRun,
  now: Date,
): Promise<number> {
  const { since = null, until = null, again = false } = range ?? {};
  return byKey(client, 'open run').value`
    with opened as (
      insert into sync.stored_runs (account_id, kind, started_at, opened_by, since, until, again, beside)
      values (${account}, ${kind}, ${now}, ${opener}, ${since}, ${until}, ${again}, case when ${again} then array(
        select o.id from sync.stored_runs o where o.account_id = ${account} and o.finished_at is null order by o.id) else '{}' end)
      returning id, account_id),
    streams as (
      insert into sync.stored_run_streams (run_id, account_id, source, stream)
      select o.id, o.account_id, ${raw(sourceAndStream('w.key'))} from opened o, unnest(${streams}::text[]) w (key))
    select id from opened`;
}

/**
 * SQL: run `r` need not read what run `o` has re-read, because `o` was open when `r` was opened, or was opened later.
 * Compares run numbers, because the clocks of processes differ. A retry also keeps what the retried run has read.
 */
export const wasBeside = (o: string, r: string): string =>
  `(${o}.id > ${r}.id and ${o}.retries is null or ${o}.id = any(${r}.beside))`;

/** Opening and claiming runs takes this lock, one process after the other. */
const lockSql = (account: string) =>
  `select from sync.accounts where account_id = ${pg.escapeLiteral(account)} for update`;

/**
 * A transaction under the lock. It takes the lock with the statement that begins it. It is durable: a number of a run or
 * a token that a power cut took back would be given to another worker.
 */
export const withAccount = <T>(
  db: pg.Pool,
  account: string,
  work: (client: Client) => Promise<T>,
  begin = durably,
): Promise<T> => transaction(db, work, `${begin}; ${lockSql(account)}`);

/** The same for statements that are all by key. */
export const withAccountByKey = <T>(db: pg.Pool, account: string, work: (client: Client) => Promise<T>): Promise<T> =>
  withAccount(db, account, work, `${durably}; ${withPlansByKey}`);

/**
 * Opens a sync. It resumes an interrupted one: streams that this one completed no longer than `carryMs` ago are carried
 * over, so an interruption repeats no answered request. Their coverage, in the time of the source, must agree: our
 * clock may have been set since.
 */
export async function openSync(db: pg.Pool, run: Omit<NewRun, 'kind'>, now: Date, carryMs: number): Promise<number> {
  return withAccount(db, run.account, async client => {
    const { rows } = await client.query<{ id: number; state: RunState }>(sql`
      select id, state from sync.stored_runs where account_id = ${run.account} and kind = 'sync' order by id desc limit 1`);
    const id = await openRun(client, { ...run, kind: 'sync' }, now);
    const [before] = rows;
    if (before?.state !== 'interrupted') return id;
    const from = new Date(now.getTime() - carryMs);
    // An end in the future was written by a clock that was ahead, so its real time is unknown.
    await client.query(sql`
      update sync.stored_run_streams s set state = 'completed', carried_from = coalesce(d.carried_from, d.run_id),
        started_at = d.started_at, finished_at = d.finished_at, exit_code = d.exit_code
      from sync.stored_run_streams d
      where s.run_id = ${id} and d.run_id = ${before.id} and d.stream_key = s.stream_key and d.state = 'completed'
        and d.finished_at > ${from} and d.finished_at <= ${now} and not exists (
          select from sync.coverage c
          where (c.account_id, c.stream_key) = (s.account_id, s.stream_key) and not c.redundant
            and coalesce(upper(c.covered) < ${from}::timestamptz - sync.lookback_of(c.account_id, c.source), true))`);
    await closeRun(client, id, now);
    return id;
  });
}

/** Makes this process the opener of the run: the run counts as alive while the process lives. */
export async function adoptRun(db: pg.Pool, run: number, opener: number): Promise<void> {
  await db.query(sql`update sync.stored_runs set opened_by = ${opener} where id = ${run} and state = 'running'`);
}

/**
 * The next stream of each open run, for each source, unless a live worker holds it. Streams of two sources do not wait
 * for each other, and none waits for a paused one. Our workers, one for each account, count as live, even while their
 * presence locks are being re-acquired.
 */
export const waitingWork = (
  db: pg.Pool,
  ours: readonly { account: string; worker: number }[],
): Promise<{ worker: number; run: number; stream: StreamKey; kind: RunKind; token: number }[]> =>
  query(db).rows`
    with live as materialized (select id from sync.live_workers)
    select me as worker, run, stream, kind, token from (
      select distinct on (r.id, k.source) me, r.id as run, s.stream_key as stream, r.kind, s.token, s.state, s.worker
      from unnest(${ours.map(({ account }) => account)}::text[], ${ours.map(({ worker }) => worker)}::int[]) our (account_id, me)
      join sync.stored_runs r using (account_id) join sync.stored_run_streams s on s.run_id = r.id
      join sync.streams k using (stream_key)
      where r.state = 'running' and (s.state = 'running' and (s.worker = me or s.worker in (select id from live))
        or s.state in ('waiting', 'running') and not sync.is_paused(s.account_id, s.stream_key))
      order by r.id, k.source, k.place) next
    where state = 'waiting' or (worker is distinct from me and (worker in (select id from live)) is not true)
    order by run`;

/** Whether another run waits to fetch the same ids. A run of a person has priority over a run of the reconciler. */
export const othersWait = (
  db: pg.Pool,
  { account, run, stream }: { account: string; run: number; stream: StreamKey },
): Promise<boolean> =>
  byKey(db, 'others wait').value`
    select exists (
      select from ${openRuns(account)} cross join ${itsStreams('s')}
      where r.id <> ${run} and s.stream_key = ${stream} and s.waits_for = ${run} and s.state = 'waiting') as wait`;

/** The open runs of the account. They are few, and the streams of past runs are many, so these are found first. */
export const openRuns = (account: string) =>
  sql`(select * from sync.stored_runs where account_id = ${account} and state = 'running' offset 0) r`;
/** The streams of a run of `openRuns`. */
export const itsStreams = (as: string) =>
  raw(`lateral (select * from sync.stored_run_streams where run_id = r.id offset 0) ${as}`);

/** An open run of these kinds that has not yet read the last of these streams, of any source. */
export const isOpen = (
  client: Client,
  account: string,
  streams: readonly StreamKey[],
  kinds: readonly RunKind[],
): Promise<number | undefined> =>
  byKey(client, 'run that will read').value`
    select r.id from ${openRuns(account)}
    where r.kind = any(${kinds}) and exists (
      select from ${itsStreams('s')}
      where s.state in ('waiting', 'running') and s.stream_key in (
        select distinct on (k.source) k.stream_key from sync.streams k where k.stream_key = any(${streams})
        order by k.source, k.place desc))
    order by r.id limit 1`;

/**
 * Whether a run reads this stream now or next. A run that reads other streams of the same source first does not count.
 */
export const isNext = (client: Client, account: string, stream: StreamKey): Promise<boolean> =>
  byKey(client, 'is next').value`
    select exists (
      select from ${openRuns(account)} cross join ${itsStreams('s')} join sync.streams k using (stream_key)
      where s.stream_key = ${stream} and (s.state = 'running' or s.state = 'waiting'
        and not exists (
          select from ${itsStreams('o')} join sync.streams p using (stream_key)
          where o.stream_key <> s.stream_key and p.source = k.source and o.state in ('waiting', 'running')
            and not sync.is_paused(o.account_id, o.stream_key)))) as next`;

/** Whether the last finished run of this stream says to leave it alone: it failed just now, or is deferred. */
export const isResting = (
  client: Client,
  key: { account: string; stream: StreamKey },
  now: Date,
  restMs: number,
): Promise<boolean> =>
  query(client).value`
    select coalesce((
    select coalesce(s.deferred_until > ${now}, false) or (r.kind = 'hydrate' and r.state = 'failed'
      and r.finished_at > ${new Date(now.getTime() - restMs)})
    from sync.stored_run_streams s join sync.stored_runs r on r.id = s.run_id
    where s.account_id = ${key.account} and s.stream_key = ${key.stream} and (s.finished_at is not null or r.finished_at is not null)
    order by s.run_id desc limit 1), false) as rests`;

/** The end of a stream in a run. */
interface End {
  readonly begunMs: number;
  readonly endedMs: number;
  readonly deferredMs: number | null;
  /** It has found one, which a person must confirm. */
  readonly massDeletion: boolean;
  /** Why it failed, unless the source was away. */
  readonly failure: { readonly message: string; readonly remedy: string; readonly exitCode: number } | null;
}

/** The end of the last run of these kinds that has ended with the stream; undefined if there is none. */
export async function lastEnd(
  db: Queryable,
  { account, stream }: { account: string; stream: StreamKey },
  kinds: readonly RunKind[],
  now: Date,
): Promise<End | undefined> {
  // A clock that was ahead may have noted an end that is still to come.
  return query(db).first<End>`
    select extract(epoch from started_at)::float8 * 1000 as "begunMs", extract(epoch
      from ended)::float8 * 1000 as "endedMs", extract(epoch from deferred_until)::float8 * 1000 as "deferredMs",
      coalesce(state = 'failed' and error like '%seem to have been deleted at the source%', false) as "massDeletion",
      case when state = 'failed' and answer is null
        then json_build_object('message', error, 'remedy', coalesce(remedy, 'Look at the log.'), 'exitCode', exit_code) end as failure
    from (
      select s.run_id, r.started_at, s.state, s.error, s.remedy, s.exit_code, s.answer, s.deferred_until, coalesce(s.finished_at,
        r.finished_at) as ended
      from sync.stored_run_streams s join sync.stored_runs r on r.id = s.run_id
      where s.account_id = ${account} and s.stream_key = ${stream} and r.kind = any(${kinds})) one
    where ended <= ${now} order by run_id desc limit 1`;
}

/** Deferred list streams whose quota has reset, and that no other run will read. */
export const wokenStreams = (client: Client, account: string, now: Date): Promise<StreamKey[]> =>
  query(client).values`
    select k.stream_key as stream from sync.streams k cross join lateral (
      select s.deferred_until from sync.stored_run_streams s join sync.stored_runs r on r.id = s.run_id
      where s.account_id = ${account} and s.stream_key = k.stream_key and r.kind not in ('audit', 'verify') order by s.run_id desc limit 1) last
    where k.follows is null and last.deferred_until <= ${now} and not sync.is_paused(${account}, k.stream_key)
    order by k.place`;

/**
 * Marks runs as interrupted that no live process opened or works on. Raises their tokens, so that a suspended process
 * can write nothing more.
 */
export async function endAbandonedRuns(db: pg.Pool, account: string, now: Date): Promise<void> {
  await withAccount(db, account, async client => {
    const { rows } = await client.query<{ id: number }>(sql`
      update sync.stored_runs r set state = 'interrupted', finished_at = ${now}
      where account_id = ${account} and state = 'running' and not sync.is_alive(opened_by) and not exists (
        select from sync.stored_run_streams s where s.run_id = r.id and s.state = 'running' and sync.is_alive(s.worker))
      returning id`);
    await client.query(sql`
      update sync.stored_run_streams set state = 'interrupted', token = token + 1, finished_at = ${now},
        error = 'the process died', remedy = 'Run the same command again to resume.',
        exit_code = ${raw(exitCodes.failed)}
      where run_id = any(${rows.map(({ id }) => id)}) and state in ('waiting', 'running')`);
  });
}

export interface Ended {
  state: RunState;
  error: string | null;
  remedy: string | null;
  exitCode: number;
  deferredUntil?: Date;
  /** `The help desk answers 503`, if an outage of the source ended the stream. */
  answer?: string;
  /** When the first request of the outage failed. */
  failingSince?: Date;
  /** The other streams of the source continue, although its exit code says that the source refused. */
  denied?: boolean;
}

/** How an outcome is stored, and its exit code. */
export function outcome({ partial, error }: { partial?: string | undefined; error?: unknown }): Ended {
  if (error instanceof Spent) {
    const { message, remedy, exitCode, until } = error;
    return { state: 'partial', error: message, remedy, exitCode, deferredUntil: until };
  }
  if (error instanceof Interrupted) {
    return { state: 'interrupted', error: null, remedy: error.remedy, exitCode: error.exitCode };
  }
  if (error instanceof ShelfdeskError) {
    const denied = error instanceof Fatal && error.denied;
    const { exitCode, remedy } = error;
    const outage = outageIn(error);
    const answer = outage && cleanText(`${upperFirst(outage.label)} ${outage.answer}`).text;
    // The reason is left out if the answer already contains it.
    const [, reason] = /^does not answer \((.*)\)$/s.exec(outage?.answer ?? '') ?? [];
    const message = answer === undefined ? error.message : `${answer} (${error.message.replace(`: ${reason}`, '')})`;
    return {
      state: 'failed',
      error: cleanText(message).text,
      remedy,
      exitCode,
      denied,
      ...(answer !== undefined && { answer, failingSince: new Date(outage!.sinceMs) }),
    };
  }
  if (error !== undefined) {
    const remedy =
      error instanceof pg.DatabaseError
        ? 'Check the database, then run the same command again: it resumes where this one stopped.'
        : 'This is a bug in Shelfdesk: please report it with the log. Running again is safe.';
    return { state: 'failed', error: cleanText(messageOf(error)).text, remedy, exitCode: exitCodes.failed };
  }
  if (partial !== undefined) {
    const remedy =
      'Later runs ask again for what is missing. `npx shelfdesk status` shows gaps and rejects, if there are any.';
    return { state: 'partial', error: partial, remedy, exitCode: exitCodes.partial };
  }
  return { state: 'completed', error: null, remedy: null, exitCode: exitCodes.ok };
}

/** Ends the streams that no worker will take up, when the process that started the run leaves. */
export async function endRun(db: pg.Pool, run: number, now: Date, error: unknown): Promise<void> {
  const end = outcome({ error });
  await transaction(db, async client => {
    await client.query(sql`
      update sync.stored_run_streams
        set state = ${end.state}, token = token + 1, finished_at = ${now}, error = ${end.error}, remedy = ${end.remedy}, exit_code = ${end.exitCode}
      where run_id = ${run} and state in ('waiting', 'running')`);
    await closeRun(client, run, now);
  });
}

/**
 * A run ends with its last stream, or immediately when a person interrupts it. If a source refuses the token, its
 * waiting streams do not start. `ended`: how the stream ended that has just done so; `isLocked`: the statement that ended it
 * has locked the run. The end of a run also writes its hand-off, so this is the last step of its transaction.
 */
export async function closeRun(
  client: Client,
  run: number,
  now: Date,
  ended?: Pick<Ended, 'exitCode' | 'denied'>,
  isLocked = false,
): Promise<void> {
  const stops = ended?.exitCode === exitCodes.interrupted || (ended?.exitCode === exitCodes.refused && !ended.denied);
  if (stops) await endWaiting(client, run, now, ended.exitCode);
  // Streams of two sources may end at once. Each would see the other one as running, and the run would never end. So the
  // second one waits here for the commit of the first. A statement before, because the next one must see that commit.
  if (!isLocked) await byKey(client, 'lock run').rows`select from sync.stored_runs where id = ${run} for no key update`;
  const accounts = await byKey(client, 'close run').values<string>`
    update sync.stored_runs r set finished_at = ${now},
      state = (select case
          when bool_or(s.state = 'failed') then 'failed' when bool_or(s.state = 'interrupted') then 'interrupted'
          when bool_or(s.state = 'partial') then 'partial' else 'completed' end
        from sync.stored_run_streams s where s.run_id = r.id)
    where r.id = ${run} and r.state = 'running' and not exists (
      select from sync.stored_run_streams s where s.run_id = r.id and s.state in ('waiting', 'running'))
    returning r.account_id as account`;
  for (const account of accounts) await noteHandOffs(client, account, run, now);
}

async function endWaiting(client: Client, run: number, now: Date, exitCode: number): Promise<void> {
  await client.query(sql`
    update sync.stored_run_streams s
    set state = last.state, finished_at = ${now}, error = last.error, remedy = last.remedy, exit_code = last.exit_code,
      answer = last.answer, failing_since = last.failing_since
    from sync.stored_run_streams w join sync.streams k using (stream_key)
    cross join lateral (
      select o.exit_code, o.state, o.error, o.remedy, o.answer, o.failing_since
      from sync.stored_run_streams o join sync.streams p using (stream_key)
      where o.run_id = ${run} and o.exit_code = ${exitCode} and (o.exit_code = ${raw(exitCodes.interrupted)} or p.source = k.source)
      order by o.finished_at desc limit 1) last
    where s.run_id = ${run} and s.state = 'waiting' and (w.run_id, w.stream_key) = (s.run_id, s.stream_key)`);
}

/** Streams in the order of a full sync. */
export async function readProgress(db: pg.Pool, run: number): Promise<{ state: RunState; streams: StreamProgress[] }> {
  const { rows } = await db.query<StreamProgress & { run_state: RunState }>(sql`
    select r.state as run_state, s.account_id, sync.name_of(stream_key) as stream, s.state, s.expected, s.seen, s.inserted, s.updated,
      s.unchanged, s.deleted,
      s.rejected, s.cleaned, s.credits, s.carried_from, s.waits_for, s.note, s.error, s.remedy, s.exit_code
    from sync.stored_runs r join sync.stored_run_streams s on s.run_id = r.id join sync.streams k using (stream_key)
    where r.id = ${run} order by k.place`);
  return { state: rows[0]!.run_state, streams: rows.map(({ run_state: _, ...stream }) => stream) };
}
