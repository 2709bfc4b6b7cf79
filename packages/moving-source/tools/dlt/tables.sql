-- tickets
select d.id, d.state, d.user_id, d.inbox_id, d.customer_id, d.subject, d.type, d.spam, d.trash, d.label_ids, d.updated_at
from desk.details d
-- messages
select m.id, d.id as ticket_id, m.body, m.type
from desk.details__messages m join desk.details d on d._dlt_id = m._dlt_parent_id
-- customers
select c.id, c.first_name, c.last_name, (
  select coalesce(jsonb_agg(jsonb_build_object('id', k.id, 'type', k.type, 'value', k.value)), '[]')
  from desk.customers__contacts k where k._dlt_parent_id = c._dlt_id) as contacts
from desk.customers c
