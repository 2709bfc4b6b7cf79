-- Up Migration

-- History begins with the second version of a ticket. The first is the ticket's own row.

alter table helpdesk.ticket_history set schema internal;
-- No question needs it, and PostgreSQL would prefer it to the primary key where there are no statistics.
drop index internal.ticket_history_valid_from;
comment on table internal.ticket_history is
  'Stored rows of helpdesk.ticket_history: of tickets that have changed since they were first seen. Read helpdesk.ticket_history instead.';
drop trigger begin_ticket_history on helpdesk.tickets;
drop function sync.begin_ticket_history();

-- A ticket of one version has no stored history: its own row says it all.
create or replace function sync.first_version(ticket helpdesk.tickets, mirrored_since timestamptz) returns setof internal.ticket_history
language sql stable
begin atomic
  select ticket.account_id, ticket.id, ticket.state, ticket.user_id, ticket.inbox_id, ticket.label_ids, ticket.spam, ticket.trash, f.valid_from,
    case when ticket._deleted_at is not null then greatest(ticket._deleted_at, f.valid_from + interval '1 second') end,
    case when ticket.created_at <= f.valid_from then ticket.created_at - interval '1 second' end,
    ticket._deleted_after, true,
    -- A ticket that was created while the mirror ran was seen soon afterwards. For older tickets the times of the
    -- source count.
    case when ticket.updated_at >= mirrored_since and f.by > f.valid_from then f.by end
  from (
    select y.by, least(ticket.updated_at, y.by) as valid_from
    from (select sync.true_by(ticket._true_by, ticket._observed_at) as by) y) f;
end;
comment on function sync.first_version is
  'The first row of history of a ticket in its first version.';

create or replace view internal.first_versions with (security_barrier) as
select v.*
-- Where there are no statistics, the order makes PostgreSQL choose the primary key.
from (select t.* from helpdesk.tickets t order by t.account_id, t.id) t
left join sync.accounts k on k.account_id = t.account_id
cross join lateral sync.first_version(t, k.mirrored_since) v
where not exists (
  select from internal.ticket_history h where h.account_id = t.account_id and h.ticket_id = t.id);
comment on view internal.first_versions is
  'First and only rows of history of all tickets without stored history.';

create or replace view helpdesk.ticket_history with (security_barrier) as
select h.* from internal.ticket_history h
where h.account_id = any (array(select r.account_id from sync.readable_accounts r))
union all
select v.* from internal.first_versions v
where v.account_id = any (array(select r.account_id from sync.readable_accounts r));
comment on view helpdesk.ticket_history is
  'Past and present state of each ticket: a new row for each change of state, user_id, inbox_id, label_ids (unordered), spam or trash. Rows of a ticket do not overlap; the only gaps are deletions. Adjacent rows may be equal, because two changes within one second share a row.';
comment on column helpdesk.ticket_history.state is
  'open, hold, closed, snoozed or archived. Other values are stored unchanged.';
comment on column helpdesk.ticket_history.user_id is
  'The assigned user; null while unassigned. Joins helpdesk.users.id.';
comment on column helpdesk.ticket_history.inbox_id is
  'The inbox; joins helpdesk.inboxes.id.';
comment on column helpdesk.ticket_history.label_ids is
  'Labels on the ticket; each joins helpdesk.labels.id.';
comment on column helpdesk.ticket_history.spam is
  'True while the ticket was marked as spam.';
comment on column helpdesk.ticket_history.trash is
  'True while the ticket was in the trash.';
comment on column helpdesk.ticket_history.valid_from is
  'Start of the row: the updated_at of the version that shows the change, if it moved; else the time by which the reply was true. A first row starts at the updated_at at which the ticket was first seen; earlier states are unknown. If another edit moved updated_at and this change did not, the change happened later, by change_by.';
comment on column helpdesk.ticket_history.valid_to is
  'End of the row, exclusive. Null for the current row. For a deleted ticket: tickets._deleted_at.';
comment on column helpdesk.ticket_history.change_after is
  'Lower bound of the time of the change, in whole seconds of the source: the old values were last seen then. For a first row: one second before the creation. Null if unknown. The upper bound is change_by, or valid_from if change_by is null. A change that was undone in between is unknown.';
comment on column helpdesk.ticket_history.deleted_after is
  'For a row that ends with the deletion of the ticket: the deletion happened after this time and by valid_to. Null otherwise, or if unknown.';
comment on column helpdesk.ticket_history.is_first is
  'True for the first row of a ticket. The states before valid_from are unknown.';
comment on column helpdesk.ticket_history.change_by is
  'Upper bound of the time of the change, if later than valid_from: the reply that showed the change was true by then. Null if the change happened by valid_from, and for first rows of tickets that were last updated before the mirror began.';

-- Roles that could read the table can read the view, which filters by account itself.
do $$
declare
  one record;
begin
  for one in
    select distinct case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as name
    from pg_class c cross join aclexplode(c.relacl) a
    where c.oid = 'internal.ticket_history'::regclass and a.privilege_type = 'SELECT' and a.grantee <> c.relowner
  loop
    execute format('grant select on helpdesk.ticket_history to %s', one.name);
    if one.name not in ('shelfdesk_writer', 'shelfdesk_sql') then
      execute format('revoke all on internal.ticket_history from %s', one.name);
    end if;
  end loop;
end
$$;
drop policy if exists as_before on internal.ticket_history;
drop policy if exists readers on internal.ticket_history;
alter table internal.ticket_history disable row level security;

create or replace function sync.begin_ticket_history() returns trigger
language plpgsql
as $$
begin
  insert into internal.ticket_history select v.* from after t
  left join sync.accounts k on k.account_id = t.account_id
  cross join lateral sync.first_version(t, k.mirrored_since) v
  where t._deleted_at is not null
  on conflict do nothing;
  -- Messages of the same id may already be here if somebody removed the row of the ticket by hand.
  perform internal.touch_metrics(array_agg(t.account_id), array_agg(t.id)) from after t
  where exists (
    select from helpdesk.messages m where m.account_id = t.account_id and m.ticket_id = t.id);
  return null;
end
$$;
comment on function sync.begin_ticket_history is
  'Stores the first row of history of tickets that arrive deleted, and the metrics of tickets whose messages are already here.';

create trigger begin_ticket_history after insert on helpdesk.tickets referencing new table as after for each statement execute function sync.begin_ticket_history();
create or replace function sync.keep_ticket_history() returns trigger
language plpgsql
-- A cached plan would fit the rows of another statement: one ticket, or an empty warehouse.
set plan_cache_mode = force_custom_plan
as $$
declare
  -- The times of the source are whole seconds. A parameter instead of a literal would cause new plans.
  second constant interval := '1 second';
begin
  -- The second version ends what the ticket's own row could say about the first.
  insert into internal.ticket_history select v.* from before b join after a using (account_id, id)
  left join sync.accounts k on k.account_id = b.account_id
  cross join lateral sync.first_version(b, k.mirrored_since) v
  where (a._observed_at, a._true_by, a.updated_at, a.created_at, a._deleted_at) is distinct from (b._observed_at, b._true_by, b.updated_at, b.created_at, b._deleted_at)
    and not exists (
      select from internal.ticket_history h where h.account_id = b.account_id and h.ticket_id = b.id)
  on conflict do nothing;
  -- Most updates change no tracked column. A full join never becomes a nested loop, whatever the plan expected.
  if not exists (
    select from before b full join after a using (account_id, id)
    where (b._deleted_at is null) <> (a._deleted_at is null)
      or a.state is distinct from b.state or a.user_id is distinct from b.user_id or a.inbox_id is distinct from b.inbox_id
      or a.spam is distinct from b.spam or a.trash is distinct from b.trash or not sync.same_set(a.label_ids, b.label_ids)) then
    return null;
  end if;
  with changed as materialized (
    select a.account_id, a.id, a.state, a.user_id, a.inbox_id, a.label_ids, a.spam, a.trash,
      a._deleted_at is null as alive,
      case
        when a._deleted_at is not null then greatest(a._deleted_at, last.valid_from + second)
        else greatest(last.valid_from, last.valid_to, case
          -- The ticket was deleted at its tombstone. An older version does not tell when it came back.
          when a.updated_at <> b.updated_at and (b._deleted_at is null or a.updated_at > b._deleted_at)
            then least(a.updated_at, y.by)
          else y.by end)
      end as at,
      y.by,
      last.valid_from as last_from, last.valid_from is not null and last.valid_to is null as is_open,
      case
        when last.valid_from is null then a.created_at - second
        -- The ticket came back after its deletion. How long it had been back before it was seen is unknown.
        when b._deleted_at is not null then greatest(b._observed_at - k.lookback, b._deleted_after)
        -- A version shows everything up to the second of its date, unless the date is wrong: later than the reply, or
        -- later than the next version. A reply shows everything up to a lookback before it.
        else greatest(
          case when b.updated_at <= least(a.updated_at, sync.true_by(b._true_by, b._observed_at)) then b.updated_at - second end,
          b._observed_at - k.lookback, w.as_of, last.change_after)
      end as before_at,
      a._deleted_after
    from before b
    join after a using (account_id, id)
    cross join lateral (select sync.true_by(a._true_by, a._observed_at) as by) y
    left join lateral (
      select h.valid_from, h.valid_to, h.change_after from internal.ticket_history h
      where h.account_id = a.account_id and h.ticket_id = a.id
      order by h.valid_from desc limit 1) last on true
    left join sync.accounts k on k.account_id = b.account_id
    left join sync.separate_lists apart on apart.account_id = b.account_id
    left join lateral sync.swept_at(b.account_id, b.created_at, b.state, b.spam, b.trash, apart.spam, apart.trash) w on true
    where (b._deleted_at is null) <> (a._deleted_at is null)
      or a._deleted_at is null and (
        a.state is distinct from b.state or a.user_id is distinct from b.user_id or a.inbox_id is distinct from b.inbox_id
        or a.spam is distinct from b.spam or a.trash is distinct from b.trash or not sync.same_set(a.label_ids, b.label_ids))),
  -- Finds the open row by its flag and not by its time, because a thousand tickets may change in one second. Two
  -- changes at one time share a row with the later values and the lower bound of the first change.
  replaced as (
    update internal.ticket_history h
    set state = c.state, user_id = c.user_id, inbox_id = c.inbox_id, label_ids = c.label_ids, spam = c.spam, trash = c.trash,
      change_by = case when c.by > c.at then c.by end
    from changed c
    where c.is_open and c.alive and c.at = c.last_from
      and h.account_id = c.account_id and h.ticket_id = c.id and h.valid_to is null),
  ended as (
    update internal.ticket_history h set valid_to = c.at, deleted_after = c._deleted_after
    from changed c
    where c.is_open and (c.at > c.last_from or not c.alive)
      and h.account_id = c.account_id and h.ticket_id = c.id and h.valid_to is null
    returning h.account_id, h.ticket_id)
  -- Ends the current row before the next begins: a ticket has one open row.
  insert into internal.ticket_history
    (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, change_after, change_by, is_first)
  select c.account_id, c.id, c.state, c.user_id, c.inbox_id, c.label_ids, c.spam, c.trash, c.at,
    case when c.before_at is not null then least(c.before_at, c.at - second) end,
    case when c.by > c.at then c.by end, c.last_from is null
  from changed c left join ended e on e.account_id = c.account_id and e.ticket_id = c.id
  where c.alive and (e.ticket_id is not null or not c.is_open);
  return null;
end
$$;
comment on function sync.keep_ticket_history is
  'Writes the changes of tickets, and the first row of a ticket at its first change, to internal.ticket_history. A tombstone ends the history.';


create or replace function sync.end_ticket_history() returns trigger
language plpgsql
as $$
begin
  delete from internal.ticket_history h where (h.account_id, h.ticket_id) in (select b.account_id, b.id from before b);
  return null;
end
$$;
comment on function sync.end_ticket_history is
  'Removes the history of tickets whose rows are deleted, by hand or with their account. A ticket that is deleted at the source keeps its row with a tombstone.';

create or replace function sync.void_since(account text, source text, since timestamptz) returns void
language sql
begin atomic
  update sync.coverage c set covered = c.covered * tstzmultirange(tstzrange(null, since))
  from sync.streams k
  where k.source = void_since.source and c.stream_key = k.stream_key and c.account_id = account
    and c.covered && tstzrange(since, null);
  delete from sync.walks w using sync.streams k
  where k.source = void_since.source and w.stream_key = k.stream_key and w.account_id = account and w.as_of > since;
  delete from sync.swept s using sync.streams k
  where k.source = void_since.source and s.stream_key = k.stream_key and s.account_id = account and s.as_of > since;
  insert into internal.ticket_history select v.* from internal.first_versions v
  where void_since.source = 'helpdesk' and v.account_id = account and v.valid_from > since;
  -- Any later reply overwrites rows from after that time, even with a version of an older date.
  update helpdesk.tickets t set
    _observed_at = least(t._observed_at, since),
    -- `since` is early by the tolerance of the clock.
    _true_by = least(coalesce(t._true_by, t._observed_at + interval '1 minute'),
      since + (select greatest(a.lookback, interval '5 seconds') from sync.accounts a where a.account_id = t.account_id)),
    _messages_as_of = case when t._messages_as_of > since then since else t._messages_as_of end
  where void_since.source = 'helpdesk' and t.account_id = account
    and (t.updated_at > since or t._observed_at > since or t._messages_as_of > since);
  update helpdesk.customers c set
    _observed_at = least(c._observed_at, since),
    _checked_at = case when c._checked_at > since then since else c._checked_at end
  where void_since.source = 'helpdesk' and c.account_id = account and (c._observed_at > since or c._checked_at > since);
  update helpdesk.users u set _observed_at = since
  where void_since.source = 'helpdesk' and u.account_id = account and u._observed_at > since;
  delete from internal.ticket_history h
  where void_since.source = 'helpdesk' and h.account_id = account and h.valid_from > since and exists (
    select from internal.ticket_history l
    where l.account_id = h.account_id and l.ticket_id = h.ticket_id and l.valid_from > h.valid_from);
  update internal.ticket_history h set
    valid_to = greatest(since, h.valid_from + interval '1 second'),
    deleted_after = case when h.deleted_after < since then h.deleted_after end
  where void_since.source = 'helpdesk' and h.account_id = account and h.valid_from <= since and h.valid_to > since;
  update internal.ticket_history h set
    valid_from = p.at,
    valid_to = case when h.valid_to is not null then greatest(h.valid_to, p.at + interval '1 second') end,
    change_after = case
      when p.last_from is not null then least(h.change_after, p.last_from - interval '1 second')
      when p.created_at <= p.at then p.created_at - interval '1 second' end,
    is_first = p.last_from is null
  from (
    select l.account_id, l.ticket_id, l.valid_from, b.valid_from as last_from, greatest(since, b.valid_to) as at, t.created_at
    from internal.ticket_history l
    join helpdesk.tickets t on t.account_id = l.account_id and t.id = l.ticket_id
    left join lateral (
      select e.valid_from, e.valid_to from internal.ticket_history e
      where e.account_id = l.account_id and e.ticket_id = l.ticket_id and e.valid_from < l.valid_from
      order by e.valid_from desc limit 1) b on true
    where l.account_id = account and l.valid_from > since) p
  where void_since.source = 'helpdesk' and h.account_id = p.account_id and h.ticket_id = p.ticket_id and h.valid_from = p.valid_from;
end;

create or replace function sync.wanted_rights() returns table (role name, relation regclass, kind "char", right_name text)
language sql stable
begin atomic
  with ours as (
    select c.oid, n.nspname, c.relname, c.relkind, c.reloptions,
      -- The worker writes none of these.
      n.nspname = 'sync' and c.relname in ('readers', 'migrations') as to_be_read,
      n.nspname = 'sync' and (c.relname = 'readers' or starts_with(c.relname, 'secret_'))
        -- analytics.tickets_as_of reads this view with the rights of its caller.
        or n.nspname = 'internal' and c.relname <> 'ticket_basics' as hidden,
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
    where m.roleid = 'shelfdesk_owner'::regrole and m.member = current_user::regrole
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

create or replace view safe.ticket_history with (security_barrier) as
select t.account_id, t.ticket_id, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam, t.trash, t.valid_from, t.valid_to, t.change_after, t.is_first, t.deleted_after, t.change_by
from helpdesk.ticket_history t
where t.account_id = any (array(select account_id from sync.readable_accounts));
create or replace view analytics.ticket_history with (security_barrier) as
select h.account_id, h.ticket_id, h.state, h.user_id, h.inbox_id, h.label_ids, h.spam, h.trash, h.valid_from, h.valid_to, h.change_after,
  h.deleted_after, h.is_first, h.change_by
from helpdesk.ticket_history h
where h.account_id = any (array(select r.account_id from sync.readable_accounts r));
create or replace view analytics.ticket_state_intervals with (security_barrier) as
select i.account_id, i.ticket_id, i.state, i.valid_from,
  case when i.ends then i.valid_to else i.next_valid_to end as valid_to,
  i.change_after,
  extract(epoch from i.valid_from - i.change_after)::float8 as error_seconds,
  case when i.ends then i.deleted_after else i.next_deleted_after end as deleted_after,
  i.change_by
from (
  -- Keeps the first and the last row of each series with one state: the first has the start, the last the end.
  select b.*, lead(b.valid_to) over once as next_valid_to, lead(b.deleted_after) over once as next_deleted_after
  from (
    select h.account_id, h.ticket_id, h.state, h.valid_from, h.valid_to, h.change_after, h.change_by, h.deleted_after,
      lag(h.valid_to) over w is distinct from h.valid_from or lag(h.state) over w is distinct from h.state as begins,
      lead(h.valid_from) over w is distinct from h.valid_to or lead(h.state) over w is distinct from h.state as ends
    from helpdesk.ticket_history h
    where h.account_id = any (array(select r.account_id from sync.readable_accounts r))
    window w as (partition by h.account_id, h.ticket_id order by h.valid_from)) b
  where b.begins or b.ends
  window once as (partition by b.account_id, b.ticket_id order by b.valid_from)) i
where i.begins;
create or replace view internal.ticket_metrics_defined with (security_barrier) as
select t.account_id, t.id as ticket_id,
  m.message_count, m.inbound_count, m.authored_count, m.automatic_count, m.note_count, m.other_count, a.attachment_count,
  m.agents_involved, m.last_inbound_at, m.last_authored_at,
  coalesce(m.talk[1] = 'authored', false) as is_outbound_initiated,
  m.authored_count = 1 and m.talk[1] = 'inbound' and m.talk[cardinality(m.talk)] = 'authored' as is_one_touch,
  m.inbound_count > 0 and m.authored_count = 0 as is_unreplied,
  date_part('epoch', w.first_response) as first_response_seconds,
  w.first_response_business::float8 as first_response_business_seconds,
  w.first_responder_id,
  date_part('epoch', r.first_reply_at - t.created_at) as first_reply_seconds,
  analytics.business_seconds(c.calendar, t.created_at, r.first_reply_at)::float8 as first_reply_business_seconds,
  w.turns, w.waiting_since,
  date_part('epoch', w.total_wait) as total_wait_seconds,
  date_part('epoch', w.total_wait) / w.timed_turns as average_wait_seconds,
  date_part('epoch', w.longest_wait) as longest_wait_seconds,
  w.total_wait_business::float8 as total_wait_business_seconds,
  (w.total_wait_business / w.timed_turns)::float8 as average_wait_business_seconds,
  w.longest_wait_business::float8 as longest_wait_business_seconds,
  h.first_closed_at, date_part('epoch', h.first_closed_error) as first_closed_error_seconds,
  h.last_closed_at, date_part('epoch', h.last_closed_error) as last_closed_error_seconds,
  date_part('epoch', h.first_closed_at - t.created_at) as first_resolution_seconds,
  date_part('epoch', h.first_closed_error) as first_resolution_error_seconds,
  analytics.business_seconds(c.calendar, t.created_at, h.first_closed_at)::float8 as first_resolution_business_seconds,
  case when h.is_resolved then date_part('epoch', h.last_closed_at - t.created_at) end as full_resolution_seconds,
  case when h.is_resolved then date_part('epoch', h.last_closed_error) end as full_resolution_error_seconds,
  case when h.is_resolved then analytics.business_seconds(c.calendar, t.created_at, h.last_closed_at)::float8 end as full_resolution_business_seconds,
  h.reopen_count, date_part('epoch', u.unseen) as reopen_error_seconds,
  u.assignment_count, date_part('epoch', u.unseen) as assignment_error_seconds,
  h.seconds_open, h.open_error_seconds, h.seconds_hold, h.hold_error_seconds, h.seconds_snoozed, h.snoozed_error_seconds,
  h.seconds_closed, h.closed_error_seconds, h.seconds_archived, h.archived_error_seconds,
  h.first_closing_seen, h.last_closing_seen
from (
  select k.account_id, k.id, k.inbox_id, k.created_at
  from helpdesk.tickets k
  where k.account_id = any (array(select account_id from sync.readable_accounts))
  order by k.account_id, k.id) t
cross join lateral (
  select case when exists (select from internal.stored_calendar_assignments)
    then analytics.calendar_of(t.account_id, t.inbox_id) end as calendar offset 0) c
cross join lateral (
  select count(*)::int as message_count,
    count(*) filter (where k.kind = 'inbound')::int as inbound_count,
    count(*) filter (where k.kind = 'authored')::int as authored_count,
    count(*) filter (where k.kind = 'automatic')::int as automatic_count,
    count(*) filter (where k.kind = 'note')::int as note_count,
    count(*) filter (where k.kind = 'other')::int as other_count,
    count(distinct k.user_id) filter (where k.kind in ('authored', 'note'))::int as agents_involved,
    max(k.created_at) filter (where k.kind = 'inbound') as last_inbound_at,
    max(k.created_at) filter (where k.kind = 'authored') as last_authored_at,
    array_agg(k.kind order by k.created_at, k.position, k.message_id) filter (where k.kind in ('inbound', 'authored')) as talk,
    array_agg(k.created_at order by k.created_at, k.position, k.message_id) filter (where k.kind = 'authored') as authored_at
  from (
    select m.id as message_id, analytics.message_kind(m.type, m.direction, m.user_id) as kind, m.user_id, m.created_at, m.position
    from helpdesk.messages m
    where m.account_id = t.account_id and m.ticket_id = t.id
    order by m.position) k) m
-- If the team wrote first, the second team reply counts as the first reply.
cross join lateral (select m.authored_at[case when m.talk[1] = 'authored' then 2 else 1 end] as first_reply_at) r
cross join lateral (
  select count(*)::int as attachment_count
  from (
    select from helpdesk.attachments f
    where f.account_id = t.account_id and f.ticket_id >= t.id and f.ticket_id <= t.id
    order by f.ticket_id) f) a
cross join lateral (
  select count(*) filter (where q.is_answered)::int as turns,
    nullif(count(q.wait), 0) as timed_turns,
    max(q.waiting_since) filter (where not q.is_answered) as waiting_since,
    sum(q.wait) as total_wait, max(q.wait) as longest_wait,
    sum(q.business) as total_wait_business, max(q.business) as longest_wait_business,
    max(q.wait) filter (where q.is_first_response) as first_response,
    max(q.business) filter (where q.is_first_response) as first_response_business,
    max(q.user_id) filter (where q.is_first_response) as first_responder_id
  from (
    select n.is_answered, n.is_first_response, n.user_id, n.waiting_since, n.answered_at - n.waiting_since as wait,
      analytics.business_seconds(c.calendar, n.waiting_since, n.answered_at) as business
    from analytics.reply_turns n
    where n.account_id = t.account_id and n.ticket_id = t.id
    offset 0) q) w
cross join lateral (
  select min(i.valid_from) filter (where i.resolved) as first_closed_at,
    (array_agg(i.began_within order by i.valid_from) filter (where i.resolved))[1] as first_closed_error,
    max(i.valid_from) filter (where i.resolved and not i.was_resolved) as last_closed_at,
    (array_agg(i.began_within order by i.valid_from desc) filter (where i.resolved and not i.was_resolved))[1] as last_closed_error,
    coalesce((array_agg(i.resolved order by i.valid_from desc))[1], false) as is_resolved,
    count(*) filter (where not i.resolved and i.was_resolved)::int as reopen_count,
    -- A closing was observed if another interval precedes it. Only the first interval has no predecessor.
    coalesce(bool_or(i.was_seen) filter (where i.resolved and not i.was_resolved), false)
      and coalesce(bool_and(i.was_seen or not i.resolved), true) as first_closing_seen,
    coalesce(bool_or(i.was_seen) filter (where i.resolved and not i.was_resolved), false) as last_closing_seen,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'open'), interval '0')) as seconds_open,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'hold'), interval '0')) as seconds_hold,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'snoozed'), interval '0')) as seconds_snoozed,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'closed'), interval '0')) as seconds_closed,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'archived'), interval '0')) as seconds_archived,
    -- The error of each sum is at most the uncertainty of the interval boundaries. One unknown boundary makes the error unknown.
    case when bool_and(i.within is not null) filter (where i.state = 'open' and i.lasted is not null) is not false
      then date_part('epoch', coalesce(sum(i.within) filter (where i.state = 'open'), interval '0')) end as open_error_seconds,
    case when bool_and(i.within is not null) filter (where i.state = 'hold' and i.lasted is not null) is not false
      then date_part('epoch', coalesce(sum(i.within) filter (where i.state = 'hold'), interval '0')) end as hold_error_seconds,
    case when bool_and(i.within is not null) filter (where i.state = 'snoozed' and i.lasted is not null) is not false
      then date_part('epoch', coalesce(sum(i.within) filter (where i.state = 'snoozed'), interval '0')) end as snoozed_error_seconds,
    case when bool_and(i.within is not null) filter (where i.state = 'closed' and i.lasted is not null) is not false
      then date_part('epoch', coalesce(sum(i.within) filter (where i.state = 'closed'), interval '0')) end as closed_error_seconds,
    case when bool_and(i.within is not null) filter (where i.state = 'archived' and i.lasted is not null) is not false
      then date_part('epoch', coalesce(sum(i.within) filter (where i.state = 'archived'), interval '0')) end as archived_error_seconds
  from (
    select s.state, s.valid_from, s.resolved, coalesce(s.was_resolved, false) as was_resolved,
      s.was_resolved is not null as was_seen,
      s.valid_from - s.change_after as began_within, s.valid_to - s.valid_from as lasted,
      -- If the next interval starts at valid_to, the end is as uncertain as that start. Otherwise a deletion ended the interval.
      s.valid_from - s.change_after + case
        when s.next_from = s.valid_to then s.next_from - s.next_after
        else s.valid_to - s.deleted_after end as within
    from (
      select v.state, v.valid_from, v.valid_to, v.change_after, v.deleted_after, d.resolved,
        lag(d.resolved) over once as was_resolved,
        lead(v.valid_from) over once as next_from, lead(v.change_after) over once as next_after
      from analytics.ticket_state_intervals v
      cross join lateral (select coalesce(v.state in ('closed', 'archived'), false) as resolved) d
      where v.account_id = t.account_id and v.ticket_id >= t.id and v.ticket_id <= t.id
      window once as (partition by v.ticket_id order by v.valid_from)) s) i) h
cross join lateral (
  select count(*) filter (where e.user_id is not null and e.user_id is distinct from e.user_before)::int as assignment_count,
    case when count(e.change_after) = count(*) then sum(e.valid_from - e.change_after) end as unseen
  from (
    select x.user_id, x.valid_from, x.change_after, lag(x.user_id) over (partition by x.ticket_id order by x.valid_from) as user_before
    from helpdesk.ticket_history x
    where x.account_id = t.account_id and x.ticket_id >= t.id and x.ticket_id <= t.id) e) u;
create or replace view analytics.ticket_metrics with (security_barrier) as
select t.account_id, t.id as ticket_id, t.number, t.customer_id, t.inbox_id, t.user_id, t.state, t.type, t.spam, t.trash,
  t.created_at, t.updated_at, t._deleted_at as deleted_at,
  coalesce(t._messages_as_of >= t.updated_at, false) and t._deleted_at is null and not exists (
    select from sync.rejects r
    where r.account_id = t.account_id and r.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and r.ask_id = t.id and r.cleared_at is null) as messages_complete,
  coalesce(s.message_count, 0) as message_count, coalesce(s.inbound_count, 0) as inbound_count, coalesce(s.authored_count, 0) as authored_count, coalesce(s.automatic_count, 0) as automatic_count, coalesce(s.note_count, 0) as note_count, coalesce(s.other_count, 0) as other_count, coalesce(s.attachment_count, 0) as attachment_count,
  coalesce(s.agents_involved, 0) as agents_involved, s.last_inbound_at, s.last_authored_at,
  coalesce(s.is_outbound_initiated, false) as is_outbound_initiated, coalesce(s.is_one_touch, false) as is_one_touch, coalesce(s.is_unreplied, false) as is_unreplied,
  s.first_response_seconds, s.first_response_business_seconds, s.first_responder_id,
  s.first_reply_seconds, s.first_reply_business_seconds,
  coalesce(s.turns, 0) as turns, s.waiting_since,
  s.total_wait_seconds, s.average_wait_seconds, s.longest_wait_seconds,
  s.total_wait_business_seconds, s.average_wait_business_seconds, s.longest_wait_business_seconds,
  coalesce(s.first_closed_at, o.closed_at) as first_closed_at, case when s.ticket_id is null then o.closed_within else s.first_closed_error_seconds end as first_closed_error_seconds, coalesce(s.last_closed_at, o.closed_at) as last_closed_at, case when s.ticket_id is null then o.closed_within else s.last_closed_error_seconds end as last_closed_error_seconds,
  case when s.ticket_id is null then date_part('epoch', o.closed_at - t.created_at) else s.first_resolution_seconds end as first_resolution_seconds, case when s.ticket_id is null then o.closed_within else s.first_resolution_error_seconds end as first_resolution_error_seconds, case when s.ticket_id is null then o.business_seconds else s.first_resolution_business_seconds end as first_resolution_business_seconds,
  case when s.ticket_id is null then date_part('epoch', o.closed_at - t.created_at) else s.full_resolution_seconds end as full_resolution_seconds, case when s.ticket_id is null then o.closed_within else s.full_resolution_error_seconds end as full_resolution_error_seconds, case when s.ticket_id is null then o.business_seconds else s.full_resolution_business_seconds end as full_resolution_business_seconds,
  coalesce(s.reopen_count, 0) as reopen_count, case when s.ticket_id is null then o.within else s.reopen_error_seconds end as reopen_error_seconds, coalesce(s.assignment_count, (t.user_id is not null)::int) as assignment_count, case when s.ticket_id is null then o.within else s.assignment_error_seconds end as assignment_error_seconds,
  coalesce(s.seconds_open, 0) as seconds_open, case when s.ticket_id is null then 0 else s.open_error_seconds end as open_error_seconds, coalesce(s.seconds_hold, 0) as seconds_hold, case when s.ticket_id is null then 0 else s.hold_error_seconds end as hold_error_seconds, coalesce(s.seconds_snoozed, 0) as seconds_snoozed, case when s.ticket_id is null then 0 else s.snoozed_error_seconds end as snoozed_error_seconds,
  coalesce(s.seconds_closed, 0) as seconds_closed, case when s.ticket_id is null then 0 else s.closed_error_seconds end as closed_error_seconds, coalesce(s.seconds_archived, 0) as seconds_archived, case when s.ticket_id is null then 0 else s.archived_error_seconds end as archived_error_seconds,
  coalesce(s.first_closing_seen, false) as first_closing_seen, coalesce(s.last_closing_seen, false) as last_closing_seen
from helpdesk.tickets t
left join internal.stored_ticket_metrics s on s.account_id = t.account_id and s.ticket_id = t.id
-- A ticket without a stored row has one version and no messages.
left join lateral (
  select c.within,
    case when c.resolved then c.valid_from end as closed_at,
    case when c.resolved then c.within end as closed_within,
    case when c.resolved and exists (select from internal.stored_calendar_assignments)
      then analytics.business_seconds(analytics.calendar_of(t.account_id, t.inbox_id), t.created_at, c.valid_from)::float8 end as business_seconds
  from (
    select v.valid_from, date_part('epoch', v.valid_from - v.change_after) as within, coalesce(t.state in ('closed', 'archived'), false) as resolved
    from sync.first_version(t, null) v) c) o on s.ticket_id is null
where t.account_id = any (array(select account_id from sync.readable_accounts));

create or replace function internal.keep_metrics_of_members() returns trigger
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
  accounts text[];
  tickets text[];
begin
  if tg_op = 'INSERT' then
    select array_agg(c.account_id), array_agg(c.ticket_id) into accounts, tickets
    from (select distinct n.account_id, n.ticket_id from news n) c;
  elsif tg_op = 'DELETE' then
    select array_agg(c.account_id), array_agg(c.ticket_id) into accounts, tickets
    from (select distinct o.account_id, o.ticket_id from olds o) c;
  else
    select array_agg(c.account_id), array_agg(c.ticket_id) into accounts, tickets
    from (select o.account_id, o.ticket_id from olds o union select n.account_id, n.ticket_id from news n) c;
  end if;
  -- A transaction that writes the messages of a ticket holds the lock of the ticket's row. If a message moves to another ticket,
  -- no transaction holds the lock of the former ticket. Without this lock, outdated metrics could overwrite newer ones.
  if tg_table_name <> 'ticket_history' and cardinality(tickets) > 1 then
    perform from (
      select k.account_id, k.ticket_id from unnest(accounts, tickets) as k (account_id, ticket_id) order by k.account_id, k.ticket_id) k
    cross join lateral (
      select from helpdesk.tickets t
      where t.account_id = k.account_id and t.id >= k.ticket_id and t.id <= k.ticket_id
      order by t.id limit 1 for no key update) t;
  end if;
  perform internal.touch_metrics(accounts, tickets);
  return null;
end
$$;
comment on function internal.keep_metrics_of_members is
  'Updates the metrics of tickets whose messages, attachments or history were written. A ticket without messages and without stored history has no stored metrics.';


create or replace view analytics.integrity with (security_barrier) as
select c.check_name, a.account_id, c.found, c.means
from sync.readable_accounts a
cross join lateral (values
  ('messages without their ticket',
    (select count(*) from helpdesk.messages m where m.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = m.ticket_id)),
    'Messages come with their ticket: there should be none.'),
  ('attachments without their message',
    (select count(*) from helpdesk.attachments f where f.account_id = a.account_id
      and not exists (select from helpdesk.messages m where m.account_id = a.account_id and m.id = f.message_id)),
    'Attachments come with their message: there should be none.'),
  ('tickets without their customer',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t.customer_id is not null
      and not exists (select from helpdesk.customers c where c.account_id = a.account_id and c.id = t.customer_id)),
    'The customer has not been read yet, or the source had already deleted it.'),
  ('contacts without their customer',
    (select count(*) from helpdesk.contacts k where k.account_id = a.account_id
      and not exists (select from helpdesk.customers c where c.account_id = a.account_id and c.id = k.customer_id)),
    'Contacts come with their customer: there should be none.'),
  ('tickets of a user who is not here',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t.user_id is not null
      and not exists (select from helpdesk.users u where u.account_id = a.account_id and u.id = t.user_id)),
    'The list of users does not show who has left before the mirror began, or they have not been read yet.'),
  ('messages of a user who is not here',
    (select count(*) from helpdesk.messages m where m.account_id = a.account_id and m.user_id is not null
      and not exists (select from helpdesk.users u where u.account_id = a.account_id and u.id = m.user_id)),
    'The list of users does not show who has left before the mirror began, or they have not been read yet.'),
  ('tickets of an inbox that is not here',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t.inbox_id is not null
      and not exists (select from helpdesk.inboxes i where i.account_id = a.account_id and i.id = t.inbox_id)),
    'Inboxes are written with the first ticket that mentions them: there should be none.'),
  ('labels of tickets that are not here',
    (select count(*) from helpdesk.ticket_labels l where l.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = l.ticket_id)),
    'They are written with the ticket: there should be none.'),
  ('labels of tickets without the label',
    (select count(*) from helpdesk.ticket_labels l where l.account_id = a.account_id
      and not exists (select from helpdesk.labels n where n.account_id = a.account_id and n.id = l.label_id)),
    'Labels are written with the first ticket that mentions them: there should be none.'),
  ('labels that tickets and ticket_labels tell differently',
    (select count(*) from (
      (select t.id, l.label_id from helpdesk.tickets t cross join unnest(t.label_ids) as l (label_id)
       where t.account_id = a.account_id and t._deleted_at is null
       except select l.ticket_id, l.label_id from helpdesk.ticket_labels l where l.account_id = a.account_id)
      union all
      (select l.ticket_id, l.label_id from helpdesk.ticket_labels l where l.account_id = a.account_id
       except select t.id, l.label_id from helpdesk.tickets t cross join unnest(t.label_ids) as l (label_id)
       where t.account_id = a.account_id and t._deleted_at is null)) d),
    'Both are written in one transaction: there should be none.'),
  ('tickets whose history tells otherwise',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t._deleted_at is null
      and not exists (
        select from helpdesk.ticket_history h
        where h.account_id = a.account_id and h.ticket_id = t.id and h.valid_to is null
          and (h.state, h.user_id, h.inbox_id, h.spam, h.trash) is not distinct from (t.state, t.user_id, t.inbox_id, t.spam, t.trash)
          and sync.same_set(h.label_ids, t.label_ids))),
    'The open row of its history is what the ticket is now: there should be none.'),
  ('history of tickets that are not here',
    (select count(*) from internal.ticket_history h where h.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = h.ticket_id)),
    'History goes with the row of its ticket: there should be none.'),
  ('history that overlaps',
    (select count(*) from (
      select h.valid_from < lag(coalesce(h.valid_to, 'infinity')) over (partition by h.ticket_id order by h.valid_from) as overlaps
      from helpdesk.ticket_history h where h.account_id = a.account_id) o
     where o.overlaps),
    'A ticket is one thing at a time: there should be none.'),
  ('tickets without metrics',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id
      and not exists (select from internal.stored_ticket_metrics s where s.account_id = a.account_id and s.ticket_id = t.id)
      and (exists (select from helpdesk.messages m where m.account_id = a.account_id and m.ticket_id = t.id)
        or exists (select from internal.ticket_history h where h.account_id = a.account_id and h.ticket_id = t.id))),
    'Metrics are written with the messages and the changes of a ticket: there should be none. If there are, call analytics.recompute.'),
  ('business times that are not worked out anew',
    (select count(*) from internal.stored_recomputes q where q.account_id = a.account_id),
    'A calendar has changed, and analytics.recompute has not gone through since: business times of some tickets are those of before. Call it, or run npx shelfdesk calendar set again.'),
  ('metrics of tickets that are not here',
    (select count(*) from internal.stored_ticket_metrics s where s.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = s.ticket_id)),
    'Metrics go with the row of their ticket: there should be none.'),
  ('tickets whose messages are not complete',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t._deleted_at is null
      and (t._messages_as_of is null or t._messages_as_of < t.updated_at or exists (
        select from sync.rejects r
        where r.account_id = a.account_id and r.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and r.ask_id = t.id and r.cleared_at is null))),
    'Their messages are pending, or a part of them was rejected: ticket_metrics.messages_complete is false.'),
  ('volumes on a shelf that are not here',
    (select count(*) from books.shelf_volumes v where v.account_id = a.account_id
      and not exists (select from books.volumes b where b.account_id = a.account_id and b.id = v.volume_id)),
    'Volumes are written with their shelf: there should be none.'),
  ('volumes on a shelf that is not here',
    (select count(*) from books.shelf_volumes v where v.account_id = a.account_id
      and not exists (select from books.shelves s where s.account_id = a.account_id and s.owner_id = v.owner_id and s.id = v.shelf_id)),
    'A shelf is written before what is on it: there should be none.')
) c (check_name, found, means);

create or replace view analytics.dim_agent with (security_barrier) as
select a.account_id || '/' || k.user_id as agent_key, a.account_id as account_key, k.user_id, u._deleted_at is not null as is_deleted,
  u.id is not null as is_mirrored
from sync.readable_accounts a
cross join lateral (
  select u.id as user_id from helpdesk.users u where u.account_id = a.account_id
  union
  select w.user_id from (
    with recursive wrote (user_id) as (
      select min(m.user_id) from helpdesk.messages m where m.account_id = a.account_id
      union all
      select (select min(m.user_id) from helpdesk.messages m where m.account_id = a.account_id and m.user_id > w.user_id)
      from wrote w where w.user_id is not null)
    select w.user_id from wrote w where w.user_id is not null) w
  union
  select h.user_id from (
    with recursive has (user_id) as (
      select min(t.user_id) from helpdesk.tickets t where t.account_id = a.account_id
      union all
      select (select min(t.user_id) from helpdesk.tickets t where t.account_id = a.account_id and t.user_id > h.user_id)
      from has h where h.user_id is not null)
    select h.user_id from has h where h.user_id is not null) h
  union
  -- They also appear in the past backlog. The history has no index for that; it is small compared with the messages.
  select h.user_id from helpdesk.ticket_history h where h.account_id = a.account_id and h.user_id is not null) k
left join helpdesk.users u on u.account_id = a.account_id and u.id = k.user_id;

select sync.settle_comments();
