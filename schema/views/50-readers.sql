comment on table sync.readers is
  'Roles for readers of the mirrored data (npx shelfdesk warehouse reader create), with the accounts that each may see. A role that is neither listed here nor the owner of the tables sees no account.';
comment on column sync.readers.role_name is 'Login role of the reader.';
comment on column sync.readers.accounts is 'Accounts that the reader sees; null: all, including future ones.';
comment on column sync.readers.pii is 'True if the reader also sees personal data: names, addresses and texts.';
comment on column sync.readers.created_at is 'When the reader was created.';
comment on column sync.readers.created_by is 'Who created the reader.';

-- A session can narrow itself to one account: set shelfdesk.account = 'acme'. The setting never widens access.
create or replace view sync.readable_accounts with (security_barrier) as
select a.account_id
from sync.accounts a
-- A role that may read sync.readers is the owner or the worker.
where (
    has_table_privilege(current_user, 'sync.readers'::regclass, 'select')
    or exists (
      select from sync.readers r
      where r.role_name = current_user and (r.accounts is null or a.account_id = any (r.accounts))))
  and a.account_id = coalesce(nullif(current_setting('shelfdesk.account', true), ''), a.account_id);
comment on view sync.readable_accounts is
  'Accounts that the current role may read. Every view of analytics and safe shows only these accounts.';
comment on column sync.readable_accounts.account_id is 'The account.';

create or replace view sync.mirror_accounts with (security_barrier) as
select r.account_id from sync.readable_accounts r
union
select a.account_id
from sync.accounts a
where not exists (
  select from pg_roles g
  where g.rolname in ('shelfdesk_reader', 'shelfdesk_reader_pii') and pg_has_role(g.oid, 'usage'));
comment on view sync.mirror_accounts is
  'Accounts whose mirrored rows the current role may read: of a reader those of sync.readable_accounts, of any other role all. Views in the schemas of sources filter by it, as the row-level policies of tables do.';
comment on column sync.mirror_accounts.account_id is 'The account.';

-- A view, because the plain text of most messages is their body, and is stored once.
create or replace view helpdesk.messages with (security_barrier) as
select m.account_id, m.id, m.ticket_id, m.position, m.type, m.direction, m.user_id, m.from_name, m.from_address, m.to_address, m.body, m.more_body,
  coalesce(m.body_text, m.body) as body_text, m.htmlized, m.created_at, m._first_seen_at, m._synced_at, m._observed_at, m._deleted_at, m._payload
from internal.messages m
where m.account_id = any (array(select r.account_id from sync.mirror_accounts r));
comment on view helpdesk.messages is
  'Replies and notes of tickets. The messages of a ticket are replaced as a set: messages that the source no longer shows are removed.';
comment on column helpdesk.messages.body_text is 'body as plain text.';

create or replace view helpdesk.ticket_labels with (security_barrier) as
select t.account_id, t.id as ticket_id, l.label_id
from helpdesk.tickets t
cross join lateral (select distinct u.label_id from unnest(t.label_ids) u (label_id) where u.label_id is not null) l
where t._deleted_at is null and t.account_id = any (array(select r.account_id from sync.mirror_accounts r));
comment on view helpdesk.ticket_labels is
  'Labels of tickets: tickets.label_ids as one row per label. Deleted tickets have none.';
comment on column helpdesk.ticket_labels.ticket_id is 'Joins helpdesk.tickets.id.';
comment on column helpdesk.ticket_labels.label_id is 'Joins helpdesk.labels.id.';
comment on table sync.secret_salt is
  'Key of the hashes in schema safe: one row of random bytes, readable only by the owner. The key allows guessing names and addresses from their hashes. A dump of the database contains it.';
comment on column sync.secret_salt.is_one is 'True; allows one row at most.';
comment on column sync.secret_salt.inner_key is
  'The key, padded with zeros to 64 bytes, each XOR 0x36: start of the inner hash of HMAC.';
comment on column sync.secret_salt.outer_key is
  'The key, padded with zeros to 64 bytes, each XOR 0x5C: start of the outer hash of HMAC.';

create or replace function sync.hand_over(heir name) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  one record;
  -- Reads everything first: a table cannot change its owner while a query of the same session reads it.
  schemas constant name[] := '{sync,analytics,internal,safe,bullmq}'::name[] || array(select s.name from sync.source_schemas s)
    || array(select 'lake'::name from sync.lake);
begin
  for one in
    select format('schema %I', n.nspname) as thing from pg_namespace n
    where n.nspname = any (schemas) and n.nspowner = quote_ident(current_user)::regrole
    union all
    -- Sequences of columns, indexes and row types follow their tables.
    select format('%s %s', case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' else 'table' end, c.oid::regclass)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = any (schemas) and c.relkind in ('r', 'p', 'v', 'm', 'S')
      and c.relowner = quote_ident(current_user)::regrole and not (c.relkind = 'S' and exists (
        select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i')))
    union all
    select format('routine %s', p.oid::regprocedure)
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = any (schemas) and p.proowner = quote_ident(current_user)::regrole
      and not exists (
        select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
  loop
    if one.thing like 'schema %' then execute format('grant create, usage on %s to %I', one.thing, heir); end if;
    execute format('alter %s owner to %I', one.thing, heir);
  end loop;
end
$$;
comment on function sync.hand_over is
  'Makes a role the owner of all Shelfdesk objects in this database that the caller owns.';

create or replace function sync.wanted_rights() returns table (role name, relation regclass, kind "char", right_name text)
language sql stable
begin atomic
  with ours as (
    select c.oid, n.nspname, c.relname, c.relkind, c.reloptions,
      -- The worker writes none of these.
      n.nspname = 'sync' and c.relname in ('readers', 'migrations', 'view_sets') as to_be_read,
      n.nspname = 'sync' and (c.relname = 'readers' or starts_with(c.relname, 'secret_') or starts_with(c.relname, 'lake'))
        -- analytics.tickets_as_of reads this view with the rights of its caller.
        or n.nspname = 'internal' and c.relname <> 'readable_versions' as hidden,
      -- Views with a security barrier filter by sync.readable_accounts themselves.
      -- If somebody granted a view by hand, the view kept its owner's rights and would show every account.
      (n.nspname = 'sync' or n.nspname in (select s.name from sync.source_schemas s)) and c.relkind = 'v' and not coalesce('security_barrier=true' = any (c.reloptions), false)
        and not coalesce('security_invoker=true' = any (c.reloptions), false) as unfiltered
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where (n.nspname in ('sync', 'analytics', 'internal', 'safe', 'bullmq') or n.nspname in (select s.name from sync.source_schemas s)) and c.relkind in ('r', 'p', 'v', 'm', 'S')
      and not exists (
        select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'))
  select 'shelfdesk_reader'::name, o.oid::regclass, o.relkind, 'select' from ours o
  where o.relkind <> 'S' and not o.hidden and not o.unfiltered
    and (o.nspname in ('analytics', 'internal', 'safe') or o.nspname in (select s.name from sync.source_schemas s where not s.personal) or o.oid = 'sync.readable_accounts'::regclass)
  union all
  select 'shelfdesk_reader_pii', o.oid, o.relkind, 'select' from ours o
  where o.relkind <> 'S' and not o.hidden and not o.unfiltered and o.nspname <> 'bullmq'
  union all
  -- The rights of shelfdesk_sql: everything that the owner reads, without the keys.
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
comment on function sync.wanted_rights is
  'Rights of each Shelfdesk role on each table, view and sequence. Readers have no access to the schema internal but for readable_versions, to sync.readers, and to tables of sync whose name begins with secret_ or lake.';

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
    -- Three UUIDs with 122 random bits each, from the server's strong random source.
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
    -- A login of this name belongs to somebody else and gets no new rights.
    if one.rolcanlogin then
      missing := missing || format('%s can log in, so it is not the role of that name that Shelfdesk means', one.name);
    elsif one.rolcanlogin is null then
      begin
        execute format('create role %I nologin', one.name);
        groups := groups || one.name::name;
      exception
        -- Another database of this server may create the role at the same time.
        when duplicate_object or unique_violation then groups := groups || one.name::name;
        when insufficient_privilege then
          missing := missing || format('there is no role %s, and %s may not make one', one.name, current_user);
      end;
    else
      groups := groups || one.name::name;
    end if;
  end loop;

  -- Several people may run migrations: a member of shelfdesk_owner hands over the objects that it owns.
  if 'shelfdesk_owner' = any (groups) and exists (
    select from pg_auth_members m
    where m.roleid = 'shelfdesk_owner'::regrole and m.member = quote_ident(current_user)::regrole
      -- PostgreSQL 16 makes the creator of a role its administrator, but not a member with its rights.
      and coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, true)) then
    perform sync.hand_over('shelfdesk_owner');
  end if;

  -- Views for readers run with the caller's rights, so that row-level security applies.
  if groups @> '{shelfdesk_reader,shelfdesk_reader_pii}' then
    for one in
      select c.oid::regclass as relation from pg_class c
      where c.relnamespace in (select n.oid from pg_namespace n where n.nspname = 'sync' or n.nspname in (select s.name from sync.source_schemas s)) and c.relkind = 'v'
        and not coalesce('security_barrier=true' = any (c.reloptions), false) and pg_has_role(c.relowner, 'usage')
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
      order by c.oid
    loop
      -- Roles with earlier access keep it. Each reader sees its own accounts.
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

  -- Default privileges of the database may have exposed the keys and the list of readers.
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
    cross join (values ('shelfdesk_writer', '{sync,analytics,internal,safe,bullmq}'::name[], true),
      ('shelfdesk_sql', '{sync,analytics,internal,safe,bullmq}', true),
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
  -- By default everybody may call functions.
  for one in
    select p.oid::regprocedure as routine, g.name as role
    from pg_proc p cross join unnest(groups) g (name)
    where p.pronamespace in (select n.oid from pg_namespace n where n.nspname in ('sync', 'analytics', 'internal', 'safe') or n.nspname in (select s.name from sync.source_schemas s))
      and g.name <> 'shelfdesk_owner' and not p.prosecdef and p.proname not in ('settle_roles', 'settle_comments', 'hand_over')
      and pg_has_role(p.proowner, 'usage') and not has_function_privilege(g.name, p.oid, 'execute')
  loop
    execute format('grant execute on routine %s to %I', one.routine, one.role);
  end loop;
  return missing;
end
$$;
comment on function sync.settle_roles is
  'Creates the Shelfdesk roles, if allowed, and grants missing rights. Changes nothing if everything is in place. Returns the obstacles.';

-- PostgreSQL applies row-level policies before an index that might leak rows, so a search would read every message.
-- Therefore these functions run with their owner's rights, and check the accounts of the caller themselves.
create or replace function sync.searched_accounts(relation text) returns text[]
language plpgsql stable
as $$
declare
  -- The caller, also in functions with owner's rights: the role that was set, or the login.
  asker constant name := coalesce(nullif(current_setting('role'), 'none'), session_user);
begin
  if not has_table_privilege(asker, relation, 'select') then
    raise insufficient_privilege using message = format('permission denied for table %s', relation),
      hint = 'A reader with --pii may search (npx shelfdesk warehouse reader create).';
  end if;
  return array(
    select a.account_id from sync.accounts a
    where has_table_privilege(asker, 'sync.readers', 'select')
      or exists (select from sync.readers r where r.role_name = asker and (r.accounts is null or a.account_id = any (r.accounts)))
    order by 1);
end
$$;
comment on function sync.searched_accounts is
  'Accounts in which the caller may search, like sync.readable_accounts, for functions that run with their owner''s rights. Raises an error if the caller may not read the table.';

revoke execute on function sync.settle_roles(), sync.hand_over(name) from public;
