-- Up Migration

-- Who reads what. Readers get views of their owner's, each with this filter inside: row-level security does not act through an
-- owner's view.

create schema analytics;
comment on schema analytics is
  'Facts and metrics for analysts, current within the commit that brought the ticket. Nothing here names a person; every row is of an account that whoever asks may read.';
create schema safe;
comment on schema safe is
  'The mirror of the help desk without what identifies a person: such values are keyed hashes here, equal where the values are equal, or left out.';

create table sync.readers (
  role_name name primary key,
  accounts text[],
  pii boolean not null,
  created_at timestamptz not null,
  created_by text not null
);
comment on table sync.readers is
  'Roles that read what is mirrored (npx shelfdesk reader create), and the accounts that each of them sees. A role that is not here and does not own the tables sees none.';
comment on column sync.readers.role_name is 'The role, as it logs in.';
comment on column sync.readers.accounts is 'The accounts that it sees; null: all, also those to come.';
comment on column sync.readers.pii is 'True if it sees names, addresses and texts as well.';
comment on column sync.readers.created_at is 'When it was let in.';
comment on column sync.readers.created_by is 'Who did that.';

create view sync.readable_accounts as
select a.account_id
from sync.accounts a
-- Whoever may read the grants is the owner or the worker.
where has_table_privilege(current_user, 'sync.readers', 'select')
  or exists (
    select from sync.readers r
    where r.role_name = current_user and (r.accounts is null or a.account_id = any (r.accounts)));
comment on view sync.readable_accounts is
  'The accounts that whoever asks may read. Every view of analytics and safe shows only these.';
comment on column sync.readable_accounts.account_id is 'The account.';
