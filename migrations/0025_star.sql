-- Up Migration

-- A star for BI tools: facts and dimensions of one grain each, whose first column names the row, whose keys are one column each
-- and are called alike wherever they stand, and which have neither JSON nor arrays. Days are those of analytics.account_zones.

create view analytics.dim_date with (security_barrier) as
select d.day as date_key, extract(year from d.day)::int as year, extract(quarter from d.day)::int as quarter,
  extract(month from d.day)::int as month, to_char(d.day, 'FMMonth') as month_name, date_trunc('month', d.day)::date as month_start,
  extract(isoyear from d.day)::int as iso_year, extract(week from d.day)::int as iso_week, date_trunc('week', d.day)::date as week_start,
  extract(day from d.day)::int as day_of_month, extract(isodow from d.day)::int as iso_weekday, to_char(d.day, 'FMDay') as weekday_name,
  extract(isodow from d.day) >= 6 as is_weekend
from (select date '1970-01-01' + n as day from generate_series(0, date '2100-12-31' - date '1970-01-01') n) d;
comment on view analytics.dim_date is 'One row for each day from 1970 to 2100.';

create view analytics.dim_account with (security_barrier) as
select a.account_id as account_key, a.account_id, z.time_zone, nullif(a.since, timestamptz '1970-01-01T00:00:00Z') as mirrored_since
from sync.accounts a
join analytics.account_zones z on z.account_id = a.account_id
where a.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.dim_account is 'One row for each mirrored account.';

create view analytics.dim_inbox with (security_barrier) as
select i.account_id || '/' || i.id as inbox_key, i.account_id as account_key, i.id as inbox_id, coalesce(i.name, i.id) as inbox_name
from safe.inboxes i;
comment on view analytics.dim_inbox is 'One row for each inbox.';

-- Who has left before the mirror began is in no list, and has still answered. Each is looked for by the index: a step for each
-- member of the team, however many messages there are.
create view analytics.dim_agent with (security_barrier) as
select a.account_id || '/' || k.user_id as agent_key, a.account_id as account_key, k.user_id, u._deleted_at is not null as is_deleted,
  u.id is not null as is_mirrored
from sync.readable_accounts a
cross join lateral (
  select u.id as user_id from helpdesk.users u where u.account_id = a.account_id
  union
  select w.user_id from (
    with recursive wrote (user_id) as (
      select min(m.user_id) from helpdesk.messages m where m.account_id = a.account_id
      union all
      select (select min(m.user_id) from helpdesk.messages m where m.account_id = a.account_id and m.user_id > w.user_id)
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
  -- The backlog of days past is theirs as well; for these there is no index, and the history is small beside the messages.
  select h.user_id from helpdesk.ticket_history h where h.account_id = a.account_id and h.user_id is not null) k
left join helpdesk.users u on u.account_id = a.account_id and u.id = k.user_id;
comment on view analytics.dim_agent is
  'One row for each member of the team, without the name: who may see names joins helpdesk.users, who may not sees their keyed hashes in safe.users. Also those of whom only a message, a ticket or its history tells.';

create view analytics.dim_customer with (security_barrier) as
select c.account_id || '/' || c.id as customer_key, c.account_id as account_key, c.id as customer_id,
  nullif(c._created_after, timestamptz '1970-01-01T00:00:00Z') as created_after, c._created_before as created_before,
  c._deleted_at is not null as is_deleted, true as is_mirrored
from helpdesk.customers c
where c.account_id = any (array(select account_id from sync.readable_accounts))
union all
select distinct t.account_id || '/' || t.customer_id, t.account_id, t.customer_id, null::timestamptz, null::timestamptz, false, false
from helpdesk.tickets t
where t.account_id = any (array(select account_id from sync.readable_accounts)) and t.customer_id is not null
  and not exists (select from helpdesk.customers c where c.account_id = t.account_id and c.id = t.customer_id);
comment on view analytics.dim_customer is
  'One row for each customer, without what identifies a person. Also those of whom only a ticket tells.';

create view analytics.dim_label with (security_barrier) as
select l.account_id || '/' || l.id as label_key, l.account_id as account_key, l.id as label_id, coalesce(l.name, l.id) as label_name
from safe.labels l;
comment on view analytics.dim_label is 'One row for each label.';

create view analytics.dim_shelf with (security_barrier) as
select s.account_id || '/' || s.owner_id || '/' || s.id as shelf_key, s.account_id as account_key, s.owner_id, s.id as shelf_id,
  s.title as shelf_title, s.access, s.created_at, s._deleted_at is not null as is_deleted
from books.shelves s
where s.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.dim_shelf is 'One row for each shelf.';

create view analytics.dim_volume with (security_barrier) as
select v.account_id || '/' || v.id as volume_key, v.account_id as account_key, v.id as volume_id, v.title, v.subtitle,
  array_to_string(v.authors, ', ') as authors, array_to_string(v.categories, ', ') as categories, v.publisher, v.published_year,
  v.isbn_13, v.page_count, v.print_type, v.language, v.average_rating, v.ratings_count,
  v.list_price, v.list_price_currency, v.retail_price, v.retail_price_currency, v.saleability, v._deleted_at is not null as is_deleted
from books.volumes v
where v.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.dim_volume is 'One row for each volume.';

create view analytics.fact_tickets with (security_barrier) as
select m.account_id || '/' || m.ticket_id as ticket_key, m.account_id as account_key,
  m.account_id || '/' || m.customer_id as customer_key, m.account_id || '/' || m.inbox_id as inbox_key,
  m.account_id || '/' || m.user_id as agent_key, m.account_id || '/' || m.first_responder_id as first_responder_key,
  (m.created_at at time zone z.time_zone)::date as created_date,
  (m.first_closed_at at time zone z.time_zone)::date as first_closed_date,
  m.ticket_id, m.number, m.state, m.type as channel,
  m.spam is true as is_spam, m.trash is true as is_trash, m.deleted_at is not null as is_deleted, m.messages_complete,
  m.created_at, m.updated_at, m.first_closed_at, m.last_closed_at, m.waiting_since,
  m.message_count, m.inbound_count, m.authored_count, m.automatic_count, m.note_count, m.attachment_count, m.agents_involved,
  m.turns, m.is_outbound_initiated, m.is_one_touch, m.is_unreplied,
  m.first_response_seconds, m.first_response_business_seconds, m.first_reply_seconds, m.first_reply_business_seconds,
  m.average_wait_seconds, m.longest_wait_seconds,
  m.first_resolution_seconds, m.first_resolution_error_seconds, m.first_resolution_business_seconds,
  m.full_resolution_seconds, m.full_resolution_error_seconds, m.full_resolution_business_seconds,
  m.reopen_count, m.assignment_count
from analytics.ticket_metrics m
join analytics.account_zones z on z.account_id = m.account_id;
comment on view analytics.fact_tickets is
  'One row for each ticket: analytics.ticket_metrics for BI tools. Spam, trash, deleted and half-mirrored tickets are in it: leave them out where they would be wrong.';

create view analytics.fact_messages with (security_barrier) as
select k.account_id || '/' || k.message_id as message_key, k.account_id || '/' || k.ticket_id as ticket_key, k.account_id as account_key,
  k.account_id || '/' || t.customer_id as customer_key, k.account_id || '/' || t.inbox_id as inbox_key,
  k.account_id || '/' || k.user_id as agent_key, l.at::date as created_date, extract(hour from l.at)::int as created_hour,
  k.created_at, k.kind, t.type as channel, k.position
from analytics.message_kinds k
join analytics.account_zones z on z.account_id = k.account_id
left join helpdesk.tickets t on t.account_id = k.account_id and t.id = k.ticket_id
cross join lateral (select k.created_at at time zone z.time_zone as at) l;
comment on view analytics.fact_messages is 'One row for each message, without its text.';

create view analytics.fact_turns with (security_barrier) as
select r.account_id || '/' || r.ticket_id || '/' || r.turn as turn_key, r.account_id || '/' || r.ticket_id as ticket_key,
  r.account_id as account_key, r.account_id || '/' || t.customer_id as customer_key, r.account_id || '/' || t.inbox_id as inbox_key,
  r.account_id || '/' || r.user_id as agent_key,
  (r.waiting_since at time zone z.time_zone)::date as waiting_date, (r.answered_at at time zone z.time_zone)::date as answered_date,
  r.waiting_since, r.answered_at, r.wait_seconds, r.wait_business_seconds, r.inbound_messages, r.is_answered, r.is_first_response
from analytics.reply_turns r
join analytics.account_zones z on z.account_id = r.account_id
left join helpdesk.tickets t on t.account_id = r.account_id and t.id = r.ticket_id;
comment on view analytics.fact_turns is 'One row for each wait of a customer: a burst of messages and the reply that ended it, if there is one.';

create view analytics.fact_ticket_labels with (security_barrier) as
select l.account_id || '/' || l.ticket_id || '/' || l.label_id as ticket_label_key,
  l.account_id || '/' || l.ticket_id as ticket_key, l.account_id || '/' || l.label_id as label_key, l.account_id as account_key
from helpdesk.ticket_labels l
where l.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.fact_ticket_labels is 'One row for each label on a ticket: a ticket with two labels counts under both.';

-- A BI tool gives no function its arguments. The last day is the last whole one that is here, so that the view says the same
-- whenever it is asked.
create view analytics.fact_backlog with (security_barrier) as
select concat_ws('/', b.account_id, b.day, coalesce(b.state, '?'), coalesce(b.inbox_id, '?'), coalesce(b.user_id, '?')) as backlog_key,
  b.day as date_key, b.account_id as account_key, b.account_id || '/' || b.inbox_id as inbox_key, b.account_id || '/' || b.user_id as agent_key,
  b.state, b.tickets, b.uncertain
from (
  select z.time_zone, (max(c.complete_through) at time zone z.time_zone)::date - 1 as last_day
  from analytics.account_zones z
  join analytics.completeness c on c.account_id = z.account_id and c.stream = 'tickets'
  where c.complete_through is not null
  group by z.time_zone) d
cross join lateral analytics.backlog_daily(d.last_day - 89, d.last_day, d.time_zone) b
join analytics.account_zones z on z.account_id = b.account_id and z.time_zone = d.time_zone;
comment on view analytics.fact_backlog is
  'One row for each day, state, inbox and member of the team: unresolved tickets at the end of the day, over the last 90 days that are here. analytics.backlog_daily answers for any days.';

create view analytics.fact_shelf_volumes with (security_barrier) as
select s.account_id || '/' || s.owner_id || '/' || s.shelf_id || '/' || s.volume_id as shelf_volume_key,
  s.account_id || '/' || s.owner_id || '/' || s.shelf_id as shelf_key, s.account_id || '/' || s.volume_id as volume_key,
  s.account_id as account_key, s.position, s._removed_at is null as is_on_shelf,
  (s._first_seen_at at time zone z.time_zone)::date as first_seen_date, (s._removed_at at time zone z.time_zone)::date as removed_date
from books.shelf_volumes s
join analytics.account_zones z on z.account_id = s.account_id;
comment on view analytics.fact_shelf_volumes is 'One row for each volume that is, or was, on a shelf.';

create view analytics.fact_credits with (security_barrier) as
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
join analytics.account_zones z on z.account_id = m.account_id;
comment on view analytics.fact_credits is 'One row for each hour and source in which requests were sent: what they cost, and what for.';

-- What means the same in several of them is said once; what a ticket's metrics mean, analytics.ticket_metrics says.
do $$
declare
  said record;
begin
  for said in
    select v.oid::regclass as view_name, a.attname as column_name, coalesce(own.meaning, common.meaning,
      case when v.relname = 'fact_tickets' then col_description('analytics.ticket_metrics'::regclass, t.attnum) end,
      case when v.relname = 'fact_turns' then col_description('analytics.reply_turns'::regclass, r.attnum) end,
      case when v.relname = 'dim_volume' then col_description('books.volumes'::regclass, b.attnum) end) as meaning
    from pg_class v
    join pg_attribute a on a.attrelid = v.oid and a.attnum > 0
    left join pg_attribute t on t.attrelid = 'analytics.ticket_metrics'::regclass and t.attname = a.attname
    left join pg_attribute r on r.attrelid = 'analytics.reply_turns'::regclass and r.attname = a.attname
    left join pg_attribute b on b.attrelid = 'books.volumes'::regclass and b.attname = a.attname
    left join (values
      ('account_key', 'The account; joins analytics.dim_account.account_key.'),
      ('inbox_key', 'The inbox, null where there is none; joins analytics.dim_inbox.inbox_key.'),
      ('agent_key', 'Who of the team, null where nobody; joins analytics.dim_agent.agent_key.'),
      ('customer_key', 'The customer, null where there is none; joins analytics.dim_customer.customer_key.'),
      ('label_key', 'The label; joins analytics.dim_label.label_key.'),
      ('shelf_key', 'The shelf; joins analytics.dim_shelf.shelf_key.'),
      ('volume_key', 'The volume; joins analytics.dim_volume.volume_key.'),
      ('ticket_key', 'The ticket; joins analytics.fact_tickets.ticket_key.'),
      ('date_key', 'The day; joins analytics.dim_date.date_key.'),
      ('created_date', 'The day on which it was created; joins analytics.dim_date.date_key.'),
      ('is_deleted', 'True if the source was found to have it no more.'),
      ('is_mirrored', 'False if it is only mentioned: the source had it no more before it could be read, or it has not been read yet.')
    ) common (column_name, meaning) on common.column_name = a.attname
    left join (values
      ('dim_date', 'date_key', 'The day.'),
      ('dim_date', 'year', 'Year.'),
      ('dim_date', 'quarter', 'Quarter, 1 to 4.'),
      ('dim_date', 'month', 'Month, 1 to 12.'),
      ('dim_date', 'month_name', 'Name of the month, in English.'),
      ('dim_date', 'month_start', 'First day of the month.'),
      ('dim_date', 'iso_year', 'Year that the week belongs to.'),
      ('dim_date', 'iso_week', 'Week of that year, 1 to 53.'),
      ('dim_date', 'week_start', 'Monday of the week.'),
      ('dim_date', 'day_of_month', 'Day of the month, 1 to 31.'),
      ('dim_date', 'iso_weekday', '1 Monday to 7 Sunday.'),
      ('dim_date', 'weekday_name', 'Name of the weekday, in English.'),
      ('dim_date', 'is_weekend', 'True on Saturdays and Sundays.'),
      ('dim_account', 'account_key', 'Names the account in every fact and dimension.'),
      ('dim_account', 'account_id', 'The operator''s name for the account.'),
      ('dim_account', 'time_zone', 'The zone that days and hours of the account are told in.'),
      ('dim_account', 'mirrored_since', 'The mirror wants everything from here on; null: everything.'),
      ('dim_inbox', 'inbox_key', 'Names the inbox: account and inbox_id.'),
      ('dim_inbox', 'inbox_id', 'Id at the source.'),
      ('dim_inbox', 'inbox_name', 'Name; the id until a reply has shown one.'),
      ('dim_agent', 'agent_key', 'Names the member of the team: account and user_id.'),
      ('dim_agent', 'user_id', 'Id at the source; joins safe.users.id.'),
      ('dim_customer', 'customer_key', 'Names the customer: account and customer_id.'),
      ('dim_customer', 'customer_id', 'Id at the source; joins safe.customers.id.'),
      ('dim_customer', 'created_after', 'Created at or after this time: the source does not say when.'),
      ('dim_customer', 'created_before', 'Created before this time.'),
      ('dim_label', 'label_key', 'Names the label: account and label_id.'),
      ('dim_label', 'label_id', 'Id at the source.'),
      ('dim_label', 'label_name', 'Name; the id until a reply has shown one.'),
      ('dim_shelf', 'shelf_key', 'Names the shelf: account, owner_id and shelf_id.'),
      ('dim_shelf', 'owner_id', 'The user whose shelf it is, or mylibrary.'),
      ('dim_shelf', 'shelf_id', 'Id at the source; only together with owner_id it names one shelf.'),
      ('dim_shelf', 'shelf_title', 'Title.'),
      ('dim_shelf', 'access', 'PUBLIC or PRIVATE; other values pass as they come.'),
      ('dim_shelf', 'created_at', 'When the shelf was created, at the source.'),
      ('dim_volume', 'volume_key', 'Names the volume: account and volume_id.'),
      ('dim_volume', 'volume_id', 'Id at the source.'),
      ('dim_volume', 'authors', 'Authors in their order, with commas; null where the source names none.'),
      ('dim_volume', 'categories', 'Subjects in their order, with commas.'),
      ('fact_tickets', 'ticket_key', 'Names the ticket: account and ticket_id.'),
      ('fact_tickets', 'agent_key', 'Who it is assigned to, null while nobody; joins analytics.dim_agent.agent_key.'),
      ('fact_tickets', 'first_responder_key', 'Who gave the first response; joins analytics.dim_agent.agent_key.'),
      ('fact_tickets', 'first_closed_date', 'The day of first_closed_at; joins analytics.dim_date.date_key.'),
      ('fact_tickets', 'ticket_id', 'Id at the source; joins safe.tickets.id.'),
      ('fact_tickets', 'channel', 'email, chat, web, phone and so on.'),
      ('fact_tickets', 'is_spam', 'True if it is marked as spam.'),
      ('fact_tickets', 'is_trash', 'True if it is in the trash.'),
      ('fact_messages', 'message_key', 'Names the message: account and id.'),
      ('fact_messages', 'agent_key', 'Who of the team wrote it, null if a customer or nobody; joins analytics.dim_agent.agent_key.'),
      ('fact_messages', 'created_hour', 'Hour of its day, 0 to 23.'),
      ('fact_messages', 'created_at', 'When it was created, at the source.'),
      ('fact_messages', 'kind', 'inbound, authored, automatic, note or other, as analytics.message_kinds says.'),
      ('fact_messages', 'channel', 'Channel of its ticket.'),
      ('fact_messages', 'position', 'Place within its ticket, from 1.'),
      ('fact_turns', 'turn_key', 'Names the turn: account, ticket and number.'),
      ('fact_turns', 'agent_key', 'Who replied, null while nobody has; joins analytics.dim_agent.agent_key.'),
      ('fact_turns', 'waiting_date', 'The day of waiting_since; joins analytics.dim_date.date_key.'),
      ('fact_turns', 'answered_date', 'The day of answered_at; joins analytics.dim_date.date_key.'),
      ('fact_ticket_labels', 'ticket_label_key', 'Names the row: ticket and label.'),
      ('fact_backlog', 'backlog_key', 'Names the row: account, day, state, inbox and user.'),
      ('fact_backlog', 'agent_key', 'Who they were assigned to then, null if nobody; joins analytics.dim_agent.agent_key.'),
      ('fact_backlog', 'state', 'Their state at the end of the day; null where it is not known.'),
      ('fact_backlog', 'tickets', 'How many, spam and trash left out.'),
      ('fact_backlog', 'uncertain', 'How many of them, or beside them, may have been otherwise: see analytics.backlog_daily.'),
      ('fact_shelf_volumes', 'shelf_volume_key', 'Names the row: shelf and volume.'),
      ('fact_shelf_volumes', 'position', 'Its place on the shelf, from 0; the last one that it had, once it is removed.'),
      ('fact_shelf_volumes', 'is_on_shelf', 'False if it was on the shelf and is not any more.'),
      ('fact_shelf_volumes', 'first_seen_date', 'The day on which it was first seen there; joins analytics.dim_date.date_key.'),
      ('fact_shelf_volumes', 'removed_date', 'The day by which it was gone; joins analytics.dim_date.date_key.'),
      ('fact_credits', 'credit_key', 'Names the row: account, source and hour.'),
      ('fact_credits', 'date_key', 'The day of that hour; joins analytics.dim_date.date_key.'),
      ('fact_credits', 'source', 'helpdesk or books; a credit of the catalog is a request.'),
      ('fact_credits', 'hour', 'When the hour began.'),
      ('fact_credits', 'interactive', 'Credits used for something that a person waits for.'),
      ('fact_credits', 'fresh', 'Credits used to keep up with what has just changed.'),
      ('fact_credits', 'backfill', 'Credits used to read history.'),
      ('fact_credits', 'sweep', 'Credits used to read everything again, for what nothing announces.'),
      ('fact_credits', 'others', 'The most credits that other clients of the account were seen to use, summed over minutes.'),
      ('fact_credits', 'refused', 'Requests that the source refused for want of credits.'),
      ('fact_credits', 'waited_seconds', 'How long its requests had waited for credits, all together.')
    ) own (view_name, column_name, meaning) on own.view_name = v.relname and own.column_name = a.attname
    where v.relnamespace = 'analytics'::regnamespace and v.relname ~ '^(dim|fact)_'
  loop
    execute format('comment on column %s.%I is %L', said.view_name, said.column_name, said.meaning);
  end loop;
end
$$;
