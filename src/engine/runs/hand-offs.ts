/**
 * Hand-offs: the message that a load is complete. The transaction that ends a run decides it and writes it with its
 * deliveries, so that a message is neither lost nor sent for a run that did not end. ops/hand-offs sends it.
 */
import type pg from 'pg';
import { isAway } from '../../errors.ts';
import type { Client } from '../database/pool.ts';
import { type CertifiedStream, certify, type HandedRun, handOffId } from './certificate.ts';

/** What an account wants, from its settings. */
export interface HandOffSettings {
  readonly channels: readonly ('webhook' | 'command')[];
  /** Channel of pg_notify. */
  readonly notify: string | null;
  readonly runs: readonly string[];
  readonly rejectsAllowed: number;
  readonly dueWithinMs: number | null;
  /** Local time of a day, as `06:30`. */
  readonly dueBy: string | null;
  readonly timeZone: string;
}

/**
 * Stores the settings where the end of a run finds them. `serves`: this process is a worker, whose settings count, so
 * that it also takes back what is not set. Another process only adds ways of delivery. Returns how many deliveries ended
 * because their way is not set any more.
 */
export async function keepHandOffSettings(
  db: pg.Pool,
  account: string,
  settings: HandOffSettings | undefined,
  now: Date,
  serves: boolean,
): Promise<number> {
  if (settings !== undefined) {
    const { channels, notify, runs, rejectsAllowed, dueWithinMs, dueBy, timeZone } = settings;
    await db.query(
      `insert into sync.hand_off_settings as s
         (account_id, channels, notify, runs, rejects_allowed, due_within, due_by, time_zone, since)
       values ($1, $2, $3, $4, $5, $6 * interval '1 millisecond', $7, $8, $9)
       on conflict (account_id) do update set
         channels = case when $10 then excluded.channels else (
           select coalesce(array_agg(distinct c order by c), '{}') from unnest(s.channels || excluded.channels) c) end,
         notify = coalesce(excluded.notify, case when not $10 then s.notify end),
         runs = case when $10 then excluded.runs else s.runs end,
         rejects_allowed = case when $10 then excluded.rejects_allowed else s.rejects_allowed end,
         due_within = case when $10 then excluded.due_within else s.due_within end,
         due_by = case when $10 then excluded.due_by else s.due_by end,
         time_zone = case when $10 then excluded.time_zone else s.time_zone end`,
      [account, channels, notify, runs, rejectsAllowed, dueWithinMs, dueBy, timeZone, now, serves],
    );
  }
  if (!serves) return 0;
  if (settings === undefined) await db.query('delete from sync.hand_off_settings where account_id = $1', [account]);
  // Nobody would ever send these.
  const { rowCount } = await db.query(
    `delete from sync.hand_off_deliveries where account_id = $1 and delivered_at is null and channel <> all ($2)`,
    [account, settings?.channels ?? []],
  );
  return rowCount ?? 0;
}

/** 'SHHO': held from the decision to the commit, so that hand-offs of an account become visible in their order. */
const lockClass = 0x53_48_48_4f;

/** The clock of the source is known within this time. */
const clockToleranceMs = 5000;

/**
 * Call it in the transaction that has just ended a run, as its last step. Writes the hand-off of that run if it has one,
 * and that of the last night if this run has completed it. Does nothing for accounts without hand-offs. An error of the
 * decision must not keep the run from ending: it withholds the hand-off.
 */
export async function noteHandOffs(client: Client, account: string, run: number, now: Date): Promise<void> {
  const { rows: asked } = await client.query('select from sync.hand_off_settings where account_id = $1', [account]);
  if (asked.length === 0) return;
  // A message may not be sent for a commit that a power cut takes back.
  await client.query('set local synchronous_commit = on');
  await client.query('select pg_advisory_xact_lock($1, hashtext($2))', [lockClass, account]);
  for (const handed of await candidates(client, account, run, now)) {
    await client.query('savepoint hand_off');
    try {
      await noteHandOff(client, handed, now);
      await client.query('release savepoint hand_off');
    } catch (error) {
      if (isAway(error) || isRepeated(error)) throw error;
      await client.query('rollback to savepoint hand_off');
      await withhold(client, handed, `it could not be decided: ${error instanceof Error ? error.message : error}`);
    }
  }
}

/** `transaction` repeats the whole work after these. */
const isRepeated = (error: unknown) => ['40P01', '23505'].includes(String((error as { code?: unknown }).code));

/** A night that is not complete after this time is given up. Shorter than rows are kept, so that none is handed off twice. */
const longestMs = 30 * 24 * 3_600_000;

interface Candidate extends HandedRun {
  /** The sweep of the night that is not over well. */
  readonly sweep: number | null;
  readonly channels: readonly string[];
  readonly notify: string | null;
  readonly rejects_allowed: number;
}

/**
 * The run that has just ended, and the last night that has no certificate yet. A run that ended in part counts, because
 * sync.require_complete decides: later runs may have read the rest of a night.
 */
async function candidates(client: Client, account: string, run: number, now: Date): Promise<Candidate[]> {
  const { rows } = await client.query<Candidate>(
    `select r.id as run, r.account_id as account, r.kind, r.started_at, r.finished_at as ended_at, a.queue,
       case when r.kind = 'nightly' then (
         -- The sweep of a night is a run of its own, opened with its slot.
         select w.id from sync.stored_runs w
         where w.account_id = r.account_id and w.kind = 'sweep' and w.started_at = r.started_at and w.state <> 'completed'
           and not exists (
             select from sync.stored_runs o
             where o.account_id = w.account_id and o.kind = 'sweep' and o.id > w.id and o.state = 'completed')
         limit 1) end as sweep,
       s.channels, s.notify, s.rejects_allowed
     from sync.hand_off_settings s join sync.accounts a using (account_id)
     cross join lateral (
       select r.* from sync.stored_runs r where r.id = $2 and r.kind <> 'nightly'
       union all
       select n.* from (
         select r.* from sync.stored_runs r
         where r.account_id = s.account_id and r.kind = 'nightly' and r.finished_at is not null order by r.id desc limit 1) n) r
     where s.account_id = $1 and r.account_id = $1 and r.kind = any (s.runs) and r.state in ('completed', 'partial')
       and r.finished_at >= greatest(s.since, $3) and not exists (
         select from sync.hand_offs h
         where h.account_id = r.account_id and h.run_id = r.id and h.certificate is not null)
     order by r.id`,
    [account, run, new Date(now.getTime() - longestMs)],
  );
  return rows;
}

async function noteHandOff(client: Client, handed: Candidate, now: Date): Promise<void> {
  const why =
    handed.sweep === null ? await whyIncomplete(client, handed) : `its sweep, run ${handed.sweep}, is not over`;
  if (why !== undefined) return withhold(client, handed, why);
  const streams = await certifiedStreams(client, handed, now);
  const gap = streams.find(({ gaps }) => gaps > 0);
  if (gap !== undefined) return withhold(client, handed, `${gap.stream} has gaps`);
  if (streams.length === 0) return withhold(client, handed, 'nothing is mirrored of its streams');
  await issue(client, handed, JSON.stringify(certify(handed, streams, now)), now);
}

/**
 * SQL: the streams that the run was to bring. A night also brings the details of its streams, which are fetched by runs
 * of their own, unless they are paused. `carried`: when the run began that read the stream for this one.
 */
const streamsOfRun = `
  select k.stream_key, k.source, k.follows, k.place, s.started_at as carried
  from sync.streams k left join sync.stored_run_streams s on (s.run_id, s.stream_key) = ($1, k.stream_key)
  where s.run_id is not null or $3 and not sync.is_paused($2, k.stream_key) and exists (
    select from sync.stored_run_streams f where f.run_id = $1 and f.stream_key = k.source || '.' || k.follows)`;

/**
 * What is missing of what the run was to bring: all that had happened one lookback before it began, by the clock of the
 * source. A backfill brings nothing new, so its streams must be complete as far as they are read. The streams are asked in
 * their order, and none after the first that is not complete.
 */
async function whyIncomplete(client: Client, handed: Candidate): Promise<string | undefined> {
  const { rows } = await client.query<{ why: string }>(
    `select w.why from (${streamsOfRun} order by k.place offset 0) k join sync.accounts a on a.account_id = $2
     cross join lateral (
       select least($5::timestamptz, k.carried) - a.lookback - $6 * interval '1 millisecond' + coalesce((
         select (b.state #>> '{clock,offsetMs}')::float8 * interval '1 millisecond'
         from sync.budget b where (b.account_id, b.source) = ($2, k.source)), interval '0') as at) t
     cross join lateral (
       select min(upper(c.covered)) as at from sync.coverage c
       where c.account_id = $2 and c.stream_key = coalesce(k.source || '.' || k.follows, k.stream_key) and not c.redundant) top
     cross join lateral (
       select sync.why_incomplete($2, k.stream_key, case when $4 then least(t.at, top.at) else t.at end, $7) as why) w
     where w.why is not null limit 1`,
    [
      ...[handed.run, handed.account, handed.kind === 'nightly', handed.kind === 'backfill'],
      ...[handed.started_at, clockToleranceMs, handed.rejects_allowed],
    ],
  );
  return rows[0]?.why;
}

/** The facts of each stream. Rows and credits of a night include its sweep, and the details that were fetched since. */
async function certifiedStreams(client: Client, handed: Candidate, now: Date): Promise<CertifiedStream[]> {
  const { rows } = await client.query<CertifiedStream>(
    `select k.stream_key as stream, sync.complete_through($2, k.stream_key) as complete_through,
       (select count(*) from sync.gaps g
        where g.account_id = $2 and g.source = k.source and g.stream_key in (k.stream_key, k.source || '.' || k.follows)) as gaps,
       (select count(*) from sync.rejects r
        where r.account_id = $2 and r.stream_key in (k.stream_key, k.source || '.' || k.follows) and r.cleared_at is null) as open_rejects,
       sync.deletes_checked_at($2, k.stream_key) as deletions_checked_at,
       u.differ_at_most_percent, u.differ_as_of, t.rows, t.credits
     from (${streamsOfRun}) k
     cross join lateral (
       select case when count(*) > 0 then sync.at_most(
           count(distinct u.record_id) filter (where u.differences is not null),
           count(distinct u.record_id) filter (where not u.unread))::float8 end as differ_at_most_percent,
         min(u.checked_at) as differ_as_of
       from sync.audit u
       where u.account_id = $2 and u.stream_key = k.stream_key and u.random and u.checked_at > $4::timestamptz - interval '7 days') u
     cross join lateral (
       select jsonb_build_object('seen', coalesce(sum(s.seen), 0), 'inserted', coalesce(sum(s.inserted), 0),
           'updated', coalesce(sum(s.updated), 0), 'unchanged', coalesce(sum(s.unchanged), 0),
           'deleted', coalesce(sum(s.deleted), 0), 'rejected', coalesce(sum(s.rejected), 0)) as rows,
         coalesce(sum(s.credits), 0)::float8 as credits
       from sync.stored_run_streams s
       where s.stream_key = k.stream_key and (s.run_id = $1 or $3 and s.run_id in (
         select r.id from sync.stored_runs r
         where r.account_id = $2 and r.id > $1 and (r.kind = 'hydrate' or r.kind = 'sweep' and r.started_at = $5)))) t
     order by k.place`,
    [handed.run, handed.account, handed.kind === 'nightly', now, handed.started_at],
  );
  return rows;
}

/** A withheld hand-off of the run, if there is one, makes room: the order is that of the certificates. */
async function issue(client: Client, handed: Candidate, certificate: string, now: Date): Promise<void> {
  const { account, run, kind, started_at, ended_at, channels, notify } = handed;
  await client.query('delete from sync.hand_offs where account_id = $1 and run_id = $2', [account, run]);
  await client.query(
    `with issued as (
       insert into sync.hand_offs (account_id, run_id, kind, started_at, ended_at, issued_at, certificate)
       values ($1, $2, $3, $4, $5, $6::timestamptz, $7) returning id, account_id),
     told as (
       select pg_notify($9::text, $10::text) where $9::text is not null)
     insert into sync.hand_off_deliveries (hand_off_id, account_id, channel, next_try_at, delivered_at)
     select i.id, i.account_id, c.channel, $6::timestamptz, null::timestamptz from issued i, unnest($8::text[]) c (channel)
     union all
     select i.id, i.account_id, 'notify', $6::timestamptz, $6::timestamptz from issued i, told`,
    [account, run, kind, started_at, ended_at, now, certificate, channels, notify, handOffId(handed)],
  );
}

async function withhold(client: Client, handed: Candidate, why: string): Promise<void> {
  const { account, run, kind, started_at, ended_at } = handed;
  await client.query(
    `insert into sync.hand_offs as h (account_id, run_id, kind, started_at, ended_at, withheld)
     values ($1, $2, $3, $4, $5, $6)
     on conflict (account_id, run_id) do update set withheld = excluded.withheld
       where h.certificate is null and h.withheld <> excluded.withheld`,
    [account, run, kind, started_at, ended_at, why],
  );
}

/** A hand-off that its receiver has not taken is kept. */
export async function forgetHandOffs(db: pg.Pool, account: string, before: Date): Promise<void> {
  await db.query(
    `delete from sync.hand_offs h where account_id = $1 and coalesce(issued_at, ended_at) < $2 and not exists (
       select from sync.hand_off_deliveries d where d.hand_off_id = h.id and d.delivered_at is null)`,
    [account, before],
  );
}
