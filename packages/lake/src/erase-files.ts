/**
 * Takes erased values out of the files of the lake, also out of those that only old snapshots have. A file keeps its rows
 * and their order, because the lake names deleted rows by their place. So old snapshots stay, and are the warehouse of
 * their time, but for what was erased since: the personal values of erased people and of all rows of their tickets, and
 * those of each row from which the erasure took a value.
 *
 * The catalog is the one of DuckLake 1.0 (https://ducklake.select/docs/stable/specification/tables/overview).
 */
import type { Client } from '../../../src/engine/database/pool.ts';
import type { LakeTable } from '../../../src/lake/table.ts';
import type { Lake } from './duckdb.ts';
import { accountOf, idIn, literal, monthColumn, name } from './table.ts';

interface Erased {
  /** The unit of a table, or the name of a table for one row of it, whatever record the row belonged to. */
  readonly unit: string;
  readonly account: string;
  readonly id: string;
}

interface File {
  readonly id: string;
  /** Folder and name, as DuckDB opens it. */
  readonly path: string;
  readonly folder: string;
}

/** Files in one statement. */
const chunk = 500;

/** The unit of an account whose stored values field rules have rewritten. */
const ruled = 'rules';

export interface Erasure {
  readonly files: number;
  /** Field rules have rewritten values of any table: after the export only its own snapshot may stay (`keepNewest`). */
  readonly ruled: boolean;
  /** The snapshot of PostgreSQL whose erasures are done. */
  readonly seen: string;
}

/** Nobody else may write to the lake meanwhile. `client` must not be in a transaction. */
export async function eraseFromFiles(lake: Lake, client: Client, tables: readonly LakeTable[]): Promise<Erasure> {
  await client.query('begin isolation level repeatable read read only');
  const seen = await client.query<{ seen: string }>('select pg_current_snapshot()::text as seen');
  const erased = await client.query<Erased>(
    'select distinct unit, account_id as account, id from sync.lake_pending where erased',
  );
  await client.query('commit');
  const isRuled = erased.rows.some(({ unit }) => unit === ruled);
  let files = 0;
  for (const table of tables) {
    if (table.personal === undefined) continue;
    const records = erased.rows.filter(({ unit }) => unit === table.unit);
    // The unit of a further source's table, as billing.lines, is the table.
    const isUnit = table.unit.includes('.');
    const rows = isUnit ? [] : erased.rows.filter(({ unit }) => unit === table.name.split('.')[1]);
    if (records.length + rows.length > 0) files += await eraseFromTable(lake, client, table, { records, rows });
  }
  if (erased.rows.length > 0) {
    await lake.run(`call ducklake_cleanup_old_files('lake', cleanup_all => true)`);
    // What a dead export has left.
    await lake.run(`call ducklake_delete_orphaned_files('lake', cleanup_all => true)`);
  }
  return { files, ruled: isRuled, seen: seen.rows[0]!.seen };
}

async function eraseFromTable(
  lake: Lake,
  client: Client,
  table: LakeTable,
  erased: { readonly records: readonly Erased[]; readonly rows: readonly Erased[] },
): Promise<number> {
  for (const [kind, all] of Object.entries(erased)) {
    const values = all.map(({ account, id }) => `(${literal(account)}, ${literal(id)})`);
    await lake.run(
      `create or replace temp table erased_${kind} as
       select * from (values (null::varchar, null::varchar)${values.map(value => `, ${value}`).join('')}) v (account, id) where account is not null`,
    );
  }
  const account = accountOf(table);
  const isErased = `((${account}, ${idIn(table)}) in (select account, id from erased_records)
    or (${account}, ${name(table.key[0]!)}) in (select account, id from erased_rows))`;
  const accounts = new Set([...erased.records, ...erased.rows].map(one => one.account));
  const files = await filesOf(client, table, [...accounts]);
  let cleared = 0;
  for (let i = 0; i < files.length; i += chunk) {
    const some = files.slice(i, i + chunk);
    const paths = some.map(({ path }) => literal(path)).join(', ');
    const holding = await lake.rows<Holding>(
      `select filename as path, ${account} as account, ${idIn(table)} as id, ${table.byMonth ? monthColumn : 'null::date'} as month
       from read_parquet([${paths}], filename = true, hive_partitioning = false, union_by_name = true)
       where ${isErased} group by all`,
    );
    await noteLoss(client, table, holding);
    for (const path of new Set(holding.map(one => one.path))) {
      await rewrite(lake, client, table, some.find(file => file.path === path)!, isErased);
      cleared++;
    }
  }
  return cleared;
}

/** The records of the rows that a file is about to lose values of. */
interface Holding {
  readonly path: string;
  readonly account: string;
  readonly id: string;
  readonly month: string | null;
}

/** The newest snapshot may lose values that the warehouse has: the next export gives them again. */
async function noteLoss(client: Client, table: LakeTable, holding: readonly Holding[]): Promise<void> {
  const of = (key: 'account' | 'id' | 'month') => holding.map(one => one[key]);
  await client.query(
    `insert into sync.lake_pending (unit, account_id, id, month)
     select distinct $1, u.account, u.id, u.month from unnest($2::text[], $3::text[], $4::date[]) u (account, id, month)`,
    [table.unit, of('account'), of('id'), of('month')],
  );
}

/** The files of a table, of all snapshots, that may have rows of these accounts. */
async function filesOf(client: Client, table: LakeTable, accounts: readonly string[]): Promise<File[]> {
  const [schema, relation] = table.name.split('.');
  const { rows } = await client.query<File>(
    `select f.id, m.value || s.path || t.path || f.folder || f.file as path, m.value || s.path || t.path || f.folder as folder
     from (
       select d.data_file_id as id, d.table_id, coalesce(substring(d.path from '^.*/'), '') as folder, substring(d.path from '[^/]*$') as file
       from lake.ducklake_data_file d
       where not exists (
         select from lake.ducklake_file_column_stats b
         join lake.ducklake_column c on (c.table_id, c.column_id) = (b.table_id, b.column_id) and c.column_name = $4
         where b.data_file_id = d.data_file_id and not exists (
           select from unnest($3::text[]) a (account) where a.account collate "C" between b.min_value and b.max_value))) f
     join lake.ducklake_table t on t.table_id = f.table_id and t.table_name = $2
     join lake.ducklake_schema s on s.schema_id = t.schema_id and s.schema_name = $1
     cross join (select value from lake.ducklake_metadata where key = 'data_path') m
     order by f.id`,
    [schema, relation, accounts, table.account ?? 'account_id'],
  );
  return rows;
}

/** What DuckDB tells of a file that it has written. */
interface Written {
  readonly file_size_bytes: string;
  readonly footer_size_bytes: string;
  readonly column_statistics: readonly {
    readonly key: string;
    readonly value: readonly { readonly key: string; readonly value: string }[];
  }[];
}

const nullsIn = ({ column_statistics: columns }: Written, column: string): string | undefined =>
  columns.find(({ key }) => key === name(column))?.value.find(({ key }) => key === 'null_count')?.value;

async function rewrite(lake: Lake, client: Client, table: LakeTable, file: File, isErased: string): Promise<void> {
  const from = `read_parquet(${literal(file.path)}, hive_partitioning = false)`;
  const columns = await lake.rows<{ column_name: string }>(`describe select * from ${from}`);
  const personal = table.personal!.filter(one => columns.some(({ column_name }) => column_name === one));
  const emptied = personal.map(one => `case when ${isErased} then null else ${name(one)} end as ${name(one)}`);
  const [fresh] = await lake.rows<{ id: string }>('select uuid()::varchar as id');
  const to = `${file.folder}ducklake-${fresh!.id}.parquet`;
  const [written] = await lake.rows<Written>(
    `copy (select * replace (${emptied.join(', ')}) from ${from}) to ${literal(to)}
     (format parquet, compression zstd, return_stats, field_ids ${await fieldIds(lake, file)})`,
  );
  await client.query('begin');
  try {
    await client.query(
      `update lake.ducklake_data_file
       set path = left(path, length(path) - length(substring(path from '[^/]*$'))) || $2, file_size_bytes = $3, footer_size = $4
       where data_file_id = $1`,
      [file.id, to.slice(file.folder.length), written!.file_size_bytes, written!.footer_size_bytes],
    );
    // By these counts an engine may skip the file for `is null`.
    await client.query(
      `update lake.ducklake_file_column_stats s set null_count = w.nulls, value_count = d.record_count - w.nulls
       from unnest($2::text[], $3::bigint[]) w (name, nulls), lake.ducklake_data_file d, lake.ducklake_column c
       where d.data_file_id = $1 and s.data_file_id = $1 and c.table_id = s.table_id and c.column_id = s.column_id and c.column_name = w.name`,
      [file.id, personal, personal.map(one => nullsIn(written!, one))],
    );
    await client.query(
      `insert into lake.ducklake_files_scheduled_for_deletion (data_file_id, path, path_is_relative, schedule_start)
       values ($1, $2, false, now())`,
      [file.id, file.path],
    );
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  }
}

/**
 * The catalog has the least and the greatest value of each column of a file. Of personal columns it gets bounds that are true of
 * all texts, and tell nothing; of other types none. Of each table it has whether a column has nulls: personal ones may, in
 * old files. After each export and each tidying, because DuckLake writes what is true of the files.
 */
export async function hideBounds(client: Client, tables: readonly LakeTable[]): Promise<void> {
  const personal = tables.flatMap(table => (table.personal ?? []).map(column => `${table.name}.${column}`));
  await hideIn(client, 'ducklake_file_column_stats', personal);
  await hideInTables(client, personal);
}

const hideInTables = (client: Client, columns?: readonly string[]) =>
  hideIn(client, 'ducklake_table_column_stats', columns, {
    set: ', contains_null = true',
    unlike: 'contains_null is not true',
  });

/** Without `columns`: of all. */
const hideIn = (
  client: Client,
  stats: string,
  columns?: readonly string[],
  { set = '', unlike = 'false' }: { set?: string; unlike?: string } = {},
) =>
  client.query(
    `update lake.${stats} s set min_value = b.least, max_value = b.most${set}
     from lake.ducklake_column c
     join lake.ducklake_table t on t.table_id = c.table_id
     join lake.ducklake_schema n on n.schema_id = t.schema_id
     cross join lateral (
       select case when u.is_text then '' end as least, case when u.is_text then repeat(chr(1114111), 8) end as most
       from (select c.column_type in ('varchar', 'json') as is_text) u) b
     where c.table_id = s.table_id and c.column_id = s.column_id
       and ($1::text[] is null or n.schema_name || '.' || t.table_name || '.' || c.column_name = any ($1))
       and (${unlike} or num_nonnulls(s.min_value, s.max_value) > 0 and (s.min_value, s.max_value) is distinct from (b.least, b.most))`,
    [columns ?? null],
  );

/**
 * Makes the newest snapshot the only one, and deletes all that it does not need: files of older snapshots, rows that its files
 * have and it does not, and bounds of columns. Queries that have begun may lose their files.
 */
export async function keepNewest(lake: Lake, client: Client): Promise<void> {
  await lake.run(`call ducklake_rewrite_data_files('lake', delete_threshold => 0)`);
  await lake.run(`call ducklake_expire_snapshots('lake', older_than => now() + interval 1 day)`);
  await lake.run(`call ducklake_cleanup_old_files('lake', cleanup_all => true)`);
  await lake.run(`call ducklake_delete_orphaned_files('lake', cleanup_all => true)`);
  // The bounds of a table only grow.
  await hideInTables(client);
}

/** By its field id the lake knows a column of a file. */
async function fieldIds(lake: Lake, file: File): Promise<string> {
  const fields = await lake.rows<{ name: string; field_id: string | null; num_children: string | null }>(
    `select name, field_id, num_children from parquet_schema(${literal(file.path)})`,
  );
  const found = fields.flatMap(({ name: column, field_id: id, num_children: children }, i) => {
    if (id === null || column === 'element') return [];
    if (children === null) return [`${name(column)}: ${id}`];
    return [`${name(column)}: {__duckdb_field_id: ${id}, element: ${fields[i + 2]!.field_id}}`];
  });
  return `{${found.join(', ')}}`;
}
