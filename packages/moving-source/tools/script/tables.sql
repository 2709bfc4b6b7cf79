-- tickets
select doc->>'id' as id, doc->>'state' as state, doc->>'user_id' as user_id, doc->>'inbox_id' as inbox_id,
  doc->>'customer_id' as customer_id, doc->>'subject' as subject, doc->>'type' as type, (doc->>'spam')::boolean as spam,
  (doc->>'trash')::boolean as trash, doc->'label_ids' as label_ids, doc->>'updated_at' as updated_at
from desk.tickets
-- messages
select message->>'id' as id, t.id as ticket_id, message->>'body' as body, message->>'type' as type
from desk.tickets t cross join jsonb_array_elements(t.doc->'messages') message
-- customers
select id, doc->>'first_name' as first_name, doc->>'last_name' as last_name, doc->'contacts' as contacts from desk.customers
