-- Up Migration

-- What a row was before it changed, and which run has listed a ticket and read its messages. Written with the merge, in its
-- transaction. A row that is new has no old values: a first load writes nothing here.

create table sync.changes (
  id bigint generated always as identity primary key,
  account_id text not null,
  table_name text not null,
  record_id text not null,
  parent_id text,
  seen_at timestamptz not null,
  as_of timestamptz not null,
  run_id bigint,
  changes jsonb not null
);
create index changes_record on sync.changes (account_id, table_name, record_id, id);
create index changes_parent on sync.changes (account_id, table_name, parent_id, id) where parent_id is not null;
create index changes_seen on sync.changes (account_id, seen_at);
comment on table sync.changes is
  'Old and new values of every row of tickets, messages, customers, contacts and users that changed here, one row each time. What came new is not here: see _first_seen_at.';
comment on column sync.changes.id is 'Number of the change, in the order in which they were seen.';
comment on column sync.changes.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.changes.table_name is 'tickets, messages, customers, contacts or users.';
comment on column sync.changes.record_id is 'The row; joins the id of that table.';
comment on column sync.changes.parent_id is 'The ticket of a message, the customer of a contact; null otherwise.';
comment on column sync.changes.seen_at is 'When it was written here, by the worker''s clock. When it happened at the source, only updated_at can tell.';
comment on column sync.changes.as_of is 'The new values are as the source showed them at this time, by its clock; of a tombstone, by then it was gone.';
comment on column sync.changes.run_id is 'The run that wrote it; null if a reject was replayed by hand.';
comment on column sync.changes.changes is
  'Field by field [old, new]: columns by their names, and fields of _payload that have none. {} if only the spelling differs; with "id", the row was removed; with "_messages_as_of", the messages of the ticket were read again.';

-- A row trigger has exactly the row that is overwritten, whoever else wrote it a moment ago, and costs nothing where nothing
-- changes. It writes only for a merge of ours, which says so for its transaction: when it is, as of when, and for which run.
create function sync.keep_change() returns trigger
language plpgsql
-- The worker has plans made anew for each page; here that would be for each row.
set plan_cache_mode = force_generic_plan
as $$
declare
  -- Under these names in the table: what is another one's, or follows from others; and in _payload: what is a column.
  besides constant text[] := tg_argv[1]::text[];
  merge constant text := current_setting('shelfdesk.merge', true);
  parent constant text := tg_argv[0];
  before constant jsonb := to_jsonb(old);
  after constant jsonb := case when tg_op = 'UPDATE' then to_jsonb(new) else '{}' end;
  changes jsonb;
begin
  if merge is null or merge = '' then return null; end if;
  select coalesce(jsonb_object_agg(d.field, jsonb_build_array(d.old, d.new)), '{}') into changes
  from (
    select b.key as field, b.value as old, after -> b.key as new
    from jsonb_each(before) b
    where b.value <> coalesce(after -> b.key, 'null') and b.key <> all (besides)
      and (b.key not like '\_%' or b.key like any ('{\\_deleted%,\\_messages%}'))
    union all
    select coalesce(b.key, a.key), b.value, a.value
    from jsonb_each(before -> '_payload') b full join jsonb_each(after -> '_payload') a on a.key = b.key
    where b.value is distinct from a.value and not before ? coalesce(b.key, a.key)
      and coalesce(b.key, a.key) <> all (besides)) d;
  if changes = '{}' and before -> '_payload' = after -> '_payload' then return null; end if;
  insert into sync.changes (account_id, table_name, record_id, parent_id, seen_at, as_of, run_id, changes)
  values (old.account_id, tg_table_name, old.id, before ->> parent,
    (merge::jsonb ->> 'seen_at')::timestamptz, coalesce(merge::jsonb ->> 'as_of', after ->> '_deleted_at')::timestamptz, (merge::jsonb ->> 'run')::bigint, changes);
  return null;
end
$$;
comment on function sync.keep_change() is
  'Writes old and new values of a row that a merge changes, buries or removes to sync.changes. Arguments: the column of its parent, and names that are passed over.';

alter table helpdesk.tickets
  add column _listed_by bigint,
  add column _messages_by bigint;
comment on column helpdesk.tickets._listed_by is
  'The run that first wrote this ticket, at _first_seen_at; null if that was before runs were noted. Joins sync.runs.id, where that is still kept.';
comment on column helpdesk.tickets._messages_by is
  'The run that read its messages, as of _messages_as_of; null like _listed_by. Earlier readings are in sync.changes.';

-- What differs from the documentation can be looked at.
alter table sync.drift add column sample text;
comment on column sync.drift.sample is 'A record that showed it, as JSON text, cut at 2,000 characters; null if it was seen by an older Shelfdesk.';

-- A reject can be tried again without a request: what was read, when it was true, and where it stood.
alter table sync.rejects
  add column as_of timestamptz,
  add column place int;
comment on column sync.rejects.as_of is 'The payload is as the source showed it at this time, by its clock; null where nothing came.';
comment on column sync.rejects.place is 'Its place in the reply, from 1: the position of a message within its ticket.';

-- The first reading of its messages is no change of a ticket.
create trigger keep_change after update on helpdesk.tickets for each row
  when (old._messages_as_of is not null or new._messages_as_of is null)
  execute function sync.keep_change('', '{account_id}');
create trigger keep_change after update or delete on helpdesk.messages for each row
  execute function sync.keep_change('ticket_id', '{account_id,body_text,from,to}');
-- That a sweep has seen it is no change of a customer.
create trigger keep_change after update on helpdesk.customers for each row
  when (old._checked_at = new._checked_at or old._payload <> new._payload or old._deleted_at is distinct from new._deleted_at)
  execute function sync.keep_change('', '{account_id}');
create trigger keep_change after update or delete on helpdesk.contacts for each row
  execute function sync.keep_change('customer_id', '{account_id,value_normalized}');
create trigger keep_change after update or delete on helpdesk.users for each row
  execute function sync.keep_change('', '{account_id}');
