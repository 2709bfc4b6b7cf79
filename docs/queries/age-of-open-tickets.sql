-- How old is what is open?
-- Tickets in the state open, without those on hold or snoozed. Reckoned from when tickets are complete, not from now: so a mirror that is behind makes nothing older than it is.
-- Whether a customer waits is told as far as messages are here.
with here as (
  select account_id as account_key, extract(epoch from complete_through) as now from analytics.completeness where source = 'helpdesk' and stream = 'tickets')
select case
    when days is null then '0: unknown'
    when days < 1 then '1: less than a day'
    when days < 7 then '2: less than a week'
    when days < 28 then '3: less than four weeks'
    when days < 182 then '4: less than half a year'
    else '5: older' end as age,
  count(*) as tickets, count(*) filter (where waiting_since is not null) as customers_wait
from analytics.fact_tickets t
left join here h using (account_key)
cross join lateral (select (h.now - extract(epoch from t.created_at)) / 86400 as days) a
where state = 'open'
group by 1
order by 1;
