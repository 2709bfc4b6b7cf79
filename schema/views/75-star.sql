-- The star schema for BI tools.

-- A star schema for BI tools: facts and dimensions of one grain each. The first column is the row's key; each key is
-- one column with the same name everywhere; no column has JSON or arrays. Facts of tickets have analytics.countable_tickets. Their days
-- follow analytics.inbox_zones, other days analytics.account_zones. A column that helpdesk or the metrics have too has their name, but for
-- fact_messages.ticket_type and fact_turns.ticket_type (type of the ticket) and first_reply_after_creation_seconds (first_reply_seconds).

create or replace view analytics.dim_date with (security_barrier) as
select d.day as date_key, extract(year from d.day)::int as year, extract(quarter from d.day)::int as quarter,
  extract(month from d.day)::int as month, to_char(d.day, 'FMMonth') as month_name, date_trunc('month', d.day)::date as month_start,
  extract(isoyear from d.day)::int as iso_year, extract(week from d.day)::int as iso_week, date_trunc('week', d.day)::date as week_start,
  extract(day from d.day)::int as day_of_month, extract(isodow from d.day)::int as iso_weekday, to_char(d.day, 'FMDay') as weekday_name,
  extract(isodow from d.day) >= 6 as is_weekend
from (select date '1970-01-01' + n as day from generate_series(0, date '2100-12-31' - date '1970-01-01') n) d;
comment on view analytics.dim_date is 'One row for each day from 1970 to 2100.';
comment on column analytics.dim_date.date_key is 'The day.';
comment on column analytics.dim_date.year is 'Year.';
comment on column analytics.dim_date.quarter is 'Quarter, 1 to 4.';
comment on column analytics.dim_date.month is 'Month, 1 to 12.';
comment on column analytics.dim_date.month_name is 'Name of the month, in English.';
comment on column analytics.dim_date.month_start is 'First day of the month.';
comment on column analytics.dim_date.iso_year is 'Year that the week belongs to.';
comment on column analytics.dim_date.iso_week is 'Week of that year, 1 to 53.';
comment on column analytics.dim_date.week_start is 'Monday of the week.';
comment on column analytics.dim_date.day_of_month is 'Day of the month, 1 to 31.';
comment on column analytics.dim_date.iso_weekday is '1 Monday to 7 Sunday.';
comment on column analytics.dim_date.weekday_name is 'Name of the weekday, in English.';
comment on column analytics.dim_date.is_weekend is 'True on Saturdays and Sundays.';

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

-- Reports show names: two inboxes of one name would become one. Each account names its own, so that no account changes what another shows.
create or replace view analytics.dim_inbox with (security_barrier) as
select n.account_id || '/' || n.id as inbox_key, n.account_id as account_key, n.id as inbox_id,
  n.name || case when count(*) over (partition by n.account_id, n.name) > 1 then ' (' || n.id || ')' else '' end as inbox_name, z.time_zone
from (
  select i.account_id, i.id, coalesce(sync.masked_title(i.name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)), i.id) as name
  from helpdesk.inboxes i
  where i.account_id = any (array(select account_id from sync.readable_accounts))) n
left join analytics.inbox_zones z on z.account_id = n.account_id and z.inbox_id = n.id;
comment on view analytics.dim_inbox is 'One row for each inbox.';
comment on column analytics.dim_inbox.inbox_key is 'Key of the inbox: account and inbox_id.';
comment on column analytics.dim_inbox.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.dim_inbox.inbox_id is 'Id at the source.';
comment on column analytics.dim_inbox.inbox_name is
  'Name; the id while no reply has shown a name. Where several inboxes of an account have one name, inbox_id stands behind it, so that each name is one inbox of the account.';
comment on column analytics.dim_inbox.time_zone is
  'Time zone for days and hours of the tickets of the inbox: that of its own calendar, or of the account.';

-- Former team members appear in no list, but in messages. One index lookup per member finds them, however many
-- messages exist.
create or replace view analytics.dim_user with (security_barrier) as
select k.account_id || '/' || k.user_id as user_key, k.account_id as account_key, k.user_id, u._deleted_at is not null as is_deleted,
  u.id is not null and u._deleted_at is null as is_mirrored
from (
  select u.account_id, u.id as user_id from helpdesk.users u where u.account_id = any (array(select r.account_id from sync.readable_accounts r))
  union
  select a.account_id, w.user_id
  from sync.readable_accounts a
  cross join lateral (
    with recursive wrote (user_id) as (
      select min(m.user_id) from internal.messages m where m.account_id = a.account_id
      union all
      select (select min(m.user_id) from internal.messages m where m.account_id = a.account_id and m.user_id > w.user_id)
      from wrote w where w.user_id is not null)
    select w.user_id from wrote w where w.user_id is not null) w
  union
  select a.account_id, h.user_id
  from sync.readable_accounts a
  cross join lateral (
    with recursive has (user_id) as (
      select min(t.user_id) from helpdesk.tickets t where t.account_id = a.account_id
      union all
      select (select min(t.user_id) from helpdesk.tickets t where t.account_id = a.account_id and t.user_id > h.user_id)
      from has h where h.user_id is not null)
    select h.user_id from has h where h.user_id is not null) h
  union
  -- They also appear in the past backlog. The stored history has no index for that; it is small compared with the messages. Other
  -- tickets have the user of their only version.
  select h.account_id, h.user_id from internal.ticket_history h
  where h.account_id = any (array(select r.account_id from sync.readable_accounts r)) and h.user_id is not null) k
left join helpdesk.users u on u.account_id = k.account_id and u.id = k.user_id;
comment on view analytics.dim_user is
  'One row per team member, without names: join helpdesk.users for names, or safe.users for their keyed hashes. Includes members who appear only in a message, a ticket or its history.';
comment on column analytics.dim_user.user_key is 'Key of the team member: account and user_id.';
comment on column analytics.dim_user.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.dim_user.user_id is 'Id at the source; joins safe.users.id.';
comment on column analytics.dim_user.is_deleted is 'True if the record was deleted at the source.';
comment on column analytics.dim_user.is_mirrored is
  'True if the team member is mirrored, and is not deleted at the source. If this and is_deleted are false, the team member is only referenced: deleted before it could be read, or not read yet.';

-- PostgreSQL takes a plain union of selects apart and forgets that it is a security barrier, so the union is within another select.
create or replace view analytics.dim_customer with (security_barrier) as
select k.account_id || '/' || k.customer_id as customer_key, k.account_id as account_key, k.customer_id, k.created_after, k.created_before,
  k.is_deleted, k.is_mirrored
from (
  select c.account_id, c.id as customer_id, nullif(c._created_after, timestamptz '1970-01-01T00:00:00Z') as created_after,
    c._created_before as created_before, c._deleted_at is not null as is_deleted, c._deleted_at is null as is_mirrored
  from helpdesk.customers c
  union all
  select distinct t.account_id, t.customer_id, null::timestamptz, null::timestamptz, false, false
  from helpdesk.tickets t
  where t.customer_id is not null
    and not exists (select from helpdesk.customers c where c.account_id = t.account_id and c.id = t.customer_id)) k
where k.account_id = any (array(select r.account_id from sync.readable_accounts r));
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

create or replace view analytics.dim_label with (security_barrier) as
select n.account_id || '/' || n.id as label_key, n.account_id as account_key, n.id as label_id,
  n.name || case when count(*) over (partition by n.account_id, n.name) > 1 then ' (' || n.id || ')' else '' end as label_name
from (
  select l.account_id, l.id, coalesce(sync.masked_title(l.name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)), l.id) as name
  from helpdesk.labels l
  where l.account_id = any (array(select account_id from sync.readable_accounts))) n;
comment on view analytics.dim_label is 'One row for each label.';
comment on column analytics.dim_label.label_key is 'Key of the label: account and label_id.';
comment on column analytics.dim_label.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.dim_label.label_id is 'Id at the source.';
comment on column analytics.dim_label.label_name is
  'Name; the id while no reply has shown a name. Where several labels of an account have one name, label_id stands behind it, so that each name is one label of the account.';

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

create or replace view analytics.dim_volume with (security_barrier) as
select v.account_id || '/' || v.id as volume_key, v.account_id as account_key, v.id as volume_id, v.title, v.subtitle,
  array_to_string(v.authors, ', ') as authors, array_to_string(v.categories, ', ') as categories, v.publisher, v.published_year,
  v.isbn_13, v.page_count, v.print_type, v.language, v.average_rating, v.ratings_count,
  v.list_price, v.list_price_currency, v.retail_price, v.retail_price_currency, v.saleability, v._deleted_at is not null as is_deleted
from books.volumes v
where v.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.dim_volume is 'One row for each volume.';
comment on column analytics.dim_volume.volume_key is 'Key of the volume: account and volume_id.';
comment on column analytics.dim_volume.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.dim_volume.volume_id is 'Id at the source.';
comment on column analytics.dim_volume.authors is
  'Authors in order, separated by commas; null if the source names none.';
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
comment on column analytics.dim_volume.is_deleted is 'True if the record was deleted at the source.';

create or replace view analytics.fact_tickets with (security_barrier) as
select m.account_id || '/' || m.ticket_id as ticket_key, m.account_id as account_key,
  m.account_id || '/' || m.customer_id as customer_key, m.account_id || '/' || m.inbox_id as inbox_key,
  m.account_id || '/' || m.user_id as user_key, m.account_id || '/' || m.first_responder_id as first_responder_key,
  (m.created_at at time zone l.zone)::date as created_date,
  (m.first_closed_at at time zone l.zone)::date as first_closed_date, (m.last_closed_at at time zone l.zone)::date as last_closed_date,
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
comment on column analytics.fact_tickets.last_closed_date is
  'Day of last_closed_at, in the time zone of the inbox or account; null if last_closed_at is null. The ticket was closed at most last_closed_error_seconds before that time. Joins analytics.dim_date.date_key.';
comment on column analytics.fact_tickets.ticket_id is 'Id at the source; joins safe.tickets.id.';
comment on column analytics.fact_tickets.first_reply_after_creation_seconds is
  'From the creation of the ticket: seconds to the first team reply, or to the second if the team wrote first. Null if there is no such reply, or if it or the creation has no time. It is first_reply_seconds of analytics.countable_tickets. first_response_seconds begins with the first customer message instead.';
comment on column analytics.fact_tickets.first_reply_after_creation_business_seconds is
  'first_reply_after_creation_seconds in business hours. Null if first_reply_after_creation_seconds is null; otherwise null means that the ticket has no calendar.';

create or replace view analytics.fact_messages with (security_barrier) as
select m.account_id || '/' || m.id as message_key, m.account_id || '/' || m.ticket_id as ticket_key, m.account_id as account_key,
  m.account_id || '/' || t.customer_id as customer_key, m.account_id || '/' || t.inbox_id as inbox_key,
  m.account_id || '/' || m.user_id as user_key, l.at::date as created_date, extract(hour from l.at)::int as created_hour,
  m.created_at, analytics.message_kind(m.type, m.direction, m.user_id) as kind, t.type as ticket_type, m.position, t.messages_complete, m.ticket_id
from internal.messages m
join internal.countable_basics t on t.account_id = m.account_id and t.ticket_id = m.ticket_id
cross join lateral (select m.created_at at time zone t.time_zone as at) l;
comment on view analytics.fact_messages is
  'One row for each message of the tickets in analytics.fact_tickets, without its text. fact_tickets.message_count counts these rows.';
comment on column analytics.fact_messages.message_key is 'Key of the message: account and id.';
comment on column analytics.fact_messages.ticket_key is 'The ticket; joins analytics.fact_tickets.ticket_key.';
comment on column analytics.fact_messages.ticket_id is 'Id of the ticket at the source; joins safe.tickets.id.';
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
  t.messages_complete, t.type as ticket_type, r.ticket_id
from internal.stored_reply_turns r
join internal.countable_basics t on t.account_id = r.account_id and t.ticket_id = r.ticket_id;
comment on view analytics.fact_turns is
  'One row per wait of a customer in the tickets of analytics.fact_tickets: a burst of messages, and the reply that ended the wait, if any. fact_tickets.turns counts the rows with is_answered.';
comment on column analytics.fact_turns.turn_key is 'Key of the turn: account, ticket and number.';
comment on column analytics.fact_turns.ticket_key is 'The ticket; joins analytics.fact_tickets.ticket_key.';
comment on column analytics.fact_turns.ticket_id is 'Id of the ticket at the source; joins safe.tickets.id.';
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
comment on column analytics.fact_turns.ticket_type is
  'Channel of the ticket, such as email, chat, web or phone: fact_tickets.type; null if the source shows none.';

-- Each event is a branch of its own, so that a question about one of them reads no other, and what a question leaves out is not reckoned.
create or replace view analytics.fact_ticket_events with (security_barrier) as
with step as not materialized (
  select h.*, coalesce(h.state in ('closed', 'archived'), false) as is_resolved,
    lag(coalesce(h.state in ('closed', 'archived'), false), 1, false) over w as was_resolved, lag(h.user_id) over w as from_user_id
  from internal.ticket_history h
  window w as (partition by h.account_id, h.ticket_id order by h.valid_from)),
-- A ticket without stored history was never anything else.
single as not materialized (
  select f.* from helpdesk.tickets t left join sync.accounts k on k.account_id = t.account_id cross join lateral sync.first_version(t, k.mirrored_since) f
  where not exists (select from internal.ticket_history h where h.account_id = t.account_id and h.ticket_id = t.id))
select e.account_id || '/' || e.ticket_id || '/' || e.event || '/' || date_part('epoch', e.happened_at) as event_key, e.account_id || '/' || e.ticket_id as ticket_key,
  e.account_id as account_key, e.account_id || '/' || t.customer_id as customer_key, e.account_id || '/' || t.inbox_id as inbox_key,
  e.account_id || '/' || e.user_id as user_key, e.account_id || '/' || e.from_user_id as from_user_key, e.account_id || '/' || e.done_by_id as done_by_key,
  (e.happened_at at time zone t.time_zone)::date as date_key, e.event, e.happened_at, date_part('epoch', e.happened_at - a.change_after) as error_seconds, a.change_after, e.change_by,
  coalesce((a.change_after at time zone t.time_zone)::date = (greatest(e.happened_at, e.change_by) at time zone t.time_zone)::date, false) as is_day_certain,
  not e.is_first as was_seen, date_part('epoch', e.happened_at - t.created_at) as seconds_since_creation, e.closed_at,
  t.type as ticket_type, e.ticket_id
from (
  select h.account_id, h.ticket_id, 'closed' as event, h.user_id, null::text as from_user_id, null::text as done_by_id, h.valid_from as happened_at, h.change_after,
    h.change_by, h.is_first, null::timestamptz as closed_at
  from step h where h.is_resolved and not h.was_resolved
  union all
  select f.account_id, f.ticket_id, 'closed', f.user_id, null, null, f.valid_from, f.change_after, f.change_by, true, null
  from single f where f.state in ('closed', 'archived')
  union all
  select h.account_id, h.ticket_id, 'reopened', h.user_id, null, null, h.valid_from, h.change_after, h.change_by, false, (
    select max(c.valid_from) from step c
    where c.account_id = h.account_id and c.ticket_id = h.ticket_id and c.valid_from < h.valid_from and c.is_resolved and not c.was_resolved)
  from step h where h.was_resolved and not h.is_resolved
  union all
  select h.account_id, h.ticket_id, 'assigned', h.user_id, null, null, h.valid_from, h.change_after, h.change_by, h.is_first, null
  from step h where h.user_id is not null and h.from_user_id is null
  union all
  select f.account_id, f.ticket_id, 'assigned', f.user_id, null, null, f.valid_from, f.change_after, f.change_by, true, null
  from single f where f.user_id is not null
  union all
  select h.account_id, h.ticket_id, 'handed_over', h.user_id, h.from_user_id, null, h.valid_from, h.change_after, h.change_by, false, null
  from step h where h.from_user_id <> h.user_id
  union all
  select h.account_id, h.ticket_id, 'unassigned', null, h.from_user_id, null, h.valid_from, h.change_after, h.change_by, false, null
  from step h where h.from_user_id is not null and h.user_id is null
  union all
  select c.account_id, c.id, 'created', null, null, null, c.created_at, c.created_at, null, false, null from helpdesk.tickets c where c.created_at is not null
  union all
  select r.account_id, r.ticket_id, 'first_response', null, null, r.user_id, r.answered_at, r.answered_at, null, false, null
  from internal.stored_reply_turns r where r.is_first_response and r.answered_at is not null) e
join internal.countable_basics t on t.account_id = e.account_id and t.ticket_id = e.ticket_id
-- Without all messages an earlier response may not be here.
cross join lateral (select case when e.event <> 'first_response' or t.messages_complete then e.change_after end as change_after) a;
comment on view analytics.fact_ticket_events is
  'One row per event of a ticket in analytics.fact_tickets: what the mirror saw of its history. The source keeps none: what was before the ticket was first seen, and what was changed and changed back between two readings, has no row. A ticket that was deleted and came back continues from what it was before.';
comment on column analytics.fact_ticket_events.event_key is 'Key of the row: ticket, event and time.';
comment on column analytics.fact_ticket_events.ticket_key is 'The ticket; joins analytics.fact_tickets.ticket_key.';
comment on column analytics.fact_ticket_events.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.fact_ticket_events.customer_key is
  'The customer of the ticket; null if it has none. Joins analytics.dim_customer.customer_key.';
comment on column analytics.fact_ticket_events.inbox_key is
  'The inbox that the ticket has now; null if it has none. Joins analytics.dim_inbox.inbox_key.';
comment on column analytics.fact_ticket_events.user_key is
  'The team member to whom the ticket was assigned after the event; null while unassigned, and for created and first_response. Joins analytics.dim_user.user_key.';
comment on column analytics.fact_ticket_events.from_user_key is
  'Of handed_over and unassigned: the team member who had the ticket before. Null for other events. Joins analytics.dim_user.user_key.';
comment on column analytics.fact_ticket_events.done_by_key is
  'Who did it: the author of a first_response. Null for all others, since the source does not say who closed, reopened or assigned a ticket. Joins analytics.dim_user.user_key.';
comment on column analytics.fact_ticket_events.date_key is
  'Day of happened_at, in the time zone of the inbox or account. Joins analytics.dim_date.date_key.';
comment on column analytics.fact_ticket_events.event is
  'created; first_response; closed (closed or archived after another state, or when first seen; archived after closed is none); reopened; assigned (nobody had it before); handed_over (from one team member to another); unassigned.';
comment on column analytics.fact_ticket_events.happened_at is
  'When it happened. Of created, and of first_response if all messages are here, exactly; of others the time by which it had happened: see error_seconds and change_by. Without a time there is no row.';
comment on column analytics.fact_ticket_events.error_seconds is
  'Upper bound of how many seconds before happened_at it happened; 0 for created and first_response. Null if unknown: of first_response if messages_complete of analytics.fact_tickets is false, since an earlier one may not be here.';
comment on column analytics.fact_ticket_events.change_after is
  'It happened after this time: the ticket was last seen otherwise then. Of created and first_response it is happened_at. Null where error_seconds is null.';
comment on column analytics.fact_ticket_events.change_by is
  'It happened by this time, if later than happened_at: an edit moved updated_at and this change did not. Null otherwise.';
comment on column analytics.fact_ticket_events.is_day_certain is
  'True if it happened on the day of date_key for sure: between change_after and happened_at (or change_by) no day ends.';
comment on column analytics.fact_ticket_events.was_seen is
  'False if the ticket was already closed, or assigned, when it was first seen: then happened_at is its updated_at of that time, and it may have been so since its creation. Where is_day_certain is true all the same, the day is known.';
comment on column analytics.fact_ticket_events.seconds_since_creation is
  'Seconds from the creation of the ticket to happened_at: that of its earliest assigned one is the time to first assignment, at most error_seconds too long (or too short up to change_by). Null if the creation has no time.';
comment on column analytics.fact_ticket_events.closed_at is
  'Of reopened: happened_at of the closing that it undoes, whose row says how certain that is. Null for other events.';
comment on column analytics.fact_ticket_events.ticket_type is
  'Channel of the ticket, such as email, chat, web or phone: fact_tickets.type; null if the source shows none.';
comment on column analytics.fact_ticket_events.ticket_id is 'Id of the ticket at the source; joins safe.tickets.id.';

create or replace view analytics.fact_ticket_labels with (security_barrier) as
select t.account_id || '/' || t.ticket_id || '/' || l.label_id as ticket_label_key,
  t.account_id || '/' || t.ticket_id as ticket_key, t.account_id || '/' || l.label_id as label_key, t.account_id as account_key,
  t.ticket_id
from internal.countable_basics t
-- As helpdesk.ticket_labels.
cross join lateral (select distinct u.label_id from unnest(t.label_ids) u (label_id) where u.label_id is not null) l;
comment on view analytics.fact_ticket_labels is
  'One row per label of a ticket in analytics.fact_tickets. A ticket with two labels counts under both.';
comment on column analytics.fact_ticket_labels.ticket_label_key is 'Key of the row: ticket and label.';
comment on column analytics.fact_ticket_labels.ticket_key is 'The ticket; joins analytics.fact_tickets.ticket_key.';
comment on column analytics.fact_ticket_labels.label_key is 'The label; joins analytics.dim_label.label_key.';
comment on column analytics.fact_ticket_labels.ticket_id is 'Id of the ticket at the source; joins safe.tickets.id.';
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
from (
  select array_agg(z.time_zone) as time_zones, array_agg(z.from_day) as from_days, array_agg(z.to_day) as to_days
  from (select n.time_zone, min(n.last_day) - 89 as from_day, max(n.last_day) as to_day from zones n group by n.time_zone) z) d
cross join lateral internal.backlog(d.time_zones, d.from_days, d.to_days, true) b
-- The last day that is over wherever the account has an inbox, so that all its inboxes have the same days.
left join (select z.account_id, min(z.last_day) as last_day from zones z group by z.account_id) l on l.account_id = b.account_id
where b.day between l.last_day - 89 and l.last_day;
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

create or replace view analytics.fact_backlog_months with (security_barrier) as
-- Per account, the ends of its months and of its last day that is over in all its zones, plus one microsecond: as in internal.backlog.
with first as materialized (
  select date_trunc('month', (min(coalesce(t.created_at, (
    select min(h.valid_from) from internal.ticket_history h where h.account_id = t.account_id and h.ticket_id = t.id), t.updated_at)) - interval '1 day') at time zone 'UTC') as month
  from helpdesk.tickets t),
zone as (
  select z.account_id, z.time_zone, array_agg(d.day order by d.day) as days,
    -- Of a midnight that comes twice, the first one.
    array_agg(m.at - case when (m.at - interval '1 hour') at time zone z.time_zone >= (d.day + 1)::timestamp then interval '1 hour' else interval '0' end
      + interval '1 microsecond' order by d.day) as ends
  from (
    select a.account_id, a.time_zone, min((c.complete_through at time zone a.time_zone)::date - 1) over (partition by a.account_id) as last_day
    from (select account_id, time_zone from analytics.account_zones union select account_id, time_zone from analytics.inbox_zones) a
    join analytics.completeness c on c.account_id = a.account_id and c.source = 'helpdesk' and c.stream = 'tickets') z
  cross join lateral (
    select least((m.at + interval '1 month')::date - 1, z.last_day) as day
    from generate_series((select f.month from first f), z.last_day::timestamp, interval '1 month') m (at)) d
  cross join lateral (select (d.day + 1)::timestamp at time zone z.time_zone as at) m
  group by z.account_id, z.time_zone),
month as materialized (
  select c.last, array(select m.at at time zone 'UTC' from generate_series((select f.month from first f), c.through, interval '1 month') m (at)) as starts
  from (
    select min(c.complete_through) - interval '3 days' as last, max(c.complete_through) at time zone 'UTC' + interval '2 months' as through
    from analytics.completeness c where c.source = 'helpdesk' and c.stream = 'tickets') c),
version as not materialized (
  select h.*, analytics.is_backlog(h.state, h.spam, h.trash) as counts
  from (
    select h.* from internal.ticket_history h
    union all
    select f.* from helpdesk.tickets t left join sync.accounts k on k.account_id = t.account_id cross join lateral sync.first_version(t, k.mirrored_since) f
    where not exists (select from internal.ticket_history h where h.account_id = t.account_id and h.ticket_id = t.id)) h),
-- Open work, what existed and was not seen yet, and what may have been open work: a change to or from it may have come before or after.
span as (
  select v.account_id, v.ticket_id, v.state, v.user_id, v.inbox_id, v.label_ids, v.valid_from as since, v.valid_to as until, v.change_by, v.deleted_after,
    true as is_counted, true as is_known
  from version v where v.counts
  union all
  -- Before the first row, and until the reply that showed it: then it may still have been something else.
  select v.account_id, v.ticket_id, null, null, null, null, b.since, b.until, null, null, b.is_counted, false
  from version v
  cross join lateral (values (v.change_after + interval '1 second', v.valid_from, true), (v.valid_from, least(v.change_by, v.valid_to), false)) b (since, until, is_counted)
  where v.is_first and (b.is_counted or v.change_by > v.valid_from and not v.counts)
  union all
  select v.account_id, v.ticket_id, v.state, v.user_id, v.inbox_id, v.label_ids,
    greatest(o.valid_from, o.change_by, v.change_after + interval '1 microsecond'), v.valid_from, null, null, false, false
  from internal.ticket_history v
  join internal.ticket_history o on o.account_id = v.account_id and o.ticket_id = v.ticket_id and o.valid_to = v.valid_from
  where analytics.is_backlog(v.state, v.spam, v.trash) and not v.is_first and not analytics.is_backlog(o.state, o.spam, o.trash)
  union all
  select o.account_id, o.ticket_id, o.state, o.user_id, o.inbox_id, o.label_ids, v.valid_from, least(v.change_by, v.valid_to), null, null, false, false
  from internal.ticket_history v
  join internal.ticket_history o on o.account_id = v.account_id and o.ticket_id = v.ticket_id and o.valid_to = v.valid_from
  where v.change_by > v.valid_from and not v.is_first and not analytics.is_backlog(v.state, v.spam, v.trash) and analytics.is_backlog(o.state, o.spam, o.trash))
select concat_ws('/', s.account_id, e.day, s.ticket_id, k.label_id) as backlog_key, s.account_id || '/' || s.ticket_id as ticket_key, e.day as date_key,
  s.account_id as account_key,
  s.account_id || '/' || t.customer_id as customer_key, s.account_id || '/' || s.inbox_id as inbox_key, s.account_id || '/' || s.user_id as user_key,
  s.account_id || '/' || k.label_id as label_key, s.state, t.type as ticket_type, s.is_counted,
  s.is_known and coalesce(s.change_by <= e.at, true) and coalesce(s.deleted_after >= e.at, true) and (s.until is null or coalesce((
    select coalesce(n.change_after >= e.at, false) from internal.ticket_history n
    where n.account_id = s.account_id and n.ticket_id = s.ticket_id and n.valid_from = s.until), s.deleted_after is not null)) as is_certain,
  s.ticket_id
from span s
join analytics.account_zones w on w.account_id = s.account_id
left join internal.own_zones own on own.account_id = s.account_id and own.inbox_id = s.inbox_id
-- PostgreSQL expects one zone, and would read the history once for each: hence a left join, which coalesce keeps one.
left join zone z on z.account_id = s.account_id and z.time_zone = coalesce(own.time_zone, w.time_zone)
cross join lateral (
  select coalesce(width_bucket(s.since, z.ends), cardinality(z.ends), 0) as after, coalesce(width_bucket(s.until, z.ends), cardinality(z.ends), 0) as through) b
cross join lateral (select z.days[n] as day, z.ends[n] - interval '1 microsecond' as at from generate_series(b.after + 1, b.through) n) e
join helpdesk.tickets t on t.account_id = s.account_id and t.id = s.ticket_id
left join lateral (select distinct u.label_id from unnest(s.label_ids) u (label_id) where u.label_id is not null) k on true
where b.after < b.through
  -- Most versions end in their month, in whatever zone: this goes before all joins.
  and (s.until is null or s.until > (select last from month)
    or width_bucket(s.since - interval '15 hours', (select starts from month)) < width_bucket(s.until + interval '15 hours', (select starts from month)));
comment on view analytics.fact_backlog_months is
  'The backlog at the end of each month of all time, and of the last day that is over: one row per day, ticket and label, for its channel, labels, inbox and team member at that time. Count tickets once: count(distinct ticket_key) filter (where is_counted) is the backlog, and the same of rows that are not is_certain by how many it may be wrong. Days and tickets as in analytics.fact_backlog, which has every day of the last 90.';
comment on column analytics.fact_backlog_months.backlog_key is 'Key of the row: account, day, ticket and label.';
comment on column analytics.fact_backlog_months.ticket_key is
  'Key of the ticket, as in analytics.fact_tickets if it still counts there.';
comment on column analytics.fact_backlog_months.date_key is
  'The last day of a month, or the last day that is over; joins analytics.dim_date.date_key.';
comment on column analytics.fact_backlog_months.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.fact_backlog_months.customer_key is
  'The customer of the ticket; null if it has none. Joins analytics.dim_customer.customer_key.';
comment on column analytics.fact_backlog_months.inbox_key is
  'The inbox at that time; null if state is null, or if the ticket had no inbox. Joins analytics.dim_inbox.inbox_key.';
comment on column analytics.fact_backlog_months.user_key is
  'Assigned team member at that time; null if state is null, or if the ticket was unassigned. Joins analytics.dim_user.user_key.';
comment on column analytics.fact_backlog_months.label_key is
  'A label at that time; null if state is null, or if the ticket had none. A ticket with two labels has two rows. Joins analytics.dim_label.label_key.';
comment on column analytics.fact_backlog_months.state is
  'State at the end of the day; null if unknown: the ticket existed, and was first seen later, or by a reply that came later.';
comment on column analytics.fact_backlog_months.ticket_type is
  'Channel of the ticket, such as email, chat, web or phone; null if the source shows none.';
comment on column analytics.fact_backlog_months.is_counted is
  'True if the ticket counts as open work. False if it may only have been: the change to or from these values is uncertain, and may have come before or after.';
comment on column analytics.fact_backlog_months.is_certain is
  'True if the ticket was so for sure at that time: see analytics.tickets_as_of.';
comment on column analytics.fact_backlog_months.ticket_id is 'Id of the ticket at the source; joins safe.tickets.id.';

create or replace view analytics.fact_targets with (security_barrier) as
select concat_ws('/', g.account_id, g.ticket_id, g.metric, case when g.metric = 'next_reply' then g.turn end) as target_key, g.account_id || '/' || g.ticket_id as ticket_key,
  g.account_id as account_key, g.account_id || '/' || g.customer_id as customer_key, g.account_id || '/' || g.inbox_id as inbox_key,
  g.account_id || '/' || g.user_id as user_key,
  (g.created_at at time zone coalesce(own.time_zone, z.time_zone))::date as created_date,
  (g.begins_at at time zone coalesce(own.time_zone, z.time_zone))::date as begins_date, g.created_at, g.metric, g.turn, g.target_seconds, g.in_business_time, g.is_done, g.begins_at, g.due_at, g.seconds, g.error_seconds, g.outcome,
  g.messages_complete, g.is_counted
from analytics.ticket_targets g
left join internal.own_zones own on own.account_id = g.account_id and own.inbox_id = g.inbox_id
left join analytics.account_zones z on z.account_id = g.account_id;
comment on view analytics.fact_targets is
  'One row per service target of a ticket in analytics.fact_tickets, and how the ticket keeps it: analytics.ticket_targets for BI tools.';
comment on column analytics.fact_targets.target_key is 'Key of the row: ticket and metric; of next_reply the turn too.';
comment on column analytics.fact_targets.ticket_key is 'The ticket; joins analytics.fact_tickets.ticket_key.';
comment on column analytics.fact_targets.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.fact_targets.customer_key is
  'The customer; null if the ticket has none. Joins analytics.dim_customer.customer_key.';
comment on column analytics.fact_targets.inbox_key is
  'The inbox; null if the ticket has none. Joins analytics.dim_inbox.inbox_key.';
comment on column analytics.fact_targets.user_key is
  'The assigned team member; null while unassigned. Joins analytics.dim_user.user_key.';
comment on column analytics.fact_targets.created_date is
  'Day of created_at of the ticket, in the time zone of the inbox or account; null if created_at is null. Joins analytics.dim_date.date_key.';
comment on column analytics.fact_targets.begins_date is
  'Day of begins_at, in the time zone of the inbox or account; null if begins_at is null. Joins analytics.dim_date.date_key.';

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

-- Joins the time zone with a left join, like the other views of the star. With an inner join PostgreSQL expects far
-- too few rows.
create or replace view analytics.fact_credits with (security_barrier) as
select m.account_id || '/' || m.source || '/' || to_char(m.hour at time zone 'UTC', 'YYYY-MM-DD"T"HH24') as credit_key,
  (m.hour at time zone z.time_zone)::date as date_key, m.account_id as account_key, m.source, m.hour,
  m.interactive, m.fresh, m.backfill, m.sweep, m.others, m.refused, m.waited_seconds, m.hours
from (
  select c.account_id, c.source, date_trunc('hour', c.minute, 'UTC') as hour,
    sum(c.interactive)::bigint as interactive, sum(c.fresh)::bigint as fresh, sum(c.backfill)::bigint as backfill,
    sum(c.sweep)::bigint as sweep, sum(c.others)::bigint as others, sum(c.refused)::bigint as refused,
    (sum(c.waited_ms) / 1000)::float8 as waited_seconds, case when max(c.minutes) > 60 then 24 else 1 end as hours
  from sync.credit_minutes c
  where c.account_id = any (array(select account_id from sync.readable_accounts))
  group by c.account_id, c.source, date_trunc('hour', c.minute, 'UTC')) m
left join analytics.account_zones z on z.account_id = m.account_id;
comment on view analytics.fact_credits is
  'One row per hour and source with requests: their cost and purpose. After one year, one row per day.';
comment on column analytics.fact_credits.credit_key is 'Key of the row: account, source and hour.';
comment on column analytics.fact_credits.date_key is 'The day of that hour; joins analytics.dim_date.date_key.';
comment on column analytics.fact_credits.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.fact_credits.source is 'helpdesk or books. A credit of the catalog is one request.';
comment on column analytics.fact_credits.hour is
  'Start of the hour; for a row per day, the first hour with a request.';
comment on column analytics.fact_credits.interactive is 'Credits for work that a person waits for.';
comment on column analytics.fact_credits.fresh is 'Credits for incremental syncs.';
comment on column analytics.fact_credits.backfill is 'Credits for history.';
comment on column analytics.fact_credits.sweep is 'Credits for sweeps, which find deletions and silent changes.';
comment on column analytics.fact_credits.others is
  'Estimated credits of other clients of the account: the sum of the highest observed use per minute.';
comment on column analytics.fact_credits.refused is 'Requests that the source refused for lack of credits.';
comment on column analytics.fact_credits.waited_seconds is 'Total time that requests waited for credits.';
comment on column analytics.fact_credits.hours is
  'Hours in this row: 1, or 24 for a day that is more than a year ago.';
