/** Verifications: their requests, their progress, and their findings. */

import type pg from 'pg';
import { count } from '../../words.ts';
import { type Context, type Outcome, sourceOf } from '../context.ts';
import type { Queryable } from '../database/pool.ts';
import { query, raw, sql } from '../database/sql.ts';
import { ofStream, type StreamKey, sourceOfKey } from '../database/stream-key.ts';
import type { Claim } from '../runs/claims.ts';
import { openOrResume } from '../runs/ranges.ts';
import { type NewRun, withAccount } from '../runs/runs.ts';

export interface Asked {
  /** The number of random tickets and customers; null: everything. */
  readonly sample: number | null;
  readonly repair: boolean;
}

/** The announced cost of a verification. */
export interface Forecast {
  readonly credits: number;
  readonly seconds: number;
}

/** Records that were compared longer ago than this are compared again. */
const goesOnMs = 24 * 3_600_000;

/** Opens a verification. A full one that was interrupted or failed recently resumes, because it may take days. */
export async function openVerification(
  db: pg.Pool,
  { asked, forecast, ...run }: Omit<NewRun, 'kind'> & { asked: Asked; forecast: Forecast },
  now: Date,
): Promise<{ run: number; resumed: boolean; forecast: Forecast; left: number }> {
  const { sample, repair } = asked;
  const isSame = `exists (
    select from sync.verifications v where v.run_id = r.id and v.sample is not distinct from $5 and v.repair = $6)`;
  const same = {
    withinMs: goesOnMs,
    isSame,
    values: [sample, repair],
    ...(sample !== null && { mayResume: () => false }),
  };
  return withAccount(db, run.account, async client => {
    const { run: id, resumed } = await openOrResume(client, { ...run, kind: 'verify' }, same, now);
    await client.query(sql`
      insert into sync.verifications (run_id, account_id, sample, repair, credits, seconds)
        values (${id}, ${run.account}, ${sample}, ${repair}, ${forecast.credits}, ${Math.ceil(forecast.seconds)})
      on conflict do nothing`);
    const { left, ...announced } = await query(client).row<{ left: number } & Forecast>`
      select v.credits, v.seconds, greatest(0, v.credits - (
        select sum(s.credits) from sync.stored_run_streams s where s.run_id = v.run_id))::bigint as left
      from sync.verifications v where v.run_id = ${id}`;
    return { run: id, resumed, forecast: announced, left };
  });
}

/** What a run compares. An audit compares what its source has to spare, and repairs it. */
export const askedOf = async (
  ctx: Pick<Context, 'pg' | 'sources'>,
  { run, kind, stream }: Pick<Claim, 'run' | 'kind' | 'stream'>,
): Promise<Asked> =>
  kind === 'audit'
    ? { sample: sourceOf(ctx, sourceOfKey(stream)).audit?.perHour ?? 0, repair: true }
    : query(ctx.pg).row`select sample, repair from sync.verifications where run_id = ${run}`;

/** The place of a run in a list; undefined if the list was not counted yet. */
export const placeOf = (
  db: Queryable,
  { run, stream }: Pick<Claim, 'run' | 'stream'>,
  list: string,
): Promise<{ place: string | null } | undefined> =>
  query(db).first`
    select place from sync.verified_lists where (run_id, stream_key, list) = (${run}, ${stream}, ${list})`;

export async function movePlace(
  client: Queryable,
  { run, account, stream }: Pick<Claim, 'account' | 'run' | 'stream'>,
  list: string,
  place: string,
): Promise<void> {
  await query(client, 'move place').count`
    insert into sync.verified_lists as l (run_id, account_id, source, stream, list, place)
    values (${run}, ${account}, ${ofStream(stream)}, ${list}, ${place})
    on conflict (run_id, stream_key, list) do update set place = excluded.place`;
}

export interface Counted {
  readonly stream: string;
  readonly list: string;
  readonly ours: number | null;
  readonly theirs_least: number | null;
  readonly theirs_most: number | null;
}

export async function noteCounts(db: Queryable, claim: Claim, counted: Omit<Counted, 'stream'>): Promise<void> {
  const { list, ours, theirs_least, theirs_most } = counted;
  await db.query(sql`
    insert into sync.verified_lists (run_id, account_id, source, stream, list, ours, theirs_least, theirs_most)
    values (${claim.run}, ${claim.account}, ${ofStream(claim.stream)}, ${list}, ${ours}, ${theirs_least}, ${theirs_most})
    on conflict do nothing`);
}

export const readCounts = (db: Queryable, run: number): Promise<Counted[]> =>
  query(db).rows`
    select sync.name_of(stream_key) as stream, l.list, l.ours, l.theirs_least, l.theirs_most
    from sync.verified_lists l join sync.streams k using (stream_key)
    where l.run_id = ${run} and l.ours is not null order by k.place, l.list`;

export interface Found {
  stream: string;
  record: string;
  kind: string;
  differences: Record<string, [ours: unknown, theirs: unknown]>;
  repaired_at: Date | null;
}

/** How a comparison ends, of which so many records could not be compared. An audit samples, and leaves them to the next one. */
export const uncompared = (
  { kind }: Pick<Claim, 'kind'>,
  records: number,
  missing: readonly string[] = [],
): Outcome => {
  const all = [...missing, ...(records > 0 ? [`${count(records, 'record')} could not be compared`] : [])];
  return { partial: all.length > 0 && kind !== 'audit' ? all.join('; ') : undefined };
};

/** SQL over a row of sync.audit: the source shows the record, and here it is missing or has a tombstone. */
export const isMissing = (audit: string) => `${audit}.kind ~ '(missing here|came back)'`;

/** The differences of a run: the first ones, and the total. */
export async function readFindings(
  db: Queryable,
  run: number,
  limit: number,
): Promise<{ found: Found[]; total: number; repaired: number; missing: Record<string, number> }> {
  const { rows } = await db.query<Found>(sql`
    select sync.name_of(a.stream_key) as stream, a.record_id as record, a.kind, a.differences, a.repaired_at
    from sync.audit a where a.run_id = ${run} and a.differences is not null order by a.id limit ${limit}`);
  const { rows: totals } = await db.query<{ stream: string; n: number; repaired: number; missing: number }>(sql`
    select sync.name_of(stream_key) as stream, count(*) as n, count(repaired_at) as repaired,
      count(*) filter (where ${raw(isMissing('a'))}) as missing
    from sync.audit a where run_id = ${run} and differences is not null group by stream_key`);
  return {
    found: rows,
    total: totals.reduce((sum, { n }) => sum + n, 0),
    repaired: totals.reduce((sum, { repaired }) => sum + repaired, 0),
    missing: Object.fromEntries(totals.map(({ stream, missing }) => [stream, missing])),
  };
}

// --- stored rows
// --------------------------------------------------------------------------------------------------------

/** The records that are open rejects. `of`: the record within which their ids are unique. */
export async function setAside(
  db: Queryable,
  { account, stream }: Pick<Claim, 'account' | 'stream'>,
  ids: readonly string[],
  of?: string,
): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const { rows } = await db.query<{ id: string }>(
    `select record_id as id from sync.rejects
     where account_id = $1 and stream_key = $2 and record_id = any($3) and cleared_at is null
       and ($4::text is null or ask_id = $4)`,
    [account, stream, ids, of ?? null],
  );
  return new Set(rows.map(({ id }) => id));
}

/** The number of gaps of a stream, and the beginning of the first one. */
export const gapsOf = (
  db: Queryable,
  account: string,
  stream: StreamKey,
): Promise<{ gaps: number; from: Date | null }> =>
  query(db).row`
    select count(*) as gaps, min(gap_from) as "from" from sync.gaps where account_id = ${account} and stream_key = ${stream}`;
