comment on column helpdesk.tickets._messages_as_of is
  'The messages of this ticket are those that the source showed at this time. If null or earlier than updated_at, the messages are pending.';
comment on column helpdesk.tickets._deleted_at is
  'Deleted at the source by this time: a request by id answered 404. Null while the ticket exists.';
comment on column helpdesk.tickets._deleted_after is
  'Deleted after this time and by _deleted_at. Null while the ticket exists.';
comment on column helpdesk.tickets._listed_by is
  'The run that first stored this ticket, at _first_seen_at. Null if that was before runs were recorded. Joins sync.runs.id while the run is kept.';
comment on column helpdesk.tickets._messages_by is
  'The run that read the messages, as of _messages_as_of. Null like _listed_by. Earlier reads that brought changes are in sync.changes.';
comment on column helpdesk.tickets._true_by is
  'Upper bound of the time of this version, by the source''s clock: the Date of the reply plus its grain of one second, or the time of the reply by the database''s clock where Date is behind that. _observed_at is the lower bound, up to which the reply is complete. Null for rows from before this column and for replayed rejects; there the upper bound is one minute after _observed_at.';
comment on function analytics.is_backlog is
  'True if a ticket in this state is open work: not closed, archived, spam or in the trash.';

create or replace function analytics.is_countable(spam boolean, trash boolean, deleted_at timestamptz) returns boolean
language sql immutable parallel safe
begin atomic
  -- Like analytics.is_backlog, so that PostgreSQL can push it down.
  select spam is not true and trash is not true and deleted_at is null;
end;
comment on function analytics.is_countable is
  'True if reports count the ticket: not spam, not in the trash, not deleted at the source.';
comment on table internal.ticket_history is
  'Stored rows of helpdesk.ticket_history: of tickets that have changed since they were first seen. Read helpdesk.ticket_history instead.';
comment on column internal.ticket_history.state is
  'open, hold, closed, snoozed or archived. Other values are stored unchanged.';
comment on column internal.ticket_history.user_id is
  'The assigned user; null while unassigned. Joins helpdesk.users.id.';
comment on column internal.ticket_history.inbox_id is
  'The inbox; joins helpdesk.inboxes.id.';
comment on column internal.ticket_history.label_ids is
  'Labels on the ticket; each joins helpdesk.labels.id.';
comment on column internal.ticket_history.spam is
  'True while the ticket was marked as spam.';
comment on column internal.ticket_history.trash is
  'True while the ticket was in the trash.';
comment on column internal.ticket_history.valid_from is
  'Start of the row: the updated_at of the version that shows the change, if it moved; else the time by which the reply was true. A first row starts at the updated_at at which the ticket was first seen; earlier states are unknown. If another edit moved updated_at and this change did not, the change happened later, by change_by.';
comment on column internal.ticket_history.valid_to is
  'End of the row, exclusive. Null for the current row. For a deleted ticket: tickets._deleted_at.';
comment on column internal.ticket_history.change_after is
  'Lower bound of the time of the change, in whole seconds of the source: the old values were last seen then. For a first row: one second before the creation. Null if unknown. The upper bound is change_by, or valid_from if change_by is null. A change that was undone in between is unknown.';
comment on column internal.ticket_history.deleted_after is
  'For a row that ends with the deletion of the ticket: the deletion happened after this time and by valid_to. Null otherwise, or if unknown.';
comment on column internal.ticket_history.is_first is
  'True for the first row of a ticket. The states before valid_from are unknown.';
comment on column internal.ticket_history.change_by is
  'Upper bound of the time of the change, if later than valid_from: the reply that showed the change was true by then. Null if the change happened by valid_from, and for first rows of tickets that were last updated before the mirror began.';

create or replace function sync.same_set(one text[], other text[]) returns boolean
language sql immutable parallel safe
begin atomic
  select one is not distinct from other or coalesce(one @> other and one <@ other, false);
end;
comment on function sync.same_set is
  'True if both arrays hold the same values, in any order. Null means unknown and differs from the empty set.';

-- A ticket of one version has no stored history: its own row says it all.
create or replace function sync.first_version(ticket helpdesk.tickets, mirrored_since timestamptz) returns setof internal.ticket_history
language sql stable parallel safe
begin atomic
  select ticket.account_id, ticket.id, ticket.state, ticket.user_id, ticket.inbox_id, ticket.label_ids, ticket.spam, ticket.trash, f.valid_from,
    case when ticket._deleted_at is not null then greatest(ticket._deleted_at, f.valid_from + interval '1 second') end,
    case when ticket.created_at <= f.valid_from then ticket.created_at - interval '1 second' end,
    ticket._deleted_after, true,
    -- A ticket that was created while the mirror ran was seen soon afterwards. For older tickets the times of the
    -- source count.
    case when ticket.updated_at >= mirrored_since and f.by > f.valid_from then f.by end
  from (
    select y.by, least(ticket.updated_at, y.by) as valid_from
    from (select sync.true_by(ticket._true_by, ticket._observed_at) as by) y) f;
end;
comment on function sync.first_version is
  'The first row of history of a ticket in its first version.';

create or replace view internal.first_versions with (security_barrier) as
select v.*
-- Where there are no statistics, the order makes PostgreSQL choose the primary key.
from (select t.* from helpdesk.tickets t order by t.account_id, t.id) t
left join sync.accounts k on k.account_id = t.account_id
cross join lateral sync.first_version(t, k.mirrored_since) v
where not exists (
  select from internal.ticket_history h where h.account_id = t.account_id and h.ticket_id = t.id);
comment on view internal.first_versions is
  'First and only rows of history of all tickets without stored history.';

create or replace function sync.begin_ticket_history() returns trigger
language plpgsql
as $$
begin
  -- What it would write is copied too.
  if current_setting('shelfdesk.copying', true) = 'on' then return null; end if;
  insert into internal.ticket_history select v.* from after t
  left join sync.accounts k on k.account_id = t.account_id
  cross join lateral sync.first_version(t, k.mirrored_since) v
  where t._deleted_at is not null
  on conflict do nothing;
  -- Messages of the same id may already be here if somebody removed the row of the ticket by hand. The id is compared as a range,
  -- in its order: a plan from an empty table would read all messages later.
  perform internal.touch_metrics(array_agg(t.account_id), array_agg(t.id)) from after t
  cross join lateral (
    select from internal.messages m where m.account_id = t.account_id and m.ticket_id >= t.id and m.ticket_id <= t.id
    order by m.ticket_id limit 1) m;
  return null;
end
$$;
comment on function sync.begin_ticket_history is
  'Stores the first row of history of tickets that arrive deleted, and the metrics of tickets whose messages are already here.';

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
comment on function sync.keep_ticket_history is
  'Writes the changes of tickets, and the first row of a ticket at its first change, to internal.ticket_history. A tombstone ends the history.';

create or replace function sync.end_ticket_history() returns trigger
language plpgsql
as $$
begin
  delete from internal.ticket_history h where (h.account_id, h.ticket_id) in (select b.account_id, b.id from before b);
  return null;
end
$$;
comment on function sync.end_ticket_history is
  'Removes the history of tickets whose rows are deleted, by hand or with their account. A ticket that is deleted at the source keeps its row with a tombstone.';

create or replace trigger keep_change after update on helpdesk.tickets for each row when (((new._messages_as_of is null) or (old._messages_as_of = new._messages_as_of))) execute function sync.keep_change('', '{account_id}');

create or replace trigger begin_ticket_history after insert on helpdesk.tickets referencing new table as after for each statement execute function sync.begin_ticket_history();

create or replace trigger keep_ticket_history after update on helpdesk.tickets referencing old table as before new table as after for each statement execute function sync.keep_ticket_history();

create or replace trigger end_ticket_history after delete on helpdesk.tickets referencing old table as before for each statement execute function sync.end_ticket_history();
