-- Comments for columns without a comment of their own, and the rights of the roles.

-- A column of a view inherits the comment of the same column in the first relation of the view that has one. Any
-- other column gets the general comment for its name.
create or replace function sync.settle_comments() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  one record;
  said text;
  everywhere constant jsonb := $said${
  "account_id": "The operator's name for the mirrored account; part of every key.",
  "id": "Id at the source: opaque text.",
  "customer_id": "The customer; joins helpdesk.customers.id.",
  "_first_seen_at": "When this row was first stored here.",
  "_synced_at": "When the content of this row last changed here.",
  "_observed_at": "The source showed this content at this time, by its own clock; null while no reply has shown it.",
  "_payload": "The record as the source sent it, with unknown fields; without records of other tables, and without long texts that have their own column.",
  "ticket_id": "The ticket; joins helpdesk.tickets.id.",
  "_deleted_at": "When the deletion at the source was found; null while the record exists.",
  "source": "The source of the stream: helpdesk or books.",
  "stream_key": "Key of the stream: source.stream, as helpdesk.tickets.",
  "stream": "The stream.",
  "list": "The list of the stream.",
  "run_id": "The run.",
  "calendar": "The calendar; joins analytics.calendars.name."
}$said$;
begin
  -- In order of creation, because a view may read a view.
  for one in
    select c.oid, a.attnum, format('%s.%I', c.oid::regclass, a.attname) as name, a.attname, c.relkind
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace::regnamespace::text in ('sync', 'helpdesk', 'books', 'analytics', 'internal', 'safe')
      and c.relkind in ('r', 'v') and col_description(c.oid, a.attnum) is null
    order by c.relkind = 'v', c.oid
  loop
    said := (
      select col_description(s.attrelid, s.attnum)
      from pg_rewrite r
      join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
      join pg_attribute s on s.attrelid = d.refobjid and s.attname = one.attname
      where r.ev_class = one.oid and d.refobjid <> one.oid and col_description(s.attrelid, s.attnum) is not null
      order by d.refobjid::regclass::text collate "C"
      limit 1);
    execute format('comment on column %s is %L', one.name, coalesce(said, everywhere ->> one.attname));
  end loop;
end
$$;
comment on function sync.settle_comments is 'Gives a comment to each column of Shelfdesk that has none.';

revoke execute on function sync.settle_comments() from public;

select sync.settle_roles();
