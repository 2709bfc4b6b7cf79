/** Stored rows of the catalog from which a comparison starts, and stored rows without a record at the source. */
import type pg from 'pg';
import { isAhead, keepChanges } from '../../../engine/commit/merge.ts';
import type { Client } from '../../../engine/database/pool.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import { type Rows, type Standing, standingIn } from '../../../engine/verify/findings.ts';
import { isMissing } from '../../../engine/verify/verifications.ts';
import type { ShelfKey } from '../shelves/shelf-rows.ts';

type Key = Pick<Claim, 'account'>;

/** SQL over `m`: the volume is on a shelf of a mirrored owner. */
const isShelved = `m._removed_at is null and exists (
  select from sync.coverage c where (c.account_id, c.stream_key, c.list) = (m.account_id, 'books.shelves', m.owner_id))`;

/** Volumes on a shelf, by id, after `after`; including volumes without a row. */
export async function volumesAfter(db: pg.Pool, { account }: Key, after: string, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select distinct m.volume_id as id from books.shelf_volumes m
     where m.account_id = $1 and m.volume_id > $2 and ${isShelved} order by 1 limit $3`,
    [account, after, limit],
  );
  return rows.map(({ id }) => id);
}

/** This many random volumes on a shelf, with equal probability. */
export async function volumesAtRandom(
  db: pg.Pool,
  { account }: Key,
  { limit, chance }: { limit: number; chance: number },
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select id from (select distinct m.volume_id as id from books.shelf_volumes m where m.account_id = $1 and ${isShelved}) v
     order by hashtextextended(id, $2), id limit $3`,
    [account, Math.floor(chance * 2 ** 52), Math.max(0, limit)],
  );
  return rows.map(({ id }) => id);
}

export async function shelvesAtRandom(
  db: pg.Pool,
  { account }: Key,
  { limit, chance, owners }: { limit: number; chance: number; owners: readonly string[] },
): Promise<{ owner: string; shelf: string }[]> {
  const { rows } = await db.query<{ owner: string; shelf: string }>(
    `select s.owner_id as owner, s.id as shelf from books.shelves s
     where s.account_id = $1 and s._deleted_at is null and s.owner_id = any($4)
     order by hashtextextended(s.owner_id || '/' || s.id, $2), 1, 2 limit $3`,
    [account, Math.floor(chance * 2 ** 52), Math.max(0, limit), owners],
  );
  return rows;
}

/** Volumes that were never on a shelf: no list has shown them. */
export async function volumesOfNoShelf(db: pg.Pool, { account }: Key): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select v.id from books.volumes v where v.account_id = $1 and not exists (
       select from books.shelf_volumes m where (m.account_id, m.volume_id) = (v.account_id, v.id)) order by 1`,
    [account],
  );
  return rows.map(({ id }) => id);
}

/** Removes a volume that was never on a shelf. */
export async function takeVolume(client: Client, { account }: Key, id: string): Promise<number> {
  const { rowCount } = await client.query(
    `delete from books.volumes v where v.account_id = $1 and v.id = $2 and not exists (
       select from books.shelf_volumes m where (m.account_id, m.volume_id) = (v.account_id, v.id))`,
    [account, id],
  );
  return rowCount ?? 0;
}

/** Missing or deleted shelves with volumes on them, except those that this run reported by mistake. */
export async function shelvesOfNobody(
  db: pg.Pool,
  { account, run }: Pick<Claim, 'account' | 'run'>,
): Promise<{ owner: string; shelf: string; volumes: string[] }[]> {
  const { rows } = await db.query<{ owner: string; shelf: string; volumes: string[] }>(
    `select m.owner_id as owner, m.shelf_id as shelf, array_agg(m.volume_id order by m.volume_id) as volumes
     from books.shelf_volumes m
     where m.account_id = $1 and m._removed_at is null and not exists (
       select from books.shelves s
       where (s.account_id, s.owner_id, s.id) = (m.account_id, m.owner_id, m.shelf_id) and s._deleted_at is null)
       and not exists (
         select from sync.audit a
         where a.account_id = $1 and a.run_id = $2 and a.stream_key = 'books.shelves' and a.record_id = m.owner_id || '/' || m.shelf_id
           and ${isMissing('a')})
     group by 1, 2 order by 1, 2`,
    [account, run],
  );
  return rows;
}

/**
 * Removes the content of a missing shelf. For a deleted shelf, marks the content as removed when the shelf was deleted.
 */
export async function clearShelf(client: Client, key: ShelfKey, now: Date, run: number): Promise<number> {
  const which = '(m.account_id, m.owner_id, m.shelf_id) = ($1, $2, $3) and m._removed_at is null';
  const values = [key.account, key.owner, key.shelf];
  const gone = await client.query(
    `with kept as (select ${keepChanges('$4', 'null', '$5')})
     update books.shelf_volumes m set _removed_at = s._deleted_at, _synced_at = $4 from books.shelves s, kept
     where ${which} and (s.account_id, s.owner_id, s.id) = ($1, $2, $3) and s._deleted_at is not null`,
    [...values, now, run],
  );
  const lost = await client.query(
    `delete from books.shelf_volumes m where ${which} and not exists (
       select from books.shelves s where (s.account_id, s.owner_id, s.id) = ($1, $2, $3))`,
    values,
  );
  return (gone.rowCount ?? 0) + (lost.rowCount ?? 0);
}

/** Existing shelves of owners that were never read. */
export async function shelvesOfStrangers(db: pg.Pool, { account }: Key): Promise<{ owner: string; shelf: string }[]> {
  const { rows } = await db.query<{ owner: string; shelf: string }>(
    `select s.owner_id as owner, s.id as shelf from books.shelves s
     where s.account_id = $1 and s._deleted_at is null and not exists (
       select from sync.coverage c where (c.account_id, c.stream_key, c.list) = ($1, 'books.shelves', s.owner_id))
     order by 1, 2`,
    [account],
  );
  return rows;
}

/** Time when any row of this shelf was last written, by our clock. */
export async function lastWritten(client: Client, { account, owner, shelf }: ShelfKey, now: Date): Promise<Ms> {
  const { rows } = await client.query<{ ms: Ms }>(
    `select coalesce(extract(epoch from max(_synced_at)), 0)::float8 * 1000 as ms from books.shelf_volumes
     where (account_id, owner_id, shelf_id) = ($1, $2, $3) and not (${isAhead('_synced_at', '$4')})`,
    [account, owner, shelf, now],
  );
  return rows[0]!.ms;
}

const rowsOf: Readonly<Record<string, Rows>> = {
  'books.shelves': { table: 'books.shelves', record: `t.owner_id || '/' || t.id`, deletedSince: 'null::timestamptz' },
  'books.volumes': {
    table: 'books.volumes',
    deletedSince: 'null::timestamptz',
    waits: `t._waits_since is not null or (t._detail = 'list' and t._checked_at is null)`,
  },
};

/** Stored rows of these records. `lock`: locks them until the transaction ends. */
export const standingOf = (
  client: Pick<Client, 'query'>,
  { account, stream }: Pick<Claim, 'account' | 'stream'>,
  ids: readonly string[],
  at: { askedMs: Ms; asOfMs: Ms; lock: boolean },
): Promise<Map<string, Standing>> => standingIn(client, account, rowsOf[stream]!, ids, at);
