/**
 * Coverage: for each account, stream and list the set of time ranges that have been read and committed. A position is
 * what is wanted minus what is covered; PostgreSQL's multiranges do the arithmetic.
 */

import { Fatal } from '../../errors.ts';
import { byKey, type Client, type Queryable } from '../database/pool.ts';
import { query, raw, sql } from '../database/sql.ts';
import { nameOfKey, ofStream, type StreamKey, sourceAndStream, sourceOfKey } from '../database/stream-key.ts';
import type { Ms, Range, Walk } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { command } from '../runs/pauses.ts';
import { wasBeside } from '../runs/runs.ts';
import { type KnownPages, type PagesRow, pagesIn, selectPages } from './pages.ts';

type Key = Pick<Claim, 'account' | 'stream'>;

const isRead =
  'exists (select from sync.coverage r where r.account_id = accounts.account_id and not isempty(r.covered))';
const keyOf = (claim: Key, list: string) => sql`(${claim.account}, ${claim.stream}, ${list})`;

/** A list of a stream, and what its source says of the range to read, where that is not what the account says. */
export interface Listed {
  readonly stream: StreamKey;
  readonly list: string;
  readonly sinceMs?: Ms;
  readonly lookbackMs?: number;
}

/**
 * Registers the account and its lists. A stream is complete only once each of its lists was read. `sync.status` needs
 * the lookback of the source too.
 */
export async function register(
  db: Queryable,
  { account, sinceMs, lookbackMs = 120_000 }: { account: string; sinceMs: Ms; lookbackMs?: number },
  lists: readonly Listed[],
  now: Date,
): Promise<void> {
  await db.query(sql`
    insert into sync.accounts (account_id, since, mirrored_since, lookback)
      values (${account}, ${new Date(sinceMs)}, ${now}, ${lookbackMs} * interval '1 millisecond')
    on conflict (account_id) do update set since = excluded.since, lookback = excluded.lookback,
      mirrored_since = case when ${raw(isRead)} then accounts.mirrored_since else excluded.mirrored_since end
    where accounts.since <> excluded.since or accounts.lookback <> excluded.lookback or not ${raw(isRead)}`);
  await db.query(sql`
    insert into sync.coverage as c (account_id, source, stream, list, since, lookback)
    select ${account}, ${raw(sourceAndStream('l.key'))}, l.list, l.since, l.ms * interval '1 millisecond'
    from unnest(${lists.map(({ stream }) => stream)}::text[], ${lists.map(({ list }) => list)}::text[],
      ${lists.map(one => dateOf(one.sinceMs))}::timestamptz[], ${lists.map(one => one.lookbackMs ?? null)}::float8[]) l (key, list, since, ms)
    on conflict (account_id, stream_key, list) do update set since = excluded.since, lookback = excluded.lookback
    where (c.since, c.lookback) is distinct from (excluded.since, excluded.lookback)`);
}

/**
 * Forgets lists of these streams that are no longer configured (an owner of shelves): the mirror claims nothing more
 * about their rows.
 */
export async function forgetLists(
  db: Queryable,
  account: string,
  lists: readonly { stream: StreamKey; list: string }[],
): Promise<void> {
  const streams = lists.map(({ stream }) => stream);
  await db.query(sql`
    delete from sync.coverage c
    where account_id = ${account} and stream_key = any(${streams}) and not exists (
      select from unnest(${streams}::text[], ${lists.map(({ list }) => list)}::text[]) l (key, list)
      where (l.key, l.list) = (c.stream_key, c.list))`);
}

/** The lookback of the source of a stream, in ms. */
export const lookbackOf = (db: Queryable, { account, stream }: Key): Promise<number> =>
  query(db).value`
    select extract(epoch from sync.lookback_of(${account}, ${sourceOfKey(stream)}))::float8 * 1000 as ms`;

export interface Position {
  fromMs: Ms;
  redundant: boolean;
  firstLoad: boolean;
  walk: Walk | undefined;
  pages: KnownPages;
}

/** Where a sync resumes: the high-water mark, or `since` in an empty warehouse. A backfill reads the gaps below it. */
export async function readPosition(db: Queryable, key: Key, list: string, fromTheBeginning = false): Promise<Position> {
  type PositionRow = WalkRow & PagesRow & { from_ms: Ms; redundant: boolean; first_load: boolean };
  const row = await byKey(db, 'position').first<PositionRow>`
    select extract(epoch from coalesce(upper(c.covered * tstzmultirange(tstzrange(s.since, null))), s.since))::float8 * 1000 as from_ms,
      c.redundant, isempty(c.covered) as first_load, ${placeOfWalk}, p.*
    from sync.coverage c
    join sync.accounts a using (account_id)
    cross join lateral (${selectPages(key, list)}) p
    cross join lateral (select case when ${fromTheBeginning} then '1970-01-01T00:00:00Z' else coalesce(c.since, a.since) end as since) s
    left join sync.walks w on (w.account_id, w.stream_key, w.list, w.until) = (c.account_id, c.stream_key, c.list, 'infinity')
    where (c.account_id, c.stream_key, c.list) = ${keyOf(key, list)}`;
  if (row === undefined) throw new Error(`list ${list} of ${nameOfKey(key.stream)} is not registered`);
  const { from_ms: fromMs, redundant, first_load: firstLoad } = row;
  return { fromMs, redundant, firstLoad, walk: walkOf(row), pages: pagesIn(row) };
}

/** SQL: the columns of a WalkRow, of the walk `w`. */
const placeOfWalk = raw(`w.page, w.deep, w.cursor, extract(epoch from w.since)::float8 * 1000 as since_ms,
      extract(epoch from w.as_of)::float8 * 1000 as as_of_ms, extract(epoch from w.updated_since)::float8 * 1000 as updated_since_ms`);

interface WalkRow {
  since_ms: Ms;
  as_of_ms: Ms;
  page: number | null;
  deep: boolean;
  updated_since_ms: Ms | null;
  cursor: string | null;
}

function walkOf(row: WalkRow): Walk | undefined {
  if (row.page === null) return undefined;
  const updatedSince = row.updated_since_ms ?? undefined;
  const cursor = row.cursor === null ? {} : { cursor: row.cursor };
  return { since: row.since_ms, asOf: row.as_of_ms, page: row.page, deep: row.deep, updatedSince, ...cursor };
}

/**
 * Settles how far a backfill reads a list, at its first look: its own pages move the high-water mark. An empty list has
 * no mark. Otherwise the range does not begin above the mark, because a sync would leave a gap between. A backfill with
 * `--again` starts its walks anew: only one such run exists, so walks of an earlier one are abandoned.
 */
async function settleList(db: Queryable, claim: Claim, list: string): Promise<void> {
  const key = keyOf(claim, list);
  const settled = await query(db).first<{ since: Date; top: Date | null }>`
    insert into sync.run_lists (run_id, account_id, source, stream, list, until)
    select r.id, c.account_id, c.source, c.stream, c.list,
      coalesce(r.until, case when not r.again then upper(c.covered) end, r.started_at)
    from sync.stored_runs r join sync.coverage c using (account_id)
    where r.id = ${claim.run} and (c.account_id, c.stream_key, c.list) = ${key}
    on conflict do nothing
    returning (select since from sync.stored_runs where id = ${claim.run}),
      (select upper(covered) from sync.coverage where (account_id, stream_key, list) = ${key}) as top`;
  if (settled === undefined) return;
  if (settled.top !== null && settled.since > settled.top)
    throw new Fatal(
      `--since (${settled.since.toISOString()}) is after the top of what is covered (${settled.top.toISOString()})`,
      `Run ${command(claim.account, 'sync')}: it resumes at the high-water mark. A backfill would leave a gap below.`,
    );
  if (!claim.again) return;
  await db.query(sql`delete from sync.walks where (account_id, stream_key, list) = ${key} and until <> 'infinity'`);
}

/**
 * The newest gap of a backfill that begins before `beforeMs`, and the place of a walk that an earlier job left in it.
 * Without bounds the range is all that the account wants, up to the high-water mark: a sync reads what is newer. With
 * `again`, a gap is a range that neither this run nor a concurrent one has read.
 */
export async function nextGap(
  db: Queryable,
  claim: Claim,
  list: string,
  fromTheBeginning: boolean,
  beforeMs: Ms,
): Promise<(Range & { walk: Walk | undefined }) | undefined> {
  await settleList(db, claim, list);
  const key = keyOf(claim, list);
  const row = await query(db).first<WalkRow & { from_ms: Ms; to_ms: Ms }>`
    with asked as (
      select c.covered, r.again, r.id, r.beside, least(l.until, ${new Date(beforeMs)}) as until,
        coalesce(r.since, case when ${fromTheBeginning} then '1970-01-01T00:00:00Z' else coalesce(c.since, a.since) end) as since
      from sync.stored_runs r
      join sync.run_lists l on l.run_id = r.id
      join sync.accounts a on a.account_id = r.account_id
      join sync.coverage c on (c.account_id, c.stream_key, c.list) = (l.account_id, l.stream_key, l.list)
      where r.id = ${claim.run} and (c.account_id, c.stream_key, c.list) = ${key} and not c.redundant),
    done as (
      select case when again then coalesce((
          select range_agg(part) from sync.run_lists k
          join sync.stored_runs o on o.id = k.run_id, unnest(k.covered) part
          where (k.account_id, k.stream_key, k.list) = ${key}
            and (o.id = asked.id or ${raw(wasBeside('o', 'asked'))})), '{}')
        else covered end as covered
      from asked),
    gaps as (
      select gap from asked, done,
        unnest(case when since < until then tstzmultirange(tstzrange(since, until)) else '{}' end - done.covered) gap)
    select extract(epoch from lower(gap))::float8 * 1000 as from_ms, extract(epoch from upper(gap))::float8 * 1000 as to_ms, ${placeOfWalk}
    from gaps
    left join sync.walks w on (w.account_id, w.stream_key, w.list) = ${key} and w.until = upper(gap)
    order by gap desc limit 1`;
  if (row === undefined) return undefined;
  const walk = walkOf(row);
  return { from: row.from_ms, to: row.to_ms, walk: walk && { ...walk, until: row.to_ms } };
}

export async function cover(client: Client, claim: Claim, list: string, { from, to }: Range): Promise<void> {
  const key = keyOf(claim, list);
  const range = sql`tstzrange(${new Date(from)}, ${new Date(to)})`;
  await query(client, 'cover').count`
    update sync.coverage set covered = covered + tstzmultirange(${range})
    where (account_id, stream_key, list) = ${key} and not covered @> ${range}`;
  if (!claim.again) return;
  await query(client, 'cover again').count`
    update sync.run_lists set covered = covered + tstzmultirange(${range})
    where (account_id, stream_key, list) = ${key} and run_id = ${claim.run}`;
}

export async function makeRedundant(client: Client, claim: Claim, list: string): Promise<void> {
  // The sweep of the default list did not prove anything about this list so far, so it starts anew.
  await client.query(sql`
    with found as (
      update sync.coverage set redundant = true where (account_id, stream_key, list) = ${keyOf(claim, list)} and not redundant
      returning account_id, stream_key)
    delete from sync.swept s using found where (s.account_id, s.stream_key, s.list) = (found.account_id, found.stream_key, 'default')`);
}

export const isRedundant = async (db: Queryable, key: Key, list: string): Promise<boolean> =>
  (
    await query(db)
      .values`select redundant from sync.coverage where (account_id, stream_key, list) = ${keyOf(key, list)}`
  )[0] === true;

/** `until` distinguishes the walk of a backfill, which ends at the end of its gap, from the walk of a sync. */
export async function placeWalk(
  client: Client,
  claim: Claim,
  list: string,
  walk: Walk | null,
  until: Ms | undefined,
): Promise<void> {
  const end = until === undefined ? 'infinity' : new Date(until);
  if (walk === null) {
    await byKey(client, 'walk is over').count`
      delete from sync.walks where (account_id, stream_key, list) = ${keyOf(claim, list)} and until = ${end}`;
    return;
  }
  await query(client, 'place walk').count`
    insert into sync.walks (account_id, source, stream, list, until, since, as_of, page, deep, updated_since, cursor)
    values (${claim.account}, ${ofStream(claim.stream)}, ${list}, ${end}, ${new Date(walk.since)}, ${new Date(walk.asOf)}, ${walk.page},
      ${walk.deep}, ${dateOf(walk.updatedSince)}, ${walk.cursor ?? null})
    on conflict (account_id, stream_key, list, until) do update set
      since = excluded.since, as_of = excluded.as_of, page = excluded.page, deep = excluded.deep,
      updated_since = excluded.updated_since, cursor = excluded.cursor`;
}

export async function addGap(
  client: Client,
  claim: Claim,
  list: string,
  gap: Range & { reason: string },
  now: Date,
): Promise<void> {
  await client.query(sql`
    insert into sync.gap_reasons (account_id, source, stream, list, gap, reason, found_at)
    values (${claim.account}, ${ofStream(claim.stream)}, ${list}, tstzrange(${new Date(gap.from)}, ${new Date(gap.to)}), ${gap.reason}, ${now})
    on conflict (account_id, stream_key, list, gap) do update set reason = excluded.reason, found_at = excluded.found_at`);
}

const dateOf = (ms: Ms | undefined): Date | null => (ms === undefined ? null : new Date(ms));
