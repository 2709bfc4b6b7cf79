/**
 * Finds and repairs orphaned child rows, whose parent record is missing or deleted: contacts, messages and attachments.
 */

import { keepBooks, noCounts } from '../../../engine/commit/commit.ts';
import { keepChanges } from '../../../engine/commit/merge.ts';
import { type Client, transaction } from '../../../engine/database/pool.ts';
import { streamKey } from '../../../engine/database/stream-key.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import type { Look } from '../../../engine/verify/compare-reply.ts';
import { writeFindings } from '../../../engine/verify/findings.ts';
import { isMissing, type Queryable } from '../../../engine/verify/verifications.ts';
import type { ListStream, Row } from '../../source.ts';
import { helpdeskOf } from '../open.ts';
import { rowsOf } from '../rows-of.ts';
import type { Compared } from './compare.ts';
import { standingOf } from './rows.ts';

export interface Verifying {
  readonly look: Look;
  readonly stream: ListStream<Row>;
  readonly compared: Compared;
  /** Number of records that could not be compared. */
  unread: number;
  /** Ids of records that were written while the reply was in flight and that cannot be fetched by id. */
  readonly late: Set<string>;
  readonly gaps: string[];
}

/** Handles a 404 of the parent record: reports its orphaned rows and, if the run repairs, marks or removes them. */
export async function noteHanging(
  { look, stream: parents }: Verifying,
  stream: 'customers' | 'messages',
  id: string,
  asOfMs: Ms,
): Promise<boolean> {
  const { ctx, claim, repair, random } = look;
  const at = { nowMs: ctx.clock.now(), asOfMs };
  const credits = helpdeskOf(ctx).send.takeCredits();
  await transaction(ctx.pg, async client => {
    const key = { account: claim.account, stream: parents.key };
    const ours = (await standingOf(client, key, [id], { askedMs: at.nowMs, asOfMs, lock: true })).get(id);
    const isHere = ours !== undefined && !ours.hasTombstone;
    const found = isHere ? [] : await hangingOn(client, claim.account, stream, id);
    const differences = found.map(({ table, ids }) => [
      `${table}.row`,
      [Object.fromEntries(ids.map(one => [one, 'there'])), {}] as const,
    ]);
    const finding = {
      differences: Object.fromEntries(differences),
      kind: 'only here',
      oursAsOf: null,
      repaired: repair,
    };
    if (found.length > 0)
      await writeFindings(client, claim, [{ stream: streamKey('helpdesk', stream), record: id, ...finding }], {
        ...at,
        random,
      });
    const deleted = repair && !isHere ? await takeAway(client, claim, stream, id, at) : 0;
    const counts = { ...noCounts(), deleted, credits };
    await keepBooks(client, claim, at, { counts, rejects: [], stored: [], drift: [] });
  });
  return true;
}

const hanging = {
  customers: [{ table: 'contacts', parent: 'customer_id', of: 'customers' }],
  messages: [
    { table: 'messages', parent: 'ticket_id', of: 'tickets' },
    { table: 'attachments', parent: 'ticket_id', of: 'tickets' },
  ],
} as const;

/**
 * Ids of parent records that are missing here although they have live child rows. Excludes records that this run has
 * reported as missing.
 */
export async function parentsLost(
  db: Queryable,
  { account, run }: Pick<Claim, 'account' | 'run'>,
  stream: keyof typeof hanging,
): Promise<string[]> {
  const parts = hanging[stream].map(
    ({ table, parent, of }) => `select o.${parent} as id from helpdesk.${table} o
      where o.account_id = $1 and o._deleted_at is null and not exists (
        select from helpdesk.${of} p where p.account_id = o.account_id and p.id = o.${parent} and p._deleted_at is null)
      and not exists (
        select from sync.audit a
        where a.account_id = $1 and a.run_id = $2 and a.stream_key = 'helpdesk.${of}' and a.record_id = o.${parent} and ${isMissing('a')})`,
  );
  const { rows } = await db.query<{ id: string }>(`${parts.join('\nunion\n')} order by id`, [account, run]);
  return rows.map(({ id }) => id);
}

/** The live child rows of this record, by table. */
export async function hangingOn(
  client: Client,
  account: string,
  stream: keyof typeof hanging,
  id: string,
): Promise<{ table: string; ids: string[] }[]> {
  const found: { table: string; ids: string[] }[] = [];
  for (const { table, parent } of hanging[stream]) {
    const { rows } = await client.query<{ id: string }>(
      `select o.id from helpdesk.${table} o
       where o.account_id = $1 and o.${parent} = $2 and o._deleted_at is null order by 1`,
      [account, id],
    );
    if (rows.length > 0) found.push({ table, ids: rows.map(row => row.id) });
  }
  return found;
}

/**
 * Removes the child rows of a deleted record. Child rows get the parent's tombstone; without a stored parent they are
 * deleted. Returns their number.
 */
export async function takeAway(
  client: Client,
  { account, run }: Pick<Claim, 'account' | 'run'>,
  stream: keyof typeof hanging,
  id: string,
  { nowMs, asOfMs }: { nowMs: Ms; asOfMs: Ms },
): Promise<number> {
  const now = new Date(nowMs);
  await client.query(`select ${keepChanges('$1', '$2', '$3')}`, [now, new Date(asOfMs), run]);
  let taken = 0;
  for (const { table, parent, of } of hanging[stream]) {
    const which = `o.account_id = $1 and o.${parent} = $2`;
    const marked = await client.query(
      `update ${rowsOf(table)} o set _deleted_at = p._deleted_at, _synced_at = $3
       from helpdesk.${of} p
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
