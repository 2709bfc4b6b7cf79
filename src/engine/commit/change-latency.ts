/**
 * How old changes are when they are here: what is promised as freshness is measured where it is kept, in the transaction that
 * brings the change. Only what changed after the mirror began counts, so that a first load asks for nothing more.
 */

import type pg from 'pg';
import type { Client } from '../database/pool.ts';
import { query, sql } from '../database/sql.ts';
import { ofStream } from '../database/stream-key.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';

/** A change that is dated further ahead than a clock's grain and a little is a slip of the source: it has no age. */
const aheadMs = 60_000;

/** Changes of the stream that are here from now on, as the source dates them; `sourceMs` is now, by its clock. */
export async function noteAges(
  client: Client,
  { account, stream }: Pick<Claim, 'account' | 'stream'>,
  changedMs: readonly Ms[],
  sourceMs: Ms,
): Promise<void> {
  const ages = changedMs
    .filter(ms => ms <= sourceMs + aheadMs)
    .map(ms => Math.max(0, Math.round((sourceMs - ms) / 1000)));
  if (ages.length === 0) return;
  // In a fixed order, so that two transactions with the same latencies cannot deadlock.
  await query(client, 'note ages').count`
    insert into sync.change_latencies as a (account_id, source, stream, minute, latency_seconds, changes)
    select ${account}, ${ofStream(stream)}, date_trunc('minute', ${new Date(sourceMs)}::timestamptz), age, count(*)
    from unnest(${ages}::int[]) as one (age) group by age order by age
    on conflict (account_id, stream_key, minute, latency_seconds) do update set changes = a.changes + excluded.changes`;
}

/** The changes that happened after the mirror began. */
export async function newOnes(
  client: Client,
  { account }: Pick<Claim, 'account'>,
  changedMs: readonly Ms[],
): Promise<Ms[]> {
  const since = await query(client).value<Date>`
    select mirrored_since as since from sync.accounts where account_id = ${account}`;
  return changedMs.filter(ms => ms > since.getTime());
}

export async function forgetAges(db: pg.Pool, account: string, before: Date): Promise<void> {
  await db.query(sql`delete from sync.change_latencies where account_id = ${account} and minute < ${before}`);
}
