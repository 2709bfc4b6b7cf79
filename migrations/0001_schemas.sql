-- Up Migration

-- The schema sync and the table sync.migrations are made before the first migration, to write it down in.
comment on schema sync is
  'What Shelfdesk knows of itself: what has been read, when, at what cost, and where the holes are.';

-- A time without a zone would depend on the settings of whoever migrates.
alter table sync.migrations alter column run_on type timestamptz;
comment on table sync.migrations is 'One row for each change of the tables that has been applied to this database.';
comment on column sync.migrations.id is 'The order in which they were applied.';
comment on column sync.migrations.name is 'The file in migrations/, without .sql.';
comment on column sync.migrations.run_on is 'When it was applied.';

create schema helpdesk;
comment on schema helpdesk is
  'The mirror of the help desk. Read sync.status to see up to when each table is complete.';

create table sync.accounts (
  account_id text primary key,
  since timestamptz not null default '1970-01-01T00:00:00Z',
  source text not null default '',
  queue uuid not null default gen_random_uuid()
);
comment on table sync.accounts is 'One row for each mirrored account.';
comment on column sync.accounts.account_id is 'The operator''s name for the account; part of every key.';
comment on column sync.accounts.since is
  'The mirror wants everything from here on (HELPDESK_SINCE); 1970-01-01 means everything.';
comment on column sync.accounts.source is
  'The address that the account is read from: what was read from one help desk says nothing about another.';
comment on column sync.accounts.queue is
  'Names the account''s job queue, so that warehouses that share a Redis stay apart.';
