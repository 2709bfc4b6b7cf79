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
  'Service targets: how long a first response and a resolution may take. Created with npx shelfdesk warehouse target set. Of several for a ticket the most specific one counts: label and inbox, then label, then inbox, then the whole account. Of two labels of one ticket the shorter target counts.';
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

-- The one rule of what is late. due_at is costly, so it is only asked where business seconds do not decide: while business is closed.
create or replace function analytics.is_overdue(calendar text, since timestamptz, target_seconds int, until timestamptz, seconds float8) returns boolean
language sql stable parallel safe
begin atomic
  select case
    when is_overdue.seconds is null then null
    when is_overdue.seconds <> is_overdue.target_seconds then is_overdue.seconds > is_overdue.target_seconds
    when is_overdue.calendar is null then false
    else is_overdue.until > analytics.business_time_after(is_overdue.calendar, is_overdue.since, is_overdue.target_seconds) end;
end;
comment on function analytics.is_overdue is
  'True if until is later than due_at, the instant at which target_seconds have passed since another instant. seconds: business time between the two, or clock time without a calendar. A target that is reached when business closes is due then, and everything later is overdue, before business opens again.';

-- A view, so that a target or a calendar that changes costs nothing when tickets are written.
create or replace view analytics.ticket_targets with (security_barrier) as
select m.account_id, m.ticket_id, g.metric, m.customer_id, m.inbox_id, m.user_id, m.created_at, m.messages_complete,
  g.target_seconds, c.calendar is not null as in_business_time, o.is_done, s.begins_at,
  case when c.calendar is null then s.begins_at + make_interval(secs => g.target_seconds)
    else analytics.business_time_after(c.calendar, s.begins_at, g.target_seconds) end as due_at,
  t.seconds, e.error_seconds,
  case
    when not analytics.is_overdue(c.calendar, s.begins_at, g.target_seconds, t.until, t.seconds) then case
      when o.is_done then 'met'
      when t.seconds >= 0.75 * g.target_seconds then 'at_risk'
      else 'running' end
    when t.seconds - e.error_seconds > g.target_seconds then 'missed'
    -- The error is one of the clock. Of a night it may be no business time at all.
    when analytics.is_overdue(c.calendar, s.begins_at, g.target_seconds, t.until - make_interval(secs => e.error_seconds), case
      when e.error_seconds = 0 then t.seconds
      when c.calendar is null then t.seconds - e.error_seconds
      else analytics.business_seconds(c.calendar, s.begins_at, t.until - make_interval(secs => e.error_seconds)) end) then 'missed'
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
left join internal.stored_reply_turns r
  on r.account_id = m.account_id and r.ticket_id = m.ticket_id and r.turn = 1 and k.metric = 'first_response'
cross join lateral (
  select case g.metric when 'resolution' then m.created_at else r.waiting_since end as begins_at) s
cross join lateral (
  select n.until, case
    when not o.is_done then case
      when c.calendar is null then date_part('epoch', n.until - s.begins_at)
      else analytics.business_seconds(c.calendar, s.begins_at, n.until) end
    when g.metric = 'resolution' then case when c.calendar is null then m.full_resolution_seconds else m.full_resolution_business_seconds end
    when c.calendar is null then m.first_response_seconds
    else m.first_response_business_seconds end as seconds
  from (
    select case
      when not o.is_done then case
        -- The version that is here was true at its date, too.
        when s.begins_at is not null then greatest(h.complete_through, m.updated_at, s.begins_at) end
      when g.metric = 'resolution' then m.last_closed_at
      else r.answered_at end as until) n) t
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
  'When the target is reached: what ends by then is met, and what ends or still runs later is missed, also while business is closed. Null if begins_at is null, and in a calendar outside of 2000 to 2059.';
comment on column analytics.ticket_targets.seconds is
  'Seconds that it took, or so far if is_done is false. Null if the beginning or the end has no time. A resolution may have taken up to error_seconds less. It may have taken more only if the closing did not move updated_at: it happened by change_by in analytics.ticket_state_intervals.';
comment on column analytics.ticket_targets.error_seconds is
  'Upper bound of the overestimate of seconds, in clock time; null if unknown. 0 for times that still run: that a ticket was closed without a move of updated_at is known when it is read again, by a sweep at the latest. Of a first response it is null if messages_complete is false, since the reply, or an earlier message of the customer, may not be here.';
comment on column analytics.ticket_targets.outcome is
  'met (by due_at); missed; uncertain (it ended after due_at, and without its error it may not have; or seconds is null); at_risk (it still runs, and three quarters of the target have passed); running. A closing that did not move updated_at may have been later than met says, or earlier than missed says while is_done is false: see seconds and error_seconds. If messages_complete is false, met counts from the first customer message that is here.';
