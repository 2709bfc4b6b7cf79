import type { Client } from '../engine/database/pool.ts';
import type { Lake } from './duckdb.ts';
import type { LakeTable } from './table.ts';

export async function eraseFromFiles(
  _lake: Lake,
  _client: Client,
  _tables: readonly LakeTable[],
  _erased: readonly unknown[],
): Promise<number> {
  return 0;
}
