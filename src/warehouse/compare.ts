/**
 * A merge's declaration in, the SQL of a comparison out: a page of records beside the rows that are here, column by column,
 * `_payload` field by field, members and relations included. It writes nothing.
 *
 * Parameters of every comparison: $1 the page as JSON text, $2 account, $3 the parents whose sets are complete in the page,
 * where it holds members; $7… the table's own.
 */
import type { Mention, Merge, Table } from './merge.ts';
import { rowCte, sameKey, shortName } from './merge.ts';
import type { Client } from './pool.ts';

/** One field in which a record and what is here of it differ. */
export interface Differing {
  /** The record of the page, or the parent of its members. */
  readonly root: string;
  /** The table, without its schema, and the id there. */
  readonly of: string;
  readonly id: string;
  /** A whole row that one side lacks; a column; a field of `_payload`; the rows of a relation. */
  readonly at: 'row' | 'column' | 'payload' | 'set';
  readonly field: string;
  readonly ours: unknown;
  readonly theirs: unknown;
}

export async function compare(
  client: Pick<Client, 'query'>,
  { name, merge }: { name: string; merge: Merge },
  { account, parents = [] }: { account: string; parents?: readonly string[] | undefined },
  { text, parameters }: { text: string; parameters: readonly unknown[] },
): Promise<Differing[]> {
  const sql = comparisonOf(merge);
  const own = [text, account, parents, null, null, null, ...parameters];
  const takes = Math.max(...[...sql.matchAll(/\$(\d+)/g)].map(([, n]) => Number(n)));
  const { rows } = await client.query<Differing>({
    name: `compare ${name}`,
    text: sql,
    values: own.slice(0, takes),
  });
  return rows;
}

const made = new WeakMap<Merge, string>();

export function comparisonOf(merge: Merge): string {
  const sql = made.get(merge) ?? build(merge);
  made.set(merge, sql);
  return sql;
}

function build({ declared: { root, others, mentions } }: Merge): string {
  const short = shortName(root);
  const sets = mentions.filter(mention => mention.parent !== undefined);
  const ctes = [
    'given as (select $2::text as account, $3::text[] as parents, $4::text, $5::text, $6::text)',
    rowCte(root),
    // What hangs on the records is asked of those that are written: here, of all.
    `${short}_written as (select * from ${short}_row)`,
    ...others.map(rowCte),
    ...sets.map(mention => `${nameOf(mention)}_shown as materialized (${mention.rows})`),
  ];
  const parents = root.parent ? 'unnest($3::text[]) p (id)' : `${short}_row p`;
  const parts = [
    ...[root, ...others].map(differing),
    ...[root, ...others].filter(table => table.parent !== undefined).map(table => vanished(table, parents)),
    ...sets.map(mention => relation(mention, parents)),
  ];
  return `with ${ctes.join(',\n')}\n${parts.join('\nunion all\n')}`;
}

/** Records of the page beside their rows. */
function differing(table: Table): string {
  const short = shortName(table);
  const columns = table.columns.filter(({ name }) => name !== 'id');
  const values = columns.map(({ name }) => `('${name}', to_jsonb(t.${name}), to_jsonb(r.${name}))`);
  const payload = (of: string) =>
    `jsonb_each(case when t._payload <> r._payload and jsonb_typeof(${of}._payload) = 'object' then ${of}._payload else '{}' end)`;
  return `select r.${table.parent ?? 'id'} as root, '${short}' as of, r.id, d.at, d.field, d.ours, d.theirs
from ${short}_row r
left join lateral (
  select * from ${table.name} t where ${sameKey(['id'], 'r')} and t._deleted_at is null order by t.id offset 0) t on true
cross join lateral (
  select 'row' as at, 'row' as field, null::jsonb as ours, r._payload as theirs where t.id is null
  union all
  select 'column', c.field, c.ours, c.theirs from (values ${values.join(', ')}) c (field, ours, theirs)
  where t.id is not null and c.ours is distinct from c.theirs
  union all
  select 'payload', coalesce(o.key, s.key), o.value, s.value
  from ${payload('t')} o full join ${payload('r')} s on s.key = o.key
  where t.id is not null and o.value is distinct from s.value) d`;
}

/** Rows of these parents that the page does not show. */
function vanished(table: Table, parents: string): string {
  const short = shortName(table);
  return `select t.${table.parent} as root, '${short}' as of, t.id, 'row' as at, 'row' as field, t._payload as ours, null::jsonb as theirs
from ${parents}
cross join lateral (
  select * from ${table.name} t
  where ${sameKey([table.parent!], 'p', ['id'])} and t._deleted_at is null order by t.${table.parent} offset 0) t
where not exists (select from ${short}_row r where r.id = t.id)`;
}

function relation(mention: Mention, parents: string): string {
  const other = mention.key.find(name => name !== mention.parent)!;
  const all = (from: string) =>
    `(select coalesce(jsonb_agg(distinct x.${other} order by x.${other}), '[]') as ids from ${from} x`;
  const here = `(select * from ${mention.name} t where ${sameKey([mention.parent!], 'p', ['id'])} order by t.${mention.parent} offset 0)`;
  return `select p.id as root, '${nameOf(mention)}' as of, p.id, 'set' as at, '${nameOf(mention)}' as field, o.ids as ours, s.ids as theirs
from ${parents}
cross join lateral ${all(here)}) o
cross join lateral ${all(`${nameOf(mention)}_shown`)} where x.${mention.parent} = p.id) s
where o.ids <> s.ids`;
}

const nameOf = (mention: Mention) => mention.name.replace(/^.*\./, '');
