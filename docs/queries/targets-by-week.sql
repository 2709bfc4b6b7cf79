-- Do we keep our service targets better than before?
-- Tickets by the week of their creation. Of the last weeks some still run. A reopened ticket runs until it is resolved again.
-- A ticket that was resolved when the mirror first saw it is left out of resolutions, and one whose messages are not all here
-- of first responses: only a quick one could be decided.
select d.week_start as week,
  count(*) filter (where f.metric = 'first_response' and f.outcome in ('met', 'missed')) as responses,
  round(100.0 * count(*) filter (where f.metric = 'first_response' and f.outcome = 'met')
    / nullif(count(*) filter (where f.metric = 'first_response' and f.outcome in ('met', 'missed')), 0), 1)::float8 as percent_in_time,
  count(*) filter (where f.metric = 'resolution' and f.outcome in ('met', 'missed')) as resolutions,
  round(100.0 * count(*) filter (where f.metric = 'resolution' and f.outcome = 'met')
    / nullif(count(*) filter (where f.metric = 'resolution' and f.outcome in ('met', 'missed')), 0), 1)::float8 as percent_resolved_in_time,
  count(*) filter (where f.outcome = 'uncertain') as uncertain
from analytics.fact_targets f
join analytics.dim_date d on d.date_key = f.created_date
where f.created_at >= (select max(complete_through) - 91 * interval '24 hours' from analytics.completeness where source = 'helpdesk' and stream = 'tickets')
  and f.metric in ('first_response', 'resolution') and f.is_counted
group by d.week_start
order by week;
