-- Up Migration

alter table sync.coverage add column since timestamptz, add column lookback interval, add column page_size integer,
  add column pages_vary boolean not null default false, add column ends_proven_through timestamptz;

alter table sync.rejects add column path text;
comment on column sync.rejects.path is
  'The first field whose value has another shape than documented; empty for the record as a whole. Null if something else is the reason.';


alter table sync.stored_run_streams add column answer text;
comment on column sync.stored_run_streams.answer is
  'An outage of the source that ended the stream, as: The help desk answers 503. Null otherwise.';

create or replace function sync.time_in_words(at timestamptz) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select to_char(at at time zone 'UTC',
    case when (at at time zone 'UTC')::date = (now() at time zone 'UTC')::date then 'HH24:MI"Z"' else 'YYYY-MM-DD"T"HH24:MI"Z"' end)
$$;
comment on function sync.time_in_words is 'A time in UTC to the minute, with its date unless it is of today: 23:07Z, 2026-06-01T23:07Z.';

create or replace function sync.label_of(source text) returns text
language sql immutable
begin atomic
  select case source when 'helpdesk' then 'the help desk' when 'books' then 'the book catalog' else 'the source ' || source end;
end;
comment on function sync.label_of is 'A source as people call it.';

create or replace view sync.reject_groups as
select g.account_id, g.stream, g.path, g.reason, g.rejects, g.since, g.last_seen_at,
  format('%s × %s, since %s%s', g.rejects, g.reason, sync.time_in_words(g.since), case when g.path is not null and g.rejects >= 5 then ': the interface has changed' end) as says,
  g.source, g.stream_key
from (
  select r.account_id, r.source, r.stream, r.stream_key, t.path, t.reason,
    count(*) as rejects, min(r.first_seen_at) as since, max(r.last_seen_at) as last_seen_at
  from sync.rejects r
  -- Neither the place in a list nor the id in a request makes another reason.
  cross join lateral (
    select regexp_replace(r.path, '\.\d+(?=\.|$)', '[]', 'g') as path,
      case when r.path is null then replace(r.reason, '/' || coalesce(r.ask_id, r.record_id, ''), '/…')
        else regexp_replace(split_part(r.reason, '; ', 1), '\.\d+(?=[.:])', '[]', 'g') end as reason) t
  where r.cleared_at is null
  group by r.account_id, r.source, r.stream, r.stream_key, t.path, t.reason) g;
comment on view sync.reject_groups is
  'Open rejects by their reason. Rejects of one group have one cause, as a format that the source has changed.';
comment on column sync.reject_groups.path is
  'The first field whose value has another shape than documented, as messages[].created_at; null if something else is the reason.';
comment on column sync.reject_groups.reason is 'The reason, without what differs from record to record.';
comment on column sync.reject_groups.rejects is 'Number of open rejects.';
comment on column sync.reject_groups.since is 'Time of the first of these rejections.';
comment on column sync.reject_groups.last_seen_at is 'Time of the last of these rejections.';
comment on column sync.reject_groups.says is 'The group in one sentence.';

create or replace view sync.most_rejected as
select g.account_id, g.stream, g.rejects, g.since, g.last_seen_at,
  g.last_seen_at + least(interval '6 hours', greatest(interval '1 minute', g.last_seen_at - g.half_at)) as next_try_at,
  g.source, g.stream_key
from (
  select r.account_id, r.source, r.stream, r.stream_key, count(*) as rejects, min(r.first_seen_at) as since, max(r.last_seen_at) as last_seen_at,
    (array_agg(r.first_seen_at order by r.first_seen_at desc))[5] as few_at,
    percentile_disc(0.5) within group (order by r.first_seen_at) as half_at
  from sync.rejects r
  where r.cleared_at is null and r.path is not null
  group by r.account_id, r.source, r.stream, r.stream_key
  having count(*) >= 5) g
cross join lateral (
  select count(*) as rejects from sync.rejects r
  where r.account_id = g.account_id and r.stream_key = g.stream_key and r.cleared_at is null and r.path is not null and r.first_seen_at >= g.few_at) few
-- The sum is taken from the last run on, and ends as soon as enough was stored.
where not exists (
  select from (
    select sum(s.inserted + s.updated + s.unchanged) over (order by s.run_id desc) as stored
    from sync.stored_run_streams s
    where s.account_id = g.account_id and s.stream_key = g.stream_key and (s.finished_at is null or s.finished_at >= g.few_at)) w
  where w.stored >= few.rejects);
comment on view sync.most_rejected is
  'Streams of which most is rejected because its shape is not as documented: since the fifth youngest of its open rejects came, the runs have rejected more records than they stored. Instead of reading such a stream, a run asks for one record, at times that grow rarer.';
comment on column sync.most_rejected.rejects is 'Number of open rejects of such a reason.';
comment on column sync.most_rejected.since is 'Time of the first of these rejections.';
comment on column sync.most_rejected.last_seen_at is 'Time of the last of these rejections.';
comment on column sync.most_rejected.next_try_at is
  'When one record is asked for again: after 1, 2, 4 … minutes, at most 6 hours. A run that a person starts asks at once.';

create or replace function sync.newest_change(account text, stream text) returns timestamptz
language sql stable
begin atomic
  select case coalesce(k.source || '.' || k.follows, k.stream_key)
    when 'helpdesk.tickets' then greatest(
      (select max(t.updated_at) from helpdesk.tickets t where t.account_id = account and t._deleted_at is null),
      (select max(t._deleted_at) from helpdesk.tickets t where t.account_id = account))
    -- The list shows no creation time. A first load bounds it from one side only.
    when 'helpdesk.customers' then greatest(
      (select max(c._created_before) from helpdesk.customers c
       where c.account_id = account and c._deleted_at is null and c._created_after > '1970-01-01T00:00:00Z'::timestamptz),
      (select max(c._deleted_at) from helpdesk.customers c where c.account_id = account)) end
  from sync.streams k
  where k.stream_key = sync.key_of(newest_change.stream);
end;
comment on function sync.newest_change is
  'Latest dated change of a record: update or deletion of tickets, creation or deletion of customers. A deletion counts as of the time by which it had happened. Null for streams without dates. Messages change with their tickets. The argument is the stream''s key, or its short name if only one source has a stream of that name.';

create or replace function sync.deletes_checked_at(account text, stream text) returns timestamptz
language sql stable
begin atomic
  with asked as materialized (
    select coalesce(k.source || '.' || k.follows, k.stream_key) as stream_key
    from sync.streams k
    where k.stream_key = sync.key_of(deletes_checked_at.stream) and k.deletions is null),
  swept as (
    select s.list, s.created, s.as_of
    from sync.coverage c
    join sync.swept s using (account_id, stream_key, list)
    where c.account_id = account and c.stream_key = (select a.stream_key from asked a) and not c.redundant),
  reach as (
    select c.list, (
        select upper(part)
        from (select range_agg(s.created) as parts from swept s where s.list = c.list) one, unnest(one.parts) part
        where part @> '1970-01-01T00:00:00Z'::timestamptz) as top
    from sync.coverage c
    where c.account_id = account and c.stream_key = (select a.stream_key from asked a) and not c.redundant)
  select case
    -- A read of shelves counts only once every shelf that the list lacks is known to be gone.
    when (select a.stream_key from asked a) = 'books.shelves' then sync.lists_complete_through(account, 'books.shelves')
    when (select count(*) = 0 or bool_or(r.top is null) from reach r) then null
    when (select a.stream_key from asked a) = 'helpdesk.tickets'
      and exists (
        select from helpdesk.tickets t where t.account_id = account and t.created_at is null and t._deleted_at is null)
      and not exists (
        select from sync.swept s where s.account_id = account and s.stream_key = 'helpdesk.tickets' and s.list = 'undated') then null
    else least(
      (select min(r.top) from reach r),
      (select min(s.as_of) from swept s join reach r using (list) where lower(s.created) < r.top),
      (select min(s.as_of) from sync.swept s
       where s.account_id = account and s.stream_key = (select a.stream_key from asked a) and s.list = 'undated'
         and s.stream_key = 'helpdesk.tickets' and exists (
           select from helpdesk.tickets t
           where t.account_id = account and t.created_at is null and t._deleted_at is null)),
      (select min(o.alive_at) from sync.open_deletion_candidates o
       where o.account_id = account and o.stream_key = (select a.stream_key from asked a)))
  end;
end;
comment on function sync.deletes_checked_at is
  'Up to this time, the source had deleted none of the records that the stream shows as existing. Null if that is unknown, such as before the first whole sweep. Messages and volumes leave with their tickets and shelves. The argument is the stream''s key, or its short name if only one source has a stream of that name.';

create or replace function sync.complete_from(account text, stream text) returns timestamptz
language sql stable
begin atomic
  -- 1970 means everything, as in sync.accounts.since. An unread start is where the mirror is to begin.
  select case when max(b.at) > '1970-01-01T00:00:00Z'::timestamptz then max(b.at) end
  from (
    select coalesce((select lower(part) from unnest(c.covered) part where part @> g.since), g.since) as at
    from sync.streams k
    join sync.coverage c on c.source = k.source and c.stream = coalesce(k.follows, k.stream)
    join sync.accounts a using (account_id)
    cross join lateral (select coalesce(c.since, a.since) as since) g
    where k.stream_key = sync.key_of(complete_from.stream) and c.account_id = account and not c.redundant) b;
end;
comment on function sync.complete_from is
  'Start of the stream in the mirror: records last changed before this time may be missing. Null: complete from the beginning. A backfill of older ranges moves it back. Messages and volumes start with their tickets and shelves. The argument is the stream''s key, or its short name if only one source has a stream of that name.';

create or replace function sync.at_most_with_missing(at_most numeric, account text, stream text) returns numeric
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select case when coalesce(m.missing, 0) <= 0 then at_most
    else trim_scale(ceil((m.missing + at_most / 100 * m.here) / (m.missing + m.here) * 1000000) / 10000) end
  from (
    select sum(c.ours) as here, sum(greatest(0, c.theirs_least - c.ours)) - (
        select count(*) from sync.audit a
        where a.run_id = max(c.run_id) and a.stream_key = at_most_with_missing.stream and a.repaired_at is not null
          and a.kind ~ '(missing here|came back)') as missing
    from sync.verified_lists c
    where c.stream_key = at_most_with_missing.stream and c.ours is not null and c.run_id = (
      select max(l.run_id)
      from sync.verified_lists l join sync.stored_runs r on r.id = l.run_id
      where l.account_id = at_most_with_missing.account and l.stream_key = at_most_with_missing.stream
        and l.ours is not null and r.started_at > now() - interval '7 days')) m
$$;
comment on function sync.at_most_with_missing is
  'The bound of sync.at_most for the records of the source: random rows are drawn from what is stored, so records that the last comparison of counts found missing here are added to the differing ones.';

create or replace view sync.status as
select s.account_id, k.stream,
  e.complete_through,
  now() - e.complete_through as lag,
  h.gaps,
  w.waiting,
  (select count(*) from sync.rejects r
   where r.account_id = s.account_id and r.stream_key = s.stream_key and r.cleared_at is null) as open_rejects,
  l.run_id as last_run,
  l.state as last_state,
  l.finished_at as last_finished_at,
  (select g.finished_at from sync.stored_run_streams g
   where g.account_id = s.account_id and g.stream_key = s.stream_key and g.state = 'completed'
     and (select o.kind from sync.stored_runs o where o.id = g.run_id) not in ('audit', 'verify')
   order by g.finished_at desc limit 1) as last_success_at,
  case when l.state = 'interrupted' and l.finished_at is null then 'its process is gone' else l.error end as last_error,
  case when l.state = 'interrupted' and l.finished_at is null
    then 'Nothing to do while a worker runs: it resumes there. Otherwise run `npx shelfdesk start`, or the same command again.' else l.remedy end as remedy,
  k.source,
  l.sleeps_until,
  sync.deletes_checked_at(s.account_id, s.stream_key) as deletes_checked_at,
  -- As sync.audit_confidence computes it over all fields, but only for the requested stream.
  (select case when count(*) > 0 then
      sync.at_most_with_missing(sync.at_most(count(distinct u.record_id) filter (where u.differences is not null),
        count(distinct u.record_id) filter (where not u.unread)), s.account_id, s.stream_key) end
   from sync.audit u
   where u.account_id = s.account_id and u.stream_key = s.stream_key and u.random and u.checked_at > now() - interval '7 days') as differ_at_most_percent,
  (select min(u.checked_at) from sync.audit u
   where u.account_id = s.account_id and u.stream_key = s.stream_key and u.random and u.checked_at > now() - interval '7 days') as differ_as_of,
  b.behind,
  t.target,
  case
    when sync.is_paused(s.account_id, s.stream_key) or sync.is_paused(s.account_id, k.source || '.' || k.follows) then 'paused'
    when l.run_id is null then 'never_synced'
    when d.state = 'failed' or m.most then 'failing'
    when b.behind is null then 'catching_up'
    when b.behind > t.target and not coalesce(d.sleeps_until > now(), false) then 'stale'
    when (w.waiting > 0 or h.gaps > 0)
      and not coalesce(e.complete_through > now() - greatest(t.target, b.behind), false) then 'catching_up'
    when d.sleeps_until > now() and w.waiting > 0 then 'catching_up'
    else 'fresh' end as state,
  sync.change_latency(s.account_id, s.stream_key, 50) as age_p50,
  sync.change_latency(s.account_id, s.stream_key, 95) as age_p95,
  s.stream_key,
  sync.complete_from(s.account_id, s.stream_key) as complete_from
from (
  select distinct c.account_id, k.stream_key
  from sync.coverage c join sync.streams k on c.source = k.source and c.stream in (k.stream, k.follows)
) s
join sync.streams k using (stream_key)
cross join lateral (select sync.complete_through(s.account_id, s.stream_key) as complete_through offset 0) e
cross join lateral (
  select count(*) as gaps from sync.gaps h where h.account_id = s.account_id and h.stream_key = s.stream_key) h
cross join lateral (
  select case s.stream_key
    when 'helpdesk.messages' then (
      select count(*) from helpdesk.tickets t
      where t.account_id = s.account_id
        and (t._messages_as_of is null or t._messages_as_of < t.updated_at)
        and t._deleted_at is null)
    when 'books.volumes' then (select count(*) from sync.waiting_volumes w where w.account_id = s.account_id)
    else 0 end as waiting) w
cross join lateral (select sync.behind(s.account_id, s.stream_key) as behind offset 0) b
left join sync.targets t on (t.account_id, t.subject) = (s.account_id, s.stream_key)
left join lateral (
  select r.run_id,
    case when r.state = 'waiting' and (select u.state from sync.runs u where u.id = r.run_id) = 'interrupted'
      then 'interrupted' else r.state end as state,
    r.finished_at, r.error, r.remedy, r.sleeps_until
  from sync.run_streams r
  -- Audits and verifications do not extend coverage, so their runs do not count here.
  where r.account_id = s.account_id and r.stream_key = s.stream_key
    and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('audit', 'verify')
  order by r.run_id desc
  limit 1
) l on true
-- A running run has no result yet.
left join lateral (
  select r.state, r.sleeps_until
  from sync.stored_run_streams r
  where r.account_id = s.account_id and r.stream_key = s.stream_key and r.state not in ('waiting', 'running')
    and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('audit', 'verify', 'sweep', 'backfill')
  order by r.run_id desc
  limit 1
) d on true
cross join lateral (
  select exists (
    select from sync.most_rejected i where i.account_id = s.account_id and i.stream_key = s.stream_key) as most offset 0) m;
comment on column sync.status.state is
  'fresh; catching_up (within its target, but history or details are pending, the first load is running, or the daily quota is used up); stale (behind its target); failing (the last finished run failed, or most of what is read is rejected); never_synced; paused (by a person, or because the stream that it depends on is paused).';
comment on column sync.status.complete_from is
  'Records last changed before this time may be missing: the mirror starts here. Null: complete from the beginning.';
comment on column sync.status.deletes_checked_at is
  'None of the rows shown here had been deleted at the source before this time; null if unknown, such as before the first whole sweep. Messages and volumes: as of their tickets and shelves. Users: as of the last full read that showed every user here.';

drop function sync.require_complete(text, text, timestamptz, bigint);
create or replace function sync.require_complete(
  account text, stream text, through timestamptz, rejects_allowed bigint default 0, since timestamptz default null)
returns timestamptz
language plpgsql stable
as $$
declare
  asked_key constant text := sync.key_of(stream);
  complete constant timestamptz := sync.complete_through(account, asked_key);
  begun constant timestamptz := sync.complete_from(account, asked_key);
  gap record;
  open_rejects bigint;
  waiting bigint;
begin
  if account is null or stream is null or through is null then
    raise exception 'sync.require_complete(account, stream, through) was asked about nothing: one of them is null'
      using errcode = 'null_value_not_allowed';
  end if;
  if asked_key is null and exists (select from sync.streams k where k.stream = require_complete.stream) then
    raise exception 'more than one source has a stream %', stream
      using errcode = 'ambiguous_parameter', hint = (
        select 'Name one of: ' || string_agg(k.stream_key, ', ' order by k.place) || '.' from sync.streams k where k.stream = require_complete.stream);
  end if;
  if not exists (
    select from sync.coverage c join sync.streams k on c.source = k.source and c.stream in (k.stream, k.follows)
    where c.account_id = account and k.stream_key = asked_key) then
    raise exception 'nothing is mirrored of the stream % for the account %', stream, account
      using errcode = 'no_data_found', hint = 'sync.status lists accounts and streams.';
  end if;
  if begun > coalesce(since, '-infinity') then
    raise exception '% of the account % is complete from % on, not from %', stream, account, begun, coalesce(since::text, 'the beginning')
      using errcode = 'object_not_in_prerequisite_state', hint = format(
        'A report that needs no earlier record says so: since => %L. Or run `npx shelfdesk backfill %s --since` with the time that it needs.', begun, stream);
  end if;
  if complete is null or complete < through then
    select h.list, h.gap_from, h.gap_to, h.reason into gap
    from sync.gaps h join sync.streams k on h.source = k.source and h.stream in (k.stream, k.follows)
    where h.account_id = account and k.stream_key = asked_key and h.gap_from < through
    order by h.gap_from limit 1;
    select s.waiting into waiting from sync.status s where s.account_id = account and s.stream_key = asked_key;
    raise exception '% of the account % % complete through %, not through %', stream, account,
      case when complete is null then 'was never read:' else 'is' end, coalesce(complete::text, 'nothing'), through
      using errcode = 'object_not_in_prerequisite_state', hint = case
        when gap.gap_from is not null then format('There is a gap from %s to %s%s. Run `npx shelfdesk backfill %s`.',
          gap.gap_from, gap.gap_to, coalesce(' (' || gap.reason || ')', ''), stream)
        when waiting > 0 then format('%s to be read by id: `npx shelfdesk start` reads while it runs, and so does `npx shelfdesk sync`.',
          sync.counted(waiting, 'record waits', 'records wait'))
        else 'Run `npx shelfdesk sync`, or wait for the next slot of the schedule.' end;
  end if;
  select count(*) into open_rejects
  from sync.rejects r join sync.streams k on r.source = k.source and r.stream in (k.stream, k.follows)
  where r.account_id = account and k.stream_key = asked_key and r.cleared_at is null;
  if open_rejects > rejects_allowed then
    raise exception '% of % of the account % could not be stored', sync.counted(open_rejects, 'record'), stream, account
      using errcode = 'object_not_in_prerequisite_state',
        hint = 'See `npx shelfdesk rejects list`. A report that can do without them says how many, as fourth argument.';
  end if;
  return complete;
end
$$;
comment on function sync.require_complete is
  'Guard at the beginning of a report. Returns complete_through of the stream if it reaches the given time; otherwise raises an error that says what is missing. Also raises if complete_from is later than since, the time from which the report needs records (null: the beginning), or if more than rejects_allowed records are rejected. It does not ask for deletions: see deletes_checked_at.';

create or replace function sync.why_incomplete(account text, stream text, through timestamptz, rejects_allowed bigint default 0)
returns text
language plpgsql stable
as $$
declare
  complete constant timestamptz := sync.complete_through(account, stream);
begin
  -- The error of sync.require_complete counts the records that wait, which takes long while many do.
  if coalesce(complete < through, true) then
    return format('%s is complete through %s, not through %s', stream, coalesce(complete::text, 'nothing'), through);
  end if;
  perform sync.require_complete(account, stream, through, rejects_allowed, sync.complete_from(account, stream));
  return null;
exception when object_not_in_prerequisite_state or no_data_found then
  return sqlerrm;
end
$$;
comment on function sync.why_incomplete is
  'Why sync.require_complete would raise an error about records since complete_from, in one sentence; null if it would not. Cheap while many records wait.';

create or replace function internal.stream_standing()
returns table (account_id text, stream text, complete_through timestamptz, gaps bigint, waiting bigint, open_rejects bigint,
  deletes_checked_at timestamptz, state text, source text, complete_from timestamptz)
language sql stable security definer parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select s.account_id, s.stream, s.complete_through, s.gaps, s.waiting, s.open_rejects, s.deletes_checked_at, s.state, s.source, s.complete_from
  from (select case current_setting('role') when 'none' then session_user else current_setting('role')::name end as name) asks
  cross join sync.status s
  where has_table_privilege(asks.name, 'sync.readers', 'select') or exists (
    select from sync.readers r
    where r.role_name = asks.name and (r.accounts is null or s.account_id = any (r.accounts)))
$$;
comment on function internal.stream_standing is 'Rows of analytics.completeness, with the rights of the owner.';

create or replace view analytics.completeness with (security_barrier) as
select c.account_id, c.stream, c.complete_through, c.gaps, c.waiting, c.open_rejects, c.deletes_checked_at, c.state,
  c.source, c.complete_from
from internal.stream_standing() c
where c.account_id = any (array(select account_id from sync.readable_accounts));
comment on column analytics.completeness.complete_from is
  'Records last changed before this time may be missing: the mirror starts here. Null: complete from the beginning.';
comment on column analytics.completeness.deletes_checked_at is
  'None of the rows shown here had been deleted at the source before this time; null if unknown, such as before the first whole sweep. Messages and volumes: as of their tickets and shelves. Users: as of the last full read that showed every user here.';

drop function internal.stream_completeness();

comment on column sync.hand_offs.certificate is
  'The message: for each stream complete_from and complete_through, gaps, rejects, the last check of deletions and the audit confidence, as of issued_at. Null while it is withheld.';

create or replace view internal.lake_completeness as
select s.account_id, s.source, s.stream, s.complete_through, s.gaps, s.waiting, s.open_rejects, s.deletes_checked_at,
  case when s.state in ('paused', 'never_synced', 'failing') or s.behind is null then s.state end as settled_state,
  -- The lag grows with the clock, so this stands still.
  date_trunc('second', now() - s.behind) as reached,
  extract(epoch from s.target)::float8 as target_seconds,
  s.sleeps_until,
  s.complete_from
from sync.status s;
comment on view internal.lake_completeness is
  'What the state of each stream follows from at any time. The lake has it, because its readers come later.';
comment on column internal.lake_completeness.account_id is 'The account.';
comment on column internal.lake_completeness.source is 'Source of the stream.';
comment on column internal.lake_completeness.stream is 'The stream.';
comment on column internal.lake_completeness.complete_through is 'As in sync.status.';
comment on column internal.lake_completeness.gaps is 'As in sync.status.';
comment on column internal.lake_completeness.waiting is 'As in sync.status.';
comment on column internal.lake_completeness.open_rejects is 'As in sync.status.';
comment on column internal.lake_completeness.deletes_checked_at is 'As in sync.status.';
comment on column internal.lake_completeness.settled_state is 'The state, if it does not follow the clock.';
comment on column internal.lake_completeness.reached is 'The newest part of the stream is stored up to this time, by the clock of the warehouse.';
comment on column internal.lake_completeness.target_seconds is 'Freshness target.';
comment on column internal.lake_completeness.sleeps_until is 'The daily quota defers the stream until this time.';
comment on column internal.lake_completeness.complete_from is 'As in sync.status.';

create or replace function analytics.is_overdue(calendar text, since timestamptz, target_seconds int, until timestamptz, seconds float8) returns boolean
language sql stable parallel safe
begin atomic
  select case
    when is_overdue.seconds is null then null
    when is_overdue.seconds <> is_overdue.target_seconds then is_overdue.seconds > is_overdue.target_seconds
    when is_overdue.calendar is null then false
    else is_overdue.until > analytics.business_time_after(is_overdue.calendar, is_overdue.since, is_overdue.target_seconds) end;
end;
comment on function analytics.is_overdue is
  'True if until is later than due_at, the instant at which target_seconds have passed since another instant. seconds: business time between the two, or clock time without a calendar. A target that is reached when business closes is due then, and everything later is overdue, before business opens again.';

create or replace view analytics.ticket_targets with (security_barrier) as
select m.account_id, m.ticket_id, g.metric, m.customer_id, m.inbox_id, m.user_id, m.created_at, m.messages_complete,
  g.target_seconds, c.calendar is not null as in_business_time, o.is_done, s.begins_at,
  case when c.calendar is null then s.begins_at + make_interval(secs => g.target_seconds)
    else analytics.business_time_after(c.calendar, s.begins_at, g.target_seconds) end as due_at,
  t.seconds, e.error_seconds,
  case
    when not analytics.is_overdue(c.calendar, s.begins_at, g.target_seconds, t.until, t.seconds) then case
      when o.is_done then 'met'
      when t.seconds >= 0.75 * g.target_seconds then 'at_risk'
      else 'running' end
    when t.seconds - e.error_seconds > g.target_seconds then 'missed'
    -- The error is one of the clock. Of a night it may be no business time at all.
    when analytics.is_overdue(c.calendar, s.begins_at, g.target_seconds, t.until - make_interval(secs => e.error_seconds), case
      when e.error_seconds = 0 then t.seconds
      when c.calendar is null then t.seconds - e.error_seconds
      else analytics.business_seconds(c.calendar, s.begins_at, t.until - make_interval(secs => e.error_seconds)) end) then 'missed'
    else 'uncertain' end as outcome
from analytics.countable_tickets m
cross join (values ('first_response'), ('resolution')) k (metric)
left join internal.stored_service_targets of_account
  on of_account.account_id = m.account_id and of_account.metric = k.metric and of_account.inbox_id is null and of_account.label_id is null
left join internal.stored_service_targets of_inbox
  on of_inbox.account_id = m.account_id and of_inbox.metric = k.metric and of_inbox.inbox_id = m.inbox_id and of_inbox.label_id is null
left join (
  select distinct on (l.account_id, l.id, s.metric) l.account_id, l.id as ticket_id, s.metric, s.target_seconds
  from internal.stored_service_targets s
  join helpdesk.tickets l on l.account_id = s.account_id and s.label_id = any (l.label_ids) and (s.inbox_id is null or s.inbox_id = l.inbox_id)
  order by l.account_id, l.id, s.metric, s.inbox_id is null, s.target_seconds) of_label
  on of_label.account_id = m.account_id and of_label.ticket_id = m.ticket_id and of_label.metric = k.metric
left join internal.own_zones own on own.account_id = m.account_id and own.inbox_id = m.inbox_id
left join internal.own_zones whole on whole.account_id = m.account_id and whole.inbox_id is null
-- A reply moves its ticket. So a ticket whose messages are complete had none by the time up to which tickets are.
left join analytics.completeness h on h.account_id = m.account_id and h.source = 'helpdesk' and h.stream = 'tickets'
cross join lateral (select coalesce(own.calendar, whole.calendar) as calendar) c
cross join lateral (
  select k.metric, coalesce(of_label.target_seconds, of_inbox.target_seconds, of_account.target_seconds) as target_seconds) g
cross join lateral (
  select case g.metric when 'resolution' then coalesce(m.state in ('closed', 'archived'), false) else not m.is_unreplied end as is_done) o
left join internal.stored_reply_turns r
  on r.account_id = m.account_id and r.ticket_id = m.ticket_id and r.turn = 1 and k.metric = 'first_response'
cross join lateral (
  select case g.metric when 'resolution' then m.created_at else r.waiting_since end as begins_at) s
cross join lateral (
  select n.until, case
    when not o.is_done then case
      when c.calendar is null then date_part('epoch', n.until - s.begins_at)
      else analytics.business_seconds(c.calendar, s.begins_at, n.until) end
    when g.metric = 'resolution' then case when c.calendar is null then m.full_resolution_seconds else m.full_resolution_business_seconds end
    when c.calendar is null then m.first_response_seconds
    else m.first_response_business_seconds end as seconds
  from (
    select case
      when not o.is_done then case
        -- The version that is here was true at its date, too.
        when s.begins_at is not null then greatest(h.complete_through, m.updated_at, s.begins_at) end
      when g.metric = 'resolution' then m.last_closed_at
      else r.answered_at end as until) n) t
cross join lateral (
  select case
    when g.metric = 'first_response' then case when m.messages_complete then 0 end
    when o.is_done then m.full_resolution_error_seconds
    else 0 end as error_seconds) e
where g.target_seconds is not null and (g.metric = 'resolution' or m.inbound_count > 0 and not m.is_outbound_initiated);
comment on column analytics.ticket_targets.due_at is
  'When the target is reached: what ends by then is met, and what ends or still runs later is missed, also while business is closed. Null if begins_at is null, and in a calendar outside of 2000 to 2059.';
comment on column analytics.ticket_targets.outcome is
  'met (by due_at); missed; uncertain (it ended after due_at, and without its error it may not have; or seconds is null); at_risk (it still runs, and three quarters of the target have passed); running. A closing that did not move updated_at may have been later than met says, or earlier than missed says while is_done is false: see seconds and error_seconds. If messages_complete is false, met counts from the first customer message that is here.';

update analytics.metric_definitions set
  formula = 'met: done by due_at; a closing with change_by may have been later. missed: done after due_at even without the error, or not done by then. uncertain: done after due_at, and without the error perhaps not, or seconds is null. at_risk: not done, and 75 percent of target_seconds have passed. running: else.'
where (relation, name) = ('ticket_targets', 'outcome');

create or replace function sync.any_erased(account text) returns boolean
language plpgsql volatile
as $$
begin
  -- 'SHER': an erasure waits for running commits, and new commits wait for the erasure. The lock is taken before the
  -- lookup.
  perform pg_advisory_xact_lock_shared(1397245266, hashtext(account));
  if not exists (select from sync.erased e where e.account_id = account)
    and not exists (select from sync.secret_erased e where e.account_id = account) then return false; end if;
  if not exists (select from sync.secret_erasure) then
    raise exception 'the key in sync.secret_erasure is gone: erased persons would not be recognised, so nothing is stored in account %', account
      using hint = 'Bring its one row back from the dump that the database was restored from: docs/how-to/erase-a-person.md.';
  end if;
  return true;
end
$$;

-- Two spellings of a field rule are one. Rules of before named kinds of the help desk or the catalog, or streams of other sources.
alter table sync.field_rules add column full_rule text;
update sync.field_rules f set full_rule = coalesce(
  (select case when count(*) = 1 then min(k.source) end from sync.streams k where k.stream = n.name),
  case when n.name in ('shelves', 'volumes') then 'books' else 'helpdesk' end) || '.' || f.rule
from sync.field_rules r, lateral (select split_part(split_part(r.rule, ':', 1), '.', 1) as name) n
where (r.account_id, r.rule) = (f.account_id, f.rule);
alter table sync.field_rules drop constraint field_rules_pkey;
alter table sync.field_rules alter column rule set not null;
alter table sync.field_rules add primary key (account_id, full_rule);
comment on column sync.field_rules.full_rule is
  'The rule with the source of its records, for example helpdesk.messages.body. Two spellings of a rule are one.';
comment on column sync.accounts.since is
  'Start of the range that the mirror reads of the help desk (HELPDESK_SINCE); 1970-01-01 means everything. Other sources have their own: sync.coverage.since.';
comment on column sync.accounts.lookback is
  'Lookback window of the help desk: the longest delay until it shows a change, as last set (HELPDESK_LOOKBACK_SECONDS). A reply may miss changes that happened less than this long before it. Other sources have their own: sync.coverage.lookback.';

-- Rows of before are of the help desk, unless only another source has a table of that name. Rows of the tables that sources bring have no parent.
alter table sync.changes add column source text not null default 'helpdesk';
alter table sync.changes alter column source drop default;
update sync.changes c set source = t.source
from (
  select r.relname::text as name, min(n.nspname::text) as source
  from pg_class r join pg_namespace n on n.oid = r.relnamespace
  where n.nspname in (select s.name from sync.source_schemas s) and n.nspname <> 'helpdesk' and r.relkind in ('r', 'p')
  group by r.relname having count(*) = 1) t
where c.table_name = t.name and (c.parent_id is null and t.name in ('contacts', 'attachments')
  or t.name not in ('tickets', 'messages', 'attachments', 'customers', 'contacts', 'users', 'labels', 'inboxes'));
drop index sync.changes_given;
create index changes_given on sync.changes (account_id, record_id) where ((source = 'helpdesk') and (table_name = 'tickets') and (changes ? 'customer_id'));
comment on column sync.changes.source is
  'The source of the row, which is also the schema of its table: helpdesk or books. Two sources may have a table of one name.';
comment on column sync.changes.table_name is
  'tickets, messages, attachments, customers, contacts, users, labels, inboxes, shelves, volumes or shelf_volumes; or a table of another source.';

create or replace function sync.keep_change() returns trigger
language plpgsql
-- The worker forces a new query plan for each page. In this trigger that would mean a new plan for each row.
set plan_cache_mode = force_generic_plan
as $$
declare
  -- Names to skip: table columns that belong to another record or derive from other columns, and _payload fields with a column.
  besides constant text[] := tg_argv[1]::text[];
  merge constant text := current_setting('shelfdesk.merge', true);
  parent constant text[] := string_to_array(tg_argv[0], ',');
  before constant jsonb := to_jsonb(old);
  after constant jsonb := case when tg_op = 'UPDATE' then to_jsonb(new) else '{}' end;
  changes jsonb;
begin
  if merge is null or merge = '' then return null; end if;
  select coalesce(jsonb_object_agg(d.field, jsonb_build_array(d.old, d.new)), '{}') into changes
  from (
    select b.key as field, b.value as old, after -> b.key as new
    from jsonb_each(before) b
    where b.value <> coalesce(after -> b.key, 'null') and b.key <> all (besides)
      and (b.key not like '\_%' or b.key like any ('{\\_deleted%,\\_messages%}'))
    union all
    select coalesce(b.key, a.key), b.value, a.value
    from jsonb_each(before -> '_payload') b full join jsonb_each(after -> '_payload') a on a.key = b.key
    where b.value is distinct from a.value and not before ? coalesce(b.key, a.key)
      and coalesce(b.key, a.key) <> all (besides)) d;
  if changes = '{}' and before -> '_payload' = after -> '_payload' then return null; end if;
  -- Messages of the help desk are stored in the schema internal.
  insert into sync.changes (account_id, source, table_name, record_id, parent_id, seen_at, as_of, run_id, changes)
  values (old.account_id, case tg_table_schema when 'internal' then 'helpdesk' else tg_table_schema end, tg_table_name, before ->> coalesce(tg_argv[2], 'id'),
    (select string_agg(before ->> p.name, '/' order by p.place) from unnest(parent) with ordinality p (name, place)),
    (merge::jsonb ->> 'seen_at')::timestamptz, coalesce(merge::jsonb ->> 'as_of', after ->> '_deleted_at')::timestamptz, (merge::jsonb ->> 'run')::bigint, changes);
  return null;
end
$$;

drop function sync.add_mirror(regclass);
create or replace function sync.add_mirror(mirrored regclass, parent text default '') returns void
language plpgsql
as $$
begin
  execute format('alter table %s
    add column _first_seen_at timestamptz not null,
    add column _synced_at timestamptz not null,
    add column _observed_at timestamptz not null,
    add column _deleted_at timestamptz,
    add column _payload jsonb not null', mirrored);
  execute format('comment on column %s._first_seen_at is %L', mirrored, 'When the mirror first stored the record, by the clock of the worker.');
  execute format('comment on column %s._synced_at is %L', mirrored, 'When the mirror last changed the row, by the clock of the worker.');
  execute format('comment on column %s._observed_at is %L', mirrored, 'The reply that the row comes from holds all changes up to this time, by the clock of the source.');
  execute format('comment on column %s._deleted_at is %L', mirrored, 'When the record was found to be deleted at the source; null while it exists.');
  execute format('comment on column %s._payload is %L', mirrored, 'The record as the source sent it.');
  execute format('create trigger keep_change after update or delete on %s
    for each row execute function sync.keep_change(%L, %L)', mirrored, parent, '{account_id}');
end
$$;
comment on function sync.add_mirror is
  'Turns a table with account_id and id into a mirrored table: adds the columns of every mirrored table, and records its changes in sync.changes. `parent`: the column with the id of the record that the row is part of.';
revoke execute on function sync.add_mirror(regclass, text) from public;

comment on column sync.coverage.since is
  'Start of the range that the mirror reads of this source; 1970-01-01 means everything. Null: that of the account (sync.accounts).';
comment on column sync.coverage.lookback is
  'Lookback window of this source: the longest delay until it shows a change. Null: that of the account (sync.accounts).';
-- How lists of before ended was not proven: all that they claim is in doubt once pages turn out to be short.
update sync.coverage set ends_proven_through = '-infinity' where not isempty(covered);
comment on column sync.coverage.page_size is
  'Most records that a page of this list shows, where the source shows fewer than it is asked for. Null: as many as it is asked for.';
comment on column sync.coverage.pages_vary is
  'Pages of this list that have others behind them show different numbers of records, as if some were taken out.';
comment on column sync.coverage.ends_proven_through is
  'What was covered before this time was read to the end of the list for certain: in a first load, or before a later look at the newest records. If pages turn out to be short, what was covered since then is read again.';

create or replace function sync.lookback_of(account text, source text) returns interval
language sql stable
begin atomic
  select coalesce(
    (select max(c.lookback) from sync.coverage c where c.account_id = account and c.source = lookback_of.source), a.lookback)
  from sync.accounts a where a.account_id = account;
end;
comment on function sync.lookback_of is 'Lookback window of a source of an account.';

create or replace view sync.gaps as
select c.account_id, c.stream, c.list, lower(h.gap) as gap_from, upper(h.gap) as gap_to,
  (select string_agg(distinct r.reason, '; ')
   from sync.gap_reasons r
   where r.account_id = c.account_id and r.stream_key = c.stream_key and r.list = c.list and r.gap && h.gap) as reason,
  c.source, c.stream_key
from sync.coverage c
join sync.accounts a using (account_id)
cross join lateral (select coalesce(c.since, a.since) as since) b
cross join unnest(
  case when isempty(c.covered) then '{}'::tstzmultirange
    else tstzmultirange(tstzrange(b.since, greatest(b.since, upper(c.covered)))) - c.covered
  end) as h (gap)
where not c.redundant;

create or replace function sync.lists_complete_through(account text, stream text) returns timestamptz
language sql stable
begin atomic
  select case when bool_and(not isempty(c.covered))
    then least(
      min(lower(tstzmultirange(tstzrange(coalesce(c.since, a.since), null)) - c.covered)),
      min((
        select min(lower(w.seconds)) from sync.ties w
        where w.held and (w.account_id, w.stream_key, w.list) = (c.account_id, c.stream_key, c.list)))) end
  from sync.coverage c
  join sync.accounts a using (account_id)
  where c.account_id = account
    and c.stream_key = lists_complete_through.stream
    and not c.redundant;
end;

create or replace function internal.note_erased() returns trigger
language plpgsql
as $$
begin
  if tg_table_name = 'erased' then
    insert into sync.lake_pending (unit, account_id, id, erased) select 'customer', a.account_id, a.customer_id, true from after a;
  elsif tg_table_name = 'erased_tickets' then
    insert into sync.lake_pending (unit, account_id, id, erased) select 'ticket', a.account_id, a.ticket_id, true from after a;
  elsif tg_table_name = 'changes' then
    insert into sync.lake_pending (unit, account_id, id, erased)
    select distinct a.table_name, a.account_id, a.record_id, true from after a where a.source in ('helpdesk', 'books');
  elsif tg_op = 'DELETE' then
    insert into sync.lake_pending (unit, account_id, id, erased) select tg_table_name, b.account_id, b.id, true from before b;
  else
    insert into sync.lake_pending (unit, account_id, id, erased) select tg_table_name, a.account_id, a.id, true from after a;
  end if;
  return null;
end
$$;


create or replace function sync.behind(account text, stream text, at timestamptz default now()) returns interval
language sql stable
begin atomic
  with known as (
    select k.stream_key, a.mirrored_since,
      behind.at + coalesce((
        -- Null in a ledger from before the clock of records was known.
        select least((b.state #>> '{clock,offsetMs}')::float8, (b.state #>> '{records,leastMs}')::float8) * interval '1 millisecond'
        from sync.budget b where (b.account_id, b.source) = (behind.account, k.source)), interval '0') as source_at,
      (select case when not bool_or(isempty(c.covered)) then min(upper(c.covered)) end
       from sync.coverage c
       where c.account_id = behind.account and c.stream_key = coalesce(k.source || '.' || k.follows, k.stream_key) and not c.redundant) as top
    from sync.accounts a cross join sync.streams k
    where a.account_id = behind.account and k.stream_key = sync.key_of(behind.stream))
  select greatest(interval '0', n.source_at - least(n.top, case n.stream_key
    when 'helpdesk.messages' then (
      select t.updated_at from helpdesk.tickets t
      where t.account_id = behind.account and (t._messages_as_of is null or t._messages_as_of < t.updated_at)
        and t._deleted_at is null and t.updated_at > n.mirrored_since
        and not exists (
          select from sync.rejects r
          where r.account_id = t.account_id and r.stream_key = 'helpdesk.messages' and r.ask_id = t.id and r.cleared_at is null
          offset 0)
      order by t.updated_at limit 1)
    when 'books.volumes' then (
      select min(w.waits_since) from sync.waiting_volumes w join books.volumes v using (account_id, id)
      where w.account_id = behind.account and not w.rejected and (v._checked_at is not null or exists (
        select from books.shelf_volume_history h
        where h.account_id = w.account_id and h.volume_id = w.id and h.position is not null and h.change_after is not null)))
    end))
  from known n
  where n.top > n.mirrored_since - interval '1 hour';
end;
-- The bound of the audit counts what is missing here.

create or replace view sync.audit_confidence as
with counted as not materialized (
  select account_id, source, stream, stream_key, record_id, checked_at, unread, differences
  from sync.audit
  where random and checked_at > now() - interval '7 days'),
totals as not materialized (
  select account_id, source, stream, stream_key, count(distinct record_id) as drawn, count(distinct record_id) filter (where not unread) as checked,
    min(checked_at) as as_of
  from counted
  group by account_id, source, stream, stream_key),
differing as not materialized (
  select c.account_id, c.stream_key, f.field, count(distinct c.record_id) as differed
  from counted c cross join lateral (select '' as field union all select jsonb_object_keys(c.differences)) f
  where c.differences is not null
  group by c.account_id, c.stream_key, f.field)
select t.account_id, t.stream, f.field, t.checked, coalesce(d.differed, 0) as differed, t.drawn - t.checked as unread,
  sync.at_most_with_missing(sync.at_most(coalesce(d.differed, 0), t.checked), t.account_id, t.stream_key) as at_most_percent, t.as_of, t.source, t.stream_key
from totals t
join (select account_id, stream_key, '' as field from totals union select account_id, stream_key, field from differing) f
  using (account_id, stream_key)
left join differing d using (account_id, stream_key, field);

-- A log-out ends the session in every process that serves the page.

create table sync.secret_ended_sessions (
  session text primary key,
  ends_at timestamptz not null
);
comment on table sync.secret_ended_sessions is
  'Sessions of the page that their visitors ended. A row goes when its session would have ended by itself.';
comment on column sync.secret_ended_sessions.session is 'A keyed hash of the session: nobody can log in with it.';
comment on column sync.secret_ended_sessions.ends_at is 'When the session would have ended by itself.';

comment on column helpdesk.tickets._true_by is
  'Upper bound of the time of this version, by the source''s clock: the Date of the reply plus its grain of one second, or the time of the reply by the database''s clock where Date is behind that. _observed_at is the lower bound, up to which the reply is complete. Null for rows from before this column and for replayed rejects; there the upper bound is one minute after _observed_at.';

create or replace function sync.ordered_by(true_by timestamptz, observed_at timestamptz) returns timestamptz
language sql stable parallel safe
begin atomic
  select case when date_trunc('second', true_by) = true_by then true_by else least(true_by, observed_at + interval '1 minute') end;
end;
comment on function sync.ordered_by is
  'true_by as far as it orders versions, or one minute after observed_at if it is null. With a fraction of a second true_by goes by the database''s clock, which contradicts Date: then it orders for that minute only. Where that clock is ahead, no later version would win until then.';

create or replace function sync.keep_ticket_history() returns trigger
language plpgsql
as $$
declare
  -- The times of the source are whole seconds. A parameter instead of a literal would cause new plans.
  second constant interval := '1 second';
  plans constant text := current_setting('plan_cache_mode');
begin
  -- Field rules rewrite stored values (warehouse fields apply): no ticket has changed.
  if current_setting('shelfdesk.rewriting', true) = 'on' then return null; end if;
  -- Most updates change nothing of these, as those that note when messages were read. A full join never becomes a nested
  -- loop, whatever the plan expected, so a kept plan serves.
  if not exists (
    select from before b full join after a using (account_id, id)
    where (a._observed_at, a._true_by, a.updated_at, a.created_at, a._deleted_at, a.state, a.user_id, a.inbox_id, a.spam, a.trash, a.label_ids)
      is distinct from (b._observed_at, b._true_by, b.updated_at, b.created_at, b._deleted_at, b.state, b.user_id, b.inbox_id, b.spam, b.trash, b.label_ids)) then
    return null;
  end if;
  -- A cached plan would fit the rows of another statement: one ticket, or an empty warehouse.
  perform set_config('plan_cache_mode', 'force_custom_plan', true);
  -- The second version ends what the ticket's own row could say about the first.
  insert into internal.ticket_history select v.* from before b join after a using (account_id, id)
  left join sync.accounts k on k.account_id = b.account_id
  cross join lateral sync.first_version(b, k.mirrored_since) v
  where (a._observed_at, a._true_by, a.updated_at, a.created_at, a._deleted_at) is distinct from (b._observed_at, b._true_by, b.updated_at, b.created_at, b._deleted_at)
    and not exists (
      select from internal.ticket_history h where h.account_id = b.account_id and h.ticket_id = b.id)
  on conflict do nothing;
  if not exists (
    select from before b full join after a using (account_id, id)
    where (b._deleted_at is null) <> (a._deleted_at is null)
      or a.state is distinct from b.state or a.user_id is distinct from b.user_id or a.inbox_id is distinct from b.inbox_id
      or a.spam is distinct from b.spam or a.trash is distinct from b.trash or not sync.same_set(a.label_ids, b.label_ids)) then
    perform set_config('plan_cache_mode', plans, true);
    return null;
  end if;
  with changed as materialized (
    select a.account_id, a.id, a.state, a.user_id, a.inbox_id, a.label_ids, a.spam, a.trash,
      a._deleted_at is null as alive,
      case
        when a._deleted_at is not null then greatest(a._deleted_at, last.valid_from + second)
        else greatest(last.valid_from, last.valid_to, case
          -- The ticket was deleted at its tombstone. An older version does not tell when it came back.
          when a.updated_at <> b.updated_at and (b._deleted_at is null or a.updated_at > b._deleted_at)
            then least(a.updated_at, y.by)
          else y.soon end)
      end as at,
      y.by,
      last.valid_from as last_from, last.valid_from is not null and last.valid_to is null as is_open,
      case
        when last.valid_from is null then a.created_at - second
        -- The ticket came back after its deletion. How long it had been back before it was seen is unknown.
        when b._deleted_at is not null then greatest(b._observed_at - k.lookback, b._deleted_after)
        -- A version shows everything up to the second of its date, unless the date is wrong: later than the reply, or
        -- later than the next version. A reply shows everything up to a lookback before it.
        else greatest(
          case when b.updated_at <= least(a.updated_at, sync.ordered_by(b._true_by, b._observed_at)) then b.updated_at - second end,
          b._observed_at - k.lookback, w.as_of, last.change_after)
      end as before_at,
      a._deleted_after
    from before b
    join after a using (account_id, id)
    cross join lateral (
      select sync.true_by(a._true_by, a._observed_at) as by, sync.ordered_by(a._true_by, a._observed_at) as soon) y
    left join lateral (
      select h.valid_from, h.valid_to, h.change_after from internal.ticket_history h
      where h.account_id = a.account_id and h.ticket_id = a.id
      order by h.valid_from desc limit 1) last on true
    left join sync.accounts k on k.account_id = b.account_id
    left join sync.separate_lists apart on apart.account_id = b.account_id
    left join lateral sync.swept_at(b.account_id, b.created_at, b.state, b.spam, b.trash, apart.spam, apart.trash) w on true
    where (b._deleted_at is null) <> (a._deleted_at is null)
      or a._deleted_at is null and (
        a.state is distinct from b.state or a.user_id is distinct from b.user_id or a.inbox_id is distinct from b.inbox_id
        or a.spam is distinct from b.spam or a.trash is distinct from b.trash or not sync.same_set(a.label_ids, b.label_ids))),
  -- Finds the open row by its flag and not by its time, because a thousand tickets may change in one second. Two
  -- changes at one time share a row with the later values and the lower bound of the first change.
  replaced as (
    update internal.ticket_history h
    set state = c.state, user_id = c.user_id, inbox_id = c.inbox_id, label_ids = c.label_ids, spam = c.spam, trash = c.trash,
      change_by = case when c.by > c.at then c.by end
    from changed c
    where c.is_open and c.alive and c.at = c.last_from
      and h.account_id = c.account_id and h.ticket_id = c.id and h.valid_to is null),
  ended as (
    update internal.ticket_history h set valid_to = c.at, deleted_after = c._deleted_after
    from changed c
    where c.is_open and (c.at > c.last_from or not c.alive)
      and h.account_id = c.account_id and h.ticket_id = c.id and h.valid_to is null
    returning h.account_id, h.ticket_id)
  -- Ends the current row before the next begins: a ticket has one open row.
  insert into internal.ticket_history
    (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, change_after, change_by, is_first)
  select c.account_id, c.id, c.state, c.user_id, c.inbox_id, c.label_ids, c.spam, c.trash, c.at,
    case when c.before_at is not null then least(c.before_at, c.at - second) end,
    case when c.by > c.at then c.by end, c.last_from is null
  from changed c left join ended e on e.account_id = c.account_id and e.ticket_id = c.id
  where c.alive and (e.ticket_id is not null or not c.is_open);
  perform set_config('plan_cache_mode', plans, true);
  return null;
end
$$;

-- Commands have other names.
create or replace view analytics.integrity with (security_barrier) as
select c.check_name, a.account_id, c.found, c.means
from sync.readable_accounts a
cross join lateral (values
  ('messages without their ticket',
    (select count(*) from internal.messages m where m.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = m.ticket_id)),
    'Messages come with their ticket: there should be none.'),
  ('attachments without their message',
    (select count(*) from helpdesk.attachments f where f.account_id = a.account_id
      -- One look-up each: messages are many times as many.
      and not exists (select from internal.messages m where m.account_id = a.account_id and m.id = f.message_id offset 0)),
    'Attachments come with their message: there should be none.'),
  ('tickets without their customer',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t.customer_id is not null
      and not exists (select from helpdesk.customers c where c.account_id = a.account_id and c.id = t.customer_id)),
    'The customer has not been read yet, or the source had already deleted it.'),
  ('contacts without their customer',
    (select count(*) from helpdesk.contacts k where k.account_id = a.account_id
      and not exists (select from helpdesk.customers c where c.account_id = a.account_id and c.id = k.customer_id)),
    'Contacts come with their customer: there should be none.'),
  ('tickets of a user who is not here',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t.user_id is not null
      and not exists (select from helpdesk.users u where u.account_id = a.account_id and u.id = t.user_id)),
    'The list of users does not show who has left before the mirror began, or they have not been read yet.'),
  ('messages of a user who is not here',
    (select count(*) from internal.messages m where m.account_id = a.account_id and m.user_id is not null
      and not exists (select from helpdesk.users u where u.account_id = a.account_id and u.id = m.user_id)),
    'The list of users does not show who has left before the mirror began, or they have not been read yet.'),
  ('tickets of an inbox that is not here',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t.inbox_id is not null
      and not exists (select from helpdesk.inboxes i where i.account_id = a.account_id and i.id = t.inbox_id)),
    'Inboxes are written with the first ticket that mentions them: there should be none.'),
  ('labels of tickets without the label',
    (select count(distinct (t.id, l.label_id)) from helpdesk.tickets t
     cross join lateral unnest(t.label_ids) l (label_id)
     where t.account_id = a.account_id and t._deleted_at is null
       and not t.label_ids <@ array(select n.id from helpdesk.labels n where n.account_id = a.account_id)
       and l.label_id is not null
       and not exists (select from helpdesk.labels n where n.account_id = a.account_id and n.id = l.label_id)),
    'Labels are written with the first ticket that mentions them: there should be none.'),
  ('tickets whose history tells otherwise',
    -- A ticket without stored history has the history that its row tells.
    (select count(*) from internal.ticket_history h
     join helpdesk.tickets t on t.account_id = h.account_id and t.id = h.ticket_id
     where h.account_id = a.account_id and h.valid_to is null and t._deleted_at is null
       and not ((h.state, h.user_id, h.inbox_id, h.spam, h.trash) is not distinct from (t.state, t.user_id, t.inbox_id, t.spam, t.trash)
         and sync.same_set(h.label_ids, t.label_ids)))
    + (select count(distinct h.ticket_id) from internal.ticket_history h
       join helpdesk.tickets t on t.account_id = h.account_id and t.id = h.ticket_id
       where h.account_id = a.account_id and t._deleted_at is null and not exists (
         select from internal.ticket_history o where o.account_id = a.account_id and o.ticket_id = h.ticket_id and o.valid_to is null)),
    'The open row of its history is what the ticket is now: there should be none.'),
  ('history of tickets that are not here',
    (select count(*) from internal.ticket_history h where h.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = h.ticket_id)),
    'History goes with the row of its ticket: there should be none.'),
  ('history that overlaps',
    -- A constraint excludes it among rows that have ended.
    (select count(*) from internal.ticket_history o
     join internal.ticket_history h on h.account_id = o.account_id and h.ticket_id = o.ticket_id
     where o.account_id = a.account_id and o.valid_to is null and (h.valid_to > o.valid_from or h.valid_from > o.valid_from)),
    'A ticket is one thing at a time: there should be none.'),
  ('tickets without metrics',
    (select count(*) from (
      select t.id from helpdesk.tickets t where t.account_id = a.account_id
        and not exists (select from internal.stored_ticket_metrics s where s.account_id = a.account_id and s.ticket_id = t.id)
      offset 0) t
     where exists (select from internal.messages m where m.account_id = a.account_id and m.ticket_id = t.id)
       or exists (select from internal.ticket_history h where h.account_id = a.account_id and h.ticket_id = t.id)),
    'Metrics are written with the messages and the changes of a ticket: there should be none. If there are, call analytics.recompute.'),
  ('business times that are not worked out anew',
    (select count(*) from internal.stored_recomputes q where q.account_id = a.account_id),
    'A calendar has changed, and analytics.recompute has not gone through since: business times of some tickets are those of before. Call it, or run npx shelfdesk warehouse calendar set again.'),
  ('metrics of tickets that are not here',
    (select count(*) from internal.stored_ticket_metrics s where s.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = s.ticket_id)),
    'Metrics go with the row of their ticket: there should be none.'),
  ('tickets whose messages are not complete',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t._deleted_at is null
      and (t._messages_as_of is null or t._messages_as_of < t.updated_at or exists (
        select from sync.rejects r
        where r.account_id = a.account_id and r.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and r.ask_id = t.id and r.cleared_at is null))),
    'Their messages are pending, or a part of them was rejected: ticket_metrics.messages_complete is false.'),
  ('volumes on a shelf that are not here',
    (select count(*) from books.shelf_volumes v where v.account_id = a.account_id
      and not exists (select from books.volumes b where b.account_id = a.account_id and b.id = v.volume_id)),
    'Volumes are written with their shelf: there should be none.'),
  ('volumes on a shelf that is not here',
    (select count(*) from books.shelf_volumes v where v.account_id = a.account_id
      and not exists (select from books.shelves s where s.account_id = a.account_id and s.owner_id = v.owner_id and s.id = v.shelf_id)),
    'A shelf is written before what is on it: there should be none.')
) c (check_name, found, means);

create or replace function sync.require_search(index_name text) returns void
language plpgsql stable
as $$
begin
  if not exists (select from pg_catalog.pg_index i where i.indexrelid = pg_catalog.to_regclass(index_name) and i.indisvalid) then
    raise exception 'search is off: the index % is missing', index_name
      using errcode = 'object_not_in_prerequisite_state', hint = 'Run `npx shelfdesk warehouse search on`. It makes the indexes while the worker runs.';
  end if;
end
$$;

create or replace function sync.searched_accounts(relation text) returns text[]
language plpgsql stable
as $$
declare
  -- The caller, also in functions with owner's rights: the role that was set, or the login.
  asker constant name := coalesce(nullif(current_setting('role'), 'none'), session_user);
begin
  if not has_table_privilege(asker, relation, 'select') then
    raise insufficient_privilege using message = format('permission denied for table %s', relation),
      hint = 'A reader with --pii may search (npx shelfdesk warehouse reader create).';
  end if;
  return array(
    select a.account_id from sync.accounts a
    where has_table_privilege(asker, 'sync.readers', 'select')
      or exists (select from sync.readers r where r.role_name = asker and (r.accounts is null or a.account_id = any (r.accounts)))
    order by 1);
end
$$;

comment on table sync.readers is
  'Roles for readers of the mirrored data (npx shelfdesk warehouse reader create), with the accounts that each may see. A role that is neither listed here nor the owner of the tables sees no account.';

comment on table analytics.calendars is
  'Business calendars by name: weekly hours and holidays in a time zone. Created with npx shelfdesk warehouse calendar set.';

comment on view analytics.calendar_assignments is
  'Calendar of each inbox. Without a calendar, business time is null. Created with npx shelfdesk warehouse calendar assign.';

comment on view analytics.service_targets is
  'Service targets: how long a first response and a resolution may take. Created with npx shelfdesk warehouse target set. Of several for a ticket the most specific one counts: label and inbox, then label, then inbox, then the whole account. Of two labels of one ticket the shorter target counts.';

comment on function helpdesk.search_words is
  'Text search vector of a message: all words in lower case with positions, without stemming or stop words. Only the first 100,000 characters count. The index messages_words, which `shelfdesk warehouse search on` makes, uses this function.';
-- problems
-- A problem may be of a whole source.
drop index sync.alarms_open;
alter table sync.alarms drop constraint alarms_source_and_stream, drop column stream_key;
alter table sync.alarms add column stream_key text generated always as (
case stream
    when '' then source
    else (source || '.' || stream)
end) stored not null, add constraint alarms_source_and_stream check (stream = '' or source <> '');
create unique index alarms_open on sync.alarms (account_id, problem, stream_key) where (ended_at is null);
comment on column sync.alarms.stream is 'The stream; empty for the whole account or a whole source.';
comment on column sync.alarms.source is 'The source: helpdesk or books. Empty for the whole account.';
comment on column sync.alarms.stream_key is
  'Key of the stream: source.stream, as helpdesk.tickets; of a whole source its name. Empty for the whole account.';

create or replace view sync.problems as
with streams as not materialized (
  select distinct c.account_id, k.stream_key
  from sync.coverage c join sync.streams k on c.source = k.source and c.stream in (k.stream, k.follows)),
last_runs as (
  -- The last finished run that synced a stream, and the last that swept it.
  select s.account_id, k.stream, s.stream_key, k.source, false as sweeps, d.*
  from streams s join sync.streams k using (stream_key)
  cross join lateral (
    select r.run_id, (select u.kind from sync.stored_runs u where u.id = r.run_id) as kind,
      r.state, r.error, r.remedy, r.exit_code, r.finished_at, r.answer
    from sync.stored_run_streams r
    -- Who interrupts a run ends no failure.
    where r.account_id = s.account_id and r.stream_key = s.stream_key and r.state not in ('waiting', 'running', 'interrupted')
      and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('sweep', 'audit', 'verify', 'backfill')
    order by r.run_id desc limit 1) d
  union all
  select s.account_id, k.stream, s.stream_key, k.source, true, d.*
  from streams s join sync.streams k using (stream_key)
  cross join lateral (
    select r.run_id, u.kind, r.state, r.error, r.remedy, r.exit_code, r.finished_at, r.answer
    from (
      select i.id, i.kind from sync.stored_runs i
      where i.account_id = s.account_id and i.kind = 'sweep' order by i.id desc offset 0) u
    cross join lateral (
      select * from sync.stored_run_streams i
      where i.run_id = u.id and i.stream_key = s.stream_key and i.state not in ('waiting', 'running', 'interrupted') offset 0) r
    order by u.id desc limit 1) d),
failing as not materialized (
  select d.*, regexp_replace(d.error, '^[A-Z]+ /\S*: ', '') as cause, t.behind > t.target as is_late, n.of_night,
    case
      when d.answer is not null and not (d.exit_code = 4 and p.proven) then 'outage'
      when d.exit_code = 4 and not p.proven then case when not d.sweeps then 'token_refused' end
      when d.sweeps and d.error like '%seem to have been deleted at the source%' then 'mass_deletion_stopped'
      else 'run_failed' end as problem,
    b.failing_since, b.was_refused
  from last_runs d
  cross join lateral (
     select coalesce(min(f.finished_at), d.finished_at) as failing_since, coalesce(bool_or(f.exit_code = 4), false) as was_refused
     from sync.stored_run_streams f
     where f.account_id = d.account_id and f.stream_key = d.stream_key and f.state = 'failed'
       and case when d.sweeps then (select u.kind from sync.stored_runs u where u.id = f.run_id) = 'sweep'
         else (select u.kind from sync.stored_runs u where u.id = f.run_id) not in ('sweep', 'audit', 'verify', 'backfill') end
       and f.run_id > coalesce((
         select g.run_id from sync.stored_run_streams g
         where g.account_id = d.account_id and g.stream_key = d.stream_key and g.state in ('completed', 'partial')
           and case when d.sweeps then (select u.kind from sync.stored_runs u where u.id = g.run_id) = 'sweep'
             else (select u.kind from sync.stored_runs u where u.id = g.run_id) not in ('sweep', 'audit', 'verify', 'backfill') end
         order by g.run_id desc limit 1), 0)) b
  -- Any later reply proves that the source accepts the token.
  cross join lateral (
    select exists (
      select from sync.streams k join sync.stored_run_streams o on o.account_id = d.account_id and o.stream_key = k.stream_key
      where k.source = d.source and o.run_id > d.run_id and o.state in ('completed', 'partial') and o.credits > 0) as proven) p
  left join lateral (
    select t.target, sync.behind(d.account_id, d.stream_key) as behind
    from sync.targets t where (t.account_id, t.subject) = (d.account_id, d.stream_key) offset 0) t on true
  -- The sweep of a night is a run of its own, opened with its slot.
  cross join lateral (
    select d.kind = 'nightly' or d.sweeps and exists (
      select from sync.schedule_slots p join sync.stored_runs r on (r.account_id, r.started_at) = (p.account_id, p.claimed_at)
      where r.id = d.run_id and p.schedule = 'nightly') as of_night) n
  where d.state = 'failed' and not sync.is_paused(d.account_id, d.stream_key)),
nights as (
  select a.account_id, n.slot, n.run_id, coalesce(t.target, interval '6 hours') as target
  from sync.accounts a
  cross join lateral (
    select s.slot, s.run_id from sync.schedule_slots s
    where s.account_id = a.account_id and s.schedule = 'nightly' and s.run_id is not null
    order by s.slot desc limit 1) n
  left join sync.targets t on (t.account_id, t.subject) = (a.account_id, 'nightly')),
-- A query of its own, because pg_locks cannot be filtered by account: otherwise each account would pay for all.
alive as materialized (
  select w.account_id, w.works, w.host, w.page_url, w.page_error, w.started_at from sync.live_workers w),
unattended as not materialized (
  select a.account_id, greatest(p.last_at, r.last_at) as last_at
  from sync.accounts a
  cross join lateral (
    select max(n.claimed_at) as last_at
    from (values ('fresh'), ('nightly')) w (schedule)
    cross join lateral (
      select i.claimed_at from sync.schedule_slots i
      where i.account_id = a.account_id and i.schedule = w.schedule
      order by i.slot desc limit 1) n) p
  cross join lateral (
    select max(coalesce(i.finished_at, i.started_at)) as last_at
    from (
      select o.finished_at, o.started_at from sync.stored_runs o
      where o.account_id = a.account_id order by o.id desc limit 5) i) r
  where coalesce(p.last_at, r.last_at) is not null
    -- Somebody syncs without the scheduler, for example with cron: nobody is missing before twice the time between the last two.
    and not coalesce((
      select max(i.started_at) > coalesce(p.last_at, '-infinity') and now() < max(i.started_at) + 2 * (max(i.started_at) - min(i.started_at))
      from (
        select o.started_at from sync.stored_runs o
        where o.account_id = a.account_id and o.kind = 'sync' order by o.id desc limit 2) i
      having count(*) = 2), false)
    and exists (select from sync.targets t where t.account_id = a.account_id)
    and not exists (select from alive w where w.account_id = a.account_id and w.works)),
-- When the schedule tries a source again: as long after its last slot as that was after the one before.
next_slots as not materialized (
  select a.account_id, w.schedule, p.slot
  from sync.accounts a cross join (values ('fresh'), ('nightly')) w (schedule)
  cross join lateral (
    select max(i.slot) + (max(i.slot) - min(i.slot)) as slot
    from (
      select o.slot from sync.schedule_slots o
      where o.account_id = a.account_id and o.schedule = w.schedule order by o.slot desc limit 2) i
    having count(*) = 2) p
  where p.slot > now() and exists (select from alive w where w.account_id = a.account_id and w.works)),
found as (
  -- One cause makes several streams of a source fail: the row names all, and carries the first.
  -- An outage is of its source, whatever streams meet it, and whatever it answers: it begins and ends once.
  select r.account_id, case r.problem when 'outage' then r.source || '.' else (array_agg(r.stream_key order by r.place))[1] end as stream_key, r.problem,
    case when r.problem not in ('run_failed', 'outage') or bool_or(r.is_late or r.of_night or r.problem = 'outage' and r.was_refused)
      then 'critical' else 'warning' end as severity,
    case r.problem
      when 'outage' then format('%s since %s; nothing is lost%s.', (array_agg(r.answer order by r.finished_at desc, r.place))[1], sync.time_in_words(min(r.failing_since)),
        '; next try ' || (select sync.time_in_words(min(n.slot)) from next_slots n
          where n.account_id = r.account_id and n.schedule = any(array_agg(case r.kind when 'nightly' then 'nightly' else 'fresh' end))))
      when 'token_refused' then format('The source refuses our token: %s.', min(r.error))
      when 'run_failed' then
        case when count(distinct r.stream_key) = 1
          then string_agg(format('Run %s (%s) of %s failed: %s.', r.run_id, r.kind, r.stream, r.error), ' ' order by r.run_id)
          else format('Runs of %s failed, the last is run %s: %s.', string_agg(distinct r.stream, ', '), max(r.run_id), min(r.cause)) end
      else format('%s and perhaps more seem to have been deleted at the source, too many to be believed; none was marked as deleted here.',
        sync.counted(min(g.many), rtrim(min(r.stream), 's'), min(r.stream))) end as says,
    case r.problem
      when 'outage' then coalesce((array_agg(r.remedy order by r.finished_at desc, r.place))[1], 'It is tried again by itself.')
      when 'token_refused' then coalesce(min(r.remedy), 'Set a token that is valid, and start the workers again.')
      when 'run_failed' then string_agg(distinct coalesce(r.remedy, 'Look at the log.'), ' ')
      else format('Look there whether it is so; if it is, run `npx shelfdesk sweep %s --accept-deletions%s`; if not, the next sweep asks again.',
        min(r.stream), sync.option_of(r.account_id)) end as remedy,
    min(coalesce(g.since, r.failing_since)) as since
  from (select f.*, k.place from failing f join sync.streams k using (stream_key)) r
  left join lateral (
    select count(*) as many, min(o.gone_since) as since from sync.open_deletion_candidates o
    where o.account_id = r.account_id and o.stream_key = r.stream_key and o.gone_at is not null) g on r.problem = 'mass_deletion_stopped'
  where r.problem <> 'mass_deletion_stopped' or g.many > 0
  group by r.account_id, r.source, r.problem,
    case r.problem when 'outage' then '' when 'token_refused' then '' when 'run_failed' then r.cause else r.stream_key end
  union all
  select n.account_id, null, 'nightly_failed', 'critical',
    string_agg(format(case n.kind when 'sweep' then 'The sweep of the night (run %s) %s.' else 'The nightly run %s %s.' end, n.id,
      case n.state when 'failed' then 'failed' else 'was interrupted and not resumed' end), ' ' order by n.id),
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
    -- The sweep of a night is a run of its own, opened with its slot.
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
        where o.account_id = r.account_id and o.kind = 'sweep' and o.id > r.id and o.state in ('completed', 'partial')
        offset 0)
      -- A run that stopped for a mass deletion has a problem of its own.
      and exists (
        select from sync.stored_run_streams s
        where s.run_id = r.id and s.state in ('failed', 'interrupted')
          and coalesce(s.error, '') not like '%seem to have been deleted at the source%'
        offset 0)) n
  where n.state = 'failed'
    -- What still fails has a problem of its own.
    and not exists (select from failing f where f.account_id = n.account_id and f.run_id = n.id)
    or n.state = 'interrupted' and not exists (
    -- The person who canceled the run knows about it.
    select from sync.operations o
    where o.account_id = n.account_id and o.action = 'cancel' and o.subject = n.id::text and o.outcome = 'done'
    offset 0)
  group by n.account_id
  union all
  select n.account_id, null, 'nightly_late', 'warning',
    format('The nightly run %s was due %s ago and is still running; its target is %s.',
      n.run_id, sync.in_words(now() - n.slot), sync.in_words(n.target)),
    format('See what it does by `npx shelfdesk runs show %s%s`; if it needs that long, raise NIGHTLY_WITHIN_HOURS.',
      n.run_id, sync.option_of(n.account_id)),
    n.slot + n.target
  from nights n
  where now() > n.slot + n.target and not exists (select from unattended u where u.account_id = n.account_id) and exists (
    select from sync.stored_runs r join sync.stored_run_streams s on s.run_id = r.id
    where r.id = n.run_id and r.state = 'running' and s.state in ('waiting', 'running')
      and not sync.is_paused(s.account_id, s.stream_key)
    offset 0)
  union all
  select b.account_id, b.stream_key, 'past_target', 'warning',
    format('%s is %s behind; %s were promised.', b.stream, sync.in_words(b.behind), sync.in_words(b.target)),
    format('See `npx shelfdesk status%s` for what holds it up; if more cannot be had at these limits, raise FRESHNESS_TARGETS.',
      sync.option_of(b.account_id)),
    now() - (b.behind - b.target)
  from (
    select s.account_id, k.stream, s.stream_key, t.target, l.behind
    from streams s join sync.streams k using (stream_key) join sync.targets t on (t.account_id, t.subject) = (s.account_id, s.stream_key)
    cross join lateral (select sync.behind(s.account_id, s.stream_key) as behind offset 0) l) b
  -- What holds it up has a problem of its own: a run that failed, an outage, rejects, a worker that is missing.
  where b.behind > b.target and not exists (select from unattended u where u.account_id = b.account_id)
    and not exists (select from sync.most_rejected m where m.account_id = b.account_id and split_part(m.stream_key, '.', 1) = split_part(b.stream_key, '.', 1))
    and not exists (select from failing f where f.account_id = b.account_id and f.problem = 'outage' and f.source = split_part(b.stream_key, '.', 1))
    and not coalesce((
    select r.state = 'failed' or r.sleeps_until > now() from sync.stored_run_streams r
    where r.account_id = b.account_id and r.stream_key = b.stream_key and r.state not in ('waiting', 'running', 'interrupted')
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
  select d.account_id, d.stream_key, 'audit_found_drift', 'warning',
    format('Within the last 24 hours %s of %s %s found to differ from the source: %s.', sync.counted(count(distinct d.record_id), 'record'), d.stream,
      case count(distinct d.record_id) when 1 then 'was' else 'were' end,
      string_agg(distinct d.kind, '; ')),
    format('See `npx shelfdesk sql "select * from sync.audit where account_id = %L and kind is not null"` for what differs. It ends by itself after 24 hours without another one.',
      d.account_id),
    min(d.checked_at)
  from (
    select u.account_id, coalesce(k.stream, 'tickets') as stream, coalesce(k.stream_key, 'helpdesk.tickets') as stream_key, u.stream || ' ' || u.record_id as record_id, u.kind, u.checked_at
    from sync.accounts a join sync.audit u using (account_id) left join sync.streams k on k.stream_key = u.stream_key
    where u.kind is not null and u.checked_at > now() - interval '24 hours') d
  group by d.account_id, d.stream, d.stream_key
  union all
  select h.account_id, h.stream_key, 'gap', 'warning',
    format('%s of %s could not be read, the first from %s on: %s.', sync.counted(count(*), 'range'), h.stream,
      to_char(min(h.gap_from) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), min(h.reason)),
    format('Run `npx shelfdesk backfill %s%s`.', h.stream, sync.option_of(h.account_id)),
    (select min(r.found_at) from sync.gap_reasons r where r.account_id = h.account_id and r.stream_key = h.stream_key)
  from sync.gaps h where h.reason is not null
  group by h.account_id, h.stream, h.stream_key
  union all
  select r.account_id, r.stream_key, 'most_rejected', 'critical',
    format('Most of what is read of %s is rejected: %s. Nothing is lost; next try %s.', r.stream, g.says, sync.time_in_words(r.next_try_at)),
    format('See `npx shelfdesk rejects list%s`, and look whether a newer Shelfdesk knows it. One record is asked for at times that grow rarer; once it can be stored, all are read again by themselves.',
      sync.option_of(r.account_id)),
    r.since
  from sync.most_rejected r
  cross join lateral (
    select i.says from sync.reject_groups i
    where i.account_id = r.account_id and i.stream_key = r.stream_key and i.path is not null
    order by i.rejects desc, i.since limit 1) g
  union all
  select r.account_id, r.stream_key, 'rejects_open', 'warning',
    format('%s: %s%s.', r.stream, string_agg(r.says, '; ' order by r.place) filter (where r.place <= 3),
      '; and ' || sync.counted(nullif(count(*) filter (where r.place > 3), 0), 'other reason')),
    format('See `npx shelfdesk rejects list%s`; what can be asked for again is asked for again by itself.', sync.option_of(r.account_id)),
    min(r.since)
  from (
    select g.*, row_number() over (partition by g.account_id, g.stream_key order by g.rejects desc, g.since, g.reason) as place
    from sync.reject_groups g) r
  where not exists (select from sync.most_rejected m where (m.account_id, m.stream_key) = (r.account_id, r.stream_key))
  group by r.account_id, r.stream, r.stream_key
  union all
  -- It is critical once work waits longer than was promised.
  select a.account_id, null, 'no_worker',
    case when exists (
      select from sync.targets t where t.account_id = a.account_id and t.subject <> 'nightly' and sync.behind(a.account_id, t.subject) > t.target)
      then 'critical' else 'warning' end,
    format('No worker runs since %s.', sync.time_in_words(a.last_at)),
    format('Run `npx shelfdesk start`; if the account is to rest, `npx shelfdesk pause%s`.', sync.option_of(a.account_id)),
    a.last_at
  from unattended a
  union all
  select c.account_id, c.source || '.', 'source_clock_jumped', 'warning',
    format('The clock of %s jumped by %s, last seen at %s: nothing counts as complete until it has stood still for 5 minutes.',
      sync.label_of(c.source), (array_agg(c.value order by c.last_seen_at desc))[1], sync.time_in_words(max(c.last_seen_at))),
    'What was read is stored, and the next runs resume by themselves. If it comes again, ask the support of the source, or look at the clock of the database server.',
    max(c.last_seen_at)
  from sync.drift c
  where c.kind = 'clock' and c.last_seen_at > now() - interval '1 hour'
  group by c.account_id, c.source
  union all
  select w.account_id, null, 'page_not_served', 'warning',
    format('The worker on %s does not serve the page: %s.', min(w.host), min(w.page_error)),
    'End the other program, or set another SHELFDESK_WEB_PORT; then restart the worker.', min(w.started_at)
  from alive w
  -- Another process of the machine may serve it.
  where w.page_error is not null and not exists (
    select from alive o where o.account_id = w.account_id and o.host = w.host and o.page_url is not null)
  group by w.account_id
  union all
  select m.account_id, null, 'alarms_undelivered', 'warning',
    format('The webhook does not take %s: %s.', sync.counted(count(*), 'alarm'), (array_agg(m.last_error order by m.id desc))[1]),
    'Look at its receiver, and at ALARM_WEBHOOK_URL and ALARM_FORMAT; it is tried again, in the end once an hour.',
    min(m.began_at)
  from sync.alarms m where m.next_try_at is not null and m.last_error is not null
  group by m.account_id
  union all
  select d.account_id, null, 'hand_off_undelivered', 'warning',
    format('For more than a day the %s did not take %s, the first of run %s: %s.', d.channel, sync.counted(count(*), 'hand-off'),
      (array_agg(h.run_id order by h.id))[1],
      coalesce((array_agg(d.last_error order by h.id))[1], 'no process has sent it')),
    format('Look at its receiver, and at the settings that begin with HANDOFF_; it is tried again once an hour, or by `npx shelfdesk hand-off send%s`.',
      sync.option_of(d.account_id)),
    min(h.issued_at)
  from sync.hand_off_deliveries d join sync.hand_offs h on h.id = d.hand_off_id
  where d.delivered_at is null
  group by d.account_id, d.channel
  having min(h.issued_at) < now() - interval '1 day'
  union all
  select l.account_id, null, 'hand_off_late', 'warning',
    format('%s; the next one was due %s.',
      case when l.run_id is null then 'No hand-off was taken yet'
        else format('The last hand-off is that of run %s, issued %s ago', l.run_id, sync.in_words(now() - l.issued_at)) end,
      case when l.due_within is not null then 'within ' || sync.in_words(l.due_within) else 'by ' || to_char(l.due_by, 'HH24:MI') end),
    format('See `npx shelfdesk hand-off list%s` for what withholds it, and `npx shelfdesk status%1$s`.', sync.option_of(l.account_id)),
    l.due_at
  from (
    select s.account_id, s.due_within, s.due_by, last.run_id, last.issued_at, d.due_at
    from sync.hand_off_settings s
    -- The last local time due_by that has passed.
    cross join lateral (
      select p.day - case when p.day > p.local then interval '1 day' else interval '0' end as by_local
      from (select now() at time zone s.time_zone as local, date_trunc('day', now() at time zone s.time_zone) + s.due_by as day) p) b
    left join lateral (
      select h.run_id, h.started_at, h.issued_at from sync.hand_offs h
      where h.account_id = s.account_id and h.issued_at is not null and not exists (
        select from sync.hand_off_deliveries o where o.hand_off_id = h.id and o.delivered_at is null)
      order by h.id desc limit 1) last on true
    cross join lateral (
      select case when s.due_within is not null then greatest(last.issued_at, s.since) + s.due_within
        -- A hand-off of the day before that came late is not that of this day.
        when b.by_local at time zone s.time_zone > s.since
          and coalesce(last.started_at <= (b.by_local - interval '1 day') at time zone s.time_zone, true)
          then b.by_local at time zone s.time_zone end as due_at) d
    where d.due_at < now()) l
  union all
  select p.account_id, nullif(p.stream_key, ''), 'paused', 'info',
    format('%s was told to wait by %s%s.', coalesce(nullif(p.stream, ''), 'The account'), p.paused_by, coalesce(': ' || p.reason, '')),
    format('Run `npx shelfdesk resume%s%s`.', coalesce(' ' || nullif(p.stream, ''), ''), sync.option_of(p.account_id)),
    p.paused_at
  from sync.paused p
  union all
  select p.account_id, coalesce(k.stream_key, 'helpdesk.tickets'), 'recommendation', 'info',
    format('Comparisons found of %s, more than once: %s.', coalesce(k.stream, 'tickets'), string_agg(distinct p.kind, '; ')),
    string_agg(distinct p.remedy, ' '), max(p.last_at)
  from sync.recommendations p left join sync.streams k on k.stream_key = p.stream_key
  group by p.account_id, k.stream, k.stream_key)
-- The key of a whole source ends with the dot.
select f.account_id, nullif(split_part(f.stream_key, '.', 2), '') as stream, f.problem, f.severity, f.says, f.remedy, f.since,
  split_part(f.stream_key, '.', 1) as source, case when f.stream_key not like '%.' then f.stream_key end as stream_key
from found f
left join sync.streams k on k.stream_key = f.stream_key
where f.problem in ('paused', 'alarms_undelivered', 'hand_off_undelivered') or not exists (
  select from sync.paused p
  where p.account_id = f.account_id
    and p.stream_key in ('', f.stream_key, case when f.problem = 'past_target' then k.source || '.' || k.follows end));
comment on view sync.problems is
  'Current problems, one row per cause: the content of the page, the alarms, `doctor` and the health endpoints. Empty if everything is well. A paused stream shows only that it is paused.';
comment on column sync.problems.account_id is 'The account.';
comment on column sync.problems.stream is
  'The stream, the first one if one cause stops several of a source; null for the whole account or a whole source.';
comment on column sync.problems.problem is
  'Code of the problem: outage, token_refused, run_failed, nightly_failed, nightly_late, past_target, credits_refused, mass_deletion_stopped, audit_found_drift, gap, most_rejected, rejects_open, no_worker, source_clock_jumped, page_not_served, alarms_undelivered, hand_off_undelivered, hand_off_late, paused, recommendation.';
comment on column sync.problems.severity is
  'critical: work has stopped until a person acts, or a failure delays a stream beyond its target, or a night failed, or most of what is read is rejected; warning; info.';
comment on column sync.problems.says is 'Description in one sentence.';
comment on column sync.problems.since is 'Start of the problem, if known.';
comment on column sync.problems.source is 'The source: helpdesk or books; null for the whole account.';
comment on column sync.problems.stream_key is
  'Key of the stream: source.stream, as helpdesk.tickets; null for the whole account or a whole source.';
-- end of problems
comment on column sync.sources.address is 'Base address of the source. Its first stored row binds the account to this address.';

-- How a source behaves is told by the probe of the sandbox.
drop table sync.source_behaviour;

-- A sweep and a verification announce what their rows cost; only a sync and a backfill are forecast.
comment on column sync.forecasts.kind is 'Kind of the run: sync or backfill.';
comment on column sync.verifications.credits is
  'Credits that the stored rows cost, announced at the start; for the catalog, requests.';
comment on column sync.verifications.seconds is
  'Duration for them at the configured limits, in seconds, announced at the start.';

comment on column sync.operations.action is
  'The action: run, pause, resume, retry, cancel, erase, let a reader in, revoke a reader, calendar, target, field rules, move.';

-- Views over the changed ones take their comments anew.
comment on column safe.tickets._true_by is null;
comment on column analytics.fact_targets.due_at is null;
comment on column analytics.fact_targets.outcome is null;

select sync.settle_comments();
select sync.settle_roles();

-- A name becomes a role only if it is quoted. A new database has these functions so already.
do $$
declare
  one regprocedure;
begin
  foreach one in array '{sync.hand_over(name),sync.settle_roles()}'::regprocedure[] loop
    execute replace(pg_get_functiondef(one), ' current_user' || '::regrole', ' quote_ident(current_user)::regrole');
  end loop;
end
$$;
