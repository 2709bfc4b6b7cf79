-- Up Migration

-- What support teams count. The definitions are stated once, in analytics.ticket_metrics_defined; analytics.ticket_metrics shows
-- rows that were stored from it in the transaction that brought the ticket, its messages or its history.

create function analytics.message_kind(type text, direction text, user_id text) returns text
language sql immutable parallel safe
begin atomic
  select case
    when type = 'reply' and direction = 'in' then 'inbound'
    when type = 'reply' and direction = 'out' then case when user_id is null then 'automatic' else 'authored' end
    when type = 'note' then 'note'
    else 'other' end;
end;
comment on function analytics.message_kind(text, text, text) is 'What a message counts as: see analytics.message_kinds.kind.';

create view analytics.message_kinds with (security_barrier) as
select m.account_id, m.id as message_id, m.ticket_id, analytics.message_kind(m.type, m.direction, m.user_id) as kind,
  m.user_id, m.created_at, m.position
from helpdesk.messages m
where m.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.message_kinds is
  'Every message and what it counts as. Order those of a ticket by created_at, then by position: what has no time comes last.';
comment on column analytics.message_kinds.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.message_kinds.message_id is 'The message; joins helpdesk.messages.id.';
comment on column analytics.message_kinds.ticket_id is 'The ticket; joins analytics.ticket_metrics.ticket_id.';
comment on column analytics.message_kinds.kind is
  'inbound: a reply of a customer; authored: a reply by one of the team; automatic: a reply that nobody wrote; note; other: anything else.';
comment on column analytics.message_kinds.user_id is 'Who of the team wrote it; null for customers and automatic replies.';
comment on column analytics.message_kinds.created_at is 'When the message was created, at the source.';
comment on column analytics.message_kinds.position is 'Its place within the ticket as the source lists it, from 1.';

-- By windows over one ticket each, so that a question about one ticket reads one ticket, and one about all sorts once. The order
-- within is that of an index: see analytics.keep_metrics.
create view analytics.reply_turns with (security_barrier) as
select g.account_id, g.ticket_id,
  row_number() over (partition by g.account_id, g.ticket_id order by g.replies_before)::int as turn,
  g.waiting_since, g.answered_at,
  date_part('epoch', g.answered_at - g.waiting_since) as wait_seconds,
  -- As analytics.calendar_of has it, which would ask for each turn which accounts may be read.
  analytics.business_seconds((
    select a.calendar from analytics.stored_calendar_assignments a
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
      from helpdesk.messages m
      where m.account_id = any (array(select account_id from sync.readable_accounts))
      order by m.account_id, m.ticket_id, m.position) k
    where k.kind in ('inbound', 'authored')) o
  group by o.account_id, o.ticket_id, o.replies_before
  -- A reply that nobody waited for is no turn.
  having count(*) filter (where o.kind = 'inbound') > 0) g
left join helpdesk.tickets t on t.account_id = g.account_id and t.id = g.ticket_id;
comment on view analytics.reply_turns is
  'Who waited for whom: one row for each burst of customers'' messages and the reply by one of the team that ends it. Automatic replies and notes end no wait.';
comment on column analytics.reply_turns.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.reply_turns.ticket_id is 'The ticket; joins analytics.ticket_metrics.ticket_id.';
comment on column analytics.reply_turns.turn is 'Number of the turn within its ticket, from 1.';
comment on column analytics.reply_turns.waiting_since is 'When the first message of the burst was created.';
comment on column analytics.reply_turns.answered_at is 'When the reply was created; null while there is none.';
comment on column analytics.reply_turns.wait_seconds is 'From waiting_since to answered_at; null while there is no reply.';
comment on column analytics.reply_turns.wait_business_seconds is
  'The same in business hours, by the calendar of the inbox that the ticket is in now; null without a calendar.';
comment on column analytics.reply_turns.user_id is 'Who replied; joins helpdesk.users.id. Null while there is no reply.';
comment on column analytics.reply_turns.inbound_messages is 'How many messages of customers the burst has.';
comment on column analytics.reply_turns.first_message_id is 'The first message of the burst; joins helpdesk.messages.id.';
comment on column analytics.reply_turns.reply_message_id is 'The reply; joins helpdesk.messages.id. Null while there is none.';
comment on column analytics.reply_turns.is_answered is 'True if there is a reply.';
comment on column analytics.reply_turns.is_first_response is
  'True if its reply is the first response of the ticket: the team had not written before.';

create view analytics.ticket_metrics_defined with (security_barrier) as
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
  h.seconds_closed, h.closed_error_seconds, h.seconds_archived, h.archived_error_seconds
from (
  select k.account_id, k.id, k.inbox_id, k.created_at
  from helpdesk.tickets k
  where k.account_id = any (array(select account_id from sync.readable_accounts))
  order by k.account_id, k.id) t
cross join lateral (
  select case when exists (select from analytics.stored_calendar_assignments)
    then analytics.calendar_of(t.account_id, t.inbox_id) end as calendar offset 0) c
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
    from helpdesk.messages m
    where m.account_id = t.account_id and m.ticket_id = t.id
    order by m.position) k) m
-- A ticket that the team has opened is waited for from its second reply on.
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
    from analytics.reply_turns n
    where n.account_id = t.account_id and n.ticket_id = t.id
    offset 0) q) w
cross join lateral (
  select min(i.valid_from) filter (where i.resolved) as first_closed_at,
    (array_agg(i.began_within order by i.valid_from) filter (where i.resolved))[1] as first_closed_error,
    max(i.valid_from) filter (where i.resolved and not i.was_resolved) as last_closed_at,
    (array_agg(i.began_within order by i.valid_from desc) filter (where i.resolved and not i.was_resolved))[1] as last_closed_error,
    coalesce((array_agg(i.resolved order by i.valid_from desc))[1], false) as is_resolved,
    count(*) filter (where not i.resolved and i.was_resolved)::int as reopen_count,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'open'), interval '0')) as seconds_open,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'hold'), interval '0')) as seconds_hold,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'snoozed'), interval '0')) as seconds_snoozed,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'closed'), interval '0')) as seconds_closed,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'archived'), interval '0')) as seconds_archived,
    -- Each of them is wrong by the ends of its intervals at most; an end of which nothing is known makes all of it unknown.
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
      s.valid_from - s.change_after as began_within, s.valid_to - s.valid_from as lasted,
      -- Where another one follows at once, it ended with that one's beginning; else with the deletion of the ticket.
      s.valid_from - s.change_after + case
        when s.next_from = s.valid_to then s.next_from - s.next_after
        else s.valid_to - s.deleted_after end as within
    from (
      select v.state, v.valid_from, v.valid_to, v.change_after, v.deleted_after, d.resolved,
        lag(d.resolved) over once as was_resolved,
        lead(v.valid_from) over once as next_from, lead(v.change_after) over once as next_after
      from analytics.ticket_state_intervals v
      cross join lateral (select coalesce(v.state in ('closed', 'archived'), false) as resolved) d
      where v.account_id = t.account_id and v.ticket_id >= t.id and v.ticket_id <= t.id
      window once as (partition by v.ticket_id order by v.valid_from)) s) i) h
cross join lateral (
  select count(*) filter (where e.user_id is not null and e.user_id is distinct from e.user_before)::int as assignment_count,
    case when count(e.change_after) = count(*) then sum(e.valid_from - e.change_after) end as unseen
  from (
    select x.user_id, x.valid_from, x.change_after, lag(x.user_id) over (partition by x.ticket_id order by x.valid_from) as user_before
    from helpdesk.ticket_history x
    where x.account_id = t.account_id and x.ticket_id >= t.id and x.ticket_id <= t.id) e) u;
comment on view analytics.ticket_metrics_defined is
  'What each metric of a ticket is: analytics.ticket_metrics shows the same, stored. This is worked out anew for each ticket that is asked for; it is here to be read and to be compared with.';

create table analytics.stored_ticket_metrics (like analytics.ticket_metrics_defined);
alter table analytics.stored_ticket_metrics add primary key (account_id, ticket_id);
comment on table analytics.stored_ticket_metrics is
  'analytics.ticket_metrics_defined of every ticket, written in the transaction that changes it. Read analytics.ticket_metrics.';

create view analytics.ticket_metrics with (security_barrier) as
select t.account_id, t.id as ticket_id, t.number, t.customer_id, t.inbox_id, t.user_id, t.state, t.type, t.spam, t.trash,
  t.created_at, t.updated_at, t._deleted_at as deleted_at,
  coalesce(t._messages_as_of >= t.updated_at, false) and t._deleted_at is null and not exists (
    select from sync.rejects r
    where r.account_id = t.account_id and r.stream in ('tickets', 'messages') and r.ask_id = t.id and r.cleared_at is null) as messages_complete,
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
  s.seconds_closed, s.closed_error_seconds, s.seconds_archived, s.archived_error_seconds
from helpdesk.tickets t
left join analytics.stored_ticket_metrics s on s.account_id = t.account_id and s.ticket_id = t.id
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.ticket_metrics is
  'One row for each ticket, as of the last commit that brought something of it: what it is, and what can be counted of it. analytics.metric_definitions says how. Leave out those that are not messages_complete, spam, trash and deleted ones, where they would be wrong.';
comment on column analytics.ticket_metrics.number is 'Friendly ticket number.';
comment on column analytics.ticket_metrics.customer_id is 'The customer; joins analytics.customer_summary.customer_id.';
comment on column analytics.ticket_metrics.inbox_id is 'The inbox.';
comment on column analytics.ticket_metrics.user_id is 'The assigned user; null while unassigned.';
comment on column analytics.ticket_metrics.state is 'open, hold, closed, snoozed or archived; other values pass as they come.';
comment on column analytics.ticket_metrics.type is 'Channel: email, chat, web, phone and so on.';
comment on column analytics.ticket_metrics.spam is 'True if the ticket is marked as spam.';
comment on column analytics.ticket_metrics.trash is 'True if the ticket is in the trash.';
comment on column analytics.ticket_metrics.created_at is 'When the ticket was created, at the source.';
comment on column analytics.ticket_metrics.updated_at is 'When the ticket was last updated, at the source.';
comment on column analytics.ticket_metrics.deleted_at is 'By then the source had it no more; null while it is there. What was counted of it stays.';
comment on column analytics.ticket_metrics.messages_complete is
  'True if its messages are as new as the ticket, and nothing of it was set aside. If not, what is counted from messages counts what is here.';

-- What the columns mean is said once for the three of them.
do $$
declare
  said record;
begin
  for said in
    select c.oid::regclass as relation, a.attname as name, m.meaning
    from (values
      ('account_id', 'The operator''s name for the mirrored account.'),
      ('ticket_id', 'The ticket; joins helpdesk.tickets.id.'),
      ('message_count', 'Messages of any kind.'),
      ('inbound_count', 'Replies of customers.'),
      ('authored_count', 'Replies that one of the team wrote.'),
      ('automatic_count', 'Replies to customers that nobody wrote: they have no user.'),
      ('note_count', 'Private notes.'),
      ('other_count', 'Messages of other kinds than those above.'),
      ('attachment_count', 'Files on its messages.'),
      ('agents_involved', 'How many of the team wrote replies or notes.'),
      ('last_inbound_at', 'When a customer last wrote.'),
      ('last_authored_at', 'When one of the team last replied.'),
      ('is_outbound_initiated', 'True if the team wrote before any customer did. Notes and automatic replies do not count.'),
      ('is_one_touch', 'True if one reply by the team was all it took: a customer wrote first, and not again after it.'),
      ('is_unreplied', 'True if a customer wrote and nobody of the team ever replied. A later message that waits: waiting_since.'),
      ('first_response_seconds', 'From the first message of a customer to the first reply by one of the team after it. Null while unanswered, and if the team wrote first.'),
      ('first_response_business_seconds', 'first_response_seconds in business hours; null without a calendar.'),
      ('first_responder_id', 'Who gave the first response; joins helpdesk.users.id. Null where first_response_seconds has none.'),
      ('first_reply_seconds', 'From the creation of the ticket to the first reply by one of the team; to the second one if the team wrote first.'),
      ('first_reply_business_seconds', 'first_reply_seconds in business hours; null without a calendar.'),
      ('turns', 'How many bursts of customers'' messages were answered: see analytics.reply_turns.'),
      ('waiting_since', 'Since when a customer waits for a reply: the first message after the last reply by one of the team. Null if nobody waits.'),
      ('total_wait_seconds', 'How long customers waited in all answered turns together; null if there are none.'),
      ('average_wait_seconds', 'total_wait_seconds by answered turn.'),
      ('longest_wait_seconds', 'The longest wait of an answered turn.'),
      ('total_wait_business_seconds', 'total_wait_seconds in business hours; null without a calendar.'),
      ('average_wait_business_seconds', 'average_wait_seconds in business hours; null without a calendar.'),
      ('longest_wait_business_seconds', 'The longest wait of an answered turn in business hours; null without a calendar.'),
      ('first_closed_at', 'When it was first seen to be resolved: closed or archived. Null if it never was.'),
      ('first_closed_error_seconds', 'It happened at most so long before first_closed_at; null: how long is not known.'),
      ('last_closed_at', 'When the time began for which it is resolved, or was so last if it was reopened. Null if it never was.'),
      ('last_closed_error_seconds', 'It happened at most so long before last_closed_at; null: how long is not known.'),
      ('first_resolution_seconds', 'From its creation to first_closed_at.'),
      ('first_resolution_error_seconds', 'It was at most so much shorter; null: how much is not known.'),
      ('first_resolution_business_seconds', 'first_resolution_seconds in business hours; null without a calendar. Wrong by first_resolution_error_seconds at most.'),
      ('full_resolution_seconds', 'From its creation to last_closed_at, while it is resolved; null otherwise.'),
      ('full_resolution_error_seconds', 'It was at most so much shorter; null: how much is not known, or there is none.'),
      ('full_resolution_business_seconds', 'full_resolution_seconds in business hours; null without a calendar. Wrong by full_resolution_error_seconds at most.'),
      ('reopen_count', 'How often it was seen to be unresolved again.'),
      ('reopen_error_seconds', 'For so long in all nobody knows when it changed: what was undone within that time was not counted, nor what was undone between two readings that showed no change. Null: for how long is not known.'),
      ('assignment_count', 'How often it was seen to be assigned to one of the team who did not have it before.'),
      ('assignment_error_seconds', 'For so long in all nobody knows when it changed: what was undone within that time was not counted, nor what was undone between two readings that showed no change. Null: for how long is not known.'),
      ('seconds_open', 'How long it was open, in all times that have ended. One that goes on is in analytics.ticket_state_intervals.'),
      ('open_error_seconds', 'seconds_open is wrong by so much at most; null: by how much is not known.'),
      ('seconds_hold', 'How long it was on hold, in all times that have ended.'),
      ('hold_error_seconds', 'seconds_hold is wrong by so much at most; null: by how much is not known.'),
      ('seconds_snoozed', 'How long it was snoozed, in all times that have ended.'),
      ('snoozed_error_seconds', 'seconds_snoozed is wrong by so much at most; null: by how much is not known.'),
      ('seconds_closed', 'How long it was closed, in all times that have ended.'),
      ('closed_error_seconds', 'seconds_closed is wrong by so much at most; null: by how much is not known.'),
      ('seconds_archived', 'How long it was archived, in all times that have ended.'),
      ('archived_error_seconds', 'seconds_archived is wrong by so much at most; null: by how much is not known.')
    ) m (name, meaning)
    join pg_class c on c.oid in (
      'analytics.ticket_metrics_defined'::regclass, 'analytics.stored_ticket_metrics'::regclass, 'analytics.ticket_metrics'::regclass)
    join pg_attribute a on a.attrelid = c.oid and a.attname = m.name
  loop
    execute format('comment on column %s.%I is %L', said.relation, said.name, said.meaning);
  end loop;
end
$$;

-- Ticket by ticket. A plan of its own for each ticket would cost ten times what the ticket does, so one is kept; and one that was made
-- while the tables were empty takes any index for as good as any other. Therefore everything is asked for in the order of the one
-- index that serves, even a single key ("from this id to this id, in order"), and nothing may be sorted: whoever takes another
-- index would have to. A row that is as it was is not written again.
do $$
declare
  names constant text[] := array(
    select quote_ident(a.attname) from pg_attribute a
    where a.attrelid = 'analytics.stored_ticket_metrics'::regclass and a.attnum > 0 order by a.attnum);
  besides_key constant text[] := names[3:];
begin
  execute format($text$
create function analytics.keep_metrics(accounts text[], tickets text[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $body$
begin
  insert into analytics.stored_ticket_metrics as s (%1$s)
  select d.%2$s
  from (select distinct k.account_id, k.ticket_id from unnest(accounts, tickets) as k (account_id, ticket_id)) k
  cross join lateral (
    select d.* from analytics.ticket_metrics_defined d
    where d.account_id = k.account_id and d.ticket_id >= k.ticket_id and d.ticket_id <= k.ticket_id
    offset 0) d
  where not exists (
    select from analytics.stored_ticket_metrics s
    where s.account_id = k.account_id and s.ticket_id = k.ticket_id and (s.%3$s) is not distinct from (d.%4$s)
    offset 0)
  order by k.account_id, k.ticket_id
  on conflict (account_id, ticket_id) do update set (%5$s) = row (excluded.%6$s);
end
$body$
$text$, array_to_string(names, ', '), array_to_string(names, ', d.'), array_to_string(besides_key, ', s.'), array_to_string(besides_key, ', d.'),
    array_to_string(besides_key, ', '), array_to_string(besides_key, ', excluded.'));
end
$$;
comment on function analytics.keep_metrics(text[], text[]) is
  'Stores the metrics of these tickets as they are defined: account by account, ticket by ticket. Triggers do it; by hand it is analytics.recompute.';

-- Messages and attachments: after the whole statement, so that of one that writes both each one sees all.
create function analytics.keep_metrics_of_members() returns trigger
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
  if accounts is null then return null; end if;
  -- Who writes the messages of a ticket holds its row. Of one that a message was taken from nobody does: whoever reads its messages
  -- anew at this moment would store, or be stored over by, what was so a moment before.
  if cardinality(tickets) > 1 then
    perform from (
      select k.account_id, k.ticket_id from unnest(accounts, tickets) as k (account_id, ticket_id) order by k.account_id, k.ticket_id) k
    cross join lateral (
      select from helpdesk.tickets t
      where t.account_id = k.account_id and t.id >= k.ticket_id and t.id <= k.ticket_id
      order by t.id limit 1 for no key update) t;
  end if;
  perform analytics.keep_metrics(accounts, tickets);
  return null;
end
$$;
comment on function analytics.keep_metrics_of_members() is
  'Brings the metrics of tickets up to date whose messages or attachments were written, changed or removed.';
do $$
declare
  kept text;
begin
  foreach kept in array array['messages', 'attachments'] loop
    execute format('create trigger keep_metrics_inserted after insert on helpdesk.%I
      referencing new table as news for each statement execute function analytics.keep_metrics_of_members()', kept);
    execute format('create trigger keep_metrics_updated after update on helpdesk.%I
      referencing old table as olds new table as news for each statement execute function analytics.keep_metrics_of_members()', kept);
    execute format('create trigger keep_metrics_deleted after delete on helpdesk.%I
      referencing old table as olds for each statement execute function analytics.keep_metrics_of_members()', kept);
  end loop;
end
$$;

-- History is written for every ticket that is new or has changed in what counts here, so tickets themselves need not be looked at.
create function analytics.keep_metrics_of_history() returns trigger
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
  if tg_op = 'INSERT' then
    -- What is new has no messages and one row of history: a first load asks no more of it than that. Whatever has a row here
    -- already is not new.
    with begun as (
      insert into analytics.stored_ticket_metrics (
        account_id, ticket_id, message_count, inbound_count, authored_count, automatic_count, note_count, other_count, attachment_count,
        agents_involved, is_outbound_initiated, is_one_touch, is_unreplied, turns,
        first_closed_at, first_closed_error_seconds, last_closed_at, last_closed_error_seconds,
        first_resolution_seconds, first_resolution_error_seconds, first_resolution_business_seconds,
        full_resolution_seconds, full_resolution_error_seconds, full_resolution_business_seconds,
        reopen_count, reopen_error_seconds, assignment_count, assignment_error_seconds,
        seconds_open, open_error_seconds, seconds_hold, hold_error_seconds, seconds_snoozed, snoozed_error_seconds,
        seconds_closed, closed_error_seconds, seconds_archived, archived_error_seconds)
      select n.account_id, n.ticket_id, 0, 0, 0, 0, 0, 0, 0, 0, false, false, false, 0,
        r.closed_at, r.closed_within, r.closed_at, r.closed_within, r.took, r.closed_within, r.took_business, r.took, r.closed_within, r.took_business,
        0, n.within, (n.user_id is not null)::int, n.within, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
      from (
        select w.account_id, w.ticket_id, w.user_id, w.valid_from, w.state in ('closed', 'archived') as resolved,
          date_part('epoch', w.valid_from - w.change_after) as within, t.created_at, t.inbox_id
        from news w
        -- As in analytics.keep_metrics: one by one, and in the order of an index.
        cross join lateral (
          select k.created_at, k.inbox_id from helpdesk.tickets k
          where k.account_id = w.account_id and k.id >= w.ticket_id and k.id <= w.ticket_id and k._first_seen_at = k._synced_at
          order by k.id limit 1) t
        where w.valid_to is null
          and w.account_id = any (array(select account_id from sync.readable_accounts))
          and (
            select true from helpdesk.messages m where m.account_id = w.account_id and m.ticket_id = w.ticket_id
            order by m.position limit 1) is null
        order by w.account_id, w.ticket_id offset 0) n
      left join lateral (
        select n.valid_from as closed_at, n.within as closed_within, date_part('epoch', n.valid_from - n.created_at) as took,
          case when exists (select from analytics.stored_calendar_assignments)
            then analytics.business_seconds(analytics.calendar_of(n.account_id, n.inbox_id), n.created_at, n.valid_from)::float8 end as took_business
        where n.resolved) r on true
      on conflict do nothing
      returning account_id, ticket_id)
    select array_agg(n.account_id), array_agg(n.ticket_id) into accounts, tickets
    from news n
    where (n.account_id, n.ticket_id) not in (select b.account_id, b.ticket_id from begun b);
  elsif tg_op = 'UPDATE' then
    -- Where another row follows in the same statement, the metrics come with that.
    select array_agg(n.account_id), array_agg(n.ticket_id) into accounts, tickets
    from news n
    where n.valid_to is null or not exists (
      select from helpdesk.ticket_history h
      where h.account_id = n.account_id and h.ticket_id >= n.ticket_id and h.ticket_id <= n.ticket_id and h.valid_to is null
        and h.valid_from >= n.valid_to
      order by h.ticket_id, h.valid_from offset 0);
  else
    select array_agg(o.account_id), array_agg(o.ticket_id) into accounts, tickets from olds o;
  end if;
  if accounts is not null then perform analytics.keep_metrics(accounts, tickets); end if;
  return null;
end
$$;
comment on function analytics.keep_metrics_of_history() is
  'Brings the metrics of tickets up to date whose history was written. Of a ticket that is new there is nothing to work out.';
create trigger keep_metrics_inserted after insert on helpdesk.ticket_history
  referencing new table as news for each statement execute function analytics.keep_metrics_of_history();
create trigger keep_metrics_updated after update on helpdesk.ticket_history
  referencing old table as olds new table as news for each statement execute function analytics.keep_metrics_of_history();
create trigger keep_metrics_deleted after delete on helpdesk.ticket_history
  referencing old table as olds for each statement execute function analytics.keep_metrics_of_history();

-- What history does not tell: the time of creation, and the inbox of a ticket that is deleted. A row trigger costs nothing where
-- these are as they were.
create function analytics.keep_metrics_of_ticket() returns trigger
language plpgsql
as $$
begin
  if tg_op = 'DELETE' then
    delete from analytics.stored_ticket_metrics s where s.account_id = old.account_id and s.ticket_id = old.id;
  else
    perform analytics.keep_metrics(array[new.account_id], array[new.id]);
  end if;
  return null;
end
$$;
comment on function analytics.keep_metrics_of_ticket() is
  'Brings the metrics of a ticket up to date of which something has changed that history does not tell, and removes those of one whose row is removed.';
create trigger keep_metrics after update on helpdesk.tickets for each row
  when (old.created_at is distinct from new.created_at
    or new._deleted_at is not null and old.inbox_id is distinct from new.inbox_id)
  execute function analytics.keep_metrics_of_ticket();
create trigger keep_metrics_removed after delete on helpdesk.tickets for each row execute function analytics.keep_metrics_of_ticket();

-- Business times are stored with the hours of a moment: who changes these notes it in the same transaction, and so it is known
-- if the one that was to work them out anew was killed.
create table analytics.stored_recomputes (
  account_id text primary key,
  asked int not null default 1
);
comment on table analytics.stored_recomputes is
  'Accounts whose calendars have changed since analytics.recompute last went through: see analytics.integrity.';
comment on column analytics.stored_recomputes.account_id is 'The account.';
comment on column analytics.stored_recomputes.asked is 'How often they have changed since: so that what changes while it is at work is not forgotten.';

create function analytics.ask_for_recompute() returns trigger
language plpgsql
as $$
begin
  if tg_table_name = 'stored_calendar_assignments' then
    insert into analytics.stored_recomputes (account_id)
    select case tg_op when 'DELETE' then old.account_id else new.account_id end
    on conflict (account_id) do update set asked = stored_recomputes.asked + 1;
  else
    insert into analytics.stored_recomputes (account_id)
    select distinct a.account_id from analytics.stored_calendar_assignments a
    where a.calendar in (select s.calendar from changed s) order by 1
    on conflict (account_id) do update set asked = stored_recomputes.asked + 1;
  end if;
  return null;
end
$$;
comment on function analytics.ask_for_recompute() is
  'Notes in analytics.stored_recomputes whose business times are those of before.';
create trigger ask_for_recompute after insert or update or delete on analytics.stored_calendar_assignments
  for each row execute function analytics.ask_for_recompute();
create trigger ask_for_recompute_written after insert on analytics.calendar_spans
  referencing new table as changed for each statement execute function analytics.ask_for_recompute();
create trigger ask_for_recompute_removed after delete on analytics.calendar_spans
  referencing old table as changed for each statement execute function analytics.ask_for_recompute();

-- In batches, so that nobody waits for long; under the lock of the tickets, so that what is written meanwhile is not written over.
create procedure analytics.recompute(account text default null, batch int default 500)
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
      select a.account_id from sync.accounts a union select q.account_id from analytics.stored_recomputes q) k
    where recompute.account is null or k.account_id = recompute.account order by 1
  loop
    before := (select q.asked from analytics.stored_recomputes q where q.account_id = one);
    last := '';
    loop
      select array_agg(k.id) into ids
      from (
        select t.id from helpdesk.tickets t where t.account_id = one and t.id > last
        order by t.id limit batch for no key update) k;
      exit when ids is null;
      perform analytics.keep_metrics(array_fill(one, array[cardinality(ids)]), ids);
      last := ids[cardinality(ids)];
      commit;
    end loop;
    delete from analytics.stored_recomputes q where q.account_id = one and q.asked = before;
    commit;
  end loop;
end
$$;
comment on procedure analytics.recompute(text, int) is
  'Stores the metrics of every ticket of an account (null: of all of them) anew, as after a change of a calendar. Commits as it goes: call it outside of a transaction.';

-- What days and hours are told in.
create view analytics.account_zones with (security_barrier) as
select r.account_id, coalesce(c.time_zone, 'UTC') as time_zone
from sync.readable_accounts r
left join analytics.stored_calendar_assignments z on z.account_id = r.account_id and z.inbox_id is null
left join analytics.calendars c on c.name = z.calendar;
comment on view analytics.account_zones is
  'The time zone in which days and hours of an account are told: that of its calendar, or UTC.';
comment on column analytics.account_zones.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.account_zones.time_zone is 'The zone.';

create view analytics.agent_daily with (security_barrier) as
select d.account_id, d.day, d.user_id,
  sum(d.replies)::int as replies, sum(d.notes)::int as notes,
  sum(d.first_responses)::int as first_responses, sum(d.turns_answered)::int as turns_answered,
  sum(d.wait_seconds) as wait_seconds, sum(d.wait_business_seconds) as wait_business_seconds,
  count(distinct d.ticket_id)::int as tickets_touched
from (
  select k.account_id, (k.created_at at time zone z.time_zone)::date as day, k.user_id, k.ticket_id,
    (k.kind = 'authored')::int as replies, (k.kind = 'note')::int as notes,
    0 as first_responses, 0 as turns_answered, null::float8 as wait_seconds, null::float8 as wait_business_seconds
  from analytics.message_kinds k join analytics.account_zones z using (account_id)
  where k.kind in ('authored', 'note') and k.user_id is not null and k.created_at is not null
  union all
  select r.account_id, (r.answered_at at time zone z.time_zone)::date, r.user_id, r.ticket_id,
    0, 0, r.is_first_response::int, 1, r.wait_seconds,
    -- Not that of reply_turns: that would be worked out of every turn, whatever days are asked for.
    analytics.business_seconds((
      select a.calendar from analytics.stored_calendar_assignments a
      where a.account_id = r.account_id and (a.inbox_id is null or a.inbox_id = (
        select t.inbox_id from helpdesk.tickets t where t.account_id = r.account_id and t.id = r.ticket_id))
      order by a.inbox_id nulls last limit 1), r.waiting_since, r.answered_at)
  from analytics.reply_turns r join analytics.account_zones z using (account_id)
  where r.answered_at is not null) d
group by d.account_id, d.day, d.user_id;
comment on view analytics.agent_daily is 'What each of the team did on each day, by the messages that are here: one row for each day on which they wrote.';
comment on column analytics.agent_daily.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.agent_daily.day is 'The day, in the zone of analytics.account_zones.';
comment on column analytics.agent_daily.user_id is 'Who; joins helpdesk.users.id.';
comment on column analytics.agent_daily.replies is 'Replies to customers.';
comment on column analytics.agent_daily.notes is 'Private notes.';
comment on column analytics.agent_daily.first_responses is 'Replies that were the first response of their ticket.';
comment on column analytics.agent_daily.turns_answered is 'Replies that ended a wait: see analytics.reply_turns.';
comment on column analytics.agent_daily.wait_seconds is 'How long customers had waited for these replies, in all; null if they ended no wait.';
comment on column analytics.agent_daily.wait_business_seconds is 'wait_seconds in business hours; null without a calendar.';
comment on column analytics.agent_daily.tickets_touched is 'Tickets in which they wrote a reply or a note.';

create view analytics.arrivals_hourly with (security_barrier) as
select b.account_id, b.hour,
  extract(isodow from b.hour at time zone b.time_zone)::int as local_weekday,
  extract(hour from b.hour at time zone b.time_zone)::int as local_hour,
  sum(b.tickets)::int as tickets_created, sum(b.messages)::int as inbound_messages
from (
  select t.account_id, z.time_zone, date_trunc('hour', t.created_at, z.time_zone) as hour, 1 as tickets, 0 as messages
  from helpdesk.tickets t join analytics.account_zones z using (account_id)
  where t.created_at is not null
  union all
  select k.account_id, z.time_zone, date_trunc('hour', k.created_at, z.time_zone), 0, 1
  from analytics.message_kinds k join analytics.account_zones z using (account_id)
  where k.kind = 'inbound' and k.created_at is not null) b
where b.account_id = any (array(select account_id from sync.readable_accounts))
group by b.account_id, b.hour, b.time_zone;
comment on view analytics.arrivals_hourly is
  'How much came in each hour, spam, trash and deleted tickets included. Hours in which nothing came have no row; an hour that daylight saving repeats has two.';
comment on column analytics.arrivals_hourly.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.arrivals_hourly.hour is 'When the hour began: an hour on the clock of analytics.account_zones.';
comment on column analytics.arrivals_hourly.local_weekday is 'Its day of the week there: 1 Monday to 7 Sunday.';
comment on column analytics.arrivals_hourly.local_hour is 'Its hour there, from 0.';
comment on column analytics.arrivals_hourly.tickets_created is 'Tickets that were created in it, whoever wrote first.';
comment on column analytics.arrivals_hourly.inbound_messages is 'Messages that customers wrote in it, as far as messages are here.';

create view analytics.shelf_events with (security_barrier) as
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
-- That something was not there is no event.
where h.position is not null or h.was_on_shelf;
comment on view analytics.shelf_events is
  'What happened on the shelves. The catalog announces nothing: each event happened after change_after and by "at", and what came and went between two readings is not here.';
comment on column analytics.shelf_events.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.shelf_events.owner_id is 'The owner of the shelf.';
comment on column analytics.shelf_events.shelf_id is 'The shelf; joins books.shelves.id.';
comment on column analytics.shelf_events.volume_id is 'The volume; joins books.volumes.id.';
comment on column analytics.shelf_events.event is
  'added; moved to another place; removed; or found: it was there when the shelf was first read, since when is not known.';
comment on column analytics.shelf_events.position is 'Its place from then on, from 0; null when removed.';
comment on column analytics.shelf_events.at is 'By then it had happened.';
comment on column analytics.shelf_events.change_after is 'It happened after this time; null where nothing is known of the time before.';

create view analytics.customer_summary with (security_barrier) as
select coalesce(c.account_id, t.account_id) as account_id, coalesce(c.id, t.customer_id) as customer_id,
  c.id is not null and c._deleted_at is null as is_mirrored,
  coalesce(t.tickets, 0)::int as tickets, coalesce(t.open_tickets, 0)::int as open_tickets,
  coalesce(t.waiting_tickets, 0)::int as waiting_tickets, t.waiting_since,
  t.first_ticket_at, t.last_ticket_at,
  coalesce(t.inbound_messages, 0)::int as inbound_messages, coalesce(t.replies, 0)::int as replies,
  t.last_inbound_at, t.average_first_response_seconds, coalesce(t.reopens, 0)::int as reopens
from (
  select * from helpdesk.customers where account_id = any (array(select account_id from sync.readable_accounts))) c
full join (
  select m.account_id, m.customer_id,
    count(*) as tickets,
    count(*) filter (where analytics.is_backlog(m.state, m.spam, m.trash)) as open_tickets,
    count(m.waiting_since) filter (where analytics.is_backlog(m.state, m.spam, m.trash)) as waiting_tickets,
    min(m.waiting_since) filter (where analytics.is_backlog(m.state, m.spam, m.trash)) as waiting_since,
    min(m.created_at) as first_ticket_at, max(m.created_at) as last_ticket_at,
    sum(m.inbound_count) as inbound_messages, sum(m.authored_count) as replies, max(m.last_inbound_at) as last_inbound_at,
    avg(m.first_response_seconds) as average_first_response_seconds, sum(m.reopen_count) as reopens
  from analytics.ticket_metrics m
  where m.customer_id is not null and m.deleted_at is null and m.spam is not true and m.trash is not true
  group by m.account_id, m.customer_id) t on t.account_id = c.account_id and t.customer_id = c.id;
comment on view analytics.customer_summary is
  'One row for each customer, also those without tickets, and those of whom only a ticket tells. Spam, trash and deleted tickets do not count.';
comment on column analytics.customer_summary.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.customer_summary.customer_id is 'The customer; joins helpdesk.customers.id.';
comment on column analytics.customer_summary.is_mirrored is 'True if the customer is in the mirror, and not deleted at the source.';
comment on column analytics.customer_summary.tickets is 'Tickets of theirs.';
comment on column analytics.customer_summary.open_tickets is 'Of these, those that are work to be done still: neither closed nor archived, as analytics.is_backlog has it.';
comment on column analytics.customer_summary.waiting_tickets is 'Of open_tickets, those in which they wait for a reply.';
comment on column analytics.customer_summary.waiting_since is 'Since when they wait in one of these; null if they do not.';
comment on column analytics.customer_summary.first_ticket_at is 'When their first ticket was created.';
comment on column analytics.customer_summary.last_ticket_at is 'When their last ticket was created.';
comment on column analytics.customer_summary.inbound_messages is 'Messages that customers wrote in their tickets.';
comment on column analytics.customer_summary.replies is 'Replies by the team in their tickets.';
comment on column analytics.customer_summary.last_inbound_at is 'When the last of these messages came.';
comment on column analytics.customer_summary.average_first_response_seconds is
  'Average of first_response_seconds over their tickets that have one.';
comment on column analytics.customer_summary.reopens is 'How often their tickets were seen to be reopened.';

-- What sync.status says is worked out by functions that read what readers may not, and a function runs as whoever asks: so this
-- one runs as its owner, and looks itself who asked. Unless it is named, pg_temp comes first in a path, for types as well: so
-- whoever calls such a function could put a domain of theirs in the place of `name`, and have its check run by the owner.
create function analytics.stream_completeness()
returns table (account_id text, stream text, complete_through timestamptz, holes bigint, waiting bigint, open_rejects bigint,
  deletes_checked_at timestamptz, state text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.account_id, s.stream, s.complete_through, s.holes, s.waiting, s.open_rejects, s.deletes_checked_at, s.state
  from (select case current_setting('role') when 'none' then session_user else current_setting('role')::name end as name) asks
  cross join sync.status s
  where has_table_privilege(asks.name, 'sync.readers', 'select') or exists (
    select from sync.readers r
    where r.role_name = asks.name and (r.accounts is null or s.account_id = any (r.accounts)))
$$;
comment on function analytics.stream_completeness() is 'For analytics.completeness, which shows the same.';
create view analytics.completeness with (security_barrier) as
select c.account_id, c.stream, c.complete_through, c.holes, c.waiting, c.open_rejects, c.deletes_checked_at, c.state
from analytics.stream_completeness() c
where c.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.completeness is
  'What a report may rely on: for every account and stream how far it is complete. A part of sync.status.';
comment on column analytics.completeness.account_id is 'The operator''s name for the mirrored account.';
do $$
declare
  said record;
begin
  for said in
    select v.attname as name, col_description(t.attrelid, t.attnum) as words
    from pg_attribute v join pg_attribute t on t.attrelid = 'sync.status'::regclass and t.attname = v.attname
    where v.attrelid = 'analytics.completeness'::regclass and v.attnum > 1
  loop
    execute format('comment on column analytics.completeness.%I is %L', said.name, said.words);
  end loop;
end
$$;

-- Counted account by account, by the indexes of the joins.
create view analytics.integrity with (security_barrier) as
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
        where r.account_id = a.account_id and r.stream in ('tickets', 'messages') and r.ask_id = t.id and r.cleared_at is null))),
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
comment on view analytics.integrity is
  'Whether what is here fits together: each check counts what does not, account by account. It reads everything.';
comment on column analytics.integrity.check_name is 'What is counted.';
comment on column analytics.integrity.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.integrity.found is 'How many there are.';
comment on column analytics.integrity.means is 'What it means, and whether there may be any.';

create table analytics.metric_definitions (
  relation text not null,
  name text not null,
  unit text not null,
  kind text not null check (kind in ('exact', 'observed')),
  formula text not null,
  other_vendors text,
  primary key (relation, name)
);
comment on table analytics.metric_definitions is
  'What each figure of this schema is, word by word, and what others call by that name.';
comment on column analytics.metric_definitions.relation is 'The view or function of analytics that has it.';
comment on column analytics.metric_definitions.name is 'Its column there.';
comment on column analytics.metric_definitions.unit is 'seconds, messages, tickets and so on; time, flag or id where it is no figure.';
comment on column analytics.metric_definitions.kind is
  'exact: it follows from messages, which carry their time. observed: the source keeps no history, so it follows from what was seen of it, and a column beside it says how wrong it may be.';
comment on column analytics.metric_definitions.formula is
  'How it comes about. "Inbound" are replies of customers, "authored" replies that one of the team wrote, "automatic" those that nobody wrote. Messages are in order of created_at, then of position.';
comment on column analytics.metric_definitions.other_vendors is
  'How other help desks define what they call so, as their manuals say it; null where none has it, or all mean the same.';

insert into analytics.metric_definitions (relation, name, unit, kind, formula, other_vendors) values
  ('ticket_metrics', 'first_response_seconds', 'seconds', 'exact',
    'First authored message after the first inbound one − the first inbound one. Null while there is none, and if an authored message came before the first inbound one.',
    'Zendesk (first reply time): creation of the ticket to the first public comment of an agent. Freshdesk: creation to the first public reply of an agent. Help Scout: the customer''s first message to the first reply of a user, automatic replies left out. Front: the first inbound message to the first reply of a teammate. Intercom: the customer''s first message, or the hand-over by a bot, to the first reply of a teammate.'),
  ('ticket_metrics', 'first_response_business_seconds', 'seconds', 'exact',
    'business_seconds of the calendar of the ticket''s inbox over the same span as first_response_seconds. Null without a calendar.',
    'Zendesk, Freshdesk, Help Scout, Front and Intercom have it as "in business (office) hours", by the schedule of the account, the group or the inbox.'),
  ('ticket_metrics', 'first_responder_id', 'id', 'exact', 'user_id of the message that first_response_seconds ends with.',
    'Most name the assignee instead, who may be somebody else.'),
  ('ticket_metrics', 'first_reply_seconds', 'seconds', 'exact',
    'First authored message − created_at of the ticket. If the team wrote first: second authored message − created_at. Null if there is no such message.',
    'Zendesk: this is its first reply time; of tickets that an agent created it counts the second public comment too. Freshdesk: as this, of tickets that customers created.'),
  ('ticket_metrics', 'first_reply_business_seconds', 'seconds', 'exact',
    'business_seconds over the same span as first_reply_seconds. Null without a calendar.', null),
  ('ticket_metrics', 'turns', 'turns', 'exact',
    'How many bursts of inbound messages were followed by an authored one. Inbound messages without an authored one between them are one burst.',
    'Help Scout (replies to resolve), Front (reply time) and Intercom count each reply that answers a customer; Zendesk counts public agent comments (replies), answered or not.'),
  ('ticket_metrics', 'waiting_since', 'time', 'exact',
    'First inbound message after the last authored one; null if there is none. It says nothing of the state: a closed ticket may wait.',
    'Intercom (waiting since) and Front (awaiting reply) as here. Zendesk has requester wait time, which goes by states.'),
  ('ticket_metrics', 'total_wait_seconds', 'seconds', 'exact',
    'Sum over answered turns: authored message − first inbound message of the burst.',
    'Zendesk (requester wait time): time in the states new, open and on hold, whoever wrote last.'),
  ('ticket_metrics', 'average_wait_seconds', 'seconds', 'exact',
    'total_wait_seconds / answered turns.',
    'Help Scout (response time), Front (reply time), Intercom (time to reply), Freshdesk (average response time): as here, over replies instead of tickets.'),
  ('ticket_metrics', 'longest_wait_seconds', 'seconds', 'exact', 'The greatest of the waits that total_wait_seconds adds up.', null),
  ('ticket_metrics', 'total_wait_business_seconds', 'seconds', 'exact', 'The waits of total_wait_seconds, each in business_seconds. Null without a calendar.', null),
  ('ticket_metrics', 'average_wait_business_seconds', 'seconds', 'exact', 'total_wait_business_seconds / answered turns. Null without a calendar.', null),
  ('ticket_metrics', 'longest_wait_business_seconds', 'seconds', 'exact', 'The greatest of the waits of total_wait_business_seconds. Null without a calendar.', null),
  ('ticket_metrics', 'is_outbound_initiated', 'flag', 'exact',
    'The first message that is inbound or authored is authored. Notes and automatic replies are passed over.',
    'Front (outbound conversation) and Intercom (admin initiated) as here. Zendesk: the submitter of the ticket was an agent.'),
  ('ticket_metrics', 'is_one_touch', 'flag', 'exact',
    'Exactly one authored message, an inbound one before it, and none after it.',
    'Zendesk (one-touch ticket): solved, and at most one public comment of an agent. Help Scout (resolved on first reply) and Freshdesk (first contact resolution): resolved after one reply. Here the state does not matter: take is_one_touch together with first_closed_at.'),
  ('ticket_metrics', 'is_unreplied', 'flag', 'exact',
    'At least one inbound message, and no authored one at all.',
    'Zendesk (unreplied tickets): no public comment of an agent yet.'),
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
  ('ticket_metrics', 'first_closed_at', 'time', 'observed',
    'valid_from of the first time in which the state was closed or archived. It happened at most first_closed_error_seconds before.',
    'Zendesk (initially solved at), Freshdesk (resolved at): told by the event itself, exactly.'),
  ('ticket_metrics', 'first_closed_error_seconds', 'seconds', 'observed', 'valid_from − change_after of the row that first_closed_at comes from.', null),
  ('ticket_metrics', 'last_closed_at', 'time', 'observed',
    'valid_from of the last time at which a state other than closed or archived turned into one of them. archived after closed is one such time, that of closed.',
    'Zendesk (solved at), Help Scout (closed at).'),
  ('ticket_metrics', 'last_closed_error_seconds', 'seconds', 'observed', 'valid_from − change_after of the row that last_closed_at comes from.', null),
  ('ticket_metrics', 'first_resolution_seconds', 'seconds', 'observed', 'first_closed_at − created_at of the ticket.',
    'Zendesk (first resolution time): creation to the first solved. Intercom (time to first close): from the first message.'),
  ('ticket_metrics', 'first_resolution_error_seconds', 'seconds', 'observed', 'first_closed_error_seconds.', null),
  ('ticket_metrics', 'first_resolution_business_seconds', 'seconds', 'observed', 'business_seconds from created_at to first_closed_at. Null without a calendar.', null),
  ('ticket_metrics', 'full_resolution_seconds', 'seconds', 'observed',
    'last_closed_at − created_at while the state is closed or archived; null otherwise.',
    'Zendesk (full resolution time): creation to the last solved. Freshdesk (resolution time): the same without times in which its clock stands. Help Scout (resolution time): the customer''s first message to the last close. Front (resolution time): the first inbound message to the last archiving.'),
  ('ticket_metrics', 'full_resolution_error_seconds', 'seconds', 'observed', 'last_closed_error_seconds while the state is closed or archived; null otherwise.', null),
  ('ticket_metrics', 'full_resolution_business_seconds', 'seconds', 'observed', 'business_seconds from created_at to last_closed_at, while resolved. Null without a calendar.', null),
  ('ticket_metrics', 'reopen_count', 'times', 'observed',
    'How often closed or archived was followed by another state.',
    'Zendesk (reopens) and Freshdesk: solved back to open, told by the event. Help Scout: closed conversations that a customer answers.'),
  ('ticket_metrics', 'reopen_error_seconds', 'seconds', 'observed',
    'Sum of valid_from − change_after over all rows of the ticket''s history: for so long it was not looked at when it changed, and what changed back within that time was not seen. Only times that ended with a change count: what changed, and changed back, between two other readings left no trace.', null),
  ('ticket_metrics', 'assignment_count', 'times', 'observed',
    'How often user_id became a user who was not there in the row before. The first row counts if it has a user.',
    'Zendesk (assignee stations): changes of the assignee, told by the event.'),
  ('ticket_metrics', 'assignment_error_seconds', 'seconds', 'observed', 'As reopen_error_seconds.', null),
  ('ticket_metrics', 'seconds_open', 'seconds', 'observed',
    'Sum of valid_to − valid_from over times in the state open that have ended.', 'Zendesk (agent wait time, new and open minutes): by states as well, exactly.'),
  ('ticket_metrics', 'open_error_seconds', 'seconds', 'observed',
    'Over the times that seconds_open adds up, the sum of valid_from − change_after of their begins and of their ends.', null),
  ('ticket_metrics', 'seconds_hold', 'seconds', 'observed', 'Sum of valid_to − valid_from over times in the state hold that have ended.', 'Zendesk: on-hold time.'),
  ('ticket_metrics', 'hold_error_seconds', 'seconds', 'observed', 'As open_error_seconds, of seconds_hold.', null),
  ('ticket_metrics', 'seconds_snoozed', 'seconds', 'observed', 'Sum of valid_to − valid_from over times in the state snoozed that have ended.', null),
  ('ticket_metrics', 'snoozed_error_seconds', 'seconds', 'observed', 'As open_error_seconds, of seconds_snoozed.', null),
  ('ticket_metrics', 'seconds_closed', 'seconds', 'observed', 'Sum of valid_to − valid_from over times in the state closed that have ended.', null),
  ('ticket_metrics', 'closed_error_seconds', 'seconds', 'observed', 'As open_error_seconds, of seconds_closed.', null),
  ('ticket_metrics', 'seconds_archived', 'seconds', 'observed', 'Sum of valid_to − valid_from over times in the state archived that have ended.', null),
  ('ticket_metrics', 'archived_error_seconds', 'seconds', 'observed', 'As open_error_seconds, of seconds_archived.', null),
  ('ticket_metrics', 'messages_complete', 'flag', 'exact',
    'The messages were read when the ticket was as new as it is here (_messages_as_of ≥ updated_at), nothing of it is in sync.rejects, and it is not deleted.', null),
  ('reply_turns', 'wait_seconds', 'seconds', 'exact', 'answered_at − waiting_since.', 'Help Scout (response time), Front (reply time), Intercom (time to reply).'),
  ('reply_turns', 'wait_business_seconds', 'seconds', 'exact', 'business_seconds from waiting_since to answered_at. Null without a calendar.', null),
  ('reply_turns', 'inbound_messages', 'messages', 'exact', 'Inbound messages of the burst.', null),
  ('ticket_state_intervals', 'error_seconds', 'seconds', 'observed', 'valid_from − change_after.', null),
  ('agent_daily', 'replies', 'messages', 'exact', 'Authored messages of the day.', 'Help Scout (replies sent), Front (messages sent), Zendesk (public comments).'),
  ('agent_daily', 'notes', 'messages', 'exact', 'Notes of the day that have a user_id.', null),
  ('agent_daily', 'first_responses', 'messages', 'exact', 'Authored messages of the day that were the first response of their ticket.', null),
  ('agent_daily', 'turns_answered', 'messages', 'exact', 'Authored messages of the day that ended a turn.', null),
  ('agent_daily', 'wait_seconds', 'seconds', 'exact', 'Sum of wait_seconds of these turns.', null),
  ('agent_daily', 'wait_business_seconds', 'seconds', 'exact', 'Sum of wait_business_seconds of these turns. Null without a calendar.', null),
  ('agent_daily', 'tickets_touched', 'tickets', 'exact', 'Different tickets with an authored message or a note of that day.', 'Help Scout: conversations helped, customers helped. Handle time is not known to the source.'),
  ('arrivals_hourly', 'tickets_created', 'tickets', 'exact', 'Tickets whose created_at lies in the hour.', null),
  ('arrivals_hourly', 'inbound_messages', 'messages', 'exact', 'Inbound messages whose created_at lies in the hour.', null),
  ('customer_summary', 'tickets', 'tickets', 'exact', 'Tickets of the customer that are not deleted, spam or trash.', null),
  ('customer_summary', 'open_tickets', 'tickets', 'exact', 'Of these, those that are neither closed nor archived now: open, on hold, snoozed, or in a state that is new. As backlog_daily counts.', null),
  ('customer_summary', 'waiting_tickets', 'tickets', 'exact', 'Of open_tickets, those with a waiting_since.', null),
  ('customer_summary', 'inbound_messages', 'messages', 'exact', 'Sum of inbound_count of the tickets.', null),
  ('customer_summary', 'replies', 'messages', 'exact', 'Sum of authored_count of the tickets.', null),
  ('customer_summary', 'average_first_response_seconds', 'seconds', 'exact', 'Average of first_response_seconds of the tickets that have one.', null),
  ('customer_summary', 'reopens', 'times', 'observed', 'Sum of reopen_count of the tickets; each has its reopen_error_seconds.', null),
  ('backlog_daily', 'tickets', 'tickets', 'observed',
    'At the end of each local day: tickets that were neither closed nor archived, neither spam nor trash, and not deleted. Under state null also those that were there, and of which nobody can tell what they were: those may have been closed.',
    'Zendesk (backlog, unsolved tickets): the same, of states new, open, pending and on hold.'),
  ('backlog_daily', 'uncertain', 'tickets', 'observed', 'By how many the true number may differ: changes, into this group or out of it, that may have happened on either side of that midnight, since it lies between change_after and valid_from (of a deletion between deleted_after and valid_to); and tickets of which nothing is known. Tickets that are not among "tickets" count too, so it may be more than these. What was changed and changed back between two readings does not count.', null),
  ('tickets_as_of', 'certain', 'flag', 'observed',
    'True if the time lies before change_after of the row that follows, before deleted_after of a deletion, or in a row that has not ended. False also where the ticket was there, and its history begins later. As far as changes were seen: what was changed and changed back between two readings left no trace.', null),
  ('shelf_events', 'event', 'kind', 'observed',
    'From one row of books.shelf_volume_history to the next: no place to a place is added, place to place moved, place to none removed; a first row that has a place and no change_after is found.', null),
  ('shelf_events', 'at', 'time', 'observed', 'valid_from of that row: by then it had happened. What came and went between two readings is not here.', null),
  ('shelf_events', 'change_after', 'time', 'observed', 'It happened after this time; null where nothing is known of the time before.', null),
  ('reply_turns', 'is_answered', 'flag', 'exact', 'There is an authored message after the burst.', null),
  ('reply_turns', 'is_first_response', 'flag', 'exact', 'It is answered, and no authored message came before the burst.', null),
  ('customer_summary', 'is_mirrored', 'flag', 'exact', 'The customer has a row in helpdesk.customers, and is not deleted there.', null),
  ('customer_summary', 'waiting_since', 'time', 'exact', 'The earliest waiting_since of waiting_tickets.', 'Intercom (waiting since), of a conversation.');

-- What is here already.
set local jit = off;
-- Most rows of history are new to the planner here, which takes them for few.
analyze helpdesk.ticket_history;
insert into analytics.stored_ticket_metrics select * from analytics.ticket_metrics_defined;
analyze analytics.stored_ticket_metrics;
