/**
 * Claims: the right to commit to a stream of a run. A claimant raises the fencing token. Commits carry the token, and
 * fail under an old one. So a worker that was considered dead, and wakes up, can change nothing.
 */
import type pg from 'pg';
import { FencedOff, UsageError } from '../../errors.ts';
import { acknowledgedOf, counted } from '../commit/acknowledged.ts';
import { byKey, transaction, withPlansByKey } from '../database/pool.ts';
import { query, raw, sql } from '../database/sql.ts';
import { nameOfKey, type StreamKey } from '../database/stream-key.ts';
import { addressesIn, type Bound, boundElsewhere } from './accounts/accounts.ts';
import { closeRun, isApart, outcome, type RunKind, readerClass, withAccountByKey } from './runs.ts';

export interface Claim {
  readonly account: string;
  /** The key of the stream. */
  readonly stream: StreamKey;
  readonly run: number;
  readonly token: number;
  readonly kind: RunKind;
  /** A backfill that also reads synced ranges. */
  readonly again: boolean;
  /** The source that the first commit binds the account to; undefined if it is bound. */
  readonly binds?: Bound | undefined;
}

/** A stream of a run, as its job names it. */
export type Work = Pick<Claim, 'account' | 'run' | 'stream'>;

/** A claimant: a process of sync.workers, and its job in the queue. */
export interface Claimant {
  readonly worker: number;
  readonly job: string;
  /** The field rules that its process applies, as `fullRulesOf` has them; default: none. */
  readonly rules?: string;
  /** The addresses of the sources that its process reads; default: none is compared. */
  readonly bound?: readonly Bound[];
}

export type TakenUp =
  | { readonly taken: Claim }
  /** Another run with a live worker reads the same. */
  | { readonly busy: number }
  /** The stream has ended, is claimed by another worker, or is paused. */
  | { readonly over: true };

/**
 * Raises the token, unless another worker is live. At most one reader exists for each part of a stream, so no credit is
 * spent twice: one at its high-water mark, one for its gaps, one that sweeps, one that audits, one that verifies it.
 * Streams without mark and gaps (fetched by id, shelves) have one reader.
 *
 * A running stream is taken from a dead worker. Under the same job it is also taken from a live one: the queue delivers
 * a job again only when its worker has stalled. A process never treats its own claim as abandoned, even while its
 * presence lock is being re-acquired: under another job it takes nothing from itself.
 */
export async function takeUp(db: pg.Pool, key: Work, by: Claimant, time: () => Date): Promise<TakenUp> {
  return withAccountByKey(db, key.account, async client => {
    // The previous claimant may have ended while this one waited for the lock, so the time is read after it.
    const now = time();
    // Locked: some who end a stream hold no lock of the account, and what has ended meanwhile must not run again.
    const found = await byKey(client, 'claim').first`
      select s.state, r.kind, r.again,
        s.state = 'running' and s.job is distinct from ${by.job} and (s.worker = ${by.worker} or sync.is_alive(s.worker)) as held,
        sync.is_paused(s.account_id, s.stream_key) as paused, k.source,
        (select array_agg(array[b.source, b.address]) from sync.sources b where b.account_id = s.account_id) as addresses,
        (select coalesce(string_agg(f.full_rule, ' ' order by f.full_rule collate "C"), '') from sync.field_rules f where f.account_id = s.account_id) as rules,
        -- A stream that is read belongs to an open run: those are few, and the past runs of the stream are many.
        (select o.run_id from (
           select id, kind from sync.stored_runs where account_id = s.account_id and state = 'running' offset 0) p
         cross join lateral (
           select run_id, worker from sync.stored_run_streams
           where run_id = p.id and stream_key = s.stream_key and state = 'running' offset 0) o
         where o.run_id <> s.run_id and (${raw(readerClass('p.kind'))} = ${raw(readerClass('r.kind'))}
             or k.one_reader and not ${raw(isApart('p.kind'))} and not ${raw(isApart('r.kind'))})
           and (o.worker = ${by.worker} or sync.is_alive(o.worker))
         order by 1 limit 1) as busy
      from sync.stored_run_streams s join sync.stored_runs r on r.id = s.run_id join sync.streams k using (stream_key)
      where s.run_id = ${key.run} and s.stream_key = ${key.stream}
      for update of s`;
    if (found === undefined || !['waiting', 'running'].includes(found.state) || found.held) return { over: true };
    if (found.rules !== (by.rules ?? ''))
      throw new UsageError(
        `account '${key.account}' has other field rules than this process: ${found.rules || 'none'}`,
        'Start this process anew, with FIELD_RULES as the warehouse has it.',
      );
    const source = by.bound?.find(({ name }) => name === found.source);
    const addresses = addressesIn(found.addresses);
    const elsewhere = source && boundElsewhere(addresses, key.account, [source]);
    if (elsewhere !== undefined) throw elsewhere;
    if (found.paused || found.busy !== null) {
      // The previous claimant may have died.
      await client.query(sql`
        update sync.stored_run_streams set state = 'waiting', worker = null, job = null, waits_for = ${found.paused ? null : found.busy}
        where run_id = ${key.run} and stream_key = ${key.stream}`);
      return found.paused ? { over: true } : { busy: found.busy };
    }
    const token = await byKey(client, 'raise token').value<number>`
      update sync.stored_run_streams set token = token + 1, state = 'running', started_at = coalesce(started_at, ${now}),
        worker = ${by.worker}, job = ${by.job}, waits_for = null
      where run_id = ${key.run} and stream_key = ${key.stream}
      returning token`;
    const binds = addresses.has(found.source) ? undefined : source;
    return { taken: { ...key, kind: found.kind, again: found.again, token, ...(binds && { binds }) } };
  });
}

/** Returns the stream, so that another worker continues. `credits` as for `finish`. False if the claim was lost. */
export async function release(
  db: pg.Pool,
  claim: Pick<Claim, 'run' | 'stream' | 'token'>,
  credits: number,
): Promise<boolean> {
  const { rowCount } = await db.query(sql`
    update sync.stored_run_streams set state = 'waiting', worker = null, job = null, credits = credits + ${credits}
    where run_id = ${claim.run} and stream_key = ${claim.stream} and token = ${claim.token} and state = 'running'`);
  return rowCount === 1;
}

/** Indexes of these claims that must stop: people have paused the stream, or another worker holds it. */
export const stopped = (
  db: pg.Pool,
  claims: readonly Pick<Claim, 'account' | 'run' | 'stream' | 'token'>[],
): Promise<{ place: number; paused: boolean }[]> =>
  query(db).rows`
    select (c.place - 1)::int as place, s.run_id is not null as paused
    from unnest(${claims.map(({ account }) => account)}::text[], ${claims.map(({ run }) => run)}::bigint[],
      ${claims.map(({ stream }) => stream)}::text[], ${claims.map(({ token }) => token)}::int[]) with ordinality c (account_id, run, key,
      token, place)
    left join sync.stored_run_streams s on (s.run_id, s.stream_key, s.token) = (c.run, c.key, c.token) and s.state = 'running'
    where s.run_id is null or sync.is_paused(c.account_id, c.key)`;

/** The claims that the database has for these workers. */
export const heldBy = (
  db: pg.Pool,
  workers: readonly number[],
): Promise<{ worker: number; run: number; stream: StreamKey; token: number; job: string }[]> =>
  query(db).rows`
    select worker, run_id as run, stream_key as stream, token, job from sync.stored_run_streams
    where worker = any(${workers}) and state = 'running'`;

/** Ends a stream that another run reads, so that this run need not read the rest. */
export async function finishUntaken(
  db: pg.Pool,
  key: Work,
  by: number,
  now: Date,
  end: { partial?: string | undefined },
): Promise<void> {
  const ended = outcome(end);
  const { state, error, remedy, exitCode } = ended;
  await transaction(db, async client => {
    await client.query(sql`
      update sync.stored_run_streams set state = ${state}, token = token + 1, carried_from = ${by}, waits_for = null,
        started_at = coalesce(started_at, ${now}), finished_at = ${now}, error = ${error}, remedy = ${remedy}, exit_code = ${exitCode}
      where run_id = ${key.run} and stream_key = ${key.stream} and state = 'waiting'`);
    await closeRun(client, key.run, now, ended);
  });
}

/** `credits`: credits that belong to no page, as those of failed requests and probes. */
export async function finish(
  db: pg.Pool,
  claim: Claim,
  now: Date,
  end: { partial?: string | undefined; error?: unknown; credits: number },
): Promise<void> {
  const ended = outcome(end);
  const { state, error, remedy, exitCode, deferredUntil = null, answer = null, failingSince = null } = ended;
  await transaction(
    db,
    async client => {
      const finished = await byKey(client, 'finish').count`
        with ended as (
          update sync.stored_run_streams set state = ${state}, finished_at = ${now}, error = ${error}, remedy = ${remedy}, exit_code = ${exitCode},
            credits = credits + ${end.credits}, deferred_until = ${deferredUntil}, answer = ${answer}, failing_since = ${failingSince}
          where run_id = ${claim.run} and stream_key = ${claim.stream} and token = ${claim.token} and state = 'running'
            and ${raw(counted)} >= ${acknowledgedOf(claim)}
          returning run_id)
        select from ended e cross join lateral (select from sync.stored_runs where id = e.run_id for no key update) locked`;
      if (finished === 0) throw new FencedOff(`stream ${nameOfKey(claim.stream)} of run ${claim.run}`);
      await closeRun(client, claim.run, now, ended, true);
    },
    `begin; ${withPlansByKey}`,
  );
}

/** Ends a stream whose job failed before its claim, or while it reported its end. */
export async function failUntaken(
  db: pg.Pool,
  job: { id?: string | undefined; data: Partial<Work> },
  now: Date,
  why: unknown,
): Promise<void> {
  const { run, stream } = job.data;
  if (typeof run !== 'number' || typeof stream !== 'string') return;
  const ended = outcome({ error: why });
  const { state, error, remedy, exitCode } = ended;
  await transaction(db, async client => {
    await client.query(sql`
      update sync.stored_run_streams
        set state = ${state}, token = token + 1, finished_at = ${now}, error = ${error}, remedy = ${remedy}, exit_code = ${exitCode}
      where run_id = ${run} and stream_key = sync.key_of(${stream}) and (state = 'waiting' or (state = 'running' and job = ${job.id}))`);
    await closeRun(client, run, now, ended);
  });
}
