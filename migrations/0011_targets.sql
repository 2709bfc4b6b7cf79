-- Up Migration

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

-- Without a security barrier, so that the statistics of its tables reach the views that join it.
create or replace view internal.own_zones as
select a.account_id, a.inbox_id, c.time_zone, a.calendar
from internal.stored_calendar_assignments a
join analytics.calendars c on c.name = a.calendar;
comment on view internal.own_zones is
  'Time zone of each calendar assignment, for all accounts. A row with an inbox goes before that of the account, and without either the zone is UTC.';
comment on column internal.own_zones.inbox_id is 'The inbox; null for all other inboxes of the account.';
comment on column internal.own_zones.time_zone is 'Time zone of the calendar.';
comment on column internal.own_zones.calendar is 'The calendar.';

-- Service targets: how long a first response and a resolution may take, and how each ticket keeps them.

create table internal.stored_service_targets (
  account_id text not null,
  inbox_id text,
  label_id text,
  metric text not null,
  target_seconds integer not null,
  unique nulls not distinct (account_id, inbox_id, label_id, metric),
  constraint stored_service_targets_metric check (metric = any (array['first_response', 'resolution'])),
  constraint stored_service_targets_seconds check (target_seconds > 0)
);
comment on table internal.stored_service_targets is 'Storage of analytics.service_targets, for all accounts.';
comment on column internal.stored_service_targets.account_id is 'The operator''s name for the mirrored account.';
comment on column internal.stored_service_targets.inbox_id is 'The inbox; null for tickets of all inboxes and of none.';
comment on column internal.stored_service_targets.label_id is
  'The label; null for tickets with any labels and with none.';
comment on column internal.stored_service_targets.metric is 'first_response or resolution.';
comment on column internal.stored_service_targets.target_seconds is
  'Seconds that it may take: business time by the calendar of the ticket, or clock time of tickets without a calendar.';

create or replace view analytics.service_targets with (security_barrier) as
select g.account_id, g.inbox_id, g.label_id, g.metric, g.target_seconds
from internal.stored_service_targets g
where g.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.service_targets is
  'Service targets: how long a first response and a resolution may take. Created with npx shelfdesk target set. Of several for a ticket the most specific one counts: label and inbox, then label, then inbox, then the whole account. Of two labels of one ticket the shorter target counts.';
comment on column analytics.service_targets.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.service_targets.inbox_id is
  'The inbox; joins helpdesk.inboxes.id. Null for tickets of all inboxes and of none.';
comment on column analytics.service_targets.label_id is
  'The label; joins helpdesk.labels.id. Null for tickets with any labels and with none.';

-- The opposite of analytics.business_seconds.
create or replace function analytics.business_time_after(calendar text, since timestamptz, seconds float8) returns timestamptz
language plpgsql stable strict parallel safe
set plan_cache_mode = force_generic_plan
as $$
declare
  begun timestamptz;
  wanted float8;
begin
  if $2 < timestamptz '2000-01-01T00:00:00Z' then return null; end if;
  select s.opens_at, s.seconds_before + date_part('epoch', least($2, s.closes_at) - s.opens_at) + $3 into begun, wanted
  from analytics.calendar_spans s where s.calendar = $1 and s.opens_at <= $2 order by s.opens_at desc limit 1;
  return (
    select s.opens_at + make_interval(secs => coalesce(wanted, $3) - s.seconds_before)
    from analytics.calendar_spans s
    where s.calendar = $1 and s.opens_at >= coalesce(begun, '-infinity')
      and s.seconds_before + date_part('epoch', s.closes_at - s.opens_at) >= coalesce(wanted, $3)
    order by s.opens_at limit 1);
end
$$;
comment on function analytics.business_time_after is
  'The instant at which this many seconds of business time have passed since another instant. Null for an unknown calendar, and outside of the stored spans of 2000 to 2059.';

-- A view, so that a target or a calendar that changes costs nothing when tickets are written.
create or replace view analytics.ticket_targets with (security_barrier) as
select m.account_id, m.ticket_id, g.metric, m.customer_id, m.inbox_id, m.user_id, m.created_at, m.messages_complete,
  g.target_seconds, c.calendar is not null as in_business_time, o.is_done, s.begins_at,
  case when c.calendar is null then s.begins_at + make_interval(secs => g.target_seconds)
    else analytics.business_time_after(c.calendar, s.begins_at, g.target_seconds) end as due_at,
  t.seconds, e.error_seconds,
  case
    when t.seconds <= g.target_seconds then case
      when o.is_done then 'met'
      when t.seconds >= 0.75 * g.target_seconds then 'at_risk'
      else 'running' end
    when t.seconds - e.error_seconds > g.target_seconds then 'missed'
    -- The error is one of the clock. Of a night it may be no business time at all.
    when g.metric = 'resolution' and c.calendar is not null
      and analytics.business_seconds(c.calendar, m.created_at, m.last_closed_at - make_interval(secs => e.error_seconds)) > g.target_seconds then 'missed'
    else 'uncertain' end as outcome
from analytics.countable_tickets m
cross join (values ('first_response'), ('resolution')) k (metric)
left join internal.stored_service_targets of_account
  on of_account.account_id = m.account_id and of_account.metric = k.metric and of_account.inbox_id is null and of_account.label_id is null
left join internal.stored_service_targets of_inbox
  on of_inbox.account_id = m.account_id and of_inbox.metric = k.metric and of_inbox.inbox_id = m.inbox_id and of_inbox.label_id is null
left join (
  select distinct on (l.account_id, l.id, s.metric) l.account_id, l.id as ticket_id, s.metric, s.target_seconds
  from internal.stored_service_targets s
  join helpdesk.tickets l on l.account_id = s.account_id and s.label_id = any (l.label_ids) and (s.inbox_id is null or s.inbox_id = l.inbox_id)
  order by l.account_id, l.id, s.metric, s.inbox_id is null, s.target_seconds) of_label
  on of_label.account_id = m.account_id and of_label.ticket_id = m.ticket_id and of_label.metric = k.metric
left join internal.own_zones own on own.account_id = m.account_id and own.inbox_id = m.inbox_id
left join internal.own_zones whole on whole.account_id = m.account_id and whole.inbox_id is null
-- A reply moves its ticket. So a ticket whose messages are complete had none by the time up to which tickets are.
left join analytics.completeness h on h.account_id = m.account_id and h.source = 'helpdesk' and h.stream = 'tickets'
cross join lateral (select coalesce(own.calendar, whole.calendar) as calendar) c
cross join lateral (
  select k.metric, coalesce(of_label.target_seconds, of_inbox.target_seconds, of_account.target_seconds) as target_seconds) g
cross join lateral (
  select case g.metric when 'resolution' then coalesce(m.state in ('closed', 'archived'), false) else not m.is_unreplied end as is_done) o
cross join lateral (
  select case g.metric
    when 'resolution' then m.created_at
    else (
      select r.waiting_since from internal.stored_reply_turns r
      where r.account_id = m.account_id and r.ticket_id = m.ticket_id and r.turn = 1) end as begins_at) s
cross join lateral (
  select case
    when not o.is_done then case
      when c.calendar is null then date_part('epoch', n.until - n.since)
      else analytics.business_seconds(c.calendar, n.since, n.until) end
    when g.metric = 'resolution' then case when c.calendar is null then m.full_resolution_seconds else m.full_resolution_business_seconds end
    when c.calendar is null then m.first_response_seconds
    else m.first_response_business_seconds end as seconds
  from (
    -- The version that is here was true at its date, too.
    select b.since, greatest(h.complete_through, m.updated_at, b.since) as until
    from (select case g.metric when 'resolution' then m.created_at else m.waiting_since end as since) b) n) t
cross join lateral (
  select case
    when g.metric = 'first_response' then case when m.messages_complete then 0 end
    when o.is_done then m.full_resolution_error_seconds
    else 0 end as error_seconds) e
where g.target_seconds is not null and (g.metric = 'resolution' or m.inbound_count > 0 and not m.is_outbound_initiated);
comment on view analytics.ticket_targets is
  'How each countable ticket keeps its service targets: one row for each ticket and metric with a target in analytics.service_targets. A first response has a row only if a customer wrote first, according to the mirrored messages. A resolution is that of full_resolution_seconds: a ticket that is reopened has none until it is resolved again. Time on hold and snoozed counts. Nothing is measured against now: a time that still runs is measured up to complete_through of the tickets in analytics.completeness, or up to updated_at if that is later.';
comment on column analytics.ticket_targets.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.ticket_targets.ticket_id is 'The ticket; joins analytics.ticket_metrics.ticket_id.';
comment on column analytics.ticket_targets.metric is
  'first_response: from the first customer message to the first team reply after it. resolution: from the creation of the ticket until it is closed or archived.';
comment on column analytics.ticket_targets.customer_id is
  'The customer; null if the ticket has none. Joins analytics.customer_summary.customer_id.';
comment on column analytics.ticket_targets.inbox_id is 'The inbox; null if the ticket has none.';
comment on column analytics.ticket_targets.user_id is 'The assigned user; null while unassigned.';
comment on column analytics.ticket_targets.created_at is 'Creation time at the source; null if the source shows none.';
comment on column analytics.ticket_targets.messages_complete is
  'True if all messages of the ticket are here: see analytics.ticket_metrics.messages_complete.';
comment on column analytics.ticket_targets.target_seconds is
  'Seconds that it may take: of the most specific target in analytics.service_targets.';
comment on column analytics.ticket_targets.in_business_time is
  'True if target_seconds and seconds are business time, by the calendar of the ticket''s inbox or account. False if there is no calendar: then they are clock time.';
comment on column analytics.ticket_targets.is_done is 'True if the response was given, or the ticket is resolved.';
comment on column analytics.ticket_targets.begins_at is
  'When the time begins: the first customer message, or the creation of the ticket; null if that has no time.';
comment on column analytics.ticket_targets.due_at is
  'When the target is reached; null if begins_at is null, and in a calendar outside of 2000 to 2059.';
comment on column analytics.ticket_targets.seconds is
  'Seconds that it took, or so far if is_done is false. Null if the beginning or the end has no time. A resolution may have taken up to error_seconds less. It may have taken more only if the closing did not move updated_at: it happened by change_by in analytics.ticket_state_intervals.';
comment on column analytics.ticket_targets.error_seconds is
  'Upper bound of the overestimate of seconds, in clock time; null if unknown. 0 for times that still run: that a ticket was closed without a move of updated_at is known when it is read again, by a sweep at the latest. Of a first response it is null if messages_complete is false, since the reply, or an earlier message of the customer, may not be here.';
comment on column analytics.ticket_targets.outcome is
  'met; missed; uncertain (seconds is above the target, and without its error it may not be; or seconds is null); at_risk (it still runs, and three quarters of the target have passed); running. A closing that did not move updated_at may have been later than met says, or earlier than missed says while is_done is false: see seconds and error_seconds. If messages_complete is false, met counts from the first customer message that is here.';

create or replace view analytics.fact_targets with (security_barrier) as
select g.account_id || '/' || g.ticket_id || '/' || g.metric as target_key, g.account_id || '/' || g.ticket_id as ticket_key,
  g.account_id as account_key, g.account_id || '/' || g.customer_id as customer_key, g.account_id || '/' || g.inbox_id as inbox_key,
  g.account_id || '/' || g.user_id as user_key,
  (g.created_at at time zone coalesce(own.time_zone, z.time_zone))::date as created_date,
  g.created_at, g.metric, g.target_seconds, g.in_business_time, g.is_done, g.begins_at, g.due_at, g.seconds, g.error_seconds, g.outcome,
  g.messages_complete
from analytics.ticket_targets g
left join internal.own_zones own on own.account_id = g.account_id and own.inbox_id = g.inbox_id
left join analytics.account_zones z on z.account_id = g.account_id;
comment on view analytics.fact_targets is
  'One row per service target of a ticket in analytics.fact_tickets, and how the ticket keeps it: analytics.ticket_targets for BI tools.';
comment on column analytics.fact_targets.target_key is 'Key of the row: ticket and metric.';
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

insert into analytics.metric_definitions (relation, name, unit, kind, formula, other_vendors) values
  ('ticket_targets', 'target_seconds', 'seconds', 'exact', 'target_seconds of the most specific row of service_targets: label and inbox, label, inbox, account; of two labels the shorter one.', 'Zendesk (SLA policies): the first policy in their order that fits. Intercom (SLA): the rule of a workflow.'),
  ('ticket_targets', 'in_business_time', 'flag', 'exact', 'The inbox or the account has a calendar.', null),
  ('ticket_targets', 'is_done', 'flag', 'exact', 'first_response: there is an authored message after the first inbound one. resolution: the state is closed or archived now.', null),
  ('ticket_targets', 'begins_at', 'time', 'exact', 'first_response: time of the first inbound message. resolution: created_at.', 'Zendesk (SLA first reply time): creation of the ticket.'),
  ('ticket_targets', 'due_at', 'time', 'exact', 'begins_at plus target_seconds, in business time if there is a calendar.', null),
  ('ticket_targets', 'seconds', 'seconds', 'observed', 'first_response: first_response_business_seconds. resolution: full_resolution_business_seconds. Without a calendar the same on the clock. While it runs: from begins_at to complete_through of the tickets, or to updated_at if that is later.', 'Zendesk (SLA): the clock of a resolution stands while the ticket is pending, by choice. Here time on hold and snoozed counts.'),
  ('ticket_targets', 'error_seconds', 'seconds', 'observed', 'first_response: 0, or unknown if messages_complete is false. resolution: full_resolution_error_seconds; 0 while it runs, as far as the ticket was read.', null),
  ('ticket_targets', 'outcome', 'kind', 'observed', 'met: done, and seconds ≤ target_seconds; a closing with change_by may have been later. missed: seconds without their error are above it, done or not. uncertain: seconds are above it, and without their error may not be, or are null. at_risk: not done, and 75 percent of it have passed. running: else.', 'Zendesk: achieved, breached, active. Intercom: hit, missed, active.');

comment on table sync.operations is
  'Actions of people at a terminal or on the page, one row for each action and account, refused actions included. Actions: pause and resume; start of a run on the page; cancel and retry of a run; erasure of a customer; access of readers; calendars; service targets. Runs that a command starts are in sync.runs.';
comment on column sync.operations.action is
  'The action: run, pause, resume, retry, cancel, erase, let a reader in, revoke a reader, calendar, target.';
comment on column sync.operations.subject is
  'Object of the action: a stream, a run, a kind of run, a customer, a reader, a calendar or a service target; empty for the whole account.';

-- The owner of the other views owns these, too, also where another role migrates.
do $$
declare
  one record;
begin
  for one in
    select case c.relkind when 'r' then 'table' else 'view' end as kind, c.oid::regclass as name, pg_get_userbyid(o.relowner) as owner
    from pg_class c, pg_class o
    where o.oid = 'analytics.ticket_metrics'::regclass and c.relowner <> o.relowner
      and c.oid = any ('{internal.stored_service_targets, analytics.service_targets, analytics.ticket_targets, analytics.fact_targets}'::regclass[])
  loop
    execute format('alter %s %s owner to %I', one.kind, one.name, one.owner);
  end loop;
end
$$;

select sync.settle_comments();
select sync.settle_roles();
