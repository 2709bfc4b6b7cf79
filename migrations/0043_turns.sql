-- Up Migration

-- Turns are stored beside the metrics, by the same call. A join of all turns with anything had to work all of them out first, and
-- PostgreSQL took them for one row: it knows nothing of what comes out of windows and groups. Of a table it knows.

create view analytics.reply_turns_defined with (security_barrier) as
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
join helpdesk.tickets t on t.account_id = g.account_id and t.id = g.ticket_id;
comment on view analytics.reply_turns_defined is
  'What a turn is: analytics.reply_turns shows the same, stored. This is worked out anew from the messages; it is here to be read and to be compared with.';

create table analytics.stored_reply_turns (like analytics.reply_turns_defined);
alter table analytics.stored_reply_turns add primary key (account_id, ticket_id, turn);
comment on table analytics.stored_reply_turns is
  'analytics.reply_turns_defined of every ticket, written in the transaction that changes it. Read analytics.reply_turns.';

create or replace view analytics.reply_turns with (security_barrier) as
select s.account_id, s.ticket_id, s.turn, s.waiting_since, s.answered_at, s.wait_seconds, s.wait_business_seconds, s.user_id,
  s.inbound_messages, s.first_message_id, s.reply_message_id, s.is_answered, s.is_first_response
from analytics.stored_reply_turns s
where s.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.reply_turns is
  'Who waited for whom, as of the last commit that brought something of the ticket: one row for each burst of customers'' messages and the reply by one of the team that ends it. Automatic replies and notes end no wait.';
do $$
declare
  said record;
begin
  for said in
    select c.relation, a.attname as name, col_description(a.attrelid, a.attnum) as meaning
    from pg_attribute a
    cross join (values ('analytics.reply_turns_defined'), ('analytics.stored_reply_turns')) c (relation)
    where a.attrelid = 'analytics.reply_turns'::regclass and a.attnum > 0
  loop
    execute format('comment on column %s.%I is %L', said.relation, said.name, said.meaning);
  end loop;
end
$$;

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
comment on function analytics.keep_metrics(text[], text[]) is
  'Stores the turns and the metrics of these tickets as they are defined: account by account, ticket by ticket. Triggers do it; by hand it is analytics.recompute.';

create or replace function analytics.keep_metrics_of_ticket() returns trigger
language plpgsql
as $$
begin
  if tg_op = 'DELETE' then
    delete from analytics.stored_ticket_metrics s where s.account_id = old.account_id and s.ticket_id = old.id;
    delete from analytics.stored_reply_turns s where s.account_id = old.account_id and s.ticket_id = old.id;
  else
    perform analytics.keep_metrics(array[new.account_id], array[new.id]);
  end if;
  return null;
end
$$;
comment on function analytics.keep_metrics_of_ticket() is
  'Brings the metrics of a ticket up to date of which something has changed that history does not tell, and removes metrics and turns of one whose row is removed.';
comment on procedure analytics.recompute(text, int) is
  'Stores the turns and the metrics of every ticket of an account (null: of all of them) anew, as after a change of a calendar. Commits as it goes: call it outside of a transaction.';

-- PostgreSQL looks for no statistics behind a security barrier. It takes an inner join of one account's rows with their zone for one
-- in 200 of them, and a loop over what is left for cheap. The zone of every account that may be read is there: a left join is the
-- same, and keeps the number of rows. And a time that is null is one in 200 as long as nothing is analysed, a flag is one in two.
create or replace view analytics.agent_daily with (security_barrier) as
select d.account_id, d.day, d.user_id,
  sum(d.replies)::int as replies, sum(d.notes)::int as notes,
  sum(d.first_responses)::int as first_responses, sum(d.turns_answered)::int as turns_answered,
  sum(d.wait_seconds) as wait_seconds, sum(d.wait_business_seconds) as wait_business_seconds,
  count(distinct d.ticket_id)::int as tickets_touched
from (
  select k.account_id, (k.created_at at time zone z.time_zone)::date as day, k.user_id, k.ticket_id,
    (k.kind = 'authored')::int as replies, (k.kind = 'note')::int as notes,
    0 as first_responses, 0 as turns_answered, null::float8 as wait_seconds, null::float8 as wait_business_seconds
  from analytics.message_kinds k left join analytics.account_zones z using (account_id)
  where k.kind in ('authored', 'note') and k.user_id is not null and k.created_at is not null
  union all
  select r.account_id, (r.answered_at at time zone z.time_zone)::date, r.user_id, r.ticket_id,
    0, 0, r.is_first_response::int, 1, r.wait_seconds, r.wait_business_seconds
  from analytics.reply_turns r left join analytics.account_zones z using (account_id)
  where r.answered_at is not null) d
group by d.account_id, d.day, d.user_id;
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
  m.reopen_count, m.assignment_count
from analytics.ticket_metrics m
left join analytics.account_zones z on z.account_id = m.account_id;

create or replace view analytics.fact_messages with (security_barrier) as
select k.account_id || '/' || k.message_id as message_key, k.account_id || '/' || k.ticket_id as ticket_key, k.account_id as account_key,
  k.account_id || '/' || t.customer_id as customer_key, k.account_id || '/' || t.inbox_id as inbox_key,
  k.account_id || '/' || k.user_id as agent_key, l.at::date as created_date, extract(hour from l.at)::int as created_hour,
  k.created_at, k.kind, t.type as channel, k.position
from analytics.message_kinds k
left join analytics.account_zones z on z.account_id = k.account_id
left join helpdesk.tickets t on t.account_id = k.account_id and t.id = k.ticket_id
cross join lateral (select k.created_at at time zone z.time_zone as at) l;

create or replace view analytics.fact_turns with (security_barrier) as
select r.account_id || '/' || r.ticket_id || '/' || r.turn as turn_key, r.account_id || '/' || r.ticket_id as ticket_key,
  r.account_id as account_key, r.account_id || '/' || t.customer_id as customer_key, r.account_id || '/' || t.inbox_id as inbox_key,
  r.account_id || '/' || r.user_id as agent_key,
  (r.waiting_since at time zone z.time_zone)::date as waiting_date, (r.answered_at at time zone z.time_zone)::date as answered_date,
  r.waiting_since, r.answered_at, r.wait_seconds, r.wait_business_seconds, r.inbound_messages, r.is_answered, r.is_first_response
from analytics.reply_turns r
left join analytics.account_zones z on z.account_id = r.account_id
left join helpdesk.tickets t on t.account_id = r.account_id and t.id = r.ticket_id;

create or replace view analytics.fact_shelf_volumes with (security_barrier) as
select s.account_id || '/' || s.owner_id || '/' || s.shelf_id || '/' || s.volume_id as shelf_volume_key,
  s.account_id || '/' || s.owner_id || '/' || s.shelf_id as shelf_key, s.account_id || '/' || s.volume_id as volume_key,
  s.account_id as account_key, s.position, s._removed_at is null as is_on_shelf,
  (s._first_seen_at at time zone z.time_zone)::date as first_seen_date, (s._removed_at at time zone z.time_zone)::date as removed_date
from books.shelf_volumes s
left join analytics.account_zones z on z.account_id = s.account_id;

create or replace view analytics.fact_credits with (security_barrier) as
select m.account_id || '/' || m.source || '/' || to_char(m.hour at time zone 'UTC', 'YYYY-MM-DD"T"HH24') as credit_key,
  (m.hour at time zone z.time_zone)::date as date_key, m.account_id as account_key, m.source, m.hour,
  m.interactive, m.fresh, m.backfill, m.sweep, m.others, m.refused, m.waited_seconds
from (
  select c.account_id, c.source, date_trunc('hour', c.minute, 'UTC') as hour,
    sum(c.interactive)::bigint as interactive, sum(c.fresh)::bigint as fresh, sum(c.backfill)::bigint as backfill,
    sum(c.sweep)::bigint as sweep, sum(c.others)::bigint as others, sum(c.refused)::bigint as refused,
    (sum(c.waited_ms) / 1000)::float8 as waited_seconds
  from sync.credit_minutes c
  where c.account_id = any (array(select account_id from sync.readable_accounts))
  group by c.account_id, c.source, date_trunc('hour', c.minute, 'UTC')) m
left join analytics.account_zones z on z.account_id = m.account_id;

create or replace view analytics.arrivals_hourly with (security_barrier) as
select b.account_id, b.hour,
  extract(isodow from b.hour at time zone b.time_zone)::int as local_weekday,
  extract(hour from b.hour at time zone b.time_zone)::int as local_hour,
  sum(b.tickets)::int as tickets_created, sum(b.messages)::int as inbound_messages
from (
  select t.account_id, z.time_zone, date_trunc('hour', t.created_at, z.time_zone) as hour, 1 as tickets, 0 as messages
  from helpdesk.tickets t left join analytics.account_zones z using (account_id)
  where t.created_at is not null
  union all
  select k.account_id, z.time_zone, date_trunc('hour', k.created_at, z.time_zone), 0, 1
  from analytics.message_kinds k left join analytics.account_zones z using (account_id)
  where k.kind = 'inbound' and k.created_at is not null) b
where b.account_id = any (array(select account_id from sync.readable_accounts))
group by b.account_id, b.hour, b.time_zone;

-- What is here already.
set local jit = off;
insert into analytics.stored_reply_turns select * from analytics.reply_turns_defined;
analyze analytics.stored_reply_turns;
