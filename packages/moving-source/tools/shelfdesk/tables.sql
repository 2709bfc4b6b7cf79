-- tickets
select id, state, user_id, inbox_id, customer_id, subject, type, spam, trash, to_json(label_ids) as label_ids, updated_at
from helpdesk.tickets where _deleted_at is null
-- messages
select m.id, m.ticket_id, m.body, m.type
from helpdesk.messages m join helpdesk.tickets t on (t.account_id, t.id) = (m.account_id, m.ticket_id)
where t._deleted_at is null and m._deleted_at is null
-- customers
select c.id, c.first_name, c.last_name, (
  select coalesce(json_agg(json_build_object('id', k.id, 'type', k.type, 'value', k.value)), '[]')
  from helpdesk.contacts k where k.account_id = c.account_id and k.customer_id = c.id and k._deleted_at is null) as contacts
from helpdesk.customers c where c._deleted_at is null
-- complete
select bool_and(gaps = 0 and waiting = 0 and open_rejects = 0 and complete_through is not null) as complete,
  case when bool_and(complete_through is not null) then min(complete_through) end as through
from sync.status where source = 'helpdesk'
