comment on table sync.swept is 'Ranges of creation time that sweeps read whole, with the newest read of each range.';
comment on column sync.swept.stream is 'A stream that is swept; messages, for the oldest reading of a ticket.';
comment on column sync.swept.list is
  'List of the stream: default, spam or trash. open: open and held tickets, which are read more often. recent: closed tickets that had changed within the two weeks before, likewise. details: all messages. undated: tickets without created_at, fetched by id.';
comment on column sync.swept.created is 'Range of creation time that was read whole. For undated: everything.';
comment on column sync.swept.as_of is
  'The read shows everything that happened up to this time: one lookback before the replies, because a source may show changes late. For customers one minute more, because a reply may be slower than the first reply of the walk.';
comment on column sync.swept.run_id is 'The run that read the range.';

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
    -- Ranges of a list do not overlap, so only the last range that begins before this time can contain it.
    select w.created, w.as_of
    from sync.swept w
    where w.account_id = account and w.stream_key = 'helpdesk.tickets' and w.list = l.list
      and coalesce(lower(w.created), '-infinity') <= coalesce(swept_at.created_at, '-infinity')
    order by coalesce(lower(w.created), '-infinity') desc
    limit 1) w
  where l.speaks and w.created @> coalesce(swept_at.created_at, '-infinity');
end;
comment on function sync.swept_at is
  'Time of the last sweep of a list that shows a ticket with this creation time and state. Spam and trash have lists of their own if the source separates them.';
comment on table sync.deletion_candidates is
  'Rows that a list of the source should have shown and did not. Each is fetched by id; only an answer of 404 leads to a tombstone.';
comment on column sync.deletion_candidates.stream is 'tickets or customers.';
comment on column sync.deletion_candidates.record_id is 'Id of the row in that table.';
comment on column sync.deletion_candidates.missing_since is
  'As-of time of the read that did not show the row. A row that was observed later is not a candidate.';
comment on column sync.deletion_candidates.alive_at is 'Last time at which the source demonstrably had the record.';
comment on column sync.deletion_candidates.gone_at is
  'Deleted at the source by this time, by its own clock: a request by id answered 404. Null before that.';
comment on column sync.deletion_candidates.gone_since is
  'Time of the first 404, if every later answer was 404 too. Null with gone_at.';
comment on column sync.deletion_candidates.attempts is 'Number of fetches by id that failed for other reasons.';
comment on column sync.deletion_candidates.error is 'Error of the last fetch by id.';
comment on column sync.deletion_candidates.run_id is
  'The run that last fetched the record by id. Null if none has, or if a new fetch is due.';

create or replace function sync.is_settled(deleted_at timestamptz, observed_at timestamptz, missing_since timestamptz) returns boolean
language sql immutable
begin atomic
  select deleted_at is not null or observed_at >= missing_since;
end;
comment on function sync.is_settled is
  'True if a former deletion candidate is settled: it has its tombstone, or was observed after the list lacked it.';

create or replace view sync.open_deletion_candidates as
select s.account_id, s.stream, s.record_id, s.missing_since, s.alive_at, s.gone_at, s.gone_since, s.attempts, s.error, s.run_id,
  s.source, s.stream_key
from sync.deletion_candidates s
where case s.stream_key
  when 'helpdesk.tickets' then exists (
    select from helpdesk.tickets t
    where t.account_id = s.account_id and t.id = s.record_id
      and not sync.is_settled(t._deleted_at, greatest(t._observed_at, t._messages_as_of), s.missing_since))
  when 'helpdesk.customers' then exists (
    select from helpdesk.customers c
    where c.account_id = s.account_id and c.id = s.record_id
      and not sync.is_settled(c._deleted_at, greatest(c._observed_at, c._checked_at), s.missing_since))
  end;
comment on view sync.open_deletion_candidates is
  'Deletion candidates that still need a fetch by id or a tombstone. The other rows of sync.deletion_candidates were observed later.';

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
left join sync.open_deletion_candidates s on s.account_id = t.account_id and s.stream_key = 'helpdesk.tickets' and s.record_id = t.id
left join sync.separate_lists apart on apart.account_id = t.account_id
left join lateral sync.swept_at(t.account_id, t.created_at, t.state, t.spam, t.trash, apart.spam, apart.trash) w on true
where t._deleted_at is null;
comment on view sync.checked_tickets is
  'For every existing ticket: the last time at which a list of the source confirmed the ticket as stored here.';
comment on column sync.checked_tickets.account_id is 'The account.';
comment on column sync.checked_tickets.checked_at is
  'Last time at which a list of the source confirmed the ticket as stored here. While a newer version is rejected (sync.rejects), sweeps do not count.';

create or replace function sync.ticket_checked_at(account text, id text) returns timestamptz
language sql stable
begin atomic
  select c.checked_at from sync.checked_tickets c where c.account_id = account and c.ticket_id = ticket_checked_at.id;
end;
comment on function sync.ticket_checked_at is
  'Last time at which a list of the source confirmed the ticket as stored here; null for a ticket that is deleted.';

create or replace function sync.newest_change(account text, stream text) returns timestamptz
language plpgsql stable
as $$
declare
  dated sync.streams;
  newest timestamptz;
begin
  select k.* into dated
  from sync.streams asked join sync.streams k on k.stream_key = coalesce(asked.source || '.' || asked.follows, asked.stream_key)
  where asked.stream_key = sync.key_of(newest_change.stream);
  -- The list shows no creation time. A first load bounds it from one side only.
  if dated.stream_key = 'helpdesk.customers' then
    return greatest(
      (select max(c._created_before) from helpdesk.customers c
       where c.account_id = account and c._deleted_at is null and c._created_after > '1970-01-01T00:00:00Z'::timestamptz),
      (select max(c._deleted_at) from helpdesk.customers c where c.account_id = account));
  end if;
  if dated.dated_by is null then return null; end if;
  execute format(
    'select greatest(
       (select max(t.%I) from %I.%I t where t.account_id = $1 and t._deleted_at is null),
       (select max(t._deleted_at) from %2$I.%3$I t where t.account_id = $1))', dated.dated_by, dated.source, dated.stream)
  into newest using account;
  return newest;
end
$$;
comment on function sync.newest_change is
  'Latest dated change of a record: update or deletion of tickets and of records with a time of change, creation or deletion of customers and of what a list shows by its creation. A deletion counts as of the time by which it had happened. Null for streams without dates. Messages and other details change with their records. The argument is the stream''s key, or its short name if only one source has a stream of that name.';

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

create or replace function sync.unchecked_since(account text, stream text) returns timestamptz
language sql stable
begin atomic
  -- Null if one part of it is unknown: least() would leave that part out.
  select case when count(at) = count(*) then min(at) end
  from sync.streams k
  cross join lateral (
    select sync.deletes_checked_at(account, k.stream_key) as at
    union all select (
      select case when count(*) = 1 then min(s.as_of) end from sync.swept s
      where s.account_id = account and s.stream_key = k.stream_key and s.list = 'details')
    where k.stream_key = 'helpdesk.messages'
    -- What came back, or came later, and was not read since: nothing of it is known from before its creation on.
    union all select t.created_at from helpdesk.tickets t
    where k.stream_key = 'helpdesk.messages' and t.account_id = account and t._messages_as_of is null and t._deleted_at is null
      and exists (
        select from sync.swept s where s.account_id = account and s.stream_key = 'helpdesk.messages' and s.list = 'details')
    union all select r.as_of
    from books.shelves s left join sync.shelf_readings r on r.account_id = s.account_id and r.owner_id = s.owner_id and r.shelf_id = s.id
    where k.stream_key = 'books.shelves' and s.account_id = account and s._deleted_at is null
    union all select (
      select case when bool_and(v._checked_at is not null) then min(v._checked_at) end
      from books.volumes v where v.account_id = account and v._deleted_at is null and exists (
        select from books.shelf_volumes m where m.account_id = account and m.volume_id = v.id and m._removed_at is null))
    where k.stream_key = 'books.volumes'
    -- When the details of a further source were read again is not noted for all of them.
    union all select null where k.follows is not null and k.source not in ('helpdesk', 'books')) part
  where k.stream_key = sync.key_of(unchecked_since.stream);
end;
comment on function sync.unchecked_since is
  'Edits and deletions that the source does not announce would have been found if they had happened before this time, but for records of sync.rejects, which cannot be read. Null: not all of the stream was read again yet, or nothing notes when, as for details of a declared service. The argument is the stream''s key, or its short name if only one source has a stream of that name.';
