/**
 * Builds the SQL of a comparison from the declaration of a merge: a page of records against the stored rows, column by
 * column and `_payload` field by field, with members and relations. It writes nothing.
 *
 * Parameters of every comparison: $1 the page as JSON text, $2 account, $3 the parents whose sets are complete in the
 * page, if it holds members, $4 as_of of the reply, $5 now; $8… parameters of the table.
 */

import type { Declared, Merge, Table } from '../commit/merge.ts';
import { isAhead, keyOf, named, nameOf, rowCte, rowsOf, sameKey, shortName } from '../commit/merge.ts';
import { type Client, eachDigit } from '../database/pool.ts';
import type { Ms } from '../reading/reading.ts';

/** One field in which a record and its row differ. */
export interface Differing {
  /** The record of the page, or the parent of its members. */
  readonly root: string;
  /** The table, without its schema, and the id there. */
  readonly of: string;
  readonly id: string;
  /** A whole row that one side lacks; a column; a field of `_payload`. */
  readonly at: 'row' | 'column' | 'payload';
  readonly field: string;
  readonly ours: unknown;
  readonly theirs: unknown;
}

/** A merge, or the declaration of rows that another statement writes. */
export type Compared = Pick<Merge, 'declared'>;

export interface Asked {
  readonly account: string;
  readonly parents?: readonly string[] | undefined;
  /** As-of time of the reply by the source's clock; now by ours. */
  readonly asOfMs: Ms;
  readonly nowMs: Ms;
}

export async function compare(
  client: Pick<Client, 'query'>,
  merge: Compared,
  { account, parents = [], asOfMs, nowMs }: Asked,
  { text, parameters }: { text: string; parameters: readonly unknown[] },
): Promise<Differing[]> {
  const sql = comparisonOf(merge);
  const own = [text, account, parents, new Date(asOfMs), new Date(nowMs), null, null, ...parameters];
  const takes = Math.max(...[...sql.matchAll(/\$(\d+)/g)].map(([, n]) => Number(n)));
  const { rows } = await client.query<Differing>({
    name: `compare ${nameOf(merge)}`,
    text: sql,
    values: own.slice(0, takes),
    types: eachDigit,
  });
  return rows;
}

const made = new WeakMap<Compared, string>();

function comparisonOf(merge: Compared): string {
  const sql = made.get(merge) ?? build(merge);
  made.set(merge, sql);
  return sql;
}

function build({ declared: { root, others } }: { declared: Declared }): string {
  const short = shortName(root);
  const ctes = [
    'given as (select $2::text as account, $3::text[] as parents, $4::timestamptz, $5::timestamptz, $6::text, $7::text)',
    rowCte(root),
    // A merge looks at the members of written records; a comparison looks at all.
    `${short}_written as (select * from ${short}_row)`,
    ...others.map(rowCte),
  ];
  const parents = root.parent ? 'unnest($3::text[]) p (id)' : `${short}_row p`;
  const parts = [
    ...[root, ...others].map(differing),
    ...[root, ...others].filter(table => table.parent !== undefined).map(table => vanished(table, parents)),
  ];
  return `with ${ctes.join(',\n')}\n${parts.join('\nunion all\n')}`;
}

const tombstoneOf = ({ tombstone = '_deleted_at' }: Table) => tombstone;
const idOf = (table: Table) => keyOf(table).at(-1)!;

/** SQL: the root record of a row of the page or of the table. */
function rootOf(table: Table, row: string): string {
  const key = keyOf(table);
  if (table.parent !== undefined && !key.includes(table.parent)) return `${row}.${table.parent}`;
  const names = table.parent === undefined ? key : key.slice(0, -1);
  return names.map(name => `${row}.${name}`).join(` || '/' || `);
}

/** Columns of our own, and the SQL of the value that a live row must have. */
const ownColumns = (table: Table): [name: string, sql: string][] => [
  ...(table.ofTombstone ?? []).map((name): [string, string] => [name, 'null::timestamptz']),
  ...Object.entries(table.ours ?? {}),
  ['_observed_at', `case when not ${isAhead('t._observed_at', '$4::timestamptz')} then t._observed_at end`],
  ['_synced_at', `case when not ${isAhead('t._synced_at', '$5::timestamptz')} then t._synced_at end`],
];

/** Joins the records of the page with their rows. */
function differing(table: Table): string {
  const short = shortName(table);
  const key = keyOf(table);
  const columns = table.columns.filter(({ name }) => !key.includes(name));
  const value = (name: string, ours: string, theirs: string, differs: string) =>
    `('${name}', to_jsonb(${ours}), to_jsonb(${theirs}), ${differs})`;
  const values = [
    ...columns.map(({ name, alike = (sql: string) => `to_jsonb(${sql})` }) =>
      value(name, `t.${name}`, `r.${name}`, `${alike(`t.${name}`)} is distinct from ${alike(`r.${name}`)}`),
    ),
    ...ownColumns(table).map(([name, sql]) => value(name, `t.${name}`, sql, `t.${name} is distinct from (${sql})`)),
  ];
  const payload = (of: string) =>
    `jsonb_each(case when t._payload <> r._payload and jsonb_typeof(${of}._payload) = 'object' then ${of}._payload else '{}' end)`;
  return `select ${rootOf(table, 'r')} as root, '${short}' as of, r.${idOf(table)} as id, d.at, d.field, d.ours, d.theirs
from ${short}_row r
left join lateral (
  select * from ${rowsOf(table)} t where ${sameKey(key, 'r')} and t.${tombstoneOf(table)} is null order by t.${idOf(table)} offset 0) t on true
cross join lateral (
  select 'row' as at, 'row' as field, null::jsonb as ours, r._payload as theirs where t.account_id is null
  union all
  select 'column', c.field, c.ours, c.theirs from (values ${values.join(', ')}) c (field, ours, theirs, differs)
  where t.account_id is not null and c.differs
  union all
  select 'payload', coalesce(o.key, s.key), o.value, s.value
  from ${payload('t')} o full join ${payload('r')} s on s.key = o.key
  where t.account_id is not null and o.value is distinct from s.value) d`;
}

/** Rows of these parents that the page does not show. */
function vanished(table: Table, parents: string): string {
  const short = shortName(table);
  const parent = table.parent!;
  // The further key columns of the parent are the same for the whole page.
  const outer = keyOf(table)
    .slice(0, Math.max(0, keyOf(table).indexOf(parent)))
    .map(name => ` and t.${name} = ${table.columns.find(column => column.name === name)!.sql}`)
    .join('');
  return `select ${rootOf(table, 't')} as root, '${short}' as of, t.${idOf(table)} as id, 'row' as at, 'row' as field, t._payload as ours, null::jsonb as theirs
from ${parents}
cross join lateral (
  select * from ${rowsOf(table)} t
  where ${sameKey([parent], 'p', ['id'])}${outer} and t.${tombstoneOf(table)} is null order by t.${parent} offset 0) t
where not exists (select from ${short}_row r where (${named(table, 'r')}) = (${named(table, 't')}))`;
}
