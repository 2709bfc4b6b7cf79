-- Whom has nobody answered?
-- Tickets with a message of a customer and no reply that somebody of the team wrote.
select coalesce(i.inbox_name, 'no inbox') as inbox, count(*) as tickets, count(*) filter (where state = 'open') as open,
  count(*) filter (where automatic_count > 0) as with_automatic_reply, min(created_date) as oldest, max(created_date) as newest
from analytics.fact_tickets
left join analytics.dim_inbox i using (inbox_key)
where is_unreplied and messages_complete
group by i.inbox_key, i.inbox_name
order by tickets desc, inbox, i.inbox_key;
