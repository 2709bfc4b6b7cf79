-- How old is what is open?
-- Reckoned from when tickets are complete, not from now: so a mirror that is behind makes nothing older than it is.
with here as (
  select account_id as account_key, complete_through as now from analytics.completeness where stream = 'tickets')
select case
    when age < interval '1 day' then '1: less than a day'
    when age < interval '7 days' then '2: less than a week'
    when age < interval '28 days' then '3: less than four weeks'
    when age < interval '182 days' then '4: less than half a year'
    else '5: older' end as age,
  count(*) as tickets, count(*) filter (where waiting_since is not null) as customers_wait
from analytics.fact_tickets t
join here h using (account_key)
cross join lateral (select h.now - t.created_at as age) a
where state = 'open'
group by 1
order by 1;
