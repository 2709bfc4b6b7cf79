/**
 * The files of the lake at one snapshot, for engines that read Parquet and know no DuckLake. The rows of a table are those of its data files without the places that the delete file of each names.
 */
import type pg from 'pg';
import { raw, sql } from '../engine/database/sql.ts';
import { UsageError } from '../errors.ts';
import { catalogSchema } from './table.ts';

interface DataFile {
  readonly path: string;
  readonly rows: number;
  /** A Parquet file with the places of deleted rows: column pos, from 0. Null if none is deleted. */
  readonly deletes: string | null;
  readonly deleted: number;
  /**
   * Set if one of the two files has later snapshots, too. In a file with the column _ducklake_internal_snapshot_id,
   * only rows up to this snapshot count.
   */
  readonly upTo: number | null;
}

export interface FilesOfTable {
  /** `safe.messages` */
  readonly table: string;
  readonly files: readonly DataFile[];
}

/** The newest snapshot, and all tables, unless named. Throws UsageError if there is no such snapshot or table. */
export async function listFiles(
  db: Pick<pg.ClientBase, 'query'>,
  { snapshot, tables = [] }: { snapshot?: number | undefined; tables?: readonly string[] } = {},
): Promise<{ snapshot: number; tables: readonly FilesOfTable[] }> {
  const made = await db.query(`select to_regclass('${catalogSchema}.ducklake_snapshot') is not null as made`);
  const { rows: known } = made.rows[0].made
    ? await db.query<{ id: number }>(sql`
      select snapshot_id::int as id from ${raw(catalogSchema)}.ducklake_snapshot where ${snapshot}::bigint is null or snapshot_id = ${snapshot}
      order by snapshot_id desc limit 1`)
    : { rows: [] };
  const id = known[0]?.id;
  if (id === undefined)
    throw new UsageError(
      snapshot === undefined ? 'the lake has no snapshot yet' : `the lake has no snapshot ${snapshot}`,
      snapshot === undefined
        ? 'Fill it with `npx shelfdesk lake export`.'
        : '`npx shelfdesk lake sql "from lake.snapshots()"` shows those that it has.',
    );
  const { rows } = await db.query<FilesOfTable>(listing, [id]);
  const unknown = tables.find(table => !rows.some(one => one.table === table));
  if (unknown !== undefined)
    throw new UsageError(`the lake has no table ${unknown}`, `It has ${rows.map(one => one.table).join(', ')}.`);
  return { snapshot: id, tables: rows.filter(one => tables.length === 0 || tables.includes(one.table)) };
}

/** $1 is the snapshot. */
const at = (alias: string): string =>
  `$1 >= ${alias}.begin_snapshot and ($1 < ${alias}.end_snapshot or ${alias}.end_snapshot is null)`;

const path = (alias: string): string =>
  `case when ${alias}.path_is_relative then m.value || s.path || t.path else '' end || ${alias}.path`;

const listing = `
  select s.schema_name || '.' || t.table_name as "table",
    coalesce(json_agg(json_build_object('path', ${path('f')}, 'rows', f.record_count,
      'deletes', ${path('d')}, 'deleted', coalesce(d.delete_count, 0),
      'upTo', case when greatest(f.partial_max, d.partial_max) > $1 then $1 end) order by f.data_file_id)
      filter (where f.data_file_id is not null), '[]') as files
  from ${catalogSchema}.ducklake_table t
  join ${catalogSchema}.ducklake_schema s on s.schema_id = t.schema_id
  cross join (select value from ${catalogSchema}.ducklake_metadata where key = 'data_path') m
  left join ${catalogSchema}.ducklake_data_file f on f.table_id = t.table_id and ${at('f')}
  left join ${catalogSchema}.ducklake_delete_file d on d.data_file_id = f.data_file_id and ${at('d')}
  where ${at('t')}
  group by 1
  order by 1`;
