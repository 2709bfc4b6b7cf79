comment on table sync.changes is
  'Old and new values of mirrored rows, one row for each change or removal. New records have no row here: see _first_seen_at. Relations between records have their own history: helpdesk.ticket_history, books.shelf_volume_history.';
comment on column sync.changes.id is 'Number of the change, in the order in which the mirror saw the changes.';
comment on column sync.changes.source is
  'The source of the row, which is also the schema of its table: helpdesk or books. Two sources may have a table of one name.';
comment on column sync.changes.table_name is
  'tickets, messages, attachments, customers, contacts, users, labels, inboxes, shelves, volumes or shelf_volumes; or a table of another source.';
comment on column sync.changes.record_id is 'Id of the changed row; joins the id of its table. For shelf_volumes: volume_id.';
comment on column sync.changes.parent_id is
  'The ticket of a message or an attachment, the customer of a contact, the owner of a shelf. For shelf_volumes: owner/shelf. Null otherwise.';
comment on column sync.changes.seen_at is
  'When the mirror stored the change, by the worker''s clock. Only updated_at shows when the change happened at the source.';
comment on column sync.changes.as_of is
  'The source showed the new values at this time, by its own clock. For a tombstone: the record was gone by this time.';
comment on column sync.changes.run_id is 'The run that stored the change; null if a person replayed a reject.';
comment on column sync.changes.changes is
  'Changed fields, each as [old, new]: columns by name, and fields of _payload without a column. {} if only the spelling differs. With "id": the row was removed. With "_messages_as_of": the messages of the ticket were re-read, and had changed.';

create or replace function sync.kept_of(payload jsonb, kept text[]) returns jsonb
language sql immutable parallel safe
begin atomic
  select coalesce(jsonb_object_agg(p.key, p.value), '{}')
  from jsonb_each(case when jsonb_typeof(payload) = 'object' then payload else '{}' end) p
  where p.key = any (kept);
end;
comment on function sync.kept_of is 'The fields of an object that have one of these names.';

-- Labels of tickets and places of volumes are only in ticket_history and shelf_volume_history; other changes are here.
create or replace function sync.keep_change() returns trigger
language plpgsql
-- The worker forces a new query plan for each page. In this trigger that would mean a new plan for each row.
set plan_cache_mode = force_generic_plan
as $$
declare
  -- Names to skip: table columns that belong to another record or derive from other columns, and _payload fields with a column.
  besides constant text[] := tg_argv[1]::text[];
  merge constant text := current_setting('shelfdesk.merge', true);
  parent constant text[] := string_to_array(tg_argv[0], ',');
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
  -- Messages of the help desk are stored in the schema internal.
  insert into sync.changes (account_id, source, table_name, record_id, parent_id, seen_at, as_of, run_id, changes)
  values (old.account_id, case tg_table_schema when 'internal' then 'helpdesk' else tg_table_schema end, tg_table_name, before ->> coalesce(tg_argv[2], 'id'),
    (select string_agg(before ->> p.name, '/' order by p.place) from unnest(parent) with ordinality p (name, place)),
    (merge::jsonb ->> 'seen_at')::timestamptz, coalesce(merge::jsonb ->> 'as_of', after ->> '_deleted_at')::timestamptz, (merge::jsonb ->> 'run')::bigint, changes);
  return null;
end
$$;
comment on function sync.keep_change is
  'Records the old and new values in sync.changes when a merge changes a row, marks it as deleted or removes it. Arguments: the columns that name the parent, the names to skip, and the id column if not `id`.';

create or replace function sync.add_mirror(mirrored regclass, parent text default '') returns void
language plpgsql
as $$
begin
  execute format('alter table %s
    add column _first_seen_at timestamptz not null,
    add column _synced_at timestamptz not null,
    add column _observed_at timestamptz not null,
    add column _deleted_at timestamptz,
    add column _payload jsonb not null', mirrored);
  execute format('comment on column %s._first_seen_at is %L', mirrored, 'When the mirror first stored the record, by the clock of the worker.');
  execute format('comment on column %s._synced_at is %L', mirrored, 'When the mirror last changed the row, by the clock of the worker.');
  execute format('comment on column %s._observed_at is %L', mirrored, 'The reply that the row comes from holds all changes up to this time, by the clock of the source.');
  execute format('comment on column %s._deleted_at is %L', mirrored, 'When the record was found to be deleted at the source; null while it exists.');
  execute format('comment on column %s._payload is %L', mirrored, 'The record as the source sent it.');
  execute format('create trigger keep_change after update or delete on %s
    for each row execute function sync.keep_change(%L, %L)', mirrored, parent, '{account_id}');
end
$$;
comment on function sync.add_mirror is
  'Turns a table with account_id and id into a mirrored table: adds the columns of every mirrored table, and records its changes in sync.changes. `parent`: the column with the id of the record that the row is part of.';

-- Stable, as adding an interval to a time is: PostgreSQL would not inline it as immutable.
create or replace function sync.true_by(true_by timestamptz, observed_at timestamptz) returns timestamptz
language sql stable parallel safe
begin atomic
  select coalesce(true_by, observed_at + interval '1 minute');
end;
comment on function sync.true_by is
  'Time by which the source had shown the content of a row: true_by, or one minute after observed_at if true_by is null.';

create or replace function sync.ordered_by(true_by timestamptz, observed_at timestamptz) returns timestamptz
language sql stable parallel safe
begin atomic
  select case when date_trunc('second', true_by) = true_by then true_by else least(true_by, observed_at + interval '1 minute') end;
end;
comment on function sync.ordered_by is
  'true_by as far as it orders versions, or one minute after observed_at if it is null. With a fraction of a second true_by goes by the database''s clock, which contradicts Date: then it orders for that minute only. Where that clock is ahead, no later version would win until then.';

create or replace function sync.dated(updated_at timestamptz, observed_at timestamptz) returns timestamptz
language sql stable
begin atomic
  select case when updated_at > observed_at + interval '1 hour' then observed_at else updated_at end;
end;
comment on function sync.dated is
  'Date of a ticket version: updated_at, or observed_at if updated_at is more than one hour later. Such a late updated_at is an error of the source''s clock.';
comment on table sync.change_latencies is
  'Change latency: time from a change at the source to its row in the mirror. Counts by whole second, for each minute of arrival. Only changes after the start of the mirror count.';
comment on column sync.change_latencies.stream is
  'The stream. A change of messages counts once all messages of the ticket are in the mirror.';
comment on column sync.change_latencies.minute is
  'Minute in which the changes were stored in the mirror, by the source''s clock.';
comment on column sync.change_latencies.latency_seconds is
  'Seconds from the change at the source to its row in the mirror, by the source''s clock.';
comment on column sync.change_latencies.changes is 'Number of changes.';

create or replace function sync.change_latency(account text, stream text, percent numeric, since timestamptz default now() - interval '1 hour')
returns interval
language sql stable
begin atomic
  select make_interval(secs => min(c.latency_seconds)) from (
    select a.latency_seconds, sum(a.changes) over (order by a.latency_seconds) as upto, sum(a.changes) over () as total
    from (
      select g.latency_seconds, sum(g.changes) as changes from sync.change_latencies g
      where g.account_id = account and g.stream_key = sync.key_of(change_latency.stream) and g.minute >= since + coalesce((
        select (b.state #>> '{clock,offsetMs}')::float8 * interval '1 millisecond'
        from sync.streams k join sync.budget b on (b.account_id, b.source) = (account, k.source)
        where k.stream_key = sync.key_of(change_latency.stream)), interval '0')
      group by 1) a) c
  where c.upto >= c.total * percent / 100;
end;
comment on function sync.change_latency is
  'Percentile of the change latency since a given time (default: the last hour); null if no change arrived. Example: change_latency(account, stream, 95) is the p95.';

revoke execute on function sync.add_mirror(regclass, text) from public;
comment on table internal.stored_sets is
  'Sets of members, as the messages of a ticket, that are stored just as a reply showed them. The same reply is not sent again. An erasure removes all of its account.';
comment on column internal.stored_sets.account_id is 'The operator''s name for the mirrored account.';
comment on column internal.stored_sets.stream_key is 'The stream of the members, with its source: helpdesk.messages.';
comment on column internal.stored_sets.record_id is 'The record with the members: a ticket.';
comment on column internal.stored_sets.proof is
  'SHA-256 of what the reply showed, of how it is stored, and of the versions (xmin) of all rows of the set and of this row. Whatever writes one of them makes the proof void.';
