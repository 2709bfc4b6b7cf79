-- What are the tickets about, and what takes the most replies?
-- A ticket with two labels counts under both. Replies are those of tickets whose messages are all here.
select l.label_name as label, count(*) as tickets, coalesce(sum(t.authored_count) filter (where t.messages_complete), 0)::int as replies,
  round(avg(t.authored_count) filter (where t.messages_complete), 1)::float8 as replies_per_ticket,
  round((percentile_cont(0.5) within group (order by t.first_response_seconds) filter (where t.messages_complete) / 3600)::numeric(18, 6), 1)::float8 as median_first_response_hours
from analytics.fact_ticket_labels x
join analytics.dim_label l using (label_key)
join analytics.fact_tickets t using (ticket_key)
group by l.label_key, l.label_name
order by tickets desc, label, l.label_key
limit 12;
