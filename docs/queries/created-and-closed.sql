-- Do we close as many tickets as come in?
-- A ticket that was closed when the mirror first saw it counts in the week of its last update then: it was closed by that week, perhaps earlier.
select d.week_start as week, count(*) filter (where e.event = 'created') as created, count(*) filter (where e.event = 'closed') as first_closed,
  count(*) filter (where e.event = 'closed' and not t.first_closing_seen) as perhaps_earlier
from analytics.fact_tickets t
cross join lateral (values ('created', t.created_date), ('closed', t.first_closed_date)) e (event, day)
join analytics.dim_date d on d.date_key = e.day
where e.day > (
  select max((c.complete_through at time zone a.time_zone)::date) - 63
  from analytics.completeness c join analytics.dim_account a on a.account_key = c.account_id where c.stream = 'tickets')
group by d.week_start
order by week desc
limit 8;
