-- Up Migration

-- Each ticket whose messages are read has its metrics worked out, and that asks four times which accounts may be read. Whether
-- whoever asks may read the grants is now asked once, and not for each account: with 250 of them that was half of the work.
create or replace view sync.readable_accounts with (security_barrier) as
select a.account_id
from sync.accounts a
-- Whoever may read the grants is the owner or the worker.
where (select has_table_privilege(current_user, 'sync.readers'::regclass, 'select'))
  or exists (
    select from sync.readers r
    where r.role_name = current_user and (r.accounts is null or a.account_id = any (r.accounts)));

-- The ticket comes with its messages, and most of the time as it is here: then there is nothing to begin.
create or replace function sync.begin_ticket_history() returns trigger
language plpgsql
as $$
begin
  if not exists (select from after) then return null; end if;
  insert into helpdesk.ticket_history
    (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, valid_to, change_after, deleted_after, is_first)
  select t.account_id, t.id, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam, t.trash, f.valid_from,
    case when t._deleted_at is not null then greatest(t._deleted_at, f.valid_from + interval '1 second') end,
    case when t.created_at <= f.valid_from then t.created_at - interval '1 second' end,
    t._deleted_after, true
  from after t
  cross join lateral (select sync.dated(t.updated_at, t._observed_at) as valid_from) f
  on conflict do nothing;
  return null;
end
$$;
