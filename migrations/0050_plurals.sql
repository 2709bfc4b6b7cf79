-- Up Migration

create function sync.counted(n bigint, one text, many text default null) returns text
language sql immutable
begin atomic
  select n || ' ' || case n when 1 then one else coalesce(many, one || 's') end;
end;
comment on function sync.counted(bigint, text, text) is 'A number with its noun: 1 record, 2 records. Without many the plural has an s.';

-- The sentences that counted one thing in the plural. The rest of both definitions stays as it is, whatever migration wrote it.
do $$
declare
  problems text := pg_get_viewdef('sync.problems'::regclass);
  options constant text := (
    select 'with (' || string_agg(o, ', ') || ')' from pg_class, unnest(reloptions) o where oid = 'sync.problems'::regclass);
  complete text := pg_get_functiondef('sync.require_complete(text, text, timestamptz, bigint)'::regprocedure);
  change text[];
begin
  foreach change slice 1 in array array[
    ['format(''%s %s and perhaps more seem to have been deleted at the source, too many to be believed; none was marked as deleted here.''::text, min(g.many), r.stream)',
     'format(''%s and perhaps more seem to have been deleted at the source, too many to be believed; none was marked as deleted here.'', sync.counted(min(g.many)::bigint, rtrim(r.stream, ''s''), r.stream))'],
    ['format(''Within the last 24 hours %s records of %s were found to differ from the source: %s.''::text, count(DISTINCT d.record_id), d.stream,',
     'format(''Within the last 24 hours %s of %s %s found to differ from the source: %s.'', sync.counted(count(distinct d.record_id), ''record''), d.stream, case count(distinct d.record_id) when 1 then ''was'' else ''were'' end,'],
    ['format(''%s ranges of %s could not be read, the first from %s on: %s.''::text, count(*), h.stream,',
     'format(''%s of %s could not be read, the first from %s on: %s.'', sync.counted(count(*), ''range''), h.stream,'],
    ['format(''%s records of %s could not be stored, or read.''::text, count(*), r.stream)',
     'format(''%s of %s could not be stored, or read.'', sync.counted(count(*), ''record''), r.stream)'],
    ['format(''The webhook does not take %s alarms: %s.''::text, count(*),',
     'format(''The webhook does not take %s: %s.'', sync.counted(count(*), ''alarm''),']
  ] loop
    if position(change[1] in problems) = 0 then raise exception 'sync.problems does not say: %', change[1]; end if;
    problems := replace(problems, change[1], change[2]);
  end loop;
  execute format('create or replace view sync.problems %s as %s', options, problems);

  foreach change slice 1 in array array[
    ['format(''%s records wait to be read by their id. They are read while `npx shelfdesk start` runs, or by `npx shelfdesk sync`.'', waiting)',
     'format(''%s to be read by id: `npx shelfdesk start` reads while it runs, and so does `npx shelfdesk sync`.'', sync.counted(waiting, ''record waits'', ''records wait''))'],
    ['raise exception ''% records of % of the account % could not be stored'', open_rejects, stream, account',
     'raise exception ''% of % of the account % could not be stored'', sync.counted(open_rejects, ''record''), stream, account']
  ] loop
    if position(change[1] in complete) = 0 then raise exception 'sync.require_complete does not say: %', change[1]; end if;
    complete := replace(complete, change[1], change[2]);
  end loop;
  execute complete;
end
$$;
