-- Up Migration

-- A stream is keyed `source.stream`: two sources may have a stream of one name. `stream` keeps the short name that people read.

alter table sync.streams drop constraint streams_pkey;
alter table sync.streams
  add column stream_key text not null generated always as (source || '.' || stream) stored,
  add primary key (source, stream),
  add unique (stream_key);
comment on column sync.streams.stream is 'The short name of the stream, unique within its source.';
comment on column sync.streams.stream_key is 'The key of the stream, unique among all sources: source.stream, as helpdesk.tickets.';
comment on column sync.streams.follows is 'The stream of the same source whose records name the ids to fetch for this one; null where lists are read.';

-- The default fills rows of names that have no stream of their own, as labels: only the help desk has such names.
do $$
declare
  one text;
begin
  foreach one in array array['audit', 'change_ages', 'coverage', 'crowds', 'drift', 'hole_reasons', 'rejects', 'run_lists',
    'stored_run_streams', 'suspects', 'swept', 'verified_lists', 'walks'] loop
    execute format('alter table sync.%I add column source text not null default %L', one, 'helpdesk');
    execute format('update sync.%I t set source = k.source from sync.streams k where k.stream = t.stream and k.source <> t.source', one);
    execute format(
      'alter table sync.%I alter column source drop default, add column stream_key text not null generated always as (source || %L || stream) stored',
      one, '.');
    execute format('comment on column sync.%I.source is %L', one, 'The source of the stream: helpdesk or books.');
    execute format('comment on column sync.%I.stream_key is %L', one, 'The key of the stream: source.stream, as helpdesk.tickets.');
  end loop;
  -- Here an empty stream stands for the whole account.
  foreach one in array array['alarms', 'paused'] loop
    execute format('alter table sync.%I add column source text not null default %L', one, '');
    execute format(
      'update sync.%I t set source = coalesce((select k.source from sync.streams k where k.stream = t.stream), %L) where t.stream <> %L',
      one, 'helpdesk', '');
    execute format(
      'alter table sync.%1$I add column stream_key text not null generated always as (case stream when %2$L then %2$L else source || %3$L || stream end) stored',
      one, '', '.');
    execute format('alter table sync.%1$I add constraint %1$s_source_and_stream check ((source = %2$L) = (stream = %2$L))', one, '');
    execute format('comment on column sync.%I.source is %L', one, 'The source of the stream: helpdesk or books. Empty for the whole account.');
    execute format('comment on column sync.%I.stream_key is %L', one,
      'The key of the stream: source.stream, as helpdesk.tickets. Empty for the whole account.');
  end loop;
end
$$;
drop index sync.alarms_open;
create unique index alarms_open on sync.alarms (account_id, problem, stream_key) where ended_at is null;

drop index sync.audit_record;
create unique index audit_record on sync.audit (account_id, run_id, stream_key, record_id);
drop index sync.audit_of_record;
create index audit_of_record on sync.audit (account_id, stream_key, record_id);

alter table sync.change_ages
  drop constraint change_ages_pkey,
  add constraint change_ages_pkey primary key (account_id, stream_key, minute, age_seconds);

alter table sync.coverage
  drop constraint coverage_pkey,
  add constraint coverage_pkey primary key (account_id, stream_key, list);

alter table sync.crowds
  drop constraint crowds_pkey,
  add constraint crowds_pkey primary key (account_id, stream_key, list, seconds);

alter table sync.drift
  drop constraint drift_pkey,
  add constraint drift_pkey primary key (account_id, stream_key, kind, path, value);

alter table sync.hole_reasons
  drop constraint hole_reasons_pkey,
  add constraint hole_reasons_pkey primary key (account_id, stream_key, list, hole);

alter table sync.paused
  drop constraint paused_pkey,
  add constraint paused_pkey primary key (account_id, stream_key);

drop index sync.rejects_open;
create unique index rejects_open on sync.rejects (account_id, stream_key, key) where cleared_at is null;
drop index sync.rejects_ask;
create index rejects_ask on sync.rejects (account_id, stream_key, ask_id) where cleared_at is null;
drop index sync.rejects_of_record;
create index rejects_of_record on sync.rejects (record_id, account_id, stream_key) where length(record_id) <= 500;
drop index sync.rejects_asked;
create index rejects_asked on sync.rejects (ask_id, account_id, stream_key);

alter table sync.run_lists
  drop constraint run_lists_pkey,
  add constraint run_lists_pkey primary key (run_id, stream_key, list);
drop index sync.run_lists_list;
create index run_lists_list on sync.run_lists (account_id, stream_key, list);

alter table sync.stored_run_streams
  drop constraint run_streams_pkey,
  add constraint run_streams_pkey primary key (run_id, stream_key);
drop index sync.run_streams_latest;
create index run_streams_latest on sync.stored_run_streams (account_id, stream_key, run_id desc);
drop index sync.stored_run_streams_done;
create index stored_run_streams_done on sync.stored_run_streams (account_id, stream_key, finished_at) where state = 'completed';

alter table sync.suspects
  drop constraint suspects_pkey,
  add constraint suspects_pkey primary key (account_id, stream_key, record_id);
drop index sync.suspects_gone;
create index suspects_gone on sync.suspects (account_id, stream_key) where gone_at is not null;

alter table sync.swept
  drop constraint swept_no_overlap,
  add constraint swept_no_overlap exclude using gist (account_id with =, stream_key with =, list with =, created with &&);
drop index sync.swept_from;
create index swept_from on sync.swept (account_id, stream_key, list, coalesce(lower(created), '-infinity'::timestamptz));

alter table sync.verified_lists
  drop constraint verified_lists_pkey,
  add constraint verified_lists_pkey primary key (run_id, stream_key, list);

alter table sync.walks
  drop constraint walks_pkey,
  add constraint walks_pkey primary key (account_id, stream_key, list, until);

create function sync.key_of(stream text) returns text
language sql stable
begin atomic
  select case when strpos(key_of.stream, '.') > 0 then key_of.stream else (
    select min(k.stream_key) from sync.streams k where k.stream = key_of.stream having count(*) = 1) end;
end;
comment on function sync.key_of(text) is
  'The key of a stream, source.stream, from its key or from a short name that only one source has; null for any other short name.';

create or replace view sync.holes as
select c.account_id, c.stream, c.list, lower(h.hole) as hole_from, upper(h.hole) as hole_to,
  (select string_agg(distinct r.reason, '; ')
   from sync.hole_reasons r
   where r.account_id = c.account_id and r.stream_key = c.stream_key and r.list = c.list and r.hole && h.hole) as reason,
  c.source, c.stream_key
from sync.coverage c
join sync.accounts a using (account_id)
cross join unnest(
  case when isempty(c.covered) then '{}'::tstzmultirange
    else tstzmultirange(tstzrange(a.since, greatest(a.since, upper(c.covered)))) - c.covered
  end) as h (hole)
where not c.redundant;
comment on column sync.holes.source is 'The source of the stream: helpdesk or books.';
comment on column sync.holes.stream_key is 'The key of the stream: source.stream, as helpdesk.tickets.';

create or replace view sync.open_suspects as
select s.account_id, s.stream, s.record_id, s.suspected_at, s.alive_at, s.gone_at, s.gone_since, s.attempts, s.error, s.run_id,
  s.source, s.stream_key
from sync.suspects s
where case s.stream_key
  when 'helpdesk.tickets' then exists (
    select from helpdesk.tickets t
    where t.account_id = s.account_id and t.id = s.record_id
      and not sync.is_gone_or_known(t._deleted_at, greatest(t._observed_at, t._messages_as_of), s.suspected_at))
  when 'helpdesk.customers' then exists (
    select from helpdesk.customers c
    where c.account_id = s.account_id and c.id = s.record_id
      and not sync.is_gone_or_known(c._deleted_at, greatest(c._observed_at, c._checked_at), s.suspected_at))
  end;
comment on column sync.open_suspects.source is 'The source of the stream: helpdesk or books.';
comment on column sync.open_suspects.stream_key is 'The key of the stream: source.stream, as helpdesk.tickets.';

create or replace view sync.run_streams as
select s.run_id, s.account_id, s.stream, s.token,
  case when s.state = 'running' and not sync.is_alive(s.worker) then 'interrupted' else s.state end as state,
  s.expected, s.seen, s.inserted, s.updated, s.unchanged, s.deleted, s.rejected, s.cleaned, s.credits, s.carried_from,
  case when s.state = 'waiting' then s.waits_for end as waits_for,
  s.worker, s.job, s.started_at, s.finished_at, s.error, s.remedy, s.exit_code, s.sleeps_until,
  s.source, s.stream_key
from sync.stored_run_streams s;
comment on column sync.run_streams.source is 'The source of the stream: helpdesk or books.';
comment on column sync.run_streams.stream_key is 'The key of the stream: source.stream, as helpdesk.tickets.';

create or replace view sync.certainty as
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
  sync.at_most(coalesce(d.differed, 0), t.checked) as at_most_percent, t.as_of, t.source, t.stream_key
from totals t
join (select account_id, stream_key, '' as field from totals union select account_id, stream_key, field from differing) f
  using (account_id, stream_key)
left join differing d using (account_id, stream_key, field);
comment on column sync.certainty.source is 'The source of the stream: helpdesk or books.';
comment on column sync.certainty.stream_key is 'The key of the stream: source.stream, as helpdesk.tickets.';

create or replace view sync.lists_apart as
select c.account_id, bool_or(c.list = 'spam') as spam, bool_or(c.list = 'trash') as trash
from sync.coverage c
where c.stream_key = 'helpdesk.tickets' and not c.redundant
group by c.account_id;

create or replace view sync.proposals as
select k.account_id, k.stream, k.kind, k.times, k.last_at, r.setting, r.remedy, k.source, k.stream_key
from (
  select a.account_id, a.source, a.stream, a.stream_key, one.kind, count(*) as times, max(a.checked_at) as last_at
  from sync.audit a, unnest(string_to_array(a.kind, '; ')) one (kind)
  where a.checked_at > now() - interval '30 days' and a.kind is not null
  group by a.account_id, a.source, a.stream, a.stream_key, one.kind
  having count(distinct a.run_id) >= 2) k
cross join lateral (
  select case
      when k.kind in ('changed here', 'only here') then null
      when k.kind in ('a change was missed', 'missing here') then null
      when k.stream_key in ('helpdesk.labels', 'helpdesk.inboxes') then null
      when k.stream_key = 'helpdesk.messages' then 'MESSAGES_AGE_DAYS'
      when k.stream_key = 'helpdesk.users' then 'SCHEDULE_NIGHTLY'
      when k.stream_key = 'books.shelves' then 'BOOKS_SHELF_AGE_HOURS'
      when k.stream_key = 'books.volumes' then 'BOOKS_VOLUME_AGE_DAYS'
      else 'SWEEP_AGE_DAYS' end as setting,
    case
      when k.kind in ('changed here', 'only here') then 'Somebody else writes to these tables: let nobody but the worker do so.'
      when k.kind in ('a change was missed', 'missing here') then 'Read the range again: backfill --again. If it happens anew, please report it.'
      when k.stream_key in ('helpdesk.labels', 'helpdesk.inboxes') then 'Nothing to do: names of labels and inboxes are looked at again once a week.'
      when k.stream_key = 'helpdesk.messages' then 'Nothing announces it: set MESSAGES_AGE_DAYS, so that messages are read again after so many days.'
      when k.stream_key = 'helpdesk.users' then 'Nothing announces it: let the night come more often, by SCHEDULE_NIGHTLY.'
      when k.stream_key = 'books.shelves' then 'Nothing announces it: set BOOKS_SHELF_AGE_HOURS lower, so that shelves are read again sooner.'
      when k.stream_key = 'books.volumes' then 'Nothing announces it: set BOOKS_VOLUME_AGE_DAYS lower, so that volumes are read again sooner.'
      else 'Nothing announces it: set SWEEP_AGE_DAYS lower, so that everything is looked at again sooner.' end as remedy) r;
comment on column sync.proposals.source is 'The source of the stream: helpdesk or books.';
comment on column sync.proposals.stream_key is 'The key of the stream: source.stream, as helpdesk.tickets.';

create or replace view sync.waiting_volumes as
select v.account_id, v.id, v._waits_since as waits_since,
  exists (
    select from sync.rejects r
    where r.account_id = v.account_id and r.stream_key = 'books.volumes' and r.ask_id = v.id and r.cleared_at is null) as rejected
from books.volumes v
where v._waits_since is not null and exists (
  select from books.shelf_volumes m
  join sync.coverage c on (c.account_id, c.stream_key, c.list) = (m.account_id, 'books.shelves', m.owner_id)
  where m.account_id = v.account_id and m.volume_id = v.id and m._removed_at is null);

create or replace function sync.is_paused(account text, stream text) returns boolean
language sql stable
begin atomic
  select exists (
    select from sync.paused p where p.account_id = account and p.stream_key in ('', is_paused.stream));
end;
comment on function sync.is_paused(text, text) is 'True if people have paused the stream, named by its key, or the whole account.';

create or replace function sync.lists_complete_through(account text, stream text) returns timestamptz
language sql stable
begin atomic
  select case when bool_and(not isempty(c.covered))
    then least(
      min(lower(tstzmultirange(tstzrange(a.since, null)) - c.covered)),
      min((
        select min(lower(w.seconds)) from sync.crowds w
        where w.held and (w.account_id, w.stream_key, w.list) = (c.account_id, c.stream_key, c.list)))) end
  from sync.coverage c
  join sync.accounts a using (account_id)
  where c.account_id = account
    and c.stream_key = lists_complete_through.stream
    and not c.redundant;
end;

create or replace function sync.complete_through(account text, stream text) returns timestamptz
language sql stable
begin atomic
  select case
    when sync.key_of(complete_through.stream) = 'helpdesk.messages' then case
      -- least() passes over null, and what was never read is complete through nothing.
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
    else sync.lists_complete_through(account, sync.key_of(complete_through.stream))
  end;
end;

create or replace function sync.change_age(account text, stream text, percent numeric, since timestamptz default now() - interval '1 hour')
returns interval
language sql stable
begin atomic
  select make_interval(secs => min(c.age_seconds)) from (
    select a.age_seconds, sum(a.changes) over (order by a.age_seconds) as upto, sum(a.changes) over () as total
    from (
      select g.age_seconds, sum(g.changes) as changes from sync.change_ages g
      where g.account_id = account and g.stream_key = sync.key_of(change_age.stream) and g.minute >= since + coalesce((
        select (b.state #>> '{clock,offsetMs}')::float8 * interval '1 millisecond'
        from sync.streams k join sync.budget b on (b.account_id, b.source) = (account, k.source)
        where k.stream_key = sync.key_of(change_age.stream)), interval '0')
      group by 1) a) c
  where c.upto >= c.total * percent / 100;
end;

create or replace function sync.behind(account text, stream text, at timestamptz default now()) returns interval
language sql stable
begin atomic
  with known as (
    select k.stream_key, a.mirrored_since,
      behind.at + coalesce((
        select (b.state #>> '{clock,offsetMs}')::float8 * interval '1 millisecond'
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

create or replace function sync.deletes_checked_at(account text, stream text) returns timestamptz
language sql stable
begin atomic
  with asked as materialized (
    select sync.key_of(deletes_checked_at.stream) as stream_key),
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
    when (select a.stream_key from asked a) is distinct from 'helpdesk.tickets'
      and (select a.stream_key from asked a) is distinct from 'helpdesk.customers' then null
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
         and exists (
           select from helpdesk.tickets t
           where t.account_id = account and t.created_at is null and t._deleted_at is null)),
      (select min(o.alive_at) from sync.open_suspects o
       where o.account_id = account and o.stream_key = (select a.stream_key from asked a)))
  end;
end;

create or replace function sync.swept_at(account text, created_at timestamptz, state text, spam boolean, trash boolean, spam_apart boolean, trash_apart boolean)
returns table (as_of timestamptz)
language sql stable
begin atomic
  select max(w.as_of)
  from (values
    ('undated', swept_at.created_at is null),
    ('spam', swept_at.spam),
    ('trash', swept_at.trash),
    ('open', swept_at.state in ('open', 'hold') and not coalesce(swept_at.spam, false) and not coalesce(swept_at.trash, false)),
    ('default', not coalesce(spam_apart and swept_at.spam or trash_apart and swept_at.trash, false))) l (list, speaks)
  cross join lateral (
    -- Ranges of a list do not overlap: only the last one that begins by then can hold it.
    select w.created, w.as_of
    from sync.swept w
    where w.account_id = account and w.stream_key = 'helpdesk.tickets' and w.list = l.list
      and coalesce(lower(w.created), '-infinity') <= coalesce(swept_at.created_at, '-infinity')
    order by coalesce(lower(w.created), '-infinity') desc
    limit 1) w
  where l.speaks and w.created @> coalesce(swept_at.created_at, '-infinity');
end;

create or replace function sync.void_since(account text, source text, since timestamptz) returns void
language sql
begin atomic
  update sync.coverage c set covered = c.covered * tstzmultirange(tstzrange(null, since))
  from sync.streams k
  where k.source = void_since.source and c.stream_key = k.stream_key and c.account_id = account
    and c.covered && tstzrange(since, null);
  delete from sync.walks w using sync.streams k
  where k.source = void_since.source and w.stream_key = k.stream_key and w.account_id = account and w.as_of > since;
  delete from sync.swept s using sync.streams k
  where k.source = void_since.source and s.stream_key = k.stream_key and s.account_id = account and s.as_of > since;
  -- Rows from after that time give way to each reply that is later, also to a version that is dated earlier.
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
  delete from helpdesk.ticket_history h
  where void_since.source = 'helpdesk' and h.account_id = account and h.valid_from > since and exists (
    select from helpdesk.ticket_history l
    where l.account_id = h.account_id and l.ticket_id = h.ticket_id and l.valid_from > h.valid_from);
  update helpdesk.ticket_history h set
    valid_to = greatest(since, h.valid_from + interval '1 second'),
    deleted_after = case when h.deleted_after < since then h.deleted_after end
  where void_since.source = 'helpdesk' and h.account_id = account and h.valid_from <= since and h.valid_to > since;
  update helpdesk.ticket_history h set
    valid_from = p.at,
    valid_to = case when h.valid_to is not null then greatest(h.valid_to, p.at + interval '1 second') end,
    change_after = case
      when p.last_from is not null then least(h.change_after, p.last_from - interval '1 second')
      when p.created_at <= p.at then p.created_at - interval '1 second' end,
    is_first = p.last_from is null
  from (
    select l.account_id, l.ticket_id, l.valid_from, b.valid_from as last_from, greatest(since, b.valid_to) as at, t.created_at
    from helpdesk.ticket_history l
    join helpdesk.tickets t on t.account_id = l.account_id and t.id = l.ticket_id
    left join lateral (
      select e.valid_from, e.valid_to from helpdesk.ticket_history e
      where e.account_id = l.account_id and e.ticket_id = l.ticket_id and e.valid_from < l.valid_from
      order by e.valid_from desc limit 1) b on true
    where l.account_id = account and l.valid_from > since) p
  where void_since.source = 'helpdesk' and h.account_id = p.account_id and h.ticket_id = p.ticket_id and h.valid_from = p.valid_from;
end;

create or replace view sync.status as
select s.account_id, k.stream,
  e.complete_through,
  now() - e.complete_through as lag,
  h.holes,
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
    then 'Nothing to do while a worker runs: it goes on there. Else run `npx shelfdesk start`, or the same command again.' else l.remedy end as remedy,
  k.source,
  l.sleeps_until,
  sync.deletes_checked_at(s.account_id, s.stream_key) as deletes_checked_at,
  -- As sync.certainty has it for any field; here by stream, and not at all where nobody asks for it.
  (select case when count(*) > 0 then
      sync.at_most(count(distinct u.record_id) filter (where u.differences is not null), count(distinct u.record_id) filter (where not u.unread)) end
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
    when (w.waiting > 0 or h.holes > 0)
      and not coalesce(e.complete_through > now() - greatest(t.target, b.behind), false) then 'catching_up'
    when d.sleeps_until > now() and w.waiting > 0 then 'catching_up'
    else 'fresh' end as state,
  sync.change_age(s.account_id, s.stream_key, 50) as age_p50,
  sync.change_age(s.account_id, s.stream_key, 95) as age_p95,
  s.stream_key
from (
  select distinct c.account_id, k.stream_key
  from sync.coverage c join sync.streams k on c.source = k.source and c.stream in (k.stream, k.follows)
) s
join sync.streams k using (stream_key)
cross join lateral (select sync.complete_through(s.account_id, s.stream_key) as complete_through offset 0) e
cross join lateral (
  select count(*) as holes from sync.holes h where h.account_id = s.account_id and h.stream_key = s.stream_key) h
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
  -- Audits and verifications compare what others have read: they say nothing of how far that is.
  where r.account_id = s.account_id and r.stream_key = s.stream_key
    and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('audit', 'verify')
  order by r.run_id desc
  limit 1
) l on true
-- One that is at work says nothing yet of how it ends.
left join lateral (
  select r.state, r.sleeps_until
  from sync.stored_run_streams r
  where r.account_id = s.account_id and r.stream_key = s.stream_key and r.state not in ('waiting', 'running')
    and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('audit', 'verify', 'sweep', 'backfill')
  order by r.run_id desc
  limit 1
) d on true;
comment on column sync.status.stream_key is 'The key of the stream: source.stream, as helpdesk.tickets.';

create or replace view sync.checked_tickets as
select t.account_id, t.id as ticket_id,
  case
    when exists (
      select from sync.rejects r
      where r.account_id = t.account_id and r.stream_key = 'helpdesk.tickets' and r.ask_id = t.id and r.cleared_at is null)
      then least(t._observed_at, s.alive_at)
    when s.alive_at is not null then s.alive_at
    else greatest(t._observed_at, w.as_of)
  end as checked_at
from helpdesk.tickets t
left join sync.open_suspects s on s.account_id = t.account_id and s.stream_key = 'helpdesk.tickets' and s.record_id = t.id
left join sync.lists_apart apart on apart.account_id = t.account_id
left join lateral sync.swept_at(t.account_id, t.created_at, t.state, t.spam, t.trash, apart.spam, apart.trash) w on true
where t._deleted_at is null;

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

create or replace view sync.problems as
with streams as not materialized (
  select distinct c.account_id, k.stream_key
  from sync.coverage c join sync.streams k on c.source = k.source and c.stream in (k.stream, k.follows)),
last_runs as (
  -- The last run that has ended, of those that read the top of a stream; and the last one that swept it.
  select s.account_id, k.stream, s.stream_key, k.source, false as sweeps, d.*
  from streams s join sync.streams k using (stream_key)
  cross join lateral (
    select r.run_id, (select u.kind from sync.stored_runs u where u.id = r.run_id) as kind,
      r.state, r.error, r.remedy, r.exit_code, r.finished_at
    from sync.stored_run_streams r
    where r.account_id = s.account_id and r.stream_key = s.stream_key and r.state not in ('waiting', 'running')
      and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('sweep', 'audit', 'verify', 'backfill')
    order by r.run_id desc limit 1) d
  union all
  select s.account_id, k.stream, s.stream_key, k.source, true, d.*
  from streams s join sync.streams k using (stream_key)
  cross join lateral (
    select r.run_id, u.kind, r.state, r.error, r.remedy, r.exit_code, r.finished_at
    from (
      select i.id, i.kind from sync.stored_runs i
      where i.account_id = s.account_id and i.kind = 'sweep' order by i.id desc offset 0) u
    cross join lateral (
      select * from sync.stored_run_streams i
      where i.run_id = u.id and i.stream_key = s.stream_key and i.state not in ('waiting', 'running') offset 0) r
    order by u.id desc limit 1) d),
failing as (
  select d.*,
    case
      when d.exit_code = 4 and not p.proven then case when not d.sweeps then 'token_refused' end
      when d.sweeps and d.error like '%seem to have been deleted at the source%' then 'mass_deletion_stopped'
      else 'run_failed' end as problem,
    (select coalesce(min(f.finished_at), d.finished_at)
     from sync.stored_run_streams f
     where f.account_id = d.account_id and f.stream_key = d.stream_key and f.state = 'failed'
       and case when d.sweeps then (select u.kind from sync.stored_runs u where u.id = f.run_id) = 'sweep'
         else (select u.kind from sync.stored_runs u where u.id = f.run_id) not in ('sweep', 'audit', 'verify', 'backfill') end
       and f.run_id > coalesce((
         select g.run_id from sync.stored_run_streams g
         where g.account_id = d.account_id and g.stream_key = d.stream_key and g.state in ('completed', 'partly')
           and case when d.sweeps then (select u.kind from sync.stored_runs u where u.id = g.run_id) = 'sweep'
             else (select u.kind from sync.stored_runs u where u.id = g.run_id) not in ('sweep', 'audit', 'verify', 'backfill') end
         order by g.run_id desc limit 1), 0)) as failing_since
  from last_runs d
  -- Whatever the source has answered since, it has taken the token.
  cross join lateral (
    select exists (
      select from sync.streams k join sync.stored_run_streams o on o.account_id = d.account_id and o.stream_key = k.stream_key
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
  select r.account_id, r.stream_key, r.problem, case r.problem when 'run_failed' then 'warning' else 'critical' end as severity,
    case r.problem
      when 'token_refused' then format('The source refuses our token: %s.', min(r.error))
      when 'run_failed' then string_agg(
        format('Run %s (%s) of %s failed: %s.', r.run_id, r.kind, r.stream, r.error), ' ' order by r.run_id)
      else format('%s and perhaps more seem to have been deleted at the source, too many to be believed; none was marked as deleted here.',
        sync.counted(min(g.many), rtrim(r.stream, 's'), r.stream)) end as says,
    case r.problem
      when 'token_refused' then coalesce(min(r.remedy), 'Set a token that is valid, and start the workers again.')
      when 'run_failed' then string_agg(distinct coalesce(r.remedy, 'Look at the log.'), ' ')
      else format('Look there whether it is so; if it is, run `npx shelfdesk sweep %s --accept-deletions%s`; if not, the next sweep asks again.',
        r.stream, sync.option_of(r.account_id)) end as remedy,
    min(coalesce(g.since, r.failing_since)) as since
  from failing r
  left join lateral (
    select count(*) as many, min(o.gone_since) as since from sync.open_suspects o
    where o.account_id = r.account_id and o.stream_key = r.stream_key and o.gone_at is not null) g on r.problem = 'mass_deletion_stopped'
  where r.problem <> 'mass_deletion_stopped' or g.many > 0
  group by r.account_id, r.stream, r.stream_key, r.problem
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
  where b.behind > b.target and not coalesce((
    select r.sleeps_until > now() from sync.stored_run_streams r
    where r.account_id = b.account_id and r.stream_key = b.stream_key and r.state not in ('waiting', 'running')
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
  select h.account_id, h.stream_key, 'hole', 'warning',
    format('%s of %s could not be read, the first from %s on: %s.', sync.counted(count(*), 'range'), h.stream,
      to_char(min(h.hole_from) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), min(h.reason)),
    format('Run `npx shelfdesk backfill %s%s`.', h.stream, sync.option_of(h.account_id)),
    (select min(r.found_at) from sync.hole_reasons r where r.account_id = h.account_id and r.stream_key = h.stream_key)
  from sync.holes h where h.reason is not null
  group by h.account_id, h.stream, h.stream_key
  union all
  select r.account_id, r.stream_key, 'rejects_open', 'warning',
    format('%s of %s could not be stored, or read.', sync.counted(count(*), 'record'), r.stream),
    format('See `npx shelfdesk rejects list%s`; what can be asked for again is asked for again by itself.', sync.option_of(r.account_id)),
    min(r.first_seen_at)
  from sync.rejects r where r.cleared_at is null
  group by r.account_id, r.stream, r.stream_key
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
    format('The webhook does not take %s: %s.', sync.counted(count(*), 'alarm'), (array_agg(m.last_error order by m.id desc))[1]),
    'Look at its receiver, and at ALARM_WEBHOOK_URL and ALARM_FORMAT; it is tried again, in the end once an hour.',
    min(m.began_at)
  from sync.alarms m where m.next_try_at is not null and m.last_error is not null
  group by m.account_id
  union all
  select p.account_id, nullif(p.stream_key, ''), 'paused', 'info',
    format('%s was told to wait by %s%s.', coalesce(nullif(p.stream, ''), 'The account'), p.paused_by, coalesce(': ' || p.reason, '')),
    format('Run `npx shelfdesk resume%s%s`.', coalesce(' ' || nullif(p.stream, ''), ''), sync.option_of(p.account_id)),
    p.paused_at
  from sync.paused p
  union all
  select p.account_id, coalesce(k.stream_key, 'helpdesk.tickets'), 'proposal', 'info',
    format('Comparisons found of %s, more than once: %s.', coalesce(k.stream, 'tickets'), string_agg(distinct p.kind, '; ')),
    string_agg(distinct p.remedy, ' '), max(p.last_at)
  from sync.proposals p left join sync.streams k on k.stream_key = p.stream_key
  group by p.account_id, k.stream, k.stream_key)
select f.account_id, split_part(f.stream_key, '.', 2) as stream, f.problem, f.severity, f.says, f.remedy, f.since,
  split_part(f.stream_key, '.', 1) as source, f.stream_key
from found f
left join sync.streams k on k.stream_key = f.stream_key
where f.problem in ('paused', 'alarms_undelivered') or not exists (
  select from sync.paused p
  where p.account_id = f.account_id
    and p.stream_key in ('', f.stream_key, case when f.problem = 'past_target' then k.source || '.' || k.follows end));
comment on column sync.problems.source is 'The source of the stream: helpdesk or books; null for the whole account.';
comment on column sync.problems.stream_key is 'The key of the stream: source.stream, as helpdesk.tickets; null for the whole account.';

create or replace function sync.require_complete(account text, stream text, through timestamptz, rejects_allowed bigint default 0)
returns timestamptz
language plpgsql stable
as $$
declare
  asked_key constant text := sync.key_of(stream);
  complete constant timestamptz := sync.complete_through(account, asked_key);
  hole record;
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
  if complete is null or complete < through then
    select h.list, h.hole_from, h.hole_to, h.reason into hole
    from sync.holes h join sync.streams k on h.source = k.source and h.stream in (k.stream, k.follows)
    where h.account_id = account and k.stream_key = asked_key and h.hole_from < through
    order by h.hole_from limit 1;
    select s.waiting into waiting from sync.status s where s.account_id = account and s.stream_key = asked_key;
    raise exception '% of the account % % complete through %, not through %', stream, account,
      case when complete is null then 'was never read:' else 'is' end, coalesce(complete::text, 'nothing'), through
      using errcode = 'object_not_in_prerequisite_state', hint = case
        when hole.hole_from is not null then format('There is a hole from %s to %s%s. Run `npx shelfdesk backfill %s`.',
          hole.hole_from, hole.hole_to, coalesce(' (' || hole.reason || ')', ''), stream)
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

comment on function sync.complete_through(text, text) is
  'The stream is complete in the mirror up to this time, except for its open rejects; null if it was never read. Messages: up to the first ticket that waits for its messages. Volumes: up to the first volume that waits to be read in full. The stream is named by its key, or by a short name that only one source has.';
comment on function sync.deletes_checked_at(text, text) is
  'Before this time the source had deleted no record that the stream shows here; null if the stream was never swept from beginning to end. The stream is named by its key, or by a short name that only one source has.';
comment on function sync.lists_complete_through(text, text) is
  'Every list of the stream has been read without a gap up to this time; null if one was never read. The stream is named by its key.';

-- A function cannot be replaced by one that returns another column: the view moves to a new one, which then takes the name.
create function analytics.completeness_by_source()
returns table (account_id text, stream text, complete_through timestamptz, holes bigint, waiting bigint, open_rejects bigint,
  deletes_checked_at timestamptz, state text, source text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.account_id, s.stream, s.complete_through, s.holes, s.waiting, s.open_rejects, s.deletes_checked_at, s.state, s.source
  from (select case current_setting('role') when 'none' then session_user else current_setting('role')::name end as name) asks
  cross join sync.status s
  where has_table_privilege(asks.name, 'sync.readers', 'select') or exists (
    select from sync.readers r
    where r.role_name = asks.name and (r.accounts is null or s.account_id = any (r.accounts)))
$$;
comment on function analytics.completeness_by_source() is 'For analytics.completeness, which shows the same.';
create or replace view analytics.completeness with (security_barrier) as
select c.account_id, c.stream, c.complete_through, c.holes, c.waiting, c.open_rejects, c.deletes_checked_at, c.state,
  c.source
from analytics.completeness_by_source() c
where c.account_id = any (array(select account_id from sync.readable_accounts));
comment on column analytics.completeness.source is 'The source of the stream: helpdesk or books.';
drop function analytics.stream_completeness();
alter function analytics.completeness_by_source() rename to stream_completeness;

create or replace view analytics.fact_backlog with (security_barrier) as
select concat_ws('/', b.account_id, b.day, coalesce(b.state, '?'), coalesce(b.inbox_id, '?'), coalesce(b.user_id, '?')) as backlog_key,
  b.day as date_key, b.account_id as account_key, b.account_id || '/' || b.inbox_id as inbox_key, b.account_id || '/' || b.user_id as agent_key,
  b.state, b.tickets, b.uncertain
from (
  select z.time_zone, (max(c.complete_through) at time zone z.time_zone)::date - 1 as last_day
  from analytics.account_zones z
  join analytics.completeness c on c.account_id = z.account_id and c.source = 'helpdesk' and c.stream = 'tickets'
  where c.complete_through is not null
  group by z.time_zone) d
cross join lateral analytics.backlog_daily(d.last_day - 89, d.last_day, d.time_zone) b
join analytics.account_zones z on z.account_id = b.account_id and z.time_zone = d.time_zone;

create or replace view analytics.ticket_metrics with (security_barrier) as
select t.account_id, t.id as ticket_id, t.number, t.customer_id, t.inbox_id, t.user_id, t.state, t.type, t.spam, t.trash,
  t.created_at, t.updated_at, t._deleted_at as deleted_at,
  coalesce(t._messages_as_of >= t.updated_at, false) and t._deleted_at is null and not exists (
    select from sync.rejects r
    where r.account_id = t.account_id and r.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and r.ask_id = t.id and r.cleared_at is null) as messages_complete,
  s.message_count, s.inbound_count, s.authored_count, s.automatic_count, s.note_count, s.other_count, s.attachment_count,
  s.agents_involved, s.last_inbound_at, s.last_authored_at,
  s.is_outbound_initiated, s.is_one_touch, s.is_unreplied,
  s.first_response_seconds, s.first_response_business_seconds, s.first_responder_id,
  s.first_reply_seconds, s.first_reply_business_seconds,
  s.turns, s.waiting_since,
  s.total_wait_seconds, s.average_wait_seconds, s.longest_wait_seconds,
  s.total_wait_business_seconds, s.average_wait_business_seconds, s.longest_wait_business_seconds,
  s.first_closed_at, s.first_closed_error_seconds, s.last_closed_at, s.last_closed_error_seconds,
  s.first_resolution_seconds, s.first_resolution_error_seconds, s.first_resolution_business_seconds,
  s.full_resolution_seconds, s.full_resolution_error_seconds, s.full_resolution_business_seconds,
  s.reopen_count, s.reopen_error_seconds, s.assignment_count, s.assignment_error_seconds,
  s.seconds_open, s.open_error_seconds, s.seconds_hold, s.hold_error_seconds, s.seconds_snoozed, s.snoozed_error_seconds,
  s.seconds_closed, s.closed_error_seconds, s.seconds_archived, s.archived_error_seconds,
  s.first_closing_seen, s.last_closing_seen
from helpdesk.tickets t
left join analytics.stored_ticket_metrics s on s.account_id = t.account_id and s.ticket_id = t.id
where t.account_id = any (array(select account_id from sync.readable_accounts));

create or replace view analytics.integrity with (security_barrier) as
select c.check_name, a.account_id, c.found, c.means
from sync.readable_accounts a
cross join lateral (values
  ('messages without their ticket',
    (select count(*) from helpdesk.messages m where m.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = m.ticket_id)),
    'Messages come with their ticket: there should be none.'),
  ('attachments without their message',
    (select count(*) from helpdesk.attachments f where f.account_id = a.account_id
      and not exists (select from helpdesk.messages m where m.account_id = a.account_id and m.id = f.message_id)),
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
    (select count(*) from helpdesk.messages m where m.account_id = a.account_id and m.user_id is not null
      and not exists (select from helpdesk.users u where u.account_id = a.account_id and u.id = m.user_id)),
    'The list of users does not show who has left before the mirror began, or they have not been read yet.'),
  ('tickets of an inbox that is not here',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t.inbox_id is not null
      and not exists (select from helpdesk.inboxes i where i.account_id = a.account_id and i.id = t.inbox_id)),
    'Inboxes are written with the first ticket that mentions them: there should be none.'),
  ('labels of tickets that are not here',
    (select count(*) from helpdesk.ticket_labels l where l.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = l.ticket_id)),
    'They are written with the ticket: there should be none.'),
  ('labels of tickets without the label',
    (select count(*) from helpdesk.ticket_labels l where l.account_id = a.account_id
      and not exists (select from helpdesk.labels n where n.account_id = a.account_id and n.id = l.label_id)),
    'Labels are written with the first ticket that mentions them: there should be none.'),
  ('labels that tickets and ticket_labels tell differently',
    (select count(*) from (
      (select t.id, l.label_id from helpdesk.tickets t cross join unnest(t.label_ids) as l (label_id)
       where t.account_id = a.account_id and t._deleted_at is null
       except select l.ticket_id, l.label_id from helpdesk.ticket_labels l where l.account_id = a.account_id)
      union all
      (select l.ticket_id, l.label_id from helpdesk.ticket_labels l where l.account_id = a.account_id
       except select t.id, l.label_id from helpdesk.tickets t cross join unnest(t.label_ids) as l (label_id)
       where t.account_id = a.account_id and t._deleted_at is null)) d),
    'Both are written in one transaction: there should be none.'),
  ('tickets without history',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id
      and not exists (select from helpdesk.ticket_history h where h.account_id = a.account_id and h.ticket_id = t.id)),
    'Every ticket has a row of history from its first commit on: there should be none.'),
  ('tickets whose history tells otherwise',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t._deleted_at is null
      and not exists (
        select from helpdesk.ticket_history h
        where h.account_id = a.account_id and h.ticket_id = t.id and h.valid_to is null
          and (h.state, h.user_id, h.inbox_id, h.spam, h.trash) is not distinct from (t.state, t.user_id, t.inbox_id, t.spam, t.trash)
          and sync.same_set(h.label_ids, t.label_ids))),
    'The open row of its history is what the ticket is now: there should be none.'),
  ('history of tickets that are not here',
    (select count(*) from helpdesk.ticket_history h where h.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = h.ticket_id)),
    'History goes with the row of its ticket: there should be none.'),
  ('history that overlaps',
    (select count(*) from (
      select h.valid_from < lag(coalesce(h.valid_to, 'infinity')) over (partition by h.ticket_id order by h.valid_from) as overlaps
      from helpdesk.ticket_history h where h.account_id = a.account_id) o
     where o.overlaps),
    'A ticket is one thing at a time: there should be none.'),
  ('tickets without metrics',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id
      and not exists (select from analytics.stored_ticket_metrics s where s.account_id = a.account_id and s.ticket_id = t.id)),
    'Metrics are written with the ticket: there should be none. If there are, call analytics.recompute.'),
  ('business times that are not worked out anew',
    (select count(*) from analytics.stored_recomputes q where q.account_id = a.account_id),
    'A calendar has changed, and analytics.recompute has not gone through since: business times of some tickets are those of before. Call it, or run npx shelfdesk calendar set again.'),
  ('metrics of tickets that are not here',
    (select count(*) from analytics.stored_ticket_metrics s where s.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = s.ticket_id)),
    'Metrics go with the row of their ticket: there should be none.'),
  ('tickets whose messages are not complete',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t._deleted_at is null
      and (t._messages_as_of is null or t._messages_as_of < t.updated_at or exists (
        select from sync.rejects r
        where r.account_id = a.account_id and r.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and r.ask_id = t.id and r.cleared_at is null))),
    'They wait for their messages, or something of them was set aside: ticket_metrics.messages_complete is false.'),
  ('volumes on a shelf that are not here',
    (select count(*) from books.shelf_volumes v where v.account_id = a.account_id
      and not exists (select from books.volumes b where b.account_id = a.account_id and b.id = v.volume_id)),
    'Volumes are written with their shelf: there should be none.'),
  ('volumes on a shelf that is not here',
    (select count(*) from books.shelf_volumes v where v.account_id = a.account_id
      and not exists (select from books.shelves s where s.account_id = a.account_id and s.owner_id = v.owner_id and s.id = v.shelf_id)),
    'A shelf is written before what is on it: there should be none.')
) c (check_name, found, means);

update sync.targets t set subject = k.stream_key from sync.streams k where k.stream = t.subject;
comment on column sync.targets.subject is 'The key of a stream, source.stream, or nightly.';
