/**
 * Slots: one row for each due time of the schedule. The process that inserts the row opens the run, in the same
 * transaction. So any number of processes gives one run for a slot, and a process that dies leaves both or neither.
 */

import type pg from 'pg';
import { foldCredits } from '../budget/credits.ts';
import { forgetAges } from '../commit/change-latency.ts';
import { byKey } from '../database/pool.ts';
import { query, sql } from '../database/sql.ts';
import type { StreamKey } from '../database/stream-key.ts';
import { forgetHandOffs } from './hand-offs.ts';
import { keptDays } from './kept-days.ts';
import { isPaused, pausedOf } from './pauses.ts';
import { isNext, isOpen, openRun, type RunKind, withAccountByKey } from './runs.ts';

export interface Plan {
  readonly schedule: string;
  readonly kind: RunKind;
  readonly streams: readonly StreamKey[];
  /** Opens no run while a run of these kinds has yet to read the last stream of a source. */
  readonly unless: readonly RunKind[];
  /** Streams that a sweep of the same run re-reads afterwards, for deletions and silent changes. */
  readonly sweeps?: readonly StreamKey[];
  /** A stream whose run fetches the names that are due. The run is opened even if no record waits. */
  readonly names?: StreamKey;
}

/** A slot further ahead than this comes from a machine with a wrong clock, and is ignored. */
const aheadMs = 3_600_000;
const latest = (now: Date) => new Date(now.getTime() + aheadMs);

/**
 * The run that was opened for the unpaused streams, or the reason why none was; undefined if another process has the
 * slot, or a later one.
 */
export async function claimSlot(
  db: pg.Pool,
  account: string,
  { schedule, kind, streams: all, unless, sweeps = [], names }: Plan,
  { slot, opener, now }: { slot: Date; opener: number; now: Date },
): Promise<{ run: number } | { skipped: string } | undefined> {
  return withAccountByKey(db, account, async client => {
    const taken = await byKey(client, 'take slot').count`
      insert into sync.schedule_slots (account_id, schedule, slot, claimed_at, claimed_by)
      select ${account}, ${schedule}, ${slot}, ${now}, ${opener}
      where not exists (
        select from sync.schedule_slots where account_id = ${account} and schedule = ${schedule} and slot >= ${slot} and slot < ${latest(now)})
      on conflict do nothing`;
    if (taken === 0) return undefined;
    const note = (run: number | null, skipped: string | null) =>
      byKey(client, 'note slot').count`
        update sync.schedule_slots set run_id = ${run}, skipped = ${skipped}
        where account_id = ${account} and schedule = ${schedule} and slot = ${slot}`;
    const skip = async (skipped: string) => {
      await note(null, skipped);
      return { skipped };
    };
    const paused = await pausedOf(client, account);
    const going = (keys: readonly StreamKey[]) => keys.filter(key => !isPaused(paused, key));
    const streams = going(all);
    if (streams.length === 0) return skip('paused');
    const open = await isOpen(client, account, streams, unless);
    if (open !== undefined) return skip(`run ${open} is open`);
    const run = await openRun(client, { account, kind, streams, opener }, now);
    await note(run, null);
    if (names !== undefined && going([names]).length > 0 && !(await isNext(client, account, names)))
      await openRun(client, { account, kind: 'hydrate', streams: [names], opener }, now);
    const read: StreamKey[] = [];
    for (const key of sweeps.length > 0 ? await readOf(client, account, going(sweeps)) : [])
      if ((await isOpen(client, account, [key], ['sweep'])) === undefined) read.push(key);
    if (read.length > 0) await openRun(client, { account, kind: 'sweep', streams: read, opener }, now);
    return { run };
  });
}

/** The streams that were read, at least in part. */
const readOf = (client: pg.ClientBase, account: string, streams: readonly StreamKey[]): Promise<StreamKey[]> =>
  query(client).values`
    select k.stream_key as stream from sync.streams k
    where k.stream_key = any(${streams}) and exists (
      select from sync.coverage c where c.account_id = ${account} and c.stream_key = k.stream_key and not isempty(c.covered))
    order by k.place`;

/** The last slot that was taken. */
export const lastSlot = (
  db: pg.Pool,
  account: string,
  schedule: string,
  now: Date,
): Promise<{ slot: Date; run_id: number | null; skipped: string | null } | undefined> =>
  query(db).first`
    select slot, run_id, skipped from sync.schedule_slots
    where account_id = ${account} and schedule = ${schedule} and slot < ${latest(now)} order by slot desc limit 1`;

/**
 * Slots, runs of the reconciler, and comparisons without a finding are kept for five weeks, because one comes each
 * minute. So are credits by minute; after that by hour and by day.
 */
export async function forgetOld(db: pg.Pool, account: string, now: Date): Promise<void> {
  const daysAgo = (days: number) => new Date(now.getTime() - days * 24 * 3_600_000);
  const before = daysAgo(keptDays);
  await db.query(sql`delete from sync.schedule_slots where account_id = ${account} and slot < ${before}`);
  await db.query(sql`delete from sync.request_logs where account_id = ${account} and written_at < ${daysAgo(1)}`);
  // A sweep goes by the last one that was completed of its stream, however long ago that was.
  await db.query(sql`
    delete from sync.stored_runs r where r.account_id = ${account} and r.finished_at < ${before} and (r.kind in ('fresh', 'hydrate', 'audit')
    or r.kind = 'sweep' and not r.again and not exists (
      select from sync.stored_run_streams s where s.run_id = r.id and s.state = 'completed' and not exists (
        select from sync.stored_runs o join sync.stored_run_streams p on p.run_id = o.id and p.stream_key = s.stream_key
        where o.account_id = ${account} and o.kind = 'sweep' and o.id > r.id and p.state = 'completed')))`);
  await forgetHandOffs(db, account, before);
  await forgetAges(db, account, before);
  await foldCredits(db, account, now);
  await db.query(sql`
    delete from sync.audit where account_id = ${account} and differences is null and checked_at < ${before}`);
}
