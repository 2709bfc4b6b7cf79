-- Views and macros of the help desk in the lake, in the SQL of DuckDB. Those of the same name in the warehouse say what they mean.
-- They read safe and analytics only, which every lake has.

create or replace macro analytics.is_backlog(state, spam, trash) as
  (state is null or state not in ('closed', 'archived')) and spam is not true and trash is not true;

create or replace macro analytics.is_countable(spam, trash, deleted_at) as
  spam is not true and trash is not true and deleted_at is null;

create or replace macro analytics.message_kind(type, direction, user_id) as case
  when type = 'reply' and direction = 'in' then 'inbound'
  when type = 'reply' and direction = 'out' then case when user_id is null then 'automatic' else 'authored' end
  when type = 'note' then 'note'
  else 'other' end;

create or replace view analytics.message_kinds as
select m.account_id, m.id as message_id, m.ticket_id, analytics.message_kind(m.type, m.direction, m.user_id) as kind, m.user_id,
  m.created_at, m.position
from safe.messages m;

create or replace view analytics.countable_tickets as
select * exclude (spam, trash, deleted_at)
from analytics.ticket_metrics m
where analytics.is_countable(m.spam, m.trash, m.deleted_at);

create or replace view analytics.ticket_history as
select h.account_id, h.ticket_id, h.state, h.user_id, h.inbox_id, h.label_ids, h.spam, h.trash, h.valid_from, h.valid_to,
  h.change_after, h.deleted_after, h.is_first, h.change_by
from safe.ticket_history h;

create or replace view analytics.agent_daily as
select d.account_key as account_id, d.day, substr(d.user_key, length(d.account_key) + 2) as user_id,
  sum(d.replies)::int as replies, sum(d.notes)::int as notes, sum(d.first_responses)::int as first_responses,
  sum(d.turns_answered)::int as turns_answered, sum(d.wait_seconds) as wait_seconds,
  case when count(d.wait_business_seconds) = count(d.wait_seconds) then sum(d.wait_business_seconds) end as wait_business_seconds,
  count(distinct d.ticket_key)::int as tickets_touched
from (
  select m.account_key, m.created_date as day, m.user_key, m.ticket_key, (m.kind = 'authored')::int as replies,
    (m.kind = 'note')::int as notes, 0 as first_responses, 0 as turns_answered, null::double as wait_seconds,
    null::double as wait_business_seconds
  from analytics.fact_messages m
  where m.kind in ('authored', 'note') and m.user_key is not null and m.created_at is not null
  union all
  select r.account_key, r.answered_date, r.user_key, r.ticket_key, 0, 0, r.is_first_response::int, 1, r.wait_seconds,
    r.wait_business_seconds
  from analytics.fact_turns r
  where r.answered_at is not null) d
group by d.account_key, d.day, d.user_key;

-- The hour begins so long before, by the clock of the zone.
create or replace view analytics.arrivals_hourly as
select b.account_id, b.created_at - (b.local - date_trunc('hour', b.local)) as hour, b.time_zone,
  isodow(b.local)::int as local_weekday, hour(b.local)::int as local_hour, sum(b.tickets)::int as tickets_created,
  sum(b.messages)::int as inbound_messages
from (
  select e.account_key as account_id, e.created_at, e.tickets, e.messages, coalesce(i.time_zone, a.time_zone) as time_zone,
    timezone(coalesce(i.time_zone, a.time_zone), e.created_at) as local
  from (
    select t.account_key, t.inbox_key, t.created_at, 1 as tickets, 0 as messages
    from analytics.fact_tickets t
    where t.created_at is not null
    union all
    select m.account_key, m.inbox_key, m.created_at, 0, 1
    from analytics.fact_messages m
    where m.kind = 'inbound' and m.created_at is not null) e
  join analytics.account_zones a on a.account_id = e.account_key
  left join analytics.inbox_zones i on i.account_id = e.account_key and i.account_id || '/' || i.inbox_id = e.inbox_key) b
group by all;

create or replace view analytics.customer_summary as
select coalesce(c.account_id, t.account_id) as account_id, coalesce(c.id, t.customer_id) as customer_id,
  c.id is not null and c._deleted_at is null as is_mirrored,
  coalesce(t.tickets, 0)::int as tickets, coalesce(t.open_tickets, 0)::int as open_tickets,
  coalesce(t.waiting_tickets, 0)::int as waiting_tickets, t.waiting_since,
  t.first_ticket_at, t.last_ticket_at,
  coalesce(t.inbound_messages, 0)::int as inbound_messages, coalesce(t.replies, 0)::int as replies,
  t.last_inbound_at, t.average_first_response_seconds, coalesce(t.reopens, 0)::int as reopens,
  case when t.tickets is null then 0 else t.reopen_error_seconds end as reopen_error_seconds
from safe.customers c
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

create or replace view analytics.message_senders as
select f.account_id, f.ticket_type, f.address, case when f.address is not null then exists (
    select 1 from safe.contacts c where c.account_id = f.account_id and c.value = f.address) end as is_known, f.messages
from (
  select m.account_id, t.type as ticket_type, m.from_address as address, count(*) as messages
  from safe.messages m
  join analytics.countable_tickets t on t.account_id = m.account_id and t.ticket_id = m.ticket_id
  where m.direction = 'in'
  group by m.account_id, t.type, m.from_address) f;

-- The rule of analytics.is_overdue in the warehouse.
create or replace macro analytics.is_overdue(seconds, target_seconds, until, due_at) as
  case when seconds <> target_seconds then seconds > target_seconds when seconds is not null then until > due_at end;

create or replace view analytics.ticket_targets as
with own as (
  select g.account_id, g.inbox_id, g.label_id, g.metric, g.target_seconds, g.valid_from, g.valid_to from analytics.service_targets g),
item as (
  select m.*, l.label_ids, k.metric, k.is_reply, coalesce(r.turn, 0) as turn, case when k.is_reply then r.waiting_since else m.created_at end as begins_at,
    r.answered_at, r.wait_seconds, r.wait_business_seconds, analytics.calendar_of(m.account_id, m.inbox_id) as calendar,
    case when k.is_reply then r.is_answered else coalesce(m.state in ('closed', 'archived'), false) end as is_done
  from analytics.countable_tickets m
  join safe.tickets l on l.account_id = m.account_id and l.id = m.ticket_id
  join (select distinct account_id, metric, metric in ('first_response', 'next_reply') as is_reply from own) k on k.account_id = m.account_id
  left join analytics.reply_turns r on r.account_id = m.account_id and r.ticket_id = m.ticket_id and k.is_reply
    and case k.metric when 'first_response' then r.turn = 1 and not m.is_outbound_initiated else r.turn > 1 or m.is_outbound_initiated end
  where not k.is_reply or r.turn is not null),
-- Of those in force the most specific one, and of two labels the shorter one.
best as (
  select i.account_id, i.ticket_id, i.metric, i.turn, arg_min(g.target_seconds,
    case when g.label_id is null then 8589934592 else 0 end + case when g.inbox_id is null then 4294967296 else 0 end + g.target_seconds) as target_seconds
  from item i
  join own g on g.account_id = i.account_id and g.metric = i.metric
  where (g.inbox_id is null or g.inbox_id = i.inbox_id) and (g.label_id is null or list_contains(i.label_ids, g.label_id))
    and (g.valid_from is null or i.begins_at is null or i.begins_at >= g.valid_from) and (g.valid_to is null or i.begins_at < g.valid_to)
  group by i.account_id, i.ticket_id, i.metric, i.turn),
-- A reply moves its ticket. So a ticket whose messages are complete had none by the time up to which tickets are.
timed as (
  select t.*, b.target_seconds, case
      when not t.is_done then case when t.begins_at is not null then greatest(h.complete_through, t.updated_at, t.begins_at) end
      when t.is_reply then t.answered_at
      else t.last_closed_at end as until,
    t.last_closed_at - to_seconds(case when t.is_done then t.full_resolution_error_seconds else 0 end) as closed_after
  from item t
  join best b on b.account_id = t.account_id and b.ticket_id = t.ticket_id and b.metric = t.metric and b.turn = t.turn
  left join analytics.completeness h on h.account_id = t.account_id and h.source = 'helpdesk' and h.stream = 'tickets'),
held as (
  select x.account_id, x.ticket_id, sum(case
    when x.calendar is null then analytics.seconds_between(x.since, x.until) else analytics.business_seconds(x.calendar, x.since, x.until) end) as seconds
  from (
    select t.account_id, t.ticket_id, t.calendar, greatest(h.valid_from, t.created_at) as since, least(h.valid_to, t.until) as until
    from timed t
    join safe.ticket_history h on h.account_id = t.account_id and h.ticket_id = t.ticket_id and h.state = 'hold'
    where t.metric = 'resolution_without_hold') x
  where x.since < x.until
  group by x.account_id, x.ticket_id),
span as (
  select t.* exclude (target_seconds), t.target_seconds as own_seconds, coalesce(h.seconds, 0) as held_seconds,
    least(t.reopen_error_seconds, coalesce(h.seconds, 0)) as held_error_seconds, t.target_seconds + coalesce(h.seconds, 0) as target_seconds
  from timed t
  left join held h on h.account_id = t.account_id and h.ticket_id = t.ticket_id and t.metric = 'resolution_without_hold'),
-- Business time before each of these times, as in analytics.business_seconds. Joins take a fraction of the time of its subqueries.
worked as (
  select s.*, coalesce(b.seconds_before + analytics.seconds_between(b.opens_at, least(s.begins_at, b.closes_at)), 0) as before_begins,
    coalesce(d.seconds_before + analytics.seconds_between(d.opens_at, least(s.until, d.closes_at)), 0) as before_until,
    coalesce(e.seconds_before + analytics.seconds_between(e.opens_at, least(s.closed_after, e.closes_at)), 0) as before_closed
  from span s
  asof left join analytics.calendar_spans b on b.calendar = s.calendar and b.opens_at <= s.begins_at
  asof left join analytics.calendar_spans d on d.calendar = s.calendar and d.opens_at <= s.until
  asof left join analytics.calendar_spans e on e.calendar = s.calendar and e.opens_at <= s.closed_after),
reckoned as (
  select w.*, w.before_begins + w.target_seconds as before_due,
    case
      when not w.is_done then case
        when w.calendar is null then analytics.seconds_between(w.begins_at, w.until)
        when w.begins_at is not null then w.before_until - w.before_begins end
      when w.is_reply then case when w.calendar is null then w.wait_seconds else w.wait_business_seconds end
      when w.calendar is null then w.full_resolution_seconds
      else w.full_resolution_business_seconds end as seconds,
    case
      when w.is_reply then case when w.messages_complete then 0 end
      when w.metric = 'resolution_without_hold' then w.reopen_error_seconds
      when w.is_done then w.full_resolution_error_seconds
      else 0 end as error_seconds
  from worked w),
due as (
  select r.*, case
    when r.calendar is null then r.begins_at + to_seconds(r.target_seconds)
    when r.begins_at >= timestamptz '2000-01-01 00:00:00+00' then u.opens_at + to_microseconds(((r.before_due - u.seconds_before) * 1000000)::bigint)
    end as due_at
  from reckoned r
  asof left join (
    select s.calendar, s.opens_at, s.seconds_before, s.seconds_before + analytics.seconds_between(s.opens_at, s.closes_at) as seconds_through
    from analytics.calendar_spans s) u on u.calendar = r.calendar and u.seconds_through >= r.before_due)
select r.account_id, r.ticket_id, r.metric, r.turn, r.customer_id, r.inbox_id, r.user_id, r.created_at, r.messages_complete,
  r.own_seconds as target_seconds, r.calendar is not null as in_business_time, r.is_done, r.begins_at, r.due_at, r.seconds - r.held_seconds as seconds,
  r.error_seconds,
  case
    -- Less time on hold would be more time without.
    when not analytics.is_overdue(r.seconds, r.target_seconds, r.until, r.due_at) and r.seconds + r.held_error_seconds <= r.target_seconds then
      case when r.is_done then 'met' when r.seconds - r.held_seconds >= 0.75 * r.own_seconds then 'at_risk' else 'running' end
    when r.seconds - r.error_seconds > r.target_seconds then 'missed'
    -- The error is one of the clock. Of a night it may be no business time at all.
    when (r.metric <> 'resolution_without_hold' or r.reopen_error_seconds = 0) and analytics.is_overdue(case
      when r.error_seconds = 0 then r.seconds
      when r.calendar is null then r.seconds - r.error_seconds
      when r.error_seconds is not null then r.before_closed - r.before_begins end, r.target_seconds,
      r.until - to_seconds(r.error_seconds), r.due_at) then 'missed'
    else 'uncertain' end as outcome,
  case when r.is_reply then r.messages_complete else not r.is_done or r.last_closing_seen end as is_counted
from due r;

create or replace view analytics.fact_targets as
select concat_ws('/', g.account_id, g.ticket_id, g.metric, case when g.metric = 'next_reply' then g.turn end) as target_key, t.ticket_key, t.account_key,
  t.customer_key, t.inbox_key, t.user_key, t.created_date, timezone(coalesce(own.time_zone, z.time_zone), g.begins_at)::date as begins_date, g.created_at,
  g.metric, g.turn, g.target_seconds, g.in_business_time, g.is_done, g.begins_at, g.due_at, g.seconds,
  g.error_seconds, g.outcome, g.messages_complete, g.is_counted
from analytics.ticket_targets g
join analytics.fact_tickets t on t.account_key = g.account_id and t.ticket_id = g.ticket_id
left join analytics.inbox_zones own on own.account_id = g.account_id and own.inbox_id = g.inbox_id
left join analytics.account_zones z on z.account_id = g.account_id;

create or replace macro analytics.tickets_as_of(moment) as table
select v.account_id, v.ticket_id, t.number, t.customer_id, case when v.known then v.inbox_id end as inbox_id,
  case when v.known then v.user_id end as user_id, case when v.known then v.state end as state, t.type,
  case when v.known then v.label_ids end as label_ids, case when v.known then v.spam end as spam, case when v.known then v.trash end as trash,
  t.created_at, case when v.known then v.valid_from end as valid_from, case when v.known then v.valid_to end as valid_to,
  v.known and coalesce(v.change_by <= v.asked, true) and case
    when v.valid_to is null then true
    -- If no row follows directly, the ticket was deleted.
    when v.next_from is distinct from v.valid_to then coalesce(v.deleted_after >= v.asked, false)
    else coalesce(v.next_after >= v.asked, false) and coalesce(v.deleted_after >= v.asked, true) end as certain
from (
  -- A ticket that was first seen later has the row of that time, without its values.
  select h.*, q.asked, h.valid_from <= q.asked as known
  from (
    select h.*, lead(h.valid_from) over w as next_from, lead(h.change_after) over w as next_after
    from safe.ticket_history h
    window w as (partition by h.account_id, h.ticket_id order by h.valid_from)) h
  cross join (select moment as asked) q
  where (h.valid_from <= q.asked or h.is_first) and (h.valid_to is null or h.valid_to > q.asked)) v
join safe.tickets t on t.account_id = v.account_id and t.id = v.ticket_id
where t.created_at <= v.asked or t.created_at is null and v.known;

-- Days from from_day to to_day that were over at the moment: a day ends with the first instant of the next one in the zone.
create or replace macro analytics.days_over(moment, time_zone, from_day, to_day) as case when moment is not null then
  least(greatest(date_diff('day', from_day, timezone(time_zone, moment - interval 1 microsecond)::date), 0), date_diff('day', from_day, to_day) + 1) end;

-- analytics.backlog_daily for a list of {time_zone, from_day, to_day}.
create or replace macro analytics.backlog_of_zones(zones) as table
with zone as (select unnest(zones, recursive := true)),
-- Each row with the one before it.
version as (
  select h.*, analytics.is_backlog(h.state, h.spam, h.trash) as counts,
    lag({'state': h.state, 'inbox_id': h.inbox_id, 'user_id': h.user_id, 'valid_from': h.valid_from, 'valid_to': h.valid_to,
      'counts': analytics.is_backlog(h.state, h.spam, h.trash)}) over (partition by h.account_id, h.ticket_id order by h.valid_from) as before
  from safe.ticket_history h),
row as (
  select v.*, z.*, case when v.before.valid_to = v.valid_from then v.before end as o,
    analytics.days_over(v.valid_from, z.time_zone, z.from_day, z.to_day) as began,
    analytics.days_over(v.valid_to, z.time_zone, z.from_day, z.to_day) as ended
  from version v cross join zone z
  -- Open work of these days, and versions that began, or were shown, since the first of them.
  where v.counts and (v.valid_to is null or v.valid_to >= z.from_day - 1) or v.valid_from >= z.from_day - 1 or v.change_by >= z.from_day - 1),
-- Ends of days after the first number, up to the second.
span as (
  select r.time_zone, r.account_id, r.state, r.inbox_id, r.user_id, r.began as after,
    coalesce(r.ended, date_diff('day', r.from_day, r.to_day) + 1) as through, 1 as tickets, 0 as uncertain
  from row r
  where r.counts
  union all
  -- Values before the first row.
  select r.time_zone, r.account_id, null, null, null,
    analytics.days_over(r.change_after + interval 1 second, r.time_zone, r.from_day, r.to_day), r.began, 1, 1
  from row r
  where r.is_first
  union all
  -- Values between the first row and the reply that showed them.
  select r.time_zone, r.account_id, null, null, null, r.began,
    analytics.days_over(r.change_by, r.time_zone, r.from_day, r.to_day), 0, 1
  from row r
  where r.is_first
  union all
  -- A change that may have happened before or after the end of a day makes both the old and the new values uncertain.
  select c.time_zone, c.account_id, c.value.state, c.value.inbox_id, c.value.user_id, c.after, c.through, 0, 1
  from (
    select r.time_zone, r.account_id,
      greatest(case when r.is_first then r.began else coalesce(
        analytics.days_over(r.change_after + interval 1 microsecond, r.time_zone, r.from_day, r.to_day), 0) end,
        analytics.days_over(r.o.valid_from, r.time_zone, r.from_day, r.to_day)) as after,
      analytics.days_over(greatest(r.valid_from, r.change_by), r.time_zone, r.from_day, r.to_day) as through,
      unnest([{'counts': r.o.counts, 'state': r.o.state, 'inbox_id': r.o.inbox_id, 'user_id': r.o.user_id},
        {'counts': r.counts, 'state': r.state, 'inbox_id': r.inbox_id, 'user_id': r.user_id}]) as value
    from row r
    where not (coalesce(r.o.counts, false) and r.counts and r.state is not distinct from r.o.state
      and r.inbox_id is not distinct from r.o.inbox_id and r.user_id is not distinct from r.o.user_id)) c
  where c.value.counts
  union all
  -- The same for a deletion.
  select r.time_zone, r.account_id, r.state, r.inbox_id, r.user_id,
    greatest(r.began, analytics.days_over(r.deleted_after + interval 1 microsecond, r.time_zone, r.from_day, r.to_day)), r.ended, 0, 1
  from row r
  where r.counts and r.deleted_after is not null),
event as (
  select s.time_zone, s.account_id, s.state, s.inbox_id, s.user_id, s.after + 1 as n, s.tickets, s.uncertain from span s where s.after < s.through
  union all
  select s.time_zone, s.account_id, s.state, s.inbox_id, s.user_id, s.through + 1, -s.tickets, -s.uncertain from span s where s.after < s.through),
day as (
  select z.time_zone, n, z.from_day + n::int - 1 as day
  from zone z, unnest(range(1, date_diff('day', z.from_day, z.to_day) + 2)) g (n)),
total as (
  select b.time_zone, b.account_id, b.state, b.inbox_id, b.user_id, b.n, sum(sum(b.tickets)) over w as tickets,
    sum(sum(b.uncertain)) over w as uncertain
  from (
    select * from event
    union all
    select k.*, d.n, 0, 0
    from (select distinct time_zone, account_id, state, inbox_id, user_id from event) k join day d on d.time_zone = k.time_zone) b
  group by b.time_zone, b.account_id, b.state, b.inbox_id, b.user_id, b.n
  window w as (partition by b.time_zone, b.account_id, b.state, b.inbox_id, b.user_id order by b.n))
select t.time_zone, t.account_id, d.day, t.state, t.inbox_id, t.user_id, t.tickets::bigint as tickets, t.uncertain::bigint as uncertain
from total t join day d on d.time_zone = t.time_zone and d.n = t.n
where t.tickets > 0 or t.uncertain > 0;

create or replace macro analytics.backlog_daily(from_day, to_day, time_zone := 'UTC') as table
select * exclude (time_zone)
from analytics.backlog_of_zones([{'time_zone': time_zone, 'from_day': from_day::date, 'to_day': to_day::date}]);

create or replace view analytics.fact_backlog as
with zones as (
  select z.account_id, z.time_zone, timezone(z.time_zone, c.complete_through)::date - 1 as last_day
  from (
    select a.account_id, a.time_zone from analytics.account_zones a
    union
    select i.account_id, i.time_zone from analytics.inbox_zones i) z
  join analytics.completeness c on c.account_id = z.account_id and c.source = 'helpdesk' and c.stream = 'tickets'
  where c.complete_through is not null)
select concat_ws('/', b.account_id, b.day, coalesce(b.state, '?'), coalesce(b.inbox_id, '?'), coalesce(b.user_id, '?')) as backlog_key,
  b.day as date_key, b.account_id as account_key, b.account_id || '/' || b.inbox_id as inbox_key, b.account_id || '/' || b.user_id as user_key,
  b.state, b.tickets, b.uncertain
from analytics.backlog_of_zones((
  select list({'time_zone': d.time_zone, 'from_day': d.from_day, 'to_day': d.to_day})
  from (select z.time_zone, min(z.last_day) - 89 as from_day, max(z.last_day) as to_day from zones z group by z.time_zone) d)) b
left join analytics.inbox_zones own on own.account_id = b.account_id and own.inbox_id = b.inbox_id and own.is_own
join analytics.account_zones whole on whole.account_id = b.account_id
-- The last day that is over wherever the account has an inbox, so that all its inboxes have the same days.
join (select z.account_id, min(z.last_day) as last_day from zones z group by z.account_id) l on l.account_id = b.account_id
where coalesce(own.time_zone, whole.time_zone) = b.time_zone and b.day between l.last_day - 89 and l.last_day;

create or replace view analytics.fact_backlog_months as
with zone as (
  select z.account_id, z.time_zone, min(timezone(z.time_zone, c.complete_through)::date - 1) over (partition by z.account_id) as last_day
  from (
    select a.account_id, a.time_zone from analytics.account_zones a
    union
    select i.account_id, i.time_zone from analytics.inbox_zones i) z
  join analytics.completeness c on c.account_id = z.account_id and c.source = 'helpdesk' and c.stream = 'tickets'),
-- Each row with the one before it and the one after.
version as (
  select h.*, analytics.is_backlog(h.state, h.spam, h.trash) as counts, lead(h.valid_from) over w as next_from, lead(h.change_after) over w as next_after,
    lag({'state': h.state, 'inbox_id': h.inbox_id, 'user_id': h.user_id, 'label_ids': h.label_ids, 'valid_from': h.valid_from, 'valid_to': h.valid_to,
      'change_by': h.change_by, 'counts': analytics.is_backlog(h.state, h.spam, h.trash)}) over w as o
  from safe.ticket_history h
  window w as (partition by h.account_id, h.ticket_id order by h.valid_from)),
span as (
  select v.account_id, v.ticket_id, v.state, v.user_id, v.inbox_id, v.label_ids, v.valid_from as since, v.valid_to as until, v.change_by, v.deleted_after,
    v.next_from, v.next_after, true as is_counted, true as is_known
  from version v
  where v.counts
  union all
  select v.account_id, v.ticket_id, null, null, null, null, v.change_after + interval 1 second, v.valid_from, null, null, null, null, true, false
  from version v
  where v.is_first
  union all
  -- Until the reply that showed the first row it may still have been something else.
  select v.account_id, v.ticket_id, null, null, null, null, v.valid_from, least(v.change_by, v.valid_to), null, null, null, null, false, false
  from version v
  where v.is_first and v.change_by > v.valid_from and not v.counts
  union all
  select v.account_id, v.ticket_id, v.state, v.user_id, v.inbox_id, v.label_ids,
    greatest(v.o.valid_from, v.o.change_by, v.change_after + interval 1 microsecond), v.valid_from, null, null, null, null, false, false
  from version v
  where v.counts and not v.is_first and v.o.valid_to = v.valid_from and not v.o.counts
  union all
  select v.account_id, v.ticket_id, v.o.state, v.o.user_id, v.o.inbox_id, v.o.label_ids, v.valid_from, least(v.change_by, v.valid_to), null, null, null, null,
    false, false
  from version v
  where v.change_by > v.valid_from and not v.is_first and not v.counts and v.o.valid_to = v.valid_from and v.o.counts),
day as (
  select s.*, z.time_zone, z.last_day, unnest(generate_series(date_trunc('month', timezone(z.time_zone, s.since)),
    least(timezone(z.time_zone, s.until), z.last_day::timestamp), interval 1 month)) as month
  from span s
  left join analytics.inbox_zones own on own.account_id = s.account_id and own.inbox_id = s.inbox_id and own.is_own
  join analytics.account_zones w on w.account_id = s.account_id
  join zone z on z.account_id = s.account_id and z.time_zone = coalesce(own.time_zone, w.time_zone)),
-- Of a midnight that comes twice, the first one.
moment as (
  select m.* replace (case when timezone(m.time_zone, m.at_end - interval 1 hour) >= m.date_key + interval 1 day then m.at_end - interval 1 hour else m.at_end end as at_end)
  from (
    select d.*, least(last_day(d.month), d.last_day) as date_key, timezone(d.time_zone, (least(last_day(d.month), d.last_day) + 1)::timestamp) as at_end
    from day d) m),
label as (
  select m.*, unnest(case when len(list_filter(m.label_ids, lambda l: l is not null)) > 0 then list_distinct(m.label_ids) else [null] end) as label_id
  from moment m
  where m.since <= m.at_end and (m.until is null or m.until > m.at_end))
select concat_ws('/', l.account_id, l.date_key, l.ticket_id, l.label_id) as backlog_key, l.account_id || '/' || l.ticket_id as ticket_key, l.date_key,
  l.account_id as account_key, l.account_id || '/' || t.customer_id as customer_key, l.account_id || '/' || l.inbox_id as inbox_key,
  l.account_id || '/' || l.user_id as user_key, l.account_id || '/' || l.label_id as label_key, l.state, t.type as ticket_type, l.is_counted,
  l.is_known and coalesce(l.change_by <= l.at_end, true) and coalesce(l.deleted_after >= l.at_end, true) and case
    when l.until is null then true
    when l.next_from = l.until then coalesce(l.next_after >= l.at_end, false)
    else l.deleted_after is not null end as is_certain, l.ticket_id
from label l
join safe.tickets t on t.account_id = l.account_id and t.id = l.ticket_id;
