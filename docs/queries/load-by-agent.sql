-- Who has how much on the desk?
-- Tickets that are neither closed nor archived, as in the backlog. Whether a customer waits is told as far as messages are here. Since when: a day of the inbox or the account.
select coalesce(u.user_id, 'unassigned') as user_id, count(*) as open_tickets, count(t.waiting_since) as customers_wait,
  min((t.waiting_since at time zone coalesce(i.time_zone, a.time_zone))::date) as waiting_since, bool_or(u.is_deleted) as has_left
from analytics.fact_tickets t
join analytics.dim_account a using (account_key)
left join analytics.dim_inbox i using (inbox_key)
left join analytics.dim_user u using (user_key)
where analytics.is_backlog(t.state, false, false)
group by t.account_key, u.user_id
order by open_tickets desc, 1, t.account_key
limit 12;
