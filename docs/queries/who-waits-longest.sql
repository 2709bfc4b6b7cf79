-- Which customers wait longest for a reply?
-- Tickets in the state open, without those on hold or snoozed, in which the last word of somebody is a customer's. Tickets whose messages are not all here are left out.
select t.number, t.type as channel, i.inbox_name as inbox, date_trunc('minute', t.waiting_since) as waiting_since,
  round(((extract(epoch from c.complete_through) - extract(epoch from t.waiting_since)) / 3600)::numeric(18, 6), 1)::float8 as hours
from analytics.fact_tickets t
join analytics.completeness c on c.account_id = t.account_key and c.source = 'helpdesk' and c.stream = 'messages'
left join analytics.dim_inbox i using (inbox_key)
where t.state = 'open' and t.waiting_since is not null and t.messages_complete
order by t.waiting_since, t.ticket_key
limit 10;
