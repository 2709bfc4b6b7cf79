-- Where does the unresolved work lie now, and where did it lie four weeks ago?
-- Now is the end of the last day that is over wherever the account has an inbox, and up to which tickets are complete.
-- unknown: tickets that existed then, and that the mirror saw only later.
with backlog as materialized (
  select account_key, inbox_key, date_key, state, tickets from analytics.fact_backlog),
days as materialized (
  select z.account_key, min((c.complete_through at time zone z.time_zone)::date) - 1 as today
  from (select account_key, time_zone from analytics.dim_account union select account_key, time_zone from analytics.dim_inbox) z
  join analytics.completeness c on c.account_id = z.account_key and c.source = 'helpdesk' and c.stream = 'tickets'
  group by z.account_key)
select coalesce(case when (select count(*) from analytics.dim_account) > 1 then i.account_key || ': ' else '' end || i.inbox_name, case when b.state is null then 'unknown' else 'no inbox' end) as inbox,
  coalesce(sum(b.tickets) filter (where b.date_key = d.today - 28), 0)::int as four_weeks_ago,
  coalesce(sum(b.tickets) filter (where b.date_key = d.today), 0)::int as now
from days d
join backlog b on b.account_key = d.account_key and b.date_key in (d.today, d.today - 28)
left join analytics.dim_inbox i on i.inbox_key = b.inbox_key
group by i.inbox_key, 1
order by now desc, inbox;
