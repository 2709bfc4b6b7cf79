-- Do messages come from addresses that we know a customer by?
-- For readers who see no address: equal addresses count once for an account and channel, however they are written.
select ticket_type as channel, sum(messages)::int as messages, coalesce(sum(messages) filter (where is_known), 0)::int as from_known_addresses,
  count(is_known) as addresses
from analytics.message_senders
group by ticket_type
order by messages desc, channel;
