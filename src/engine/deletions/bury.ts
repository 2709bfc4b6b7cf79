/** Tombstones of records that are read whole, and of their parts: a part dies with its record, and comes back with it. */
import { type Declared, keepChanges, rowsOf } from '../commit/merge.ts';
import type { Client } from '../database/pool.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';

/** When the records were gone. Rows that a reply of `beforeMs` or later has written stay. */
export interface GoneAt {
  readonly goneMs: Ms;
  readonly beforeMs: Ms;
  readonly nowMs: Ms;
}

/** Returns the number of records. */
export async function bury(
  client: Client,
  { account, run }: Pick<Claim, 'account' | 'run'>,
  { root, others }: Declared,
  ids: readonly string[],
  { goneMs, beforeMs, nowMs }: GoneAt,
): Promise<number> {
  const [gone, now] = [new Date(goneMs), new Date(nowMs)];
  const { rows } = await client.query<{ id: string }>(
    `update ${root.name} set _deleted_at = $3, _synced_at = $4
     where account_id = $1 and id = any ($2) and _deleted_at is null and _observed_at < $5
     returning id, ${keepChanges('$4', 'null', '$6')}`,
    [account, ids, gone, now, new Date(beforeMs), run],
  );
  const buried = rows.map(({ id }) => id);
  for (const table of others)
    if (table.parent !== undefined && buried.length > 0)
      await client.query(
        `update ${rowsOf(table)} set _deleted_at = $3, _synced_at = $4
         where account_id = $1 and ${table.parent} = any ($2) and _deleted_at is null`,
        [account, buried, gone, now],
      );
  return buried.length;
}
