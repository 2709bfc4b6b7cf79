-- How many customers write again?
select case when tickets >= 5 then '5 or more' else tickets::text end as tickets_each, count(*) as customers,
  sum(tickets)::int as tickets, sum(inbound_messages)::int as messages
from analytics.customer_summary
where tickets > 0
group by 1
order by 1;
