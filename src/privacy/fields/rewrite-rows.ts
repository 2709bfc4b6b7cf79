/** Field rules on rows: records with their columns, histories, and old values in sync.changes. */

import type pg from 'pg';
import { type Column, fieldOf, pathOf, rowsOf, without } from '../../engine/commit/merge.ts';
import type { Client } from '../../engine/database/pool.ts';
import { query, raw, sql } from '../../engine/database/sql.ts';
import { parseJson } from '../../engine/exact-json.ts';
import { fieldsOf, objectOf } from '../../engine/json-text.ts';
import type { DetailStream, Row } from '../../sources/source.ts';
import { type Batch, nextRange, type Place, type Rewriting, stepThrough } from './batches.ts';
import { type FieldRules, isRuled, ruledValue, ruledValues, type Stored } from './field-rules.ts';
import { isDerived, readsRecord, readsRuled, ruledRecord, same } from './ruled-texts.ts';

export interface Kept {
  readonly kind: string;
  readonly table: Stored;
  /** The stream whose records are members of others, and which derives a column of them. */
  readonly detail?: DetailStream<Row, Row>;
}

export async function rewriteRows(
  client: Client,
  account: string,
  of: FieldRules,
  { kind, table, detail }: Kept,
  { after, now }: { after: Place; now: Date },
): Promise<Batch> {
  const key = table.key ?? ['id'];
  const apart = table.columns.filter(one => one.apart && readsRecord(one) && !isDerived(one));
  const sizes = ['_payload', ...apart.map(({ name }) => name)].map(name => `coalesce(pg_column_size(t.${name}), 0)`);
  // A label without a name has no record.
  const range = await nextRange(
    client,
    account,
    { rows: rowsOf(table), key, size: sizes.join(' + '), where: 't._payload is not null' },
    after,
  );
  if (range === undefined) return { seen: 0, changed: 0, last: undefined };
  const { rows } = await client.query<{ place: string; record: string }>(
    `select t.ctid::text as place, (${recordOf(table, apart)})::text as record from ${rowsOf(table)} t
     where ${range.where} order by ${key.map(name => `t.${name}`).join(', ')} for update`,
    [...range.values],
  );
  const changed = rows.flatMap(row => {
    const record = ruledRecord(of, kind, row.record);
    return same(record, row.record) ? [] : [{ place: row.place, record, was: row.record }];
  });
  if (changed.length > 0) {
    const derived = await Promise.all(changed.map(({ record, was }) => derivedOf(detail, record, was)));
    const columns = table.columns.filter(
      one => readsRecord(one) && !key.includes(one.name) && (!isDerived(one) || detail !== undefined),
    );
    // The only parameter of a merge that its columns read from a record is what the stream derives.
    const sqlOf = ({ sql }: Column) => sql.replaceAll('$8', '$3');
    const valueSql = (one: Column) =>
      isDerived(one) ? `case when r.derived then r.${one.name} else t.${one.name} end` : `r.${one.name}`;
    await client.query(
      `update ${rowsOf(table)} t set ${columns.map(one => `${one.name} = ${valueSql(one)}, `).join('')}_payload = r._payload, _synced_at = $4
       from (select e.place, ($5::boolean[])[n] as derived, ${columns.map(one => `${sqlOf(one)} as ${one.name}, `).join('')}${without(table.leftOut ?? [])} as _payload
         from unnest($1::tid[], $2::jsonb[]) with ordinality as e (place, record, n)) r
       where t.ctid = r.place and $3::text[] is not null`,
      [
        changed.map(({ place }) => place),
        changed.map(({ record }) => record),
        derived.map(one => one?.value ?? null),
        now,
        derived.map(one => one !== undefined),
      ],
    );
  }
  return { seen: rows.length, changed: changed.length, last: range.last };
}

/** SQL: `_payload` with what its row has in columns only. */
function recordOf({ columns }: Stored, apart: readonly Column[]): string {
  const fields = apart.map(one => `'${fieldOf(one)}', t.${one.name}`).join(', ');
  const record = `t._payload${fields && ` || jsonb_strip_nulls(jsonb_build_object(${fields}))`}`;
  return columns.reduce((sql, { name, unstored }) => {
    if (unstored === undefined) return sql;
    const value = `jsonb_build_object('${unstored.at(-1)}', t.${name})`;
    return `case when t.${name} is null then ${sql} else jsonb_set(${sql}, '{${unstored.slice(0, -1).join(',')}}', ${value}) end`;
  }, record);
}

/** Undefined: the row keeps its derived value, because no field that it comes from has changed. */
async function derivedOf(
  detail: Kept['detail'],
  record: string,
  was: string,
): Promise<{ value: string | null } | undefined> {
  if (detail === undefined) return undefined;
  const [fields, before] = [fieldsOf(record), fieldsOf(was)];
  if (detail.derivesFrom.every(name => fields.get(name) === before.get(name))) return undefined;
  const { value } = await detail.derive(parseJson(record) as Row);
  return { value: typeof value === 'string' ? value : null };
}

/** Tables with values of the fields of a kind. */
export async function rewriteHistories(at: Rewriting, of: FieldRules, add: (table: string, rows: number) => void) {
  for (const [kind, { histories = [] }] of Object.entries(of.kinds))
    for (const { table, columns } of histories) {
      const ruled = columns.filter(column => isRuled(of, kind, column));
      if (ruled.length === 0) continue;
      const history = { kind, table, key: await primaryKey(at.db, table), columns: ruled };
      add(table, await stepThrough(at, (client, after) => rewriteHistory(client, at.account, of, history, after)));
    }
}

/** Columns of the primary key, without the account. */
const primaryKey = (db: pg.Pool, table: string): Promise<string[]> =>
  query(db).values`
    select a.attname as name from pg_index i cross join unnest(i.indkey::smallint[]) with ordinality k (number, n)
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
    where i.indrelid = ${table}::regclass and i.indisprimary and a.attname <> 'account_id' order by k.n`;

async function rewriteHistory(
  client: Client,
  account: string,
  of: FieldRules,
  { kind, table, key, columns }: { kind: string; table: string; key: readonly string[]; columns: readonly string[] },
  after: Place,
): Promise<Batch> {
  const where = `num_nonnulls(${columns.map(name => `t.${name}`).join(', ')}) > 0`;
  const range = await nextRange(client, account, { rows: table, key, size: '0', where }, after);
  if (range === undefined) return { seen: 0, changed: 0, last: undefined };
  const { rows } = await client.query<{ place: string; values: string }>(
    `select t.ctid::text as place, jsonb_build_object(${columns.map(name => `'${name}', t.${name}`).join(', ')})::text as values
     from ${table} t where ${range.where} for update`,
    [...range.values],
  );
  const changed = rows.flatMap(({ place, values }) => {
    const left = [...fieldsOf(values)].map(([name, value]): [string, string] => [
      name,
      ruledValue(of, kind, name, value) ?? 'null',
    ]);
    const text = objectOf(left);
    return same(text, values) ? [] : [{ place, text }];
  });
  await client.query(sql`
    update ${raw(table)} t set ${raw(columns.map(name => `${name} = v.${name}`).join(', '))}
    from unnest(${changed.map(({ place }) => place)}::tid[], ${changed.map(({ text }) => text)}::jsonb[]) r (place, record),
      jsonb_populate_record(null::${raw(table)}, r.record) v where t.ctid = r.place`);
  return { seen: rows.length, changed: changed.length, last: range.last };
}

/**
 * Rewrites old values in sync.changes. Any rule for the path of a nested column removes all old values of the column.
 * Columns that come from no record stay: tombstones, and the parent of a member.
 */
export async function rewriteChanges(
  client: Client,
  account: string,
  of: FieldRules,
  tables: readonly Kept[],
  after: Place,
): Promise<Batch> {
  const named = new Map(tables.map(one => [one.table.name, one]));
  const range = await nextRange(
    client,
    account,
    {
      ...{ rows: 'sync.changes', key: ['id'], size: 'pg_column_size(t.changes)' },
      ...{ where: `t.source || '.' || t.table_name = any ($2)`, values: [[...named.keys()]] },
    },
    after,
  );
  if (range === undefined) return { seen: 0, changed: 0, last: undefined };
  const { rows } = await client.query<{ id: number; name: string; changes: string }>(
    `select t.id::float8 as id, t.source || '.' || t.table_name as name, t.changes::text from sync.changes t where ${range.where} for update`,
    [...range.values],
  );
  const { rows: own } = await client.query<{ name: string; columns: string[] }>(sql`
    select t.name, array(select a.attname::text from pg_attribute a where a.attrelid = t.rows::regclass and a.attname like '\\_%') as columns
    from unnest(${[...named.keys()]}::text[], ${tables.map(({ table }) => rowsOf(table))}::text[]) t (name, rows)`);
  const ours = new Map(own.map(({ name, columns }) => [name, columns]));
  const changed = rows.flatMap(({ id, name, changes }) => {
    const { kind, table } = named.get(name)!;
    const left = [...fieldsOf(changes)].flatMap(([column, values]): [string, string][] => {
      const one = table.columns.find(({ name }) => name === column);
      if (one === undefined && ours.get(name)!.includes(column)) return [[column, values]];
      if (one && !readsRecord(one)) return [[column, values]];
      if (one && isDerived(one)) return readsRuled(of, kind, one) ? [] : [[column, values]];
      const path = one ? pathOf(one) : [column];
      if (path.length > 1) return isRuled(of, kind, ...path) ? [] : [[column, values]];
      const ruled = ruledValues(of, kind, path[0]!, values);
      return ruled === undefined ? [] : [[column, ruled]];
    });
    const text = objectOf(left);
    return same(text, changes) ? [] : [{ id, text }];
  });
  await client.query(sql`
    update sync.changes c set changes = r.changes
      from unnest(${changed.map(({ id }) => id)}::bigint[], ${changed.map(({ text }) => text)}::jsonb[]) r (id, changes) where c.id = r.id`);
  return { seen: rows.length, changed: changed.length, last: range.last };
}
