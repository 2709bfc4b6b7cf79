/**
 * Selects volumes to fetch by id: volumes that a shelf's list showed as new or changed, and after a maximum age all
 * volumes on shelves. The selection derives from the rows themselves. A volume that could not be fetched has an open
 * reject.
 */
import type pg from 'pg';
import type { Client } from '../../../engine/database/pool.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';

export interface WaitingVolume {
  readonly id: string;
  /** `_waits_since` at the time of the query, as text with microseconds. */
  readonly since: string | null;
}

export interface Wanted {
  /** Volumes last fetched before this time, by the source's clock, are fetched again. */
  readonly beforeMs: Ms;
  /** Volumes that failed after this time are skipped. */
  readonly startedMs: Ms;
  readonly except?: readonly string[];
}

/**
 * Order: volumes on the most recently changed shelves, by position; then the longest unfetched; then failed ones.
 * Volumes of owners that are no longer mirrored are left out.
 */
export async function nextVolumes(
  db: pg.Pool,
  { account, stream }: Pick<Claim, 'account' | 'stream'>,
  { beforeMs, startedMs, except = [] }: Wanted,
  limit: number,
): Promise<WaitingVolume[]> {
  const { rows } = await db.query<WaitingVolume>(
    `select v.id, v._waits_since::text as since
     from books.volumes v
     join lateral (
       select coalesce(s.volumes_last_updated_at, s.updated_at, s._synced_at) as changed_at, m.position
       from books.shelf_volumes m
       join books.shelves s on (s.account_id, s.owner_id, s.id) = (m.account_id, m.owner_id, m.shelf_id)
       join sync.coverage c on (c.account_id, c.stream_key, c.list) = (m.account_id, 'books.shelves', m.owner_id)
       where m.account_id = v.account_id and m.volume_id = v.id and m._removed_at is null
       order by 1 desc, 2
       limit 1) shelf on true
     cross join lateral (
       select max(next_try_at) as next_try_at from sync.rejects r
       where r.account_id = v.account_id and r.stream_key = $4 and r.ask_id = v.id and r.cleared_at is null) r
     where v.account_id = $1 and (v._waits_since is not null or v._checked_at < $2) and v.id <> all($3)
       and (r.next_try_at < $5 or r.next_try_at is null)
     order by r.next_try_at is not null, v._waits_since is null, case when v._waits_since is null then v._checked_at end,
       shelf.changed_at desc, shelf.position, v.id
     limit $6`,
    [account, new Date(beforeMs), except, stream, new Date(startedMs), limit],
  );
  return rows;
}

/** Number of volumes that wait. A run fetches all of them, so it does not depend on the run. */
export async function countLeft(db: Pick<Client, 'query'>, { account }: { account: string }): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    'select count(*) as n from sync.waiting_volumes where account_id = $1',
    [account],
  );
  return rows[0]!.n;
}

/** Failed volumes whose retry is due, the longest due first, if they are still on a shelf. */
export async function dueVolumes(
  db: pg.Pool,
  { account, stream }: Pick<Claim, 'account' | 'stream'>,
  now: Date,
): Promise<WaitingVolume[]> {
  const { rows } = await db.query<WaitingVolume>(
    `select v.id, v._waits_since::text as since
     from sync.rejects r join books.volumes v on (v.account_id, v.id) = (r.account_id, r.ask_id)
     where r.account_id = $1 and r.stream_key = $2 and r.cleared_at is null and r.next_try_at <= $3 and exists (
       select from books.shelf_volumes m
       join sync.coverage c on (c.account_id, c.stream_key, c.list) = (m.account_id, 'books.shelves', m.owner_id)
       where m.account_id = v.account_id and m.volume_id = v.id and m._removed_at is null)
     group by v.id, v._waits_since
     order by min(r.next_try_at)`,
    [account, stream, now],
  );
  return rows;
}

/** The volume that the catalog showed last and that has not failed since. */
export async function knownVolume(
  db: pg.Pool,
  { account, stream }: Pick<Claim, 'account' | 'stream'>,
): Promise<WaitingVolume | undefined> {
  const { rows } = await db.query<WaitingVolume>(
    `select v.id, v._waits_since::text as since from books.volumes v
     where v.account_id = $1 and v._checked_at is not null and not exists (
       select from sync.rejects r
       where r.account_id = v.account_id and r.stream_key = $2 and r.ask_id = v.id and r.cleared_at is null)
     order by v._checked_at desc limit 1`,
    [account, stream],
  );
  return rows[0];
}

/** Last fetch by id of any volume, by the source's clock. */
export async function lastChecked(db: pg.Pool, { account }: Pick<Claim, 'account'>): Promise<Ms> {
  const { rows } = await db.query<{ last_ms: Ms }>(
    `select coalesce(extract(epoch from max(_checked_at)), 0)::float8 * 1000 as last_ms from books.volumes where account_id = $1`,
    [account],
  );
  return rows[0]!.last_ms;
}

/** Records a fetch by id. A newer change in a list makes the volume pending again. */
export async function noteChecked(
  client: Client,
  account: string,
  { id, since }: WaitingVolume,
  asOfMs: Ms,
): Promise<void> {
  await client.query(
    `update books.volumes set _detail = 'full', _checked_at = $3,
       _waits_since = case when _waits_since::text is distinct from $4 then _waits_since end
     where account_id = $1 and id = $2`,
    [account, id, new Date(asOfMs), since],
  );
}

/**
 * Start of the change latency of a volume that is about to be stored in full: the time at which it appeared on a shelf,
 * or its list row changed. Undefined for volumes of a shelf's first read, and for routine re-reads.
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
