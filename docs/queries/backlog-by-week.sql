-- How has the backlog developed?
-- Unresolved tickets at the end of each Sunday: a day of the inbox or the account. unknown: tickets that existed then, and that the mirror saw only later.
-- uncertain: the state of at most so many tickets at that time is not certain. One that moved counts where it was and where it went.
select date_key as day, sum(tickets)::int as tickets, sum(case when state = 'open' then tickets else 0 end)::int as open,
  sum(case when state in ('hold', 'snoozed') then tickets else 0 end)::int as on_hold_or_snoozed,
  sum(case when user_key is null and state is not null then tickets else 0 end)::int as unassigned,
  sum(case when state is null then tickets else 0 end)::int as unknown, sum(uncertain)::int as uncertain
from analytics.fact_backlog
join analytics.dim_date using (date_key)
where iso_weekday = 7
group by date_key
order by date_key;
