/**
 * Hand-offs: the message that a load is complete. The transaction that ends a run decides it and writes it with its
 * deliveries, so that a message is neither lost nor sent for a run that did not end. ops/hand-offs sends it.
 */
import type pg from 'pg';
import { isAway, messageOf, UsageError } from '../../errors.ts';
import { liveWorkers } from '../../status/workers.ts';
import { byKey, type Client, withPlansForValues } from '../database/pool.ts';
import { query, sql } from '../database/sql.ts';
import { type CertifiedStream, certify, type HandedRun, handOffId } from './certificate.ts';

/** The settings of an account. */
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
 * Stores the settings where the end of a run finds them, and takes back what is not set. While a worker lives, only
 * workers do, so that a command with other settings changes nothing. Returns how many deliveries ended because their way
 * is not set any more.
 */
export async function keepHandOffSettings(
  db: pg.Pool,
  account: string,
  settings: HandOffSettings | undefined,
  now: Date,
  works: boolean,
): Promise<number> {
  if (!works && (await liveWorkers(db, [account])).length > 0) return 0;
  if (settings !== undefined) {
    const { channels, notify, runs, rejectsAllowed, dueWithinMs, dueBy, timeZone } = settings;
    await requireTimeZone(db, timeZone);
    await db.query(sql`
      insert into sync.hand_off_settings
        (account_id, channels, notify, runs, rejects_allowed, due_within, due_by, time_zone, since)
      values (${account}, ${channels}, ${notify}, ${runs}, ${rejectsAllowed}, ${dueWithinMs} * interval '1 millisecond', ${dueBy},
        ${timeZone}, ${now})
      on conflict (account_id) do update set
        channels = excluded.channels, notify = excluded.notify, runs = excluded.runs,
        rejects_allowed = excluded.rejects_allowed, due_within = excluded.due_within, due_by = excluded.due_by,
        time_zone = excluded.time_zone`);
  }
  if (settings === undefined) await db.query(sql`delete from sync.hand_off_settings where account_id = ${account}`);
  // No process would ever send these.
  return query(db).count`
    delete from sync.hand_off_deliveries where account_id = ${account} and delivered_at is null and channel <> all (${settings?.channels ?? []})`;
}

/** An unknown zone would break sync.problems for all accounts. */
async function requireTimeZone(db: pg.Pool, zone: string): Promise<void> {
  try {
    await db.query(sql`select 'epoch'::timestamptz at time zone ${zone}`);
  } catch (error) {
    if ((error as { code?: unknown }).code !== '22023') throw error;
    throw new UsageError(
      `PostgreSQL does not know the time zone ${zone}`,
      'Set SCHEDULE_TIME_ZONE to a name that it knows: select name from pg_timezone_names.',
    );
  }
}

/** 'SHHO': held from the decision to the commit, so that hand-offs of an account become visible in their order. */
const lockClass = 0x53_48_48_4f;

/** The clock of the source is known within this time. */
const clockToleranceMs = 5000;

/**
 * Call it in the transaction that has just ended a run, as its last step. Writes the hand-off of that run if it has one,
 * and that of the last night if this run has completed it. Does nothing for accounts without hand-offs. An error of the
 * decision must not keep the run from ending: it withholds the hand-off until the next run ends.
 */
export async function noteHandOffs(client: Client, account: string, run: number, now: Date): Promise<void> {
  const asked = await byKey(client, 'hand-offs wanted').rows`
    select from sync.hand_off_settings where account_id = ${account}`;
  if (asked.length === 0) return;
  const why = await attempt(client, async () => {
    // A message may not be sent for a commit that a power cut takes back.
    await client.query(`set local synchronous_commit = on; ${withPlansForValues}`);
    await client.query(sql`select pg_advisory_xact_lock(${lockClass}, hashtext(${account}))`);
    for (const handed of await candidates(client, account, run, now)) {
      const error = await attempt(client, () => noteHandOff(client, handed, now));
      if (error !== undefined) await withhold(client, handed, error);
    }
  });
  if (why !== undefined) await attempt(client, () => withholdUnread(client, run, why));
}

/** The decision failed, so the next end of a run decides again. An index has this text. */
const undecided = 'it could not be decided: ';
/** Most runs whose decision is repeated in one pass. */
const mostUndecided = 10;

/** Does all of `work`, or nothing of it, in a savepoint. Returns the error of work that failed. */
async function attempt(client: Client, work: () => Promise<void>): Promise<string | undefined> {
  await client.query('savepoint hand_off');
  try {
    await work();
    await client.query('release savepoint hand_off');
    return undefined;
  } catch (error) {
    if (isAway(error) || isRepeated(error)) throw error;
    await client.query('rollback to savepoint hand_off; release savepoint hand_off');
    return `${undecided}${messageOf(error)}`;
  }
}

/** `transaction` repeats the whole work after these. */
const isRepeated = (error: unknown) => ['40P01', '23505'].includes(String((error as { code?: unknown }).code));

/** A night that is not complete after this time is given up. Shorter than rows are kept, so that none is handed off twice. */
const longestMs = 30 * 24 * 3_600_000;

interface Candidate extends HandedRun {
  /** The run itself. For a nightly run also the runs that retry it, oldest first. */
  readonly runs: readonly number[];
  /** The fault of the sweep of the night; null: none. */
  readonly sweep: string | null;
  readonly channels: readonly string[];
  readonly notify: string | null;
  readonly rejects_allowed: number;
}

/**
 * The run that has just ended, those whose decision failed, and the last night that has no certificate yet. A run that
 * ended in part counts, because sync.require_complete decides: later runs may have read the rest of a night.
 */
async function candidates(client: Client, account: string, run: number, now: Date): Promise<Candidate[]> {
  const { rows } = await client.query<Candidate>(
    `with recursive night as (
       (select n.id, n.started_at from sync.stored_runs n
        where n.account_id = $1 and n.kind = 'nightly' and n.retries is null and n.finished_at is not null
        order by n.id desc limit 1)
       union all
       select t.id, night.started_at from night join sync.stored_runs t on t.retries = night.id
       where t.account_id = $1 and t.kind = 'nightly' and t.id > night.id)
     select r.id as run, $1 as account, r.kind, r.began as started_at, r.finished_at as ended_at, a.queue, r.runs,
       case when r.kind = 'nightly' then (
         -- The sweep of a night is a run of its own, opened with its slot.
         select format('its sweep, run %s, %s', w.id, case w.state
           when 'running' then 'is not over' when 'partial' then 'ended partial' when 'failed' then 'failed' else 'was interrupted' end)
         from sync.stored_runs w
         where w.account_id = $1 and w.kind = 'sweep' and w.started_at = r.began and w.state <> 'completed' and exists (
           select from sync.stored_run_streams x
           where x.run_id = w.id and x.state <> 'completed' and not exists (
             select from sync.stored_run_streams y join sync.stored_runs o on o.id = y.run_id
             where y.account_id = $1 and y.stream_key = x.stream_key and y.run_id > w.id and y.state = 'completed' and o.kind = 'sweep'))
         limit 1) end as sweep,
       s.channels, s.notify, s.rejects_allowed
     from sync.hand_off_settings s join sync.accounts a using (account_id)
     cross join lateral (
       select o.id, o.kind, o.state, o.started_at as began, o.finished_at, array[o.id] as runs
       from sync.stored_runs o where o.account_id = $1 and o.kind <> 'nightly' and (o.id = $2 or o.finished_at >= $3 and o.id in (
         select h.run_id from sync.hand_offs h
         where h.account_id = $1 and h.certificate is null and h.withheld ^@ '${undecided}' order by h.id desc limit ${mostUndecided}))
       union all
       -- A clock that was set back must not hide a night, so its first decision counts too.
       (select o.id, o.kind, o.state, night.started_at, o.finished_at, array(select id from night order by id)
        from night join sync.stored_runs o using (id)
        where o.state in ('completed', 'partial') and o.finished_at >= $3 and (o.id = $2 or o.finished_at >= s.since or exists (
          select from sync.hand_offs h where h.account_id = $1 and h.run_id = o.id))
        order by o.id desc limit 1)) r
     where s.account_id = $1 and r.kind = any (s.runs) and r.state in ('completed', 'partial') and not exists (
         select from sync.hand_offs h
         where h.account_id = $1 and h.run_id = any (r.runs) and h.certificate is not null)
     order by r.id`,
    [account, run, new Date(now.getTime() - longestMs)],
  );
  return rows;
}

async function noteHandOff(client: Client, handed: Candidate, now: Date): Promise<void> {
  const why = handed.sweep ?? (await whyIncomplete(client, handed));
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
  select k.stream_key, k.source, k.follows, k.place, s.carried
  from sync.streams k cross join lateral (
    select min(i.started_at) as carried, count(*) > 0 as is_read
    from sync.stored_run_streams i where i.run_id = any ($1::bigint[]) and i.stream_key = k.stream_key) s
  where s.is_read or $3 and not sync.is_paused($2, k.stream_key) and exists (
    select from sync.stored_run_streams f where f.run_id = any ($1) and f.stream_key = k.source || '.' || k.follows)`;

/**
 * Says why the run is not complete. It must bring all that had happened one lookback before it began, by the clock of the
 * source. A backfill brings only its range, so its streams must be complete up to the end of that range, and must have
 * been read to it. The streams are asked in their order, and none after the first that is not complete.
 */
async function whyIncomplete(client: Client, handed: Candidate): Promise<string | undefined> {
  const { rows } = await client.query<{ why: string }>(
    `select w.why from (${streamsOfRun} order by k.place offset 0) k
     cross join lateral (
       select least($5::timestamptz, k.carried) - sync.lookback_of($2, k.source) - $6 * interval '1 millisecond' + coalesce((
         select (b.state #>> '{clock,offsetMs}')::float8 * interval '1 millisecond'
         from sync.budget b where (b.account_id, b.source) = ($2, k.source)), interval '0') as at) t
     cross join lateral (
       select coalesce(min(l.until), min(r.until), min(upper(c.covered))) as at
       from sync.coverage c
       left join sync.run_lists l on l.run_id = any ($1) and (l.stream_key, l.list) = (c.stream_key, c.list)
       left join sync.stored_runs r on r.id = any ($1)
       where c.account_id = $2 and c.stream_key = coalesce(k.source || '.' || k.follows, k.stream_key) and not c.redundant) top
     left join sync.stored_run_streams cut on $4 and cut.run_id = any ($1) and cut.stream_key = k.stream_key
       and (cut.deferred_until is not null or cut.error like 'the source''s clock jumped %')
     cross join lateral (
       select coalesce(k.stream_key || ' was not read to the end: ' || cut.error,
         sync.why_incomplete($2, k.stream_key, case when $4 then least(t.at, top.at) else t.at end, $7)) as why) w
     where w.why is not null limit 1`,
    [
      ...[handed.runs, handed.account, handed.kind === 'nightly', handed.kind === 'backfill'],
      ...[handed.started_at, clockToleranceMs, handed.rejects_allowed],
    ],
  );
  return rows[0]?.why;
}

/** The facts of each stream. Rows and credits of a night include its sweep, and the details that were fetched since. */
async function certifiedStreams(client: Client, handed: Candidate, now: Date): Promise<CertifiedStream[]> {
  const { rows } = await client.query<CertifiedStream>(
    `select k.stream_key as stream, sync.complete_from($2, k.stream_key) as complete_from, sync.complete_through($2, k.stream_key) as complete_through,
       (select count(*) from sync.gaps g
        where g.account_id = $2 and g.source = k.source and g.stream_key in (k.stream_key, k.source || '.' || k.follows)) as gaps,
       (select count(*) from sync.rejects r
        where r.account_id = $2 and r.stream_key in (k.stream_key, k.source || '.' || k.follows) and r.cleared_at is null) as open_rejects,
       sync.deletes_checked_at($2, k.stream_key) as deletions_checked_at, sync.unchecked_since($2, k.stream_key) as unchecked_since,
       u.differ_at_most_percent, u.differ_as_of, t.rows, t.credits
     from (${streamsOfRun}) k
     cross join lateral (
       select case when count(*) > 0 then sync.at_most_with_missing(sync.at_most(
           count(distinct u.record_id) filter (where u.differences is not null),
           count(distinct u.record_id) filter (where not u.unread)), $2, k.stream_key)::float8 end as differ_at_most_percent,
         min(u.checked_at) as differ_as_of
       from sync.audit u
       where u.account_id = $2 and u.stream_key = k.stream_key and u.random and u.checked_at > $4::timestamptz - interval '7 days') u
     cross join lateral (
       select jsonb_build_object('seen', coalesce(sum(s.seen), 0), 'inserted', coalesce(sum(s.inserted), 0),
           'updated', coalesce(sum(s.updated), 0), 'unchanged', coalesce(sum(s.unchanged), 0),
           'deleted', coalesce(sum(s.deleted), 0), 'rejected', coalesce(sum(s.rejected), 0)) as rows,
         coalesce(sum(s.credits), 0)::float8 as credits
       from sync.stored_run_streams s
       where s.stream_key = k.stream_key and (s.run_id = any ($1) or $3 and s.run_id in (
         select r.id from sync.stored_runs r
         where r.account_id = $2 and r.id > ($1::bigint[])[1] and (r.kind = 'hydrate' or r.kind = 'sweep' and r.started_at = $5)))) t
     order by k.place`,
    [handed.runs, handed.account, handed.kind === 'nightly', now, handed.started_at],
  );
  return rows;
}

/** Withheld hand-offs of the run make room: the order is that of the certificates. */
async function issue(client: Client, handed: Candidate, certificate: string, now: Date): Promise<void> {
  const { account, run, kind, started_at, ended_at, channels, notify } = handed;
  await client.query(sql`delete from sync.hand_offs where account_id = ${account} and run_id = any (${handed.runs})`);
  await client.query(sql`
    with issued as (
      insert into sync.hand_offs (account_id, run_id, kind, started_at, ended_at, issued_at, certificate)
      values (${account}, ${run}, ${kind}, ${started_at}, ${ended_at}, ${now}::timestamptz, ${certificate}) returning id, account_id),
    told as (
      select pg_notify(${notify}::text, ${handOffId(handed)}::text) where ${notify}::text is not null)
    insert into sync.hand_off_deliveries (hand_off_id, account_id, channel, next_try_at, delivered_at)
    select i.id, i.account_id, c.channel, '-infinity'::timestamptz, null::timestamptz from issued i, unnest(${channels}::text[]) c (channel)
    union all
    select i.id, i.account_id, 'notify', ${now}::timestamptz, ${now}::timestamptz from issued i, told`);
}

async function withhold(client: Client, handed: Candidate, why: string): Promise<void> {
  const { account, run, kind, started_at, ended_at } = handed;
  await client.query(sql`
    insert into sync.hand_offs as h (account_id, run_id, kind, started_at, ended_at, withheld)
    values (${account}, ${run}, ${kind}, ${started_at}, ${ended_at}, ${why})
    on conflict (account_id, run_id) do update set withheld = excluded.withheld
      where h.certificate is null and h.withheld <> excluded.withheld`);
}

/** Withholds the hand-off of the run that has just ended, if the candidates could not be read. */
async function withholdUnread(client: Client, run: number, why: string): Promise<void> {
  await client.query(sql`
    insert into sync.hand_offs (account_id, run_id, kind, started_at, ended_at, withheld)
    select r.account_id, r.id, r.kind, r.started_at, r.finished_at, ${why}
    from sync.stored_runs r join sync.hand_off_settings s using (account_id)
    where r.id = ${run} and r.kind = any (s.runs) and r.state in ('completed', 'partial')
    on conflict (account_id, run_id) do nothing`);
}

/** A hand-off that its receiver has not taken is kept. */
export async function forgetHandOffs(db: pg.Pool, account: string, before: Date): Promise<void> {
  await db.query(sql`
    delete from sync.hand_offs h where account_id = ${account} and coalesce(issued_at, ended_at) < ${before} and not exists (
    select from sync.hand_off_deliveries d where d.hand_off_id = h.id and d.delivered_at is null)`);
}
