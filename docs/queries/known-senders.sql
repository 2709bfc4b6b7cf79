-- Do messages come from addresses that we know a customer by?
-- For readers who see no address: equal addresses have equal hashes, however they are written.
select t.type as channel, count(*) as messages, count(*) filter (where k.known) as from_known_addresses,
  count(distinct m.from_address) as addresses
from safe.messages m
join safe.tickets t on t.account_id = m.account_id and t.id = m.ticket_id
cross join lateral (
  select exists (select from safe.contacts c where c.account_id = m.account_id and c.value = m.from_address) as known) k
where m.direction = 'in' and analytics.is_countable(t.spam, t.trash, t._deleted_at)
group by t.type
order by messages desc, channel;
