-- Up Migration

-- What a row was before it changed, and which run has listed a ticket and read its messages. Written by the merge itself, in
-- its transaction. A row that is new has no old values: a first load writes nothing here.

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
comment on column sync.changes.as_of is 'The new values are as the source showed them at this time, by its clock.';
comment on column sync.changes.run_id is 'The run that wrote it; null if a reject was replayed by hand.';
comment on column sync.changes.changes is
  'Field by field [old, new]: columns by their names, and fields of _payload that have none. {} if only the spelling differs; with "id", the row was removed; with "_messages_as_of", the messages of the ticket were read again.';

create function sync.differences(before jsonb, after jsonb, columns text[], renamed text[]) returns jsonb
language sql immutable
begin atomic
  select coalesce(jsonb_object_agg(d.field, jsonb_build_array(d.old, d.new)), '{}')
  from (
    select c.field, before -> c.field as old, after -> c.field as new
    from unnest(columns || '{_deleted_at}') c (field)
    -- A column that is null and one that is not there are the same.
    where coalesce(before -> c.field, 'null') <> coalesce(after -> c.field, 'null')
    union all
    select coalesce(b.key, a.key), b.value, a.value
    from jsonb_each(before -> '_payload') b full join jsonb_each(after -> '_payload') a on a.key = b.key
    where b.value is distinct from a.value and coalesce(b.key, a.key) <> all (columns || renamed)) d;
end;
comment on function sync.differences(jsonb, jsonb, text[], text[]) is
  'What differs between two rows: {field: [old, new]}, of these columns and of the fields of _payload that are no column under the same name, nor under another one (renamed).';

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
