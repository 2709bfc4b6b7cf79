/**
 * Reconciles open runs with the queue: the next stream of each run gets a job, unless a live worker holds it. So a lost
 * job does no harm, whether its worker died, the queue was emptied, or a stream ended without a successor. Work on
 * paused or canceled runs is stopped.
 */

import { describeOutage, FencedOff, Paused } from '../../errors.ts';
import type { Stream } from '../../sources/source.ts';
import type { Context, OpenSource } from '../context.ts';
import { transaction } from '../database/pool.ts';
import { nameOfKey } from '../database/stream-key.ts';
import { untilBack } from '../outage.ts';
import { heldBy, release, stopped } from '../runs/claims.ts';
import { notPaused } from '../runs/pauses.ts';
import { wakeBackfills } from '../runs/ranges.ts';
import { isNext, isResting, lockAccount, openRun, type RunKind, waitingWork, wokenStreams } from '../runs/runs.ts';
import { isAuditDue } from '../verify/findings.ts';
import type { JobQueue } from './queue.ts';
import type { Jobs } from './worker.ts';

export async function reconcile(ctx: Context, queue: JobQueue, me: { worker: number; jobs: Jobs }): Promise<void> {
  await stopWhatMayNotGoOn(ctx, me.jobs);
  // Claims that this process lost while the database was away are looked up first, and compared with its jobs of now.
  const held = await heldBy(ctx.pg, me.worker);
  for (const claim of held.filter(({ job }) => !me.jobs.has(job))) await release(ctx.pg, claim, 0);
  for (const { run, stream, kind, token } of await waitingWork(ctx.pg, ctx.account, me.worker)) {
    // The token is part of the job name: a failed job keeps its name in the failed set, so a new delivery needs another
    // one.
    const known = ctx.streams.find(({ key }) => key === stream);
    await queue.add(jobFor(known, kind), `run-${run}-${stream}-${token}`, { account: ctx.account, run, stream });
  }
}

async function stopWhatMayNotGoOn(ctx: Context, jobs: Jobs): Promise<void> {
  const held = jobs.claims();
  if (held.length === 0) return;
  const found = await stopped(
    ctx.pg,
    ctx.account,
    held.map(({ claim }) => claim),
  );
  for (const { place, paused } of found) {
    const { job, claim } = held[place]!;
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
 * minutes, or when a person starts a run that reads the same.
 */
export async function openWaiting(ctx: Context, opener: number): Promise<void> {
  for (const { key: stream, source, pending } of ctx.streams) {
    if (pending === undefined || !ctx.sources.has(source)) continue;
    const key = { account: ctx.account, stream };
    const now = new Date(ctx.clock.now());
    if (!(await pending.isDue(ctx))) continue;
    await transaction(ctx.pg, async client => {
      await lockAccount(client, ctx.account);
      if ((await notPaused(client, ctx.account, [stream])).length === 0) return;
      if (await isNext(client, ctx.account, stream)) return;
      if (await isResting(client, key, now, restMs)) return;
      await openRun(client, { account: ctx.account, kind: 'hydrate', streams: [stream], opener }, now);
    });
  }
  for (const source of ctx.sources.values()) await openAudit(ctx, source, opener);
  if ([...ctx.sources.values()].some(({ longestWaitMs }) => longestWaitMs !== undefined)) await wake(ctx, opener);
}

/** Shortest time between the starts of two audits. */
const auditMs = 3_600_000;

/** Unused credits go to audits, while no other work needs the source. */
async function openAudit(ctx: Context, source: OpenSource, opener: number): Promise<void> {
  const { audit } = source.declaration;
  if (!audit?.isWanted(source)) return;
  const key = { account: ctx.account, source: source.name, audit };
  const { streams, beside } = audit;
  const now = new Date(ctx.clock.now());
  const since = new Date(now.getTime() - auditMs);
  if (!(await isAuditDue(ctx.pg, key, since, now))) return;
  await transaction(ctx.pg, async client => {
    await lockAccount(client, ctx.account);
    const read = [...streams, ...beside];
    if ((await notPaused(client, ctx.account, read)).length < read.length) return;
    if (await isAuditDue(client, key, since, now))
      await openRun(client, { account: ctx.account, kind: 'audit', streams, opener }, now);
  });
}

async function wake(ctx: Context, opener: number): Promise<void> {
  const now = new Date(ctx.clock.now());
  await transaction(ctx.pg, async client => {
    await lockAccount(client, ctx.account);
    await wakeBackfills(client, ctx.account, opener, now);
    const woken = await wokenStreams(client, ctx.account, now);
    if (woken.length > 0) await openRun(client, { account: ctx.account, kind: 'fresh', streams: woken, opener }, now);
  });
}

/** How often the reconciler looks for lost jobs, due slots and waiting messages when no one notifies it. */
const reconcileMs = 5000;

export interface Reconciling {
  /** Something has changed: look now. */
  ring(): void;
  stop(): void;
  /** Rejects when a look failed for a reason that does not pass. */
  readonly failed: Promise<never>;
}

/** Most looks a second in a process with many accounts, notifications apart. */
const looksPerSecond = 10;

/**
 * Calls `look` immediately, on each notification, and every few seconds, never twice concurrently. While the database
 * is away it waits. `beside`: the number of accounts of the process; their looks are spread at random.
 */
export function keepReconciling(ctx: Context, look: () => Promise<void>, beside = 1): Reconciling {
  const everyMs = Math.max(reconcileMs, (beside * 1000) / looksPerSecond);
  const untilNextMs = () => (beside > 1 ? everyMs * (0.5 + ctx.random()) : everyMs);
  const stopped = new AbortController();
  const signal = AbortSignal.any([ctx.signal, stopped.signal]);
  let rung = false;
  let wake = () => {};
  const ring = () => {
    rung = true;
    wake();
  };
  const pause = async () => {
    const waking = new AbortController();
    wake = () => waking.abort();
    if (!rung) await ctx.clock.sleep(untilNextMs(), AbortSignal.any([signal, waking.signal])).catch(() => {});
  };
  const failed = (async () => {
    await Promise.resolve(); // `look` may use what its caller is still opening.
    const attempt = () => {
      rung = false;
      return look();
    };
    while (!signal.aborted) {
      try {
        await untilBack(attempt, async (error, tries) => {
          if (signal.aborted) throw error;
          ctx.log[tries === 1 ? 'warn' : 'debug']({ error: error.message }, `${describeOutage(error)}; waiting for it`);
          await pause();
        });
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
