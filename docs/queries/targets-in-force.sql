-- How is each service target kept while it is in force?
-- What began in the last 13 weeks, by metric and hours of the target that was in force then: one that was changed has a row for before
-- and one for after, and targets of the same hours share one. What has no beginning counts by the creation of its ticket.
-- Percent of those that are decided. uncertain: nobody can tell. Left out is what only a quick one could decide, as in targets-kept.
select f.metric, round(f.target_seconds / 3600.0, 1)::float8 as hours, min(f.begins_date) as first_day, max(f.begins_date) as last_day, count(*) as tickets_or_waits,
  round(100.0 * count(*) filter (where f.outcome = 'met') / nullif(count(*) filter (where f.outcome in ('met', 'missed')), 0), 1)::float8 as percent_met,
  count(*) filter (where f.outcome = 'uncertain') as uncertain, count(*) filter (where f.outcome in ('running', 'at_risk')) as running
from analytics.fact_targets f
join analytics.fact_tickets t using (ticket_key)
where coalesce(f.begins_at, f.created_at) >= (select max(complete_through) - 91 * interval '24 hours' from analytics.completeness where source = 'helpdesk' and stream = 'tickets')
  and case when f.metric in ('first_response', 'next_reply') then f.messages_complete else not f.is_done or t.last_closing_seen end
group by f.metric, f.target_seconds
order by f.metric, first_day, f.target_seconds;
