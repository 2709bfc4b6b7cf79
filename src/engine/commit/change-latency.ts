/**
 * How old changes are when they are here: what is promised as freshness is measured where it is kept, in the transaction that
 * brings the change. Only what changed after the mirror began counts, so that a first load asks for nothing more.
 */

import type pg from 'pg';
import type { Client } from '../database/pool.ts';
import { sourceAndStream } from '../database/stream-key.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';

/** A change that is dated further ahead than a clock's grain and a little is a slip of the source: it has no age. */
const aheadMs = 60_000;
const keptDays = 35;

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
  await client.query({
    name: 'note ages',
    // In one order, so that two who note the same ages do not wait for each other crosswise.
    text: `insert into sync.change_latencies as a (account_id, source, stream, minute, latency_seconds, changes)
      select $1, ${sourceAndStream('$2')}, date_trunc('minute', $3::timestamptz), age, count(*)
      from unnest($4::int[]) as one (age) group by age order by age
      on conflict (account_id, stream_key, minute, latency_seconds) do update set changes = a.changes + excluded.changes`,
    values: [account, stream, new Date(sourceMs), ages],
  });
}

/** Those that happened after the mirror began. */
export async function newOnes(
  client: Client,
  { account }: Pick<Claim, 'account'>,
  changedMs: readonly Ms[],
): Promise<Ms[]> {
  const { rows } = await client.query<{ since: Date }>(
    'select mirrored_since as since from sync.accounts where account_id = $1',
    [account],
  );
  return changedMs.filter(ms => ms > rows[0]!.since.getTime());
}

/**
 * A volume that is about to be here in full: since when it is on a shelf, or its row there is another. Undefined for what was
 * on a shelf when that was first read, and for what is only asked for once more.
 */
export async function volumeChanged(client: Client, account: string, id: string): Promise<Ms | undefined> {
  const { rows } = await client.query<{ changed_ms: Ms | null }>({
    name: 'volume changed',
    text: `select extract(epoch from case when v._checked_at is null then h.put_at else v._waits_since end)::float8 * 1000 as changed_ms
      from books.volumes v join sync.accounts a using (account_id)
      cross join lateral (
        select min(h.valid_from) as put_at from books.shelf_volume_history h
        where h.account_id = v.account_id and h.volume_id = v.id and h.position is not null and h.change_after is not null) h
      where v.account_id = $1 and v.id = $2 and v._waits_since > a.mirrored_since`,
    values: [account, id],
  });
  return rows[0]?.changed_ms ?? undefined;
}

export async function forgetAges(db: pg.Pool, account: string, now: Date): Promise<void> {
  await db.query('delete from sync.change_latencies where account_id = $1 and minute < $2', [
    account,
    new Date(now.getTime() - keptDays * 24 * 3_600_000),
  ]);
}
