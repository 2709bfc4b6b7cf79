-- How is each service target kept while it is in force?
-- What began in the last 13 weeks, by metric and hours of the target that was in force then: one that was changed has a row for before
-- and one for after, and targets of the same hours share one. What has no beginning counts by the creation of its ticket.
-- Percent of those that are decided. uncertain: nobody can tell. Left out is what only a quick one could decide, as in targets-kept.
with since as materialized (
  select max(complete_through) - 91 * interval '24 hours' as begun from analytics.completeness where source = 'helpdesk' and stream = 'tickets')
select f.metric, round(f.target_seconds / 3600.0, 1)::float8 as hours, min(f.begins_date) as first_day, max(f.begins_date) as last_day, count(*) as tickets_or_waits,
  round(100.0 * count(*) filter (where f.outcome = 'met') / nullif(count(*) filter (where f.outcome in ('met', 'missed')), 0), 1)::float8 as percent_met,
  count(*) filter (where f.outcome = 'uncertain') as uncertain, count(*) filter (where f.outcome in ('running', 'at_risk')) as running
from analytics.fact_targets f
where f.is_counted and (f.begins_at >= (select begun from since) or f.begins_at is null and f.created_at >= (select begun from since))
group by f.metric, f.target_seconds
order by f.metric, first_day, f.target_seconds;
