-- How has the backlog developed?
-- Unresolved tickets at the end of each Sunday: a day of the inbox or the account. uncertain: the number of tickets whose state at that time is not certain.
select date_key as day, sum(tickets)::int as tickets, sum(tickets) filter (where state = 'open')::int as open,
  sum(tickets) filter (where state in ('hold', 'snoozed'))::int as on_hold_or_snoozed,
  sum(tickets) filter (where user_key is null)::int as unassigned, sum(uncertain)::int as uncertain
from analytics.fact_backlog
join analytics.dim_date using (date_key)
where iso_weekday = 7
group by date_key
order by date_key;
