/** Stores the progress of sweeps: the ranges still to read, and the position of a walk through a whole list. */

import type { ListStream, Row, RowFacts } from '../../sources/source.ts';
import type { Client, Queryable } from '../database/pool.ts';
import { query, raw, sql } from '../database/sql.ts';
import { ofStream } from '../database/stream-key.ts';
import type { Ms, Range, Walk } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { createdAt } from './row-facts.ts';

/** Name of the sweep's position in a list that is walked, separate from the position of a sync. */
export const walkName = 'sweep';

/** Start of the data of the stream by update time, in ms, and the number of its live rows. */
export async function scopeOf(
  db: Queryable,
  claim: Claim,
  { fromTheBeginning }: Pick<ListStream<Row>, 'fromTheBeginning'>,
): Promise<{ sinceMs: Ms; rows: number }> {
  const { rows } = await db.query<{ since_ms: Ms; rows: number }>(sql`
    select extract(epoch from a.since)::float8 * 1000 as since_ms, (
      select count(*) from ${raw(claim.stream)} t where t.account_id = a.account_id and t._deleted_at is null) as rows
    from sync.accounts a where a.account_id = ${claim.account}`);
  return { sinceMs: fromTheBeginning ? 0 : rows[0]!.since_ms, rows: rows[0]!.rows };
}

/**
 * The earliest range of creation times of a list that the sweep still has to read, starting at `afterMs` or later.
 * Records created after `checkedMs` are not due: they were first read after that time.
 */
export async function nextDue(
  db: Queryable,
  claim: Claim,
  list: string,
  { afterMs, checkedMs }: { afterMs: Ms; checkedMs: Ms },
): Promise<{ fromMs: Ms; untilMs: Ms | undefined } | undefined> {
  // A sweep requested with `again` reads every range that it has not read itself.
  const checked = claim.again ? null : new Date(checkedMs);
  const due = await query(db).first<{ from_ms: Ms; until_ms: Ms | null }>`
    select extract(epoch from lower(due))::float8 * 1000 as from_ms,
      case when not upper_inf(due) then extract(epoch from upper(due))::float8 * 1000 end as until_ms
    from unnest(tstzmultirange(tstzrange('1970-01-01T00:00:00Z', null)) - coalesce((
      select range_agg(s.created) from sync.swept s
      where (s.account_id, s.stream_key, s.list) = (${claim.account}, ${claim.stream}, ${list})
        and (s.run_id = ${claim.run} or s.as_of >= ${checked})), '{}')) due
    where lower(due) >= ${new Date(afterMs)} and (${checked}::timestamptz is null or lower(due) < ${checked})
    order by due limit 1`;
  return due && { fromMs: due.from_ms, untilMs: due.until_ms ?? undefined };
}

/** The position of this run's walk. A walk left by another run restarts, because its replies are from an earlier time. */
export async function beginWalk(
  db: Queryable,
  claim: Claim,
  now: Date,
): Promise<{ fromMs: Ms; walk: Walk | undefined }> {
  const { account, stream, run } = claim;
  const key = sql`(${account}, ${stream}, ${walkName})`;
  const isNew = await query(db).count`
    insert into sync.run_lists (run_id, account_id, source, stream, list, until)
    values (${run}, ${account}, ${ofStream(stream)}, ${walkName}, ${now}) on conflict do nothing`;
  if (isNew) await db.query(sql`delete from sync.walks where (account_id, stream_key, list) = ${key}`);
  const { from_ms, page, deep, since_ms, as_of_ms } = await query(db).row`
    select coalesce(extract(epoch from upper(l.covered))::float8 * 1000, 0) as from_ms, w.page, w.deep,
      extract(epoch from w.since)::float8 * 1000 as since_ms, extract(epoch from w.as_of)::float8 * 1000 as as_of_ms
    from sync.run_lists l left join sync.walks w using (account_id, stream_key, list)
    where (l.account_id, l.stream_key, l.list) = ${key} and l.run_id = ${run}`;
  return { fromMs: from_ms, walk: page === null ? undefined : { since: since_ms, asOf: as_of_ms, page, deep } };
}

export async function coverWalked(client: Client, claim: Claim, { from, to }: Range): Promise<void> {
  await client.query(sql`
    update sync.run_lists set covered = covered + tstzmultirange(tstzrange(${new Date(from)}, ${new Date(to)}))
    where (account_id, stream_key, list, run_id) = (${claim.account}, ${claim.stream}, ${walkName}, ${claim.run})`);
}

/**
 * End of the range that this run has walked without a gap from the beginning, and the walk's start. Undefined if there
 * is none.
 */
export async function walkedBy(client: Client, claim: Claim): Promise<{ to: Ms; begunMs: Ms } | undefined> {
  const walked = await query(client).first<{ to_ms: Ms; begun_ms: Ms }>`
    select extract(epoch from upper(l.covered))::float8 * 1000 as to_ms, extract(epoch from r.again_before)::float8 * 1000 as begun_ms
    from sync.run_lists l join sync.stored_runs r on r.id = l.run_id
    where (l.account_id, l.stream_key, l.list, l.run_id) = (${claim.account}, ${claim.stream}, ${walkName}, ${claim.run})
      and l.covered @> '1970-01-01T00:00:00Z'::timestamptz and (select count(*) = 1 from unnest(l.covered))`;
  return walked && { to: walked.to_ms, begunMs: walked.begun_ms };
}

/** Whether live rows without a creation time exist that were not made candidates since `checkedMs`. */
export const isUndated = (
  client: Client,
  claim: Claim,
  facts: RowFacts,
  { list, checkedMs }: { list: string; checkedMs: Ms },
): Promise<boolean> =>
  query(client).value`
    select exists (
        select from ${raw(claim.stream)} t
        where t.account_id = ${claim.account} and ${raw(createdAt(facts))} is null and t._deleted_at is null)
      and not exists (
        select from sync.swept s
        where (s.account_id, s.stream_key, s.list) = (${claim.account}, ${claim.stream}, ${list})
          and (s.run_id = ${claim.run} or s.as_of >= ${new Date(checkedMs)})) as due`;

/** Sets the time at which the source last showed these rows of a list that is walked. */
export async function noteChecked(
  client: Client,
  { account, stream }: Pick<Claim, 'account' | 'stream'>,
  { created }: RowFacts,
  ids: readonly string[],
  asOfMs: Ms,
): Promise<void> {
  if ('at' in created) return;
  const checkedAt = raw(created.checkedAt);
  const asOf = new Date(asOfMs);
  await query(client, `note ${stream} checked`).count`
    update ${raw(stream)} set ${checkedAt} = ${asOf}
    where account_id = ${account} and id = any(${ids}) and ${checkedAt} < ${asOf} and _deleted_at is null`;
}
