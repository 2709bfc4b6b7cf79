-- Up Migration

-- The definitions of metrics read all accounts: nobody but the worker and the owner reads them, and a filter by account took more
-- work than the metrics of one ticket.

create or replace view internal.ticket_versions with (security_barrier) as
select h.* from internal.ticket_history h
union all
select v.* from internal.first_versions v;
comment on view internal.ticket_versions is
  'Rows of helpdesk.ticket_history for all accounts, whatever shelfdesk.account says.';

create or replace view helpdesk.ticket_history with (security_barrier) as
select v.* from internal.ticket_versions v
where v.account_id = any (array(select r.account_id from sync.mirror_accounts r));
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
create or replace view internal.reply_turns_defined with (security_barrier) as
select g.account_id, g.ticket_id,
  row_number() over (partition by g.account_id, g.ticket_id order by g.replies_before)::int as turn,
  g.waiting_since, g.answered_at,
  date_part('epoch', g.answered_at - g.waiting_since) as wait_seconds,
  -- Same rule as analytics.calendar_of, which would look up the readable accounts once for each turn.
  analytics.business_seconds((
    select a.calendar from internal.stored_calendar_assignments a
    where a.account_id = g.account_id and (a.inbox_id = t.inbox_id or a.inbox_id is null)
    order by a.inbox_id nulls last limit 1), g.waiting_since, g.answered_at)::float8 as wait_business_seconds,
  g.user_id, g.inbound_messages, g.first_message_id, g.reply_message_id,
  g.reply_message_id is not null as is_answered,
  g.reply_message_id is not null and g.replies_before = 0 as is_first_response
from (
  select o.account_id, o.ticket_id, o.replies_before,
    min(o.created_at) filter (where o.kind = 'inbound') as waiting_since,
    max(o.created_at) filter (where o.kind = 'authored') as answered_at,
    max(o.user_id) filter (where o.kind = 'authored') as user_id,
    count(*) filter (where o.kind = 'inbound')::int as inbound_messages,
    (array_agg(o.message_id order by o.created_at, o.position, o.message_id) filter (where o.kind = 'inbound'))[1] as first_message_id,
    max(o.message_id) filter (where o.kind = 'authored') as reply_message_id
  from (
    select k.account_id, k.ticket_id, k.message_id, k.kind, k.user_id, k.created_at, k.position,
      count(*) filter (where k.kind = 'authored') over (
        partition by k.account_id, k.ticket_id order by k.created_at, k.position, k.message_id
        rows between unbounded preceding and 1 preceding) as replies_before
    from (
      select m.account_id, m.ticket_id, m.id as message_id, analytics.message_kind(m.type, m.direction, m.user_id) as kind,
        m.user_id, m.created_at, m.position
      from internal.messages m
      order by m.account_id, m.ticket_id, m.position) k
    where k.kind in ('inbound', 'authored')) o
  group by o.account_id, o.ticket_id, o.replies_before
  -- A reply without a customer message before it is not a turn.
  having count(*) filter (where o.kind = 'inbound') > 0) g
join helpdesk.tickets t on t.account_id = g.account_id and t.id = g.ticket_id;

create or replace view internal.ticket_metrics_defined with (security_barrier) as
select t.account_id, t.id as ticket_id,
  m.message_count, m.inbound_count, m.authored_count, m.automatic_count, m.note_count, m.other_count, a.attachment_count,
  m.agents_involved, m.last_inbound_at, m.last_authored_at,
  coalesce(m.talk[1] = 'authored', false) as is_outbound_initiated,
  m.authored_count = 1 and m.talk[1] = 'inbound' and m.talk[cardinality(m.talk)] = 'authored' as is_one_touch,
  m.inbound_count > 0 and m.authored_count = 0 as is_unreplied,
  date_part('epoch', w.first_response) as first_response_seconds,
  w.first_response_business::float8 as first_response_business_seconds,
  w.first_responder_id,
  date_part('epoch', r.first_reply_at - t.created_at) as first_reply_seconds,
  analytics.business_seconds(c.calendar, t.created_at, r.first_reply_at)::float8 as first_reply_business_seconds,
  w.turns, w.waiting_since,
  date_part('epoch', w.total_wait) as total_wait_seconds,
  date_part('epoch', w.total_wait) / w.timed_turns as average_wait_seconds,
  date_part('epoch', w.longest_wait) as longest_wait_seconds,
  w.total_wait_business::float8 as total_wait_business_seconds,
  (w.total_wait_business / w.timed_turns)::float8 as average_wait_business_seconds,
  w.longest_wait_business::float8 as longest_wait_business_seconds,
  h.first_closed_at, date_part('epoch', h.first_closed_error) as first_closed_error_seconds,
  h.last_closed_at, date_part('epoch', h.last_closed_error) as last_closed_error_seconds,
  date_part('epoch', h.first_closed_at - t.created_at) as first_resolution_seconds,
  date_part('epoch', h.first_closed_error) as first_resolution_error_seconds,
  analytics.business_seconds(c.calendar, t.created_at, h.first_closed_at)::float8 as first_resolution_business_seconds,
  case when h.is_resolved then date_part('epoch', h.last_closed_at - t.created_at) end as full_resolution_seconds,
  case when h.is_resolved then date_part('epoch', h.last_closed_error) end as full_resolution_error_seconds,
  case when h.is_resolved then analytics.business_seconds(c.calendar, t.created_at, h.last_closed_at)::float8 end as full_resolution_business_seconds,
  h.reopen_count, date_part('epoch', u.unseen) as reopen_error_seconds,
  u.assignment_count, date_part('epoch', u.unseen) as assignment_error_seconds,
  h.seconds_open, h.open_error_seconds, h.seconds_hold, h.hold_error_seconds, h.seconds_snoozed, h.snoozed_error_seconds,
  h.seconds_closed, h.closed_error_seconds, h.seconds_archived, h.archived_error_seconds,
  h.first_closing_seen, h.last_closing_seen
from (
  select k.account_id, k.id, k.inbox_id, k.created_at
  from helpdesk.tickets k
  order by k.account_id, k.id) t
cross join lateral (
  -- Same rule as analytics.calendar_of, which would look up the readable accounts once for each ticket.
  select (
    select a.calendar from internal.stored_calendar_assignments a
    where a.account_id = t.account_id and (a.inbox_id = t.inbox_id or a.inbox_id is null)
    order by a.inbox_id nulls last limit 1) as calendar offset 0) c
cross join lateral (
  select count(*)::int as message_count,
    count(*) filter (where k.kind = 'inbound')::int as inbound_count,
    count(*) filter (where k.kind = 'authored')::int as authored_count,
    count(*) filter (where k.kind = 'automatic')::int as automatic_count,
    count(*) filter (where k.kind = 'note')::int as note_count,
    count(*) filter (where k.kind = 'other')::int as other_count,
    count(distinct k.user_id) filter (where k.kind in ('authored', 'note'))::int as agents_involved,
    max(k.created_at) filter (where k.kind = 'inbound') as last_inbound_at,
    max(k.created_at) filter (where k.kind = 'authored') as last_authored_at,
    array_agg(k.kind order by k.created_at, k.position, k.message_id) filter (where k.kind in ('inbound', 'authored')) as talk,
    array_agg(k.created_at order by k.created_at, k.position, k.message_id) filter (where k.kind = 'authored') as authored_at
  from (
    select m.id as message_id, analytics.message_kind(m.type, m.direction, m.user_id) as kind, m.user_id, m.created_at, m.position
    from internal.messages m
    where m.account_id = t.account_id and m.ticket_id = t.id
    order by m.position) k) m
-- If the team wrote first, the second team reply counts as the first reply.
cross join lateral (select m.authored_at[case when m.talk[1] = 'authored' then 2 else 1 end] as first_reply_at) r
cross join lateral (
  select count(*)::int as attachment_count
  from (
    select from helpdesk.attachments f
    where f.account_id = t.account_id and f.ticket_id >= t.id and f.ticket_id <= t.id
    order by f.ticket_id) f) a
cross join lateral (
  select count(*) filter (where q.is_answered)::int as turns,
    nullif(count(q.wait), 0) as timed_turns,
    max(q.waiting_since) filter (where not q.is_answered) as waiting_since,
    sum(q.wait) as total_wait, max(q.wait) as longest_wait,
    sum(q.business) as total_wait_business, max(q.business) as longest_wait_business,
    max(q.wait) filter (where q.is_first_response) as first_response,
    max(q.business) filter (where q.is_first_response) as first_response_business,
    max(q.user_id) filter (where q.is_first_response) as first_responder_id
  from (
    select n.is_answered, n.is_first_response, n.user_id, n.waiting_since, n.answered_at - n.waiting_since as wait,
      analytics.business_seconds(c.calendar, n.waiting_since, n.answered_at) as business
    from internal.stored_reply_turns n
    where n.account_id = t.account_id and n.ticket_id = t.id
    offset 0) q) w
cross join lateral (
  select min(i.valid_from) filter (where i.resolved) as first_closed_at,
    (array_agg(i.began_within order by i.valid_from) filter (where i.resolved))[1] as first_closed_error,
    max(i.valid_from) filter (where i.resolved and not i.was_resolved) as last_closed_at,
    (array_agg(i.began_within order by i.valid_from desc) filter (where i.resolved and not i.was_resolved))[1] as last_closed_error,
    coalesce((array_agg(i.resolved order by i.valid_from desc))[1], false) as is_resolved,
    count(*) filter (where not i.resolved and i.was_resolved)::int as reopen_count,
    -- A closing was observed if another interval precedes it. Only the first interval has no predecessor.
    coalesce(bool_or(i.was_seen) filter (where i.resolved and not i.was_resolved), false)
      and coalesce(bool_and(i.was_seen or not i.resolved), true) as first_closing_seen,
    coalesce(bool_or(i.was_seen) filter (where i.resolved and not i.was_resolved), false) as last_closing_seen,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'open'), interval '0')) as seconds_open,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'hold'), interval '0')) as seconds_hold,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'snoozed'), interval '0')) as seconds_snoozed,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'closed'), interval '0')) as seconds_closed,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'archived'), interval '0')) as seconds_archived,
    -- The error of each sum is at most the uncertainty of the interval boundaries. One unknown boundary makes the error unknown.
    case when bool_and(i.within is not null) filter (where i.state = 'open' and i.lasted is not null) is not false
      then date_part('epoch', coalesce(sum(i.within) filter (where i.state = 'open'), interval '0')) end as open_error_seconds,
    case when bool_and(i.within is not null) filter (where i.state = 'hold' and i.lasted is not null) is not false
      then date_part('epoch', coalesce(sum(i.within) filter (where i.state = 'hold'), interval '0')) end as hold_error_seconds,
    case when bool_and(i.within is not null) filter (where i.state = 'snoozed' and i.lasted is not null) is not false
      then date_part('epoch', coalesce(sum(i.within) filter (where i.state = 'snoozed'), interval '0')) end as snoozed_error_seconds,
    case when bool_and(i.within is not null) filter (where i.state = 'closed' and i.lasted is not null) is not false
      then date_part('epoch', coalesce(sum(i.within) filter (where i.state = 'closed'), interval '0')) end as closed_error_seconds,
    case when bool_and(i.within is not null) filter (where i.state = 'archived' and i.lasted is not null) is not false
      then date_part('epoch', coalesce(sum(i.within) filter (where i.state = 'archived'), interval '0')) end as archived_error_seconds
  from (
    select s.state, s.valid_from, s.resolved, coalesce(s.was_resolved, false) as was_resolved,
      s.was_resolved is not null as was_seen,
      s.valid_from - s.change_after as began_within, s.valid_to - s.valid_from as lasted,
      -- If the next interval starts at valid_to, the end is as uncertain as that start. Otherwise a deletion ended the interval.
      s.valid_from - s.change_after + case
        when s.next_from = s.valid_to then s.next_from - s.next_after
        else s.valid_to - s.deleted_after end as within
    from (
      select v.state, v.valid_from, v.valid_to, v.change_after, v.deleted_after, d.resolved,
        lag(d.resolved) over once as was_resolved,
        lead(v.valid_from) over once as next_from, lead(v.change_after) over once as next_after
      from internal.ticket_state_intervals v
      cross join lateral (select coalesce(v.state in ('closed', 'archived'), false) as resolved) d
      where v.account_id = t.account_id and v.ticket_id >= t.id and v.ticket_id <= t.id
      window once as (partition by v.ticket_id order by v.valid_from)) s) i) h
cross join lateral (
  select count(*) filter (where e.user_id is not null and e.user_id is distinct from e.user_before)::int as assignment_count,
    case when count(e.change_after) = count(*) then sum(e.valid_from - e.change_after) end as unseen
  from (
    select x.user_id, x.valid_from, x.change_after, lag(x.user_id) over (partition by x.ticket_id order by x.valid_from) as user_before
    from internal.ticket_versions x
    where x.account_id = t.account_id and x.ticket_id >= t.id and x.ticket_id <= t.id) e) u;

select sync.settle_comments();
select sync.settle_roles();
