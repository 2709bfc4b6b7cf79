/**
 * Stores deletion candidates: rows that a list should have shown and did not. One transaction notes the swept range and
 * adds its candidates. A candidate gets a tombstone only after the source answered 404 to a fetch by id.
 */

import type { ListStream, Row, RowFacts } from '../../sources/source.ts';
import { keepChanges } from '../commit/merge.ts';
import { lastShown } from '../database/open-candidates.ts';
import type { Client, Queryable } from '../database/pool.ts';
import { numbered, query, raw, sql } from '../database/sql.ts';
import { ofStream } from '../database/stream-key.ts';
import { cleanText, storableIds } from '../json-text.ts';
import { farFuture, type Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { buryParts } from './bury.ts';
import { clearing, createdAt, existedAt, type Mortal, mustShow, partsOf } from './row-facts.ts';

const keyOf = ({ account, stream }: Pick<Claim, 'account' | 'stream'>) => sql`(${account}, ${stream})`;

/**
 * Time at which the source is known to have had the row. The source may show a deletion one lookback late, so that is
 * subtracted.
 */
const aliveAt = (shown: string, lookbackMs: number) => sql`${raw(shown)} - ${lookbackMs} * interval '1 millisecond'`;

/** What becomes of a candidate that is one already. */
const anew = raw(`on conflict (account_id, stream_key, record_id) do update set
      missing_since = excluded.missing_since, alive_at = excluded.alive_at, gone_at = null, gone_since = null, run_id = null`);

interface Proven {
  readonly list: string;
  /** SQL: the rows of a lively list. A row that entered it since its last sweep was observed then. */
  readonly lively?: string | undefined;
  /** Range of creation times. Undefined: records without a creation time. */
  readonly created?: { readonly from: Ms; readonly to: Ms };
  readonly asOfMs: Ms;
  readonly lookbackMs: number;
  /** Ids that the list showed, as of `asOfMs` or later. */
  readonly shown: readonly string[];
}

/**
 * Adds rows that a list in the order of creation should have shown and did not. Includes records last updated before the
 * account's start, since no sync list covers those. Must run before `noteSwept`, which overwrites the time of the
 * previous sweep.
 */
export function addUnshown(
  client: Client,
  claim: Claim,
  stream: Pick<ListStream<Row>, 'lists'>,
  facts: RowFacts,
  proven: Proven,
): Promise<number> {
  const { list, lively, created, asOfMs, lookbackMs, shown } = proven;
  const [at, seen, asOf] = [raw(createdAt(facts)), raw(lastShown(facts)), new Date(asOfMs)];
  const mustBeShown = numbered(mustShow(stream, list, lively), claim.account, claim.stream);
  const which = created
    ? sql`${at} >= ${new Date(created.from)} and ${at} < ${new Date(created.to)} and ${mustBeShown}`
    : sql`${at} is null`;
  return query(client).count`
    insert into sync.deletion_candidates as s (account_id, source, stream, record_id, missing_since, alive_at)
    select ${claim.account}, ${ofStream(claim.stream)}, t.id, ${asOf}, greatest(${aliveAt(lastShown(facts), lookbackMs)},
      case when o.record_id is null then w.as_of else o.alive_at end)
    from ${raw(claim.stream)} t
    left join sync.swept w
      on (w.account_id, w.stream_key) = ${keyOf(claim)} and w.list = ${list} and (w.created @> ${at} or ${at} is null)
    left join sync.open_deletion_candidates o on (o.account_id, o.stream_key) = ${keyOf(claim)} and o.record_id = t.id
    where t.account_id = ${claim.account} and ${which} and t._deleted_at is null
      and ${seen} < ${asOf} and t.id <> all (${storableIds(shown)})
    ${anew}`;
}

/** Adds rows that a complete walk of the list did not show since the walk began. */
export const addUnwalked = (
  client: Client,
  claim: Claim,
  facts: RowFacts,
  { begunMs, lookbackMs }: { begunMs: Ms; lookbackMs: number },
): Promise<number> =>
  query(client).count`
    insert into sync.deletion_candidates as s (account_id, source, stream, record_id, missing_since, alive_at)
    select ${claim.account}, ${ofStream(claim.stream)}, t.id, ${new Date(begunMs)}, coalesce(o.alive_at,
      ${aliveAt(lastShown(facts), lookbackMs)})
    from ${raw(claim.stream)} t
    left join sync.open_deletion_candidates o on (o.account_id, o.stream_key) = ${keyOf(claim)} and o.record_id = t.id
    where t.account_id = ${claim.account} and t._deleted_at is null and ${raw(lastShown(facts))} < ${new Date(begunMs)}
    ${anew}`;

/**
 * Adds candidates from a reply older than the last sweep of its range. The sweep could not add them, because the rows
 * were not stored yet.
 */
export async function addLateCandidates(
  client: Client,
  claim: Pick<Claim, 'account' | 'stream'>,
  facts: RowFacts,
  ids: readonly string[],
  { asOfMs, lookbackMs }: { asOfMs: Ms; lookbackMs: number },
): Promise<void> {
  const at = raw(createdAt(facts));
  const range = 'at' in facts.created ? sql`and (w.created @> ${at} or ${at} is null)` : raw('');
  const [asOf, lookback] = [new Date(asOfMs), sql`${lookbackMs} * interval '1 millisecond'`];
  await client.query(sql`
    insert into sync.deletion_candidates (account_id, source, stream, record_id, missing_since, alive_at)
    select ${claim.account}, ${ofStream(claim.stream)}, t.id, max(w.as_of) + ${lookback}, ${asOf}::timestamptz - ${lookback}
    from ${raw(claim.stream)} t
    join sync.swept w on (w.account_id, w.stream_key) = ${keyOf(claim)} ${range}
    where t.account_id = ${claim.account} and t.id = any(${ids}) and t._observed_at = ${asOf}
      and w.as_of > ${asOf}::timestamptz - ${lookback}
    group by t.id
    on conflict do nothing`);
}

/** Removes rows from the candidates that the source showed at or after the time when a list lacked them. */
export async function clearCandidates(client: Client, claim: Claim, ids: readonly string[], asOfMs: Ms): Promise<void> {
  if (ids.length === 0) return;
  await query(client, 'clear candidates').count`
    delete from sync.deletion_candidates
    where (account_id, stream_key) = ${keyOf(claim)} and record_id = any(${storableIds(ids)}) and missing_since <= ${new Date(asOfMs)}`;
}

/**
 * Deletes candidates that any reply has shown since. `offset 0` forces one key lookup per candidate. Without statistics
 * on fresh rows, a join would scan all of them for each candidate.
 */
export async function forgetKnown(db: Queryable, claim: Claim): Promise<void> {
  await db.query(sql`
    delete from sync.deletion_candidates s
    where (s.account_id, s.stream_key) = ${keyOf(claim)} and not exists (
      select from sync.open_deletion_candidates o
      where (o.account_id, o.stream_key, o.record_id) = (s.account_id, s.stream_key, s.record_id) offset 0)`);
}

export interface Which {
  /** True: candidates that the source reported as deleted to this run. False: all others. */
  readonly gone: boolean;
  /**
   * Filters deleted candidates. Recent: alive within `recentMs` before the 404, and without a second 404 at least
   * `behindMs` after the first.
   */
  readonly recent?: boolean;
  readonly recentMs: number;
  readonly behindMs: number;
}

/** Position in the order of candidates. Candidates with the fewest failed attempts come first. */
export interface Place {
  readonly id: string;
  readonly attempts: number;
}

/** The next candidates after a position, fewest failed attempts first. */
export function candidatesAfter(
  db: Queryable,
  claim: Claim,
  { gone, recent, recentMs, behindMs }: Which,
  after: Place | undefined,
  limit: number,
): Promise<Place[]> {
  const isRecent = sql`o.gone_at - o.alive_at < ${recentMs} * interval '1 millisecond'
        and o.gone_at - o.gone_since < ${behindMs} * interval '1 millisecond'`;
  return query(db).rows`
    select o.record_id as id, o.attempts from sync.open_deletion_candidates o
    where (o.account_id, o.stream_key) = ${keyOf(claim)}
      and ${after === undefined ? raw('true') : sql`(o.attempts, o.record_id) > (${after.attempts}, ${after.id})`}
      and (o.gone_at is not null and o.run_id is not distinct from ${claim.run}) = ${gone}
      and ${recent === undefined ? raw('true') : sql`(${isRecent}) = ${recent}`}
    order by o.attempts, o.record_id limit ${limit}`;
}

/**
 * Counts the candidates that the source reported as deleted to this run (`gone`), and the candidates still to be
 * fetched (`left`).
 */
export const countCandidates = (db: Queryable, claim: Claim): Promise<{ gone: number; left: number }> =>
  query(db).row`
    select count(*) filter (where o.gone_at is not null and o.run_id is not distinct from ${claim.run}) as gone,
      count(*) filter (where o.gone_at is null or o.run_id is distinct from ${claim.run}) as left
    from sync.open_deletion_candidates o where (o.account_id, o.stream_key) = ${keyOf(claim)}`;

/** Stores the result of a fetch by id: the time by which the record was deleted, or the error of a failed fetch. */
export async function noteAnswer(
  client: Client,
  claim: Claim,
  id: string,
  answer: { goneMs: Ms } | { error: string },
): Promise<void> {
  const [gone, error] = 'goneMs' in answer ? [new Date(answer.goneMs), null] : [null, cleanText(answer.error).text];
  await client.query(sql`
    update sync.deletion_candidates set run_id = ${claim.run}, attempts = attempts + ${error === null ? 0 : 1}, error = ${error},
      gone_at = ${gone}, gone_since = case when ${gone}::timestamptz is not null then coalesce(gone_since, ${gone}) end
    where (account_id, stream_key) = ${keyOf(claim)} and record_id = ${id}`);
}

/**
 * Range of times, by this machine's clock, at which tombstones were written that this sweep must confirm. The last
 * completed sweep confirmed older tombstones. A sweep requested with `again` confirms tombstones of any age up to its
 * start.
 */
export const deletedWhen = (db: Queryable, claim: Claim, ageMs: number): Promise<{ from: Date; to: Date }> =>
  query(db).row`
    select coalesce(last.started_at, r.started_at - ${ageMs} * interval '1 millisecond') - ${ageMs} * interval '1 millisecond' as from,
      case when r.again then r.started_at else r.started_at - ${ageMs} * interval '1 millisecond' end as to
    from sync.stored_runs r left join lateral (
      select p.started_at
      from sync.stored_runs p join sync.stored_run_streams s on s.run_id = p.id
      where p.account_id = r.account_id and p.kind = 'sweep' and p.id < r.id and s.stream_key = ${claim.stream} and s.state = 'completed'
      order by p.id desc limit 1) last on true
    where r.id = ${claim.run}`;

/** Ids of rows that got their tombstone in this range and still have it. */
export const deletedAfter = (
  db: Queryable,
  claim: Claim,
  { from, to }: { from: Date; to: Date },
  afterId: string | undefined,
  limit: number,
): Promise<string[]> =>
  query(db).values`
    select t.id from ${raw(claim.stream)} t
    where t.account_id = ${claim.account} and t._deleted_at is not null and t._synced_at >= ${from} and t._synced_at < ${to}
      and ${afterId === undefined ? raw('true') : sql`t.id > ${afterId}`}
    order by t.id limit ${limit}`;

/** The ids among these whose rows still have a tombstone. */
export const stillDeleted = (db: Queryable, claim: Claim, ids: readonly string[]): Promise<string[]> =>
  query(db).values`
    select t.id from ${raw(claim.stream)} t
    where t.account_id = ${claim.account} and t.id = any(${ids}) and t._deleted_at is not null order by t.id`;

/** Sets the note that tells people why the run is waiting. Undefined clears it. */
export async function noteWait(client: Client, claim: Claim, note: string | undefined): Promise<void> {
  await client.query(sql`
    update sync.stored_run_streams set note = ${note ?? null} where (run_id, stream_key) = (${claim.run}, ${claim.stream})`);
}

/** When the deletion candidates that this run confirmed are known to have existed: the latest of these times, in ms. */
export async function goneSince(db: Queryable, claim: Claim, facts: RowFacts): Promise<Ms | undefined> {
  const since = await query(db).value<Ms | null>`
    select extract(epoch from max(${numbered(existedAt(facts), claim.account)}))::float8 * 1000 as since_ms
    from sync.open_deletion_candidates o join ${raw(claim.stream)} t on (t.account_id, t.id) = (o.account_id, o.record_id)
    where (o.account_id, o.stream_key) = ${keyOf(claim)} and o.gone_at is not null and o.run_id = ${claim.run}`;
  return since ?? undefined;
}

/**
 * Returns deleted candidates of this run to the unconfirmed ones, so that they are fetched again before they get a
 * tombstone. With `goneBeforeMs`, only those deleted before that time. Returns their number.
 */
export const askAnew = (db: Queryable, claim: Claim, goneBeforeMs: Ms = farFuture): Promise<number> =>
  query(db).count`
    update sync.deletion_candidates set run_id = null
    where (account_id, stream_key) = ${keyOf(claim)} and gone_at < ${new Date(goneBeforeMs)} and run_id = ${claim.run}`;

/**
 * Writes tombstones for deleted candidates of this run and for their parts. Skips a row that was observed after it
 * became a candidate. `lateMs`: what the tombstone adds (see lag.ts). Returns the number of tombstones.
 */
export async function markDeleted(
  client: Client,
  claim: Claim,
  stream: Mortal,
  facts: RowFacts,
  { ids, nowMs, lateMs }: { ids: readonly string[]; nowMs: Ms; lateMs: Ms },
): Promise<number> {
  const now = new Date(nowMs);
  const marked = await query(client).values<string>`
    with gone as (
      select o.record_id, o.missing_since, o.alive_at, o.gone_at from sync.open_deletion_candidates o
      where (o.account_id, o.stream_key) = ${keyOf(claim)} and o.record_id = any(${ids}) and o.gone_at is not null and o.run_id = ${claim.run})
    update ${raw(claim.stream)} t set _deleted_at = g.gone_at + ${lateMs} * interval '1 millisecond',
      _deleted_after = least(g.alive_at, g.gone_at), _synced_at = ${now}${raw(clearing(stream))}
    from gone g where t.account_id = ${claim.account} and t.id = g.record_id and t._deleted_at is null
      and ${raw(lastShown(facts))} < g.missing_since
    returning t.id, ${numbered(keepChanges('$1', 'null', '$2'), now, claim.run)}`;
  const parts = { of: stream.merge.declared.root, parts: partsOf(stream) };
  await buryParts(client, claim.account, parts, marked, nowMs);
  await client.query(sql`
    delete from sync.deletion_candidates where (account_id, stream_key) = ${keyOf(claim)} and record_id = any(${ids})`);
  return marked.length;
}
