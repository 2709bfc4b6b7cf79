-- Up Migration

-- A ticket that was closed when it was first seen was closed by then: the time of its first row is an upper bound and no event. Its
-- metrics say so. A closing that was seen is the exception for a new row, so rows that are written without these columns are right.

alter table analytics.stored_ticket_metrics
  add column first_closing_seen boolean not null default false,
  add column last_closing_seen boolean not null default false;

create or replace view analytics.ticket_metrics_defined with (security_barrier) as
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
    -- A closing is seen if the ticket was seen before it. Only the first time has nothing before it.
    coalesce(bool_or(i.was_seen) filter (where i.resolved and not i.was_resolved), false)
      and coalesce(bool_and(i.was_seen or not i.resolved), true) as first_closing_seen,
    coalesce(bool_or(i.was_seen) filter (where i.resolved and not i.was_resolved), false) as last_closing_seen,
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
      s.was_resolved is not null as was_seen,
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

create or replace view analytics.ticket_metrics with (security_barrier) as
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
  s.seconds_closed, s.closed_error_seconds, s.seconds_archived, s.archived_error_seconds,
  s.first_closing_seen, s.last_closing_seen
from helpdesk.tickets t
left join analytics.stored_ticket_metrics s on s.account_id = t.account_id and s.ticket_id = t.id
where t.account_id = any (array(select account_id from sync.readable_accounts));

create or replace view analytics.fact_tickets with (security_barrier) as
select m.account_id || '/' || m.ticket_id as ticket_key, m.account_id as account_key,
  m.account_id || '/' || m.customer_id as customer_key, m.account_id || '/' || m.inbox_id as inbox_key,
  m.account_id || '/' || m.user_id as agent_key, m.account_id || '/' || m.first_responder_id as first_responder_key,
  (m.created_at at time zone z.time_zone)::date as created_date,
  (m.first_closed_at at time zone z.time_zone)::date as first_closed_date,
  m.ticket_id, m.number, m.state, m.type as channel,
  m.spam is true as is_spam, m.trash is true as is_trash, coalesce(isfinite(m.deleted_at), false) as is_deleted, m.messages_complete,
  m.created_at, m.updated_at, m.first_closed_at, m.last_closed_at, m.waiting_since,
  m.message_count, m.inbound_count, m.authored_count, m.automatic_count, m.note_count, m.attachment_count, m.agents_involved,
  m.turns, m.is_outbound_initiated, m.is_one_touch, m.is_unreplied,
  m.first_response_seconds, m.first_response_business_seconds, m.first_reply_seconds, m.first_reply_business_seconds,
  m.average_wait_seconds, m.longest_wait_seconds,
  m.first_resolution_seconds, m.first_resolution_error_seconds, m.first_resolution_business_seconds,
  m.full_resolution_seconds, m.full_resolution_error_seconds, m.full_resolution_business_seconds,
  m.reopen_count, m.assignment_count, m.first_closing_seen, m.last_closing_seen
from analytics.ticket_metrics m
left join analytics.account_zones z on z.account_id = m.account_id;


do $$
declare
  said record;
begin
  for said in
    select c.oid::regclass as relation, a.attname as name, m.meaning
    from (values
      ('first_closed_at', 'By then it was resolved for the first time: closed or archived. Null if it never was seen so. Where first_closing_seen is false, it is only an upper bound: updated_at when the ticket was first seen here. An earlier closing that was undone before that left no trace.'),
      ('last_closed_at', 'By then the time began for which it is resolved, or was so last if it was reopened. Null if it never was. Where last_closing_seen is false, it is only an upper bound: updated_at when the ticket was first seen here.'),
      ('first_closing_seen', 'True if the ticket was seen unresolved before first_closed_at. False if it was resolved when it was first seen here: then first_closed_at, first_closed_date and first_resolution_seconds are only upper bounds. False also where first_closed_at is null.'),
      ('last_closing_seen', 'True if the ticket was seen unresolved before last_closed_at. False if it was resolved when it was first seen here, and not reopened and resolved again since: then last_closed_at and full_resolution_seconds are only upper bounds. False also where last_closed_at is null.'),
      ('first_resolution_seconds', 'From its creation to first_closed_at; an upper bound where first_closing_seen is false.'),
      ('full_resolution_seconds', 'From its creation to last_closed_at, while it is resolved; null otherwise. An upper bound where last_closing_seen is false.'),
      ('reopen_count', 'How often it was seen to be unresolved again, since it was first seen here.'),
      ('seconds_open', 'How long it was open since it was first seen here, in all times that have ended. One that goes on is in analytics.ticket_state_intervals. What it was before its first row of history nobody saw.'),
      ('open_error_seconds', 'seconds_open is wrong by so much at most, of the time since the ticket was first seen here; null: by how much is not known.'),
      ('seconds_hold', 'How long it was on hold since it was first seen here, in all times that have ended. What it was before its first row of history nobody saw.'),
      ('hold_error_seconds', 'seconds_hold is wrong by so much at most, of the time since the ticket was first seen here; null: by how much is not known.'),
      ('seconds_snoozed', 'How long it was snoozed since it was first seen here, in all times that have ended. What it was before its first row of history nobody saw.'),
      ('snoozed_error_seconds', 'seconds_snoozed is wrong by so much at most, of the time since the ticket was first seen here; null: by how much is not known.'),
      ('seconds_closed', 'How long it was closed since it was first seen here, in all times that have ended. What it was before its first row of history nobody saw.'),
      ('closed_error_seconds', 'seconds_closed is wrong by so much at most, of the time since the ticket was first seen here; null: by how much is not known.'),
      ('seconds_archived', 'How long it was archived since it was first seen here, in all times that have ended. What it was before its first row of history nobody saw.'),
      ('archived_error_seconds', 'seconds_archived is wrong by so much at most, of the time since the ticket was first seen here; null: by how much is not known.')
    ) m (name, meaning)
    join pg_class c on c.oid in ('analytics.ticket_metrics_defined'::regclass, 'analytics.stored_ticket_metrics'::regclass,
      'analytics.ticket_metrics'::regclass, 'analytics.fact_tickets'::regclass)
    join pg_attribute a on a.attrelid = c.oid and a.attname = m.name
  loop
    execute format('comment on column %s.%I is %L', said.relation, said.name, said.meaning);
  end loop;
end
$$;
comment on column analytics.fact_tickets.first_closed_date is
  'The day of first_closed_at; an upper bound where first_closing_seen is false. Joins analytics.dim_date.date_key.';
comment on column analytics.ticket_state_intervals.valid_from is
  'In this state from then on. Of the first time of a ticket it is only an upper bound: updated_at when it was first seen here.';

update analytics.metric_definitions d set formula = n.formula
from (values
  ('first_closed_at',
    'valid_from of the first time in which the state was closed or archived. It happened at most first_closed_error_seconds before. If that is the first row of the ticket (first_closing_seen is false), valid_from is updated_at when the ticket was first seen: only an upper bound. A closing that was undone before the ticket was first seen, or between two readings, left no trace.'),
  ('last_closed_at',
    'valid_from of the last time at which a state other than closed or archived turned into one of them, or at which the ticket was first seen in one of them (last_closing_seen is false): then valid_from is updated_at when it was first seen, only an upper bound. archived after closed is one such time, that of closed.'),
  ('first_resolution_seconds',
    'first_closed_at − created_at of the ticket. An upper bound where first_closing_seen is false.'),
  ('full_resolution_seconds',
    'last_closed_at − created_at while the state is closed or archived; null otherwise. An upper bound where last_closing_seen is false.'),
  ('reopen_count',
    'How often closed or archived was followed by another state, since the ticket was first seen.'),
  ('seconds_open',
    'Sum of valid_to − valid_from over times in the state open that have ended. Times before valid_from of the first row are not in it: reopen_error_seconds has how long they were.'),
  ('seconds_hold',
    'Sum of valid_to − valid_from over times in the state hold that have ended. Times before valid_from of the first row are not in it: reopen_error_seconds has how long they were.'),
  ('seconds_snoozed',
    'Sum of valid_to − valid_from over times in the state snoozed that have ended. Times before valid_from of the first row are not in it: reopen_error_seconds has how long they were.'),
  ('seconds_closed',
    'Sum of valid_to − valid_from over times in the state closed that have ended. Times before valid_from of the first row are not in it: reopen_error_seconds has how long they were.'),
  ('seconds_archived',
    'Sum of valid_to − valid_from over times in the state archived that have ended. Times before valid_from of the first row are not in it: reopen_error_seconds has how long they were.'),
  ('open_error_seconds',
    'Over the times that seconds_open adds up, the sum of valid_from − change_after of their begins and of their ends. Other times before the first row of the ticket are not in it.')) n (name, formula)
where d.relation = 'ticket_metrics' and d.name = n.name;
insert into analytics.metric_definitions (relation, name, unit, kind, formula, other_vendors) values
  ('ticket_metrics', 'first_closing_seen', 'flag', 'exact',
    'The time of first_closed_at is not the first one of the ticket: it was seen in another state before.', null),
  ('ticket_metrics', 'last_closing_seen', 'flag', 'exact',
    'The time of last_closed_at is not the first one of the ticket: it was seen in another state before.', null);

do $$
declare
  names constant text[] := array(
    select quote_ident(a.attname) from pg_attribute a
    where a.attrelid = 'analytics.stored_ticket_metrics'::regclass and a.attnum > 0 order by a.attnum);
  besides_key constant text[] := names[3:];
  of_turn constant text[] := array(
    select quote_ident(a.attname) from pg_attribute a
    where a.attrelid = 'analytics.stored_reply_turns'::regclass and a.attnum > 3 order by a.attnum);
begin
  execute format($text$
create or replace function analytics.keep_metrics(accounts text[], tickets text[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $body$
begin
  -- The turns first: the metrics are counted from them. Turns are numbered from 1, so those behind the last one are gone.
  with defined as materialized (
    select k.account_id, k.ticket_id, d.turns
    from (select distinct k.account_id, k.ticket_id from unnest(accounts, tickets) as k (account_id, ticket_id)) k
    cross join lateral (
      select array_agg(d) as turns from analytics.reply_turns_defined d
      where d.account_id = k.account_id and d.ticket_id = k.ticket_id) d),
  gone as (
    delete from analytics.stored_reply_turns s using defined d
    where s.account_id = d.account_id and s.ticket_id = d.ticket_id and s.turn > coalesce(cardinality(d.turns), 0))
  insert into analytics.stored_reply_turns as s
  select n.* from defined d cross join lateral unnest(d.turns) n
  where not exists (
    select from analytics.stored_reply_turns s
    where s.account_id = d.account_id and s.ticket_id = d.ticket_id and s.turn = n.turn and s is not distinct from n
    offset 0)
  on conflict (account_id, ticket_id, turn) do update set (%7$s) = row (excluded.%8$s);

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
    array_to_string(besides_key, ', '), array_to_string(besides_key, ', excluded.'),
    array_to_string(of_turn, ', '), array_to_string(of_turn, ', excluded.'));
end
$$;

-- Tickets that are here already, and were seen before they were closed.
update analytics.stored_ticket_metrics s
set first_closing_seen = not c.resolved_at_first, last_closing_seen = true
from (
  select i.account_id, i.ticket_id, bool_or(i.resolved and i.was_resolved is null) as resolved_at_first
  from (
    select v.account_id, v.ticket_id, d.resolved, lag(d.resolved) over (partition by v.account_id, v.ticket_id order by v.valid_from) as was_resolved
    from analytics.ticket_state_intervals v
    cross join lateral (select coalesce(v.state in ('closed', 'archived'), false) as resolved) d) i
  group by i.account_id, i.ticket_id
  having bool_or(i.resolved and not i.was_resolved)) c
where s.account_id = c.account_id and s.ticket_id = c.ticket_id;
