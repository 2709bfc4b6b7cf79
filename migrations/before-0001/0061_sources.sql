-- Up Migration

-- A source is a row, not a column: new sources bring streams and tables of their own, and the same rights hold for them.

create table sync.sources (
  account_id text not null,
  source text not null,
  address text not null,
  primary key (account_id, source)
);
comment on table sync.sources is 'The sources of each account, one row for each: its rows come from this address and from no other.';
comment on column sync.sources.account_id is 'The account.';
comment on column sync.sources.source is 'The source, which is also the schema of its tables: helpdesk, books.';
comment on column sync.sources.address is 'The base address that the account was bound to when it was first synced.';

insert into sync.sources (account_id, source, address)
select account_id, 'helpdesk', source from sync.accounts where source <> ''
union all
select account_id, 'books', books_source from sync.accounts where books_source <> '';
alter table sync.accounts drop column source, drop column books_source;

alter table sync.streams
  add column personal boolean not null default false,
  add column deletions text;
comment on column sync.streams.personal is 'True if its tables hold personal data. Readers without the right to see it read masked views in the schema safe.';
comment on column sync.streams.deletions is 'Why deletions of the stream are unknown; null if the mirror finds them.';
update sync.streams set personal = source = 'helpdesk';

create view sync.source_schemas with (security_invoker = true) as
select source::name as name, bool_or(personal) as personal from sync.streams group by source;
comment on view sync.source_schemas is 'The schemas of mirrored tables, one for each source.';
comment on column sync.source_schemas.name is 'The schema, which has the name of its source.';
comment on column sync.source_schemas.personal is 'True if one of its streams holds personal data.';

create table sync.source_files (
  source text not null,
  name text not null,
  checksum text not null,
  run_on timestamptz not null default now(),
  primary key (source, name)
);
comment on table sync.source_files is 'Schema files of sources that were applied to this database. A later edit of such a file is refused.';
comment on column sync.source_files.source is 'The source that brings the file.';
comment on column sync.source_files.name is 'The name of the file.';
comment on column sync.source_files.checksum is 'SHA-256 of the file as it was applied.';
comment on column sync.source_files.run_on is 'When it was applied.';

create function sync.add_mirror(mirrored regclass) returns void
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
    for each row execute function sync.keep_change(%L, %L)', mirrored, '', '{account_id}');
end
$$;
comment on function sync.add_mirror(regclass) is
  'Makes a table with account_id and id a mirrored one: adds the columns that every mirrored table has, and keeps its changes in sync.changes.';

create or replace function sync.wanted_rights() returns table (role name, relation regclass, kind "char", right_name text)
language sql stable
begin atomic
  with ours as (
    select c.oid, n.nspname, c.relname, c.relkind, c.reloptions,
      -- Of these the worker writes none.
      n.nspname = 'sync' and c.relname in ('readers', 'migrations') as to_be_read,
      n.nspname = 'sync' and (c.relname = 'readers' or starts_with(c.relname, 'secret_'))
        or n.nspname = 'analytics' and starts_with(c.relname, 'stored_') as hidden,
      -- A view that somebody was let read by hand goes on as it was, with its owner's rights: so it shows every account.
      (n.nspname = 'sync' or n.nspname in (select s.name from sync.source_schemas s)) and c.relkind = 'v' and c.oid <> 'sync.readable_accounts'::regclass
        and not coalesce('security_invoker=true' = any (c.reloptions), false) as unfiltered
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where (n.nspname in ('sync', 'analytics', 'safe', 'bullmq') or n.nspname in (select s.name from sync.source_schemas s)) and c.relkind in ('r', 'p', 'v', 'm', 'S')
      and not exists (
        select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'))
  select 'shelfdesk_reader'::name, o.oid::regclass, o.relkind, 'select' from ours o
  where o.relkind <> 'S' and not o.hidden and not o.unfiltered
    and (o.nspname in ('analytics', 'safe') or o.nspname in (select s.name from sync.source_schemas s where not s.personal) or o.oid = 'sync.readable_accounts'::regclass)
  union all
  select 'shelfdesk_reader_pii', o.oid, o.relkind, 'select' from ours o
  where o.relkind <> 'S' and not o.hidden and not o.unfiltered and o.nspname <> 'bullmq'
  union all
  -- As the owner reads them: all accounts, who the readers are, the queue. But for keys.
  select 'shelfdesk_sql', o.oid, o.relkind, 'select' from ours o
  where o.relkind <> 'S' and not (o.nspname = 'sync' and starts_with(o.relname, 'secret_'))
  union all
  select 'shelfdesk_writer', o.oid, o.relkind, p.name from ours o
  cross join unnest(case
    when o.relkind = 'S' then '{usage,select}'
    when o.relkind in ('v', 'm') or o.to_be_read then '{select}'
    else '{select,insert,update,delete}' end::text[]) p (name)
  where o.oid <> 'sync.secret_salt'::regclass;
end;

create or replace function sync.settle_roles() returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  one record;
  groups name[];
  all_groups constant text[] := '{shelfdesk_owner,shelfdesk_writer,shelfdesk_reader,shelfdesk_reader_pii,shelfdesk_sql}';
  missing text[] := '{}';
  key bytea;
  inner_key bytea := decode(repeat('36', 64), 'hex');
  outer_key bytea := decode(repeat('5c', 64), 'hex');
begin
  if not exists (select from sync.secret_salt) then
    -- Three times 122 bits of the server's strong chance.
    key := sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
    for i in 0..31 loop
      inner_key := set_byte(inner_key, i, get_byte(inner_key, i) # get_byte(key, i));
      outer_key := set_byte(outer_key, i, get_byte(outer_key, i) # get_byte(key, i));
    end loop;
    insert into sync.secret_salt (inner_key, outer_key) values (inner_key, outer_key) on conflict do nothing;
  end if;

  for one in
    select g.name, r.rolcanlogin from unnest(all_groups) g (name) left join pg_roles r on r.rolname = g.name
  loop
    -- A login of this name is somebody's own: it is not given what it did not have.
    if one.rolcanlogin then
      missing := missing || format('%s can log in, so it is not the role of that name that Shelfdesk means', one.name);
    elsif one.rolcanlogin is null then
      begin
        execute format('create role %I nologin', one.name);
        groups := groups || one.name::name;
      exception
        -- In another database of this server at the same time.
        when duplicate_object or unique_violation then groups := groups || one.name::name;
        when insufficient_privilege then
          missing := missing || format('there is no role %s, and %s may not make one', one.name, current_user);
      end;
    else
      groups := groups || one.name::name;
    end if;
  end loop;

  -- Several who migrate: who was let into shelfdesk_owner by an administrator hands over what is its own.
  if 'shelfdesk_owner' = any (groups) and exists (
    select from pg_auth_members m
    where m.roleid = 'shelfdesk_owner'::regrole and m.member = current_user::regrole
      -- PostgreSQL 16 makes whoever has made a role its administrator, but not one who has its rights.
      and coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, true)) then
    perform sync.hand_over('shelfdesk_owner');
  end if;

  -- As a reader sees them, views of tables with row-level security have the rights of whoever asks.
  if groups @> '{shelfdesk_reader,shelfdesk_reader_pii}' then
    for one in
      select c.oid::regclass as relation from pg_class c
      where c.relnamespace in (select n.oid from pg_namespace n where n.nspname = 'sync' or n.nspname in (select s.name from sync.source_schemas s)) and c.relkind = 'v'
        and c.oid <> 'sync.readable_accounts'::regclass and pg_has_role(c.relowner, 'usage')
        and not coalesce('security_invoker=true' = any (c.reloptions), false)
        and not exists (
          select from aclexplode(c.relacl) a left join pg_roles r on r.oid = a.grantee
          where a.grantee <> c.relowner and not coalesce(r.rolname = any (groups), false))
    loop
      execute format('alter view %s set (security_invoker = true)', one.relation);
    end loop;
    for one in
      select c.oid::regclass as relation, c.relrowsecurity,
        exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'as_before') as open,
        exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'readers') as filtered
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attname = 'account_id' and not a.attisdropped
      where c.relnamespace in (select n.oid from pg_namespace n where n.nspname in ('sync', 'analytics') or n.nspname in (select s.name from sync.source_schemas s))
        and c.relkind in ('r', 'p') and pg_has_role(c.relowner, 'usage')
        and not (c.relnamespace = 'analytics'::regnamespace and starts_with(c.relname, 'stored_'))
      order by c.oid
    loop
      -- Who could read and write before goes on as before; of readers each sees its accounts.
      if not one.open then
        execute format('create policy as_before on %s using (true) with check (true)', one.relation);
      end if;
      if not one.filtered then
        execute format('create policy readers on %s as restrictive to shelfdesk_reader, shelfdesk_reader_pii '
          'using (account_id = any (array(select account_id from sync.readable_accounts)))', one.relation);
      end if;
      if not one.relrowsecurity then execute format('alter table %s enable row level security', one.relation); end if;
    end loop;
  end if;

  -- Default privileges of a database may have given these to those who read its other tables: keys, and who may see what.
  for one in
    select distinct c.oid::regclass as relation, a.grantee, case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as name
    from pg_class c cross join aclexplode(c.relacl) a
    where c.relnamespace = 'sync'::regnamespace and c.relkind in ('r', 'p') and (c.relname = 'readers' or starts_with(c.relname, 'secret_'))
      and pg_has_role(c.relowner, 'usage') and a.grantee <> c.relowner
      and a.grantee <> all (array(
        select r.oid from pg_roles r
        where r.rolname = any (groups) and (r.rolname = 'shelfdesk_writer' or r.rolname = 'shelfdesk_sql' and c.relname = 'readers')))
  loop
    execute format('revoke all on table %s from %s cascade', one.relation, one.name);
  end loop;

  for one in
    select n.nspname as schema, g.name as role
    from pg_namespace n
    cross join (values ('shelfdesk_writer', '{sync,analytics,safe,bullmq}'::name[], true),
      ('shelfdesk_sql', '{sync,analytics,safe,bullmq}', true),
      ('shelfdesk_reader', '{analytics,safe}', false),
      ('shelfdesk_reader_pii', '{sync,analytics,safe}', true)) g (name, schemas, personal)
    where (n.nspname = any (g.schemas) or exists (
        select from sync.source_schemas s where s.name = n.nspname and (g.personal or not s.personal)))
      and g.name = any (groups) and pg_has_role(n.nspowner, 'usage') and not has_schema_privilege(g.name, n.oid, 'usage')
  loop
    execute format('grant usage on schema %I to %I', one.schema, one.role);
  end loop;
  for one in
    select w.role, w.relation, w.kind, string_agg(w.right_name, ', ') as rights
    from sync.wanted_rights() w join pg_class c on c.oid = w.relation
    where w.role = any (groups) and pg_has_role(c.relowner, 'usage') and not case
      when w.kind = 'S' then has_sequence_privilege(w.role, w.relation, w.right_name)
      else has_table_privilege(w.role, w.relation, w.right_name) end
    group by 1, 2, 3
  loop
    execute format('grant %s on %s %s to %I', one.rights, case one.kind when 'S' then 'sequence' else 'table' end, one.relation, one.role);
  end loop;
  -- Everybody may call functions, unless the database was told otherwise.
  for one in
    select p.oid::regprocedure as routine, g.name as role
    from pg_proc p cross join unnest(groups) g (name)
    where p.pronamespace in (select n.oid from pg_namespace n where n.nspname in ('sync', 'analytics', 'safe') or n.nspname in (select s.name from sync.source_schemas s))
      and g.name <> 'shelfdesk_owner' and not p.prosecdef and p.proname not in ('settle_roles', 'hand_over')
      and pg_has_role(p.proowner, 'usage') and not has_function_privilege(g.name, p.oid, 'execute')
  loop
    execute format('grant execute on routine %s to %I', one.routine, one.role);
  end loop;
  return missing;
end
$$;

create or replace function sync.hand_over(heir name) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  one record;
begin
  for one in
    select format('schema %I', n.nspname) as thing from pg_namespace n
    where (n.nspname in ('sync', 'analytics', 'safe', 'bullmq') or n.nspname in (select s.name from sync.source_schemas s)) and n.nspowner = current_user::regrole
    union all
    -- Sequences of columns, indexes and types of rows go with their tables.
    select format('%s %s', case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' else 'table' end, c.oid::regclass)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where (n.nspname in ('sync', 'analytics', 'safe', 'bullmq') or n.nspname in (select s.name from sync.source_schemas s)) and c.relkind in ('r', 'p', 'v', 'm', 'S')
      and c.relowner = current_user::regrole and not (c.relkind = 'S' and exists (
        select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i')))
    union all
    select format('routine %s', p.oid::regprocedure)
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where (n.nspname in ('sync', 'analytics', 'safe', 'bullmq') or n.nspname in (select s.name from sync.source_schemas s)) and p.proowner = current_user::regrole
      and not exists (
        select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
  loop
    if one.thing like 'schema %' then execute format('grant create, usage on %s to %I', one.thing, heir); end if;
    execute format('alter %s owner to %I', one.thing, heir);
  end loop;
end
$$;
revoke execute on function sync.add_mirror(regclass) from public;

select sync.settle_roles();
