comment on table internal.stored_service_targets is 'Storage of analytics.service_targets, for all accounts.';
comment on column internal.stored_service_targets.account_id is 'The operator''s name for the mirrored account.';
comment on column internal.stored_service_targets.inbox_id is 'The inbox; null for tickets of all inboxes and of none.';
comment on column internal.stored_service_targets.label_id is
  'The label; null for tickets with any labels and with none.';
comment on column internal.stored_service_targets.metric is
  'first_response, next_reply, resolution or resolution_without_hold: see analytics.ticket_targets.metric.';
comment on column internal.stored_service_targets.target_seconds is
  'Seconds that it may take: business time by the calendar of the ticket, or clock time of tickets without a calendar.';
comment on column internal.stored_service_targets.valid_from is
  'The target holds for what begins at this time or later; null: from the beginning.';
comment on column internal.stored_service_targets.valid_to is
  'The target holds for what begins before this time; null: it holds now.';

create or replace view analytics.service_targets with (security_barrier) as
select g.account_id, g.inbox_id, g.label_id, g.metric, g.target_seconds, g.valid_from, g.valid_to
from internal.stored_service_targets g
where g.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.service_targets is
  'Service targets: how long a response and a resolution may take, now and before. Created with npx shelfdesk warehouse target set. Of several for a ticket the most specific one counts: label and inbox, then label, then inbox, then the whole account. Of two labels of one ticket the shorter target counts. What began while another target was in force keeps that one.';
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
create or replace function analytics.is_overdue(calendar text, since timestamptz, target_seconds float8, until timestamptz, seconds float8) returns boolean
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

create or replace function analytics.is_in_force(valid_from timestamptz, valid_to timestamptz, at timestamptz) returns boolean
language sql immutable parallel safe
begin atomic
  select (valid_from is null or at is null or at >= valid_from) and (valid_to is null or at < valid_to);
end;
comment on function analytics.is_in_force is
  'True if a service target with these times is in force at the given time; at null: if it is in force now.';

-- A view, so that a target or a calendar that changes costs nothing when tickets are written. Waits and resolutions are read apart:
-- of waits since a time, or of tickets since a time, no others are reckoned.
create or replace view analytics.ticket_targets with (security_barrier) as
select m.account_id, m.ticket_id, m.metric, m.turn, m.customer_id, m.inbox_id, m.user_id, m.created_at, m.messages_complete,
  g.target_seconds, c.calendar is not null as in_business_time, m.is_done, m.begins_at,
  case when c.calendar is null then m.begins_at + make_interval(secs => p.target_seconds)
    else analytics.business_time_after(c.calendar, m.begins_at, p.target_seconds) end as due_at,
  t.seconds - p.held_seconds as seconds, e.error_seconds,
  case
    -- Less time on hold would be more time without.
    when not analytics.is_overdue(c.calendar, m.begins_at, p.target_seconds, t.until, t.seconds) and t.seconds + e.held_error_seconds <= p.target_seconds then
      case when m.is_done then 'met' when t.seconds - p.held_seconds >= 0.75 * g.target_seconds then 'at_risk' else 'running' end
    when t.seconds - e.error_seconds > p.target_seconds then 'missed'
    -- The error is one of the clock. Of a night it may be no business time at all.
    when (m.metric <> 'resolution_without_hold' or m.reopen_error_seconds = 0) and analytics.is_overdue(c.calendar, m.begins_at, p.target_seconds, t.until - make_interval(secs => e.error_seconds), case
      when e.error_seconds = 0 then t.seconds
      when c.calendar is null then t.seconds - e.error_seconds
      else analytics.business_seconds(c.calendar, m.begins_at, t.until - make_interval(secs => e.error_seconds)) end) then 'missed'
    else 'uncertain' end as outcome,
  m.is_counted
from (
  select b.account_id, b.ticket_id, case when r.turn = 1 and not coalesce(s.is_outbound_initiated, false) then 'first_response' else 'next_reply' end as metric, r.turn,
    b.customer_id, b.inbox_id, b.user_id, b.created_at, b.updated_at, b.messages_complete, r.is_answered as is_done, r.waiting_since as begins_at,
    r.answered_at as done_at, r.wait_seconds as done_seconds, r.wait_business_seconds as done_business_seconds, false as was_on_hold,
    case when b.messages_complete then 0::float8 end as error_seconds, null::float8 as reopen_error_seconds, b.messages_complete as is_counted
  from internal.stored_reply_turns r
  join internal.countable_basics b on b.account_id = r.account_id and b.ticket_id = r.ticket_id
  left join internal.stored_ticket_metrics s on s.account_id = r.account_id and s.ticket_id = r.ticket_id
  union all
  select d.account_id, d.ticket_id, k.metric, 0, d.customer_id, d.inbox_id, d.user_id, d.created_at, d.updated_at, d.messages_complete, o.is_done, d.created_at,
    d.last_closed_at, d.full_resolution_seconds, d.full_resolution_business_seconds, k.metric = 'resolution_without_hold' and (d.seconds_hold > 0 or d.state = 'hold'),
    case when k.metric = 'resolution_without_hold' then d.reopen_error_seconds when o.is_done then d.full_resolution_error_seconds else 0 end,
    d.reopen_error_seconds, not o.is_done or d.last_closing_seen
  from analytics.countable_tickets d
  cross join (values ('resolution'), ('resolution_without_hold')) k (metric)
  cross join lateral (select coalesce(d.state in ('closed', 'archived'), false) as is_done) o
  where exists (select from internal.stored_service_targets x where x.account_id = d.account_id and x.metric = k.metric)) m
left join internal.stored_service_targets of_account
  on of_account.account_id = m.account_id and of_account.metric = m.metric and of_account.inbox_id is null and of_account.label_id is null
  and analytics.is_in_force(of_account.valid_from, of_account.valid_to, m.begins_at)
left join internal.stored_service_targets of_inbox
  on of_inbox.account_id = m.account_id and of_inbox.metric = m.metric and of_inbox.inbox_id = m.inbox_id and of_inbox.label_id is null
  and analytics.is_in_force(of_inbox.valid_from, of_inbox.valid_to, m.begins_at)
left join (
  select l.account_id, l.id as ticket_id, x.metric, array_agg(x order by x.inbox_id is null, x.target_seconds) as targets
  from internal.stored_service_targets x
  join helpdesk.tickets l on l.account_id = x.account_id and x.label_id = any (l.label_ids) and (x.inbox_id is null or x.inbox_id = l.inbox_id)
  group by l.account_id, l.id, x.metric) of_label
  on of_label.account_id = m.account_id and of_label.ticket_id = m.ticket_id and of_label.metric = m.metric
left join internal.own_zones own on own.account_id = m.account_id and own.inbox_id = m.inbox_id
left join internal.own_zones whole on whole.account_id = m.account_id and whole.inbox_id is null
-- A reply moves its ticket. So a ticket whose messages are complete had none by the time up to which tickets are.
left join analytics.completeness h on h.account_id = m.account_id and h.source = 'helpdesk' and h.stream = 'tickets'
cross join lateral (select coalesce(own.calendar, whole.calendar) as calendar) c
cross join lateral (
  select coalesce((
    select x.target_seconds from unnest(of_label.targets) with ordinality x
    where analytics.is_in_force(x.valid_from, x.valid_to, m.begins_at) order by x.ordinality limit 1),
    of_inbox.target_seconds, of_account.target_seconds) as target_seconds offset 0) g
cross join lateral (
  select n.until, case
    when not m.is_done then case
      when c.calendar is null then date_part('epoch', n.until - m.begins_at)
      else analytics.business_seconds(c.calendar, m.begins_at, n.until) end
    when c.calendar is null then m.done_seconds
    else m.done_business_seconds end as seconds
  from (
    select case
      when m.is_done then m.done_at
      -- The version that is here was true at its date, too.
      when m.begins_at is not null then greatest(h.complete_through, m.updated_at, m.begins_at) end as until) n) t
cross join lateral (
  select d.held_seconds, g.target_seconds + d.held_seconds as target_seconds
  from (
    select case when m.was_on_hold then (
      select coalesce(sum(case
        when c.calendar is null then date_part('epoch', x.until - x.since) else analytics.business_seconds(c.calendar, x.since, x.until) end), 0)
      from internal.ticket_versions i
      cross join lateral (select greatest(i.valid_from, m.created_at) as since, least(i.valid_to, t.until) as until) x
      where i.account_id = m.account_id and i.ticket_id >= m.ticket_id and i.ticket_id <= m.ticket_id and i.state = 'hold' and x.since < x.until)
      else 0 end as held_seconds offset 0) d) p
cross join lateral (select least(m.reopen_error_seconds, p.held_seconds) as held_error_seconds, m.error_seconds) e
where g.target_seconds is not null;
comment on view analytics.ticket_targets is
  'How each countable ticket keeps its service targets: one row for each ticket, metric and turn with a target in analytics.service_targets. A first response has a row only if a customer wrote first, according to the mirrored messages; each later wait of a customer has a row of next_reply. The target is the one that was in force when the time began. A resolution is that of full_resolution_seconds: a ticket that is reopened has none until it is resolved again. Time on hold and snoozed counts, but that of resolution_without_hold stands while the ticket is on hold. Nothing is measured against now: a time that still runs is measured up to complete_through of the tickets in analytics.completeness, or up to updated_at if that is later.';
comment on column analytics.ticket_targets.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.ticket_targets.ticket_id is 'The ticket; joins analytics.ticket_metrics.ticket_id.';
comment on column analytics.ticket_targets.metric is
  'first_response: from the first customer message to the first team reply after it. next_reply: from the first customer message after a team reply to the next one. resolution: from the creation of the ticket until it is closed or archived. resolution_without_hold: the same, without the time in the state hold.';
comment on column analytics.ticket_targets.turn is
  'Number of the wait in analytics.reply_turns; 0 for resolutions.';
comment on column analytics.ticket_targets.customer_id is
  'The customer; null if the ticket has none. Joins analytics.customer_summary.customer_id.';
comment on column analytics.ticket_targets.inbox_id is 'The inbox; null if the ticket has none.';
comment on column analytics.ticket_targets.user_id is 'The assigned user; null while unassigned.';
comment on column analytics.ticket_targets.created_at is 'Creation time at the source; null if the source shows none.';
comment on column analytics.ticket_targets.messages_complete is
  'True if all messages of the ticket are here: see analytics.ticket_metrics.messages_complete.';
comment on column analytics.ticket_targets.target_seconds is
  'Seconds that it may take: of the most specific target in analytics.service_targets that was in force at begins_at; if that is null, now.';
comment on column analytics.ticket_targets.in_business_time is
  'True if target_seconds and seconds are business time, by the calendar of the ticket''s inbox or account. False if there is no calendar: then they are clock time.';
comment on column analytics.ticket_targets.is_done is 'True if the response was given, or the ticket is resolved.';
comment on column analytics.ticket_targets.begins_at is
  'When the time begins: the first customer message of the wait, or the creation of the ticket; null if that has no time.';
comment on column analytics.ticket_targets.due_at is
  'When the target is reached: what ends by then is met, and what ends or still runs later is missed, also while business is closed. Of resolution_without_hold later by the time on hold so far. Null if begins_at is null, and in a calendar outside of 2000 to 2059.';
comment on column analytics.ticket_targets.seconds is
  'Seconds that it took, or so far if is_done is false. Null if the beginning or the end has no time. A resolution may have taken up to error_seconds less. It may have taken more only if the closing did not move updated_at: it happened by change_by in analytics.ticket_state_intervals.';
comment on column analytics.ticket_targets.error_seconds is
  'Upper bound of the overestimate of seconds, in clock time; null if unknown. 0 for times that still run: that a ticket was closed without a move of updated_at is known when it is read again, by a sweep at the latest. Of a first response it is null if messages_complete is false, since the reply, or an earlier message of the customer, may not be here. Of resolution_without_hold it is reopen_error_seconds of analytics.ticket_metrics, the time in which states may have passed unseen: by that, but by no more than the time on hold that was seen, it may be too short as well.';
comment on column analytics.ticket_targets.is_counted is
  'True if a share of kept targets may count the row. False where only a quick one could be decided: of a wait if messages_complete is false, and of a ticket that was already resolved when the mirror first saw it.';
comment on column analytics.ticket_targets.outcome is
  'met (by due_at); missed; uncertain (it ended after due_at, and without its error it may not have; it ended or still runs by due_at, and with less time on hold it would not; or seconds is null); at_risk (it still runs, and three quarters of the target have passed); running. A closing that did not move updated_at may have been later than met says, or earlier than missed says while is_done is false: see seconds and error_seconds. A time on hold that began or ended without a move of updated_at may have done so by change_by, so resolution_without_hold may be met or missed otherwise by that much. If messages_complete is false, met counts from the first customer message that is here.';
