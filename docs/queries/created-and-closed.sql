-- Do we close as many tickets as come in?
-- A ticket that was closed when the mirror first saw it counts in the week of its last update then: it was closed by that week, perhaps earlier.
select d.week_start as week, count(*) filter (where e.event = 'created') as created, count(*) filter (where e.event = 'closed') as first_closed,
  count(*) filter (where e.event = 'closed' and not t.first_closing_seen) as perhaps_earlier
from analytics.fact_tickets t
cross join lateral (values ('created', t.created_date), ('closed', t.first_closed_date)) e (event, day)
join analytics.dim_date d on d.date_key = e.day
-- Nine weeks, in whatever zone: the last eight are whole.
where e.day > (select (max(complete_through) at time zone 'UTC')::date - 63 from analytics.completeness where source = 'helpdesk' and stream = 'tickets')
group by d.week_start
order by week desc
limit 8;
