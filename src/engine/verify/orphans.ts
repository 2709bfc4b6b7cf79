/**
 * Finds and repairs orphaned parts of records: live rows of nested tables whose parent row is missing or deleted. A part has the
 * state of its parent.
 */
import type { Part } from '../../sources/source.ts';
import { keepChanges, rowsOf, shortName } from '../commit/merge.ts';
import type { Client, Queryable } from '../database/pool.ts';
import type { StreamKey } from '../database/stream-key.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import type { Finding } from './findings.ts';
import { isMissing } from './verifications.ts';

/** Parts, and the stream of the records that they belong to. */
export interface Parts {
  readonly of: StreamKey;
  readonly parts: readonly Part[];
}

/**
 * Ids of records that are missing here although they have live parts. Excludes records that this run has reported as
 * missing.
 */
export async function parentsLost(
  db: Queryable,
  { account, run }: Pick<Claim, 'account' | 'run'>,
  { of, parts }: Parts,
): Promise<string[]> {
  if (parts.length === 0) return [];
  const lost = parts.map(
    ({ table, parent }) => `select o.${parent} as id from ${table.name} o
      where o.account_id = $1 and o._deleted_at is null and not exists (
        select from ${of} p where p.account_id = o.account_id and p.id = o.${parent} and p._deleted_at is null)
      and not exists (
        select from sync.audit a
        where a.account_id = $1 and a.run_id = $2 and a.stream_key = '${of}' and a.record_id = o.${parent} and ${isMissing('a')})`,
  );
  const { rows } = await db.query<{ id: string }>(`${lost.join('\nunion\n')} order by id`, [account, run]);
  return rows.map(({ id }) => id);
}

/** The live parts of a record that is missing, as a difference. Undefined if there are none. */
export async function orphansOf(
  client: Client,
  account: string,
  { parts }: Parts,
  id: string,
): Promise<Pick<Finding, 'differences' | 'kind' | 'oursAsOf'> | undefined> {
  const found: [string, readonly [unknown, unknown]][] = [];
  for (const { table, parent } of parts) {
    const { rows } = await client.query<{ id: string }>(
      `select o.id from ${table.name} o
       where o.account_id = $1 and o.${parent} = $2 and o._deleted_at is null order by 1`,
      [account, id],
    );
    if (rows.length > 0)
      found.push([`${shortName(table)}.row`, [Object.fromEntries(rows.map(row => [row.id, 'there'])), {}]]);
  }
  return found.length === 0 ? undefined : { differences: Object.fromEntries(found), kind: 'only here', oursAsOf: null };
}

/**
 * Removes the parts of a deleted record. Parts get the tombstone of their record; without a stored record they are deleted.
 * Returns their number.
 */
export async function takeAway(
  client: Client,
  { account, run }: Pick<Claim, 'account' | 'run'>,
  { of, parts }: Parts,
  id: string,
  { nowMs, asOfMs }: { nowMs: Ms; asOfMs: Ms },
): Promise<number> {
  const now = new Date(nowMs);
  await client.query(`select ${keepChanges('$1', '$2', '$3')}`, [now, new Date(asOfMs), run]);
  let taken = 0;
  for (const { table, parent } of parts) {
    const which = `o.account_id = $1 and o.${parent} = $2`;
    const marked = await client.query(
      `update ${rowsOf(table)} o set _deleted_at = p._deleted_at, _synced_at = $3
       from ${of} p
       where ${which} and o._deleted_at is null and p.account_id = $1 and p.id = $2 and p._deleted_at is not null`,
      [account, id, now],
    );
    const removed = await client.query(`delete from ${rowsOf(table)} o where ${which} and o._deleted_at is null`, [
      account,
      id,
    ]);
    taken += (marked.rowCount ?? 0) + (removed.rowCount ?? 0);
  }
  return taken;
}
