-- Do we close as many tickets as come in?
-- A ticket that was closed when the mirror first saw it counts in the week of its last update then: it was closed by that week, perhaps earlier.
with created as (
  select d.week_start, count(*) as tickets
  from analytics.fact_tickets t join analytics.dim_date d on d.date_key = t.created_date
  group by 1),
closed as (
  select d.week_start, count(*) as tickets, count(*) filter (where not t.first_closing_seen) as perhaps_earlier
  from analytics.fact_tickets t join analytics.dim_date d on d.date_key = t.first_closed_date
  group by 1)
select week_start as week, coalesce(created.tickets, 0) as created, coalesce(closed.tickets, 0) as first_closed,
  coalesce(closed.perhaps_earlier, 0) as perhaps_earlier
from created
full join closed using (week_start)
order by week desc
limit 8;
