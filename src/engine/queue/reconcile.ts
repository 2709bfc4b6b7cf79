/**
 * Reconciles open runs with the queue: the next stream of each run gets a job, unless a live worker holds it. So a lost
 * job does no harm, whether its worker died, the queue was emptied, or a stream ended without a successor. Work on
 * paused or canceled runs is stopped.
 */

import type pg from 'pg';
import { describeOutage, FencedOff, isBack, Paused } from '../../errors.ts';
import type { Stream } from '../../sources/source.ts';
import type { Context, OpenSource } from '../context.ts';
import { nameOfKey } from '../database/stream-key.ts';
import { untilBack } from '../outage.ts';
import { heldBy, release, stopped } from '../runs/claims.ts';
import { notPaused } from '../runs/pauses.ts';
import { wakeBackfills } from '../runs/ranges.ts';
import { isNext, isResting, openRun, type RunKind, waitingWork, withAccount, wokenStreams } from '../runs/runs.ts';
import { auditedOf } from '../verify/audit/audited.ts';
import { waitsForQuota } from '../verify/audit/is-free.ts';
import { isAuditDue } from '../verify/findings.ts';
import type { JobQueue } from './job-queue.ts';
import type { Jobs } from './worker.ts';

/** An account that a process works for. */
export interface Member {
  readonly ctx: Context;
  readonly queue: JobQueue;
  /** The number of the process in sync.workers, for this account. */
  readonly worker: number;
  readonly jobs: Jobs;
}

/** The number of statements does not grow with the number of accounts. */
export async function reconcile(pg: pg.Pool, members: readonly Member[]): Promise<void> {
  await stopWhatMayNotGoOn(pg, members);
  const byWorker = new Map(members.map(member => [member.worker, member]));
  // Claims that this process lost while the database was away are looked up first, and compared with its jobs of now.
  for (const claim of await heldBy(pg, [...byWorker.keys()]))
    if (!byWorker.get(claim.worker)!.jobs.has(claim.job)) await release(pg, claim, 0);
  const workers = members.map(({ ctx, worker }) => ({ account: ctx.account, worker }));
  for (const { worker, run, stream, kind, token } of await waitingWork(pg, workers)) {
    const { ctx, queue } = byWorker.get(worker)!;
    // The token is part of the job name: a failed job keeps its name in the failed set, so a new delivery needs another
    // one.
    const known = ctx.streams.find(({ key }) => key === stream);
    await queue.add(jobFor(known, kind), `run-${run}-${stream}-${token}`, { account: ctx.account, run, stream });
  }
}

async function stopWhatMayNotGoOn(pg: pg.Pool, members: readonly Member[]): Promise<void> {
  const held = members.flatMap(({ jobs }) => jobs.claims().map(one => ({ ...one, jobs })));
  if (held.length === 0) return;
  const found = await stopped(
    pg,
    held.map(({ claim }) => claim),
  );
  for (const { place, paused } of found) {
    const { job, claim, jobs } = held[place]!;
    const what = `stream ${nameOfKey(claim.stream)} of run ${claim.run}`;
    jobs.stop(job, paused ? new Paused(what) : new FencedOff(what));
  }
}

/** The job that a run of this kind needs for a stream. */
function jobFor(stream: Stream | undefined, kind: RunKind): string {
  if (kind === 'sweep' || kind === 'verify' || kind === 'audit') return `${kind}-stream`;
  return kind === 'backfill' && stream?.jobs.backfill !== undefined ? 'backfill-stream' : 'sync-stream';
}

/** Pause after a failure, because the source may be down for hours. */
const restMs = 60_000;

/**
 * Opens the runs that no person asks for: detail runs for records that wait or are due again, and deferred runs whose
 * daily quota has reset. It opens none if another run reads the same. A detail run ends when nothing waits, after some
 * minutes, or when a person starts a run that reads the same. Returns true if it opened a run.
 */
export async function openWaiting(ctx: Context, opener: number): Promise<boolean> {
  let opened = false;
  for (const { key: stream, source, pending } of ctx.streams) {
    if (pending === undefined || !ctx.sources.has(source)) continue;
    const key = { account: ctx.account, stream };
    const now = new Date(ctx.clock.now());
    if (!(await pending.isDue(ctx))) continue;
    const run = await withAccount(ctx.pg, ctx.account, async client => {
      if ((await notPaused(client, ctx.account, [stream])).length === 0) return;
      if (await isNext(client, ctx.account, stream)) return;
      if (await isResting(client, key, now, restMs)) return;
      return openRun(client, { account: ctx.account, kind: 'hydrate', streams: [stream], opener }, now);
    });
    opened ||= run !== undefined;
  }
  for (const source of ctx.sources.values()) opened = (await openAudit(ctx, source, opener)) || opened;
  const hasQuota = [...ctx.sources.values()].some(({ longestWaitMs }) => longestWaitMs !== undefined);
  return (hasQuota && (await wake(ctx, opener))) || opened;
}

/** Shortest time between the starts of two audits. */
const auditMs = 3_600_000;

/** Unused credits go to audits, while no other work needs the source. */
async function openAudit(ctx: Context, source: OpenSource, opener: number): Promise<boolean> {
  const audited = auditedOf(ctx, source);
  if (audited === undefined) return false;
  const { streams, compared, isThere } = audited;
  const key = { account: ctx.account, source: source.name, isThere };
  const now = new Date(ctx.clock.now());
  const since = new Date(now.getTime() - auditMs);
  if (!(await isAuditDue(ctx.pg, key, since, now)) || (await waitsForQuota(ctx, source))) return false;
  return withAccount(ctx.pg, ctx.account, async client => {
    if ((await notPaused(client, ctx.account, compared)).length < compared.length) return false;
    if (!(await isAuditDue(client, key, since, now))) return false;
    await openRun(client, { account: ctx.account, kind: 'audit', streams, opener }, now);
    return true;
  });
}

async function wake(ctx: Context, opener: number): Promise<boolean> {
  const now = new Date(ctx.clock.now());
  return withAccount(ctx.pg, ctx.account, async client => {
    const reopened = await wakeBackfills(client, ctx.account, opener, now);
    const woken = await wokenStreams(client, ctx.account, now);
    if (woken.length > 0) await openRun(client, { account: ctx.account, kind: 'fresh', streams: woken, opener }, now);
    return reopened || woken.length > 0;
  });
}

/** How often the reconciler looks for lost jobs, and for what people asked, when no one notifies it. */
const reconcileMs = 5000;

export interface Reconciling {
  /** Something has changed: look now. */
  ring(): void;
  stop(): void;
  /** Rejects when a look failed for a reason that does not pass. */
  readonly failed: Promise<never>;
}

/**
 * Calls `look` immediately, on each notification, and every few seconds, never twice concurrently. While the database
 * is away it waits. `all` is false for a look that only a notification has caused.
 */
export function keepReconciling(
  ctx: Pick<Context, 'clock' | 'log' | 'signal'>,
  look: (all: boolean) => Promise<void>,
): Reconciling {
  const stopped = new AbortController();
  const signal = AbortSignal.any([ctx.signal, stopped.signal]);
  let rung = false;
  let missed = true;
  let nextMs = 0;
  let wake = () => {};
  const ring = () => {
    rung = true;
    wake();
  };
  const pause = async () => {
    const waking = new AbortController();
    wake = () => waking.abort();
    const untilNextMs = Math.max(0, nextMs - ctx.clock.monotonic());
    if (!rung) await ctx.clock.sleep(untilNextMs, AbortSignal.any([signal, waking.signal])).catch(() => {});
  };
  const failed = (async () => {
    await Promise.resolve(); // `look` may use what its caller is still opening.
    const attempt = async () => {
      rung = false;
      const all = missed || ctx.clock.monotonic() >= nextMs;
      missed = true;
      try {
        await look(all);
        missed = false;
      } finally {
        if (all) nextMs = ctx.clock.monotonic() + reconcileMs;
      }
    };
    while (!signal.aborted) {
      let away: Error | undefined;
      try {
        await untilBack(attempt, async (error, tries) => {
          if (signal.aborted) throw error;
          away = error;
          ctx.log[tries === 1 ? 'warn' : 'debug']({ error: error.message }, `${describeOutage(error)}; waiting for it`);
          await pause();
        });
        if (away !== undefined) ctx.log.info(isBack(away));
      } catch (error) {
        if (!signal.aborted) throw error;
      }
      await pause();
    }
    return new Promise<never>(() => {});
  })();
  failed.catch(() => {}); // The caller awaits the failure.
  return { ring, stop: () => stopped.abort(), failed };
}
