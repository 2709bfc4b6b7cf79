comment on table analytics.metric_definitions is
  'Definitions of the metrics in this schema, and the definitions that other vendors use for the same name.';
comment on column analytics.metric_definitions.relation is
  'The view or function in analytics that has the metric as a column.';
comment on column analytics.metric_definitions.name is 'The column of the metric.';
comment on column analytics.metric_definitions.unit is
  'Unit, such as seconds, messages or tickets; time, flag or id for a column that is not a number.';
comment on column analytics.metric_definitions.kind is
  'exact: computed from messages, which carry their own times. observed: computed from the states that the mirror saw, since the source keeps no history; another column of the relation bounds the error.';
comment on column analytics.metric_definitions.formula is
  'How the metric is computed. Inbound: replies of customers. Authored: replies by team members. Automatic: replies without an author. Messages are ordered by created_at, then by position.';
comment on column analytics.metric_definitions.other_vendors is
  'Definitions of other help desks for the same name, according to their manuals. Null if no vendor has the metric, or if all define it alike.';

-- Metrics of support teams. internal.ticket_metrics_defined defines each metric once. analytics.ticket_metrics shows stored rows.
-- A row is stored in the transaction that writes the ticket, its messages or its history.

create or replace function analytics.message_kind(type text, direction text, user_id text) returns text
language sql immutable parallel safe
begin atomic
  select case
    when type = 'reply' and direction = 'in' then 'inbound'
    when type = 'reply' and direction = 'out' then case when user_id is null then 'automatic' else 'authored' end
    when type = 'note' then 'note'
    else 'other' end;
end;
comment on function analytics.message_kind is 'The kind of a message: see analytics.message_kinds.kind.';

create or replace view analytics.message_kinds with (security_barrier) as
select m.account_id, m.id as message_id, m.ticket_id, analytics.message_kind(m.type, m.direction, m.user_id) as kind,
  m.user_id, m.created_at, m.position
from internal.messages m
where m.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.message_kinds is
  'Every message and its kind. Order the messages of a ticket by created_at, then by position; messages without a time come last.';
comment on column analytics.message_kinds.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.message_kinds.message_id is 'The message; joins helpdesk.messages.id.';
comment on column analytics.message_kinds.ticket_id is 'The ticket; joins analytics.ticket_metrics.ticket_id.';
comment on column analytics.message_kinds.kind is
  'inbound: a reply of a customer. authored: a reply by a team member. automatic: a reply without an author. note: a private note. other: all other messages.';
comment on column analytics.message_kinds.user_id is
  'The team member who wrote the message; null for customers and automatic replies.';
comment on column analytics.message_kinds.created_at is
  'When the message was created, at the source; null if the source shows none.';
comment on column analytics.message_kinds.position is
  'Position of the message within the ticket, in the order of the source, from 1.';

-- Turns are stored together with the metrics, by the same call. While turns were a plain view, each join computed all turns first.
-- PostgreSQL also estimated a single row, since the output of windows and groups has no statistics. A table has statistics.

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
comment on view internal.reply_turns_defined is
  'Definition of a turn, computed from the messages on each query. analytics.reply_turns shows the stored result. Use this view to read the definition and to check the stored rows.';
comment on column internal.reply_turns_defined.ticket_id is 'The ticket; joins analytics.ticket_metrics.ticket_id.';
comment on column internal.reply_turns_defined.turn is 'Number of the turn within its ticket, from 1.';
comment on column internal.reply_turns_defined.waiting_since is
  'When the first message of the burst was created; null if the messages have no time. A burst is a series of customer messages without a team reply between them.';
comment on column internal.reply_turns_defined.answered_at is
  'When the reply was created. Null if is_answered is false; otherwise null means that the reply has no time.';
comment on column internal.reply_turns_defined.wait_seconds is
  'Seconds from waiting_since to answered_at; null if one of these is null.';
comment on column internal.reply_turns_defined.wait_business_seconds is
  'Business seconds from waiting_since to answered_at, by the calendar of the ticket''s current inbox. Null if wait_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.reply_turns_defined.user_id is
  'The team member who replied; joins helpdesk.users.id. Null while the burst is unanswered.';
comment on column internal.reply_turns_defined.inbound_messages is 'Number of customer messages in the burst.';
comment on column internal.reply_turns_defined.first_message_id is 'The first message of the burst; joins helpdesk.messages.id.';
comment on column internal.reply_turns_defined.reply_message_id is
  'The reply; joins helpdesk.messages.id. Null while the burst is unanswered.';
comment on column internal.reply_turns_defined.is_answered is 'True if the burst has a reply.';
comment on column internal.reply_turns_defined.is_first_response is
  'True if the reply of this turn is the first response of the ticket, with no earlier reply by the team.';
comment on table internal.stored_reply_turns is
  'Stored rows of internal.reply_turns_defined, updated in the transaction that changes the ticket. Read analytics.reply_turns instead.';
comment on column internal.stored_reply_turns.account_id is 'The operator''s name for the mirrored account.';
comment on column internal.stored_reply_turns.ticket_id is 'The ticket; joins analytics.ticket_metrics.ticket_id.';
comment on column internal.stored_reply_turns.turn is 'Number of the turn within its ticket, from 1.';
comment on column internal.stored_reply_turns.waiting_since is
  'When the first message of the burst was created; null if the messages have no time. A burst is a series of customer messages without a team reply between them.';
comment on column internal.stored_reply_turns.answered_at is
  'When the reply was created. Null if is_answered is false; otherwise null means that the reply has no time.';
comment on column internal.stored_reply_turns.wait_seconds is
  'Seconds from waiting_since to answered_at; null if one of these is null.';
comment on column internal.stored_reply_turns.wait_business_seconds is
  'Business seconds from waiting_since to answered_at, by the calendar of the ticket''s current inbox. Null if wait_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.stored_reply_turns.user_id is
  'The team member who replied; joins helpdesk.users.id. Null while the burst is unanswered.';
comment on column internal.stored_reply_turns.inbound_messages is 'Number of customer messages in the burst.';
comment on column internal.stored_reply_turns.first_message_id is 'The first message of the burst; joins helpdesk.messages.id.';
comment on column internal.stored_reply_turns.reply_message_id is
  'The reply; joins helpdesk.messages.id. Null while the burst is unanswered.';
comment on column internal.stored_reply_turns.is_answered is 'True if the burst has a reply.';
comment on column internal.stored_reply_turns.is_first_response is
  'True if the reply of this turn is the first response of the ticket, with no earlier reply by the team.';

create or replace view analytics.reply_turns with (security_barrier) as
select s.account_id, s.ticket_id, s.turn, s.waiting_since, s.answered_at, s.wait_seconds, s.wait_business_seconds, s.user_id,
  s.inbound_messages, s.first_message_id, s.reply_message_id, s.is_answered, s.is_first_response
from internal.stored_reply_turns s
where s.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.reply_turns is
  'Customer waits and team replies: one row for each burst of customer messages, with the reply by a team member that ends the wait. Automatic replies and notes end no wait. Updated in the transaction that changes the ticket.';

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
comment on view internal.ticket_metrics_defined is
  'Definition of each metric of a ticket, computed on each query. analytics.ticket_metrics shows the stored result. Use this view to read the definitions and to check the stored rows.';
comment on column internal.ticket_metrics_defined.account_id is 'The operator''s name for the mirrored account.';
comment on column internal.ticket_metrics_defined.ticket_id is 'The ticket; joins helpdesk.tickets.id.';
comment on column internal.ticket_metrics_defined.message_count is 'Number of messages of all kinds.';
comment on column internal.ticket_metrics_defined.inbound_count is 'Number of replies by customers.';
comment on column internal.ticket_metrics_defined.authored_count is 'Number of replies by team members.';
comment on column internal.ticket_metrics_defined.automatic_count is
  'Number of automatic replies to customers, that is, replies without a user.';
comment on column internal.ticket_metrics_defined.note_count is 'Number of private notes.';
comment on column internal.ticket_metrics_defined.other_count is
  'Number of messages that are neither inbound, authored, automatic nor notes.';
comment on column internal.ticket_metrics_defined.attachment_count is
  'Number of files attached to the messages of the ticket.';
comment on column internal.ticket_metrics_defined.agents_involved is
  'Number of team members who wrote replies or notes.';
comment on column internal.ticket_metrics_defined.last_inbound_at is
  'When a customer last wrote; null if no customer message has a time.';
comment on column internal.ticket_metrics_defined.last_authored_at is
  'When a team member last replied; null if no team reply has a time.';
comment on column internal.ticket_metrics_defined.is_outbound_initiated is
  'True if the team wrote before any customer. Notes and automatic replies do not count.';
comment on column internal.ticket_metrics_defined.is_one_touch is
  'True if a single team reply was enough: a customer wrote first, and no customer wrote after the reply.';
comment on column internal.ticket_metrics_defined.is_unreplied is
  'True if a customer wrote and no team member ever replied. For customers who wait after a reply, see waiting_since.';
comment on column internal.ticket_metrics_defined.first_response_seconds is
  'From the first customer message: seconds to the first team reply after it. Null if there is no first response: the customer waits (is_unreplied), the team wrote first (is_outbound_initiated), or no customer wrote. Otherwise null means that a message has no time. first_reply_seconds begins with the creation of the ticket instead.';
comment on column internal.ticket_metrics_defined.first_response_business_seconds is
  'first_response_seconds in business hours. Null if first_response_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.ticket_metrics_defined.first_responder_id is
  'The team member who gave the first response; joins helpdesk.users.id. Null if there is no first response; not null if only its time is unknown.';
comment on column internal.ticket_metrics_defined.first_reply_seconds is
  'From the creation of the ticket: seconds to the first team reply. If the team wrote first: to the second team reply. Null if there is no such reply, or if it or the creation has no time. first_response_seconds begins with the first customer message instead.';
comment on column internal.ticket_metrics_defined.first_reply_business_seconds is
  'first_reply_seconds in business hours. Null if first_reply_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.ticket_metrics_defined.turns is
  'Number of answered bursts of customer messages: see analytics.reply_turns.';
comment on column internal.ticket_metrics_defined.waiting_since is
  'Start of the current wait of a customer: time of the first customer message after the last team reply. Null if no customer waits, or if these messages have no time.';
comment on column internal.ticket_metrics_defined.total_wait_seconds is
  'Total wait of customers over all answered turns; null without answered turns whose times are known.';
comment on column internal.ticket_metrics_defined.average_wait_seconds is
  'total_wait_seconds divided by the number of its turns; null without answered turns whose times are known.';
comment on column internal.ticket_metrics_defined.longest_wait_seconds is
  'Longest wait of an answered turn; null without answered turns whose times are known.';
comment on column internal.ticket_metrics_defined.total_wait_business_seconds is
  'total_wait_seconds in business hours. Null if total_wait_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.ticket_metrics_defined.average_wait_business_seconds is
  'average_wait_seconds in business hours. Null if average_wait_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.ticket_metrics_defined.longest_wait_business_seconds is
  'Longest wait of an answered turn in business hours. Null if longest_wait_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.ticket_metrics_defined.first_closed_at is
  'When the ticket was first seen resolved, that is, closed or archived; null if never. archived counts because a closed ticket that rests is archived: its closing may have passed between two reads. The ticket was resolved by this time; but if another edit moved updated_at and the closing did not, by change_by in analytics.ticket_state_intervals. If first_closing_seen is false, this is only an upper bound: updated_at when the ticket was first seen. The mirror cannot know an earlier closing that was undone before.';
comment on column internal.ticket_metrics_defined.first_closed_error_seconds is
  'Upper bound of how many seconds before first_closed_at the ticket was resolved. Null if first_closed_at is null; otherwise null means unknown.';
comment on column internal.ticket_metrics_defined.last_closed_at is
  'Start of the current or last resolved period, closed or archived; null if the ticket was never seen resolved. Archiving a closed ticket does not end the period. The period began by this time; but if another edit moved updated_at and the closing did not, by change_by in analytics.ticket_state_intervals. If last_closing_seen is false, this is only an upper bound: updated_at when the ticket was first seen.';
comment on column internal.ticket_metrics_defined.last_closed_error_seconds is
  'Upper bound of how many seconds before last_closed_at the ticket was resolved. Null if last_closed_at is null; otherwise null means unknown.';
comment on column internal.ticket_metrics_defined.first_resolution_seconds is
  'Seconds from the creation of the ticket to first_closed_at, closed or archived; an upper bound if first_closing_seen is false. Null if first_closed_at or created_at is null.';
comment on column internal.ticket_metrics_defined.first_resolution_error_seconds is
  'Upper bound of the overestimate of first_resolution_seconds. Null if first_closed_at is null; otherwise null means unknown.';
comment on column internal.ticket_metrics_defined.first_resolution_business_seconds is
  'first_resolution_seconds in business hours. Null if first_resolution_seconds is null; otherwise null means that the ticket has no calendar. The error is at most first_resolution_error_seconds.';
comment on column internal.ticket_metrics_defined.full_resolution_seconds is
  'Seconds from the creation of the ticket to last_closed_at while the ticket is resolved, closed or archived; null while it is not, or if created_at is null. An upper bound if last_closing_seen is false.';
comment on column internal.ticket_metrics_defined.full_resolution_error_seconds is
  'Upper bound of the overestimate of full_resolution_seconds. Null while the ticket is not resolved; otherwise null means unknown.';
comment on column internal.ticket_metrics_defined.full_resolution_business_seconds is
  'full_resolution_seconds in business hours. Null if full_resolution_seconds is null; otherwise null means that the ticket has no calendar. The error is at most full_resolution_error_seconds.';
comment on column internal.ticket_metrics_defined.reopen_count is
  'Number of observed reopenings: changes from resolved to unresolved since the ticket was first seen.';
comment on column internal.ticket_metrics_defined.reopen_error_seconds is
  'Total length in seconds of the periods in which the observed changes may have happened; null if unknown. A change that was undone within such a period is not counted. Neither is a change that was undone between two reads without a difference.';
comment on column internal.ticket_metrics_defined.assignment_count is
  'Number of observed assignments to a team member who was not assigned just before, including the assignee when the ticket was first seen.';
comment on column internal.ticket_metrics_defined.assignment_error_seconds is
  'Total length in seconds of the periods in which the observed changes may have happened; null if unknown. A change that was undone within such a period is not counted. Neither is a change that was undone between two reads without a difference.';
comment on column internal.ticket_metrics_defined.seconds_open is
  'Total seconds in the state open, over ended periods since the ticket was first seen. A current period is in analytics.ticket_state_intervals. The time before the first row of history is unknown.';
comment on column internal.ticket_metrics_defined.open_error_seconds is
  'Upper bound of the error of seconds_open, for the time since the ticket was first seen; null if unknown.';
comment on column internal.ticket_metrics_defined.seconds_hold is
  'Total seconds in the state hold, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.ticket_metrics_defined.hold_error_seconds is
  'Upper bound of the error of seconds_hold, for the time since the ticket was first seen; null if unknown.';
comment on column internal.ticket_metrics_defined.seconds_snoozed is
  'Total seconds in the state snoozed, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.ticket_metrics_defined.snoozed_error_seconds is
  'Upper bound of the error of seconds_snoozed, for the time since the ticket was first seen; null if unknown.';
comment on column internal.ticket_metrics_defined.seconds_closed is
  'Total seconds in the state closed, until the ticket was archived or reopened, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.ticket_metrics_defined.closed_error_seconds is
  'Upper bound of the error of seconds_closed, for the time since the ticket was first seen; null if unknown.';
comment on column internal.ticket_metrics_defined.seconds_archived is
  'Total seconds in the state archived, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.ticket_metrics_defined.archived_error_seconds is
  'Upper bound of the error of seconds_archived, for the time since the ticket was first seen; null if unknown.';
comment on column internal.ticket_metrics_defined.first_closing_seen is
  'True if the ticket was seen unresolved before first_closed_at. False if the ticket was resolved when first seen: then first_closed_at, first_closed_date and first_resolution_seconds are only upper bounds. Also false if first_closed_at is null.';
comment on column internal.ticket_metrics_defined.last_closing_seen is
  'True if the ticket was seen unresolved before last_closed_at. False if the ticket was resolved when first seen, and not reopened and resolved since: then last_closed_at and full_resolution_seconds are only upper bounds. Also false if last_closed_at is null.';
comment on table internal.stored_ticket_metrics is
  'Stored rows of internal.ticket_metrics_defined, updated in the transaction that changes the ticket. Read analytics.ticket_metrics instead.';
comment on column internal.stored_ticket_metrics.account_id is 'The operator''s name for the mirrored account.';
comment on column internal.stored_ticket_metrics.message_count is 'Number of messages of all kinds.';
comment on column internal.stored_ticket_metrics.inbound_count is 'Number of replies by customers.';
comment on column internal.stored_ticket_metrics.authored_count is 'Number of replies by team members.';
comment on column internal.stored_ticket_metrics.automatic_count is
  'Number of automatic replies to customers, that is, replies without a user.';
comment on column internal.stored_ticket_metrics.note_count is 'Number of private notes.';
comment on column internal.stored_ticket_metrics.other_count is
  'Number of messages that are neither inbound, authored, automatic nor notes.';
comment on column internal.stored_ticket_metrics.attachment_count is
  'Number of files attached to the messages of the ticket.';
comment on column internal.stored_ticket_metrics.agents_involved is
  'Number of team members who wrote replies or notes.';
comment on column internal.stored_ticket_metrics.last_inbound_at is
  'When a customer last wrote; null if no customer message has a time.';
comment on column internal.stored_ticket_metrics.last_authored_at is
  'When a team member last replied; null if no team reply has a time.';
comment on column internal.stored_ticket_metrics.is_outbound_initiated is
  'True if the team wrote before any customer. Notes and automatic replies do not count.';
comment on column internal.stored_ticket_metrics.is_one_touch is
  'True if a single team reply was enough: a customer wrote first, and no customer wrote after the reply.';
comment on column internal.stored_ticket_metrics.is_unreplied is
  'True if a customer wrote and no team member ever replied. For customers who wait after a reply, see waiting_since.';
comment on column internal.stored_ticket_metrics.first_response_seconds is
  'From the first customer message: seconds to the first team reply after it. Null if there is no first response: the customer waits (is_unreplied), the team wrote first (is_outbound_initiated), or no customer wrote. Otherwise null means that a message has no time. first_reply_seconds begins with the creation of the ticket instead.';
comment on column internal.stored_ticket_metrics.first_response_business_seconds is
  'first_response_seconds in business hours. Null if first_response_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.stored_ticket_metrics.first_responder_id is
  'The team member who gave the first response; joins helpdesk.users.id. Null if there is no first response; not null if only its time is unknown.';
comment on column internal.stored_ticket_metrics.first_reply_seconds is
  'From the creation of the ticket: seconds to the first team reply. If the team wrote first: to the second team reply. Null if there is no such reply, or if it or the creation has no time. first_response_seconds begins with the first customer message instead.';
comment on column internal.stored_ticket_metrics.first_reply_business_seconds is
  'first_reply_seconds in business hours. Null if first_reply_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.stored_ticket_metrics.turns is
  'Number of answered bursts of customer messages: see analytics.reply_turns.';
comment on column internal.stored_ticket_metrics.waiting_since is
  'Start of the current wait of a customer: time of the first customer message after the last team reply. Null if no customer waits, or if these messages have no time.';
comment on column internal.stored_ticket_metrics.total_wait_seconds is
  'Total wait of customers over all answered turns; null without answered turns whose times are known.';
comment on column internal.stored_ticket_metrics.average_wait_seconds is
  'total_wait_seconds divided by the number of its turns; null without answered turns whose times are known.';
comment on column internal.stored_ticket_metrics.longest_wait_seconds is
  'Longest wait of an answered turn; null without answered turns whose times are known.';
comment on column internal.stored_ticket_metrics.total_wait_business_seconds is
  'total_wait_seconds in business hours. Null if total_wait_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.stored_ticket_metrics.average_wait_business_seconds is
  'average_wait_seconds in business hours. Null if average_wait_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.stored_ticket_metrics.longest_wait_business_seconds is
  'Longest wait of an answered turn in business hours. Null if longest_wait_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.stored_ticket_metrics.first_closed_at is
  'When the ticket was first seen resolved, that is, closed or archived; null if never. archived counts because a closed ticket that rests is archived: its closing may have passed between two reads. The ticket was resolved by this time; but if another edit moved updated_at and the closing did not, by change_by in analytics.ticket_state_intervals. If first_closing_seen is false, this is only an upper bound: updated_at when the ticket was first seen. The mirror cannot know an earlier closing that was undone before.';
comment on column internal.stored_ticket_metrics.first_closed_error_seconds is
  'Upper bound of how many seconds before first_closed_at the ticket was resolved. Null if first_closed_at is null; otherwise null means unknown.';
comment on column internal.stored_ticket_metrics.last_closed_at is
  'Start of the current or last resolved period, closed or archived; null if the ticket was never seen resolved. Archiving a closed ticket does not end the period. The period began by this time; but if another edit moved updated_at and the closing did not, by change_by in analytics.ticket_state_intervals. If last_closing_seen is false, this is only an upper bound: updated_at when the ticket was first seen.';
comment on column internal.stored_ticket_metrics.last_closed_error_seconds is
  'Upper bound of how many seconds before last_closed_at the ticket was resolved. Null if last_closed_at is null; otherwise null means unknown.';
comment on column internal.stored_ticket_metrics.first_resolution_seconds is
  'Seconds from the creation of the ticket to first_closed_at, closed or archived; an upper bound if first_closing_seen is false. Null if first_closed_at or created_at is null.';
comment on column internal.stored_ticket_metrics.first_resolution_error_seconds is
  'Upper bound of the overestimate of first_resolution_seconds. Null if first_closed_at is null; otherwise null means unknown.';
comment on column internal.stored_ticket_metrics.first_resolution_business_seconds is
  'first_resolution_seconds in business hours. Null if first_resolution_seconds is null; otherwise null means that the ticket has no calendar. The error is at most first_resolution_error_seconds.';
comment on column internal.stored_ticket_metrics.full_resolution_seconds is
  'Seconds from the creation of the ticket to last_closed_at while the ticket is resolved, closed or archived; null while it is not, or if created_at is null. An upper bound if last_closing_seen is false.';
comment on column internal.stored_ticket_metrics.full_resolution_error_seconds is
  'Upper bound of the overestimate of full_resolution_seconds. Null while the ticket is not resolved; otherwise null means unknown.';
comment on column internal.stored_ticket_metrics.full_resolution_business_seconds is
  'full_resolution_seconds in business hours. Null if full_resolution_seconds is null; otherwise null means that the ticket has no calendar. The error is at most full_resolution_error_seconds.';
comment on column internal.stored_ticket_metrics.reopen_count is
  'Number of observed reopenings: changes from resolved to unresolved since the ticket was first seen.';
comment on column internal.stored_ticket_metrics.reopen_error_seconds is
  'Total length in seconds of the periods in which the observed changes may have happened; null if unknown. A change that was undone within such a period is not counted. Neither is a change that was undone between two reads without a difference.';
comment on column internal.stored_ticket_metrics.assignment_count is
  'Number of observed assignments to a team member who was not assigned just before, including the assignee when the ticket was first seen.';
comment on column internal.stored_ticket_metrics.assignment_error_seconds is
  'Total length in seconds of the periods in which the observed changes may have happened; null if unknown. A change that was undone within such a period is not counted. Neither is a change that was undone between two reads without a difference.';
comment on column internal.stored_ticket_metrics.seconds_open is
  'Total seconds in the state open, over ended periods since the ticket was first seen. A current period is in analytics.ticket_state_intervals. The time before the first row of history is unknown.';
comment on column internal.stored_ticket_metrics.open_error_seconds is
  'Upper bound of the error of seconds_open, for the time since the ticket was first seen; null if unknown.';
comment on column internal.stored_ticket_metrics.seconds_hold is
  'Total seconds in the state hold, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.stored_ticket_metrics.hold_error_seconds is
  'Upper bound of the error of seconds_hold, for the time since the ticket was first seen; null if unknown.';
comment on column internal.stored_ticket_metrics.seconds_snoozed is
  'Total seconds in the state snoozed, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.stored_ticket_metrics.snoozed_error_seconds is
  'Upper bound of the error of seconds_snoozed, for the time since the ticket was first seen; null if unknown.';
comment on column internal.stored_ticket_metrics.seconds_closed is
  'Total seconds in the state closed, until the ticket was archived or reopened, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.stored_ticket_metrics.closed_error_seconds is
  'Upper bound of the error of seconds_closed, for the time since the ticket was first seen; null if unknown.';
comment on column internal.stored_ticket_metrics.seconds_archived is
  'Total seconds in the state archived, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.stored_ticket_metrics.archived_error_seconds is
  'Upper bound of the error of seconds_archived, for the time since the ticket was first seen; null if unknown.';
comment on column internal.stored_ticket_metrics.first_closing_seen is
  'True if the ticket was seen unresolved before first_closed_at. False if the ticket was resolved when first seen: then first_closed_at, first_closed_date and first_resolution_seconds are only upper bounds. Also false if first_closed_at is null.';
comment on column internal.stored_ticket_metrics.last_closing_seen is
  'True if the ticket was seen unresolved before last_closed_at. False if the ticket was resolved when first seen, and not reopened and resolved since: then last_closed_at and full_resolution_seconds are only upper bounds. Also false if last_closed_at is null.';

create or replace view analytics.ticket_metrics with (security_barrier) as
select t.account_id, t.id as ticket_id, t.number, t.customer_id, t.inbox_id, t.user_id, t.state, t.type, t.spam, t.trash,
  t.created_at, t.updated_at, t._deleted_at as deleted_at,
  coalesce(t._messages_as_of >= t.updated_at, false) and t._deleted_at is null and not exists (
    select from sync.rejects r
    where r.account_id = t.account_id and r.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and r.ask_id = t.id and r.cleared_at is null) as messages_complete,
  coalesce(s.message_count, 0) as message_count, coalesce(s.inbound_count, 0) as inbound_count, coalesce(s.authored_count, 0) as authored_count, coalesce(s.automatic_count, 0) as automatic_count, coalesce(s.note_count, 0) as note_count, coalesce(s.other_count, 0) as other_count, coalesce(s.attachment_count, 0) as attachment_count,
  coalesce(s.agents_involved, 0) as agents_involved, s.last_inbound_at, s.last_authored_at,
  coalesce(s.is_outbound_initiated, false) as is_outbound_initiated, coalesce(s.is_one_touch, false) as is_one_touch, coalesce(s.is_unreplied, false) as is_unreplied,
  s.first_response_seconds, s.first_response_business_seconds, s.first_responder_id,
  s.first_reply_seconds, s.first_reply_business_seconds,
  coalesce(s.turns, 0) as turns, s.waiting_since,
  s.total_wait_seconds, s.average_wait_seconds, s.longest_wait_seconds,
  s.total_wait_business_seconds, s.average_wait_business_seconds, s.longest_wait_business_seconds,
  coalesce(s.first_closed_at, o.closed_at) as first_closed_at, case when s.ticket_id is null then o.closed_within else s.first_closed_error_seconds end as first_closed_error_seconds, coalesce(s.last_closed_at, o.closed_at) as last_closed_at, case when s.ticket_id is null then o.closed_within else s.last_closed_error_seconds end as last_closed_error_seconds,
  case when s.ticket_id is null then date_part('epoch', o.closed_at - t.created_at) else s.first_resolution_seconds end as first_resolution_seconds, case when s.ticket_id is null then o.closed_within else s.first_resolution_error_seconds end as first_resolution_error_seconds, case when s.ticket_id is null then o.business_seconds else s.first_resolution_business_seconds end as first_resolution_business_seconds,
  case when s.ticket_id is null then date_part('epoch', o.closed_at - t.created_at) else s.full_resolution_seconds end as full_resolution_seconds, case when s.ticket_id is null then o.closed_within else s.full_resolution_error_seconds end as full_resolution_error_seconds, case when s.ticket_id is null then o.business_seconds else s.full_resolution_business_seconds end as full_resolution_business_seconds,
  coalesce(s.reopen_count, 0) as reopen_count, case when s.ticket_id is null then o.within else s.reopen_error_seconds end as reopen_error_seconds, coalesce(s.assignment_count, (t.user_id is not null)::int) as assignment_count, case when s.ticket_id is null then o.within else s.assignment_error_seconds end as assignment_error_seconds,
  coalesce(s.seconds_open, 0) as seconds_open, case when s.ticket_id is null then 0 else s.open_error_seconds end as open_error_seconds, coalesce(s.seconds_hold, 0) as seconds_hold, case when s.ticket_id is null then 0 else s.hold_error_seconds end as hold_error_seconds, coalesce(s.seconds_snoozed, 0) as seconds_snoozed, case when s.ticket_id is null then 0 else s.snoozed_error_seconds end as snoozed_error_seconds,
  coalesce(s.seconds_closed, 0) as seconds_closed, case when s.ticket_id is null then 0 else s.closed_error_seconds end as closed_error_seconds, coalesce(s.seconds_archived, 0) as seconds_archived, case when s.ticket_id is null then 0 else s.archived_error_seconds end as archived_error_seconds,
  coalesce(s.first_closing_seen, false) as first_closing_seen, coalesce(s.last_closing_seen, false) as last_closing_seen
from helpdesk.tickets t
left join internal.stored_ticket_metrics s on s.account_id = t.account_id and s.ticket_id = t.id
-- A ticket without a stored row has one version and no messages.
left join lateral (
  select c.within,
    case when c.resolved then c.valid_from end as closed_at,
    case when c.resolved then c.within end as closed_within,
    -- The condition of the join is repeated, because PostgreSQL applies it afterwards.
    case when s.ticket_id is null and c.resolved and exists (select from internal.stored_calendar_assignments)
      then analytics.business_seconds(analytics.calendar_of(t.account_id, t.inbox_id), t.created_at, c.valid_from)::float8 end as business_seconds
  from (
    select v.valid_from, date_part('epoch', v.valid_from - v.change_after) as within, coalesce(t.state in ('closed', 'archived'), false) as resolved
    from sync.first_version(t, null) v) c) o on s.ticket_id is null
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.ticket_metrics is
  'Every ticket and its metrics, one row each, updated in the transaction that changes the ticket. analytics.metric_definitions defines each metric. Reports read analytics.countable_tickets, which leaves out spam, trash and deleted tickets.';
comment on column analytics.ticket_metrics.number is 'Ticket number that people see; null if the source shows none.';
comment on column analytics.ticket_metrics.customer_id is
  'The customer; null if the ticket has none. Joins analytics.customer_summary.customer_id.';
comment on column analytics.ticket_metrics.inbox_id is 'The inbox; null if the ticket has none.';
comment on column analytics.ticket_metrics.user_id is 'The assigned user; null while unassigned.';
comment on column analytics.ticket_metrics.type is
  'Channel, such as email, chat, web or phone; null if the source shows none.';
comment on column analytics.ticket_metrics.state is
  'open, hold, snoozed, closed or archived. Other values are stored unchanged. Null if the source shows none. closed and archived are both resolved: a closed ticket is archived once it has rested for a while, and stays resolved.';
comment on column analytics.ticket_metrics.spam is
  'True if the ticket is marked as spam; null if the source does not say, which counts as not spam.';
comment on column analytics.ticket_metrics.trash is
  'True if the ticket is in the trash; null if the source does not say, which counts as not in the trash.';
comment on column analytics.ticket_metrics.created_at is
  'Creation time at the source; null if the source shows none. Then the figures that begin with it are null too.';
comment on column analytics.ticket_metrics.updated_at is 'When the ticket was last updated, at the source.';
comment on column analytics.ticket_metrics.deleted_at is
  'When the ticket was found deleted at the source; null while the ticket exists. The metrics of a deleted ticket stay.';
comment on column analytics.ticket_metrics.messages_complete is
  'True if the messages are as new as the ticket, no record of the ticket is rejected, and the ticket is not deleted. If false, metrics of messages count only the mirrored messages.';

create or replace view analytics.countable_tickets with (security_barrier) as
select m.account_id, m.ticket_id, m.number, m.customer_id, m.inbox_id, m.user_id, m.state, m.type,
  m.created_at, m.updated_at, m.messages_complete,
  m.message_count, m.inbound_count, m.authored_count, m.automatic_count, m.note_count, m.other_count, m.attachment_count,
  m.agents_involved, m.last_inbound_at, m.last_authored_at, m.is_outbound_initiated, m.is_one_touch, m.is_unreplied,
  m.first_response_seconds, m.first_response_business_seconds, m.first_responder_id, m.first_reply_seconds,
  m.first_reply_business_seconds, m.turns, m.waiting_since, m.total_wait_seconds, m.average_wait_seconds,
  m.longest_wait_seconds, m.total_wait_business_seconds, m.average_wait_business_seconds, m.longest_wait_business_seconds,
  m.first_closed_at, m.first_closed_error_seconds, m.last_closed_at, m.last_closed_error_seconds, m.first_resolution_seconds,
  m.first_resolution_error_seconds, m.first_resolution_business_seconds, m.full_resolution_seconds,
  m.full_resolution_error_seconds, m.full_resolution_business_seconds, m.reopen_count, m.reopen_error_seconds,
  m.assignment_count, m.assignment_error_seconds, m.seconds_open, m.open_error_seconds, m.seconds_hold, m.hold_error_seconds,
  m.seconds_snoozed, m.snoozed_error_seconds, m.seconds_closed, m.closed_error_seconds, m.seconds_archived,
  m.archived_error_seconds, m.first_closing_seen, m.last_closing_seen
from analytics.ticket_metrics m
where analytics.is_countable(m.spam, m.trash, m.deleted_at);
comment on view analytics.countable_tickets is
  'The tickets that reports count, one row each: analytics.ticket_metrics without spam, trash and deleted tickets. The facts of tickets (without fact_backlog, which has the tickets of each day), agent_daily, arrivals_hourly and customer_summary count the same tickets. If messages_complete is false, metrics of messages count only the mirrored messages.';

-- Without a security barrier, so that the statistics of its tables reach the views that join it.
create or replace view internal.countable_basics as
select t.account_id, t.id as ticket_id, t.customer_id, t.inbox_id, t.user_id, t.label_ids, t.type, t.created_at, t.updated_at,
  coalesce(t._messages_as_of >= t.updated_at, false) and not exists (
    select from sync.rejects r
    where r.account_id = t.account_id and r.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and r.ask_id = t.id and r.cleared_at is null) as messages_complete,
  coalesce(own.time_zone, whole.time_zone, 'UTC') as time_zone
from helpdesk.tickets t
left join internal.own_zones own on own.account_id = t.account_id and own.inbox_id = t.inbox_id
left join internal.own_zones whole on whole.account_id = t.account_id and whole.inbox_id is null
where analytics.is_countable(t.spam, t.trash, t._deleted_at) and t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view internal.countable_basics is
  'The tickets of analytics.countable_tickets, with the columns that facts of messages, turns and labels take from them, and the time zone of their days.';
comment on column internal.countable_basics.account_id is 'The operator''s name for the mirrored account.';
comment on column internal.countable_basics.messages_complete is 'See analytics.ticket_metrics.messages_complete.';
comment on column internal.countable_basics.time_zone is
  'Time zone for days and hours of the ticket: that of its inbox''s calendar, else that of the account''s, else UTC.';

create or replace function internal.keep_metrics(accounts text[], tickets text[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
begin
  -- Turns come first, since the metrics are computed from them. Turn numbers start at 1, so stored turns above the new count go.
  with defined as materialized (
    select k.account_id, k.ticket_id, d.turns
    from (select distinct k.account_id, k.ticket_id from unnest(accounts, tickets) as k (account_id, ticket_id)) k
    cross join lateral (
      select array_agg(d) as turns from internal.reply_turns_defined d
      where d.account_id = k.account_id and d.ticket_id = k.ticket_id) d),
  gone as (
    delete from internal.stored_reply_turns s using defined d
    where s.account_id = d.account_id and s.ticket_id = d.ticket_id and s.turn > coalesce(cardinality(d.turns), 0))
  insert into internal.stored_reply_turns as s
  select n.* from defined d cross join lateral unnest(d.turns) n
  where not exists (
    select from internal.stored_reply_turns s
    where s.account_id = d.account_id and s.ticket_id = d.ticket_id and s.turn = n.turn and s is not distinct from n
    offset 0)
  on conflict (account_id, ticket_id, turn) do update set (waiting_since, answered_at, wait_seconds, wait_business_seconds,
    user_id, inbound_messages, first_message_id, reply_message_id, is_answered, is_first_response) = row
    (excluded.waiting_since, excluded.answered_at, excluded.wait_seconds, excluded.wait_business_seconds, excluded.user_id,
    excluded.inbound_messages, excluded.first_message_id, excluded.reply_message_id, excluded.is_answered,
    excluded.is_first_response);

  insert into internal.stored_ticket_metrics as s (account_id, ticket_id, message_count, inbound_count, authored_count,
    automatic_count, note_count, other_count, attachment_count, agents_involved, last_inbound_at, last_authored_at,
    is_outbound_initiated, is_one_touch, is_unreplied, first_response_seconds, first_response_business_seconds,
    first_responder_id, first_reply_seconds, first_reply_business_seconds, turns, waiting_since, total_wait_seconds,
    average_wait_seconds, longest_wait_seconds, total_wait_business_seconds, average_wait_business_seconds,
    longest_wait_business_seconds, first_closed_at, first_closed_error_seconds, last_closed_at, last_closed_error_seconds,
    first_resolution_seconds, first_resolution_error_seconds, first_resolution_business_seconds, full_resolution_seconds,
    full_resolution_error_seconds, full_resolution_business_seconds, reopen_count, reopen_error_seconds, assignment_count,
    assignment_error_seconds, seconds_open, open_error_seconds, seconds_hold, hold_error_seconds, seconds_snoozed,
    snoozed_error_seconds, seconds_closed, closed_error_seconds, seconds_archived, archived_error_seconds, first_closing_seen,
    last_closing_seen)
  select d.account_id, d.ticket_id, d.message_count, d.inbound_count, d.authored_count, d.automatic_count, d.note_count,
    d.other_count, d.attachment_count, d.agents_involved, d.last_inbound_at, d.last_authored_at, d.is_outbound_initiated,
    d.is_one_touch, d.is_unreplied, d.first_response_seconds, d.first_response_business_seconds, d.first_responder_id,
    d.first_reply_seconds, d.first_reply_business_seconds, d.turns, d.waiting_since, d.total_wait_seconds,
    d.average_wait_seconds, d.longest_wait_seconds, d.total_wait_business_seconds, d.average_wait_business_seconds,
    d.longest_wait_business_seconds, d.first_closed_at, d.first_closed_error_seconds, d.last_closed_at,
    d.last_closed_error_seconds, d.first_resolution_seconds, d.first_resolution_error_seconds,
    d.first_resolution_business_seconds, d.full_resolution_seconds, d.full_resolution_error_seconds,
    d.full_resolution_business_seconds, d.reopen_count, d.reopen_error_seconds, d.assignment_count, d.assignment_error_seconds,
    d.seconds_open, d.open_error_seconds, d.seconds_hold, d.hold_error_seconds, d.seconds_snoozed, d.snoozed_error_seconds,
    d.seconds_closed, d.closed_error_seconds, d.seconds_archived, d.archived_error_seconds, d.first_closing_seen,
    d.last_closing_seen
  from (select distinct k.account_id, k.ticket_id from unnest(accounts, tickets) as k (account_id, ticket_id)) k
  cross join lateral (
    select d.* from internal.ticket_metrics_defined d
    where d.account_id = k.account_id and d.ticket_id >= k.ticket_id and d.ticket_id <= k.ticket_id
    offset 0) d
  where not exists (
    select from internal.stored_ticket_metrics s
    where s.account_id = k.account_id and s.ticket_id = k.ticket_id and (s.message_count, s.inbound_count, s.authored_count,
      s.automatic_count, s.note_count, s.other_count, s.attachment_count, s.agents_involved, s.last_inbound_at,
      s.last_authored_at, s.is_outbound_initiated, s.is_one_touch, s.is_unreplied, s.first_response_seconds,
      s.first_response_business_seconds, s.first_responder_id, s.first_reply_seconds, s.first_reply_business_seconds, s.turns,
      s.waiting_since, s.total_wait_seconds, s.average_wait_seconds, s.longest_wait_seconds, s.total_wait_business_seconds,
      s.average_wait_business_seconds, s.longest_wait_business_seconds, s.first_closed_at, s.first_closed_error_seconds,
      s.last_closed_at, s.last_closed_error_seconds, s.first_resolution_seconds, s.first_resolution_error_seconds,
      s.first_resolution_business_seconds, s.full_resolution_seconds, s.full_resolution_error_seconds,
      s.full_resolution_business_seconds, s.reopen_count, s.reopen_error_seconds, s.assignment_count,
      s.assignment_error_seconds, s.seconds_open, s.open_error_seconds, s.seconds_hold, s.hold_error_seconds, s.seconds_snoozed,
      s.snoozed_error_seconds, s.seconds_closed, s.closed_error_seconds, s.seconds_archived, s.archived_error_seconds,
      s.first_closing_seen, s.last_closing_seen) is not distinct from (d.message_count, d.inbound_count, d.authored_count,
      d.automatic_count, d.note_count, d.other_count, d.attachment_count, d.agents_involved, d.last_inbound_at,
      d.last_authored_at, d.is_outbound_initiated, d.is_one_touch, d.is_unreplied, d.first_response_seconds,
      d.first_response_business_seconds, d.first_responder_id, d.first_reply_seconds, d.first_reply_business_seconds, d.turns,
      d.waiting_since, d.total_wait_seconds, d.average_wait_seconds, d.longest_wait_seconds, d.total_wait_business_seconds,
      d.average_wait_business_seconds, d.longest_wait_business_seconds, d.first_closed_at, d.first_closed_error_seconds,
      d.last_closed_at, d.last_closed_error_seconds, d.first_resolution_seconds, d.first_resolution_error_seconds,
      d.first_resolution_business_seconds, d.full_resolution_seconds, d.full_resolution_error_seconds,
      d.full_resolution_business_seconds, d.reopen_count, d.reopen_error_seconds, d.assignment_count,
      d.assignment_error_seconds, d.seconds_open, d.open_error_seconds, d.seconds_hold, d.hold_error_seconds, d.seconds_snoozed,
      d.snoozed_error_seconds, d.seconds_closed, d.closed_error_seconds, d.seconds_archived, d.archived_error_seconds,
      d.first_closing_seen, d.last_closing_seen)
    offset 0)
  order by k.account_id, k.ticket_id
  on conflict (account_id, ticket_id) do update set (message_count, inbound_count, authored_count, automatic_count, note_count,
    other_count, attachment_count, agents_involved, last_inbound_at, last_authored_at, is_outbound_initiated, is_one_touch,
    is_unreplied, first_response_seconds, first_response_business_seconds, first_responder_id, first_reply_seconds,
    first_reply_business_seconds, turns, waiting_since, total_wait_seconds, average_wait_seconds, longest_wait_seconds,
    total_wait_business_seconds, average_wait_business_seconds, longest_wait_business_seconds, first_closed_at,
    first_closed_error_seconds, last_closed_at, last_closed_error_seconds, first_resolution_seconds,
    first_resolution_error_seconds, first_resolution_business_seconds, full_resolution_seconds, full_resolution_error_seconds,
    full_resolution_business_seconds, reopen_count, reopen_error_seconds, assignment_count, assignment_error_seconds,
    seconds_open, open_error_seconds, seconds_hold, hold_error_seconds, seconds_snoozed, snoozed_error_seconds, seconds_closed,
    closed_error_seconds, seconds_archived, archived_error_seconds, first_closing_seen, last_closing_seen) = row
    (excluded.message_count, excluded.inbound_count, excluded.authored_count, excluded.automatic_count, excluded.note_count,
    excluded.other_count, excluded.attachment_count, excluded.agents_involved, excluded.last_inbound_at,
    excluded.last_authored_at, excluded.is_outbound_initiated, excluded.is_one_touch, excluded.is_unreplied,
    excluded.first_response_seconds, excluded.first_response_business_seconds, excluded.first_responder_id,
    excluded.first_reply_seconds, excluded.first_reply_business_seconds, excluded.turns, excluded.waiting_since,
    excluded.total_wait_seconds, excluded.average_wait_seconds, excluded.longest_wait_seconds,
    excluded.total_wait_business_seconds, excluded.average_wait_business_seconds, excluded.longest_wait_business_seconds,
    excluded.first_closed_at, excluded.first_closed_error_seconds, excluded.last_closed_at, excluded.last_closed_error_seconds,
    excluded.first_resolution_seconds, excluded.first_resolution_error_seconds, excluded.first_resolution_business_seconds,
    excluded.full_resolution_seconds, excluded.full_resolution_error_seconds, excluded.full_resolution_business_seconds,
    excluded.reopen_count, excluded.reopen_error_seconds, excluded.assignment_count, excluded.assignment_error_seconds,
    excluded.seconds_open, excluded.open_error_seconds, excluded.seconds_hold, excluded.hold_error_seconds,
    excluded.seconds_snoozed, excluded.snoozed_error_seconds, excluded.seconds_closed, excluded.closed_error_seconds,
    excluded.seconds_archived, excluded.archived_error_seconds, excluded.first_closing_seen, excluded.last_closing_seen);
end
$$;
comment on function internal.keep_metrics is
  'Stores the turns and metrics of the given tickets. Both arrays have the same length and form pairs of account and ticket. Triggers call this function; analytics.recompute calls it by hand.';

-- A page or a ticket is written by several statements. The worker's transactions keep the metrics once, at their end.
create or replace function internal.touch_metrics(accounts text[], tickets text[]) returns void
language plpgsql
as $$
begin
  if accounts is null then return; end if;
  if current_setting('shelfdesk.keep_metrics', true) = 'at the end' then
    perform set_config('shelfdesk.touched', concat_ws(E'\n', nullif(current_setting('shelfdesk.touched', true), ''),
      jsonb_build_array(accounts, tickets)), true);
  else
    perform internal.keep_metrics(accounts, tickets);
  end if;
end
$$;
comment on function internal.touch_metrics is
  'Stores the metrics of these tickets now, or notes the tickets for internal.keep_touched_metrics if shelfdesk.keep_metrics is "at the end".';

create or replace function internal.keep_touched_metrics() returns void
language plpgsql
as $$
declare
  touched constant text := nullif(current_setting('shelfdesk.touched', true), '');
begin
  if touched is null then return; end if;
  perform set_config('shelfdesk.touched', '', true);
  perform internal.keep_metrics(array_agg(k.account_id), array_agg(k.ticket_id))
  from (
    select distinct a.account_id, a.ticket_id
    from string_to_table(touched, E'\n') as line
    cross join lateral rows from (jsonb_array_elements_text(line::jsonb -> 0), jsonb_array_elements_text(line::jsonb -> 1)) as a (account_id, ticket_id)) k;
end
$$;
comment on function internal.keep_touched_metrics is
  'Stores the metrics of all tickets that the transaction has touched, in one call.';

-- For the tables that metrics are computed from. Runs after the whole statement: if a statement writes several of them,
-- each trigger sees all rows.
create or replace function internal.keep_metrics_of_members() returns trigger
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
  accounts text[];
  tickets text[];
begin
  -- What it would write is copied too.
  if current_setting('shelfdesk.copying', true) = 'on' then return null; end if;
  if tg_op = 'INSERT' then
    select array_agg(c.account_id), array_agg(c.ticket_id) into accounts, tickets
    from (select distinct n.account_id, n.ticket_id from news n) c;
  elsif tg_op = 'DELETE' then
    select array_agg(c.account_id), array_agg(c.ticket_id) into accounts, tickets
    from (select distinct o.account_id, o.ticket_id from olds o) c;
  else
    select array_agg(c.account_id), array_agg(c.ticket_id) into accounts, tickets
    from (select o.account_id, o.ticket_id from olds o union select n.account_id, n.ticket_id from news n) c;
  end if;
  -- A transaction that writes the messages of a ticket holds the lock of the ticket's row. If a message moves to another ticket,
  -- no transaction holds the lock of the former ticket. Without this lock, outdated metrics could overwrite newer ones.
  if tg_table_name <> 'ticket_history' and cardinality(tickets) > 1 then
    perform from (
      select k.account_id, k.ticket_id from unnest(accounts, tickets) as k (account_id, ticket_id) order by k.account_id, k.ticket_id) k
    cross join lateral (
      select from helpdesk.tickets t
      where t.account_id = k.account_id and t.id >= k.ticket_id and t.id <= k.ticket_id
      order by t.id limit 1 for no key update) t;
  end if;
  perform internal.touch_metrics(accounts, tickets);
  return null;
end
$$;
comment on function internal.keep_metrics_of_members is
  'Updates the metrics of tickets whose messages, attachments or history were written. A ticket without messages and without stored history has no stored metrics.';

create or replace function internal.keep_metrics_of_ticket() returns trigger
language plpgsql
as $$
begin
  if tg_op = 'DELETE' then
    delete from internal.stored_ticket_metrics s where s.account_id = old.account_id and s.ticket_id = old.id;
    delete from internal.stored_reply_turns s where s.account_id = old.account_id and s.ticket_id = old.id;
  else
    perform internal.touch_metrics(array[new.account_id], array[new.id]);
  end if;
  return null;
end
$$;
comment on function internal.keep_metrics_of_ticket is
  'Updates the metrics of a ticket after a change that ticket_history does not record. After the removal of a ticket row, deletes its metrics and turns.';

-- Works in batches, so that other writers wait only briefly. Locks the tickets, so that concurrent writes are not overwritten.
create or replace procedure analytics.recompute(account text default null, batch int default 500)
language plpgsql
as $$
declare
  one text;
  last text;
  ids text[];
  before int;
begin
  for one in
    select k.account_id from (
      select a.account_id from sync.accounts a union select q.account_id from internal.stored_recomputes q) k
    where recompute.account is null or k.account_id = recompute.account order by 1
  loop
    before := (select q.asked from internal.stored_recomputes q where q.account_id = one);
    last := '';
    loop
      select array_agg(k.id) into ids
      from (
        select t.id from helpdesk.tickets t where t.account_id = one and t.id > last
        order by t.id limit batch for no key update) k;
      exit when ids is null;
      perform internal.keep_metrics(array_fill(one, array[cardinality(ids)]), ids);
      last := ids[cardinality(ids)];
      commit;
    end loop;
    delete from internal.stored_recomputes q where q.account_id = one and q.asked = before;
    commit;
  end loop;
end
$$;
comment on procedure analytics.recompute is
  'Recomputes the turns and metrics of all tickets of an account (null: of all accounts), for example after a change of a calendar. Commits after each batch, so call the procedure outside of a transaction.';

-- These views read the tables themselves, since PostgreSQL uses no statistics behind a security barrier.
-- In tables without statistics, PostgreSQL assumes that 1 time in 200 is null, and that half of the flags are true: hence the
-- filter on answered_at instead of is_answered.
create or replace view analytics.agent_daily with (security_barrier) as
select d.account_id, d.day, d.user_id,
  sum(d.replies)::int as replies, sum(d.notes)::int as notes,
  sum(d.first_responses)::int as first_responses, sum(d.turns_answered)::int as turns_answered,
  sum(d.wait_seconds) as wait_seconds,
  case when count(d.wait_business_seconds) = count(d.wait_seconds) then sum(d.wait_business_seconds) end as wait_business_seconds,
  count(distinct d.ticket_id)::int as tickets_touched
from (
  select m.account_id, (m.created_at at time zone t.time_zone)::date as day, m.user_id, m.ticket_id,
    (k.kind = 'authored')::int as replies, (k.kind = 'note')::int as notes,
    0 as first_responses, 0 as turns_answered, null::float8 as wait_seconds, null::float8 as wait_business_seconds
  from internal.messages m
  join internal.countable_basics t on t.account_id = m.account_id and t.ticket_id = m.ticket_id
  cross join lateral (select analytics.message_kind(m.type, m.direction, m.user_id) as kind) k
  where k.kind in ('authored', 'note') and m.user_id is not null and m.created_at is not null
  union all
  select r.account_id, (r.answered_at at time zone t.time_zone)::date, r.user_id, r.ticket_id,
    0, 0, r.is_first_response::int, 1, r.wait_seconds, r.wait_business_seconds
  from internal.stored_reply_turns r
  join internal.countable_basics t on t.account_id = r.account_id and t.ticket_id = r.ticket_id
  where r.answered_at is not null) d
group by d.account_id, d.day, d.user_id;
comment on view analytics.agent_daily is
  'Work of each team member by day, according to the mirrored messages of countable tickets: one row for each day with a reply or a note.';
comment on column analytics.agent_daily.day is
  'The day, in the time zone of analytics.inbox_zones, or of analytics.account_zones for tickets without an inbox.';
comment on column analytics.agent_daily.user_id is 'The team member; joins helpdesk.users.id.';
comment on column analytics.agent_daily.replies is 'Number of replies to customers.';
comment on column analytics.agent_daily.notes is 'Number of private notes.';
comment on column analytics.agent_daily.first_responses is
  'Number of replies that were the first response of their ticket.';
comment on column analytics.agent_daily.turns_answered is
  'Number of replies that ended a customer''s wait: see analytics.reply_turns.';
comment on column analytics.agent_daily.wait_seconds is
  'Total wait of customers before these replies; null if no reply ended a wait of known length.';
comment on column analytics.agent_daily.wait_business_seconds is
  'wait_seconds in business hours. Null if wait_seconds is null; otherwise null means that a ticket of these waits has no calendar.';
comment on column analytics.agent_daily.tickets_touched is
  'Number of tickets with a reply or a note by this team member.';

create or replace view analytics.arrivals_hourly with (security_barrier) as
select b.account_id, b.hour, b.time_zone,
  extract(isodow from b.hour at time zone b.time_zone)::int as local_weekday,
  extract(hour from b.hour at time zone b.time_zone)::int as local_hour,
  sum(b.tickets)::int as tickets_created, sum(b.messages)::int as inbound_messages
from (
  select t.account_id, t.time_zone, date_trunc('hour', t.created_at, t.time_zone) as hour, 1 as tickets, 0 as messages
  from internal.countable_basics t
  where t.created_at is not null
  union all
  select m.account_id, t.time_zone, date_trunc('hour', m.created_at, t.time_zone), 0, 1
  from internal.messages m
  join internal.countable_basics t on t.account_id = m.account_id and t.ticket_id = m.ticket_id
  where analytics.message_kind(m.type, m.direction, m.user_id) = 'inbound' and m.created_at is not null) b
group by b.account_id, b.hour, b.time_zone;
comment on view analytics.arrivals_hourly is
  'New countable tickets and their customer messages by hour and time zone. Hours without either have no row. An hour that daylight saving time repeats has two rows. An account has one time zone, or more if inboxes have calendars of their own.';
comment on column analytics.arrivals_hourly.hour is 'Start of the hour, by the clock of time_zone.';
comment on column analytics.arrivals_hourly.time_zone is
  'Time zone of the tickets in this row: see analytics.inbox_zones and analytics.account_zones.';
comment on column analytics.arrivals_hourly.local_weekday is 'Local day of the week: 1 Monday to 7 Sunday.';
comment on column analytics.arrivals_hourly.local_hour is 'Local hour of the day, from 0.';
comment on column analytics.arrivals_hourly.tickets_created is
  'Number of tickets created in this hour by customers or by the team.';
comment on column analytics.arrivals_hourly.inbound_messages is
  'Number of customer messages in this hour, as far as messages are mirrored.';

create or replace view analytics.customer_summary with (security_barrier) as
select coalesce(c.account_id, t.account_id) as account_id, coalesce(c.id, t.customer_id) as customer_id,
  c.id is not null and c._deleted_at is null as is_mirrored,
  coalesce(t.tickets, 0)::int as tickets, coalesce(t.open_tickets, 0)::int as open_tickets,
  coalesce(t.waiting_tickets, 0)::int as waiting_tickets, t.waiting_since,
  t.first_ticket_at, t.last_ticket_at,
  coalesce(t.inbound_messages, 0)::int as inbound_messages, coalesce(t.replies, 0)::int as replies,
  t.last_inbound_at, t.average_first_response_seconds, coalesce(t.reopens, 0)::int as reopens,
  case when t.tickets is null then 0 else t.reopen_error_seconds end as reopen_error_seconds
from (
  select * from helpdesk.customers where account_id = any (array(select account_id from sync.readable_accounts))) c
full join (
  select m.account_id, m.customer_id,
    count(*) as tickets,
    count(*) filter (where analytics.is_backlog(m.state, false, false)) as open_tickets,
    count(m.waiting_since) filter (where analytics.is_backlog(m.state, false, false)) as waiting_tickets,
    min(m.waiting_since) filter (where analytics.is_backlog(m.state, false, false)) as waiting_since,
    min(m.created_at) as first_ticket_at, max(m.created_at) as last_ticket_at,
    sum(m.inbound_count) as inbound_messages, sum(m.authored_count) as replies, max(m.last_inbound_at) as last_inbound_at,
    avg(m.first_response_seconds) as average_first_response_seconds, sum(m.reopen_count) as reopens,
    case when count(m.reopen_error_seconds) = count(*) then sum(m.reopen_error_seconds) end as reopen_error_seconds
  from analytics.countable_tickets m
  where m.customer_id is not null
  group by m.account_id, m.customer_id) t on t.account_id = c.account_id and t.customer_id = c.id;
comment on view analytics.customer_summary is
  'Customers and their tickets, one row each. Includes customers without tickets, and customers known only from a ticket. Spam, trash and deleted tickets do not count.';
comment on column analytics.customer_summary.customer_id is 'The customer; joins helpdesk.customers.id.';
comment on column analytics.customer_summary.is_mirrored is
  'True if the customer is mirrored, and is not deleted at the source.';
comment on column analytics.customer_summary.tickets is
  'Number of tickets of the customer in analytics.countable_tickets.';
comment on column analytics.customer_summary.open_tickets is
  'Number of these tickets that are still open work, neither closed nor archived: see analytics.is_backlog.';
comment on column analytics.customer_summary.waiting_tickets is
  'Number of open tickets in which the customer waits for a reply.';
comment on column analytics.customer_summary.waiting_since is
  'Start of the longest current wait in these tickets; null if the customer waits in none.';
comment on column analytics.customer_summary.first_ticket_at is
  'When the first ticket of the customer was created; null without tickets that have a time.';
comment on column analytics.customer_summary.last_ticket_at is
  'When the last ticket of the customer was created; null without tickets that have a time.';
comment on column analytics.customer_summary.inbound_messages is 'Number of customer messages in these tickets.';
comment on column analytics.customer_summary.replies is 'Number of team replies in these tickets.';
comment on column analytics.customer_summary.last_inbound_at is
  'When the last customer message in these tickets arrived; null without such a message that has a time.';
comment on column analytics.customer_summary.average_first_response_seconds is
  'Average of first_response_seconds over the tickets that have it; null if none has.';
comment on column analytics.customer_summary.reopens is 'Number of observed reopenings of these tickets.';
comment on column analytics.customer_summary.reopen_error_seconds is
  'Sum of reopen_error_seconds of these tickets: how long reopenings may have passed unseen. Null if it is unknown for one of them.';

-- safe.messages hashes the address of each message. This view compares addresses first, and hashes each of them once.
create or replace view analytics.message_senders with (security_barrier) as
select f.account_id, f.ticket_type, sync.masked('contact', f.form, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as address,
  case when f.form is not null then c.form is not null end as is_known,
  f.messages
from (
  select w.account_id, w.ticket_type, w.form, sum(w.messages)::bigint as messages
  from (
    select g.account_id, g.ticket_type, case when g.from_address = '' then '' else sync.contact_form(g.from_address) end as form, g.messages
    from (
      select m.account_id, t.type as ticket_type, m.from_address, count(*) as messages
      from internal.messages m
      join internal.countable_basics t on t.account_id = m.account_id and t.ticket_id = m.ticket_id
      where m.direction = 'in'
      group by m.account_id, t.type, m.from_address) g) w
  group by w.account_id, w.ticket_type, w.form) f
-- Not exists: PostgreSQL would look through all contacts for each sender, once they are too many for one table in memory.
left join (
  select distinct k.account_id, case when k.value = '' then '' else sync.contact_form(k.value) end as form from helpdesk.contacts k) c
  on c.account_id = f.account_id and c.form = f.form;
comment on view analytics.message_senders is
  'Addresses that customers write from in countable tickets: one row for each address and channel.';
comment on column analytics.message_senders.account_id is 'The account.';
comment on column analytics.message_senders.ticket_type is
  'Channel of the tickets, such as email, chat, web or phone; null if the source shows none.';
comment on column analytics.message_senders.address is
  'Keyed hash of the address, equal for all spellings, as in safe.contacts and safe.messages; null if the messages name none.';
comment on column analytics.message_senders.is_known is
  'True if a customer of the account has this address in helpdesk.contacts; null if address is null.';
comment on column analytics.message_senders.messages is 'Number of messages from the address on the channel: all with direction in, of any kind in analytics.message_kinds.';

create or replace trigger keep_metrics_inserted after insert on internal.messages referencing new table as news for each statement execute function internal.keep_metrics_of_members();

create or replace trigger keep_metrics_updated after update on internal.messages referencing old table as olds new table as news for each statement execute function internal.keep_metrics_of_members();

create or replace trigger keep_metrics_deleted after delete on internal.messages referencing old table as olds for each statement execute function internal.keep_metrics_of_members();

create or replace trigger keep_metrics_inserted after insert on helpdesk.attachments referencing new table as news for each statement execute function internal.keep_metrics_of_members();

create or replace trigger keep_metrics_updated after update on helpdesk.attachments referencing old table as olds new table as news for each statement execute function internal.keep_metrics_of_members();

create or replace trigger keep_metrics_deleted after delete on helpdesk.attachments referencing old table as olds for each statement execute function internal.keep_metrics_of_members();

create or replace trigger keep_metrics_inserted after insert on internal.ticket_history referencing new table as news for each statement execute function internal.keep_metrics_of_members();

create or replace trigger keep_metrics_updated after update on internal.ticket_history referencing old table as olds new table as news for each statement execute function internal.keep_metrics_of_members();

create or replace trigger keep_metrics_deleted after delete on internal.ticket_history referencing old table as olds for each statement execute function internal.keep_metrics_of_members();

create or replace trigger keep_metrics after update on helpdesk.tickets for each row when (((old.created_at is distinct from new.created_at) or ((new._deleted_at IS not NULL) and (old.inbox_id is distinct from new.inbox_id)))) execute function internal.keep_metrics_of_ticket();

create or replace trigger keep_metrics_removed after delete on helpdesk.tickets for each row execute function internal.keep_metrics_of_ticket();

delete from analytics.metric_definitions;
insert into analytics.metric_definitions (relation, name, unit, kind, formula, other_vendors) values
  ('ticket_metrics', 'first_response_seconds', 'seconds', 'exact', 'First authored message after the first inbound one − the first inbound one. Null while there is none, and if an authored message came before the first inbound one.', 'Zendesk (first reply time): creation of the ticket to the first public comment of an agent. Freshdesk: creation to the first public reply of an agent. Help Scout: the customer''s first message to the first reply of a user, automatic replies left out. Front: the first inbound message to the first reply of a teammate. Intercom: the customer''s first message, or the hand-over by a bot, to the first reply of a teammate.'),
  ('ticket_metrics', 'first_response_business_seconds', 'seconds', 'exact', 'business_seconds of the calendar of the ticket''s inbox over the same span as first_response_seconds. Null without a calendar.', 'Zendesk, Freshdesk, Help Scout, Front and Intercom have it as "in business (office) hours", by the schedule of the account, the group or the inbox.'),
  ('ticket_metrics', 'first_responder_id', 'id', 'exact', 'user_id of the message that first_response_seconds ends with.', 'Most name the assignee instead, who may be somebody else.'),
  ('ticket_metrics', 'first_reply_seconds', 'seconds', 'exact', 'First authored message − created_at of the ticket. If the team wrote first: second authored message − created_at. Null if there is no such message. In fact_tickets it is first_reply_after_creation_seconds.', 'Zendesk: this is its first reply time; of tickets that an agent created it counts the second public comment too. Freshdesk: as this, of tickets that customers created.'),
  ('ticket_metrics', 'first_reply_business_seconds', 'seconds', 'exact', 'business_seconds over the same span as first_reply_seconds. Null without a calendar. In fact_tickets it is first_reply_after_creation_business_seconds.', null),
  ('ticket_metrics', 'turns', 'turns', 'exact', 'How many bursts of inbound messages were followed by an authored one. Inbound messages without an authored one between them are one burst.', 'Help Scout (replies to resolve), Front (reply time) and Intercom count each reply that answers a customer; Zendesk counts public agent comments (replies), answered or not.'),
  ('ticket_metrics', 'waiting_since', 'time', 'exact', 'First inbound message after the last authored one; null if there is none. It says nothing of the state: a closed ticket may wait.', 'Intercom (waiting since) and Front (awaiting reply) as here. Zendesk has requester wait time, which goes by states.'),
  ('ticket_metrics', 'total_wait_seconds', 'seconds', 'exact', 'Sum over answered turns: authored message − first inbound message of the burst.', 'Zendesk (requester wait time): time in the states new, open and on hold, regardless of the last author.'),
  ('ticket_metrics', 'average_wait_seconds', 'seconds', 'exact', 'total_wait_seconds / answered turns.', 'Help Scout (response time), Front (reply time), Intercom (time to reply), Freshdesk (average response time): as here, over replies instead of tickets.'),
  ('ticket_metrics', 'longest_wait_seconds', 'seconds', 'exact', 'The longest of the waits in total_wait_seconds.', null),
  ('ticket_metrics', 'total_wait_business_seconds', 'seconds', 'exact', 'The waits of total_wait_seconds, each in business_seconds. Null without a calendar.', null),
  ('ticket_metrics', 'average_wait_business_seconds', 'seconds', 'exact', 'total_wait_business_seconds / answered turns. Null without a calendar.', null),
  ('ticket_metrics', 'longest_wait_business_seconds', 'seconds', 'exact', 'The longest of the waits in total_wait_business_seconds. Null without a calendar.', null),
  ('ticket_metrics', 'is_outbound_initiated', 'flag', 'exact', 'The first message that is inbound or authored is authored. Notes and automatic replies are passed over.', 'Front (outbound conversation) and Intercom (admin initiated) as here. Zendesk: the submitter of the ticket was an agent.'),
  ('ticket_metrics', 'is_one_touch', 'flag', 'exact', 'Exactly one authored message, an inbound one before it, and none after it.', 'Zendesk (one-touch ticket): solved, and at most one public comment of an agent. Help Scout (resolved on first reply) and Freshdesk (first contact resolution): resolved after one reply. Here the state does not matter: take is_one_touch together with first_closed_at.'),
  ('ticket_metrics', 'is_unreplied', 'flag', 'exact', 'At least one inbound message, and no authored one at all.', 'Zendesk (unreplied tickets): no public comment of an agent yet.'),
  ('ticket_metrics', 'message_count', 'messages', 'exact', 'Messages of the ticket of any kind. One that the source no longer shows does not count.', null),
  ('ticket_metrics', 'inbound_count', 'messages', 'exact', 'Messages of type reply and direction in.', null),
  ('ticket_metrics', 'authored_count', 'messages', 'exact', 'Messages of type reply and direction out with a user_id.', 'Zendesk (replies): public comments of agents.'),
  ('ticket_metrics', 'automatic_count', 'messages', 'exact', 'Messages of type reply and direction out without a user_id.', null),
  ('ticket_metrics', 'note_count', 'messages', 'exact', 'Messages of type note, with or without a user_id.', 'Zendesk: internal comments.'),
  ('ticket_metrics', 'other_count', 'messages', 'exact', 'Messages that are none of inbound, authored, automatic or note.', null),
  ('ticket_metrics', 'attachment_count', 'files', 'exact', 'Attachments of all messages of the ticket.', null),
  ('ticket_metrics', 'agents_involved', 'users', 'exact', 'Different user_ids of authored messages and notes.', 'Zendesk counts assignees (assignee stations) instead.'),
  ('ticket_metrics', 'last_inbound_at', 'time', 'exact', 'Time of the last inbound message.', 'Zendesk: requester updated at.'),
  ('ticket_metrics', 'last_authored_at', 'time', 'exact', 'Time of the last authored message.', 'Zendesk: assignee updated at, which counts other changes too.'),
  ('ticket_metrics', 'last_closed_error_seconds', 'seconds', 'observed', 'valid_from − change_after of the row that last_closed_at comes from.', null),
  ('ticket_metrics', 'first_resolution_error_seconds', 'seconds', 'observed', 'first_closed_error_seconds.', null),
  ('ticket_metrics', 'first_resolution_business_seconds', 'seconds', 'observed', 'business_seconds from created_at to first_closed_at. Null without a calendar.', null),
  ('ticket_metrics', 'full_resolution_error_seconds', 'seconds', 'observed', 'last_closed_error_seconds while the state is closed or archived; null otherwise.', null),
  ('ticket_metrics', 'full_resolution_business_seconds', 'seconds', 'observed', 'business_seconds from created_at to last_closed_at, while resolved. Null without a calendar.', null),
  ('ticket_metrics', 'reopen_error_seconds', 'seconds', 'observed', 'Sum of valid_from − change_after over all rows of the ticket''s history: the total time in which the changes may have happened. Changes that were undone between two reads left no trace.', null),
  ('ticket_metrics', 'assignment_count', 'times', 'observed', 'Number of rows whose user differs from the user of the row before. The first row counts if it has a user.', 'Zendesk (assignee stations): changes of the assignee, told by the event.'),
  ('ticket_metrics', 'assignment_error_seconds', 'seconds', 'observed', 'Like reopen_error_seconds.', null),
  ('ticket_metrics', 'hold_error_seconds', 'seconds', 'observed', 'Like open_error_seconds, for seconds_hold.', null),
  ('ticket_metrics', 'snoozed_error_seconds', 'seconds', 'observed', 'Like open_error_seconds, for seconds_snoozed.', null),
  ('ticket_metrics', 'closed_error_seconds', 'seconds', 'observed', 'Like open_error_seconds, for seconds_closed.', null),
  ('ticket_metrics', 'archived_error_seconds', 'seconds', 'observed', 'Like open_error_seconds, for seconds_archived.', null),
  ('ticket_metrics', 'messages_complete', 'flag', 'exact', 'The messages were read when the ticket was as new as it is here (_messages_as_of ≥ updated_at), nothing of it is in sync.rejects, and it is not deleted.', null),
  ('reply_turns', 'wait_seconds', 'seconds', 'exact', 'answered_at − waiting_since.', 'Help Scout (response time), Front (reply time), Intercom (time to reply).'),
  ('reply_turns', 'wait_business_seconds', 'seconds', 'exact', 'business_seconds from waiting_since to answered_at. Null without a calendar.', null),
  ('reply_turns', 'inbound_messages', 'messages', 'exact', 'Inbound messages of the burst.', null),
  ('agent_daily', 'replies', 'messages', 'exact', 'Authored messages of the day, in countable tickets.', 'Help Scout (replies sent), Front (messages sent), Zendesk (public comments).'),
  ('agent_daily', 'notes', 'messages', 'exact', 'Notes of the day that have a user_id, in countable tickets.', null),
  ('agent_daily', 'first_responses', 'messages', 'exact', 'Authored messages of the day that were the first response of their ticket, which is countable.', null),
  ('agent_daily', 'turns_answered', 'messages', 'exact', 'Authored messages of the day that ended a turn of a countable ticket.', null),
  ('agent_daily', 'wait_seconds', 'seconds', 'exact', 'Sum of wait_seconds of these turns.', null),
  ('agent_daily', 'wait_business_seconds', 'seconds', 'exact', 'Sum of wait_business_seconds of these turns. Null if one of them has no calendar.', null),
  ('agent_daily', 'tickets_touched', 'tickets', 'exact', 'Different countable tickets with an authored message or a note of that day.', 'Help Scout: conversations helped, customers helped. Handle time is not known to the source.'),
  ('arrivals_hourly', 'tickets_created', 'tickets', 'exact', 'Countable tickets whose created_at lies in the hour.', null),
  ('arrivals_hourly', 'inbound_messages', 'messages', 'exact', 'Inbound messages of countable tickets whose created_at lies in the hour.', null),
  ('customer_summary', 'tickets', 'tickets', 'exact', 'Countable tickets of the customer: not deleted, spam or trash.', null),
  ('customer_summary', 'open_tickets', 'tickets', 'exact', 'Of these, those that are neither closed nor archived now: open, on hold, snoozed, or in a state that is new. As backlog_daily counts.', null),
  ('customer_summary', 'waiting_tickets', 'tickets', 'exact', 'Of open_tickets, those with a waiting_since.', null),
  ('customer_summary', 'inbound_messages', 'messages', 'exact', 'Sum of inbound_count of the tickets.', null),
  ('customer_summary', 'replies', 'messages', 'exact', 'Sum of authored_count of the tickets.', null),
  ('customer_summary', 'average_first_response_seconds', 'seconds', 'exact', 'Average of first_response_seconds of the tickets that have one.', null),
  ('customer_summary', 'reopens', 'times', 'observed', 'Sum of reopen_count of the tickets.', null),
  ('customer_summary', 'reopen_error_seconds', 'seconds', 'observed', 'Sum of reopen_error_seconds of the tickets; unknown if it is unknown for one of them.', null),
  ('backlog_daily', 'tickets', 'tickets', 'observed', 'At the end of each local day: tickets that were neither closed nor archived, neither spam nor trash, and not deleted. State null counts existing tickets whose state at that time is unknown; they may have been closed.', 'Zendesk (backlog, unsolved tickets): the same, of states new, open, pending and on hold.'),
  ('shelf_events', 'event', 'kind', 'observed', 'From one row of books.shelf_volume_history to the next: no place to a place is added, place to place moved, place to none removed; a first row that has a place and no change_after is found.', null),
  ('shelf_events', 'at', 'time', 'observed', 'valid_from of that row: upper bound of the time of the event. A volume that came and went between two reads is missing.', null),
  ('shelf_events', 'change_after', 'time', 'observed', 'Lower bound of the time of the event; null if the time before is unknown.', null),
  ('reply_turns', 'is_answered', 'flag', 'exact', 'There is an authored message after the burst.', null),
  ('reply_turns', 'is_first_response', 'flag', 'exact', 'It is answered, and no authored message came before the burst.', null),
  ('ticket_metrics', 'reopen_count', 'times', 'observed', 'How often closed or archived was followed by another state, since the ticket was first seen.', 'Zendesk (reopens) and Freshdesk: solved back to open, told by the event. Help Scout: closed conversations that a customer answers.'),
  ('ticket_metrics', 'seconds_open', 'seconds', 'observed', 'Sum of valid_to − valid_from over times in the state open that have ended. Times before valid_from of the first row are not in it: reopen_error_seconds has how long they were.', 'Zendesk (agent wait time, new and open minutes): by states as well, exactly.'),
  ('ticket_metrics', 'seconds_hold', 'seconds', 'observed', 'Sum of valid_to − valid_from over times in the state hold that have ended. Times before valid_from of the first row are not in it: reopen_error_seconds has how long they were.', 'Zendesk: on-hold time.'),
  ('customer_summary', 'is_mirrored', 'flag', 'exact', 'The customer has a row in helpdesk.customers, and is not deleted there.', null),
  ('customer_summary', 'waiting_since', 'time', 'exact', 'The earliest waiting_since of waiting_tickets.', 'Intercom (waiting since), of a conversation.'),
  ('ticket_metrics', 'first_closed_error_seconds', 'seconds', 'observed', 'valid_from − change_after of the row that first_closed_at comes from. Where change_by of that row is set, it may have happened as late as that.', null),
  ('ticket_state_intervals', 'error_seconds', 'seconds', 'observed', 'valid_from − change_after. Where change_by is set, the change may have happened as late as that.', null),
  ('backlog_daily', 'uncertain', 'tickets', 'observed', 'By how many the true number may differ: changes, into this group or out of it, that may have happened on either side of that midnight, since it lies between change_after and valid_from, or change_by where that is later (of a deletion between deleted_after and valid_to); and tickets of which nothing is known. Tickets that are not among "tickets" count too, so it may be more than these. What was changed and changed back between two readings does not count.', null),
  ('tickets_as_of', 'certain', 'flag', 'observed', 'True if the time lies at or after valid_from, and at or after change_by where that is set, and before change_after of the row that follows, before deleted_after of a deletion, or in a row that has not ended. False also where the ticket was there, and its history begins later. As far as changes were seen: what was changed and changed back between two readings left no trace.', null),
  ('ticket_metrics', 'first_closed_at', 'time', 'observed', 'valid_from of the first time in which the state was closed or archived. It happened at most first_closed_error_seconds before. If that is the first row of the ticket (first_closing_seen is false), valid_from is updated_at when the ticket was first seen: only an upper bound. A closing that was undone before the ticket was first seen, or between two readings, left no trace.', 'Zendesk (initially solved at), Freshdesk (resolved at): told by the event itself, exactly.'),
  ('ticket_metrics', 'last_closed_at', 'time', 'observed', 'valid_from of the last time at which a state other than closed or archived turned into one of them, or at which the ticket was first seen in one of them (last_closing_seen is false): then valid_from is updated_at when it was first seen, only an upper bound. archived after closed is one such time, that of closed.', 'Zendesk (solved at), Help Scout (closed at).'),
  ('ticket_metrics', 'first_resolution_seconds', 'seconds', 'observed', 'first_closed_at − created_at of the ticket. An upper bound where first_closing_seen is false.', 'Zendesk (first resolution time): creation to the first solved. Intercom (time to first close): from the first message.'),
  ('ticket_metrics', 'full_resolution_seconds', 'seconds', 'observed', 'last_closed_at − created_at while the state is closed or archived; null otherwise. An upper bound where last_closing_seen is false.', 'Zendesk (full resolution time): creation to the last solved. Freshdesk (resolution time): the same without times in which its clock stands. Help Scout (resolution time): the customer''s first message to the last close. Front (resolution time): the first inbound message to the last archiving.'),
  ('ticket_metrics', 'seconds_snoozed', 'seconds', 'observed', 'Sum of valid_to − valid_from over times in the state snoozed that have ended. Times before valid_from of the first row are not in it: reopen_error_seconds has how long they were.', null),
  ('ticket_metrics', 'seconds_closed', 'seconds', 'observed', 'Sum of valid_to − valid_from over times in the state closed that have ended. Times before valid_from of the first row are not in it: reopen_error_seconds has how long they were.', null),
  ('ticket_metrics', 'seconds_archived', 'seconds', 'observed', 'Sum of valid_to − valid_from over times in the state archived that have ended. Times before valid_from of the first row are not in it: reopen_error_seconds has how long they were.', null),
  ('ticket_metrics', 'open_error_seconds', 'seconds', 'observed', 'Over the times that seconds_open adds up, the sum of valid_from − change_after of their begins and of their ends. Other times before the first row of the ticket are not in it.', null),
  ('ticket_metrics', 'first_closing_seen', 'flag', 'exact', 'The time of first_closed_at is not the first one of the ticket: it was seen in another state before.', null),
  ('ticket_metrics', 'last_closing_seen', 'flag', 'exact', 'The time of last_closed_at is not the first one of the ticket: it was seen in another state before.', null),
  ('ticket_targets', 'target_seconds', 'seconds', 'exact', 'target_seconds of the most specific row of service_targets that was in force at begins_at: label and inbox, label, inbox, account; of two labels the shorter one.', 'Zendesk (SLA policies): the first policy in their order that fits. Intercom (SLA): the rule of a workflow.'),
  ('ticket_targets', 'in_business_time', 'flag', 'exact', 'The inbox or the account has a calendar.', null),
  ('ticket_targets', 'is_done', 'flag', 'exact', 'first_response, next_reply: there is an authored message after the burst. resolution: the state is closed or archived now.', null),
  ('ticket_targets', 'begins_at', 'time', 'exact', 'first_response, next_reply: time of the first inbound message of the burst. resolution: created_at.', 'Zendesk (SLA first reply time): creation of the ticket.'),
  ('ticket_targets', 'due_at', 'time', 'exact', 'begins_at plus target_seconds, in business time if there is a calendar. resolution_without_hold: plus the time on hold so far.', null),
  ('ticket_targets', 'seconds', 'seconds', 'observed', 'first_response, next_reply: wait_business_seconds of the turn. resolution: full_resolution_business_seconds; resolution_without_hold: minus the business time in the state hold. Without a calendar the same on the clock. While it runs: from begins_at to complete_through of the tickets, or to updated_at if that is later.', 'Zendesk (SLA): the clock of a resolution stands while the ticket is pending, by choice. Here time on hold and snoozed counts; resolution_without_hold leaves out that on hold.'),
  ('ticket_targets', 'error_seconds', 'seconds', 'observed', 'first_response, next_reply: 0, or unknown if messages_complete is false. resolution: full_resolution_error_seconds; 0 while it runs, as far as the ticket was read. resolution_without_hold: reopen_error_seconds; it may be too short by that as well, up to the time on hold.', null),
  ('ticket_targets', 'is_counted', 'flag', 'observed', 'first_response, next_reply: messages_complete. resolution: not done, or its last closing was seen (last_closing_seen).', null),
  ('ticket_targets', 'outcome', 'kind', 'observed', 'met: done by due_at; a closing with change_by may have been later, and of resolution_without_hold a begin or an end of hold, too. missed: done after due_at even without the error, or not done by then. uncertain: done after due_at, and without the error perhaps not; by due_at, done or not, and with less time on hold perhaps late; or seconds is null. at_risk: not done, and 75 percent of target_seconds have passed. running: else.', 'Zendesk: achieved, breached, active. Intercom: hit, missed, active.');
