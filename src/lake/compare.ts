/** Compares the lake with the warehouse, row by row, at one moment. */
import type { Client } from '../engine/database/pool.ts';
import type { Lake } from './duckdb.ts';
import { readColumns } from './export.ts';
import { inLake, type LakeTable, literal, name, selection } from './table.ts';

export interface Difference {
  readonly table: string;
  /** Rows that only the warehouse has, and rows that only the lake has. A changed row is in both. */
  readonly missing: number;
  readonly extra: number;
}

export async function differing(lake: Lake, client: Client, tables: readonly LakeTable[]): Promise<Difference[]> {
  const columns = await readColumns(client, tables);
  const found: Difference[] = [];
  await lake.run('begin');
  try {
    for (const table of tables) {
      const listed = columns.get(table.name)!.map(column => name(column.name));
      const there = `select ${listed.join(', ')} from postgres_query('warehouse', ${literal(selection(table, columns.get(table.name)!, {}))})`;
      const here = `select ${listed.join(', ')} from ${inLake(table)}`;
      const [row] = await lake.rows<{ missing: number; extra: number }>(
        `select (select count(*) from (${there} except all ${here}))::int as missing,
           (select count(*) from (${here} except all ${there}))::int as extra`,
      );
      if (row!.missing + row!.extra > 0) found.push({ table: table.name, ...row! });
    }
  } finally {
    await lake.run('rollback');
  }
  return found;
}
