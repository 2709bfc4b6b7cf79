-- Tickets at any time in the past, and the backlog of each day.

create or replace view internal.ticket_versions with (security_barrier) as
select h.* from internal.ticket_history h
union all
select v.* from internal.first_versions v;
comment on view internal.ticket_versions is
  'Rows of helpdesk.ticket_history for all accounts, whatever shelfdesk.account says.';

create or replace view helpdesk.ticket_history with (security_barrier) as
select v.* from internal.ticket_versions v
where v.account_id = any (array(select r.account_id from sync.mirror_accounts r));
comment on view helpdesk.ticket_history is
  'Past and present state of each ticket: a new row for each change of state, user_id, inbox_id, label_ids (unordered), spam or trash. Rows of a ticket do not overlap; the only gaps are deletions. Adjacent rows may be equal, because two changes within one second share a row.';
comment on column helpdesk.ticket_history.state is
  'open, hold, closed, snoozed or archived. Other values are stored unchanged.';
comment on column helpdesk.ticket_history.user_id is
  'The assigned user; null while unassigned. Joins helpdesk.users.id.';
comment on column helpdesk.ticket_history.inbox_id is
  'The inbox; joins helpdesk.inboxes.id.';
comment on column helpdesk.ticket_history.label_ids is
  'Labels on the ticket; each joins helpdesk.labels.id.';
comment on column helpdesk.ticket_history.spam is
  'True while the ticket was marked as spam.';
comment on column helpdesk.ticket_history.trash is
  'True while the ticket was in the trash.';
comment on column helpdesk.ticket_history.valid_from is
  'Start of the row: the updated_at of the version that shows the change, if it moved; else the time by which the reply was true. A first row starts at the updated_at at which the ticket was first seen; earlier states are unknown. If another edit moved updated_at and this change did not, the change happened later, by change_by.';
comment on column helpdesk.ticket_history.valid_to is
  'End of the row, exclusive. Null for the current row. For a deleted ticket: tickets._deleted_at.';
comment on column helpdesk.ticket_history.change_after is
  'Lower bound of the time of the change, in whole seconds of the source: the old values were last seen then. For a first row: one second before the creation. Null if unknown. The upper bound is change_by, or valid_from if change_by is null. A change that was undone in between is unknown.';
comment on column helpdesk.ticket_history.deleted_after is
  'For a row that ends with the deletion of the ticket: the deletion happened after this time and by valid_to. Null otherwise, or if unknown.';
comment on column helpdesk.ticket_history.is_first is
  'True for the first row of a ticket. The states before valid_from are unknown.';
comment on column helpdesk.ticket_history.change_by is
  'Upper bound of the time of the change, if later than valid_from: the reply that showed the change was true by then. Null if the change happened by valid_from, and for first rows of tickets that were last updated before the mirror began.';

-- Also shows change_by to readers without the right to personal data.

create or replace view safe.ticket_history with (security_barrier) as
select t.account_id, t.ticket_id, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam, t.trash, t.valid_from, t.valid_to, t.change_after, t.is_first, t.deleted_after, t.change_by
from helpdesk.ticket_history t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.ticket_history is 'helpdesk.ticket_history: past and present state of each ticket.';
comment on column safe.ticket_history.ticket_id is 'The ticket; joins safe.tickets.id.';
comment on column safe.ticket_history.user_id is 'The assigned user; null while unassigned. Joins safe.users.id.';
comment on column safe.ticket_history.inbox_id is 'The inbox; joins safe.inboxes.id.';
comment on column safe.ticket_history.label_ids is 'Labels on the ticket; each joins safe.labels.id.';
comment on column safe.ticket_history.valid_from is
  'Start of the row: the updated_at of the version that shows the change, if it moved; else the time when the change was seen. A first row starts at the updated_at at which the ticket was first seen; earlier states are unknown. If another edit moved updated_at and this change did not, the change happened later, at the latest when that version was read.';
comment on column safe.ticket_history.change_after is
  'Lower bound of the time of the change, in whole seconds of the source: the old values were last seen then. For a first row: one second before the creation. Null if unknown. The change happened by valid_from if it moved updated_at; see valid_from. A change that was undone in between is unknown.';

-- Not from internal.ticket_versions, whose order by ticket costs more than the rest when many tickets are asked for. PostgreSQL takes
-- a plain union of selects apart and forgets that it is a security barrier, so the union is within another select.
create or replace view analytics.ticket_history with (security_barrier) as
select v.account_id, v.ticket_id, v.state, v.user_id, v.inbox_id, v.label_ids, v.spam, v.trash, v.valid_from, v.valid_to, v.change_after,
  v.deleted_after, v.is_first, v.change_by
from (
  select h.* from internal.ticket_history h
  union all
  select f.*
  from helpdesk.tickets t
  left join sync.accounts k on k.account_id = t.account_id
  cross join lateral sync.first_version(t, k.mirrored_since) f
  where not exists (
    select from internal.ticket_history h where h.account_id = t.account_id and h.ticket_id = t.id)) v
where v.account_id = any (array(select r.account_id from sync.readable_accounts r));
comment on view analytics.ticket_history is
  'Past and present state of each ticket: a new row for each change of state, user_id, inbox_id, label_ids (unordered), spam or trash. Rows of a ticket do not overlap; the only gaps are deletions. Adjacent rows may be equal, because two changes within one second share a row.';
comment on column analytics.ticket_history.label_ids is
  'Labels on the ticket; each joins helpdesk.labels.id.';
comment on column analytics.ticket_history.spam is
  'True while the ticket was marked as spam.';
comment on column analytics.ticket_history.trash is
  'True while the ticket was in the trash.';

create or replace view internal.ticket_state_intervals with (security_barrier) as
select i.account_id, i.ticket_id, i.state, i.valid_from,
  case when i.ends then i.valid_to else i.next_valid_to end as valid_to,
  i.change_after,
  extract(epoch from i.valid_from - i.change_after)::float8 as error_seconds,
  case when i.ends then i.deleted_after else i.next_deleted_after end as deleted_after,
  i.change_by
from (
  -- Keeps the first and the last row of each series with one state: the first has the start, the last the end.
  select b.*, lead(b.valid_to) over once as next_valid_to, lead(b.deleted_after) over once as next_deleted_after
  from (
    select h.account_id, h.ticket_id, h.state, h.valid_from, h.valid_to, h.change_after, h.change_by, h.deleted_after,
      lag(h.valid_to) over w is distinct from h.valid_from or lag(h.state) over w is distinct from h.state as begins,
      lead(h.valid_from) over w is distinct from h.valid_to or lead(h.state) over w is distinct from h.state as ends
    from internal.ticket_versions h
    window w as (partition by h.account_id, h.ticket_id order by h.valid_from)) b
  where b.begins or b.ends
  window once as (partition by b.account_id, b.ticket_id order by b.valid_from)) i
where i.begins;
comment on view internal.ticket_state_intervals is
  'Rows of analytics.ticket_state_intervals for all accounts, whatever shelfdesk.account says.';
comment on column internal.ticket_state_intervals.error_seconds is
  'Upper bound of the error of valid_from in seconds: valid_from − change_after.';

create or replace view analytics.ticket_state_intervals with (security_barrier) as
select i.account_id, i.ticket_id, i.state, i.valid_from, i.valid_to, i.change_after, i.error_seconds, i.deleted_after, i.change_by
from internal.ticket_state_intervals i
where i.account_id = any (array(select r.account_id from sync.readable_accounts r));
comment on view analytics.ticket_state_intervals is
  'Past and present states of each ticket: helpdesk.ticket_history with one row per change of state.';
comment on column analytics.ticket_state_intervals.account_id is 'The account.';
comment on column analytics.ticket_state_intervals.state is 'The state; null if the source showed none.';
comment on column analytics.ticket_state_intervals.valid_from is
  'Start of the state. For the first state of a ticket only an upper bound: the updated_at at which the ticket was first seen.';
comment on column analytics.ticket_state_intervals.valid_to is
  'End of the state, exclusive; null for the current state.';
comment on column analytics.ticket_state_intervals.change_after is
  'Lower bound of the time of the change; the upper bound is change_by, or valid_from if change_by is null. Null if unknown.';
comment on column analytics.ticket_state_intervals.error_seconds is
  'Upper bound of the error of valid_from in seconds: valid_from − change_after.';
comment on column analytics.ticket_state_intervals.deleted_after is
  'For a state that ends with the deletion of the ticket: the deletion happened after this time and by valid_to. Null otherwise, or if unknown.';
comment on column analytics.ticket_state_intervals.change_by is
  'Upper bound of the time of the change, if later than valid_from; see helpdesk.ticket_history.change_by.';

-- Joined here and not in the function, since PostgreSQL uses no statistics behind a security barrier.
create or replace view internal.readable_versions with (security_barrier) as
select v.*
from (
  select h.*, t.number, t.customer_id, t.type, t.created_at, h.valid_to as ended,
    case when h.valid_to is not null then (
      select coalesce(n.change_after, '-infinity') from internal.ticket_history n
      where n.account_id = h.account_id and n.ticket_id = h.ticket_id and n.valid_from = h.valid_to) end as next_after
  from internal.ticket_history h
  join helpdesk.tickets t on t.account_id = h.account_id and t.id = h.ticket_id
  union all
  select f.*, t.number, t.customer_id, t.type, t.created_at, t._deleted_at, null
  from helpdesk.tickets t
  left join sync.accounts k on k.account_id = t.account_id
  cross join lateral sync.first_version(t, k.mirrored_since) f
  where not exists (
    select from internal.ticket_history h where h.account_id = t.account_id and h.ticket_id = t.id)) v
where v.account_id = any (array(select r.account_id from sync.readable_accounts r));
comment on view internal.readable_versions is
  'Rows of analytics.ticket_history with the columns of the ticket that its history lacks, for analytics.tickets_as_of.';
comment on column internal.readable_versions.account_id is 'The account.';
comment on column internal.readable_versions.type is 'Channel: email, chat, phone and so on.';
comment on column internal.readable_versions.ended is
  'Null if valid_to is null. Unlike valid_to it is a column of a table, so PostgreSQL knows how many rows have one.';
comment on column internal.readable_versions.next_after is
  'change_after of the row that follows directly, -infinity if that is null. Null if no row follows directly: then valid_to is null, or the ticket was deleted.';

create or replace function analytics.tickets_as_of(at timestamptz)
returns table (account_id text, ticket_id text, number bigint, customer_id text, inbox_id text, user_id text, state text, type text,
  label_ids text[], spam boolean, trash boolean, created_at timestamptz, valid_from timestamptz, valid_to timestamptz, certain boolean)
language sql stable parallel safe
begin atomic
  select v.account_id, v.ticket_id, v.number, v.customer_id, case when k.known then v.inbox_id end, case when k.known then v.user_id end,
    case when k.known then v.state end, v.type, case when k.known then v.label_ids end, case when k.known then v.spam end,
    case when k.known then v.trash end, v.created_at, case when k.known then v.valid_from end, case when k.known then v.valid_to end,
    k.known and coalesce(v.change_by <= tickets_as_of.at, true) and case
      when v.valid_to is null then true
      when v.next_after is null then coalesce(v.deleted_after >= tickets_as_of.at, false)
      else v.next_after >= tickets_as_of.at and coalesce(v.deleted_after >= tickets_as_of.at, true) end
  from internal.readable_versions v
  -- A ticket that was first seen later has the row of that time, without its values.
  cross join lateral (select v.valid_from <= tickets_as_of.at as known) k
  where (v.valid_from <= tickets_as_of.at or v.is_first) and (v.ended is null or v.valid_to > tickets_as_of.at)
    and (v.created_at <= tickets_as_of.at or v.created_at is null and v.valid_from <= tickets_as_of.at);
end;
comment on function analytics.tickets_as_of is
  'Every ticket that existed at a given time, with its values at that time. certain is false if the values may have been different: the change that ended the row may have happened by then, or the change that began the row may have happened later. If the ticket was first seen or changed later, its values are null. certain covers observed changes only: a change that was undone between two reads left no trace. For times after complete_through in analytics.completeness, the answer covers what the mirror knows so far.';

create or replace function internal.backlog(time_zones text[], from_days date[], to_days date[], by_inbox boolean)
returns table (account_id text, day date, state text, inbox_id text, user_id text, tickets bigint, uncertain bigint)
language sql stable parallel safe rows 50000
-- PostgreSQL expects a row of a common table expression where there may be a thousand accounts.
set enable_nestloop = off
begin atomic
  -- Ends of days plus one microsecond, so that the number of a time is the number of days that ended before it. Where
  -- clocks go back to midnight, that midnight occurs twice and PostgreSQL takes the later one; the day ends with the
  -- first.
  with zone as materialized (
    select u.time_zone, u.from_day, (
      select array_agg(m.at - case
        when (m.at - interval '1 hour') at time zone u.time_zone >= (d.day + 1)::timestamp then interval '1 hour'
        else interval '0' end + interval '1 microsecond' order by d.day)
      from (select u.from_day + g.n as day from generate_series(0, u.to_day - u.from_day) g (n)) d
      cross join lateral (select (d.day + 1)::timestamp at time zone u.time_zone as at) m) as ends
    from unnest(time_zones, from_days, to_days) u (time_zone, from_day, to_day)),
  -- The zone of each inbox, and of all others.
  place as materialized (
    select i.account_id, i.inbox_id, i.time_zone from analytics.inbox_zones i where by_inbox
    union all
    select r.account_id, null, case when by_inbox then r.time_zone else time_zones[1] end from analytics.account_zones r),
  -- Read once: open work of these days, and versions that began, or were shown, since the first of them.
  version as materialized (
    select h.account_id, h.ticket_id, array[h.account_id, h.state, h.inbox_id, h.user_id] as of, analytics.is_backlog(h.state, h.spam, h.trash) as counts,
      h.valid_from, h.valid_to, h.change_after, h.change_by, h.deleted_after, h.is_first
    from analytics.ticket_history h
    where analytics.is_backlog(h.state, h.spam, h.trash) and (h.valid_to is null or h.valid_to >= (select min(z.ends[1]) from zone z))
      or h.valid_from >= (select min(z.ends[1]) from zone z) or h.change_by >= (select min(z.ends[1]) from zone z)),
  span as (
    select v.of, v.valid_from as since, coalesce(v.valid_to, 'infinity') as until, 1 as tickets, 0 as uncertain
    from version v
    where v.counts
    union all
    -- Values before the first row.
    select array[v.account_id, null, null, null], v.change_after + interval '1 second', v.valid_from, 1, 1
    from version v
    where v.is_first
    union all
    -- Values between the first row and the reply that showed them.
    select array[v.account_id, null, null, null], v.valid_from, v.change_by, 0, 1
    from version v
    where v.is_first and v.change_by > v.valid_from
    union all
    -- A change that may have happened before or after the end of a day makes both the old and the new values
    -- uncertain.
    select d.of, greatest(n.since, o.valid_from), n.until, 0, 1
    from (
      select v.*, case when v.is_first then v.valid_from else coalesce(v.change_after + interval '1 microsecond', '-infinity') end as since,
        greatest(v.valid_from, v.change_by) as until
      from version v) n
    left join lateral (
      select array[h.account_id, h.state, h.inbox_id, h.user_id] as of, h.valid_from, analytics.is_backlog(h.state, h.spam, h.trash) as counts
      from analytics.ticket_history h
      where h.account_id = n.account_id and h.ticket_id = n.ticket_id and h.valid_to = n.valid_from and not n.is_first
      offset 0) o on true
    cross join lateral (
      select o.of where o.counts
      union all
      select n.of where n.counts) d
    where exists (select from zone z where width_bucket(n.since, z.ends) < width_bucket(n.until, z.ends))
      and not (coalesce(o.counts, false) and n.counts and n.of = o.of)
    union all
    -- The same for a deletion.
    select v.of, greatest(v.valid_from, v.deleted_after + interval '1 microsecond'), v.valid_to, 0, 1
    from version v
    where v.counts and v.deleted_after is not null),
  -- After which day it begins, and with which it ends.
  counted as materialized (
    select s.of, z.time_zone, width_bucket(s.since, z.ends) as after, width_bucket(s.until, z.ends) as through, s.tickets, s.uncertain
    from span s
    left join place i on i.account_id = s.of[1] and i.inbox_id = s.of[3]
    join place a on a.account_id = s.of[1] and a.inbox_id is null
    join zone z on z.time_zone = coalesce(i.time_zone, a.time_zone)
    where width_bucket(s.since, z.ends) < width_bucket(s.until, z.ends)),
  value as materialized (
    select row_number() over () as id, c.of, z.from_day, cardinality(z.ends) as days
    from (select distinct c.of, c.time_zone from counted c) c join zone z on z.time_zone = c.time_zone),
  total as (
    select b.id, b.n, sum(sum(b.tickets)::int) over w as tickets, sum(sum(b.uncertain)::int) over w as uncertain
    from (
      select v.id, e.n, e.sign * c.tickets as tickets, e.sign * c.uncertain as uncertain
      from counted c join value v on v.of = c.of
      cross join lateral (values (c.after + 1, 1), (c.through + 1, -1)) e (n, sign)
      union all
      select v.id, g.n, 0, 0 from value v cross join lateral generate_series(1, v.days) g (n)) b
    group by b.id, b.n
    window w as (partition by b.id order by b.n))
  select v.of[1], v.from_day + t.n - 1, v.of[2], v.of[3], v.of[4], t.tickets, t.uncertain
  from total t join value v on v.id = t.id and t.n <= v.days
  where t.tickets > 0 or t.uncertain > 0;
end;

comment on function internal.backlog is
  'analytics.backlog_daily for several time zones, each with its own days. by_inbox: a row counts by the zone of its inbox, as in analytics.inbox_zones, else by that of its account; all other rows are left out. Otherwise every row counts by the first zone.';

create or replace function analytics.backlog_daily(from_day date, to_day date, time_zone text default 'UTC')
returns table (account_id text, day date, state text, inbox_id text, user_id text, tickets bigint, uncertain bigint)
language sql stable parallel safe
begin atomic
  select b.account_id, b.day, b.state, b.inbox_id, b.user_id, b.tickets, b.uncertain
  from internal.backlog(array[time_zone], array[from_day], array[to_day], false) b;
end;
comment on function analytics.backlog_daily is
  'Number of open tickets at the end of each day in a time zone, by state, inbox and user: analytics.tickets_as_of at that midnight, without spam, trash, closed and archived tickets. State null counts tickets whose values at that time are unknown. uncertain is the number of tickets that may belong on the other side: their change lies between change_after and valid_from (or change_by), or is unknown, and the midnight is in that range. It can exceed tickets. A change that was undone between two reads is in neither number; a deletion without deleted_after counts as of valid_to. A day that is not over shows the state so far.';

create or replace view analytics.shelf_events with (security_barrier) as
select h.account_id, h.owner_id, h.shelf_id, h.volume_id,
  case
    when h.position is null then 'removed'
    when h.was_on_shelf then 'moved'
    when h.change_after is null then 'found'
    else 'added' end as event,
  h.position, h.valid_from as at, h.change_after
from (
  select s.*, lag(s.position) over (partition by s.account_id, s.owner_id, s.shelf_id, s.volume_id order by s.valid_from) is not null as was_on_shelf
  from books.shelf_volume_history s
  where s.account_id = any (array(select account_id from sync.readable_accounts))) h
-- An absence is no event.
where h.position is not null or h.was_on_shelf;
comment on view analytics.shelf_events is
  'Events on the shelves. The catalog announces nothing: each event happened after change_after and by "at". A volume that came and went between two reads is missing.';
comment on column analytics.shelf_events.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.shelf_events.owner_id is 'The owner of the shelf.';
comment on column analytics.shelf_events.event is
  'added; moved (to another position); removed; or found: present at the first read of the shelf, since an unknown time.';
comment on column analytics.shelf_events.position is 'New position on the shelf, from 0; null if removed.';
comment on column analytics.shelf_events.at is 'Upper bound of the time of the event.';
comment on column analytics.shelf_events.change_after is
  'Lower bound of the time of the event; null if the time before is unknown.';
