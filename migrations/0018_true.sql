-- Up Migration

alter table sync.coverage add column since timestamptz, add column lookback interval, add column page_size integer,
  add column pages_vary boolean not null default false, add column ends_proven_through timestamptz;

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
    when d.state = 'failed' then 'failing'
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
) d on true;
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
  -- Field rules rewrite stored values (fields apply): no ticket has changed.
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

comment on column sync.sources.address is 'Base address of the source. Its first stored row binds the account to this address.';

comment on column sync.operations.action is
  'The action: run, pause, resume, retry, cancel, erase, let a reader in, revoke a reader, calendar, target, field rules, move.';

-- Views over the changed ones take their comments anew.
comment on column safe.tickets._true_by is null;
comment on column analytics.fact_targets.due_at is null;
comment on column analytics.fact_targets.outcome is null;

select sync.settle_comments();
select sync.settle_roles();
