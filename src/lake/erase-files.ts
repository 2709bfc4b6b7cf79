/**
 * Takes erased values out of the files of the lake, also out of those that only old snapshots have. A file keeps its rows
 * and their order, because the lake names deleted rows by their place. So old snapshots stay, and are the warehouse of
 * their time, but for what was erased since.
 *
 * The catalog is the one of DuckLake 1.0 (https://ducklake.select/docs/stable/specification/tables/overview).
 */
import type { Client } from '../engine/database/pool.ts';
import { catalogSchema, type Lake } from './duckdb.ts';
import { accountOf, idIn, type LakeTable, literal, name } from './table.ts';

interface Unit {
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

export interface Erasure {
  readonly files: number;
  /** The snapshot of PostgreSQL whose erasures are done. */
  readonly seen: string;
}

/** Nobody else may write to the lake meanwhile. `client` must not be in a transaction. */
export async function eraseFromFiles(lake: Lake, client: Client, tables: readonly LakeTable[]): Promise<Erasure> {
  await client.query('begin isolation level repeatable read read only');
  const seen = await client.query<{ seen: string }>('select pg_current_snapshot()::text as seen');
  const units = await client.query<Unit>(
    `select distinct p.unit, p.account_id as account, p.id from sync.lake_pending p
     where p.xact in (select e.xact from sync.lake_pending e where e.erased)`,
  );
  await client.query('commit');
  let files = 0;
  for (const table of tables) {
    const erased = units.rows.filter(({ unit }) => unit === table.unit);
    if (table.personal === undefined || erased.length === 0) continue;
    files += await eraseFromTable(lake, client, table, erased);
  }
  if (units.rows.length > 0) {
    await lake.run(`call ducklake_cleanup_old_files('lake', cleanup_all => true)`);
    // What a dead export has left.
    await lake.run(`call ducklake_delete_orphaned_files('lake', cleanup_all => true)`);
  }
  return { files, seen: seen.rows[0]!.seen };
}

async function eraseFromTable(lake: Lake, client: Client, table: LakeTable, erased: readonly Unit[]): Promise<number> {
  const values = erased.map(({ account, id }) => `(${literal(account)}, ${literal(id)})`);
  await lake.run(`create or replace temp table erased as select * from (values ${values.join(', ')}) v (account, id)`);
  const isErased = `(${accountOf(table)}, ${idIn(table)}) in (select account, id from erased)`;
  const files = await filesOf(client, table, [...new Set(erased.map(({ account }) => account))]);
  let cleared = 0;
  for (let i = 0; i < files.length; i += chunk) {
    const some = files.slice(i, i + chunk);
    const paths = some.map(({ path }) => literal(path)).join(', ');
    const holding = await lake.rows<{ path: string }>(
      `select distinct filename as path
       from read_parquet([${paths}], filename = true, hive_partitioning = false, union_by_name = true) where ${isErased}`,
    );
    for (const { path } of holding) {
      await rewrite(lake, client, table, some.find(file => file.path === path)!, isErased);
      cleared++;
    }
  }
  return cleared;
}

/** The files of a table, of all snapshots, that may have rows of these accounts. */
async function filesOf(client: Client, table: LakeTable, accounts: readonly string[]): Promise<File[]> {
  const [schema, relation] = table.name.split('.');
  const { rows } = await client.query<File>(
    `select f.id, m.value || s.path || t.path || f.folder || f.file as path, m.value || s.path || t.path || f.folder as folder
     from (
       select d.data_file_id as id, d.table_id, coalesce(substring(d.path from '^.*/'), '') as folder, substring(d.path from '[^/]*$') as file
       from ${catalogSchema}.ducklake_data_file d
       where not exists (
         select from ${catalogSchema}.ducklake_file_partition_value p
         where p.data_file_id = d.data_file_id and p.partition_key_index = 0 and p.partition_value <> all ($3))) f
     join ${catalogSchema}.ducklake_table t on t.table_id = f.table_id and t.table_name = $2
     join ${catalogSchema}.ducklake_schema s on s.schema_id = t.schema_id and s.schema_name = $1
     cross join (select value from ${catalogSchema}.ducklake_metadata where key = 'data_path') m
     order by f.id`,
    [schema, relation, accounts],
  );
  return rows;
}

async function rewrite(lake: Lake, client: Client, table: LakeTable, file: File, isErased: string): Promise<void> {
  const from = `read_parquet(${literal(file.path)}, hive_partitioning = false)`;
  const columns = await lake.rows<{ column_name: string }>(`describe select * from ${from}`);
  const personal = table.personal!.filter(one => columns.some(({ column_name }) => column_name === one));
  const emptied = personal.map(one => `case when ${isErased} then null else ${name(one)} end as ${name(one)}`);
  const [fresh] = await lake.rows<{ id: string }>('select uuid()::varchar as id');
  const to = `${file.folder}ducklake-${fresh!.id}.parquet`;
  const [written] = await lake.rows<{ file_size_bytes: string; footer_size_bytes: string }>(
    `copy (select * replace (${emptied.join(', ')}) from ${from}) to ${literal(to)}
     (format parquet, compression zstd, return_stats, field_ids ${await fieldIds(lake, file)})`,
  );
  await client.query('begin');
  try {
    await client.query(
      `update ${catalogSchema}.ducklake_data_file
       set path = left(path, length(path) - length(substring(path from '[^/]*$'))) || $2, file_size_bytes = $3, footer_size = $4
       where data_file_id = $1`,
      [file.id, to.slice(file.folder.length), written!.file_size_bytes, written!.footer_size_bytes],
    );
    await client.query(
      `insert into ${catalogSchema}.ducklake_files_scheduled_for_deletion (data_file_id, path, path_is_relative, schedule_start)
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
 * all texts, and tell nothing. After each export, because DuckLake writes the bounds that it has in memory.
 */
export async function hideBounds(client: Client, tables: readonly LakeTable[]): Promise<void> {
  const personal = tables.flatMap(table => (table.personal ?? []).map(column => `${table.name}.${column}`));
  for (const stats of ['ducklake_file_column_stats', 'ducklake_table_column_stats'])
    await client.query(
      `update ${catalogSchema}.${stats} s set min_value = '', max_value = repeat(chr(1114111), 8)
       from ${catalogSchema}.ducklake_column c
       join ${catalogSchema}.ducklake_table t on t.table_id = c.table_id
       join ${catalogSchema}.ducklake_schema n on n.schema_id = t.schema_id
       where c.table_id = s.table_id and c.column_id = s.column_id and c.column_type in ('varchar', 'json')
         and n.schema_name || '.' || t.table_name || '.' || c.column_name = any ($1)
         and s.min_value is not null and s.max_value <> repeat(chr(1114111), 8)`,
      [personal],
    );
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
