/**
 * Stores the content of a shelf as one set: volumes, positions, and times. One reader at a time holds the fencing token
 * of the stream, so the order of commits is the order of reads.
 */

import type pg from 'pg';
import { isAhead, keepChanges, without } from '../../../engine/commit/merge.ts';
import type { Client } from '../../../engine/database/pool.ts';
import { numbered, query, sql } from '../../../engine/database/sql.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import { leftOutOf } from '../../record/columns.ts';
import { volume } from '../records.ts';

export interface ShelfKey {
  readonly account: string;
  readonly owner: string;
  readonly shelf: string;
}

/** Result of the last read of a shelf. */
export interface Reading {
  /** Time of the last complete read; undefined if there was none. */
  readonly asOfMs: Ms | undefined;
  readonly version: string | null;
}

/** A version that never matches: the content was removed with the shelf. */
const gone = 'gone';

const keyOf = ({ account, owner, shelf }: ShelfKey) => sql`(${account}, ${owner}, ${shelf})`;

/** Shelves of an owner, by id. */
export async function shelvesOf(
  db: pg.Pool,
  account: string,
  owner: string,
): Promise<Map<string, Reading & { isGone: boolean }>> {
  const { rows } = await db.query<{ id: string; is_gone: boolean; as_of_ms: Ms | null; version: string | null }>(sql`
    select s.id, s._deleted_at is not null as is_gone, extract(epoch from r.as_of)::float8 * 1000 as as_of_ms, r.version
    from books.shelves s
    left join sync.shelf_readings r on (r.account_id, r.owner_id, r.shelf_id) = (s.account_id, s.owner_id, s.id)
    where s.account_id = ${account} and s.owner_id = ${owner}`);
  return new Map(
    rows.map(({ id, is_gone, as_of_ms, version }) => [id, { isGone: is_gone, asOfMs: as_of_ms ?? undefined, version }]),
  );
}

export const membersOf = (db: pg.Pool, key: ShelfKey): Promise<string[]> =>
  query(db).values`
    select volume_id from books.shelf_volumes
    where (account_id, owner_id, shelf_id) = ${keyOf(key)} and _removed_at is null order by position`;

/** Existing shelves of owners that were never read. */
export const shelvesOfStrangers = (
  db: pg.Pool,
  { account }: Pick<Claim, 'account'>,
): Promise<{ owner: string; shelf: string }[]> =>
  query(db).rows`
    select s.owner_id as owner, s.id as shelf from books.shelves s
    where s.account_id = ${account} and s._deleted_at is null and not exists (
      select from sync.coverage c where (c.account_id, c.stream_key, c.list) = (${account}, 'books.shelves', s.owner_id))
    order by 1, 2`;

/** Time when any row of this shelf was last written, by our clock. */
export const lastWritten = (client: Client, key: ShelfKey, now: Date): Promise<Ms> =>
  query(client).value`
    select coalesce(extract(epoch from max(_synced_at)), 0)::float8 * 1000 as ms from books.shelf_volumes
    where (account_id, owner_id, shelf_id) = ${keyOf(key)} and not (${numbered(isAhead('_synced_at', '$1'), now)})`;

export interface Shelving {
  /** List rows as JSON text, and their positions on the shelf. */
  readonly text: string;
  readonly positions: readonly number[];
  /** True if volumes that are missing in the rows have left the shelf; false if some rows were unreadable or not read. */
  readonly all: boolean;
  readonly nowMs: Ms;
  readonly asOfMs: Ms;
  /** Upper bounds: time of additions and removals, and time of moves. */
  readonly changedMs: Ms;
  readonly movedMs: Ms;
  /** Lower bound: time of the previous read; undefined if there was none. */
  readonly beforeMs: Ms | undefined;
}

/** Writes the positions of the rows, removes volumes that have left, and writes the history. */
export async function shelve(
  client: Client,
  key: ShelfKey,
  { text, positions, all, nowMs, asOfMs, changedMs, movedMs, beforeMs }: Shelving,
): Promise<{ seen: number; inserted: number; updated: number; deleted: number }> {
  const now = new Date(nowMs);
  const asOf = new Date(asOfMs);
  const { rows } = await client.query<{
    put: string[];
    put_at: number[];
    moved: string[];
    moved_to: number[];
    seen: number;
    inserted: number;
    updated: number;
  }>(shelveSql, [text, key.account, key.owner, key.shelf, now, asOf, positions]);
  const { put, put_at, moved, moved_to, seen, inserted, updated } = rows[0]!;
  const taken = all ? await takeOff(client, key, text, { now, asOf, changed: new Date(changedMs) }) : [];
  const places: readonly (number | null)[] = [...put_at, ...taken.map(() => null)];
  await writeHistory(client, key, [...put, ...taken], places, { changedMs, beforeMs });
  await writeHistory(client, key, moved, moved_to, { changedMs: movedMs, beforeMs });
  return { seen, inserted, updated, deleted: taken.length };
}

/**
 * $1 rows, $2 account, $3 owner, $4 shelf, $5 now, $6 as_of, $7 positions. A volume that appears twice has its first
 * position. A volume becomes pending if its row differs from the row that any shelf showed last; once, however many
 * shelves show it.
 */
const shelveSql = `
  with shown as (
    select distinct on (volume_id) * from (
      select record ->> 'id' as volume_id, ($7::int[])[n] as position, ${without(leftOutOf(volume))} as _payload
      from jsonb_array_elements($1::jsonb) with ordinality as e (record, n)) r
    order by volume_id, position),
  changed as (
    select s.*, last._payload <> s._payload and m._payload is distinct from s._payload as relisted,
      m.position is null or m._removed_at is not null as put, m.position <> s.position as moved
    from shown s
    left join lateral (
      select * from books.shelf_volumes t
      where (t.account_id, t.owner_id, t.shelf_id, t.volume_id) = ($2, $3, $4, s.volume_id)
      offset 0) m on true
    left join lateral (
      select _payload from books.shelf_volumes t
      where (t.account_id, t.volume_id) = ($2, s.volume_id)
      order by _observed_at desc
      limit 1) last on true
    where m.position is null or m._removed_at is not null or m.position <> s.position or m._payload <> s._payload
      or ${isAhead('m._synced_at', '$5')} or ${isAhead('m._observed_at', '$6')}),
  written as (
    insert into books.shelf_volumes
      (account_id, owner_id, shelf_id, volume_id, position, _first_seen_at, _synced_at, _observed_at, _payload)
    select $2, $3, $4, volume_id, position, $5, $5, $6, _payload from changed
    on conflict (account_id, owner_id, shelf_id, volume_id) do update set
      position = excluded.position, _removed_at = null, _synced_at = excluded._synced_at,
      _observed_at = excluded._observed_at, _payload = excluded._payload
    returning xmax = 0 as inserted),
  waiting as (
    update books.volumes v set _waits_since = $6
    from changed c where c.relisted and (v.account_id, v.id) = ($2, c.volume_id) and v._waits_since is null)
  select (select count(*) from shown)::int as seen,
    (select count(*) from written where inserted)::int as inserted,
    (select count(*) from written where not inserted)::int as updated,
    coalesce(array_agg(volume_id order by position) filter (where put), '{}') as put,
    coalesce(array_agg(position order by position) filter (where put), '{}') as put_at,
    coalesce(array_agg(volume_id order by position) filter (where moved and not put), '{}') as moved,
    coalesce(array_agg(position order by position) filter (where moved and not put), '{}') as moved_to
  from changed`;

const takeOff = (
  client: Client,
  key: ShelfKey,
  text: string,
  at: { now: Date; asOf: Date; changed: Date },
): Promise<string[]> =>
  query(client).values`
    update books.shelf_volumes m set _removed_at = ${at.changed}, _synced_at = ${at.now}, _observed_at = ${at.asOf}
    where (account_id, owner_id, shelf_id) = ${keyOf(key)} and _removed_at is null and not exists (
      select from jsonb_array_elements(${text}::jsonb) e (record) where record ->> 'id' = m.volume_id)
    returning volume_id`;

/** An equal `valid_from` replaces the open row. It is never earlier than that of the open row. */
async function writeHistory(
  client: Client,
  key: ShelfKey,
  ids: readonly string[],
  positions: readonly (number | null)[],
  { changedMs, beforeMs }: Pick<Shelving, 'changedMs' | 'beforeMs'>,
): Promise<void> {
  if (ids.length === 0) return;
  const open = sql`(h.account_id, h.owner_id, h.shelf_id) = ${keyOf(key)} and h.volume_id = c.id and h.valid_to is null`;
  const changes = sql`unnest(${ids}::text[], ${positions}::int[]) c (id, position)`;
  const changed = new Date(changedMs);
  const replaced = await query(client).values<string>`
    update books.shelf_volume_history h set position = c.position from ${changes}
    where ${open} and h.valid_from >= ${changed} returning c.id`;
  await client.query(sql`
    update books.shelf_volume_history h set valid_to = ${changed} from ${changes} where ${open} and h.valid_from < ${changed}`);
  const before = beforeMs === undefined ? null : new Date(beforeMs);
  await client.query(sql`
    insert into books.shelf_volume_history (account_id, owner_id, shelf_id, volume_id, position, valid_from, change_after)
    select ${key.account}, ${key.owner}, ${key.shelf}, c.id, c.position, ${changed}, ${before}
    from ${changes} where c.id <> all(${replaced})`);
}

/** Records the version with which the shelf was read. */
export async function noteReading(client: Client, key: ShelfKey, { asOfMs, version }: Reading): Promise<void> {
  const asOf = asOfMs === undefined ? null : new Date(asOfMs);
  await client.query(sql`
    insert into sync.shelf_readings (account_id, owner_id, shelf_id, as_of, version)
    values (${key.account}, ${key.owner}, ${key.shelf}, ${asOf}, ${version})
    on conflict (account_id, owner_id, shelf_id) do update set as_of = excluded.as_of, version = excluded.version`);
}

/**
 * Empties a shelf that is gone since `changedMs`, and writes its tombstone. Returns the number of rows. A shelf that comes
 * back is read anew.
 */
export async function removeShelf(
  client: Client,
  { run }: Pick<Claim, 'run'>,
  key: ShelfKey,
  { changedMs, beforeMs, ...at }: Pick<Shelving, 'changedMs' | 'beforeMs' | 'nowMs' | 'asOfMs'>,
): Promise<number> {
  const nothing = { text: '[]', positions: [], all: true, ...at, changedMs, movedMs: changedMs, beforeMs };
  const { deleted } = await shelve(client, key, nothing);
  const now = new Date(at.nowMs);
  await client.query(sql`
    update books.shelves set _deleted_at = ${new Date(changedMs)}, _synced_at = ${now}
    where (account_id, owner_id, id) = ${keyOf(key)} and _deleted_at is null
    returning ${numbered(keepChanges('$1', 'null', '$2'), now, run)}`);
  await noteReading(client, key, { asOfMs: changedMs, version: gone });
  return deleted + 1;
}
