-- Where does the unresolved work lie now, and where did it lie four weeks ago?
with backlog as (
  select account_key, inbox_key, date_key, tickets from analytics.fact_backlog),
days as (
  select account_key, max(date_key) as today, max(date_key) - 28 as before from backlog group by account_key)
select coalesce(i.inbox_name, 'no inbox') as inbox,
  coalesce(sum(b.tickets) filter (where b.date_key = d.before), 0)::int as four_weeks_ago,
  coalesce(sum(b.tickets) filter (where b.date_key = d.today), 0)::int as now
from days d
join backlog b on b.account_key = d.account_key and b.date_key in (d.today, d.before)
left join analytics.dim_inbox i on i.inbox_key = b.inbox_key
group by b.account_key, i.inbox_key, i.inbox_name
order by now desc, inbox;
