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

create or replace view analytics.ticket_history with (security_barrier) as
select h.account_id, h.ticket_id, h.state, h.user_id, h.inbox_id, h.label_ids, h.spam, h.trash, h.valid_from, h.valid_to, h.change_after,
  h.deleted_after, h.is_first, h.change_by
from helpdesk.ticket_history h
where h.account_id = any (array(select r.account_id from sync.readable_accounts r));
comment on view analytics.ticket_history is
  'Past and present state of each ticket: a new row for each change of state, user_id, inbox_id, label_ids (unordered), spam or trash. Rows of a ticket do not overlap; the only gaps are deletions. Adjacent rows may be equal, because two changes within one second share a row.';

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

create or replace view internal.ticket_basics with (security_barrier) as
select t.account_id, t.id as ticket_id, t.number, t.customer_id, t.type, t.created_at, t.updated_at, t._first_seen_at as first_seen_at,
  t._deleted_after as deleted_after, t._deleted_at as deleted_at
from helpdesk.tickets t
where t.account_id = any (array(select r.account_id from sync.readable_accounts r));
comment on view internal.ticket_basics is
  'Columns of each ticket that its history lacks: number, customer, channel, and times of creation and deletion.';
comment on column internal.ticket_basics.account_id is 'The account.';
comment on column internal.ticket_basics.ticket_id is 'The ticket.';
comment on column internal.ticket_basics.customer_id is 'The customer.';
comment on column internal.ticket_basics.type is 'Channel: email, chat, phone and so on.';
comment on column internal.ticket_basics.first_seen_at is 'When the ticket was first stored here.';
comment on column internal.ticket_basics.deleted_after is
  'Deleted after this time and by deleted_at; null while the ticket exists.';
comment on column internal.ticket_basics.deleted_at is
  'Deleted at the source by this time; null while the ticket exists.';

create or replace function analytics.tickets_as_of(at timestamptz)
returns table (account_id text, ticket_id text, number bigint, customer_id text, inbox_id text, user_id text, state text, type text,
  label_ids text[], spam boolean, trash boolean, created_at timestamptz, valid_from timestamptz, valid_to timestamptz, certain boolean)
language sql stable
begin atomic
  select t.account_id, t.ticket_id, t.number, t.customer_id, h.inbox_id, h.user_id, h.state, t.type, h.label_ids, h.spam, h.trash,
    t.created_at, h.valid_from, h.valid_to,
    h.valid_from is not null and coalesce(h.change_by <= tickets_as_of.at, true) and case
      when h.valid_to is null then true
      when n.ticket_id is null then coalesce(h.deleted_after >= tickets_as_of.at, false)
      else coalesce(n.change_after >= tickets_as_of.at, false) and coalesce(h.deleted_after >= tickets_as_of.at, true) end
  from internal.ticket_basics t
  left join analytics.ticket_history h
    on h.account_id = t.account_id and h.ticket_id = t.ticket_id
      and h.valid_from <= tickets_as_of.at and (h.valid_to is null or h.valid_to > tickets_as_of.at)
  -- The row that follows directly. If there is none, the ticket was deleted.
  left join analytics.ticket_history n
    on n.account_id = h.account_id and n.ticket_id = h.ticket_id and n.valid_from = h.valid_to
  where coalesce(t.created_at <= tickets_as_of.at, h.valid_from is not null) and (h.valid_from is not null or exists (
    select from analytics.ticket_history f
    where f.account_id = t.account_id and f.ticket_id = t.ticket_id and f.is_first and f.valid_from > tickets_as_of.at));
end;
comment on function analytics.tickets_as_of is
  'Every ticket that existed at a given time, with its values at that time. certain is false if the values may have been different: the change that ended the row may have happened by then, or the change that began the row may have happened later. If the ticket was first seen or changed later, its values are null. certain covers observed changes only: a change that was undone between two reads left no trace. For times after complete_through in analytics.completeness, the answer covers what the mirror knows so far.';

create or replace function analytics.backlog_daily(from_day date, to_day date, time_zone text default 'UTC')
returns table (account_id text, day date, state text, inbox_id text, user_id text, tickets bigint, uncertain bigint)
language sql stable
begin atomic
  with days as materialized (
    select g.n::int as n, from_day + g.n::int - 1 as day
    from generate_series(1, to_day - from_day + 1) g (n)),
  -- Ends of days plus one microsecond, so that the number of a time is the number of days that ended before it. Where
  -- clocks go back to midnight, that midnight occurs twice and PostgreSQL takes the later one; the day ends with the
  -- first.
  ends as materialized (
    select array_agg(m.at - case
      when (m.at - interval '1 hour') at time zone time_zone >= (d.day + 1)::timestamp then interval '1 hour'
      else interval '0' end + interval '1 microsecond' order by d.n) as at
    from days d cross join lateral (select (d.day + 1)::timestamp at time zone time_zone as at) m),
  -- Ends of days after the first number, up to the second.
  span as (
    select h.account_id, h.state, h.inbox_id, h.user_id, width_bucket(h.valid_from, (select e.at from ends e)) as after,
      coalesce(width_bucket(h.valid_to, (select e.at from ends e)), (select cardinality(e.at) from ends e)) as through,
      count(*) as tickets, 0 as uncertain
    from analytics.ticket_history h
    where analytics.is_backlog(h.state, h.spam, h.trash) and (h.valid_to is null or h.valid_to >= (select e.at[1] from ends e))
    group by 1, 2, 3, 4, 5, 6
    union all
    -- Values before the first row.
    select h.account_id, null, null, null, width_bucket(h.change_after + interval '1 second', (select e.at from ends e)),
      width_bucket(h.valid_from, (select e.at from ends e)), 1, 1
    from analytics.ticket_history h
    where h.is_first and h.valid_from >= (select e.at[1] from ends e) and h.change_after < (select e.at[cardinality(e.at)] from ends e)
    union all
    -- Values between the first row and the reply that showed them.
    select h.account_id, null, null, null, width_bucket(h.valid_from, (select e.at from ends e)),
      width_bucket(h.change_by, (select e.at from ends e)), 0, 1
    from analytics.ticket_history h
    where h.is_first and h.change_by >= (select e.at[1] from ends e) and h.valid_from < (select e.at[cardinality(e.at)] from ends e)
    union all
    -- A change that may have happened before or after the end of a day makes both the old and the new values
    -- uncertain.
    select n.account_id, d.state, d.inbox_id, d.user_id, greatest(n.after, o.after), n.through, 0, 1
    from (
      select h.*,
        case
          when h.is_first then width_bucket(h.valid_from, (select e.at from ends e))
          else coalesce(width_bucket(h.change_after + interval '1 microsecond', (select e.at from ends e)), 0) end as after,
        width_bucket(greatest(h.valid_from, h.change_by), (select e.at from ends e)) as through
      from analytics.ticket_history h
      where (not h.is_first and h.valid_from >= (select e.at[1] from ends e) or h.change_by >= (select e.at[1] from ends e))
        and coalesce(h.change_after < (select e.at[cardinality(e.at)] from ends e), true)) n
    left join lateral (
      select h.state, h.inbox_id, h.user_id, h.valid_to, analytics.is_backlog(h.state, h.spam, h.trash) as counts,
        width_bucket(h.valid_from, (select e.at from ends e)) as after
      from analytics.ticket_history h
      -- Found by the primary key.
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
    -- The same for a deletion.
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
