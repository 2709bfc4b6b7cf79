/** What a database consists of, as sorted lines: equal lines mean equal tables, views, functions, comments and rights. */
import type pg from 'pg';

const schemas = `('sync', 'helpdesk', 'books', 'analytics', 'internal', 'safe')`;
const ours = `(select oid from pg_namespace where nspname in ${schemas})`;

const dumpSql = `
  select concat_ws(' ', 'schema', nspname, array(select a::text from unnest(nspacl) a order by 1), obj_description(oid)) as line from pg_namespace where nspname in ${schemas}
  union all
  select concat_ws(' ', 'relation', c.oid::regclass, c.relkind, c.relrowsecurity,
    array(select o from unnest(c.reloptions) o order by o), array(select a::text from unnest(c.relacl) a order by 1),
    obj_description(c.oid, 'pg_class'), case when c.relkind = 'v' then pg_get_viewdef(c.oid) end)
  from pg_class c where c.relnamespace in ${ours} and c.relkind in ('r', 'v', 'm', 'S') and c.oid <> 'sync.migrations'::regclass
  union all
  select concat_ws(' ', 'column', a.attrelid::regclass, row_number() over (partition by a.attrelid order by a.attnum), a.attname,
    format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated, a.attstorage, a.attcompression,
    pg_get_expr(d.adbin, d.adrelid), col_description(a.attrelid, a.attnum))
  from pg_attribute a join pg_class c on c.oid = a.attrelid
  left join pg_attrdef d on (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
  where c.relnamespace in ${ours} and c.relkind in ('r', 'v') and a.attnum > 0 and not a.attisdropped
    and (c.oid, a.attname) <> ('sync.migrations'::regclass, 'checksum')
  union all
  select concat_ws(' ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid))
  from pg_constraint where connamespace in ${ours} and contype <> 'n'
  union all
  select concat_ws(' ', 'index', pg_get_indexdef(c.oid), c.reloptions, obj_description(c.oid, 'pg_class'))
  from pg_class c where c.relnamespace in ${ours} and c.relkind = 'i'
  union all
  select concat_ws(' ', 'trigger', pg_get_triggerdef(t.oid), obj_description(t.oid, 'pg_trigger'))
  from pg_trigger t join pg_class c on c.oid = t.tgrelid where c.relnamespace in ${ours} and not t.tgisinternal
  union all
  select concat_ws(' ', 'policy', p.polrelid::regclass, p.polname, p.polcmd, p.polpermissive, p.polroles::regrole[],
    pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
  from pg_policy p join pg_class c on c.oid = p.polrelid where c.relnamespace in ${ours}
  union all
  select concat_ws(' ', 'function', pg_get_functiondef(p.oid), array(select a::text from unnest(p.proacl) a order by 1),
    obj_description(p.oid, 'pg_proc'))
  from pg_proc p where p.pronamespace in ${ours} and p.prokind in ('f', 'p')
    and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
  union all
  select concat_ws(' ', 'definition', d) from analytics.metric_definitions d
  union all
  select concat_ws(' ', 'stream', s) from sync.streams s
  order by 1`;

export async function dumpSchema(db: pg.Pool): Promise<string[]> {
  const { rows } = await db.query<{ line: string }>(dumpSql);
  return rows.map(({ line }) => line);
}
