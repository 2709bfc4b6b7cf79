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
  deleted_after timestamptz,
  is_first boolean not null default false,
  primary key (account_id, ticket_id, valid_from),
  check (valid_from < valid_to),
  check (change_after < valid_from),
  -- Of rows that have ended only: a first load has none, and pays nothing. By a hash first, since GiST finds its way among
  -- numbers and not among texts (200,000 rows in 12 s, not in 60). And no column is bare: a question for a ticket whose row ended
  -- at some time would be answered with this index, without the hash, so that each look-up reads all of it.
  constraint ticket_history_no_overlap exclude using gist (hashtextextended(ticket_id, 0) with =,
    (account_id || '/' || ticket_id) with =, tstzrange(valid_from, valid_to) with &&) where (valid_to is not null)
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
  'From then on: updated_at, if that has moved; else when the change was seen. Of the first row: updated_at as it was when the ticket was first seen here; what it was before that nobody can tell. updated_at is that of the version which showed the change: where something else had moved it, and the change itself did not, it happened later, by the reading of that version at the latest.';
comment on column helpdesk.ticket_history.valid_to is
  'Up to then, without; null if it is so still. Where the ticket was deleted, tickets._deleted_at: by then it was gone.';
comment on column helpdesk.ticket_history.change_after is
  'The change happened after this time and by valid_from, in the seconds of the source: it was seen to have the values before still at this time; of a first row, a second before it was created. Null where that is not known. "By valid_from" holds for changes that move updated_at: see valid_from. What was changed and changed back since is not known.';
comment on column helpdesk.ticket_history.deleted_after is
  'Where the row ended because the ticket was deleted: after this time, and by valid_to. Null otherwise, and where that is not known.';
comment on column helpdesk.ticket_history.is_first is
  'True for the first row of a ticket: what it was before valid_from nobody can tell.';

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

alter table sync.accounts add column lookback interval not null default '2 minutes';
comment on column sync.accounts.lookback is
  'How late the source may show what happened, as it was last set (HELPDESK_LOOKBACK_SECONDS): what was not seen then may have happened so long before.';

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
    (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, valid_to, change_after, deleted_after, is_first)
  select t.account_id, t.id, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam, t.trash, f.valid_from,
    case when t._deleted_at is not null then greatest(t._deleted_at, f.valid_from + interval '1 second') end,
    case when t.created_at <= f.valid_from then t.created_at - interval '1 second' end,
    t._deleted_after, true
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
        -- It was gone within the second before its tombstone, or the one before that.
        when b._deleted_at is not null then b._deleted_at - 2 * second
        -- A version holds what had happened by the second that it is dated; a reading, all up to a lookback before it.
        else greatest(sync.dated(b.updated_at, b._observed_at) - second, b._observed_at - k.lookback, w.as_of, last.change_after)
      end as before_at,
      a._deleted_after
    from before b
    join after a using (account_id, id)
    left join lateral (
      select h.valid_from, h.valid_to, h.change_after from helpdesk.ticket_history h
      where h.account_id = a.account_id and h.ticket_id = a.id
      order by h.valid_from desc limit 1) last on true
    left join sync.accounts k on k.account_id = b.account_id
    left join sync.lists_apart apart on apart.account_id = b.account_id
    left join lateral sync.swept_at(b.account_id, b.created_at, b.state, b.spam, b.trash, apart.spam, apart.trash) w on true
    where (b._deleted_at is null) <> (a._deleted_at is null)
      or a._deleted_at is null and (
        a.state is distinct from b.state or a.user_id is distinct from b.user_id or a.inbox_id is distinct from b.inbox_id
        or a.spam is distinct from b.spam or a.trash is distinct from b.trash or not sync.same_set(a.label_ids, b.label_ids))),
  -- The open row is named as such, and not by its time: a thousand tickets may have been changed within one second.
  -- Two changes at one time are one row: it takes on the later values, and happened after what it came after.
  replaced as (
    update helpdesk.ticket_history h
    set state = c.state, user_id = c.user_id, inbox_id = c.inbox_id, label_ids = c.label_ids, spam = c.spam, trash = c.trash
    from changed c
    where c.is_open and c.alive and c.at = c.last_from
      and h.account_id = c.account_id and h.ticket_id = c.id and h.valid_to is null),
  ended as (
    update helpdesk.ticket_history h set valid_to = c.at, deleted_after = c._deleted_after
    from changed c
    where c.is_open and (c.at > c.last_from or not c.alive)
      and h.account_id = c.account_id and h.ticket_id = c.id and h.valid_to is null
    returning h.account_id, h.ticket_id)
  -- What has ended is asked for, so that it has before the next row begins: one row of a ticket is open.
  insert into helpdesk.ticket_history
    (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, change_after, is_first)
  select c.account_id, c.id, c.state, c.user_id, c.inbox_id, c.label_ids, c.spam, c.trash, c.at,
    case when c.before_at is not null then least(c.before_at, c.at - second) end, c.last_from is null
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

-- What is here already, as far as it is known: of what was written over since it is kept, sync.changes has the old values. So
-- each earlier version is what the ticket is now, with the old values of all later changes put over it.
create aggregate sync.put_together (jsonb) (sfunc = jsonb_concat, stype = jsonb, initcond = '{}');
insert into helpdesk.ticket_history
  (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, valid_to, change_after, deleted_after, is_first)
with change as (
  select c.account_id, c.record_id as ticket_id, c.id, c.as_of,
    (select jsonb_object_agg(f.key, f.value -> 0) from jsonb_each(c.changes) f) as old
  from sync.changes c
  where c.table_name = 'tickets'
    and c.changes ?| '{state,user_id,inbox_id,label_ids,spam,trash,updated_at,_deleted_at}'),
before as (
  select c.account_id, c.ticket_id, c.id, lag(c.as_of) over w as seen_at, c.as_of as over_at,
    sync.put_together(c.old) over (partition by c.account_id, c.ticket_id order by c.id desc) as old
  from change c
  window w as (partition by c.account_id, c.ticket_id order by c.id)),
version as (
  select t.account_id, t.id as ticket_id, b.id, b.seen_at, b.over_at, p.*, t.created_at, t._first_seen_at as first_seen_at
  from before b
  join helpdesk.tickets t on t.account_id = b.account_id and t.id = b.ticket_id
  cross join lateral jsonb_to_record(jsonb_build_object('state', t.state, 'user_id', t.user_id, 'inbox_id', t.inbox_id,
      'label_ids', t.label_ids, 'spam', t.spam, 'trash', t.trash, 'updated_at', t.updated_at, '_deleted_at', t._deleted_at,
      '_deleted_after', t._deleted_after) || b.old)
    p (state text, user_id text, inbox_id text, label_ids text[], spam boolean, trash boolean, updated_at timestamptz,
      _deleted_at timestamptz, _deleted_after timestamptz)
  union all
  select t.account_id, t.id, null, coalesce(b.as_of, t._observed_at), null, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam,
    t.trash, t.updated_at, t._deleted_at, t._deleted_after, t.created_at, t._first_seen_at
  from helpdesk.tickets t
  left join (select c.account_id, c.ticket_id, max(c.as_of) as as_of from change c group by 1, 2) b
    on b.account_id = t.account_id and b.ticket_id = t.id),
beside as (
  select v.*, row_number() over w = 1 as is_first, lag(v._deleted_at) over w as was_deleted_at,
    lag(v.updated_at) over w as was_updated_at, lag(v.seen_at) over w as was_seen_at,
    -- Of the first one nobody noted when it was shown: no later than it was written here.
    lag(coalesce(v.seen_at, least(v.over_at, v.first_seen_at))) over w as was_shown_by,
    lag(v.state) over w is distinct from v.state or lag(v.user_id) over w is distinct from v.user_id
      or lag(v.inbox_id) over w is distinct from v.inbox_id or lag(v.spam) over w is distinct from v.spam
      or lag(v.trash) over w is distinct from v.trash or not sync.same_set(lag(v.label_ids) over w, v.label_ids) as differs
  from version v
  window w as (partition by v.account_id, v.ticket_id order by v.id nulls last)),
event as (
  select b.*, e.alive, e.place,
    case
      when not e.alive then b._deleted_at
      when b.is_first then sync.dated(b.updated_at, coalesce(b.seen_at, least(b.over_at, b.first_seen_at)))
      when b.updated_at <> b.was_updated_at and (b.was_deleted_at is null or b.updated_at > b.was_deleted_at)
        then sync.dated(b.updated_at, b.seen_at)
      else b.seen_at
    end as dated,
    case
      when b.was_deleted_at is not null then b.was_deleted_at - interval '2 seconds'
      else greatest(sync.dated(b.was_updated_at, b.was_shown_by) - interval '1 second', b.was_seen_at - k.lookback)
    end as before_at
  from beside b
  left join sync.accounts k on k.account_id = b.account_id
  cross join lateral (
    values (true, 1, b._deleted_at is null and (b.differs or b.was_deleted_at is not null) or b.is_first),
      (false, 2, b._deleted_at is not null and b.was_deleted_at is null)) e (alive, place, counts)
  where e.counts),
-- None is before the one before it, and a tombstone is a second later at least.
moved as (
  select e.*, count(*) filter (where not e.alive) over w * interval '1 second' as seconds
  from event e
  window w as (partition by e.account_id, e.ticket_id order by e.id nulls last, e.place)),
timed as (
  select m.*, max(m.dated - m.seconds) over (partition by m.account_id, m.ticket_id order by m.id nulls last, m.place) + m.seconds as at
  from moved m),
single as (
  -- What came within the same second is one row.
  select t.*, first_value(t.before_at) over g as came_after, first_value(t.is_first) over g as came_first,
    coalesce(t.alive and lead(t.alive) over w and lead(t.at) over w = t.at, false) as is_replaced
  from timed t
  window g as (partition by t.account_id, t.ticket_id, t.alive, t.at order by t.id nulls last, t.place),
    w as (partition by t.account_id, t.ticket_id order by t.id nulls last, t.place)),
ended as (
  select s.*, lead(s.at) over w as valid_to, case when not lead(s.alive) over w then lead(s._deleted_after) over w end as deleted_after
  from single s
  where not s.is_replaced
  window w as (partition by s.account_id, s.ticket_id order by s.id nulls last, s.place))
select e.account_id, e.ticket_id, e.state, e.user_id, e.inbox_id, e.label_ids, e.spam, e.trash, e.at, e.valid_to,
  case
    when e.came_first then case when e.created_at <= e.at then e.created_at - interval '1 second' end
    when e.came_after is not null then least(e.came_after, e.at - interval '1 second')
  end,
  e.deleted_after, e.came_first
from ended e
where e.alive;
drop aggregate sync.put_together (jsonb);

create view analytics.ticket_history with (security_barrier) as
select h.account_id, h.ticket_id, h.state, h.user_id, h.inbox_id, h.label_ids, h.spam, h.trash, h.valid_from, h.valid_to, h.change_after,
  h.deleted_after, h.is_first
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
  extract(epoch from i.valid_from - i.change_after)::float8 as error_seconds,
  case when i.ends then i.deleted_after else i.next_deleted_after end as deleted_after
from (
  -- Of each run of rows the first and the last are left: the one has its begin, the other its end.
  select b.*, lead(b.valid_to) over once as next_valid_to, lead(b.deleted_after) over once as next_deleted_after
  from (
    select h.account_id, h.ticket_id, h.state, h.valid_from, h.valid_to, h.change_after, h.deleted_after,
      lag(h.valid_to) over w is distinct from h.valid_from or lag(h.state) over w is distinct from h.state as begins,
      lead(h.valid_from) over w is distinct from h.valid_to or lead(h.state) over w is distinct from h.state as ends
    from helpdesk.ticket_history h
    where h.account_id = any (array(select r.account_id from sync.readable_accounts r))
    window w as (partition by h.account_id, h.ticket_id order by h.valid_from)) b
  where b.begins or b.ends
  window once as (partition by b.account_id, b.ticket_id order by b.valid_from)) i
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
comment on column analytics.ticket_state_intervals.deleted_after is
  'Where it ended because the ticket was deleted: after this time, and by valid_to. Null otherwise, and where that is not known.';

create view analytics.ticket_basics with (security_barrier) as
select t.account_id, t.id as ticket_id, t.number, t.customer_id, t.type, t.created_at, t.updated_at, t._first_seen_at as first_seen_at,
  t._deleted_after as deleted_after, t._deleted_at as deleted_at
from helpdesk.tickets t
where t.account_id = any (array(select r.account_id from sync.readable_accounts r));
comment on view analytics.ticket_basics is
  'Of every ticket what its history does not tell: number, customer, channel, and when it was created and deleted.';
comment on column analytics.ticket_basics.account_id is 'The account.';
comment on column analytics.ticket_basics.ticket_id is 'The ticket.';
comment on column analytics.ticket_basics.number is 'Friendly ticket number, unique across the help desk.';
comment on column analytics.ticket_basics.customer_id is 'The customer.';
comment on column analytics.ticket_basics.type is 'Channel: email, chat, phone and so on.';
comment on column analytics.ticket_basics.created_at is 'When the ticket was created, at the source.';
comment on column analytics.ticket_basics.updated_at is 'When the ticket was last updated, at the source, in whole seconds.';
comment on column analytics.ticket_basics.first_seen_at is 'When the ticket was first written here.';
comment on column analytics.ticket_basics.deleted_after is 'It was deleted after this time, and by deleted_at; null while it is there.';
comment on column analytics.ticket_basics.deleted_at is 'By then the source had it no more; null while it is there.';

create function analytics.is_backlog(state text, spam boolean, trash boolean) returns boolean
language sql immutable
begin atomic
  -- Nothing but what counts as tight: so it is asked of an index, through the views of readers as well.
  select (state is null or state not in ('closed', 'archived')) and spam is not true and trash is not true;
end;
comment on function analytics.is_backlog(text, boolean, boolean) is
  'Whether a ticket in this state is work that is still to be done: not closed or archived, not spam, not in the trash.';
create index ticket_history_valid_from on helpdesk.ticket_history (account_id, valid_from);
create index ticket_history_backlog on helpdesk.ticket_history (account_id, valid_to) where analytics.is_backlog(state, spam, trash);

create function analytics.tickets_as_of(at timestamptz)
returns table (account_id text, ticket_id text, number bigint, customer_id text, inbox_id text, user_id text, state text, type text,
  label_ids text[], spam boolean, trash boolean, created_at timestamptz, valid_from timestamptz, valid_to timestamptz, certain boolean)
language sql stable
begin atomic
  select t.account_id, t.ticket_id, t.number, t.customer_id, h.inbox_id, h.user_id, h.state, t.type, h.label_ids, h.spam, h.trash,
    t.created_at, h.valid_from, h.valid_to,
    h.valid_from is not null and case
      when h.valid_to is null then true
      when n.ticket_id is null then coalesce(h.deleted_after >= tickets_as_of.at, false)
      else coalesce(n.change_after >= tickets_as_of.at, false) and coalesce(h.deleted_after >= tickets_as_of.at, true) end
  from analytics.ticket_basics t
  left join analytics.ticket_history h
    on h.account_id = t.account_id and h.ticket_id = t.ticket_id
      and h.valid_from <= tickets_as_of.at and (h.valid_to is null or h.valid_to > tickets_as_of.at)
  -- The row that follows on it at once; where there is none, the ticket was deleted.
  left join analytics.ticket_history n
    on n.account_id = h.account_id and n.ticket_id = h.ticket_id and n.valid_from = h.valid_to
  where coalesce(t.created_at <= tickets_as_of.at, h.valid_from is not null) and (h.valid_from is not null or exists (
    select from analytics.ticket_history f
    where f.account_id = t.account_id and f.ticket_id = t.ticket_id and f.is_first and f.valid_from > tickets_as_of.at));
end;
comment on function analytics.tickets_as_of(timestamptz) is
  'Every ticket that was there at a time, as it was then. certain is false where it may have been otherwise: where the change that ended the row may have happened by then; and where nobody can tell what it was, since it was first seen, or had changed, later: then its values are null. Certain is so as far as changes were seen: what was changed and changed back between two readings left no trace. Times after analytics.completeness says are as far as the mirror knows.';

create function analytics.backlog_daily(from_day date, to_day date, time_zone text default 'UTC')
returns table (account_id text, day date, state text, inbox_id text, user_id text, tickets bigint, uncertain bigint)
language sql stable
begin atomic
  with days as materialized (
    select g.n::int as n, from_day + g.n::int - 1 as day
    from generate_series(1, to_day - from_day + 1) g (n)),
  -- When they end, a microsecond later: so the number of a time is how many days have ended before it. Where clocks go back to
  -- midnight there are two, of which PostgreSQL takes the later one: the day ends with the first.
  ends as materialized (
    select array_agg(m.at - case
      when (m.at - interval '1 hour') at time zone time_zone >= (d.day + 1)::timestamp then interval '1 hour'
      else interval '0' end + interval '1 microsecond' order by d.n) as at
    from days d cross join lateral (select (d.day + 1)::timestamp at time zone time_zone as at) m),
  -- The ends of days after the first number, up to the second one.
  span as (
    select h.account_id, h.state, h.inbox_id, h.user_id, width_bucket(h.valid_from, (select e.at from ends e)) as after,
      coalesce(width_bucket(h.valid_to, (select e.at from ends e)), (select cardinality(e.at) from ends e)) as through,
      count(*) as tickets, 0 as uncertain
    from analytics.ticket_history h
    where analytics.is_backlog(h.state, h.spam, h.trash) and (h.valid_to is null or h.valid_to >= (select e.at[1] from ends e))
    group by 1, 2, 3, 4, 5, 6
    union all
    -- What it was before its first row.
    select h.account_id, null, null, null, width_bucket(h.change_after + interval '1 second', (select e.at from ends e)),
      width_bucket(h.valid_from, (select e.at from ends e)), 1, 1
    from analytics.ticket_history h
    where h.is_first and h.valid_from >= (select e.at[1] from ends e) and h.change_after < (select e.at[cardinality(e.at)] from ends e)
    union all
    -- A change that may have happened before the end of a day as well as after it, of what it was before and after.
    select n.account_id, d.state, d.inbox_id, d.user_id, greatest(n.after, o.after), n.through, 0, 1
    from (
      select h.*, coalesce(width_bucket(h.change_after + interval '1 microsecond', (select e.at from ends e)), 0) as after,
        width_bucket(h.valid_from, (select e.at from ends e)) as through
      from analytics.ticket_history h
      where not h.is_first and h.valid_from >= (select e.at[1] from ends e)
        and coalesce(h.change_after < (select e.at[cardinality(e.at)] from ends e), true)) n
    left join lateral (
      select h.state, h.inbox_id, h.user_id, h.valid_to, analytics.is_backlog(h.state, h.spam, h.trash) as counts,
        width_bucket(h.valid_from, (select e.at from ends e)) as after
      from analytics.ticket_history h
      -- By the primary key.
      where h.account_id = n.account_id and h.ticket_id = n.ticket_id and h.valid_from < n.valid_from
      order by h.valid_from desc
      limit 1) o on o.valid_to = n.valid_from
    cross join lateral (
      select o.state, o.inbox_id, o.user_id where o.counts
      union all
      select n.state, n.inbox_id, n.user_id where analytics.is_backlog(n.state, n.spam, n.trash)) d
    where n.after < n.through and not (coalesce(o.counts, false) and analytics.is_backlog(n.state, n.spam, n.trash)
      and n.state is not distinct from o.state and n.inbox_id is not distinct from o.inbox_id and n.user_id is not distinct from o.user_id)
    union all
    -- As well a deletion.
    select h.account_id, h.state, h.inbox_id, h.user_id,
      greatest(width_bucket(h.valid_from, (select e.at from ends e)), width_bucket(h.deleted_after + interval '1 microsecond', (select e.at from ends e))),
      width_bucket(h.valid_to, (select e.at from ends e)), 0, 1
    from analytics.ticket_history h
    where analytics.is_backlog(h.state, h.spam, h.trash) and h.deleted_after is not null and h.valid_to >= (select e.at[1] from ends e)),
  event as (
    select s.account_id, s.state, s.inbox_id, s.user_id, e.n, sum(e.sign * s.tickets) as tickets, sum(e.sign * s.uncertain) as uncertain
    from span s cross join lateral (values (s.after + 1, 1), (s.through + 1, -1)) e (n, sign)
    where s.after < s.through
    group by 1, 2, 3, 4, 5),
  total as (
    select b.account_id, b.state, b.inbox_id, b.user_id, b.n, sum(sum(b.tickets)) over w as tickets, sum(sum(b.uncertain)) over w as uncertain
    from (
      select e.account_id, e.state, e.inbox_id, e.user_id, e.n, e.tickets, e.uncertain from event e
      union all
      select k.account_id, k.state, k.inbox_id, k.user_id, d.n, 0, 0
      from (select distinct e.account_id, e.state, e.inbox_id, e.user_id from event e) k cross join days d) b
    group by 1, 2, 3, 4, 5
    window w as (partition by b.account_id, b.state, b.inbox_id, b.user_id order by b.n))
  select t.account_id, d.day, t.state, t.inbox_id, t.user_id, t.tickets::bigint, t.uncertain::bigint
  from total t join days d on d.n = t.n
  where t.tickets > 0 or t.uncertain > 0;
end;
comment on function analytics.backlog_daily(date, date, text) is
  'How many tickets were open work at the end of each day of a time zone, by state, inbox and user: as analytics.tickets_as_of tells for that midnight, without spam, trash, closed and archived ones. Under state null: tickets that were there, and of which nobody can tell what they were. uncertain: the true number may differ by so many; of so many tickets the change that brought them in or took them out may have happened on either side of that midnight, or nothing is known. So it may be more than tickets. What was changed and changed back between two readings is in neither; a deletion of which deleted_after is not known counts as of valid_to. A day that is not over shows what is known so far.';

-- The clock of the source was set back: what it dated later than that is of no time that was. Of such rows the last one stays,
-- from then on.
create or replace function sync.void_since(account text, source text, since timestamptz) returns void
language sql
begin atomic
  update sync.coverage c set covered = c.covered * tstzmultirange(tstzrange(null, since))
  from sync.streams k
  where k.source = void_since.source and c.stream = k.stream and c.account_id = account
    and c.covered && tstzrange(since, null);
  delete from sync.walks w using sync.streams k
  where k.source = void_since.source and w.stream = k.stream and w.account_id = account and w.as_of > since;
  delete from sync.swept s using sync.streams k
  where k.source = void_since.source and s.stream = k.stream and s.account_id = account and s.as_of > since;
  -- Rows from after that time give way to whatever is read from now on, also to a version that is dated earlier.
  update helpdesk.tickets t set
    _observed_at = least(t._observed_at, since - interval '1 hour'),
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
comment on function sync.void_since(text, text, timestamptz) is
  'The clock of the source was set back to this time: claims of complete, swept and checked end there, rows of a later time give way to what is read next, and the history of tickets has none of a later time.';

-- sync.changes has every other table: of what ticket_history and shelf_volume_history tell nothing twice.
create or replace function sync.keep_change() returns trigger
language plpgsql
-- The worker has plans made anew for each page; here that would be for each row.
set plan_cache_mode = force_generic_plan
as $$
declare
  -- Under these names in the table: what is another one's, or follows from others; and in _payload: what is a column.
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
  insert into sync.changes (account_id, table_name, record_id, parent_id, seen_at, as_of, run_id, changes)
  values (old.account_id, tg_table_name, before ->> coalesce(tg_argv[2], 'id'),
    (select string_agg(before ->> p.name, '/' order by p.place) from unnest(parent) with ordinality p (name, place)),
    (merge::jsonb ->> 'seen_at')::timestamptz, coalesce(merge::jsonb ->> 'as_of', after ->> '_deleted_at')::timestamptz, (merge::jsonb ->> 'run')::bigint, changes);
  return null;
end
$$;
comment on function sync.keep_change() is
  'Writes old and new values of a row that a merge changes, buries or removes to sync.changes. Arguments: the columns of its parent, names that are passed over, and the column of its id where that has another name.';
create trigger keep_change after update or delete on helpdesk.attachments for each row
  execute function sync.keep_change('ticket_id', '{account_id}');
-- That a name has been asked for, and came for the first time, is no change of it.
create trigger keep_change after update on helpdesk.labels for each row
  when (old._payload is not null and old._payload is distinct from new._payload)
  execute function sync.keep_change('', '{account_id}');
create trigger keep_change after update on helpdesk.inboxes for each row
  when (old._payload is not null and old._payload is distinct from new._payload)
  execute function sync.keep_change('', '{account_id}');
create trigger keep_change after update on books.shelves for each row
  when (old._payload <> new._payload or old._deleted_at is distinct from new._deleted_at)
  execute function sync.keep_change('owner_id', '{account_id}');
-- Until a volume was read in full, a list has shortened it.
create trigger keep_change after update on books.volumes for each row
  when (old._detail = 'full' and (old._payload <> new._payload or old._deleted_at is distinct from new._deleted_at))
  execute function sync.keep_change('', '{account_id,thumbnail}');
create trigger keep_change after update on books.shelf_volumes for each row
  when (old._payload <> new._payload)
  execute function sync.keep_change('owner_id,shelf_id', '{account_id,position}', 'volume_id');
comment on table sync.changes is
  'Old and new values of every row of the mirrors that changed here, one row each time. What came new is not here: see _first_seen_at. What is a relation only has its own: helpdesk.ticket_history, books.shelf_volume_history.';
comment on column sync.changes.table_name is
  'tickets, messages, attachments, customers, contacts, users, labels, inboxes, shelves, volumes or shelf_volumes.';
comment on column sync.changes.record_id is 'The row; joins the id of that table, of shelf_volumes volume_id.';
comment on column sync.changes.parent_id is
  'The ticket of a message or an attachment, the customer of a contact, the owner of a shelf; of shelf_volumes owner/shelf. Null otherwise.';
