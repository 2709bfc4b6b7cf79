/**
 * Coverage: for each account, stream and list the set of time ranges that have been read and committed. A position is
 * what is wanted minus what is covered; PostgreSQL's multiranges do the arithmetic.
 */

import { Fatal } from '../../errors.ts';
import { byKey, type Client, type Queryable } from '../database/pool.ts';
import { query, raw, sql } from '../database/sql.ts';
import { nameOfKey, type StreamKey, sourceAndStream, sourceOfKey } from '../database/stream-key.ts';
import type { Ms, Range, Walk } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { command } from '../runs/pauses.ts';
import { wasBeside } from '../runs/runs.ts';

type Key = Pick<Claim, 'account' | 'stream'>;

const isRead =
  'exists (select from sync.coverage r where r.account_id = accounts.account_id and not isempty(r.covered))';
const keyOf = (claim: Key, list: string) => [claim.account, claim.stream, list];

/** A list of a stream, and what its source says of the range to read, where that is not what the account says. */
export interface Listed {
  readonly stream: StreamKey;
  readonly list: string;
  readonly sinceMs?: Ms;
  readonly lookbackMs?: number;
}

interface Registered {
  readonly account: string;
  readonly sinceMs: Ms;
  readonly lookbackMs?: number;
}

/**
 * Registers the account and its lists. A stream is complete only once each of its lists was read. `sync.status` needs
 * the lookback of the source too.
 */
export async function register(
  db: Queryable,
  { account, sinceMs, lookbackMs = 120_000 }: Registered,
  lists: readonly Listed[],
  now: Date,
): Promise<void> {
  await db.query(sql`
    insert into sync.accounts (account_id, since, mirrored_since, lookback)
      values (${account}, ${new Date(sinceMs)}, ${now}, ${lookbackMs} * interval '1 millisecond')
    on conflict (account_id) do update set since = excluded.since, lookback = excluded.lookback,
      mirrored_since = case when ${raw(isRead)} then accounts.mirrored_since else excluded.mirrored_since end
    where accounts.since <> excluded.since or accounts.lookback <> excluded.lookback or not ${raw(isRead)}`);
  await db.query(
    `insert into sync.coverage as c (account_id, source, stream, list, since, lookback)
     select $1, ${sourceAndStream('l.key')}, l.list, l.since, l.ms * interval '1 millisecond'
     from unnest($2::text[], $3::text[], $4::timestamptz[], $5::float8[]) l (key, list, since, ms)
     on conflict (account_id, stream_key, list) do update set since = excluded.since, lookback = excluded.lookback
     where (c.since, c.lookback) is distinct from (excluded.since, excluded.lookback)`,
    [
      ...[account, lists.map(({ stream }) => stream), lists.map(({ list }) => list)],
      lists.map(one => (one.sinceMs === undefined ? null : new Date(one.sinceMs))),
      lists.map(one => one.lookbackMs ?? null),
    ],
  );
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
  await db.query(
    `delete from sync.coverage c
     where account_id = $1 and stream_key = any($2) and not exists (
       select from unnest($2::text[], $3::text[]) l (key, list) where (l.key, l.list) = (c.stream_key, c.list))`,
    [account, lists.map(({ stream }) => stream), lists.map(({ list }) => list)],
  );
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
}

/** Where a sync resumes: the high-water mark, or `since` in an empty warehouse. A backfill reads the gaps below it. */
export async function readPosition(db: Queryable, key: Key, list: string, fromTheBeginning = false): Promise<Position> {
  const { rows } = await byKey<WalkRow & { from_ms: Ms; redundant: boolean; first_load: boolean }>(
    db,
    'position',
    `select extract(epoch from coalesce(upper(c.covered * tstzmultirange(tstzrange(s.since, null))), s.since))::float8 * 1000 as from_ms,
       c.redundant, isempty(c.covered) as first_load, w.page, w.deep, w.cursor,
       extract(epoch from w.since)::float8 * 1000 as since_ms, extract(epoch from w.as_of)::float8 * 1000 as as_of_ms,
       extract(epoch from w.updated_since)::float8 * 1000 as updated_since_ms
     from sync.coverage c
     join sync.accounts a using (account_id)
     cross join lateral (select case when $4 then '1970-01-01T00:00:00Z' else coalesce(c.since, a.since) end as since) s
     left join sync.walks w on (w.account_id, w.stream_key, w.list, w.until) = (c.account_id, c.stream_key, c.list, 'infinity')
     where (c.account_id, c.stream_key, c.list) = ($1, $2, $3)`,
    [...keyOf(key, list), fromTheBeginning],
  );
  const row = rows[0];
  if (row === undefined) throw new Error(`list ${list} of ${nameOfKey(key.stream)} is not registered`);
  return { fromMs: row.from_ms, redundant: row.redundant, firstLoad: row.first_load, walk: walkOf(row) };
}

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
  const { rows } = await db.query<{ since: Date; top: Date | null }>(
    `insert into sync.run_lists (run_id, account_id, source, stream, list, until)
     select r.id, c.account_id, c.source, c.stream, c.list,
       coalesce(r.until, case when not r.again then upper(c.covered) end, r.started_at)
     from sync.stored_runs r join sync.coverage c using (account_id)
     where r.id = $1 and (c.account_id, c.stream_key, c.list) = ($2, $3, $4)
     on conflict do nothing
     returning (select since from sync.stored_runs where id = $1),
       (select upper(covered) from sync.coverage where (account_id, stream_key, list) = ($2, $3, $4)) as top`,
    [claim.run, ...keyOf(claim, list)],
  );
  const [settled] = rows;
  if (settled === undefined) return;
  if (settled.top !== null && settled.since > settled.top)
    throw new Fatal(
      `--since (${settled.since.toISOString()}) is after the top of what is covered (${settled.top.toISOString()})`,
      `Run ${command(claim.account, 'sync')}: it resumes at the high-water mark. A backfill would leave a gap below.`,
    );
  if (!claim.again) return;
  await db.query(
    `delete from sync.walks where (account_id, stream_key, list) = ($1, $2, $3) and until <> 'infinity'`,
    keyOf(claim, list),
  );
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
  const { rows } = await db.query(
    `with asked as (
       select c.covered, r.again, r.id, r.beside, least(l.until, $6) as until,
         coalesce(r.since, case when $5 then '1970-01-01T00:00:00Z' else coalesce(c.since, a.since) end) as since
       from sync.stored_runs r
       join sync.run_lists l on l.run_id = r.id
       join sync.accounts a on a.account_id = r.account_id
       join sync.coverage c on (c.account_id, c.stream_key, c.list) = (l.account_id, l.stream_key, l.list)
       where r.id = $1 and (c.account_id, c.stream_key, c.list) = ($2, $3, $4) and not c.redundant),
     done as (
       select case when again then coalesce((
           select range_agg(part) from sync.run_lists k
           join sync.stored_runs o on o.id = k.run_id, unnest(k.covered) part
           where k.account_id = $2 and k.stream_key = $3 and k.list = $4
             and (o.id = asked.id or ${wasBeside('o', 'asked')})), '{}')
         else covered end as covered
       from asked),
     gaps as (
       select gap from asked, done,
         unnest(case when since < until then tstzmultirange(tstzrange(since, until)) else '{}' end - done.covered) gap)
     select extract(epoch from lower(gap))::float8 * 1000 as from_ms, extract(epoch from upper(gap))::float8 * 1000 as to_ms,
       w.page, w.deep, w.cursor, extract(epoch from w.since)::float8 * 1000 as since_ms, extract(epoch from w.as_of)::float8 * 1000 as as_of_ms,
       extract(epoch from w.updated_since)::float8 * 1000 as updated_since_ms
     from gaps
     left join sync.walks w on (w.account_id, w.stream_key, w.list, w.until) = ($2, $3, $4, upper(gap))
     order by gap desc limit 1`,
    [claim.run, ...keyOf(claim, list), fromTheBeginning, new Date(beforeMs)],
  );
  const row = rows[0];
  if (row === undefined) return undefined;
  const walk = walkOf(row);
  return { from: row.from_ms, to: row.to_ms, walk: walk && { ...walk, until: row.to_ms } };
}

export async function cover(client: Client, claim: Claim, list: string, { from, to }: Range): Promise<void> {
  await client.query({
    name: 'cover',
    text: `update sync.coverage set covered = covered + tstzmultirange(tstzrange($4, $5))
      where (account_id, stream_key, list) = ($1, $2, $3) and not covered @> tstzrange($4, $5)`,
    values: [...keyOf(claim, list), new Date(from), new Date(to)],
  });
  if (!claim.again) return;
  await client.query({
    name: 'cover again',
    text: `update sync.run_lists set covered = covered + tstzmultirange(tstzrange($4, $5))
      where (account_id, stream_key, list) = ($1, $2, $3) and run_id = $6`,
    values: [...keyOf(claim, list), new Date(from), new Date(to), claim.run],
  });
}

export async function makeRedundant(client: Client, claim: Claim, list: string): Promise<void> {
  // The sweep of the default list did not prove anything about this list so far, so it starts anew.
  await client.query(
    `with found as (
       update sync.coverage set redundant = true where (account_id, stream_key, list) = ($1, $2, $3) and not redundant
       returning account_id)
     delete from sync.swept s using found where (s.account_id, s.stream_key, s.list) = (found.account_id, $2, 'default')`,
    keyOf(claim, list),
  );
}

export async function isRedundant(db: Queryable, key: Key, list: string): Promise<boolean> {
  const { rows } = await db.query<{ redundant: boolean }>(
    'select redundant from sync.coverage where (account_id, stream_key, list) = ($1, $2, $3)',
    keyOf(key, list),
  );
  return rows[0]?.redundant === true;
}

/** `until` distinguishes the walk of a backfill, which ends at the end of its gap, from the walk of a sync. */
export async function placeWalk(
  client: Client,
  claim: Claim,
  list: string,
  walk: Walk | null,
  until: Ms | undefined,
): Promise<void> {
  const key = [...keyOf(claim, list), until === undefined ? 'infinity' : new Date(until)];
  if (walk === null) {
    await client.query('delete from sync.walks where (account_id, stream_key, list, until) = ($1, $2, $3, $4)', key);
    return;
  }
  await client.query({
    name: 'place walk',
    text: `insert into sync.walks (account_id, source, stream, list, until, since, as_of, page, deep, updated_since, cursor)
      values ($1, ${sourceAndStream('$2')}, $3, $4, $5, $6, $7, $8, $9, $10)
      on conflict (account_id, stream_key, list, until) do update set
        since = excluded.since, as_of = excluded.as_of, page = excluded.page, deep = excluded.deep,
        updated_since = excluded.updated_since, cursor = excluded.cursor`,
    values: [
      ...[...key, new Date(walk.since), new Date(walk.asOf), walk.page, walk.deep],
      ...[dateOf(walk.updatedSince), walk.cursor ?? null],
    ],
  });
}

export async function addGap(
  client: Client,
  claim: Claim,
  list: string,
  gap: Range & { reason: string },
  now: Date,
): Promise<void> {
  await client.query(
    `insert into sync.gap_reasons (account_id, source, stream, list, gap, reason, found_at)
     values ($1, ${sourceAndStream('$2')}, $3, tstzrange($4, $5), $6, $7)
     on conflict (account_id, stream_key, list, gap) do update set reason = excluded.reason, found_at = excluded.found_at`,
    [...keyOf(claim, list), new Date(gap.from), new Date(gap.to), gap.reason, now],
  );
}

const dateOf = (ms: Ms | undefined): Date | null => (ms === undefined ? null : new Date(ms));
