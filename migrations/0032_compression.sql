-- Up Migration

-- Long texts are compressed when they are stored: by lz4, where the server was built with it, which is made to take less of the
-- processor than PostgreSQL's own way. What is stored already stays as it is, and is read as before.
do $$
declare
  one record;
begin
  if not exists (
    select from pg_settings s where s.name = 'default_toast_compression' and 'lz4' = any (s.enumvals)) then
    return;
  end if;
  for one in
    select c.oid::regclass as relation, a.attname as name
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid
    where c.relkind = 'r' and c.relnamespace::regnamespace::text in ('helpdesk', 'books')
      and a.attname in ('_payload', 'body', 'more_body', 'body_text')
  loop
    execute format('alter table %s alter column %I set compression lz4', one.relation, one.name);
  end loop;
end
$$;
