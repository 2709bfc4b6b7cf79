-- Up Migration

-- One way to count: facts have the tickets that reports count, and their days follow the calendar of the inbox. The star has the
-- names of helpdesk and the metrics.

-- Columns of these views go or get other names. A view that others built on them cannot follow.
do $$
declare
  names constant regclass[] := '{analytics.fact_tickets, analytics.fact_messages, analytics.fact_turns, analytics.fact_ticket_labels, analytics.fact_backlog, analytics.fact_shelf_volumes, analytics.dim_agent, analytics.dim_shelf, analytics.arrivals_hourly}';
  one record;
begin
  for one in
    select c.oid::regclass as name, d.refobjid::regclass as read, case c.relkind when 'm' then 'materialized view' else 'view' end as kind
    from pg_depend d
    join pg_rewrite w on w.oid = d.objid and d.classid = 'pg_rewrite'::regclass
    join pg_class c on c.oid = w.ev_class and c.oid <> all (names)
    where d.refclassid = 'pg_class'::regclass and d.refobjid = any (names)
    limit 1
  loop
    raise exception 'the % % reads %, whose columns change', one.kind, one.name, one.read
      using hint = 'Drop it, run `npx shelfdesk migrate` again, and create it anew with the names that CHANGELOG.md lists.';
  end loop;
end
$$;
-- Roles that could read a view can read it afterwards.
create temp table readers_of_views on commit drop as
select distinct replace(c.oid::regclass::text, 'dim_agent', 'dim_user') as view, case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as name
from pg_class c cross join aclexplode(c.relacl) a
where c.oid = any ('{analytics.fact_tickets, analytics.fact_messages, analytics.fact_turns, analytics.fact_ticket_labels, analytics.fact_backlog, analytics.fact_shelf_volumes, analytics.dim_agent, analytics.dim_shelf, analytics.arrivals_hourly}'::regclass[]) and a.privilege_type = 'SELECT' and a.grantee <> c.relowner;
drop view analytics.fact_tickets, analytics.fact_messages, analytics.fact_turns, analytics.fact_ticket_labels, analytics.fact_backlog, analytics.fact_shelf_volumes, analytics.dim_agent, analytics.dim_shelf, analytics.arrivals_hourly;

create or replace function analytics.is_countable(spam boolean, trash boolean, deleted_at timestamptz) returns boolean
language sql immutable
begin atomic
  -- Like analytics.is_backlog, so that PostgreSQL can push it down.
  select spam is not true and trash is not true and deleted_at is null;
end;
comment on function analytics.is_countable is
  'True if reports count the ticket: not spam, not in the trash, not deleted at the source.';

-- Without a security barrier, so that the statistics of its tables reach the views that join it.
create or replace view internal.own_zones as
select a.account_id, a.inbox_id, c.time_zone
from internal.stored_calendar_assignments a
join analytics.calendars c on c.name = a.calendar;
comment on view internal.own_zones is
  'Time zone of each calendar assignment, for all accounts. A row with an inbox goes before that of the account, and without either the zone is UTC.';
comment on column internal.own_zones.inbox_id is 'The inbox; null for all other inboxes of the account.';
comment on column internal.own_zones.time_zone is 'Time zone of the calendar.';

-- The time zone in which days and hours are shown.
create or replace view analytics.account_zones with (security_barrier) as
select r.account_id, coalesce(c.time_zone, 'UTC') as time_zone
from sync.readable_accounts r
left join internal.stored_calendar_assignments z on z.account_id = r.account_id and z.inbox_id is null
left join analytics.calendars c on c.name = z.calendar;
comment on view analytics.account_zones is
  'Time zone for days and hours of an account: that of its calendar, or UTC. Inboxes with a calendar of their own follow analytics.inbox_zones.';
comment on column analytics.account_zones.time_zone is 'The time zone.';

create or replace view analytics.inbox_zones with (security_barrier) as
select i.account_id, i.inbox_id, coalesce(o.time_zone, z.time_zone) as time_zone, o.time_zone is not null as is_own
from (
  select n.account_id, n.id as inbox_id from helpdesk.inboxes n
  union
  select a.account_id, a.inbox_id from internal.stored_calendar_assignments a where a.inbox_id is not null) i
join analytics.account_zones z on z.account_id = i.account_id
left join internal.own_zones o on o.account_id = i.account_id and o.inbox_id = i.inbox_id;
comment on view analytics.inbox_zones is
  'Time zone for days and hours of the tickets of an inbox: that of the inbox''s own calendar, else that of analytics.account_zones. Tickets without an inbox follow the account.';
comment on column analytics.inbox_zones.inbox_id is 'The inbox; joins helpdesk.inboxes.id.';
comment on column analytics.inbox_zones.time_zone is 'The time zone.';
comment on column analytics.inbox_zones.is_own is 'True if the inbox has a calendar of its own.';

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
select t.account_id, t.id as ticket_id, t.customer_id, t.inbox_id, t.label_ids, t.type, t.created_at,
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

create or replace view analytics.dim_account with (security_barrier) as
select a.account_id as account_key, a.account_id, z.time_zone, nullif(a.since, timestamptz '1970-01-01T00:00:00Z') as mirrored_since
from sync.accounts a
join analytics.account_zones z on z.account_id = a.account_id
where a.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.dim_account is 'One row for each mirrored account.';
comment on column analytics.dim_account.account_key is 'Key of the account in every fact and dimension.';
comment on column analytics.dim_account.account_id is 'The operator''s name for the account.';
comment on column analytics.dim_account.time_zone is
  'Time zone for days and hours of the account. Inboxes with a calendar of their own have another: dim_inbox.time_zone.';
comment on column analytics.dim_account.mirrored_since is
  'The mirror covers records from this time on; null: all records.';

create or replace view analytics.dim_inbox with (security_barrier) as
select i.account_id || '/' || i.id as inbox_key, i.account_id as account_key, i.id as inbox_id, coalesce(i.name, i.id) as inbox_name,
  z.time_zone
from safe.inboxes i
left join analytics.inbox_zones z on z.account_id = i.account_id and z.inbox_id = i.id;
comment on view analytics.dim_inbox is 'One row for each inbox.';
comment on column analytics.dim_inbox.inbox_key is 'Key of the inbox: account and inbox_id.';
comment on column analytics.dim_inbox.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.dim_inbox.inbox_id is 'Id at the source.';
comment on column analytics.dim_inbox.inbox_name is 'Name; the id while no reply has shown a name.';
comment on column analytics.dim_inbox.time_zone is
  'Time zone for days and hours of the tickets of the inbox: that of its own calendar, or of the account.';

-- Former team members appear in no list, but in messages. One index lookup per member finds them, however many
-- messages exist.
create or replace view analytics.dim_user with (security_barrier) as
select a.account_id || '/' || k.user_id as user_key, a.account_id as account_key, k.user_id, u._deleted_at is not null as is_deleted,
  u.id is not null and u._deleted_at is null as is_mirrored
from sync.readable_accounts a
cross join lateral (
  select u.id as user_id from helpdesk.users u where u.account_id = a.account_id
  union
  select w.user_id from (
    with recursive wrote (user_id) as (
      select min(m.user_id) from internal.messages m where m.account_id = a.account_id
      union all
      select (select min(m.user_id) from internal.messages m where m.account_id = a.account_id and m.user_id > w.user_id)
      from wrote w where w.user_id is not null)
    select w.user_id from wrote w where w.user_id is not null) w
  union
  select h.user_id from (
    with recursive has (user_id) as (
      select min(t.user_id) from helpdesk.tickets t where t.account_id = a.account_id
      union all
      select (select min(t.user_id) from helpdesk.tickets t where t.account_id = a.account_id and t.user_id > h.user_id)
      from has h where h.user_id is not null)
    select h.user_id from has h where h.user_id is not null) h
  union
  -- They also appear in the past backlog. The history has no index for that; it is small compared with the messages.
  select h.user_id from helpdesk.ticket_history h where h.account_id = a.account_id and h.user_id is not null) k
left join helpdesk.users u on u.account_id = a.account_id and u.id = k.user_id;
comment on view analytics.dim_user is
  'One row per team member, without names: join helpdesk.users for names, or safe.users for their keyed hashes. Includes members who appear only in a message, a ticket or its history.';
comment on column analytics.dim_user.user_key is 'Key of the team member: account and user_id.';
comment on column analytics.dim_user.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.dim_user.user_id is 'Id at the source; joins safe.users.id.';
comment on column analytics.dim_user.is_deleted is 'True if the record was deleted at the source.';
comment on column analytics.dim_user.is_mirrored is
  'True if the team member is mirrored, and is not deleted at the source. If this and is_deleted are false, the team member is only referenced: deleted before it could be read, or not read yet.';

create or replace view analytics.dim_customer with (security_barrier) as
select c.account_id || '/' || c.id as customer_key, c.account_id as account_key, c.id as customer_id,
  nullif(c._created_after, timestamptz '1970-01-01T00:00:00Z') as created_after, c._created_before as created_before,
  c._deleted_at is not null as is_deleted, c._deleted_at is null as is_mirrored
from helpdesk.customers c
where c.account_id = any (array(select account_id from sync.readable_accounts))
union all
select distinct t.account_id || '/' || t.customer_id, t.account_id, t.customer_id, null::timestamptz, null::timestamptz, false, false
from helpdesk.tickets t
where t.account_id = any (array(select account_id from sync.readable_accounts)) and t.customer_id is not null
  and not exists (select from helpdesk.customers c where c.account_id = t.account_id and c.id = t.customer_id);
comment on view analytics.dim_customer is
  'One row per customer, without personal data. Includes customers who appear only in a ticket.';
comment on column analytics.dim_customer.customer_key is 'Key of the customer: account and customer_id.';
comment on column analytics.dim_customer.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.dim_customer.customer_id is 'Id at the source; joins safe.customers.id.';
comment on column analytics.dim_customer.created_after is
  'Created at or after this time; null if unknown. The source does not state the exact time.';
comment on column analytics.dim_customer.created_before is
  'Created before this time; null if the customer is only referenced.';
comment on column analytics.dim_customer.is_deleted is 'True if the record was deleted at the source.';
comment on column analytics.dim_customer.is_mirrored is
  'True if the customer is mirrored, and is not deleted at the source. If this and is_deleted are false, the customer is only referenced: deleted before it could be read, or not read yet.';

create or replace view analytics.dim_shelf with (security_barrier) as
select s.account_id || '/' || s.owner_id || '/' || s.id as shelf_key, s.account_id as account_key, s.owner_id, s.id as shelf_id,
  s.title, s.access, s.created_at, s._deleted_at is not null as is_deleted
from books.shelves s
where s.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.dim_shelf is 'One row for each shelf.';
comment on column analytics.dim_shelf.shelf_key is 'Key of the shelf: account, owner_id and shelf_id.';
comment on column analytics.dim_shelf.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.dim_shelf.owner_id is 'Owner of the shelf: a user id, or mylibrary.';
comment on column analytics.dim_shelf.shelf_id is 'Id at the source, unique per owner_id.';
comment on column analytics.dim_shelf.title is 'Title; null if the source states none.';
comment on column analytics.dim_shelf.access is
  'PUBLIC or PRIVATE. Other values are stored unchanged. Null if the source states none.';
comment on column analytics.dim_shelf.created_at is 'Creation time at the source; null if the source states none.';
comment on column analytics.dim_shelf.is_deleted is 'True if the record was deleted at the source.';

create or replace view analytics.fact_tickets with (security_barrier) as
select m.account_id || '/' || m.ticket_id as ticket_key, m.account_id as account_key,
  m.account_id || '/' || m.customer_id as customer_key, m.account_id || '/' || m.inbox_id as inbox_key,
  m.account_id || '/' || m.user_id as user_key, m.account_id || '/' || m.first_responder_id as first_responder_key,
  (m.created_at at time zone l.zone)::date as created_date,
  (m.first_closed_at at time zone l.zone)::date as first_closed_date,
  m.ticket_id, m.number, m.state, m.type, m.messages_complete,
  m.created_at, m.updated_at, m.first_closed_at, m.first_closed_error_seconds, m.last_closed_at, m.last_closed_error_seconds, m.waiting_since,
  m.message_count, m.inbound_count, m.authored_count, m.automatic_count, m.note_count, m.other_count, m.attachment_count, m.agents_involved,
  m.turns, m.is_outbound_initiated, m.is_one_touch, m.is_unreplied,
  m.first_response_seconds, m.first_response_business_seconds,
  m.first_reply_seconds as first_reply_after_creation_seconds, m.first_reply_business_seconds as first_reply_after_creation_business_seconds,
  m.average_wait_seconds, m.longest_wait_seconds,
  m.first_resolution_seconds, m.first_resolution_error_seconds, m.first_resolution_business_seconds,
  m.full_resolution_seconds, m.full_resolution_error_seconds, m.full_resolution_business_seconds,
  m.reopen_count, m.reopen_error_seconds, m.assignment_count, m.assignment_error_seconds, m.first_closing_seen, m.last_closing_seen
from analytics.countable_tickets m
left join internal.own_zones own on own.account_id = m.account_id and own.inbox_id = m.inbox_id
left join analytics.account_zones z on z.account_id = m.account_id
cross join lateral (select coalesce(own.time_zone, z.time_zone) as zone) l;
comment on view analytics.fact_tickets is
  'One row per ticket that reports count: analytics.countable_tickets for BI tools, without spam, trash and deleted tickets. All tickets are in analytics.ticket_metrics. Times in states are in analytics.countable_tickets.';
comment on column analytics.fact_tickets.ticket_key is 'Key of the ticket: account and ticket_id.';
comment on column analytics.fact_tickets.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.fact_tickets.customer_key is
  'The customer; null if the ticket has none. Joins analytics.dim_customer.customer_key.';
comment on column analytics.fact_tickets.inbox_key is
  'The inbox; null if the ticket has none. Joins analytics.dim_inbox.inbox_key.';
comment on column analytics.fact_tickets.user_key is
  'The assigned team member; null while unassigned. Joins analytics.dim_user.user_key.';
comment on column analytics.fact_tickets.first_responder_key is
  'Team member who gave the first response; null if there is none. Joins analytics.dim_user.user_key.';
comment on column analytics.fact_tickets.created_date is
  'Day of created_at, in the time zone of the inbox or account; null if created_at is null. Joins analytics.dim_date.date_key.';
comment on column analytics.fact_tickets.first_closed_date is
  'Day of first_closed_at, in the time zone of the inbox or account; null if first_closed_at is null. The ticket was closed at most first_closed_error_seconds before that time. Joins analytics.dim_date.date_key.';
comment on column analytics.fact_tickets.ticket_id is 'Id at the source; joins safe.tickets.id.';
comment on column analytics.fact_tickets.first_reply_after_creation_seconds is
  'From the creation of the ticket: seconds to the first team reply, or to the second if the team wrote first. Null if there is no such reply, or if it or the creation has no time. It is first_reply_seconds of analytics.countable_tickets. first_response_seconds begins with the first customer message instead.';
comment on column analytics.fact_tickets.first_reply_after_creation_business_seconds is
  'first_reply_after_creation_seconds in business hours. Null if first_reply_after_creation_seconds is null; otherwise null means that the ticket has no calendar.';

create or replace view analytics.fact_messages with (security_barrier) as
select m.account_id || '/' || m.id as message_key, m.account_id || '/' || m.ticket_id as ticket_key, m.account_id as account_key,
  m.account_id || '/' || t.customer_id as customer_key, m.account_id || '/' || t.inbox_id as inbox_key,
  m.account_id || '/' || m.user_id as user_key, l.at::date as created_date, extract(hour from l.at)::int as created_hour,
  m.created_at, analytics.message_kind(m.type, m.direction, m.user_id) as kind, t.type as ticket_type, m.position, t.messages_complete
from internal.messages m
join internal.countable_basics t on t.account_id = m.account_id and t.ticket_id = m.ticket_id
cross join lateral (select m.created_at at time zone t.time_zone as at) l;
comment on view analytics.fact_messages is
  'One row for each message of the tickets in analytics.fact_tickets, without its text. fact_tickets.message_count counts these rows.';
comment on column analytics.fact_messages.message_key is 'Key of the message: account and id.';
comment on column analytics.fact_messages.ticket_key is 'The ticket; joins analytics.fact_tickets.ticket_key.';
comment on column analytics.fact_messages.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.fact_messages.customer_key is
  'The customer of the ticket; null if it has none. Joins analytics.dim_customer.customer_key.';
comment on column analytics.fact_messages.inbox_key is
  'The inbox of the ticket; null if it has none. Joins analytics.dim_inbox.inbox_key.';
comment on column analytics.fact_messages.user_key is
  'Author, if a team member; null for customers and automatic replies. Joins analytics.dim_user.user_key.';
comment on column analytics.fact_messages.created_date is
  'Day of created_at, in the time zone of the inbox or account; null if created_at is null. Joins analytics.dim_date.date_key.';
comment on column analytics.fact_messages.created_hour is
  'Hour of created_at in that time zone, 0 to 23; null if created_at is null.';
comment on column analytics.fact_messages.created_at is 'Creation time at the source; null if the source shows none.';
comment on column analytics.fact_messages.kind is
  'inbound, authored, automatic, note or other; see analytics.message_kinds.';
comment on column analytics.fact_messages.ticket_type is
  'Channel of the ticket, such as email, chat, web or phone: fact_tickets.type; null if the source shows none.';
comment on column analytics.fact_messages.position is 'Position in the ticket, from 1.';
comment on column analytics.fact_messages.messages_complete is
  'True if all messages of the ticket are here: fact_tickets.messages_complete.';

create or replace view analytics.fact_turns with (security_barrier) as
select r.account_id || '/' || r.ticket_id || '/' || r.turn as turn_key, r.account_id || '/' || r.ticket_id as ticket_key,
  r.account_id as account_key, r.account_id || '/' || t.customer_id as customer_key, r.account_id || '/' || t.inbox_id as inbox_key,
  r.account_id || '/' || r.user_id as user_key,
  (r.waiting_since at time zone t.time_zone)::date as waiting_date, (r.answered_at at time zone t.time_zone)::date as answered_date,
  r.waiting_since, r.answered_at, r.wait_seconds, r.wait_business_seconds, r.inbound_messages, r.is_answered, r.is_first_response,
  t.messages_complete
from internal.stored_reply_turns r
join internal.countable_basics t on t.account_id = r.account_id and t.ticket_id = r.ticket_id;
comment on view analytics.fact_turns is
  'One row per wait of a customer in the tickets of analytics.fact_tickets: a burst of messages, and the reply that ended the wait, if any. fact_tickets.turns counts the rows with is_answered.';
comment on column analytics.fact_turns.turn_key is 'Key of the turn: account, ticket and number.';
comment on column analytics.fact_turns.ticket_key is 'The ticket; joins analytics.fact_tickets.ticket_key.';
comment on column analytics.fact_turns.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.fact_turns.customer_key is
  'The customer of the ticket; null if it has none. Joins analytics.dim_customer.customer_key.';
comment on column analytics.fact_turns.inbox_key is
  'The inbox of the ticket; null if it has none. Joins analytics.dim_inbox.inbox_key.';
comment on column analytics.fact_turns.user_key is
  'Team member who replied; null while unanswered. Joins analytics.dim_user.user_key.';
comment on column analytics.fact_turns.waiting_date is
  'Day of waiting_since, in the time zone of the inbox or account; null if waiting_since is null. Joins analytics.dim_date.date_key.';
comment on column analytics.fact_turns.answered_date is
  'Day of answered_at, in the time zone of the inbox or account; null if answered_at is null. Joins analytics.dim_date.date_key.';
comment on column analytics.fact_turns.messages_complete is
  'True if all messages of the ticket are here: fact_tickets.messages_complete.';

create or replace view analytics.fact_ticket_labels with (security_barrier) as
select t.account_id || '/' || t.ticket_id || '/' || l.label_id as ticket_label_key,
  t.account_id || '/' || t.ticket_id as ticket_key, t.account_id || '/' || l.label_id as label_key, t.account_id as account_key
from internal.countable_basics t
-- As helpdesk.ticket_labels.
cross join lateral (select distinct u.label_id from unnest(t.label_ids) u (label_id) where u.label_id is not null) l;
comment on view analytics.fact_ticket_labels is
  'One row per label of a ticket in analytics.fact_tickets. A ticket with two labels counts under both.';
comment on column analytics.fact_ticket_labels.ticket_label_key is 'Key of the row: ticket and label.';
comment on column analytics.fact_ticket_labels.ticket_key is 'The ticket; joins analytics.fact_tickets.ticket_key.';
comment on column analytics.fact_ticket_labels.label_key is 'The label; joins analytics.dim_label.label_key.';
comment on column analytics.fact_ticket_labels.account_key is 'The account; joins analytics.dim_account.account_key.';

create or replace view analytics.fact_backlog with (security_barrier) as
with zones as materialized (
  select z.account_id, z.time_zone, (c.complete_through at time zone z.time_zone)::date - 1 as last_day
  from (
    select a.account_id, a.time_zone from analytics.account_zones a
    union
    select i.account_id, i.time_zone from analytics.inbox_zones i) z
  join analytics.completeness c on c.account_id = z.account_id and c.source = 'helpdesk' and c.stream = 'tickets'
  where c.complete_through is not null)
select concat_ws('/', b.account_id, b.day, coalesce(b.state, '?'), coalesce(b.inbox_id, '?'), coalesce(b.user_id, '?')) as backlog_key,
  b.day as date_key, b.account_id as account_key, b.account_id || '/' || b.inbox_id as inbox_key, b.account_id || '/' || b.user_id as user_key,
  b.state, b.tickets, b.uncertain
from (select z.time_zone, min(z.last_day) - 89 as from_day, max(z.last_day) as to_day from zones z group by z.time_zone) d
cross join lateral analytics.backlog_daily(d.from_day, d.to_day, d.time_zone) b
left join internal.own_zones own on own.account_id = b.account_id and own.inbox_id = b.inbox_id
left join analytics.account_zones whole on whole.account_id = b.account_id
-- The last day that is over wherever the account has an inbox, so that all its inboxes have the same days.
left join (select z.account_id, min(z.last_day) as last_day from zones z group by z.account_id) l on l.account_id = b.account_id
-- Of a case PostgreSQL expects half of the rows; of the comparisons alone it would expect a single one.
where case when coalesce(own.time_zone, whole.time_zone) = d.time_zone then b.day between l.last_day - 89 and l.last_day end;
comment on view analytics.fact_backlog is
  'One row per day, state, inbox and team member: open tickets at the end of the day, for the last 90 days in the mirror. The day ends at midnight in the time zone of the inbox, else of the account. Counts by what the tickets were at that time: a ticket that was marked as spam later counts until then, and one that was deleted counts until its deletion. analytics.backlog_daily covers any days: for the current day it counts the tickets of analytics.fact_tickets that are neither closed nor archived. A ticket that moves between inboxes of two time zones may count twice, or not at all, on a day on which it moves between their midnights.';
comment on column analytics.fact_backlog.backlog_key is 'Key of the row: account, day, state, inbox and user.';
comment on column analytics.fact_backlog.date_key is 'The day; joins analytics.dim_date.date_key.';
comment on column analytics.fact_backlog.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.fact_backlog.inbox_key is
  'The inbox at that time; null if state is null, or if the ticket had no inbox. Joins analytics.dim_inbox.inbox_key.';
comment on column analytics.fact_backlog.user_key is
  'Assigned team member at that time; null if state is null, or if the ticket was unassigned. Joins analytics.dim_user.user_key.';
comment on column analytics.fact_backlog.state is 'State at the end of the day; null if unknown.';
comment on column analytics.fact_backlog.tickets is 'Number of tickets, without those that were spam, trash or deleted then.';
comment on column analytics.fact_backlog.uncertain is
  'Number of tickets whose state at that time is uncertain; see analytics.backlog_daily.';

create or replace view analytics.fact_shelf_volumes with (security_barrier) as
select s.account_id || '/' || s.owner_id || '/' || s.shelf_id || '/' || s.volume_id as shelf_volume_key,
  s.account_id || '/' || s.owner_id || '/' || s.shelf_id as shelf_key, s.account_id || '/' || s.volume_id as volume_key,
  s.account_id as account_key, s.position, s._removed_at is null as is_on_shelf,
  (s._first_seen_at at time zone z.time_zone)::date as first_seen_date,
  date_part('epoch', s._first_seen_at - begun.change_after) as first_seen_error_seconds,
  (s._removed_at at time zone z.time_zone)::date as removed_date,
  date_part('epoch', s._removed_at - ended.change_after) as removed_error_seconds
from books.shelf_volumes s
left join analytics.account_zones z on z.account_id = s.account_id
left join lateral (
  select h.change_after from books.shelf_volume_history h
  where h.account_id = s.account_id and h.owner_id = s.owner_id and h.shelf_id = s.shelf_id and h.volume_id = s.volume_id
  order by h.valid_from limit 1) begun on true
left join lateral (
  select h.change_after from books.shelf_volume_history h
  where h.account_id = s.account_id and h.owner_id = s.owner_id and h.shelf_id = s.shelf_id and h.volume_id = s.volume_id
  order by h.valid_from desc limit 1) ended on s._removed_at is not null
where s.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.fact_shelf_volumes is 'One row per volume that is or was on a shelf.';
comment on column analytics.fact_shelf_volumes.shelf_volume_key is 'Key of the row: shelf and volume.';
comment on column analytics.fact_shelf_volumes.shelf_key is 'The shelf; joins analytics.dim_shelf.shelf_key.';
comment on column analytics.fact_shelf_volumes.volume_key is 'The volume; joins analytics.dim_volume.volume_key.';
comment on column analytics.fact_shelf_volumes.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.fact_shelf_volumes.position is
  'Position on the shelf, from 0; for a removed volume its last position.';
comment on column analytics.fact_shelf_volumes.is_on_shelf is 'False if the volume was removed from the shelf.';
comment on column analytics.fact_shelf_volumes.first_seen_date is
  'Day on which the volume was first seen on the shelf; joins analytics.dim_date.date_key.';
comment on column analytics.fact_shelf_volumes.first_seen_error_seconds is
  'Upper bound of how many seconds before it was first seen the volume came to the shelf; null if it was there at the first read of the shelf.';
comment on column analytics.fact_shelf_volumes.removed_date is
  'Day by which the volume was gone; null while it is on the shelf. Joins analytics.dim_date.date_key.';
comment on column analytics.fact_shelf_volumes.removed_error_seconds is
  'Upper bound of how many seconds before it was missed the volume left the shelf; null while it is on the shelf.';

comment on column analytics.message_kinds.created_at is
  'When the message was created, at the source; null if the source shows none.';
comment on column internal.reply_turns_defined.waiting_since is
  'When the first message of the burst was created; null if the messages have no time. A burst is a series of customer messages without a team reply between them.';
comment on column internal.reply_turns_defined.answered_at is
  'When the reply was created. Null if is_answered is false; otherwise null means that the reply has no time.';
comment on column internal.reply_turns_defined.wait_seconds is
  'Seconds from waiting_since to answered_at; null if one of these is null.';
comment on column internal.reply_turns_defined.wait_business_seconds is
  'Business seconds from waiting_since to answered_at, by the calendar of the ticket''s current inbox. Null if wait_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.stored_reply_turns.waiting_since is
  'When the first message of the burst was created; null if the messages have no time. A burst is a series of customer messages without a team reply between them.';
comment on column internal.stored_reply_turns.answered_at is
  'When the reply was created. Null if is_answered is false; otherwise null means that the reply has no time.';
comment on column internal.stored_reply_turns.wait_seconds is
  'Seconds from waiting_since to answered_at; null if one of these is null.';
comment on column internal.stored_reply_turns.wait_business_seconds is
  'Business seconds from waiting_since to answered_at, by the calendar of the ticket''s current inbox. Null if wait_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.ticket_metrics_defined.last_inbound_at is
  'When a customer last wrote; null if no customer message has a time.';
comment on column internal.ticket_metrics_defined.last_authored_at is
  'When a team member last replied; null if no team reply has a time.';
comment on column internal.ticket_metrics_defined.first_response_seconds is
  'From the first customer message: seconds to the first team reply after it. Null if there is no first response: the customer waits (is_unreplied), the team wrote first (is_outbound_initiated), or no customer wrote. Otherwise null means that a message has no time. first_reply_seconds begins with the creation of the ticket instead.';
comment on column internal.ticket_metrics_defined.first_response_business_seconds is
  'first_response_seconds in business hours. Null if first_response_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.ticket_metrics_defined.first_reply_seconds is
  'From the creation of the ticket: seconds to the first team reply. If the team wrote first: to the second team reply. Null if there is no such reply, or if it or the creation has no time. first_response_seconds begins with the first customer message instead.';
comment on column internal.ticket_metrics_defined.first_reply_business_seconds is
  'first_reply_seconds in business hours. Null if first_reply_seconds is null; otherwise null means that the ticket has no calendar.';
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
comment on column internal.ticket_metrics_defined.seconds_closed is
  'Total seconds in the state closed, until the ticket was archived or reopened, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.ticket_metrics_defined.first_responder_id is
  'The team member who gave the first response; joins helpdesk.users.id. Null if there is no first response; not null if only its time is unknown.';
comment on column internal.ticket_metrics_defined.waiting_since is
  'Start of the current wait of a customer: time of the first customer message after the last team reply. Null if no customer waits, or if these messages have no time.';
comment on column internal.ticket_metrics_defined.total_wait_seconds is
  'Total wait of customers over all answered turns; null without answered turns whose times are known.';
comment on column internal.stored_ticket_metrics.last_inbound_at is
  'When a customer last wrote; null if no customer message has a time.';
comment on column internal.stored_ticket_metrics.last_authored_at is
  'When a team member last replied; null if no team reply has a time.';
comment on column internal.stored_ticket_metrics.first_response_seconds is
  'From the first customer message: seconds to the first team reply after it. Null if there is no first response: the customer waits (is_unreplied), the team wrote first (is_outbound_initiated), or no customer wrote. Otherwise null means that a message has no time. first_reply_seconds begins with the creation of the ticket instead.';
comment on column internal.stored_ticket_metrics.first_response_business_seconds is
  'first_response_seconds in business hours. Null if first_response_seconds is null; otherwise null means that the ticket has no calendar.';
comment on column internal.stored_ticket_metrics.first_reply_seconds is
  'From the creation of the ticket: seconds to the first team reply. If the team wrote first: to the second team reply. Null if there is no such reply, or if it or the creation has no time. first_response_seconds begins with the first customer message instead.';
comment on column internal.stored_ticket_metrics.first_reply_business_seconds is
  'first_reply_seconds in business hours. Null if first_reply_seconds is null; otherwise null means that the ticket has no calendar.';
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
comment on column internal.stored_ticket_metrics.seconds_closed is
  'Total seconds in the state closed, until the ticket was archived or reopened, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.stored_ticket_metrics.first_responder_id is
  'The team member who gave the first response; joins helpdesk.users.id. Null if there is no first response; not null if only its time is unknown.';
comment on column internal.stored_ticket_metrics.waiting_since is
  'Start of the current wait of a customer: time of the first customer message after the last team reply. Null if no customer waits, or if these messages have no time.';
comment on column internal.stored_ticket_metrics.total_wait_seconds is
  'Total wait of customers over all answered turns; null without answered turns whose times are known.';
comment on view analytics.ticket_metrics is
  'Every ticket and its metrics, one row each, updated in the transaction that changes the ticket. analytics.metric_definitions defines each metric. Reports read analytics.countable_tickets, which leaves out spam, trash and deleted tickets.';
comment on column analytics.ticket_metrics.number is 'Ticket number that people see; null if the source shows none.';
comment on column analytics.ticket_metrics.customer_id is
  'The customer; null if the ticket has none. Joins analytics.customer_summary.customer_id.';
comment on column analytics.ticket_metrics.inbox_id is 'The inbox; null if the ticket has none.';
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
comment on column analytics.dim_volume.categories is
  'Subjects in order, separated by commas; null if the source names none.';
comment on column analytics.dim_volume.title is 'Title; null if the source states none.';
comment on column analytics.dim_volume.subtitle is 'Subtitle; null if the source states none.';
comment on column analytics.dim_volume.publisher is 'Publisher; null if the source states none.';
comment on column analytics.dim_volume.published_year is
  'Year of the publication date, if that begins with four digits; else null.';
comment on column analytics.dim_volume.isbn_13 is 'ISBN of thirteen digits; null if the source states none.';
comment on column analytics.dim_volume.print_type is
  'BOOK or MAGAZINE. Other values are stored unchanged. Null if the source states none.';
comment on column analytics.dim_volume.average_rating is 'Mean rating, 1 to 5; null if the source states none.';
comment on column analytics.dim_volume.ratings_count is
  'Number of ratings in average_rating; null if the source states none.';
comment on column analytics.dim_volume.list_price is
  'Suggested retail price, exactly as the source writes it; null if the source states none.';
comment on column analytics.dim_volume.list_price_currency is 'Currency of list_price; null if the source states none.';
comment on column analytics.dim_volume.retail_price is
  'Selling price, exactly as the source writes it; null if the source states none.';
comment on column analytics.dim_volume.retail_price_currency is
  'Currency of retail_price; null if the source states none.';
comment on column analytics.dim_volume.saleability is
  'FOR_SALE, FREE, NOT_FOR_SALE, FOR_PREORDER or other values. Null if the source states none.';

-- These are inherited anew.
comment on column analytics.reply_turns.waiting_since is null;
comment on column analytics.reply_turns.answered_at is null;
comment on column analytics.reply_turns.wait_seconds is null;
comment on column analytics.reply_turns.wait_business_seconds is null;
comment on column analytics.ticket_metrics.last_inbound_at is null;
comment on column analytics.ticket_metrics.last_authored_at is null;
comment on column analytics.ticket_metrics.first_response_seconds is null;
comment on column analytics.ticket_metrics.first_response_business_seconds is null;
comment on column analytics.ticket_metrics.first_reply_seconds is null;
comment on column analytics.ticket_metrics.first_reply_business_seconds is null;
comment on column analytics.ticket_metrics.average_wait_seconds is null;
comment on column analytics.ticket_metrics.longest_wait_seconds is null;
comment on column analytics.ticket_metrics.total_wait_business_seconds is null;
comment on column analytics.ticket_metrics.average_wait_business_seconds is null;
comment on column analytics.ticket_metrics.longest_wait_business_seconds is null;
comment on column analytics.ticket_metrics.first_closed_at is null;
comment on column analytics.ticket_metrics.first_closed_error_seconds is null;
comment on column analytics.ticket_metrics.last_closed_at is null;
comment on column analytics.ticket_metrics.last_closed_error_seconds is null;
comment on column analytics.ticket_metrics.first_resolution_seconds is null;
comment on column analytics.ticket_metrics.first_resolution_error_seconds is null;
comment on column analytics.ticket_metrics.first_resolution_business_seconds is null;
comment on column analytics.ticket_metrics.full_resolution_seconds is null;
comment on column analytics.ticket_metrics.full_resolution_error_seconds is null;
comment on column analytics.ticket_metrics.full_resolution_business_seconds is null;
comment on column analytics.ticket_metrics.seconds_closed is null;
comment on column analytics.ticket_metrics.first_responder_id is null;
comment on column analytics.ticket_metrics.waiting_since is null;
comment on column analytics.ticket_metrics.total_wait_seconds is null;

insert into analytics.metric_definitions (relation, name, unit, kind, formula, other_vendors) values
  ('agent_daily', 'replies', 'messages', 'exact', 'Authored messages of the day, in countable tickets.', 'Help Scout (replies sent), Front (messages sent), Zendesk (public comments).'),
  ('agent_daily', 'notes', 'messages', 'exact', 'Notes of the day that have a user_id, in countable tickets.', null),
  ('agent_daily', 'first_responses', 'messages', 'exact', 'Authored messages of the day that were the first response of their ticket, which is countable.', null),
  ('agent_daily', 'turns_answered', 'messages', 'exact', 'Authored messages of the day that ended a turn of a countable ticket.', null),
  ('agent_daily', 'wait_business_seconds', 'seconds', 'exact', 'Sum of wait_business_seconds of these turns. Null if one of them has no calendar.', null),
  ('agent_daily', 'tickets_touched', 'tickets', 'exact', 'Different countable tickets with an authored message or a note of that day.', 'Help Scout: conversations helped, customers helped. Handle time is not known to the source.'),
  ('arrivals_hourly', 'tickets_created', 'tickets', 'exact', 'Countable tickets whose created_at lies in the hour.', null),
  ('arrivals_hourly', 'inbound_messages', 'messages', 'exact', 'Inbound messages of countable tickets whose created_at lies in the hour.', null),
  ('customer_summary', 'tickets', 'tickets', 'exact', 'Countable tickets of the customer: not deleted, spam or trash.', null),
  ('ticket_metrics', 'first_reply_seconds', 'seconds', 'exact', 'First authored message − created_at of the ticket. If the team wrote first: second authored message − created_at. Null if there is no such message. In fact_tickets it is first_reply_after_creation_seconds.', 'Zendesk: this is its first reply time; of tickets that an agent created it counts the second public comment too. Freshdesk: as this, of tickets that customers created.'),
  ('ticket_metrics', 'first_reply_business_seconds', 'seconds', 'exact', 'business_seconds over the same span as first_reply_seconds. Null without a calendar. In fact_tickets it is first_reply_after_creation_business_seconds.', null),
  ('customer_summary', 'reopens', 'times', 'observed', 'Sum of reopen_count of the tickets.', null),
  ('customer_summary', 'reopen_error_seconds', 'seconds', 'observed', 'Sum of reopen_error_seconds of the tickets; unknown if it is unknown for one of them.', null)
on conflict (relation, name) do update set (unit, kind, formula, other_vendors) = (excluded.unit, excluded.kind, excluded.formula, excluded.other_vendors);

do $$
declare
  one record;
begin
  -- The owner of the other views owns these, too, also where another role migrates.
  for one in
    select c.oid::regclass as view, pg_get_userbyid(o.relowner) as owner
    from pg_class c, pg_class o
    where o.oid = 'analytics.ticket_metrics'::regclass and c.relowner <> o.relowner
      and c.oid = any ('{internal.own_zones, analytics.inbox_zones, analytics.countable_tickets, internal.countable_basics, analytics.arrivals_hourly, analytics.dim_user, analytics.dim_shelf, analytics.fact_tickets, analytics.fact_messages, analytics.fact_turns, analytics.fact_ticket_labels, analytics.fact_backlog, analytics.fact_shelf_volumes}'::regclass[])
  loop
    execute format('alter view %s owner to %I', one.view, one.owner);
  end loop;
  for one in select r.* from readers_of_views r loop
    execute format('grant select on %s to %s', one.view, one.name);
  end loop;
end
$$;
drop table readers_of_views;

select sync.settle_comments();
select sync.settle_roles();
