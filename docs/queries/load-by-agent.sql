-- Who has how much on the desk?
-- Tickets that are neither closed nor archived, as in the backlog. Whether a customer waits is told as far as messages are here. Since when: a day of the inbox or the account.
with desk as materialized (
  select account_key, inbox_key, user_key, count(*) as tickets, count(waiting_since) as waiting, min(waiting_since) as since
  from analytics.fact_tickets
  where analytics.is_backlog(state, false, false)
  group by account_key, inbox_key, user_key)
select coalesce(u.user_id, 'unassigned') as user_id, sum(d.tickets)::int as open_tickets, sum(d.waiting)::int as customers_wait,
  min((d.since at time zone coalesce(i.time_zone, a.time_zone))::date) as waiting_since, bool_or(u.is_deleted) as has_left
from desk d
join analytics.dim_account a using (account_key)
left join analytics.dim_inbox i using (inbox_key)
left join analytics.dim_user u using (user_key)
group by d.account_key, u.user_id
order by open_tickets desc, 1, d.account_key
limit 12;
