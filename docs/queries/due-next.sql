-- Which tickets miss a service target next?
-- Those of the last 13 weeks that still run and have not missed it: reckoned up to when the mirror is complete, in business hours where there is a
-- calendar. uncertain: with less time on hold than was seen it would be late already.
with since as materialized (
  select max(complete_through) - 91 * interval '24 hours' as begun from analytics.completeness where source = 'helpdesk' and stream = 'tickets')
select t.number, coalesce(i.inbox_name, 'no inbox') as inbox, f.metric, f.outcome, date_trunc('minute', f.due_at) as due_at,
  round(((f.target_seconds - f.seconds) / 3600)::numeric(18, 6), 1)::float8 as hours_left
from analytics.fact_targets f
join analytics.fact_tickets t using (ticket_key)
left join analytics.dim_inbox i on i.inbox_key = f.inbox_key
where not f.is_done and f.outcome <> 'missed' and f.seconds <= f.target_seconds and f.created_at >= (select begun from since)
  and t.created_at >= (select begun from since)
order by f.due_at, f.target_key
limit 10;
