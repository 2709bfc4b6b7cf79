-- How complete each stream is.

-- `migrate` adds the streams of details that further sources declare.
create or replace view sync.waiting_details as
select t.account_id, 'helpdesk.messages' as stream_key, t.id as record_id, t.updated_at as waits_since
from helpdesk.tickets t
where (t._messages_as_of is null or t._messages_as_of < t.updated_at) and t._deleted_at is null;
comment on view sync.waiting_details is 'Records that are new or have changed, and whose details are still to be read.';
comment on column sync.waiting_details.account_id is 'The account.';
comment on column sync.waiting_details.stream_key is 'The stream of the details.';
comment on column sync.waiting_details.record_id is 'The record whose details are to be read.';
comment on column sync.waiting_details.waits_since is 'When the record was last changed.';

create or replace function sync.complete_through(account text, stream text) returns timestamptz
language sql stable
begin atomic
  select case
    when sync.key_of(complete_through.stream) = 'helpdesk.messages' then case
      -- least() ignores null. A stream that was never read has no complete_through.
      when sync.lists_complete_through(account, 'helpdesk.tickets') is not null then least(
        sync.lists_complete_through(account, 'helpdesk.tickets'),
        (select t.updated_at
         from helpdesk.tickets t
         where t.account_id = account
           and (t._messages_as_of is null or t._messages_as_of < t.updated_at)
           and t._deleted_at is null
         order by t.updated_at
         limit 1)) end
    when sync.key_of(complete_through.stream) = 'books.volumes' then case
      when sync.lists_complete_through(account, 'books.shelves') is not null then least(
        sync.lists_complete_through(account, 'books.shelves'),
        (select min(w.waits_since) from sync.waiting_volumes w where w.account_id = account and not w.rejected)) end
    else (
      select case when l.through is not null then least(l.through, (
        select min(w.waits_since) from sync.waiting_details w where w.account_id = account and w.stream_key = k.stream_key)) end
      from sync.streams k
      cross join lateral (select sync.lists_complete_through(account, coalesce(k.source || '.' || k.follows, k.stream_key)) as through offset 0) l
      where k.stream_key = sync.key_of(complete_through.stream))
  end;
end;
comment on function sync.complete_through is
  'The stream has each change before this time, except for its open rejects; null if it was never read. Details, such as messages: up to the first record whose details are pending. Volumes: up to the first volume with a pending fetch by id. The argument is the stream''s key, or its short name if only one source has a stream of that name.';

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

create or replace function sync.void_since(account text, source text, since timestamptz) returns void
language sql
begin atomic
  update sync.coverage c set covered = c.covered * tstzmultirange(tstzrange(null, void_since.since))
  from sync.streams k
  where k.source = void_since.source and c.stream_key = k.stream_key and c.account_id = account
    and c.covered && tstzrange(void_since.since, null);
  delete from sync.walks w using sync.streams k
  where k.source = void_since.source and w.stream_key = k.stream_key and w.account_id = account and w.as_of > since;
  delete from sync.swept s using sync.streams k
  where k.source = void_since.source and s.stream_key = k.stream_key and s.account_id = account and s.as_of > since;
  insert into internal.ticket_history select v.* from internal.first_versions v
  where void_since.source = 'helpdesk' and v.account_id = account and v.valid_from > since;
  -- Any later reply overwrites rows from after that time, even with a version of an older date.
  update helpdesk.tickets t set
    _observed_at = least(t._observed_at, since),
    -- `since` is early by the tolerance of the clock.
    _true_by = least(coalesce(t._true_by, t._observed_at + interval '1 minute'),
      since + (select greatest(a.lookback, interval '5 seconds') from sync.accounts a where a.account_id = t.account_id)),
    _messages_as_of = case when t._messages_as_of > since then since else t._messages_as_of end
  where void_since.source = 'helpdesk' and t.account_id = account
    and (t.updated_at > since or t._observed_at > since or t._messages_as_of > since);
  update helpdesk.customers c set
    _observed_at = least(c._observed_at, since),
    _checked_at = case when c._checked_at > since then since else c._checked_at end
  where void_since.source = 'helpdesk' and c.account_id = account and (c._observed_at > since or c._checked_at > since);
  update helpdesk.users u set _observed_at = since
  where void_since.source = 'helpdesk' and u.account_id = account and u._observed_at > since;
  delete from internal.ticket_history h
  where void_since.source = 'helpdesk' and h.account_id = account and h.valid_from > since and exists (
    select from internal.ticket_history l
    where l.account_id = h.account_id and l.ticket_id = h.ticket_id and l.valid_from > h.valid_from);
  update internal.ticket_history h set
    valid_to = greatest(since, h.valid_from + interval '1 second'),
    deleted_after = case when h.deleted_after < since then h.deleted_after end
  where void_since.source = 'helpdesk' and h.account_id = account and h.valid_from <= since and h.valid_to > since;
  update internal.ticket_history h set
    valid_from = p.at,
    valid_to = case when h.valid_to is not null then greatest(h.valid_to, p.at + interval '1 second') end,
    change_after = case
      when p.last_from is not null then least(h.change_after, p.last_from - interval '1 second')
      when p.created_at <= p.at then p.created_at - interval '1 second' end,
    is_first = p.last_from is null
  from (
    select l.account_id, l.ticket_id, l.valid_from, b.valid_from as last_from, greatest(since, b.valid_to) as at, t.created_at
    from internal.ticket_history l
    join helpdesk.tickets t on t.account_id = l.account_id and t.id = l.ticket_id
    left join lateral (
      select e.valid_from, e.valid_to from internal.ticket_history e
      where e.account_id = l.account_id and e.ticket_id = l.ticket_id and e.valid_from < l.valid_from
      order by e.valid_from desc limit 1) b on true
    where l.account_id = account and l.valid_from > since) p
  where void_since.source = 'helpdesk' and h.account_id = p.account_id and h.ticket_id = p.ticket_id and h.valid_from = p.valid_from;
end;
comment on function sync.void_since is
  'Handles a source clock that was set back to this time. Synced, swept and confirmed ranges end there; later replies overwrite rows with later times; the history of tickets has no later rows.';
comment on table sync.targets is
  'Targets: the longest lag of each stream, and the longest duration of a nightly run, copied from the settings at each start. The highest age of the last whole re-reading of a stream: three of its periods, as the worker forecasts them.';
comment on column sync.targets.subject is 'Key of a stream, source.stream; nightly; or reread with the key of a stream.';
comment on column sync.targets.target is 'Longest lag, longest duration, or highest age.';

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
    else (
      select min(w.waits_since) from sync.waiting_details w
      where w.account_id = behind.account and w.stream_key = n.stream_key and w.waits_since > n.mirrored_since
        and not exists (
          select from sync.rejects r
          where r.account_id = w.account_id and r.stream_key = w.stream_key and r.ask_id = w.record_id and r.cleared_at is null
          offset 0))
    end))
  from known n
  where n.top > n.mirrored_since - interval '1 hour';
end;
comment on function sync.behind is
  'Lag of the newest part of the stream: every change older than this, and later than the start of the mirror, is stored, except for open rejects. Missing history does not count. Null until the first load has reached the start of the mirror, and while a list of the stream was never read. The lookback (HELPDESK_LOOKBACK_SECONDS) is part of the lag, because changes that young may be missing.';

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
  l.deferred_until,
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
    when b.behind > t.target and not coalesce(d.deferred_until > now(), false) then 'stale'
    when (w.waiting > 0 or h.gaps > 0)
      and not coalesce(e.complete_through > now() - greatest(t.target, b.behind), false) then 'catching_up'
    when d.deferred_until > now() and w.waiting > 0 then 'catching_up'
    else 'fresh' end as state,
  sync.change_latency(s.account_id, s.stream_key, 50) as latency_p50,
  sync.change_latency(s.account_id, s.stream_key, 95) as latency_p95,
  s.stream_key,
  sync.complete_from(s.account_id, s.stream_key) as complete_from,
  sync.unchecked_since(s.account_id, s.stream_key) as unchecked_since
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
    when 'books.volumes' then (select count(*) from sync.waiting_volumes w where w.account_id = s.account_id)
    else (
      select count(*) from sync.waiting_details w where w.account_id = s.account_id and w.stream_key = s.stream_key) end as waiting) w
cross join lateral (select sync.behind(s.account_id, s.stream_key) as behind offset 0) b
left join sync.targets t on (t.account_id, t.subject) = (s.account_id, s.stream_key)
left join lateral (
  select r.run_id,
    case when r.state = 'waiting' and (select u.state from sync.runs u where u.id = r.run_id) = 'interrupted'
      then 'interrupted' else r.state end as state,
    r.finished_at, r.error, r.remedy, r.deferred_until
  from sync.run_streams r
  -- Audits and verifications do not extend coverage, so their runs do not count here.
  where r.account_id = s.account_id and r.stream_key = s.stream_key
    and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('audit', 'verify')
  order by r.run_id desc
  limit 1
) l on true
-- A running run has no result yet.
left join lateral (
  select r.state, r.deferred_until
  from sync.stored_run_streams r
  where r.account_id = s.account_id and r.stream_key = s.stream_key and r.state not in ('waiting', 'running')
    and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('audit', 'verify', 'sweep', 'backfill')
  order by r.run_id desc
  limit 1
) d on true
cross join lateral (
  select exists (
    select from sync.most_rejected i where i.account_id = s.account_id and i.stream_key = s.stream_key) as most offset 0) m;
comment on view sync.status is 'How complete each stream of each account is, and what is missing.';
comment on column sync.status.account_id is 'The account.';
comment on column sync.status.stream is 'The stream.';
comment on column sync.status.complete_through is
  'The table has each change before this time, except for its open rejects; null if it was never read.';
comment on column sync.status.complete_from is
  'Records last changed before this time may be missing: the mirror starts here. Null: complete from the beginning.';
comment on column sync.status.lag is 'Time since complete_through.';
comment on column sync.status.gaps is 'Number of unread ranges below the high-water mark; see sync.gaps.';
comment on column sync.status.waiting is 'Records with pending details, such as tickets with pending messages; volumes with a pending fetch by id.';
comment on column sync.status.open_rejects is 'Number of records that could not be stored; see sync.rejects.';
comment on column sync.status.last_run is 'The last run that read the stream. Audits and verifications do not count.';
comment on column sync.status.last_state is 'State of that run.';
comment on column sync.status.last_finished_at is 'End of that run; null while it is running.';
comment on column sync.status.last_success_at is 'End of the last completed run that read the stream.';
comment on column sync.status.last_error is 'Error of the last run.';
comment on column sync.status.source is 'Source of the stream: helpdesk or books.';
comment on column sync.status.deletes_checked_at is
  'None of the rows shown here had been deleted at the source before this time; null if unknown, such as before the first whole sweep. Messages and volumes: as of their tickets and shelves. Users: as of the last full read that showed every user here.';
comment on column sync.status.unchecked_since is
  'Edits and deletions that the source does not announce would have been found if they had happened before this time; null if not all of the stream was read again yet. See sync.unchecked_since.';
comment on column sync.status.differ_at_most_percent is
  'Upper bound, in percent with 95 % confidence, of the share of stored records that differ from the source, from random comparisons of the last seven days. For messages: of tickets with complete messages. Null without comparisons. sync.audit_confidence has the bounds by field.';
comment on column sync.status.differ_as_of is 'The oldest comparison behind this bound, by the source''s clock.';
comment on column sync.status.behind is
  'Lag of the newest part of the stream: every older change since the start of the mirror is stored. Unlike lag, it ignores missing history. See sync.behind.';
comment on column sync.status.target is 'Freshness target from the settings; see sync.targets.';
comment on column sync.status.state is
  'fresh; catching_up (within its target, but history or details are pending, the first load is running, or the daily quota is used up); stale (behind its target); failing (the last finished run failed, or most of what is read is rejected); never_synced; paused (by a person, or because the stream that it depends on is paused).';
comment on column sync.status.latency_p50 is
  'Median change latency of the last hour: age of a change when it was stored. Null without changes.';
comment on column sync.status.latency_p95 is
  '95th percentile of the change latency of the last hour. Null without changes.';

create or replace view sync.ticket_completeness as
select t.account_id, t.id as ticket_id,
  t._messages_as_of is not null and t._messages_as_of >= t.updated_at and r.open_rejects = 0 as messages_complete,
  t._messages_as_of as messages_as_of,
  k.checked_at,
  r.open_rejects
from helpdesk.tickets t
join sync.checked_tickets k on (k.account_id, k.ticket_id) = (t.account_id, t.id)
cross join lateral (
  select count(*) as open_rejects from sync.rejects r
  where r.account_id = t.account_id and r.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and r.ask_id = t.id and r.cleared_at is null) r
where t._deleted_at is null;
comment on view sync.ticket_completeness is
  'For every existing ticket: whether all its messages are stored, and when the source last confirmed the ticket as stored here.';
comment on column sync.ticket_completeness.account_id is 'The account.';
comment on column sync.ticket_completeness.messages_complete is
  'True if the messages were read in the current version of the ticket and none was rejected. The source does not announce a change of a message without a change of the ticket; see messages_as_of.';
comment on column sync.ticket_completeness.messages_as_of is
  'The source showed the messages at this time; null if they were never read.';
comment on column sync.ticket_completeness.checked_at is
  'Last time at which a list of the source confirmed the ticket as stored here; see sync.ticket_checked_at.';
comment on column sync.ticket_completeness.open_rejects is
  'Number of parts of the ticket that could not be stored or fetched; see sync.rejects.';

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
