-- Questions of analysts answer within a second: one expression for business time, the past from the tables themselves, the backlog of
-- all time zones at once, and functions that PostgreSQL inlines and shares among processes.

alter index analytics.calendar_spans_pkey set (fillfactor = 10);
reindex index analytics.calendar_spans_pkey;

create or replace function analytics.business_seconds(calendar text, since timestamptz, until timestamptz) returns float8
language plpgsql stable strict parallel safe
-- The worker's connections plan each statement anew. Here that would mean each call.
set plan_cache_mode = force_generic_plan
as $$
declare
  first_stored constant timestamptz := '2000-01-01T00:00:00Z';
  last_stored constant timestamptz := '2060-01-01T00:00:00Z';
  seconds float8;
begin
  -- Business time up to each of the instants. Intervals keep microseconds exact. Two look-ups of one expression take less time than
  -- two statements, or than a join.
  seconds := date_part('epoch',
    (select s.seconds_before * interval '1 second' + (least($3, s.closes_at) - s.opens_at)
     from analytics.calendar_spans s where s.calendar = $1 and s.opens_at <= $3 order by s.opens_at desc limit 1)
    - (select s.seconds_before * interval '1 second' + (least($2, s.closes_at) - s.opens_at)
       from analytics.calendar_spans s where s.calendar = $1 and s.opens_at <= $2 order by s.opens_at desc limit 1));
  if seconds is not null and $2 >= first_stored and $2 <= last_stored and $3 >= first_stored and $3 <= last_stored then
    return seconds;
  end if;

  -- Before the first span, and beyond the stored ones.
  if not isfinite($2) or not isfinite($3) or not exists (select from analytics.calendars c where c.name = $1) then return null; end if;
  return coalesce((
      select date_part('epoch', s.seconds_before * interval '1 second' + (least($3, s.closes_at) - s.opens_at))
      from analytics.calendar_spans s where s.calendar = $1 and s.opens_at <= $3 order by s.opens_at desc limit 1), 0)
    - coalesce((
      select date_part('epoch', s.seconds_before * interval '1 second' + (least($2, s.closes_at) - s.opens_at))
      from analytics.calendar_spans s where s.calendar = $1 and s.opens_at <= $2 order by s.opens_at desc limit 1), 0)
    + case when $3 < $2 then -1 else 1 end * (
      select coalesce(sum(extract(epoch from o.closes_at - o.opens_at)), 0)
      from (values
        (least($2, $3), least(greatest($2, $3), first_stored)),
        (greatest(least($2, $3), last_stored), greatest($2, $3))) beyond (since, until)
      cross join lateral analytics.open_spans($1, beyond.since, beyond.until) o
      where beyond.since < beyond.until);
end
$$;

-- Stable, as adding an interval to a time is: PostgreSQL would not inline it as immutable.
alter function sync.true_by stable parallel safe;
alter function analytics.is_backlog parallel safe;
alter function analytics.is_countable parallel safe;
alter function sync.same_set parallel safe;
alter function sync.first_version parallel safe;
alter function internal.stream_completeness parallel safe;

-- PostgreSQL takes a plain union of selects apart and forgets that it is a security barrier, so the union is within another select.
create or replace view analytics.ticket_history with (security_barrier) as
select v.account_id, v.ticket_id, v.state, v.user_id, v.inbox_id, v.label_ids, v.spam, v.trash, v.valid_from, v.valid_to, v.change_after,
  v.deleted_after, v.is_first, v.change_by
from (
  select h.* from internal.ticket_history h
  union all
  select f.*
  from helpdesk.tickets t
  left join sync.accounts k on k.account_id = t.account_id
  cross join lateral sync.first_version(t, k.mirrored_since) f
  where not exists (
    select from internal.ticket_history h where h.account_id = t.account_id and h.ticket_id = t.id)) v
where v.account_id = any (array(select r.account_id from sync.readable_accounts r));

create or replace view internal.readable_versions with (security_barrier) as
select v.*
from (
  select h.*, t.number, t.customer_id, t.type, t.created_at, h.valid_to as ended,
    case when h.valid_to is not null then (
      select coalesce(n.change_after, '-infinity') from internal.ticket_history n
      where n.account_id = h.account_id and n.ticket_id = h.ticket_id and n.valid_from = h.valid_to) end as next_after
  from internal.ticket_history h
  join helpdesk.tickets t on t.account_id = h.account_id and t.id = h.ticket_id
  union all
  select f.*, t.number, t.customer_id, t.type, t.created_at, t._deleted_at, null
  from helpdesk.tickets t
  left join sync.accounts k on k.account_id = t.account_id
  cross join lateral sync.first_version(t, k.mirrored_since) f
  where not exists (
    select from internal.ticket_history h where h.account_id = t.account_id and h.ticket_id = t.id)) v
where v.account_id = any (array(select r.account_id from sync.readable_accounts r));
comment on view internal.readable_versions is
  'Rows of analytics.ticket_history with the columns of the ticket that its history lacks, for analytics.tickets_as_of.';
comment on column internal.readable_versions.account_id is 'The account.';
comment on column internal.readable_versions.type is 'Channel: email, chat, phone and so on.';
comment on column internal.readable_versions.ended is
  'Null if valid_to is null. Unlike valid_to it is a column of a table, so PostgreSQL knows how many rows have one.';
comment on column internal.readable_versions.next_after is
  'change_after of the row that follows directly, -infinity if that is null. Null if no row follows directly: then valid_to is null, or the ticket was deleted.';

create or replace function analytics.tickets_as_of(at timestamptz)
returns table (account_id text, ticket_id text, number bigint, customer_id text, inbox_id text, user_id text, state text, type text,
  label_ids text[], spam boolean, trash boolean, created_at timestamptz, valid_from timestamptz, valid_to timestamptz, certain boolean)
language sql stable parallel safe
begin atomic
  select v.account_id, v.ticket_id, v.number, v.customer_id, case when k.known then v.inbox_id end, case when k.known then v.user_id end,
    case when k.known then v.state end, v.type, case when k.known then v.label_ids end, case when k.known then v.spam end,
    case when k.known then v.trash end, v.created_at, case when k.known then v.valid_from end, case when k.known then v.valid_to end,
    k.known and coalesce(v.change_by <= tickets_as_of.at, true) and case
      when v.valid_to is null then true
      when v.next_after is null then coalesce(v.deleted_after >= tickets_as_of.at, false)
      else v.next_after >= tickets_as_of.at and coalesce(v.deleted_after >= tickets_as_of.at, true) end
  from internal.readable_versions v
  -- A ticket that was first seen later has the row of that time, without its values.
  cross join lateral (select v.valid_from <= tickets_as_of.at as known) k
  where (v.valid_from <= tickets_as_of.at or v.is_first) and (v.ended is null or v.valid_to > tickets_as_of.at)
    and (v.created_at <= tickets_as_of.at or v.created_at is null and v.valid_from <= tickets_as_of.at);
end;

drop view internal.ticket_basics;

create or replace function internal.backlog(time_zones text[], from_days date[], to_days date[], by_inbox boolean)
returns table (account_id text, day date, state text, inbox_id text, user_id text, tickets bigint, uncertain bigint)
language sql stable parallel safe rows 50000
-- PostgreSQL expects a row of a common table expression where there may be a thousand accounts.
set enable_nestloop = off
begin atomic
  -- Ends of days plus one microsecond, so that the number of a time is the number of days that ended before it. Where
  -- clocks go back to midnight, that midnight occurs twice and PostgreSQL takes the later one; the day ends with the
  -- first.
  with zone as materialized (
    select u.time_zone, u.from_day, (
      select array_agg(m.at - case
        when (m.at - interval '1 hour') at time zone u.time_zone >= (d.day + 1)::timestamp then interval '1 hour'
        else interval '0' end + interval '1 microsecond' order by d.day)
      from (select u.from_day + g.n as day from generate_series(0, u.to_day - u.from_day) g (n)) d
      cross join lateral (select (d.day + 1)::timestamp at time zone u.time_zone as at) m) as ends
    from unnest(time_zones, from_days, to_days) u (time_zone, from_day, to_day)),
  -- The zone of each inbox, and of all others.
  place as materialized (
    select i.account_id, i.inbox_id, i.time_zone from analytics.inbox_zones i where by_inbox
    union all
    select r.account_id, null, case when by_inbox then r.time_zone else time_zones[1] end from analytics.account_zones r),
  -- Read once: open work of these days, and versions that began, or were shown, since the first of them.
  version as materialized (
    select h.account_id, h.ticket_id, array[h.account_id, h.state, h.inbox_id, h.user_id] as of, analytics.is_backlog(h.state, h.spam, h.trash) as counts,
      h.valid_from, h.valid_to, h.change_after, h.change_by, h.deleted_after, h.is_first
    from analytics.ticket_history h
    where analytics.is_backlog(h.state, h.spam, h.trash) and (h.valid_to is null or h.valid_to >= (select min(z.ends[1]) from zone z))
      or h.valid_from >= (select min(z.ends[1]) from zone z) or h.change_by >= (select min(z.ends[1]) from zone z)),
  span as (
    select v.of, v.valid_from as since, coalesce(v.valid_to, 'infinity') as until, 1 as tickets, 0 as uncertain
    from version v
    where v.counts
    union all
    -- Values before the first row.
    select array[v.account_id, null, null, null], v.change_after + interval '1 second', v.valid_from, 1, 1
    from version v
    where v.is_first
    union all
    -- Values between the first row and the reply that showed them.
    select array[v.account_id, null, null, null], v.valid_from, v.change_by, 0, 1
    from version v
    where v.is_first and v.change_by > v.valid_from
    union all
    -- A change that may have happened before or after the end of a day makes both the old and the new values
    -- uncertain.
    select d.of, greatest(n.since, o.valid_from), n.until, 0, 1
    from (
      select v.*, case when v.is_first then v.valid_from else coalesce(v.change_after + interval '1 microsecond', '-infinity') end as since,
        greatest(v.valid_from, v.change_by) as until
      from version v) n
    left join lateral (
      select array[h.account_id, h.state, h.inbox_id, h.user_id] as of, h.valid_from, analytics.is_backlog(h.state, h.spam, h.trash) as counts
      from analytics.ticket_history h
      where h.account_id = n.account_id and h.ticket_id = n.ticket_id and h.valid_to = n.valid_from and not n.is_first
      offset 0) o on true
    cross join lateral (
      select o.of where o.counts
      union all
      select n.of where n.counts) d
    where exists (select from zone z where width_bucket(n.since, z.ends) < width_bucket(n.until, z.ends))
      and not (coalesce(o.counts, false) and n.counts and n.of = o.of)
    union all
    -- The same for a deletion.
    select v.of, greatest(v.valid_from, v.deleted_after + interval '1 microsecond'), v.valid_to, 0, 1
    from version v
    where v.counts and v.deleted_after is not null),
  -- After which day it begins, and with which it ends.
  counted as materialized (
    select s.of, z.time_zone, width_bucket(s.since, z.ends) as after, width_bucket(s.until, z.ends) as through, s.tickets, s.uncertain
    from span s
    left join place i on i.account_id = s.of[1] and i.inbox_id = s.of[3]
    join place a on a.account_id = s.of[1] and a.inbox_id is null
    join zone z on z.time_zone = coalesce(i.time_zone, a.time_zone)
    where width_bucket(s.since, z.ends) < width_bucket(s.until, z.ends)),
  value as materialized (
    select row_number() over () as id, c.of, z.from_day, cardinality(z.ends) as days
    from (select distinct c.of, c.time_zone from counted c) c join zone z on z.time_zone = c.time_zone),
  total as (
    select b.id, b.n, sum(sum(b.tickets)::int) over w as tickets, sum(sum(b.uncertain)::int) over w as uncertain
    from (
      select v.id, e.n, e.sign * c.tickets as tickets, e.sign * c.uncertain as uncertain
      from counted c join value v on v.of = c.of
      cross join lateral (values (c.after + 1, 1), (c.through + 1, -1)) e (n, sign)
      union all
      select v.id, g.n, 0, 0 from value v cross join lateral generate_series(1, v.days) g (n)) b
    group by b.id, b.n
    window w as (partition by b.id order by b.n))
  select v.of[1], v.from_day + t.n - 1, v.of[2], v.of[3], v.of[4], t.tickets, t.uncertain
  from total t join value v on v.id = t.id and t.n <= v.days
  where t.tickets > 0 or t.uncertain > 0;
end;
comment on function internal.backlog is
  'analytics.backlog_daily for several time zones, each with its own days. by_inbox: a row counts by the zone of its inbox, as in analytics.inbox_zones, else by that of its account; all other rows are left out. Otherwise every row counts by the first zone.';

create or replace function analytics.backlog_daily(from_day date, to_day date, time_zone text default 'UTC')
returns table (account_id text, day date, state text, inbox_id text, user_id text, tickets bigint, uncertain bigint)
language sql stable parallel safe
begin atomic
  select b.account_id, b.day, b.state, b.inbox_id, b.user_id, b.tickets, b.uncertain
  from internal.backlog(array[time_zone], array[from_day], array[to_day], false) b;
end;

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

create or replace view analytics.fact_turns with (security_barrier) as
select r.account_id || '/' || r.ticket_id || '/' || r.turn as turn_key, r.account_id || '/' || r.ticket_id as ticket_key,
  r.account_id as account_key, r.account_id || '/' || t.customer_id as customer_key, r.account_id || '/' || t.inbox_id as inbox_key,
  r.account_id || '/' || r.user_id as user_key,
  (r.waiting_since at time zone t.time_zone)::date as waiting_date, (r.answered_at at time zone t.time_zone)::date as answered_date,
  r.waiting_since, r.answered_at, r.wait_seconds, r.wait_business_seconds, r.inbound_messages, r.is_answered, r.is_first_response,
  t.messages_complete, t.type as ticket_type
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
comment on column analytics.fact_turns.ticket_type is
  'Channel of the ticket, such as email, chat, web or phone: fact_tickets.type; null if the source shows none.';

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

create or replace view analytics.integrity with (security_barrier) as
select c.check_name, a.account_id, c.found, c.means
from sync.readable_accounts a
cross join lateral (values
  ('messages without their ticket',
    (select count(*) from internal.messages m where m.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = m.ticket_id)),
    'Messages come with their ticket: there should be none.'),
  ('attachments without their message',
    (select count(*) from helpdesk.attachments f where f.account_id = a.account_id
      -- One look-up each: messages are many times as many.
      and not exists (select from internal.messages m where m.account_id = a.account_id and m.id = f.message_id offset 0)),
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
    (select count(*) from internal.messages m where m.account_id = a.account_id and m.user_id is not null
      and not exists (select from helpdesk.users u where u.account_id = a.account_id and u.id = m.user_id)),
    'The list of users does not show who has left before the mirror began, or they have not been read yet.'),
  ('tickets of an inbox that is not here',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t.inbox_id is not null
      and not exists (select from helpdesk.inboxes i where i.account_id = a.account_id and i.id = t.inbox_id)),
    'Inboxes are written with the first ticket that mentions them: there should be none.'),
  ('labels of tickets without the label',
    (select count(distinct (t.id, l.label_id)) from helpdesk.tickets t
     cross join lateral unnest(t.label_ids) l (label_id)
     where t.account_id = a.account_id and t._deleted_at is null
       and not t.label_ids <@ array(select n.id from helpdesk.labels n where n.account_id = a.account_id)
       and l.label_id is not null
       and not exists (select from helpdesk.labels n where n.account_id = a.account_id and n.id = l.label_id)),
    'Labels are written with the first ticket that mentions them: there should be none.'),
  ('tickets whose history tells otherwise',
    -- A ticket without stored history has the history that its row tells.
    (select count(*) from internal.ticket_history h
     join helpdesk.tickets t on t.account_id = h.account_id and t.id = h.ticket_id
     where h.account_id = a.account_id and h.valid_to is null and t._deleted_at is null
       and not ((h.state, h.user_id, h.inbox_id, h.spam, h.trash) is not distinct from (t.state, t.user_id, t.inbox_id, t.spam, t.trash)
         and sync.same_set(h.label_ids, t.label_ids)))
    + (select count(distinct h.ticket_id) from internal.ticket_history h
       join helpdesk.tickets t on t.account_id = h.account_id and t.id = h.ticket_id
       where h.account_id = a.account_id and t._deleted_at is null and not exists (
         select from internal.ticket_history o where o.account_id = a.account_id and o.ticket_id = h.ticket_id and o.valid_to is null)),
    'The open row of its history is what the ticket is now: there should be none.'),
  ('history of tickets that are not here',
    (select count(*) from internal.ticket_history h where h.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = h.ticket_id)),
    'History goes with the row of its ticket: there should be none.'),
  ('history that overlaps',
    -- A constraint excludes it among rows that have ended.
    (select count(*) from internal.ticket_history o
     join internal.ticket_history h on h.account_id = o.account_id and h.ticket_id = o.ticket_id
     where o.account_id = a.account_id and o.valid_to is null and (h.valid_to > o.valid_from or h.valid_from > o.valid_from)),
    'A ticket is one thing at a time: there should be none.'),
  ('tickets without metrics',
    (select count(*) from (
      select t.id from helpdesk.tickets t where t.account_id = a.account_id
        and not exists (select from internal.stored_ticket_metrics s where s.account_id = a.account_id and s.ticket_id = t.id)
      offset 0) t
     where exists (select from internal.messages m where m.account_id = a.account_id and m.ticket_id = t.id)
       or exists (select from internal.ticket_history h where h.account_id = a.account_id and h.ticket_id = t.id)),
    'Metrics are written with the messages and the changes of a ticket: there should be none. If there are, call analytics.recompute.'),
  ('business times that are not worked out anew',
    (select count(*) from internal.stored_recomputes q where q.account_id = a.account_id),
    'A calendar has changed, and analytics.recompute has not gone through since: business times of some tickets are those of before. Call it, or run npx shelfdesk calendar set again.'),
  ('metrics of tickets that are not here',
    (select count(*) from internal.stored_ticket_metrics s where s.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = s.ticket_id)),
    'Metrics go with the row of their ticket: there should be none.'),
  ('tickets whose messages are not complete',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t._deleted_at is null
      and (t._messages_as_of is null or t._messages_as_of < t.updated_at or exists (
        select from sync.rejects r
        where r.account_id = a.account_id and r.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and r.ask_id = t.id and r.cleared_at is null))),
    'Their messages are pending, or a part of them was rejected: ticket_metrics.messages_complete is false.'),
  ('volumes on a shelf that are not here',
    (select count(*) from books.shelf_volumes v where v.account_id = a.account_id
      and not exists (select from books.volumes b where b.account_id = a.account_id and b.id = v.volume_id)),
    'Volumes are written with their shelf: there should be none.'),
  ('volumes on a shelf that is not here',
    (select count(*) from books.shelf_volumes v where v.account_id = a.account_id
      and not exists (select from books.shelves s where s.account_id = a.account_id and s.owner_id = v.owner_id and s.id = v.shelf_id)),
    'A shelf is written before what is on it: there should be none.')
) c (check_name, found, means);

create or replace function sync.wanted_rights() returns table (role name, relation regclass, kind "char", right_name text)
language sql stable
begin atomic
  with ours as (
    select c.oid, n.nspname, c.relname, c.relkind, c.reloptions,
      -- The worker writes none of these.
      n.nspname = 'sync' and c.relname in ('readers', 'migrations') as to_be_read,
      n.nspname = 'sync' and (c.relname = 'readers' or starts_with(c.relname, 'secret_'))
        -- analytics.tickets_as_of reads this view with the rights of its caller.
        or n.nspname = 'internal' and c.relname <> 'readable_versions' as hidden,
      -- Views with a security barrier filter by sync.readable_accounts themselves.
      -- If somebody granted a view by hand, the view kept its owner's rights and would show every account.
      (n.nspname = 'sync' or n.nspname in (select s.name from sync.source_schemas s)) and c.relkind = 'v' and not coalesce('security_barrier=true' = any (c.reloptions), false)
        and not coalesce('security_invoker=true' = any (c.reloptions), false) as unfiltered
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where (n.nspname in ('sync', 'analytics', 'internal', 'safe', 'bullmq') or n.nspname in (select s.name from sync.source_schemas s)) and c.relkind in ('r', 'p', 'v', 'm', 'S')
      and not exists (
        select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'))
  select 'shelfdesk_reader'::name, o.oid::regclass, o.relkind, 'select' from ours o
  where o.relkind <> 'S' and not o.hidden and not o.unfiltered
    and (o.nspname in ('analytics', 'internal', 'safe') or o.nspname in (select s.name from sync.source_schemas s where not s.personal) or o.oid = 'sync.readable_accounts'::regclass)
  union all
  select 'shelfdesk_reader_pii', o.oid, o.relkind, 'select' from ours o
  where o.relkind <> 'S' and not o.hidden and not o.unfiltered and o.nspname <> 'bullmq'
  union all
  -- The rights of shelfdesk_sql: everything that the owner reads, without the keys.
  select 'shelfdesk_sql', o.oid, o.relkind, 'select' from ours o
  where o.relkind <> 'S' and not (o.nspname = 'sync' and starts_with(o.relname, 'secret_'))
  union all
  select 'shelfdesk_writer', o.oid, o.relkind, p.name from ours o
  cross join unnest(case
    when o.relkind = 'S' then '{usage,select}'
    when o.relkind in ('v', 'm') or o.to_be_read then '{select}'
    else '{select,insert,update,delete}' end::text[]) p (name)
  where o.oid <> 'sync.secret_salt'::regclass;
end;

select sync.settle_comments();
select sync.settle_roles();
