-- Up Migration

-- What each ticket was, and from when to when. The source tells only what is: every value that is written over here would be
-- lost, so it is kept in the same statement that writes over it, whoever writes: a page, a single ticket, a tombstone, a
-- repair, a replay.

create table helpdesk.ticket_history (
  account_id text not null,
  ticket_id text not null,
  state text,
  user_id text,
  inbox_id text,
  label_ids text[],
  spam boolean,
  trash boolean,
  valid_from timestamptz not null,
  valid_to timestamptz,
  change_after timestamptz,
  primary key (account_id, ticket_id, valid_from),
  check (valid_from < valid_to),
  check (change_after < valid_from),
  -- Of rows that have ended only: a GiST index costs a first load more than all the rest of its history does.
  constraint ticket_history_no_overlap exclude using gist (
    account_id with =, ticket_id with =, tstzrange(valid_from, valid_to) with &&) where (valid_to is not null)
);
create unique index ticket_history_open on helpdesk.ticket_history (account_id, ticket_id) where valid_to is null;
comment on table helpdesk.ticket_history is
  'What each ticket was, from when to when: a row for each change of state, user_id, inbox_id, label_ids (their order is none), spam or trash. Rows of a ticket do not overlap; there is a gap only while it was gone. Neighbours may be alike: two changes within one second are one row, with the values after both.';
comment on column helpdesk.ticket_history.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column helpdesk.ticket_history.ticket_id is 'The ticket; joins helpdesk.tickets.id.';
comment on column helpdesk.ticket_history.state is 'open, hold, closed, snoozed or archived; other values pass as they come.';
comment on column helpdesk.ticket_history.user_id is 'The assigned user; null while unassigned. Joins helpdesk.users.id.';
comment on column helpdesk.ticket_history.inbox_id is 'The inbox; joins helpdesk.inboxes.id.';
comment on column helpdesk.ticket_history.label_ids is 'Labels on the ticket; each joins helpdesk.labels.id.';
comment on column helpdesk.ticket_history.spam is 'True while the ticket was marked as spam.';
comment on column helpdesk.ticket_history.trash is 'True while the ticket was in the trash.';
comment on column helpdesk.ticket_history.valid_from is
  'From then on: updated_at, if that has moved; else when the change was seen. Of the first row: updated_at as it was when the ticket was first seen here; what it was before that nobody can tell.';
comment on column helpdesk.ticket_history.valid_to is
  'Up to then, without; null if it is so still. Where the ticket was deleted, tickets._deleted_at: by then it was gone.';
comment on column helpdesk.ticket_history.change_after is
  'The change happened after this time and by valid_from, in the seconds of the source: it was seen to have the values before still at this time; of a first row, a second before it was created. Null where that is not known.';

create function sync.same_set(one text[], other text[]) returns boolean
language sql immutable
begin atomic
  select one is not distinct from other or coalesce(one @> other and one <@ other, false);
end;
comment on function sync.same_set(text[], text[]) is
  'Whether both hold the same values, in whatever order. Null, for not known, is not the empty set.';

create function sync.dated(updated_at timestamptz, observed_at timestamptz) returns timestamptz
language sql stable
begin atomic
  select case when updated_at > observed_at + interval '1 hour' then observed_at else updated_at end;
end;
comment on function sync.dated(timestamptz, timestamptz) is
  'The time that a version of a ticket is dated; of one that is dated later than the reading that showed it, a slip of the source''s clock, that reading.';

-- For every row of its own, so that a view of all tickets makes it a join.
create function sync.swept_at(account text, created_at timestamptz, state text, spam boolean, trash boolean, spam_apart boolean, trash_apart boolean)
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
    where w.account_id = account and w.stream = 'tickets' and w.list = l.list
      and coalesce(lower(w.created), '-infinity') <= coalesce(swept_at.created_at, '-infinity')
    order by coalesce(lower(w.created), '-infinity') desc
    limit 1) w
  where l.speaks and w.created @> coalesce(swept_at.created_at, '-infinity');
end;
comment on function sync.swept_at(text, timestamptz, text, boolean, boolean, boolean, boolean) is
  'When a sweep last read a list that shows such a ticket: of this time of creation, in this state; spam and trash are read apart from the default list, or not.';

create view sync.lists_apart as
select c.account_id, bool_or(c.list = 'spam') as spam, bool_or(c.list = 'trash') as trash
from sync.coverage c
where c.stream = 'tickets' and not c.redundant
group by c.account_id;
comment on view sync.lists_apart is 'Which tickets the default list of an account may hide, so that lists of their own are read.';
comment on column sync.lists_apart.account_id is 'The account.';
comment on column sync.lists_apart.spam is 'True if spam is read in a list of its own.';
comment on column sync.lists_apart.trash is 'True if what is in the trash is read in a list of its own.';

create or replace view sync.checked_tickets as
select t.account_id, t.id as ticket_id,
  case
    when exists (
      select from sync.rejects r
      where r.account_id = t.account_id and r.stream = 'tickets' and r.ask_id = t.id and r.cleared_at is null)
      then least(t._observed_at, s.alive_at)
    when s.alive_at is not null then s.alive_at
    else greatest(t._observed_at, w.as_of)
  end as checked_at
from helpdesk.tickets t
left join sync.open_suspects s on s.account_id = t.account_id and s.stream = 'tickets' and s.record_id = t.id
left join sync.lists_apart apart on apart.account_id = t.account_id
left join lateral sync.swept_at(t.account_id, t.created_at, t.state, t.spam, t.trash, apart.spam, apart.trash) w on true
where t._deleted_at is null;

-- A new ticket has no past here, and nothing is looked up for it: a first load pays for the row alone.
create function sync.begin_ticket_history() returns trigger
language plpgsql
as $$
begin
  insert into helpdesk.ticket_history
    (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, valid_to, change_after)
  select t.account_id, t.id, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam, t.trash, f.valid_from,
    greatest(t._deleted_at, case when t._deleted_at is not null then f.valid_from + interval '1 second' end),
    case when t.created_at <= f.valid_from then t.created_at - interval '1 second' end
  from after t
  cross join lateral (select sync.dated(t.updated_at, t._observed_at) as valid_from) f
  on conflict do nothing;
  return null;
end
$$;
comment on function sync.begin_ticket_history() is 'Writes the first row of helpdesk.ticket_history of tickets that are new here.';

create function sync.keep_ticket_history() returns trigger
language plpgsql
-- A plan that is kept was made for the rows of another statement: one ticket, or an empty warehouse.
set plan_cache_mode = force_custom_plan
as $$
declare
  -- The source's times are in whole seconds. As a parameter it has plans made anew.
  second constant interval := '1 second';
begin
  -- Most updates change nothing of it. A full join is never a nested loop, whatever it was planned for.
  if not exists (
    select from before b full join after a using (account_id, id)
    where (b._deleted_at is null) <> (a._deleted_at is null)
      or a.state is distinct from b.state or a.user_id is distinct from b.user_id or a.inbox_id is distinct from b.inbox_id
      or a.spam is distinct from b.spam or a.trash is distinct from b.trash or not sync.same_set(a.label_ids, b.label_ids)) then
    return null;
  end if;
  with changed as materialized (
    select a.account_id, a.id, a.state, a.user_id, a.inbox_id, a.label_ids, a.spam, a.trash,
      a._deleted_at is null as alive,
      case
        when a._deleted_at is not null then greatest(a._deleted_at, last.valid_from + second)
        else greatest(last.valid_from, last.valid_to, case
          -- It was gone at its tombstone: a version of before that does not say when it came back.
          when a.updated_at <> b.updated_at and (b._deleted_at is null or a.updated_at > b._deleted_at)
            then sync.dated(a.updated_at, a._observed_at)
          else a._observed_at end)
      end as at,
      last.valid_from as last_from, last.valid_from is not null and last.valid_to is null as is_open,
      case
        when last.valid_from is null then a.created_at - second
        when b._deleted_at is not null then b._deleted_at
        else greatest(b._observed_at, w.as_of)
      end as before_at
    from before b
    join after a using (account_id, id)
    left join lateral (
      select h.valid_from, h.valid_to from helpdesk.ticket_history h
      where h.account_id = a.account_id and h.ticket_id = a.id
      order by h.valid_from desc limit 1) last on true
    left join sync.lists_apart apart on apart.account_id = b.account_id
    left join lateral sync.swept_at(b.account_id, b.created_at, b.state, b.spam, b.trash, apart.spam, apart.trash) w on true
    where (b._deleted_at is null) <> (a._deleted_at is null)
      or a._deleted_at is null and (
        a.state is distinct from b.state or a.user_id is distinct from b.user_id or a.inbox_id is distinct from b.inbox_id
        or a.spam is distinct from b.spam or a.trash is distinct from b.trash or not sync.same_set(a.label_ids, b.label_ids))),
  -- Two changes at one time are one row: it takes on the later values, and happened after what it came after.
  replaced as (
    update helpdesk.ticket_history h
    set state = c.state, user_id = c.user_id, inbox_id = c.inbox_id, label_ids = c.label_ids, spam = c.spam, trash = c.trash
    from changed c
    where c.is_open and c.alive and c.at = c.last_from
      and h.account_id = c.account_id and h.ticket_id = c.id and h.valid_from = c.last_from),
  ended as (
    update helpdesk.ticket_history h set valid_to = c.at
    from changed c
    where c.is_open and (c.at > c.last_from or not c.alive)
      and h.account_id = c.account_id and h.ticket_id = c.id and h.valid_from = c.last_from
    returning h.account_id, h.ticket_id)
  -- What has ended is asked for, so that it has before the next row begins: one row of a ticket is open.
  insert into helpdesk.ticket_history
    (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, change_after)
  select c.account_id, c.id, c.state, c.user_id, c.inbox_id, c.label_ids, c.spam, c.trash, c.at, least(c.before_at, c.at - second)
  from changed c left join ended e on e.account_id = c.account_id and e.ticket_id = c.id
  where c.alive and (e.ticket_id is not null or not c.is_open);
  return null;
end
$$;
comment on function sync.keep_ticket_history() is
  'Writes to helpdesk.ticket_history what has changed of tickets, or ends it with their tombstones.';

create function sync.end_ticket_history() returns trigger
language plpgsql
as $$
begin
  delete from helpdesk.ticket_history h where (h.account_id, h.ticket_id) in (select b.account_id, b.id from before b);
  return null;
end
$$;
comment on function sync.end_ticket_history() is
  'Removes the history of tickets whose rows are removed: by a hand, or with their account. What is deleted at the source gets a tombstone.';

create trigger begin_ticket_history after insert on helpdesk.tickets
  referencing new table as after for each statement execute function sync.begin_ticket_history();
create trigger keep_ticket_history after update on helpdesk.tickets
  referencing old table as before new table as after for each statement execute function sync.keep_ticket_history();
create trigger end_ticket_history after delete on helpdesk.tickets
  referencing old table as before for each statement execute function sync.end_ticket_history();

-- What is here already, as far as it is known.
insert into helpdesk.ticket_history
  (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, valid_to, change_after)
select t.account_id, t.id, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam, t.trash, f.valid_from,
  case when t._deleted_at is not null then greatest(t._deleted_at, f.valid_from + interval '1 second') end,
  case when t.created_at <= f.valid_from then t.created_at - interval '1 second' end
from helpdesk.tickets t
cross join lateral (select sync.dated(t.updated_at, t._observed_at) as valid_from) f;

create view analytics.ticket_history with (security_barrier) as
select h.account_id, h.ticket_id, h.state, h.user_id, h.inbox_id, h.label_ids, h.spam, h.trash, h.valid_from, h.valid_to, h.change_after
from helpdesk.ticket_history h
where h.account_id = any (array(select r.account_id from sync.readable_accounts r));
comment on view analytics.ticket_history is
  'What each ticket was, from when to when: a row for each change of state, user_id, inbox_id, label_ids (their order is none), spam or trash. Rows of a ticket do not overlap; there is a gap only while it was gone. Neighbours may be alike: two changes within one second are one row, with the values after both.';
do $$
declare
  said record;
begin
  for said in
    select v.attname as name, col_description(t.attrelid, t.attnum) as words
    from pg_attribute v
    join pg_attribute t on t.attrelid = 'helpdesk.ticket_history'::regclass and t.attname = v.attname
    where v.attrelid = 'analytics.ticket_history'::regclass and v.attnum > 0
  loop
    execute format('comment on column analytics.ticket_history.%I is %L', said.name, said.words);
  end loop;
end
$$;

create view analytics.ticket_state_intervals with (security_barrier) as
select i.account_id, i.ticket_id, i.state, i.valid_from,
  case when i.ends then i.valid_to else i.next_valid_to end as valid_to,
  i.change_after,
  extract(epoch from i.valid_from - i.change_after)::float8 as error_seconds
from (
  -- Of each run of rows the first and the last are left: the one has its begin, the other its end.
  select b.*, lead(b.valid_to) over (partition by b.account_id, b.ticket_id order by b.valid_from) as next_valid_to
  from (
    select h.account_id, h.ticket_id, h.state, h.valid_from, h.valid_to, h.change_after,
      lag(h.valid_to) over w is distinct from h.valid_from or lag(h.state) over w is distinct from h.state as begins,
      lead(h.valid_from) over w is distinct from h.valid_to or lead(h.state) over w is distinct from h.state as ends
    from helpdesk.ticket_history h
    where h.account_id = any (array(select r.account_id from sync.readable_accounts r))
    window w as (partition by h.account_id, h.ticket_id order by h.valid_from)) b
  where b.begins or b.ends) i
where i.begins;
comment on view analytics.ticket_state_intervals is
  'In which state each ticket was, from when to when: helpdesk.ticket_history, a row for each change of state.';
comment on column analytics.ticket_state_intervals.account_id is 'The account.';
comment on column analytics.ticket_state_intervals.ticket_id is 'The ticket; joins helpdesk.tickets.id.';
comment on column analytics.ticket_state_intervals.state is 'The state; null where the source showed none.';
comment on column analytics.ticket_state_intervals.valid_from is 'In this state from then on.';
comment on column analytics.ticket_state_intervals.valid_to is 'Up to then, without; null if it is in this state still.';
comment on column analytics.ticket_state_intervals.change_after is
  'It came into this state after this time, and by valid_from; null where that is not known.';
comment on column analytics.ticket_state_intervals.error_seconds is
  'By how much too late valid_from may be, in seconds: valid_from − change_after.';
