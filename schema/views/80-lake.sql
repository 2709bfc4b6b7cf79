comment on table sync.lake is
  'The lake (npx shelfdesk lake on): one row if it is on. Its catalog is in the schema lake.';
comment on column sync.lake.is_one is 'True; allows one row at most.';
comment on column sync.lake.path is 'Folder or bucket of the files: /srv/lake, or s3://bucket/prefix.';
comment on column sync.lake.personal is
  'True if the lake also has the tables with personal data; false: only their views in schema safe.';
comment on column sync.lake.keep_days is 'Days for which snapshots are kept. The newest one is always kept.';
comment on column sync.lake.turned_on_at is 'When the lake was turned on.';
comment on column sync.lake.turned_on_by is 'Who turned the lake on.';
comment on column sync.lake.queue is 'Name of the queue of its jobs.';
comment on column sync.lake.tidied_at is
  'When an export last removed expired snapshots and joined small files; null before the first time.';
comment on table sync.lake_pending is
  'What changed since the last export of the lake. One row for each record and statement that changed it; the same record may be here often.';
comment on column sync.lake_pending.unit is
  'ticket, customer, volume or shelf: all rows of that record. account: all rows of the account. list: only the short lists of the account. all: the tables without an account. tickets, messages, attachments, customers or contacts, only if erased: one row of that table. billing.lines, the name of a table of a further source: all rows of that record, or parts of it. rules, only if erased: field rules have rewritten rows of the account; the next export removes all older snapshots.';
comment on column sync.lake_pending.account_id is 'The account; empty for the unit all.';
comment on column sync.lake_pending.id is 'Id of the record or row; owner/shelf for a shelf. Empty for the units account, list and all.';
comment on column sync.lake_pending.month is
  'Month of the ticket, before and after the change: its files are there. Null for other units, and where internal.lake_months knows it.';
comment on column sync.lake_pending.erased is
  'True if an erasure took values from it: the next export takes its personal values out of all files.';
comment on column sync.lake_pending.xact is 'The transaction that changed the record. An export clears what its snapshot has seen.';
comment on table sync.lake_exports is 'Exports of the lake, the last 1,000.';
comment on column sync.lake_exports.id is 'Number of the export.';
comment on column sync.lake_exports.started_at is 'When the export began.';
comment on column sync.lake_exports.finished_at is 'When the export ended; null while it runs, or if its process died.';
comment on column sync.lake_exports.state is 'running, done or failed. A dead process leaves running; the next export repeats its work.';
comment on column sync.lake_exports.moment is 'The lake is equal to the warehouse at this moment; null until the export is written.';
comment on column sync.lake_exports.snapshot_id is 'Snapshot of the lake that has the export; null if nothing had changed, or not written.';
comment on column sync.lake_exports.units is 'Number of records that had changed.';
comment on column sync.lake_exports.inserted is 'Number of rows written.';
comment on column sync.lake_exports.deleted is 'Number of rows removed or replaced.';
comment on column sync.lake_exports.files_cleared is 'Number of files from which erased values were taken.';
comment on column sync.lake_exports.error is 'Why the export failed; null if it did not.';
comment on table sync.lake_parts is
  'Parts of an export that begins the lake: any worker writes the rows of some accounts to files, at the moment of the export.';
comment on column sync.lake_parts.export_id is 'The export.';
comment on column sync.lake_parts.part is 'Number of the part.';
comment on column sync.lake_parts.accounts is 'The accounts of the part.';
comment on column sync.lake_parts.done_at is 'When the files of the part were written; null until then.';
comment on column sync.lake_parts.files is 'What the names of its files have in common; null until they are written.';
comment on column sync.lake_parts.error is 'Why the part failed; null if it did not.';

create or replace view sync.lake_status as
select l.path, l.personal, l.keep_days,
  case when e.state = 'failed' then 'failing' when d.moment is null then 'empty' else 'current' end as state,
  d.moment, now() - d.moment as behind, (select count(*) from sync.lake_pending) as pending,
  (select percentile_cont(0.5) within group (order by extract(epoch from r.finished_at - r.started_at)::float8)
   from (select x.* from sync.lake_exports x where x.state = 'done' order by x.id desc limit 10) r) as usual_seconds,
  e.started_at as last_started_at, e.error as last_error, d.inserted as last_inserted, d.deleted as last_deleted
from sync.lake l
left join lateral (select x.* from sync.lake_exports x where x.state <> 'running' order by x.id desc limit 1) e on true
left join lateral (select x.* from sync.lake_exports x where x.moment is not null order by x.id desc limit 1) d on true;
comment on view sync.lake_status is 'State of the lake: one row if it is on.';
comment on column sync.lake_status.path is 'Folder or bucket of the files.';
comment on column sync.lake_status.personal is 'True if the lake also has the tables with personal data.';
comment on column sync.lake_status.keep_days is 'Days for which snapshots are kept.';
comment on column sync.lake_status.state is 'empty: no export is written. failing: the last export failed, before or after it was written. current: the last export is done.';
comment on column sync.lake_status.moment is 'The lake is equal to the warehouse at this moment; null while it is empty.';
comment on column sync.lake_status.behind is 'Time since moment; null while the lake is empty.';
comment on column sync.lake_status.pending is 'Number of notes of changes since then.';
comment on column sync.lake_status.usual_seconds is 'Median time of the last ten exports; null before the first.';
comment on column sync.lake_status.last_started_at is 'When the last ended export began; null before the first.';
comment on column sync.lake_status.last_error is 'Why the last export failed; null if it did not.';
comment on column sync.lake_status.last_inserted is 'Number of rows that the last written export has added; null before the first.';
comment on column sync.lake_status.last_deleted is 'Number of rows that the last written export has removed or replaced; null before the first.';

create or replace function internal.lake_month(created_at timestamptz) returns date
language sql immutable parallel safe
begin atomic
  select case when isfinite(created_at) then date_trunc('month', created_at at time zone 'UTC')::date else date '1970-01-01' end;
end;
comment on function internal.lake_month is
  'First day of the month of a ticket, in UTC: the lake has the files of each month together. 1970 without a time.';

create or replace view internal.lake_months as
select t.account_id, t.id, coalesce(internal.lake_month(t.created_at), date '1970-01-01') as month
from helpdesk.tickets t;
comment on view internal.lake_months is 'The month of each ticket, for the lake.';
comment on column internal.lake_months.account_id is 'The account.';
comment on column internal.lake_months.id is 'The ticket.';
comment on column internal.lake_months.month is 'internal.lake_month of its creation.';

create or replace view internal.lake_completeness as
select s.account_id, s.source, s.stream, s.complete_through, s.gaps, s.waiting, s.open_rejects, s.deletes_checked_at,
  case when s.state in ('paused', 'never_synced', 'failing') or s.behind is null then s.state end as settled_state,
  -- The lag grows with the clock, so this stands still.
  date_trunc('second', now() - s.behind) as reached,
  extract(epoch from s.target)::float8 as target_seconds,
  s.deferred_until,
  s.complete_from,
  s.unchecked_since
from sync.status s;
comment on view internal.lake_completeness is
  'What the state of each stream follows from at any time. The lake has it, because its readers come later.';
comment on column internal.lake_completeness.account_id is 'The account.';
comment on column internal.lake_completeness.source is 'Source of the stream.';
comment on column internal.lake_completeness.stream is 'The stream.';
comment on column internal.lake_completeness.complete_through is 'As in sync.status.';
comment on column internal.lake_completeness.gaps is 'As in sync.status.';
comment on column internal.lake_completeness.waiting is 'As in sync.status.';
comment on column internal.lake_completeness.open_rejects is 'As in sync.status.';
comment on column internal.lake_completeness.deletes_checked_at is 'As in sync.status.';
comment on column internal.lake_completeness.settled_state is 'The state, if it does not follow the clock.';
comment on column internal.lake_completeness.reached is 'The newest part of the stream is stored up to this time, by the clock of the warehouse.';
comment on column internal.lake_completeness.target_seconds is 'Freshness target.';
comment on column internal.lake_completeness.deferred_until is 'The daily quota defers the stream until this time.';
comment on column internal.lake_completeness.complete_from is 'As in sync.status.';
comment on column internal.lake_completeness.unchecked_since is 'As in sync.status.';

-- Each function is for tables with the columns that it names. PL/pgSQL plans only the branches that run, so one
-- function is for statements that insert, update or delete.
create or replace function internal.note_tickets() returns trigger
language plpgsql
as $$
begin
  if tg_op <> 'DELETE' then
    insert into sync.lake_pending (unit, account_id, id, month)
    select 'ticket', a.account_id, a.id, coalesce(internal.lake_month(a.created_at), date '1970-01-01') from after a;
    insert into sync.lake_pending (unit, account_id, id)
    select distinct 'customer', a.account_id, a.customer_id from after a where a.customer_id is not null;
  end if;
  if tg_op = 'DELETE' then
    insert into sync.lake_pending (unit, account_id, id, month)
    select 'ticket', b.account_id, b.id, coalesce(internal.lake_month(b.created_at), date '1970-01-01') from before b;
    insert into sync.lake_pending (unit, account_id, id)
    select distinct 'customer', b.account_id, b.customer_id from before b where b.customer_id is not null;
  elsif tg_op = 'UPDATE' then
    insert into sync.lake_pending (unit, account_id, id, month)
    select 'ticket', b.account_id, b.id, coalesce(internal.lake_month(b.created_at), date '1970-01-01')
    from before b join after a on (a.account_id, a.id) = (b.account_id, b.id) where a.created_at is distinct from b.created_at;
    insert into sync.lake_pending (unit, account_id, id)
    select distinct 'customer', b.account_id, b.customer_id
    from before b join after a on (a.account_id, a.id) = (b.account_id, b.id)
    where b.customer_id is not null and a.customer_id is distinct from b.customer_id;
  end if;
  return null;
end
$$;
comment on function internal.note_tickets is 'Notes changed tickets and their customers in sync.lake_pending.';

create or replace function internal.note_of_ticket() returns trigger
language plpgsql
as $$
begin
  if tg_op <> 'DELETE' then
    insert into sync.lake_pending (unit, account_id, id) select distinct 'ticket', a.account_id, a.ticket_id from after a where a.ticket_id is not null;
  end if;
  if tg_op = 'DELETE' then
    insert into sync.lake_pending (unit, account_id, id) select distinct 'ticket', b.account_id, b.ticket_id from before b where b.ticket_id is not null;
  elsif tg_op = 'UPDATE' then
    insert into sync.lake_pending (unit, account_id, id)
    select distinct 'ticket', b.account_id, b.ticket_id from before b
    where b.ticket_id is not null and not exists (select from after a where (a.account_id, a.ticket_id) = (b.account_id, b.ticket_id));
  end if;
  return null;
end
$$;
comment on function internal.note_of_ticket is 'Notes the tickets of changed rows in sync.lake_pending.';

create or replace function internal.note_customers() returns trigger
language plpgsql
as $$
begin
  if tg_op <> 'DELETE' then
    insert into sync.lake_pending (unit, account_id, id) select 'customer', a.account_id, a.id from after a;
  else
    insert into sync.lake_pending (unit, account_id, id) select 'customer', b.account_id, b.id from before b;
  end if;
  return null;
end
$$;
comment on function internal.note_customers is 'Notes changed customers in sync.lake_pending.';

create or replace function internal.note_of_customer() returns trigger
language plpgsql
as $$
begin
  if tg_op <> 'DELETE' then
    insert into sync.lake_pending (unit, account_id, id) select distinct 'customer', a.account_id, a.customer_id from after a;
  end if;
  if tg_op <> 'INSERT' then
    insert into sync.lake_pending (unit, account_id, id) select distinct 'customer', b.account_id, b.customer_id from before b;
  end if;
  return null;
end
$$;
comment on function internal.note_of_customer is 'Notes the customers of changed contacts in sync.lake_pending.';

create or replace function internal.note_volumes() returns trigger
language plpgsql
as $$
begin
  if tg_op <> 'DELETE' then
    insert into sync.lake_pending (unit, account_id, id) select 'volume', a.account_id, a.id from after a;
  else
    insert into sync.lake_pending (unit, account_id, id) select 'volume', b.account_id, b.id from before b;
  end if;
  return null;
end
$$;
comment on function internal.note_volumes is 'Notes changed volumes in sync.lake_pending.';

create or replace function internal.note_of_shelf() returns trigger
language plpgsql
as $$
begin
  if tg_op <> 'DELETE' then
    insert into sync.lake_pending (unit, account_id, id)
    select distinct 'shelf', a.account_id, a.owner_id || '/' || a.shelf_id from after a;
  else
    insert into sync.lake_pending (unit, account_id, id)
    select distinct 'shelf', b.account_id, b.owner_id || '/' || b.shelf_id from before b;
  end if;
  return null;
end
$$;
comment on function internal.note_of_shelf is 'Notes the shelves of changed rows in sync.lake_pending.';

-- The argument is the unit: account, list or all.
create or replace function internal.note_account() returns trigger
language plpgsql
as $$
begin
  insert into sync.lake_pending (unit, account_id, id)
  select tg_argv[0], case tg_argv[0] when 'all' then '' else coalesce(to_jsonb(new), to_jsonb(old)) ->> 'account_id' end, '';
  return null;
end
$$;
comment on function internal.note_account is 'Notes the account of a changed row in sync.lake_pending.';

-- A migration may change what any view shows, with the same columns.
create or replace function internal.note_everything() returns trigger
language plpgsql
as $$
begin
  insert into sync.lake_pending (unit, account_id, id)
  select 'account', a.account_id, '' from sync.accounts a union all select 'all', '', '';
  return null;
end
$$;
comment on function internal.note_everything is 'Notes all accounts, and the tables without an account, after a migration.';

create or replace function internal.note_zones() returns trigger
language plpgsql
as $$
begin
  insert into sync.lake_pending (unit, account_id, id)
  select distinct 'account', z.account_id, '' from internal.stored_calendar_assignments z where z.calendar = new.name;
  return null;
end
$$;
comment on function internal.note_zones is
  'Notes the accounts of a calendar with another time zone: their days are others.';

-- A ticket without stored metrics has those of its calendar, as they are.
create or replace function internal.note_spans() returns trigger
language plpgsql
as $$
begin
  insert into sync.lake_pending (unit, account_id, id)
  select distinct 'account', z.account_id, '' from internal.stored_calendar_assignments z join changed c using (calendar)
  union all
  select 'all', '', '';
  return null;
end
$$;
comment on function internal.note_spans is
  'Notes the accounts of a calendar with other business hours, and the tables without an account.';

create or replace function internal.note_rejects() returns trigger
language plpgsql
as $$
begin
  insert into sync.lake_pending (unit, account_id, id)
  select distinct 'ticket', c.account_id, c.ask_id from (select (new).* union all select (old).*) c
  where c.ask_id is not null and c.stream_key in ('helpdesk.tickets', 'helpdesk.messages');
  return null;
end
$$;
comment on function internal.note_rejects is 'Notes the tickets of changed rejects in sync.lake_pending: they decide whether its messages are complete.';

-- The triggers that call it fire in an erasure only (shelfdesk.erasing). The files hold the values that it takes from the
-- warehouse: those of rows, and old ones in sync.changes.
create or replace function internal.note_erased() returns trigger
language plpgsql
as $$
begin
  if tg_table_name = 'erased' then
    insert into sync.lake_pending (unit, account_id, id, erased) select 'customer', a.account_id, a.customer_id, true from after a;
  elsif tg_table_name = 'erased_tickets' then
    insert into sync.lake_pending (unit, account_id, id, erased) select 'ticket', a.account_id, a.ticket_id, true from after a;
  elsif tg_table_name = 'changes' then
    insert into sync.lake_pending (unit, account_id, id, erased)
    select distinct case when u.is_ours then a.table_name else a.source || '.' || a.table_name end, a.account_id,
      case when u.is_ours then a.record_id else coalesce(a.parent_id, a.record_id) end, true
    from after a cross join lateral (select a.source in ('helpdesk', 'books') as is_ours) u;
  elsif tg_op = 'DELETE' then
    insert into sync.lake_pending (unit, account_id, id, erased) select tg_table_name, b.account_id, b.id, true from before b;
  else
    insert into sync.lake_pending (unit, account_id, id, erased) select tg_table_name, a.account_id, a.id, true from after a;
  end if;
  return null;
end
$$;
comment on function internal.note_erased is 'Notes erased people, their tickets, and each row from which an erasure took a value.';

-- The arguments are the unit of a further source's table, which is the table itself, and the column with the id of its record.
create or replace function internal.note_rows() returns trigger
language plpgsql
as $$
begin
  execute format('insert into sync.lake_pending (unit, account_id, id, erased) select distinct %L, r.account_id, r.%I, %L::boolean from %I r',
    tg_argv[0], tg_argv[1], tg_op <> 'INSERT' and coalesce(current_setting('shelfdesk.erasing', true), '') = 'on',
    case tg_op when 'DELETE' then 'before' else 'after' end);
  return null;
end
$$;
comment on function internal.note_rows is
  'Notes the records of changed rows of a further source in sync.lake_pending, in an erasure those from which it takes a value.';

create or replace function sync.follow_changes(follow boolean) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  one record;
begin
  for one in
    select t.name as table_name, t.calls, e.event, e.transitions,
      case t.calls when 'note_erased()' then 'lake_erased' else 'lake_' || lower(e.event) end as name,
      case t.calls when 'note_erased()' then 'when (current_setting(''shelfdesk.erasing'', true) = ''on'')' else '' end as condition
    from (values
      ('helpdesk.tickets', 'note_tickets()', '{INSERT,UPDATE,DELETE}'::text[]),
      ('internal.messages', 'note_of_ticket()', '{INSERT,UPDATE,DELETE}'),
      ('helpdesk.attachments', 'note_of_ticket()', '{INSERT,UPDATE,DELETE}'),
      ('internal.ticket_history', 'note_of_ticket()', '{INSERT,UPDATE,DELETE}'),
      ('internal.stored_ticket_metrics', 'note_of_ticket()', '{INSERT,UPDATE,DELETE}'),
      ('internal.stored_reply_turns', 'note_of_ticket()', '{INSERT,UPDATE,DELETE}'),
      ('helpdesk.customers', 'note_customers()', '{INSERT,UPDATE,DELETE}'),
      ('helpdesk.contacts', 'note_of_customer()', '{INSERT,UPDATE,DELETE}'),
      ('books.volumes', 'note_volumes()', '{INSERT,UPDATE,DELETE}'),
      ('books.shelf_volumes', 'note_of_shelf()', '{INSERT,UPDATE,DELETE}'),
      ('books.shelf_volume_history', 'note_of_shelf()', '{INSERT,UPDATE,DELETE}'),
      ('helpdesk.tickets', 'note_erased()', '{UPDATE}'),
      ('internal.messages', 'note_erased()', '{UPDATE}'),
      ('helpdesk.attachments', 'note_erased()', '{UPDATE}'),
      ('helpdesk.customers', 'note_erased()', '{UPDATE}'),
      ('helpdesk.contacts', 'note_erased()', '{DELETE}'),
      ('sync.changes', 'note_erased()', '{UPDATE}'),
      ('sync.erased', 'note_erased()', '{INSERT}'),
      ('sync.erased_tickets', 'note_erased()', '{INSERT}')
      union all
      -- The key of a mirrored table is the account, the record that the row is part of, and the row.
      select c.oid::regclass::text, format('note_rows(%L, %L)', n.nspname || '.' || c.relname, a.attname), '{INSERT,UPDATE,DELETE}'
      from pg_trigger g join pg_class c on c.oid = g.tgrelid join pg_namespace n on n.oid = c.relnamespace
      join pg_constraint k on k.conrelid = c.oid and k.contype = 'p'
      join pg_attribute a on a.attrelid = c.oid and a.attnum = k.conkey[2]
      where g.tgname = 'keep_change' and n.nspname not in ('helpdesk', 'books', 'internal')) t (name, calls, events)
    cross join lateral unnest(t.events) n (event)
    join (values ('INSERT', 'new table as after'), ('UPDATE', 'old table as before new table as after'), ('DELETE', 'old table as before'))
      e (event, transitions) on e.event = n.event
  loop
    execute format('drop trigger if exists %s on %s', one.name, one.table_name);
    if follow then
      execute format('create trigger %s after %s on %s referencing %s for each statement %s execute function internal.%s',
        one.name, one.event, one.table_name, one.transitions, one.condition, one.calls);
    end if;
  end loop;
  for one in
    select t.* from (values
      ('helpdesk.users', 'insert or update or delete', 'note_account(''list'')'),
      ('helpdesk.inboxes', 'insert or update or delete', 'note_account(''list'')'),
      ('helpdesk.labels', 'insert or update or delete', 'note_account(''list'')'),
      ('books.shelves', 'insert or update or delete', 'note_account(''list'')'),
      ('sync.accounts', 'insert or delete or update of since, mirrored_since', 'note_account(''account'')'),
      ('internal.stored_calendar_assignments', 'insert or update or delete', 'note_account(''account'')'),
      ('analytics.calendars', 'insert or update or delete', 'note_account(''all'')'),
      ('analytics.calendar_hours', 'insert or update or delete', 'note_account(''all'')'),
      ('analytics.calendar_holidays', 'insert or update or delete', 'note_account(''all'')'),
      ('sync.rejects', 'insert or update or delete', 'note_rejects()')) t (table_name, events, calls)
  loop
    execute format('drop trigger if exists lake_note on %s', one.table_name);
    if follow then
      execute format('create trigger lake_note after %s on %s for each row execute function internal.%s', one.events, one.table_name, one.calls);
    end if;
  end loop;
  drop trigger if exists lake_note on sync.migrations;
  drop trigger if exists lake_note on sync.view_sets;
  drop trigger if exists lake_note on sync.source_files;
  drop trigger if exists lake_zone on analytics.calendars;
  drop trigger if exists lake_spans_made on analytics.calendar_spans;
  drop trigger if exists lake_spans_gone on analytics.calendar_spans;
  if follow then
    create trigger lake_note after insert on sync.migrations for each statement execute function internal.note_everything();
    create trigger lake_note after insert on sync.view_sets for each statement execute function internal.note_everything();
    create trigger lake_note after insert on sync.source_files for each statement execute function internal.note_everything();
    create trigger lake_zone after update of time_zone on analytics.calendars for each row execute function internal.note_zones();
    create trigger lake_spans_made after insert on analytics.calendar_spans referencing new table as changed for each statement execute function internal.note_spans();
    create trigger lake_spans_gone after delete on analytics.calendar_spans referencing old table as changed for each statement execute function internal.note_spans();
  end if;
end
$$;
comment on function sync.follow_changes is
  'Makes the triggers that note changes for the lake, or drops them: while it is off, no write pays for them.';

create or replace function sync.let_into_lake(reader name default null) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  one record;
begin
  for one in
    select r.role_name from sync.readers r join pg_roles p on p.rolname = r.role_name
    join sync.lake l on r.accounts is null and (r.pii or not l.personal)
    where reader is null or r.role_name = reader
  loop
    execute format('grant usage on schema lake to %I', one.role_name);
    execute format('grant select on all tables in schema lake to %I', one.role_name);
  end loop;
end
$$;
comment on function sync.let_into_lake is
  'Lets readers, or one of them, read the catalog of the lake. Its files know no accounts and no masks: only who may see all of the lake may.';
