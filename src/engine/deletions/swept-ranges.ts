/**
 * Swept ranges: for each list of a stream, the ranges of creation time that a sweep has read, and the as-of time of
 * each. The newest reading of a range counts, so ranges do not overlap.
 */

import type pg from 'pg';
import type { Client, Queryable } from '../database/pool.ts';
import { query, raw, sql } from '../database/sql.ts';
import { ofStream } from '../database/stream-key.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { openOrResume, resumeMs } from '../runs/ranges.ts';
import { type NewRun, type RunState, withAccount } from '../runs/runs.ts';

/** A new request for a sweep starts again if the last sweep ended longer ago than this. */
const goOnMs = 3_600_000;

/**
 * Consecutive readings of one run form one range, dated by its oldest reading, unless they are further apart than this.
 */
const apartMs = 3_600_000;

/**
 * Opens a sweep that a person asks for. If the same sweep is running, the command attaches to it. A sweep that failed
 * or was interrupted less than an hour ago resumes, and keeps the ranges that it has read. So does a sweep of the last
 * week that stopped at a mass deletion, once a person confirms it.
 */
export async function openSweep(
  db: pg.Pool,
  { acceptDeletions, ...run }: Omit<NewRun, 'kind'> & { acceptDeletions: boolean },
  now: Date,
): Promise<{ run: number; resumed: boolean; begun: Date }> {
  const range = { since: null, until: null, again: true };
  const mayResume = ({ state }: { state: RunState }) => state === 'interrupted' || state === 'failed';
  const same = { withinMs: acceptDeletions ? resumeMs : goOnMs, isSame: 'r.again', mayResume };
  return withAccount(db, run.account, async client => {
    const opened = await openOrResume(client, { ...run, kind: 'sweep', range }, same, now);
    await client.query(sql`
      update sync.stored_runs set accept_deletions = accept_deletions or ${acceptDeletions} where id = ${opened.run}`);
    return opened;
  });
}

export const acceptsDeletions = (db: Queryable, run: number): Promise<boolean> =>
  query(db).value`
    select accept_deletions as accepts from sync.stored_runs where id = ${run}`;

/** Notes that the range was read. Older readings of the range give way. */
export async function noteSwept(
  client: Client,
  claim: Claim,
  list: string,
  { from, to }: { from: Ms; to: Ms },
  asOfMs: Ms,
): Promise<void> {
  const { account, stream, run } = claim;
  const key = sql`(${account}, ${stream}, ${list})`;
  const [begin, end, asOf] = [when(from), when(to), new Date(asOfMs)];
  const range = sql`tstzrange(${begin}, ${end})`;
  await query(client, 'cut swept').count`
    with cut as (
      delete from sync.swept where (account_id, stream_key, list) = ${key} and created && ${range} returning *)
    insert into sync.swept (account_id, source, stream, list, created, as_of, run_id)
    select account_id, source, stream, list, part, as_of, run_id
    from cut, unnest(tstzmultirange(created) - tstzmultirange(${range})) part`;
  const apart = raw(`interval '${apartMs} milliseconds'`);
  const extended = await query(client, 'extend swept').count`
    update sync.swept set created = tstzrange(lower(created), ${end}), as_of = least(as_of, ${asOf})
    where (account_id, stream_key, list) = ${key} and upper(created) = ${begin} and run_id = ${run}
      and as_of between ${asOf}::timestamptz - ${apart} and ${asOf}::timestamptz + ${apart}`;
  if (extended > 0) return;
  await query(client, 'insert swept').count`
    insert into sync.swept (account_id, source, stream, list, created, as_of, run_id)
    values (${account}, ${ofStream(stream)}, ${list}, ${range}, ${asOf}, ${run})`;
}

/** What the ranges that were read since say of deletions is not known any more: a row came that they may have lacked. */
export async function forgetSwept(
  client: Client,
  { account, stream }: Pick<Claim, 'account' | 'stream'>,
  sinceMs: Ms,
): Promise<void> {
  await client.query(sql`
    delete from sync.swept where (account_id, stream_key) = (${account}, ${stream}) and as_of >= ${new Date(sinceMs)}`);
}

/** An infinite bound is null. */
const when = (ms: Ms) => (Number.isFinite(ms) ? new Date(ms) : null);
