/** Tombstones of records, and of their parts: a part dies with its record, and comes back with it. */
import { keepChanges, rowsOf } from '../commit/merge.ts';
import type { Writer } from '../commit/page.ts';
import type { Client } from '../database/pool.ts';
import type { Ms } from '../reading/reading.ts';
import { type Mortal, partsOf, tombstoneOf } from './row-facts.ts';

/** When the records were gone. Rows that a reply of `beforeMs` or later has written stay. */
export interface GoneAt {
  readonly goneMs: Ms;
  readonly beforeMs: Ms;
  readonly nowMs: Ms;
  /** The source may show a deletion this much later. */
  readonly lookbackMs: number;
}

/** Returns the number of records. */
export async function bury(
  client: Client,
  { account, run }: Pick<Writer, 'account' | 'run'>,
  stream: Mortal,
  ids: readonly string[],
  { goneMs, beforeMs, nowMs, lookbackMs }: GoneAt,
): Promise<number> {
  const [gone, now] = [new Date(goneMs), new Date(nowMs)];
  const { rows } = await client.query<{ id: string }>(
    `update ${stream.merge.declared.root.name} set _deleted_at = $3, _synced_at = $4${tombstoneOf(stream, lookbackMs)}
     where account_id = $1 and id = any ($2) and _deleted_at is null and _observed_at < $5
     returning id, ${keepChanges('$4', 'null', '$6')}`,
    [account, ids, gone, now, new Date(beforeMs), run],
  );
  const buried = rows.map(({ id }) => id);
  for (const { table, parent } of partsOf(stream))
    if (buried.length > 0)
      await client.query(
        `update ${rowsOf(table)} set _deleted_at = $3, _synced_at = $4
         where account_id = $1 and ${parent} = any ($2) and _deleted_at is null`,
        [account, buried, gone, now],
      );
  return buried.length;
}
