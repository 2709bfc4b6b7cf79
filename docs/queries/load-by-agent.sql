-- Who has how much on the desk?
select coalesce(a.user_id, 'unassigned') as user_id, count(*) as open_tickets, count(t.waiting_since) as customers_wait,
  min(t.waiting_since)::date as waiting_since, bool_or(a.is_deleted) as has_left
from analytics.fact_tickets t
left join analytics.dim_user a using (user_key)
where t.state in ('open', 'hold', 'snoozed')
group by t.account_key, a.user_id
order by open_tickets desc, 1
limit 12;
