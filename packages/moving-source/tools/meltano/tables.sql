-- tickets
select id, state, user_id, inbox_id, customer_id, subject, type, spam, trash, label_ids, updated_at from desk.details
-- messages
select m->>'id' as id, d.id as ticket_id, m->>'body' as body, m->>'type' as type
from desk.details d cross join jsonb_array_elements(coalesce(to_jsonb(d.messages), '[]')) m
-- customers
select id, first_name, last_name, contacts from desk.customers
