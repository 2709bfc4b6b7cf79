/**
 * Saves the objects and rights of others that depend on our views and functions, while these are dropped and created
 * again.
 */
import type pg from 'pg';
import { ShelfdeskError } from '../../errors.ts';
import { query } from './sql.ts';

export interface Dependent {
  /** Such as `view own.report`. */
  readonly name: string;
  /** Makes it again, with its owner, options, comments and rights. */
  readonly statements: readonly string[];
}

/**
 * The objects of others that are dropped together with our views, in the order of their creation. Throws ShelfdeskError
 * if one of them cannot be created again.
 */
export async function dependentsOf(
  client: pg.Client,
  dropped: readonly string[],
  ours: readonly string[],
): Promise<Dependent[]> {
  const { rows } = await client.query<Dependent & { kept: boolean }>(dependents, [dropped, ours]);
  const lost = rows.filter(({ kept }) => !kept).map(({ name }) => name);
  if (lost.length > 0) throw inTheWay(lost);
  return rows;
}

/** Creates the dropped objects of others again, and restores the rights on our views and functions. */
export async function restore(
  client: pg.Client,
  others: readonly Dependent[],
  grants: readonly string[],
): Promise<void> {
  let left = others;
  const tried = async (one: Dependent) => {
    await client.query('savepoint one');
    try {
      for (const statement of one.statements) await client.query(statement);
      await client.query('release savepoint one');
      return true;
    } catch {
      await client.query('rollback to savepoint one');
      return false;
    }
  };
  // A view may depend on a younger one, if somebody has replaced it.
  for (let before = Number.POSITIVE_INFINITY; left.length > 0 && left.length < before; ) {
    before = left.length;
    const failed: Dependent[] = [];
    for (const one of left) if (!(await tried(one))) failed.push(one);
    left = failed;
  }
  if (left.length > 0) throw inTheWay(left.map(({ name }) => name));
  for (const grant of grants) await tried({ name: grant, statements: [grant] });
}

/** Statements that restore the rights of others on our views and functions. */
export const grantsOn = (client: pg.Client, ours: readonly string[]): Promise<string[]> =>
  query(client).values`
    select format('grant %s on %s to %s%s', a.privilege_type, c.oid::regclass, case a.grantee when 0 then 'public' else a.grantee::regrole::text end,
      case when a.is_grantable then ' with grant option' else '' end) as grant
    from pg_class c, aclexplode(c.relacl) a
    where c.relkind = 'v' and format('view %s', c.oid::regclass) = any (${ours}) and a.grantee <> c.relowner
    union all
    select format('grant execute on function %s to %s', p.oid::regprocedure, case a.grantee when 0 then 'public' else a.grantee::regrole::text end)
    from pg_proc p, aclexplode(p.proacl) a
    where format('function %s', p.oid::regprocedure) = any (${ours}) and a.grantee <> p.proowner`;

const inTheWay = (names: readonly string[]) =>
  new ShelfdeskError(
    `the views of Shelfdesk change, and with them goes what others have built on them: ${names.join(', ')}`,
    'Nothing was changed. Drop what is named, run the same command again, and create it again on the new columns.',
  );

/**
 * $1: names of dropped views and functions, as `view sync.status`. $2: names of all of ours. The rule and the type of a
 * view count as the view.
 */
const dependents = `
  with recursive names as (
    select n, substring(n from '^\\w+') as kind, substring(n from ' (.*)$') as name from unnest($1::text[]) n),
  gone (classid, objid) as (
    select case when kind ilike 'view' then 'pg_class'::regclass else 'pg_proc'::regclass end::oid,
      case when kind ilike 'view' then to_regclass(name)::oid else to_regprocedure(name)::oid end
    from names
    union
    select coalesce(f.classid, d.classid), coalesce(f.objid, d.objid)
    from gone g
    join pg_depend d on (d.refclassid, d.refobjid) = (g.classid, g.objid) and d.deptype in ('n', 'a', 'i')
    left join lateral (
      select 'pg_class'::regclass::oid as classid, r.ev_class as objid from pg_rewrite r where d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
    ) f on true),
  known as (
    select g.classid, g.objid, c.oid as view, p.oid as function, c.relkind,
      case when c.oid is not null then format('%s %s', case c.relkind when 'v' then 'view' when 'm' then 'materialized view' else 'table' end, c.oid::regclass)
        when p.oid is not null then format('%s %s', case p.prokind when 'p' then 'procedure' else 'function' end, p.oid::regprocedure)
        else pg_describe_object(g.classid, g.objid, 0) end as name
    from gone g
    left join pg_class c on g.classid = 'pg_class'::regclass and c.oid = g.objid
    left join pg_proc p on g.classid = 'pg_proc'::regclass and p.oid = g.objid
    where g.objid is not null and g.classid not in ('pg_rewrite'::regclass, 'pg_type'::regclass))
  select k.name, k.relkind is not distinct from 'v' or k.function is not null as kept,
    case when k.function is not null then array[pg_get_functiondef(k.function)]
      when k.relkind = 'v' then array[
          format('create view %s%s as %s', k.view::regclass, (select ' with (' || array_to_string(c.reloptions, ', ') || ')' from pg_class c where c.oid = k.view), pg_get_viewdef(k.view)),
          (select format('alter view %s owner to %s', k.view::regclass, c.relowner::regrole) from pg_class c where c.oid = k.view)]
        || array(select format('comment on view %s is %L', k.view::regclass, s) from obj_description(k.view, 'pg_class') s where s is not null)
        || array(select format('comment on column %s.%I is %L', k.view::regclass, a.attname, col_description(k.view, a.attnum)) from pg_attribute a
             where a.attrelid = k.view and a.attnum > 0 and col_description(k.view, a.attnum) is not null)
        || array(select format('grant %s on %s to %s%s', a.privilege_type, k.view::regclass, case a.grantee when 0 then 'public' else a.grantee::regrole::text end,
             case when a.is_grantable then ' with grant option' else '' end) from pg_class c, aclexplode(c.relacl) a where c.oid = k.view)
      end as statements
  from known k
  where k.name <> all ($2)
  order by k.objid`;
