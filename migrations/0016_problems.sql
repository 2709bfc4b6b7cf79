-- Up Migration

-- How fresh each stream is, and what is wrong now: read every few seconds by the page, the alarms, doctor and the health
-- endpoints, so each part of it is a look-up by an index, for all accounts at once.

create index audit_differs on sync.audit (account_id, checked_at) where kind is not null;
create index suspects_gone on sync.suspects (account_id, stream) where gone_at is not null;

-- Open and held tickets go first in a backlog: found without the others, however many wait.
create index tickets_waiting_open on helpdesk.tickets (account_id, updated_at desc)
  where (_messages_as_of is null or _messages_as_of < updated_at) and _deleted_at is null and state in ('open', 'hold');

create function sync.in_words(span interval) returns text
language sql immutable
begin atomic
  select case
    when s < 90 then round(s) || ' s' when s < 90 * 60 then round(s / 60) || ' min'
    when s < 48 * 3600 then round(s / 3600) || ' h' else round(s / 86400) || ' d' end
  from (select greatest(0, extract(epoch from span)) as s) seconds;
end;
comment on function sync.in_words(interval) is 'A span of time as people say it, in two digits: 3 s, 4 min, 33 h, 9 d.';

create function sync.option_of(account text) returns text
language sql immutable
begin atomic
  select case when account = 'default' then '' else ' --account ' || account end;
end;
comment on function sync.option_of(text) is 'What a command needs to mean this account: nothing for the one that is called default.';

create view sync.live_workers as
select w.id, w.account_id, w.works, w.host, w.pid, w.version, w.started_at
from sync.workers w
where w.id in (
  select l.objid::bigint from pg_locks l
  where l.locktype = 'advisory' and l.classid = 1397248855 and l.objsubid = 2 and l.granted
    and l.database = (select d.oid from pg_database d where d.datname = current_database()));
comment on view sync.live_workers is
  'The processes of sync.workers that are alive, found by one look at the locks: for whoever asks for more than one of them. Not to be joined row by row.';
do $$
declare
  said record;
begin
  for said in
    select v.attname as name, col_description(t.attrelid, t.attnum) as words
    from pg_attribute v
    join pg_attribute t on t.attrelid = 'sync.workers'::regclass and t.attname = v.attname
    where v.attrelid = 'sync.live_workers'::regclass and v.attnum > 0
  loop
    execute format('comment on column sync.live_workers.%I is %L', said.name, said.words);
  end loop;
end
$$;

-- The minutes are by the source's clock, and so has `since` to be.
create function sync.change_age(account text, stream text, percent numeric, since timestamptz default now() - interval '1 hour')
returns interval
language sql stable
begin atomic
  select make_interval(secs => min(c.age_seconds)) from (
    select a.age_seconds, sum(a.changes) over (order by a.age_seconds) as upto, sum(a.changes) over () as total
    from (
      select g.age_seconds, sum(g.changes) as changes from sync.change_ages g
      where g.account_id = account and g.stream = change_age.stream and g.minute >= since + coalesce((
        select (b.state #>> '{clock,offsetMs}')::float8 * interval '1 millisecond'
        from sync.streams k join sync.budget b on (b.account_id, b.source) = (account, k.source)
        where k.stream = change_age.stream), interval '0')
      group by 1) a) c
  where c.upto >= c.total * percent / 100;
end;
comment on function sync.change_age(text, text, numeric, timestamptz) is
  'So many percent of the changes that came since then (by default: within the last hour) were at most so old when they were here; null if none came. change_age(account, stream, 95) is the p95.';

-- By the source's clock, since what is here is told by it; and not before a first load has come to where the mirror began.
create function sync.behind(account text, stream text, at timestamptz default now()) returns interval
language sql stable
begin atomic
  with known as (
    select k.stream, a.mirrored_since,
      behind.at + coalesce((
        select (b.state #>> '{clock,offsetMs}')::float8 * interval '1 millisecond'
        from sync.budget b where (b.account_id, b.source) = (behind.account, k.source)), interval '0') as source_at,
      (select case when not bool_or(isempty(c.covered)) then min(upper(c.covered)) end
       from sync.coverage c
       where c.account_id = behind.account and c.stream = coalesce(k.follows, k.stream) and not c.redundant) as top
    from sync.accounts a cross join sync.streams k
    where a.account_id = behind.account and k.stream = behind.stream)
  select greatest(interval '0', n.source_at - least(n.top, case n.stream
    when 'messages' then (
      select t.updated_at from helpdesk.tickets t
      where t.account_id = behind.account and (t._messages_as_of is null or t._messages_as_of < t.updated_at)
        and t._deleted_at is null and t.updated_at > n.mirrored_since
        and not exists (
          select from sync.rejects r
          where r.account_id = t.account_id and r.stream = 'messages' and r.ask_id = t.id and r.cleared_at is null
          offset 0)
      order by t.updated_at limit 1)
    when 'volumes' then (
      select min(w.waits_since) from sync.waiting_volumes w join books.volumes v using (account_id, id)
      where w.account_id = behind.account and not w.rejected and (v._checked_at is not null or exists (
        select from books.shelf_volume_history h
        where h.account_id = w.account_id and h.volume_id = w.id and h.position is not null and h.change_after is not null)))
    end))
  from known n
  where n.top > n.mirrored_since - interval '1 hour';
end;
comment on function sync.behind(text, text, timestamptz) is
  'How far the newest part of the stream is behind: all that changed longer ago than this, and after the mirror began, is here, but for open rejects. History that is still missing does not count. Null until its first load has come to where the mirror began, and where a list of it was never read. The lookback (HELPDESK_LOOKBACK_SECONDS) is part of it: so much is never certain.';

-- The last run of a stream is looked up from its newest one on, and the kind of each by itself: joined with the runs, those of
-- all accounts would be walked through.
create or replace view sync.status as
select s.account_id, s.stream,
  e.complete_through,
  now() - e.complete_through as lag,
  h.holes,
  w.waiting,
  (select count(*) from sync.rejects r
   where r.account_id = s.account_id and r.stream = s.stream and r.cleared_at is null) as open_rejects,
  l.run_id as last_run,
  l.state as last_state,
  l.finished_at as last_finished_at,
  (select g.finished_at from sync.stored_run_streams g
   where g.account_id = s.account_id and g.stream = s.stream and g.state = 'completed'
     and (select o.kind from sync.stored_runs o where o.id = g.run_id) not in ('audit', 'verify')
   order by g.finished_at desc limit 1) as last_success_at,
  case when l.state = 'interrupted' and l.finished_at is null then 'its process is gone' else l.error end as last_error,
  case when l.state = 'interrupted' and l.finished_at is null
    then 'Nothing to do while a worker runs: it goes on there. Else run `npx shelfdesk start`, or the same command again.' else l.remedy end as remedy,
  k.source,
  l.sleeps_until,
  sync.deletes_checked_at(s.account_id, s.stream) as deletes_checked_at,
  -- As sync.certainty has it for any field; here by stream, and not at all where nobody asks for it.
  (select case when count(*) > 0 then
      sync.at_most(count(distinct u.record_id) filter (where u.differences is not null), count(distinct u.record_id) filter (where not u.unread)) end
   from sync.audit u
   where u.account_id = s.account_id and u.stream = s.stream and u.random and u.checked_at > now() - interval '7 days') as differ_at_most_percent,
  (select min(u.checked_at) from sync.audit u
   where u.account_id = s.account_id and u.stream = s.stream and u.random and u.checked_at > now() - interval '7 days') as differ_as_of,
  b.behind,
  t.target,
  case
    when sync.is_paused(s.account_id, s.stream) or sync.is_paused(s.account_id, k.follows) then 'paused'
    when l.run_id is null then 'never_synced'
    when d.state = 'failed' then 'failing'
    when b.behind is null then 'catching_up'
    when b.behind > t.target and not coalesce(d.sleeps_until > now(), false) then 'stale'
    when (w.waiting > 0 or h.holes > 0)
      and not coalesce(e.complete_through > now() - greatest(t.target, b.behind), false) then 'catching_up'
    when d.sleeps_until > now() and w.waiting > 0 then 'catching_up'
    else 'fresh' end as state,
  sync.change_age(s.account_id, s.stream, 50) as age_p50,
  sync.change_age(s.account_id, s.stream, 95) as age_p95
from (
  select distinct c.account_id, k.stream
  from sync.coverage c join sync.streams k on c.stream in (k.stream, k.follows)
) s
join sync.streams k using (stream)
cross join lateral (select sync.complete_through(s.account_id, s.stream) as complete_through offset 0) e
cross join lateral (
  select count(*) as holes from sync.holes h where h.account_id = s.account_id and h.stream = s.stream) h
cross join lateral (
  select case s.stream
    when 'messages' then (
      select count(*) from helpdesk.tickets t
      where t.account_id = s.account_id
        and (t._messages_as_of is null or t._messages_as_of < t.updated_at)
        and t._deleted_at is null)
    when 'volumes' then (select count(*) from sync.waiting_volumes w where w.account_id = s.account_id)
    else 0 end as waiting) w
cross join lateral (select sync.behind(s.account_id, s.stream) as behind offset 0) b
left join sync.targets t on (t.account_id, t.subject) = (s.account_id, s.stream)
left join lateral (
  select r.run_id,
    case when r.state = 'waiting' and (select u.state from sync.runs u where u.id = r.run_id) = 'interrupted'
      then 'interrupted' else r.state end as state,
    r.finished_at, r.error, r.remedy, r.sleeps_until
  from sync.run_streams r
  -- Audits and verifications compare what others have read: they say nothing of how far that is.
  where r.account_id = s.account_id and r.stream = s.stream
    and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('audit', 'verify')
  order by r.run_id desc
  limit 1
) l on true
-- One that is at work says nothing yet of how it ends.
left join lateral (
  select r.state, r.sleeps_until
  from sync.stored_run_streams r
  where r.account_id = s.account_id and r.stream = s.stream and r.state not in ('waiting', 'running')
    and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('audit', 'verify', 'sweep', 'backfill')
  order by r.run_id desc
  limit 1
) d on true;
comment on column sync.status.behind is
  'How far its newest part is behind: what changed longer ago, and after the mirror began, is here. Unlike lag it leaves out history that is still missing. See sync.behind.';
comment on column sync.status.target is 'How far it may be behind: what the settings promise. See sync.targets.';
comment on column sync.status.state is
  'fresh; catching_up (within its target, but history or what waits is still missing, or its first load is under way, or the requests of the day are spent); stale (behind its target); failing (the last run that has ended failed); never_synced; paused (by people, or what it follows is).';
comment on column sync.status.age_p50 is 'Half of the changes of the last hour were at most so old when they were here; null if none came.';
comment on column sync.status.age_p95 is '95 % of the changes of the last hour were at most so old when they were here; null if none came.';

-- The same, not materialized: who asks for one stream of one account pays for no other one.
create or replace view sync.certainty as
with counted as not materialized (
  select account_id, stream, record_id, checked_at, unread, differences
  from sync.audit
  where random and checked_at > now() - interval '7 days'),
totals as not materialized (
  select account_id, stream, count(distinct record_id) as drawn, count(distinct record_id) filter (where not unread) as checked,
    min(checked_at) as as_of
  from counted
  group by account_id, stream),
differing as not materialized (
  select c.account_id, c.stream, f.field, count(distinct c.record_id) as differed
  from counted c cross join lateral (select '' as field union all select jsonb_object_keys(c.differences)) f
  where c.differences is not null
  group by c.account_id, c.stream, f.field)
select t.account_id, t.stream, f.field, t.checked, coalesce(d.differed, 0) as differed, t.drawn - t.checked as unread,
  sync.at_most(coalesce(d.differed, 0), t.checked) as at_most_percent, t.as_of
from totals t
join (select account_id, stream, '' as field from totals union select account_id, stream, field from differing) f
  using (account_id, stream)
left join differing d using (account_id, stream, field);

-- What carries no kind differs in nothing: it need not be looked at.
create or replace view sync.proposals as
select k.account_id, k.stream, k.kind, k.times, k.last_at, r.setting, r.remedy
from (
  select a.account_id, a.stream, one.kind, count(*) as times, max(a.checked_at) as last_at
  from sync.audit a, unnest(string_to_array(a.kind, '; ')) one (kind)
  where a.checked_at > now() - interval '30 days' and a.kind is not null
  group by a.account_id, a.stream, one.kind
  having count(distinct a.run_id) >= 2) k
cross join lateral (
  select case
      when k.kind in ('changed here', 'only here') then null
      when k.kind in ('a change was missed', 'missing here') then null
      when k.kind = 'renamed' then null
      when k.stream = 'messages' then 'MESSAGES_AGE_DAYS'
      when k.stream = 'users' then 'SCHEDULE_NIGHTLY'
      else 'SWEEP_AGE_DAYS' end as setting,
    case
      when k.kind in ('changed here', 'only here') then 'Somebody else writes to these tables: let nobody but the worker do so.'
      when k.kind in ('a change was missed', 'missing here') then 'Read the range again: backfill --again. If it happens anew, please report it.'
      when k.kind = 'renamed' then 'Nothing to do: names of labels and inboxes are looked at again once a week.'
      when k.stream = 'messages' then 'Nothing announces it: set MESSAGES_AGE_DAYS, so that messages are read again after so many days.'
      when k.stream = 'users' then 'Nothing announces it: let the night come more often, by SCHEDULE_NIGHTLY.'
      else 'Nothing announces it: set SWEEP_AGE_DAYS lower, so that everything is looked at again sooner.' end as remedy) r;

create table sync.alarms (
  id bigint generated always as identity primary key,
  account_id text not null,
  problem text not null,
  stream text not null default '',
  severity text not null,
  says text not null,
  remedy text not null,
  began_at timestamptz not null,
  gone_at timestamptz,
  ended_at timestamptz,
  told_begin_at timestamptz,
  told_end_at timestamptz,
  tries int not null default 0,
  next_try_at timestamptz,
  last_error text
);
create unique index alarms_open on sync.alarms (account_id, problem, stream) where ended_at is null;
create index alarms_due on sync.alarms (next_try_at) where next_try_at is not null;
comment on table sync.alarms is
  'Problems of sync.problems that people are told of, by a webhook where one is set: one row from the beginning of each to its end. Kept for 35 days after that.';
comment on column sync.alarms.id is 'Number of the alarm; what is sent carries it.';
comment on column sync.alarms.account_id is 'The operator''s name for the mirrored account.';
comment on column sync.alarms.problem is 'The problem, as in sync.problems.';
comment on column sync.alarms.stream is 'The stream; empty: the whole account.';
comment on column sync.alarms.severity is 'critical or warning.';
comment on column sync.alarms.says is 'What is wrong, as it was when it was last seen.';
comment on column sync.alarms.remedy is 'What to do about it.';
comment on column sync.alarms.began_at is 'When it was first seen. It is told once it has lasted for a minute.';
comment on column sync.alarms.gone_at is 'Since when it is not seen any more; null while it is. Gone for a minute, it has ended.';
comment on column sync.alarms.ended_at is 'When it ended; null while it lasts.';
comment on column sync.alarms.told_begin_at is 'When the webhook took the word of its beginning; null if it has not.';
comment on column sync.alarms.told_end_at is 'When the webhook took the word of its end; null if it has not.';
comment on column sync.alarms.tries is 'How often the webhook was tried in vain for what is to be told next.';
comment on column sync.alarms.next_try_at is 'When the webhook is tried next, or again should whoever tries it now die; null: nothing is to be told.';
comment on column sync.alarms.last_error is 'Why the webhook did not take it the last time; null if it was not tried in vain.';

create view sync.problems as
with streams as not materialized (
  select distinct c.account_id, k.stream
  from sync.coverage c join sync.streams k on c.stream in (k.stream, k.follows)),
last_runs as (
  -- The last run that has ended, of those that read the top of a stream; and the last one that swept it.
  select s.account_id, s.stream, k.source, false as sweeps, d.*
  from streams s join sync.streams k using (stream)
  cross join lateral (
    select r.run_id, (select u.kind from sync.stored_runs u where u.id = r.run_id) as kind,
      r.state, r.error, r.remedy, r.exit_code, r.finished_at
    from sync.stored_run_streams r
    where r.account_id = s.account_id and r.stream = s.stream and r.state not in ('waiting', 'running')
      and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('sweep', 'audit', 'verify', 'backfill')
    order by r.run_id desc limit 1) d
  union all
  select s.account_id, s.stream, k.source, true, d.*
  from streams s join sync.streams k using (stream)
  cross join lateral (
    select r.run_id, u.kind, r.state, r.error, r.remedy, r.exit_code, r.finished_at
    from (
      select i.id, i.kind from sync.stored_runs i
      where i.account_id = s.account_id and i.kind = 'sweep' order by i.id desc offset 0) u
    cross join lateral (
      select * from sync.stored_run_streams i
      where i.run_id = u.id and i.stream = s.stream and i.state not in ('waiting', 'running') offset 0) r
    order by u.id desc limit 1) d),
failing as (
  select d.*,
    case
      when d.exit_code = 4 and not p.proven then case when not d.sweeps then 'token_refused' end
      when d.sweeps and d.error like '%seem to have been deleted at the source%' then 'mass_deletion_stopped'
      else 'run_failed' end as problem,
    (select coalesce(min(f.finished_at), d.finished_at)
     from sync.stored_run_streams f
     where f.account_id = d.account_id and f.stream = d.stream and f.state = 'failed'
       and case when d.sweeps then (select u.kind from sync.stored_runs u where u.id = f.run_id) = 'sweep'
         else (select u.kind from sync.stored_runs u where u.id = f.run_id) not in ('sweep', 'audit', 'verify', 'backfill') end
       and f.run_id > coalesce((
         select g.run_id from sync.stored_run_streams g
         where g.account_id = d.account_id and g.stream = d.stream and g.state in ('completed', 'partly')
           and case when d.sweeps then (select u.kind from sync.stored_runs u where u.id = g.run_id) = 'sweep'
             else (select u.kind from sync.stored_runs u where u.id = g.run_id) not in ('sweep', 'audit', 'verify', 'backfill') end
         order by g.run_id desc limit 1), 0)) as failing_since
  from last_runs d
  -- Whatever the source has answered since, it has taken the token.
  cross join lateral (
    select exists (
      select from sync.streams k join sync.stored_run_streams o on o.account_id = d.account_id and o.stream = k.stream
      where k.source = d.source and o.run_id > d.run_id and o.state in ('completed', 'partly') and o.credits > 0) as proven) p
  where d.state = 'failed'),
nights as (
  select a.account_id, n.slot, n.run_id, coalesce(t.target, interval '6 hours') as target
  from sync.accounts a
  cross join lateral (
    select s.slot, s.run_id from sync.schedule_slots s
    where s.account_id = a.account_id and s.schedule = 'nightly' and s.run_id is not null
    order by s.slot desc limit 1) n
  left join sync.targets t on (t.account_id, t.subject) = (a.account_id, 'nightly')),
-- Apart, since whatever looks at the locks takes no condition from outside: one account would cost what all of them do.
alive as materialized (
  select distinct w.account_id from sync.live_workers w where w.works),
found as (
  select r.account_id, r.stream, r.problem, case r.problem when 'run_failed' then 'warning' else 'critical' end as severity,
    case r.problem
      when 'token_refused' then format('The source refuses our token: %s.', min(r.error))
      when 'run_failed' then string_agg(
        format('Run %s (%s) of %s failed: %s.', r.run_id, r.kind, r.stream, r.error), ' ' order by r.run_id)
      else format('%s %s and perhaps more seem to have been deleted at the source, too many to be believed; none was marked as deleted here.',
        min(g.many), r.stream) end as says,
    case r.problem
      when 'token_refused' then coalesce(min(r.remedy), 'Set a token that is valid, and start the workers again.')
      when 'run_failed' then string_agg(distinct coalesce(r.remedy, 'Look at the log.'), ' ')
      else format('Look there whether it is so; if it is, run `npx shelfdesk sweep %s --accept-deletions%s`; if not, the next sweep asks again.',
        r.stream, sync.option_of(r.account_id)) end as remedy,
    min(coalesce(g.since, r.failing_since)) as since
  from failing r
  left join lateral (
    select count(*) as many, min(o.gone_since) as since from sync.open_suspects o
    where o.account_id = r.account_id and o.stream = r.stream and o.gone_at is not null) g on r.problem = 'mass_deletion_stopped'
  where r.problem <> 'mass_deletion_stopped' or g.many > 0
  group by r.account_id, r.stream, r.problem
  union all
  select n.account_id, null, 'nightly_failed', 'critical',
    string_agg(format(case n.kind when 'sweep' then 'The sweep of the night (run %s) %s.' else 'The nightly run %s %s.' end, n.id,
      case n.state when 'failed' then 'failed' else 'was interrupted, and nobody went on with it' end), ' ' order by n.id),
    string_agg(format('See `npx shelfdesk runs show %s%s`; then run `npx shelfdesk runs retry %1$s%2$s`, or wait for the next night.',
      n.id, sync.option_of(n.account_id)), ' ' order by n.id),
    min(n.finished_at)
  from (
    select r.* from sync.accounts a
    cross join lateral (
      select r.account_id, r.kind, r.id, r.state, r.finished_at from sync.stored_runs r
      where r.account_id = a.account_id and r.kind = 'nightly' and r.finished_at is not null
      order by r.id desc limit 1) r
    union all
    -- What a night sweeps is a run of its own, opened with its slot.
    select r.* from sync.accounts a
    cross join lateral (
      select r.account_id, r.kind, r.id, r.state, r.finished_at from sync.stored_runs r
      where r.account_id = a.account_id and r.kind = 'sweep' and r.finished_at is not null and exists (
        select from sync.schedule_slots p
        where p.account_id = r.account_id and p.schedule = 'nightly' and p.claimed_at = r.started_at
        offset 0)
      order by r.id desc limit 1) r
    where not exists (
        select from sync.stored_runs o
        where o.account_id = r.account_id and o.kind = 'sweep' and o.id > r.id and o.state in ('completed', 'partly')
        offset 0)
      -- Where it stopped for so many deletions, that is said.
      and exists (
        select from sync.stored_run_streams s
        where s.run_id = r.id and s.state in ('failed', 'interrupted')
          and coalesce(s.error, '') not like '%seem to have been deleted at the source%'
        offset 0)) n
  where n.state = 'failed' or n.state = 'interrupted' and not exists (
    -- Whoever has ended it knows.
    select from sync.operations o
    where o.account_id = n.account_id and o.action = 'cancel' and o.subject = n.id::text and o.outcome = 'done'
    offset 0)
  group by n.account_id
  union all
  select n.account_id, null, 'nightly_late', 'warning',
    format('The nightly run %s was due %s ago and is still at work; it was to take %s at most.',
      n.run_id, sync.in_words(now() - n.slot), sync.in_words(n.target)),
    format('See what it does by `npx shelfdesk runs show %s%s`; if it has to take so long, raise NIGHTLY_WITHIN_HOURS.',
      n.run_id, sync.option_of(n.account_id)),
    n.slot + n.target
  from nights n
  where now() > n.slot + n.target and exists (
    select from sync.stored_runs r join sync.stored_run_streams s on s.run_id = r.id
    where r.id = n.run_id and r.state = 'running' and s.state in ('waiting', 'running')
      and not sync.is_paused(s.account_id, s.stream)
    offset 0)
  union all
  select b.account_id, b.stream, 'past_target', 'warning',
    format('%s is %s behind; %s were promised.', b.stream, sync.in_words(b.behind), sync.in_words(b.target)),
    format('See `npx shelfdesk status%s` for what holds it up; if more cannot be had at these limits, raise FRESHNESS_TARGETS.',
      sync.option_of(b.account_id)),
    now() - (b.behind - b.target)
  from (
    select s.account_id, s.stream, t.target, l.behind
    from streams s join sync.targets t on (t.account_id, t.subject) = (s.account_id, s.stream)
    cross join lateral (select sync.behind(s.account_id, s.stream) as behind offset 0) l) b
  where b.behind > b.target and not coalesce((
    select r.sleeps_until > now() from sync.stored_run_streams r
    where r.account_id = b.account_id and r.stream = b.stream and r.state not in ('waiting', 'running')
      and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('sweep', 'audit', 'verify', 'backfill')
    order by r.run_id desc limit 1), false)
  union all
  select c.account_id, null, 'credits_refused', 'warning',
    format('Within the last 15 minutes %s refused for want of credits (429): %s.',
      case sum(c.refused) when 1 then '1 request was' else sum(c.refused) || ' requests were' end,
      string_agg(case c.source when 'books' then 'by the book catalog ' else 'by the help desk ' end || c.refused, ', ' order by c.source desc)),
    'Somebody else uses more than the reserve, or the limits are lower than the settings say: compare HELPDESK_CREDITS, HELPDESK_REQUESTS_PER_SECOND and HELPDESK_RESERVE (of the catalog BOOKS_REQUESTS_PER_DAY) with what the source allows.',
    min(c.since)
  from (
    select m.account_id, m.source, sum(m.refused) as refused, min(m.minute) as since
    from sync.accounts a join sync.credit_minutes m using (account_id)
    where m.source in ('helpdesk', 'books') and m.minute > now() - interval '15 minutes' and m.refused > 0
    group by 1, 2) c
  group by c.account_id
  union all
  select d.account_id, d.stream, 'audit_found_drift', 'warning',
    format('Within the last 24 hours %s records of %s were found to differ from the source: %s.', count(distinct d.record_id), d.stream,
      string_agg(distinct d.kind, '; ')),
    format('See `npx shelfdesk sql "select * from sync.audit where account_id = %L and kind is not null"` for what differs. It ends by itself after 24 hours without another one.',
      d.account_id),
    min(d.checked_at)
  from (
    select u.account_id, coalesce(k.stream, 'tickets') as stream, u.stream || ' ' || u.record_id as record_id, u.kind, u.checked_at
    from sync.accounts a join sync.audit u using (account_id) left join sync.streams k on k.stream = u.stream
    where u.kind is not null and u.checked_at > now() - interval '24 hours') d
  group by d.account_id, d.stream
  union all
  select h.account_id, h.stream, 'hole', 'warning',
    format('%s ranges of %s could not be read, the first from %s on: %s.', count(*), h.stream,
      to_char(min(h.hole_from) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), min(h.reason)),
    format('Run `npx shelfdesk backfill %s%s`.', h.stream, sync.option_of(h.account_id)),
    (select min(r.found_at) from sync.hole_reasons r where r.account_id = h.account_id and r.stream = h.stream)
  from sync.holes h where h.reason is not null
  group by h.account_id, h.stream
  union all
  select r.account_id, r.stream, 'rejects_open', 'warning',
    format('%s records of %s could not be stored, or read.', count(*), r.stream),
    format('See `npx shelfdesk rejects list%s`; what can be asked for again is asked for again by itself.', sync.option_of(r.account_id)),
    min(r.first_seen_at)
  from sync.rejects r where r.cleared_at is null
  group by r.account_id, r.stream
  union all
  select a.account_id, null, 'no_worker', 'critical', 'Nobody is at work on this account, and its schedule is not kept.',
    format('Run `npx shelfdesk start`; if the account is to rest, `npx shelfdesk pause%s`.', sync.option_of(a.account_id)),
    s.last_at
  from sync.accounts a
  cross join lateral (
    select max(l.claimed_at) as last_at
    from (values ('fresh'), ('nightly')) w (schedule)
    cross join lateral (
      select p.claimed_at from sync.schedule_slots p
      where p.account_id = a.account_id and p.schedule = w.schedule
      order by p.slot desc limit 1) l) s
  where s.last_at is not null
    -- Somebody reads it by himself, as by a cron of his own.
    and not coalesce((
      select r.started_at > greatest(s.last_at, now() - interval '26 hours') from sync.stored_runs r
      where r.account_id = a.account_id and r.kind = 'sync' order by r.id desc limit 1), false)
    and exists (select from sync.targets t where t.account_id = a.account_id)
    and not exists (select from alive w where w.account_id = a.account_id)
  union all
  select m.account_id, null, 'alarms_undelivered', 'warning',
    format('The webhook does not take %s alarms: %s.', count(*), (array_agg(m.last_error order by m.id desc))[1]),
    'Look at its receiver, and at ALARM_WEBHOOK_URL and ALARM_FORMAT; it is tried again, in the end once an hour.',
    min(m.began_at)
  from sync.alarms m where m.next_try_at is not null and m.last_error is not null
  group by m.account_id
  union all
  select p.account_id, nullif(p.stream, ''), 'paused', 'info',
    format('%s was told to wait by %s%s.', coalesce(nullif(p.stream, ''), 'The account'), p.paused_by, coalesce(': ' || p.reason, '')),
    format('Run `npx shelfdesk resume%s%s`.', coalesce(' ' || nullif(p.stream, ''), ''), sync.option_of(p.account_id)),
    p.paused_at
  from sync.paused p
  union all
  select p.account_id, coalesce(k.stream, 'tickets'), 'proposal', 'info',
    format('Comparisons found of %s, more than once: %s.', coalesce(k.stream, 'tickets'), string_agg(distinct p.kind, '; ')),
    string_agg(distinct p.remedy, ' '), max(p.last_at)
  from sync.proposals p left join sync.streams k on k.stream = p.stream
  group by p.account_id, coalesce(k.stream, 'tickets'))
select f.account_id, f.stream, f.problem, f.severity, f.says, f.remedy, f.since
from found f
left join sync.streams k on k.stream = f.stream
where f.problem in ('paused', 'alarms_undelivered') or not exists (
  select from sync.paused p
  where p.account_id = f.account_id
    and p.stream in ('', f.stream, case when f.problem = 'past_target' then k.follows end));
comment on view sync.problems is
  'What is wrong now, one row for each problem of an account or a stream: what the page, the alarms, `doctor` and the health endpoints say. Empty if all is well. Of what people have paused only that is said.';
comment on column sync.problems.account_id is 'The account.';
comment on column sync.problems.stream is 'The stream; null: the whole account.';
comment on column sync.problems.problem is
  'Its code: token_refused, run_failed, nightly_failed, nightly_late, past_target, credits_refused, mass_deletion_stopped, audit_found_drift, hole, rejects_open, no_worker, alarms_undelivered, paused, proposal.';
comment on column sync.problems.severity is 'critical: nothing goes on before a person acts; warning: something was promised and is not kept; info.';
comment on column sync.problems.says is 'What is wrong, in a sentence.';
comment on column sync.problems.remedy is 'What to do about it.';
comment on column sync.problems.since is 'Since when, as far as it is known.';
