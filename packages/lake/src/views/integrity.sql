-- The integrity checks of the warehouse for which the lake has the rows, in the SQL of DuckDB. The lake has no rows of
-- tickets that are not here, and does not have what only maintains metrics: those checks need the warehouse.

create or replace view analytics.integrity as
select c.check_name, a.account_id, count(f.account_id) as found, c.means
from analytics.dim_account a
cross join (values
  ('attachments without their message', 'Attachments come with their message: there should be none.'),
  ('tickets without their customer', 'The customer has not been read yet, or the source had already deleted it.'),
  ('contacts without their customer', 'Contacts come with their customer: there should be none.'),
  ('tickets of a user who is not here', 'The list of users does not show who has left before the mirror began, or they have not been read yet.'),
  ('messages of a user who is not here', 'The list of users does not show who has left before the mirror began, or they have not been read yet.'),
  ('tickets of an inbox that is not here', 'Inboxes are written with the first ticket that mentions them: there should be none.'),
  ('labels of tickets without the label', 'Labels are written with the first ticket that mentions them: there should be none.'),
  ('tickets whose history tells otherwise', 'The open row of its history is what the ticket is now: there should be none.'),
  ('history that overlaps', 'A ticket is one thing at a time: there should be none.'),
  ('tickets whose messages are not complete', 'Their messages are pending, or a part of them was rejected: ticket_metrics.messages_complete is false.'),
  ('volumes on a shelf that are not here', 'Volumes are written with their shelf: there should be none.'),
  ('volumes on a shelf that is not here', 'A shelf is written before what is on it: there should be none.')) c (check_name, means)
left join (
  select 'attachments without their message' as check_name, f.account_id from safe.attachments f
  where not exists (select 1 from safe.messages m where m.account_id = f.account_id and m.id = f.message_id)
  union all
  select 'tickets without their customer', t.account_id from safe.tickets t
  where t.customer_id is not null and not exists (select 1 from safe.customers c where c.account_id = t.account_id and c.id = t.customer_id)
  union all
  select 'contacts without their customer', k.account_id from safe.contacts k
  where not exists (select 1 from safe.customers c where c.account_id = k.account_id and c.id = k.customer_id)
  union all
  select 'tickets of a user who is not here', t.account_id from safe.tickets t
  where t.user_id is not null and not exists (select 1 from safe.users u where u.account_id = t.account_id and u.id = t.user_id)
  union all
  select 'messages of a user who is not here', m.account_id from safe.messages m
  where m.user_id is not null and not exists (select 1 from safe.users u where u.account_id = m.account_id and u.id = m.user_id)
  union all
  select 'tickets of an inbox that is not here', t.account_id from safe.tickets t
  where t.inbox_id is not null and not exists (select 1 from safe.inboxes i where i.account_id = t.account_id and i.id = t.inbox_id)
  union all
  select 'labels of tickets without the label', l.account_id from safe.ticket_labels l
  where not exists (select 1 from safe.labels n where n.account_id = l.account_id and n.id = l.label_id)
  union all
  select 'tickets whose history tells otherwise', t.account_id from safe.tickets t
  where t._deleted_at is null and not exists (
    select 1 from safe.ticket_history h
    where h.account_id = t.account_id and h.ticket_id = t.id and h.valid_to is null
      and h.state is not distinct from t.state and h.user_id is not distinct from t.user_id and h.inbox_id is not distinct from t.inbox_id
      and h.spam is not distinct from t.spam and h.trash is not distinct from t.trash
      and list_sort(list_distinct(h.label_ids)) is not distinct from list_sort(list_distinct(t.label_ids)))
  union all
  select 'history that overlaps', h.account_id
  from (
    select h.account_id, h.valid_from < lag(coalesce(h.valid_to, 'infinity'::timestamptz)) over (
      partition by h.account_id, h.ticket_id order by h.valid_from) as overlaps
    from safe.ticket_history h) h
  where h.overlaps
  union all
  select 'tickets whose messages are not complete', m.account_id from analytics.ticket_metrics m
  where m.deleted_at is null and not m.messages_complete
  union all
  select 'volumes on a shelf that are not here', s.account_id from books.shelf_volumes s
  where not exists (select 1 from books.volumes v where v.account_id = s.account_id and v.id = s.volume_id)
  union all
  select 'volumes on a shelf that is not here', s.account_id from books.shelf_volumes s
  where not exists (select 1 from books.shelves b where b.account_id = s.account_id and b.owner_id = s.owner_id and b.id = s.shelf_id)
) f on f.check_name = c.check_name and f.account_id = a.account_id
group by c.check_name, a.account_id, c.means;
