-- Up Migration

-- A stream says whether a sweep reads it: so the deletions of a new source are checked, and said to be.

alter table sync.streams add column swept boolean not null default false;
comment on column sync.streams.swept is 'True if a sweep re-reads it, for deletions and silent changes.';
update sync.streams set swept = stream_key in ('helpdesk.customers', 'helpdesk.tickets');

create or replace function sync.deletes_checked_at(account text, stream text) returns timestamptz
language sql stable
begin atomic
  with asked as materialized (
    select sync.key_of(deletes_checked_at.stream) as stream_key),
  swept as (
    select s.list, s.created, s.as_of
    from sync.coverage c
    join sync.swept s using (account_id, stream_key, list)
    where c.account_id = account and c.stream_key = (select a.stream_key from asked a) and not c.redundant),
  reach as (
    select c.list, (
        select upper(part)
        from (select range_agg(s.created) as parts from swept s where s.list = c.list) one, unnest(one.parts) part
        where part @> '1970-01-01T00:00:00Z'::timestamptz) as top
    from sync.coverage c
    where c.account_id = account and c.stream_key = (select a.stream_key from asked a) and not c.redundant)
  select case
    when not exists (select from sync.streams k join asked a using (stream_key) where k.swept) then null
    when (select count(*) = 0 or bool_or(r.top is null) from reach r) then null
    when (select a.stream_key from asked a) = 'helpdesk.tickets'
      and exists (
        select from helpdesk.tickets t where t.account_id = account and t.created_at is null and t._deleted_at is null)
      and not exists (
        select from sync.swept s where s.account_id = account and s.stream_key = 'helpdesk.tickets' and s.list = 'undated') then null
    else least(
      (select min(r.top) from reach r),
      (select min(s.as_of) from swept s join reach r using (list) where lower(s.created) < r.top),
      (select min(s.as_of) from sync.swept s
       where s.account_id = account and s.stream_key = (select a.stream_key from asked a) and s.list = 'undated'
         and s.stream_key = 'helpdesk.tickets' and exists (
           select from helpdesk.tickets t
           where t.account_id = account and t.created_at is null and t._deleted_at is null)),
      (select min(o.alive_at) from sync.open_suspects o
       where o.account_id = account and o.stream_key = (select a.stream_key from asked a)))
  end;
end;

create or replace function sync.hand_over(heir name) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  one record;
  -- Read first: a table cannot change hands while a query of this session reads it.
  schemas constant name[] := '{sync,analytics,safe,bullmq}'::name[] || array(select s.name from sync.source_schemas s);
begin
  for one in
    select format('schema %I', n.nspname) as thing from pg_namespace n
    where n.nspname = any (schemas) and n.nspowner = current_user::regrole
    union all
    -- Sequences of columns, indexes and types of rows go with their tables.
    select format('%s %s', case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' else 'table' end, c.oid::regclass)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = any (schemas) and c.relkind in ('r', 'p', 'v', 'm', 'S')
      and c.relowner = current_user::regrole and not (c.relkind = 'S' and exists (
        select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i')))
    union all
    select format('routine %s', p.oid::regprocedure)
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = any (schemas) and p.proowner = current_user::regrole
      and not exists (
        select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
  loop
    if one.thing like 'schema %' then execute format('grant create, usage on %s to %I', one.thing, heir); end if;
    execute format('alter %s owner to %I', one.thing, heir);
  end loop;
end
$$;
