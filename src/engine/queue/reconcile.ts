/**
 * Looks after the open runs: the next stream of each, unless somebody alive is at work on it, gets its job. So it does not
 * matter how a job was lost: with its worker, with the queue, or when a stream ended and nobody was left to go on. And
 * whoever is at work on what people have paused or canceled is stopped.
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

export async function tend(ctx: Context, queue: JobQueue, me: { worker: number; jobs: Jobs }): Promise<void> {
  await stopWhatMayNotGoOn(ctx, me.jobs);
  // What this process lost while the database was away is looked up first, and judged by the jobs that it has then.
  const held = await heldBy(ctx.pg, me.worker);
  for (const claim of held.filter(({ job }) => !me.jobs.has(job))) await release(ctx.pg, claim, 0);
  for (const { run, stream, kind, token } of await waitingWork(ctx.pg, ctx.account, me.worker)) {
    // The token makes the name of a job that is delivered anew a new one: a failed one keeps its name in the failed set.
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

/** The job that does the work of a run of this kind on a stream. */
function jobFor(stream: Stream | undefined, kind: RunKind): string {
  if (kind === 'sweep' || kind === 'verify' || kind === 'audit') return `${kind}-stream`;
  return kind === 'backfill' && stream?.jobs.backfill !== undefined ? 'backfill-stream' : 'sync-stream';
}

/** After a failure it is not tried at once: the source may be down for hours. */
const restMs = 60_000;

/**
 * Opens what nobody asks for: runs that read by id what waits for it, or failed and is due again; and runs of lists that
 * slept over a day's quota. Not where another run is to read the same. A run by id ends when nothing waits, or after some
 * minutes, and whenever somebody has asked for a run that reads the same.
 */
export async function openWaiting(ctx: Context, opener: number): Promise<void> {
  for (const { key: stream, source, isDue } of ctx.streams) {
    if (isDue === undefined || !ctx.sources.has(source)) continue;
    const key = { account: ctx.account, stream };
    const now = new Date(ctx.clock.now());
    if (!(await isDue(ctx))) continue;
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

/** So often at most an audit is begun. */
const auditMs = 3_600_000;

/** Credits that nobody wants buy certainty: not while anything else is to be read of the source. */
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

/** How often it is looked whether jobs were lost, slots are due or messages wait, without anybody's ringing. */
const tendMs = 5000;

export interface Tending {
  /** Something has changed: look now. */
  ring(): void;
  stop(): void;
  /** Rejects when the looking failed, for a reason that does not pass. */
  readonly failed: Promise<never>;
}

/** A process that serves many accounts looks after so many of them in a second at most, without anybody's ringing. */
const looksPerSecond = 10;

/**
 * Calls `look` at once, when it rings, and every few seconds, one call after the other. While the database is away it waits.
 * `beside`: how many accounts the process serves; their looks are spread by chance.
 */
export function keepTending(ctx: Context, look: () => Promise<void>, beside = 1): Tending {
  const everyMs = Math.max(tendMs, (beside * 1000) / looksPerSecond);
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
    await Promise.resolve(); // `look` may speak of what its caller is still opening.
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
  failed.catch(() => {}); // Whoever waits for it hears of it.
  return { ring, stop: () => stopped.abort(), failed };
}
