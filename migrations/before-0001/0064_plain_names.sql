-- Plain names of public tables and columns, and the machinery of the metrics in a schema of its own. The functions and views
-- that mention them are replaced afterwards by those of 0001.

alter table sync.hole_reasons rename to gap_reasons;
alter table sync.gap_reasons rename column hole to gap;
alter index sync.hole_reasons_pkey rename to gap_reasons_pkey;
alter view sync.holes rename to gaps;
alter view sync.gaps rename column hole_from to gap_from;
alter view sync.gaps rename column hole_to to gap_to;
alter view sync.status rename column holes to gaps;
alter view analytics.completeness rename column holes to gaps;

alter table sync.suspects rename to deletion_candidates;
alter table sync.deletion_candidates rename column suspected_at to missing_since;
alter index sync.suspects_pkey rename to deletion_candidates_pkey;
alter index sync.suspects_gone rename to deletion_candidates_gone;
alter view sync.open_suspects rename to open_deletion_candidates;
alter view sync.open_deletion_candidates rename column suspected_at to missing_since;

alter table sync.crowds rename to ties;
alter index sync.crowds_pkey rename to ties_pkey;
alter table sync.change_ages rename to change_latencies;
alter table sync.change_latencies rename column age_seconds to latency_seconds;
alter index sync.change_ages_pkey rename to change_latencies_pkey;
alter function sync.change_age rename to change_latency;
alter view sync.certainty rename to audit_confidence;
alter view sync.proposals rename to recommendations;
alter view sync.lists_apart rename to separate_lists;
alter table sync.source_readings rename to source_behaviour;
alter index sync.source_readings_pkey rename to source_behaviour_pkey;

update sync.stored_runs set state = 'partial' where state = 'partly';
update sync.stored_run_streams set state = 'partial' where state = 'partly';
update sync.alarms set problem = 'gap' where problem = 'hole';
update sync.alarms set problem = 'recommendation' where problem = 'proposal';

create schema internal;
alter table analytics.stored_calendar_assignments set schema internal;
alter table analytics.stored_recomputes set schema internal;
alter table analytics.stored_reply_turns set schema internal;
alter table analytics.stored_ticket_metrics set schema internal;
alter view analytics.reply_turns_defined set schema internal;
alter view analytics.ticket_metrics_defined set schema internal;
alter view analytics.ticket_basics set schema internal;
alter function analytics.keep_metrics set schema internal;
alter function analytics.keep_metrics_of_history set schema internal;
alter function analytics.keep_metrics_of_members set schema internal;
alter function analytics.keep_metrics_of_ticket set schema internal;
alter function analytics.ask_for_recompute set schema internal;
alter function analytics.check_time_zone set schema internal;
alter function analytics.rebuild_calendar set schema internal;
alter function analytics.keep_calendar_spans set schema internal;

-- Readers could read these views in analytics.
do $$
declare
  one record;
begin
  for one in
    select rolname as role from pg_roles where rolname in ('shelfdesk_reader', 'shelfdesk_reader_pii')
  loop
    execute format('revoke select on internal.reply_turns_defined, internal.ticket_metrics_defined from %I', one.role);
  end loop;
end
$$;

-- These functions change the name of a parameter or a column: the views move to new functions.
create or replace function sync.is_settled(deleted_at timestamptz, observed_at timestamptz, missing_since timestamptz) returns boolean
language sql immutable
begin atomic
  select deleted_at is not null or observed_at >= missing_since;
end;
create or replace view sync.open_deletion_candidates as
select s.account_id, s.stream, s.record_id, s.missing_since, s.alive_at, s.gone_at, s.gone_since, s.attempts, s.error, s.run_id,
  s.source, s.stream_key
from sync.deletion_candidates s
where case s.stream_key
  when 'helpdesk.tickets' then exists (
    select from helpdesk.tickets t
    where t.account_id = s.account_id and t.id = s.record_id
      and not sync.is_settled(t._deleted_at, greatest(t._observed_at, t._messages_as_of), s.missing_since))
  when 'helpdesk.customers' then exists (
    select from helpdesk.customers c
    where c.account_id = s.account_id and c.id = s.record_id
      and not sync.is_settled(c._deleted_at, greatest(c._observed_at, c._checked_at), s.missing_since))
  end;
drop function sync.is_gone_or_known;
create or replace function internal.stream_completeness()
returns table (account_id text, stream text, complete_through timestamptz, gaps bigint, waiting bigint, open_rejects bigint,
  deletes_checked_at timestamptz, state text, source text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.account_id, s.stream, s.complete_through, s.gaps, s.waiting, s.open_rejects, s.deletes_checked_at, s.state, s.source
  from (select case current_setting('role') when 'none' then session_user else current_setting('role')::name end as name) asks
  cross join sync.status s
  where has_table_privilege(asks.name, 'sync.readers', 'select') or exists (
    select from sync.readers r
    where r.role_name = asks.name and (r.accounts is null or s.account_id = any (r.accounts)))
$$;
create or replace view analytics.completeness with (security_barrier) as
select c.account_id, c.stream, c.complete_through, c.gaps, c.waiting, c.open_rejects, c.deletes_checked_at, c.state,
  c.source
from internal.stream_completeness() c
where c.account_id = any (array(select account_id from sync.readable_accounts));
drop function analytics.stream_completeness;
