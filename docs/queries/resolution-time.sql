-- How long does it take until tickets are closed, and how exactly is that known?
-- The source does not say when a ticket was closed: the mirror saw it. It happened earlier by no more than its error; half of the errors are below median_error_hours.
-- Tickets that were closed when the mirror first saw them are left out: when they were closed is not known. So are those that are not closed yet, so the last months look better than they are. Of months before the mirror began only what was still open then is left, so they look worse.
select d.month_start as created_in, count(*) as closed_tickets,
  round((percentile_cont(0.5) within group (order by t.first_resolution_seconds) / 86400)::numeric(18, 6), 1)::float8 as median_days,
  round((percentile_cont(0.9) within group (order by t.first_resolution_seconds) / 86400)::numeric(18, 6), 1)::float8 as p90_days,
  round((percentile_cont(0.5) within group (order by t.first_resolution_error_seconds) / 3600)::numeric(18, 6))::int as median_error_hours
from analytics.fact_tickets t
join analytics.dim_date d on d.date_key = t.created_date
where t.first_closing_seen
group by d.month_start
order by d.month_start desc
limit 6;
