-- Up Migration

-- Readers of masked tables see by when a change had happened, too.

create or replace view safe.ticket_history with (security_barrier) as
select t.account_id, t.ticket_id, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam, t.trash, t.valid_from, t.valid_to, t.change_after, t.is_first, t.deleted_after, t.change_by
from helpdesk.ticket_history t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on column safe.ticket_history.change_by is
  'The change happened by this time, if that is later than valid_from: the reply that showed it was true by then. Between valid_from and this time it is not certain that it had happened. Null where it happened by valid_from; of a first row, where updated_at is taken at its word, since the ticket was last updated before the mirror began.';
