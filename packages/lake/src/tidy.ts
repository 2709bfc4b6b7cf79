/** Removes snapshots that are too old, and joins small files. The rows of the kept snapshots stay as they are. */
import type { Lake } from './duckdb.ts';

/** A query that has begun reads its files to the end. */
const readingHours = 6;
/** Share of deleted rows from which on a file is written anew. */
const deletedShare = 0.3;

export async function tidy(lake: Lake, keepDays: number): Promise<void> {
  await lake.run(`call ducklake_expire_snapshots('lake', older_than => now() - interval ${keepDays} days)`);
  await lake.run(`call ducklake_rewrite_data_files('lake', delete_threshold => ${deletedShare})`);
  await lake.run(`call ducklake_merge_adjacent_files('lake')`);
  await lake.run(`call ducklake_cleanup_old_files('lake', older_than => now() - interval ${readingHours} hours)`);
  await lake.run(`call ducklake_delete_orphaned_files('lake', older_than => now() - interval ${readingHours} hours)`);
}
