-- Up Migration

-- Who may do what: four roles that carry rights, and logins that are let into them. Masked views of the help desk, with the
-- filter of accounts inside; row-level security where readers see tables themselves.

-- Of a role without rights on the schema the name of a table cannot even be looked up: so it is bound here.
create or replace view sync.readable_accounts with (security_barrier) as
select a.account_id
from sync.accounts a
-- Whoever may read the grants is the owner or the worker.
where has_table_privilege(current_user, 'sync.readers'::regclass, 'select')
  or exists (
    select from sync.readers r
    where r.role_name = current_user and (r.accounts is null or a.account_id = any (r.accounts)));

-- HMAC-SHA-256 with what PostgreSQL brings itself: pgcrypto may be in any schema of a server, or not to be had.
create table sync.secret_salt (
  is_one boolean primary key default true check (is_one),
  inner_key bytea not null,
  outer_key bytea not null
);
comment on table sync.secret_salt is
  'The key of the hashes in schema safe: one row, made by chance, which nobody but the owner reads. Whoever has it can guess names and addresses from their hashes. A dump of the database holds it.';
comment on column sync.secret_salt.is_one is 'True: there is one row at most.';
comment on column sync.secret_salt.inner_key is 'The key, filled up with zeros to 64 bytes, each of them XOR 0x36: what the inner hash of HMAC begins with.';
comment on column sync.secret_salt.outer_key is 'The same, each byte XOR 0x5C: what the outer hash begins with.';

create function sync.masked(kind text, value text, inner_key bytea, outer_key bytea) returns text
language sql immutable parallel safe
begin atomic
  select case when value = '' then ''
    else encode(sha256(outer_key || sha256(inner_key || convert_to(kind || ':' || value, 'UTF8'))), 'hex') end;
end;
comment on function sync.masked(text, text, bytea, bytea) is
  'HMAC-SHA-256 of a value, in hexadecimal; null and '''' stay as they are. Values of different kinds never have equal hashes. The keys are those of sync.secret_salt.';

create function sync.contact_form(value text) returns text
language sql immutable parallel safe
begin atomic
  select case
    when btrim(value) ~ '^\+?[0-9 ()./-]{3,}$'
      then case when btrim(value) like '+%' then '+' else '' end || regexp_replace(value, '[^0-9]', '', 'g')
    when btrim(value) like '@%' then lower(ltrim(btrim(value), '@'))
    else lower(btrim(value)) end;
end;
comment on function sync.contact_form(text) is
  'An address as it is compared, where nobody says of what kind it is: e-mail and screen name in lower case, screen name without @, phone number as digits with a leading + where there is one.';

create function sync.masked_contact(value text, inner_key bytea, outer_key bytea) returns text
language sql immutable parallel safe
begin atomic
  select sync.masked('contact', case when value = '' then '' else sync.contact_form(value) end, inner_key, outer_key);
end;
comment on function sync.masked_contact(text, bytea, bytea) is
  'The hash of an address, equal wherever the address is the same, however it is written: in messages, tickets, contacts and users.';

create function sync.masked_title(name text, inner_key bytea, outer_key bytea) returns text
language sql immutable parallel safe
begin atomic
  select case when regexp_replace(normalize(name, nfkc), '[^[:alnum:]@]', '', 'g') ~ '@|[[:digit:]]{6}' then sync.masked('title', name, inner_key, outer_key) else name end;
end;
comment on function sync.masked_title(text, bytea, bytea) is
  'The name of an inbox or a label: as it is, but hashed where it holds an @ or six digits, also with spaces or marks between them, as addresses and numbers do.';

create view safe.tickets with (security_barrier) as
select t.account_id, t.id, t.number, t.customer_id, t.user_id, t.inbox_id, t.label_ids, t.state, t.type,
  sync.masked('subject', t.subject, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as subject,
  sync.masked('summary', t.summary, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as summary,
  t.spam, t.trash, t.snoozed_until,
  sync.masked_contact(t.reply_to, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as reply_to,
  sync.masked_contact(t.reply_cc, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as reply_cc,
  t.created_at, t.updated_at, t._messages_as_of, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at,
  t._deleted_after, t._listed_by, t._messages_by
from helpdesk.tickets t
where t.account_id = any (array(select account_id from sync.readable_accounts));

create view safe.ticket_labels with (security_barrier) as
select t.account_id, t.ticket_id, t.label_id
from helpdesk.ticket_labels t
where t.account_id = any (array(select account_id from sync.readable_accounts));

create view safe.ticket_history with (security_barrier) as
select t.account_id, t.ticket_id, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam, t.trash, t.valid_from, t.valid_to, t.change_after, t.is_first, t.deleted_after
from helpdesk.ticket_history t
where t.account_id = any (array(select account_id from sync.readable_accounts));

create view safe.messages with (security_barrier) as
select t.account_id, t.id, t.ticket_id, t.position, t.type, t.direction, t.user_id,
  sync.masked('name', t.from_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as from_name,
  sync.masked_contact(t.from_address, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as from_address,
  sync.masked_contact(t.to_address, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as to_address,
  length(t.body_text) as body_length,
  t.htmlized, t.created_at, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.messages t
where t.account_id = any (array(select account_id from sync.readable_accounts));

create view safe.attachments with (security_barrier) as
select t.account_id, t.id, t.message_id, t.ticket_id,
  sync.masked('file', t.name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as name,
  -- What follows a semicolon may be a name: text/plain; name="…".
  split_part(t.type, ';', 1) as type, t.size, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.attachments t
where t.account_id = any (array(select account_id from sync.readable_accounts));

create view safe.customers with (security_barrier) as
select t.account_id, t.id,
  sync.masked('first name', t.first_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as first_name,
  sync.masked('last name', t.last_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as last_name,
  sync.masked('summary', t.summary, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as summary,
  t._created_after, t._created_before, t._checked_at, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at, t._deleted_after
from helpdesk.customers t
where t.account_id = any (array(select account_id from sync.readable_accounts));

create view safe.contacts with (security_barrier) as
select t.account_id, t.id, t.customer_id, t.type,
  sync.masked_contact(t.value, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as value,
  sync.masked_contact(t.value, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as value_normalized,
  t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.contacts t
where t.account_id = any (array(select account_id from sync.readable_accounts));

create view safe.users with (security_barrier) as
select t.account_id, t.id,
  sync.masked('first name', t.first_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as first_name,
  sync.masked('last name', t.last_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as last_name,
  sync.masked_contact(t.email, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as email,
  t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.users t
where t.account_id = any (array(select account_id from sync.readable_accounts));

create view safe.labels with (security_barrier) as
select t.account_id, t.id,
  sync.masked_title(t.name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as name,
  t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.labels t
where t.account_id = any (array(select account_id from sync.readable_accounts));

create view safe.inboxes with (security_barrier) as
select t.account_id, t.id,
  sync.masked_title(t.name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as name,
  t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.inboxes t
where t.account_id = any (array(select account_id from sync.readable_accounts));

comment on view safe.tickets is 'helpdesk.tickets without what identifies a person: subject, summary and addresses are keyed hashes.';
comment on view safe.ticket_labels is 'helpdesk.ticket_labels: which ticket carries which label.';
comment on view safe.ticket_history is 'helpdesk.ticket_history: what each ticket was, and from when to when.';
comment on view safe.messages is 'helpdesk.messages without texts: names and addresses are keyed hashes, of the body only its length is here.';
comment on view safe.attachments is 'helpdesk.attachments with the hash of the file name.';
comment on view safe.customers is 'helpdesk.customers with hashes of names and summary.';
comment on view safe.contacts is 'helpdesk.contacts with hashes of the addresses: equal to those in safe.messages, safe.tickets and safe.users where the address is the same.';
comment on view safe.users is 'helpdesk.users with hashes of names and address.';
comment on view safe.labels is 'helpdesk.labels. A name that holds an @ or six digits, also with spaces or marks between them, is hashed.';
comment on view safe.inboxes is 'helpdesk.inboxes. A name that holds an @ or six digits, also with spaces or marks between them, is hashed.';
comment on column safe.messages.body_length is 'How many characters body_text has.';
comment on column safe.attachments.type is 'MIME type, without its parameters.';
-- What is shown as it is, its table tells of.
do $$
declare
  said record;
begin
  for said in
    select v.attrelid::regclass as shown, v.attname as name, case
        when v.attname = any (m.hashed) then 'Keyed hash of ' || m.relation || '.' || v.attname
          || ': equal where that is equal; null and '''' stay.'
        else replace(col_description(t.attrelid, t.attnum), 'oins helpdesk.', 'oins safe.') end as words
    from (values ('tickets', '{subject,summary,reply_to,reply_cc}'::name[]), ('ticket_labels', '{}'),
      ('ticket_history', '{}'), ('messages', '{from_name,from_address,to_address}'), ('attachments', '{name}'), ('customers', '{first_name,last_name,summary}'),
      ('contacts', '{value,value_normalized}'), ('users', '{first_name,last_name,email}'), ('labels', '{}'), ('inboxes', '{}'))
      m (relation, hashed)
    join pg_attribute v on v.attrelid = ('safe.' || m.relation)::regclass and v.attnum > 0
    join pg_attribute t on t.attrelid = ('helpdesk.' || m.relation)::regclass and t.attname = v.attname
    where col_description(v.attrelid, v.attnum) is null
  loop
    execute format('comment on column %s.%I is %L', said.shown, said.name, said.words);
  end loop;
end
$$;

-- What each role may do is told by patterns, and given where it is missing: after each migration, and whenever `migrate` runs. So what
-- later migrations bring is covered, and so is a database that was restored where the roles were not.
create function sync.wanted_rights() returns table (role name, relation regclass, kind "char", right_name text)
language sql stable
begin atomic
  with ours as (
    select c.oid, n.nspname, c.relname, c.relkind, c.reloptions,
      -- Of these the worker writes none.
      n.nspname = 'sync' and c.relname in ('readers', 'migrations') as to_be_read,
      n.nspname = 'sync' and (c.relname = 'readers' or starts_with(c.relname, 'secret_'))
        or n.nspname = 'analytics' and starts_with(c.relname, 'stored_') as hidden,
      -- A view that somebody was let read by hand goes on as it was, with its owner's rights: so it shows every account.
      n.nspname in ('helpdesk', 'books', 'sync') and c.relkind = 'v' and c.oid <> 'sync.readable_accounts'::regclass
        and not coalesce('security_invoker=true' = any (c.reloptions), false) as unfiltered
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('helpdesk', 'books', 'sync', 'analytics', 'safe', 'bullmq') and c.relkind in ('r', 'p', 'v', 'm', 'S')
      and not exists (
        select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'))
  select 'shelfdesk_reader'::name, o.oid::regclass, o.relkind, 'select' from ours o
  where o.relkind <> 'S' and not o.hidden and not o.unfiltered
    and (o.nspname in ('analytics', 'safe', 'books') or o.oid = 'sync.readable_accounts'::regclass)
  union all
  select 'shelfdesk_reader_pii', o.oid, o.relkind, 'select' from ours o
  where o.relkind <> 'S' and not o.hidden and not o.unfiltered and o.nspname <> 'bullmq'
  union all
  select 'shelfdesk_writer', o.oid, o.relkind, p.name from ours o
  cross join unnest(case
    when o.relkind = 'S' then '{usage,select}'
    when o.relkind in ('v', 'm') or o.to_be_read then '{select}'
    else '{select,insert,update,delete}' end::text[]) p (name)
  where o.oid <> 'sync.secret_salt'::regclass;
end;
comment on function sync.wanted_rights() is
  'What each role of Shelfdesk may do with each table, view and sequence. Readers see no table of analytics whose name begins with stored_, nor who the readers are, nor a table of sync whose name begins with secret_.';

-- A path of its own: nobody who may make functions somewhere can have one of theirs run by whoever migrates.
create function sync.settle_roles() returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  one record;
  groups name[];
  all_groups constant text[] := '{shelfdesk_owner,shelfdesk_writer,shelfdesk_reader,shelfdesk_reader_pii}';
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
      where c.relnamespace in ('helpdesk'::regnamespace, 'books'::regnamespace, 'sync'::regnamespace) and c.relkind = 'v'
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
      where c.relnamespace in ('helpdesk'::regnamespace, 'books'::regnamespace, 'sync'::regnamespace, 'analytics'::regnamespace)
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
      and a.grantee <> all (array(select r.oid from pg_roles r where r.rolname = 'shelfdesk_writer' and 'shelfdesk_writer' = any (groups)))
  loop
    execute format('revoke all on table %s from %s cascade', one.relation, one.name);
  end loop;

  for one in
    select n.nspname as schema, g.name as role
    from pg_namespace n
    join (values ('shelfdesk_writer', '{helpdesk,books,sync,analytics,safe,bullmq}'::name[]),
      ('shelfdesk_reader', '{books,analytics,safe}'),
      ('shelfdesk_reader_pii', '{helpdesk,books,sync,analytics,safe}')) g (name, schemas) on n.nspname = any (g.schemas)
    where g.name = any (groups) and pg_has_role(n.nspowner, 'usage') and not has_schema_privilege(g.name, n.oid, 'usage')
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
    where p.pronamespace in ('helpdesk'::regnamespace, 'sync'::regnamespace, 'analytics'::regnamespace, 'safe'::regnamespace)
      and g.name <> 'shelfdesk_owner' and not p.prosecdef and p.proname not in ('settle_roles', 'hand_over')
      and pg_has_role(p.proowner, 'usage') and not has_function_privilege(g.name, p.oid, 'execute')
  loop
    execute format('grant execute on routine %s to %I', one.routine, one.role);
  end loop;
  return missing;
end
$$;
comment on function sync.settle_roles() is
  'Makes the roles of Shelfdesk where that is allowed, and gives each what it lacks. Changes nothing where nothing is missing. Returns what stands in the way.';

create function sync.hand_over(heir name) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  one record;
begin
  for one in
    select format('schema %I', n.nspname) as thing from pg_namespace n
    where n.nspname in ('helpdesk', 'books', 'sync', 'analytics', 'safe', 'bullmq') and n.nspowner = current_user::regrole
    union all
    -- Sequences of columns, indexes and types of rows go with their tables.
    select format('%s %s', case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' else 'table' end, c.oid::regclass)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('helpdesk', 'books', 'sync', 'analytics', 'safe', 'bullmq') and c.relkind in ('r', 'p', 'v', 'm', 'S')
      and c.relowner = current_user::regrole and not (c.relkind = 'S' and exists (
        select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i')))
    union all
    select format('routine %s', p.oid::regprocedure)
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname in ('helpdesk', 'books', 'sync', 'analytics', 'safe', 'bullmq') and p.proowner = current_user::regrole
      and not exists (
        select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
  loop
    if one.thing like 'schema %' then execute format('grant create, usage on %s to %I', one.thing, heir); end if;
    execute format('alter %s owner to %I', one.thing, heir);
  end loop;
end
$$;
comment on function sync.hand_over(name) is
  'Makes a role the owner of what the asker owns of Shelfdesk in this database.';
revoke execute on function sync.settle_roles(), sync.hand_over(name) from public;

select sync.settle_roles();

comment on table sync.operations is 'What people did to the work, at a terminal or on the page: pauses and their end, runs that they canceled, tried again or started there, customers that they erased, readers that they let in or revoked. One row for each time and account, also where it was refused. What a command reads by itself is in sync.runs.';
