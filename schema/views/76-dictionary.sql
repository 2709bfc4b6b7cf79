-- The data dictionary.

-- Makes the comments available in SQL, also to readers, who see the entries of what they may read.

create or replace view analytics.data_dictionary with (security_barrier) as
with ours as (
  select n.oid, n.nspname::text as schema
  from pg_catalog.pg_namespace n
  -- Readers may not read sync.streams, which names the sources: their tables have records.
  where (n.nspname in ('analytics', 'safe', 'sync') or n.nspname <> 'internal' and exists (
      select from pg_catalog.pg_class m join pg_catalog.pg_attribute a on a.attrelid = m.oid
      where m.relnamespace = n.oid and m.relkind = 'r' and a.attname = '_payload'))
    and has_schema_privilege(n.oid, 'usage')
),
relations as (
  select ours.schema, c.oid, c.relname::text as relation,
    case when c.relkind in ('v', 'm') then 'view' else 'table' end as kind
  from ours join pg_catalog.pg_class c on c.relnamespace = ours.oid
  where c.relkind in ('r', 'p', 'v', 'm') and has_any_column_privilege(c.oid, 'select')
)
select schema, relation, kind, 0 as position, null as column_name, null as type, null::boolean as nullable,
  pg_catalog.obj_description(oid, 'pg_class') as comment
from relations
union all
select r.schema, r.relation, r.kind, (row_number() over (partition by r.oid order by a.attnum))::int, a.attname::text,
  pg_catalog.format_type(a.atttypid, a.atttypmod),
  -- PostgreSQL does not know which columns of a view may be null.
  case when r.kind = 'table' then not a.attnotnull end,
  pg_catalog.col_description(r.oid, a.attnum)
from relations r
join pg_catalog.pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
where has_column_privilege(r.oid, a.attnum, 'select')
union all
select ours.schema, p.proname || '(' || pg_catalog.pg_get_function_arguments(p.oid) || ')', 'function', 0, null,
  pg_catalog.pg_get_function_result(p.oid), null, pg_catalog.obj_description(p.oid, 'pg_proc')
from ours
join pg_catalog.pg_proc p on p.pronamespace = ours.oid
where has_function_privilege(p.oid, 'execute') and p.prorettype <> 'pg_catalog.trigger'::pg_catalog.regtype
  -- Objects of extensions have their own documentation.
  and not exists (select from pg_catalog.pg_depend d
    where d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass and d.objid = p.oid and d.deptype = 'e');
comment on view analytics.data_dictionary is
  'Data dictionary: every table, view and function that the caller may read, with its columns and their meaning.';
comment on column analytics.data_dictionary.schema is 'The schema: analytics, safe, sync, or that of a source.';
comment on column analytics.data_dictionary.relation is 'The table or view; a function with its arguments.';
comment on column analytics.data_dictionary.kind is 'table, view or function.';
comment on column analytics.data_dictionary.position is
  'Position of the column, from 1; 0 in the row of the relation itself.';
comment on column analytics.data_dictionary.column_name is 'The column; null in the row of the relation itself.';
comment on column analytics.data_dictionary.type is 'Type of the column; return type of a function.';
comment on column analytics.data_dictionary.nullable is
  'False if the column is never null; null for columns of views, because PostgreSQL does not know.';
comment on column analytics.data_dictionary.comment is 'Meaning.';
