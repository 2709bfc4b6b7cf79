-- Up Migration

-- A session can narrow what it reads to one account: set shelfdesk.account = 'acme'. What it may not read it does not see by that.
create or replace view sync.readable_accounts with (security_barrier) as
select a.account_id
from sync.accounts a
-- Whoever may read the grants is the owner or the worker.
where (
    has_table_privilege(current_user, 'sync.readers'::regclass, 'select')
    or exists (
      select from sync.readers r
      where r.role_name = current_user and (r.accounts is null or a.account_id = any (r.accounts))))
  and a.account_id = coalesce(nullif(current_setting('shelfdesk.account', true), ''), a.account_id);
