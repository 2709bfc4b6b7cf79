-- Up Migration

-- What is new has no messages and one row of history, so its metrics are written beside that row, out of the ticket itself: a first
-- load looks nothing up for them but that there are no messages yet.
create or replace function sync.begin_ticket_history() returns trigger
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
  begun int;
begin
  -- The ticket comes with its messages, and most of the time as it is here: then there is nothing to begin.
  if not exists (select from after) then return null; end if;
  perform set_config('shelfdesk.metrics', 'with the ticket', true);
  insert into helpdesk.ticket_history
    (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, valid_to, change_after, deleted_after, is_first)
  select t.account_id, t.id, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam, t.trash, f.valid_from,
    case when t._deleted_at is not null then greatest(t._deleted_at, f.valid_from + interval '1 second') end,
    case when t.created_at <= f.valid_from then t.created_at - interval '1 second' end,
    t._deleted_after, true
  from after t
  cross join lateral (select sync.dated(t.updated_at, t._observed_at) as valid_from) f
  on conflict do nothing;
  perform set_config('shelfdesk.metrics', '', true);

  insert into analytics.stored_ticket_metrics (
    account_id, ticket_id, message_count, inbound_count, authored_count, automatic_count, note_count, other_count, attachment_count,
    agents_involved, is_outbound_initiated, is_one_touch, is_unreplied, turns,
    first_closed_at, first_closed_error_seconds, last_closed_at, last_closed_error_seconds,
    first_resolution_seconds, first_resolution_error_seconds, first_resolution_business_seconds,
    full_resolution_seconds, full_resolution_error_seconds, full_resolution_business_seconds,
    reopen_count, reopen_error_seconds, assignment_count, assignment_error_seconds,
    seconds_open, open_error_seconds, seconds_hold, hold_error_seconds, seconds_snoozed, snoozed_error_seconds,
    seconds_closed, closed_error_seconds, seconds_archived, archived_error_seconds)
  select n.account_id, n.id, 0, 0, 0, 0, 0, 0, 0, 0, false, false, false, 0,
    r.closed_at, r.closed_within, r.closed_at, r.closed_within, r.took, r.closed_within, r.took_business, r.took, r.closed_within, r.took_business,
    0, n.within, (n.user_id is not null)::int, n.within, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
  from (
    select t.account_id, t.id, t.user_id, t.inbox_id, t.created_at, f.valid_from, t.state in ('closed', 'archived') as resolved,
      case when t.created_at <= f.valid_from then date_part('epoch', f.valid_from - (t.created_at - interval '1 second')) end as within
    from after t
    cross join lateral (select sync.dated(t.updated_at, t._observed_at) as valid_from) f
    where t._deleted_at is null
      and t.account_id = any (array(select account_id from sync.readable_accounts))
      and (
        -- In the order of the one index that serves, as in analytics.keep_metrics.
        select true from helpdesk.messages m where m.account_id = t.account_id and m.ticket_id = t.id
        order by m.position limit 1) is null
    offset 0) n
  left join lateral (
    select n.valid_from as closed_at, n.within as closed_within, date_part('epoch', n.valid_from - n.created_at) as took,
      case when exists (select from analytics.stored_calendar_assignments)
        then analytics.business_seconds(analytics.calendar_of(n.account_id, n.inbox_id), n.created_at, n.valid_from)::float8 end as took_business
    where n.resolved) r on true
  on conflict do nothing;
  get diagnostics begun = row_count;
  if begun < (select count(*) from after) then
    perform analytics.keep_metrics(array_agg(t.account_id), array_agg(t.id)) from after t;
  end if;
  return null;
end
$$;
comment on function sync.begin_ticket_history() is
  'Writes the first row of helpdesk.ticket_history of tickets that are new here, and their first metrics.';

create or replace function analytics.keep_metrics_of_history() returns trigger
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
  accounts text[];
  tickets text[];
begin
  if tg_op = 'INSERT' then
    if current_setting('shelfdesk.metrics', true) = 'with the ticket' then return null; end if;
    select array_agg(n.account_id), array_agg(n.ticket_id) into accounts, tickets from news n;
  elsif tg_op = 'UPDATE' then
    -- Where another row follows in the same statement, the metrics come with that.
    select array_agg(n.account_id), array_agg(n.ticket_id) into accounts, tickets
    from news n
    where n.valid_to is null or not exists (
      select from helpdesk.ticket_history h
      where h.account_id = n.account_id and h.ticket_id >= n.ticket_id and h.ticket_id <= n.ticket_id and h.valid_to is null
        and h.valid_from >= n.valid_to
      order by h.ticket_id, h.valid_from offset 0);
  else
    select array_agg(o.account_id), array_agg(o.ticket_id) into accounts, tickets from olds o;
  end if;
  if accounts is not null then perform analytics.keep_metrics(accounts, tickets); end if;
  return null;
end
$$;
comment on function analytics.keep_metrics_of_history() is
  'Brings the metrics of tickets up to date whose history was written; those of a ticket that is new come with it: sync.begin_ticket_history.';
