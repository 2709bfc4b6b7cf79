/** Tombstones of records, and of their parts: a part dies with its record, and comes back with it. */
import type { Part } from '../../sources/source.ts';
import { keepChanges, rowsOf, type Table } from '../commit/merge.ts';
import type { Writer } from '../commit/page.ts';
import { settle } from '../commit/rejects.ts';
import type { Client } from '../database/pool.ts';
import { raw, sql } from '../database/sql.ts';
import type { StreamKey } from '../database/stream-key.ts';
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
  const { rows } = await client.query<{ id: string }>(
    `update ${stream.merge.declared.root.name} set _deleted_at = $3, _synced_at = $4${tombstoneOf(stream, lookbackMs)}
     where account_id = $1 and id = any ($2) and _deleted_at is null and _observed_at < $5
     returning id, ${keepChanges('$4', 'null', '$6')}`,
    [account, ids, new Date(goneMs), new Date(nowMs), new Date(beforeMs), run],
  );
  const buried = rows.map(({ id }) => id);
  await buryParts(client, account, { of: stream.merge.declared.root, parts: partsOf(stream) }, buried, nowMs);
  return buried.length;
}

/** The parts of these records get the tombstones that the records have. Nothing is left to read of them, so their rejects end. */
export async function buryParts(
  client: Client,
  account: string,
  { of, parts }: { of: Pick<Table, 'name' | 'rows'>; parts: readonly Part[] },
  ids: readonly string[],
  nowMs: Ms,
): Promise<void> {
  if (ids.length === 0) return;
  for (const part of parts) {
    await client.query(sql`
      update ${raw(rowsOf(part))} m set _deleted_at = p._deleted_at, _synced_at = ${new Date(nowMs)} from ${raw(rowsOf(of))} p
      where m.account_id = ${account} and m.${raw(part.parent)} = any (${ids}) and m._deleted_at is null
        and p.account_id = ${account} and p.id = m.${raw(part.parent)}`);
    // Details are a stream of the name of their table.
    const claim = { account, stream: part.name as StreamKey };
    await settle({ client, claim, at: { nowMs, asOfMs: nowMs } }, { stored: ids });
  }
}
