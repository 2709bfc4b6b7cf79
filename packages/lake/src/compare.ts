/** Compares the lake with the warehouse, row by row, at one moment. */
import type { Client } from '../../../src/engine/database/pool.ts';
import type { LakeTable } from '../../../src/lake/table.ts';
import type { Lake } from './duckdb.ts';
import { readColumns } from './export.ts';
import { inLake, literal, name, selection } from './table.ts';

export interface Difference {
  readonly table: string;
  /** Rows that only the warehouse has, and rows that only the lake has. A changed row is in both. */
  readonly missing: number;
  readonly extra: number;
}

/** No export may run meanwhile. What the warehouse has changed since the last one differs. */
export async function compareLake(lake: Lake, client: Client, tables: readonly LakeTable[]): Promise<Difference[]> {
  const columns = await readColumns(client, tables);
  const found: Difference[] = [];
  await lake.run('begin');
  try {
    for (const table of tables) {
      const listed = columns.get(table.name)!.map(column => name(column.name));
      const here = listed.join(', ');
      const there = `postgres_query('warehouse', ${literal(selection(table, columns.get(table.name)!, {}))})`;
      const [row] = await lake.rows<{ missing: number; extra: number }>(
        `select coalesce(sum(n) filter (n > 0), 0)::int as missing, coalesce(-sum(n) filter (n < 0), 0)::int as extra
         from (
           select sum(n) as n from (
             select ${here}, 1 as n from ${there} union all select ${here}, -1 from ${inLake(table)})
           group by ${here})`,
      );
      if (row!.missing + row!.extra > 0) found.push({ table: table.name, ...row! });
    }
  } finally {
    await lake.run('rollback');
  }
  return found;
}
