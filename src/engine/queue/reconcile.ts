/**
 * Looks after the open runs: the next stream of each, unless somebody alive is at work on it, gets its job. So it does not
 * matter how a job was lost: with its worker, with the queue, or when a stream ended and nobody was left to go on. And
 * whoever is at work on what people have paused or canceled is stopped.
 */

import type { Context } from '../../app/context.ts';
import { awaySaid, FencedOff, Paused } from '../../errors.ts';
import { dueVolumes, nextVolumes } from '../../sources/books/volume-rows.ts';
import { firstWaiting, isRipe } from '../../sources/helpdesk/messages/waiting.ts';
import { streams } from '../../sources/index.ts';
import { dueRejects } from '../commit/rejects.ts';
import { transaction } from '../database/pool.ts';
import type { SourceName } from '../http/request.ts';
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
    await queue.add(jobFor(stream, kind), `run-${run}-${stream}-${token}`, { account: ctx.account, run, stream });
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
    const what = `stream ${claim.stream} of run ${claim.run}`;
    jobs.stop(job, paused ? new Paused(what) : new FencedOff(what));
  }
}

/** Kinds of run that do something else with a stream than read what is new of it. */
const jobOfKind: Partial<Record<RunKind, string>> = {
  sweep: 'sweep-stream',
  verify: 'verify-stream',
};

function jobFor(name: string, kind: RunKind): string {
  const own = jobOfKind[kind];
  if (own !== undefined) return own;
  const stream = streams.find(one => one.name === name);
  if (kind === 'audit') return stream?.source === 'books' ? 'audit-books' : 'audit-tickets';
  switch (stream?.kind) {
    case 'detail':
      return 'hydrate-messages';
    case 'volumes':
      return 'hydrate-volumes';
    case 'shelves':
      return 'read-shelves';
    default:
      return kind === 'backfill' ? 'backfill-stream' : 'sync-stream';
  }
}

/** After a failure it is not tried at once: the source may be down for hours. */
const restMs = 60_000;

/**
 * Opens what nobody asks for: runs that read by id what waits for it, or failed and is due again; and runs of lists that
 * slept over a day's quota. Not where another run is to read the same. A run by id ends when nothing waits, or after some
 * minutes, and whenever somebody has asked for a run that reads the same.
 */
export async function openWaiting(ctx: Context, opener: number): Promise<void> {
  for (const [source, stream, waits] of [
    ['helpdesk', 'messages', messagesWait],
    ['books', 'volumes', volumesWait],
  ] as const) {
    if (!ctx.sources.has(source)) continue;
    const key = { account: ctx.account, stream };
    const now = new Date(ctx.clock.now());
    if (!(await waits(ctx, key))) continue;
    await transaction(ctx.pg, async client => {
      await lockAccount(client, ctx.account);
      if ((await notPaused(client, ctx.account, [stream])).length === 0) return;
      if (await isNext(client, ctx.account, stream)) return;
      if (await isResting(client, key, now, restMs)) return;
      await openRun(client, { account: ctx.account, kind: 'hydrate', streams: [stream], opener }, now);
    });
  }
  for (const source of ctx.sources) await openAudit(ctx, source, opener);
  if (ctx.sources.has('books')) await wake(ctx, opener);
}

/** So often at most an audit is begun. */
const auditMs = 3_600_000;

/** What an audit of a source is a run of, and what it reads besides. */
const audited: Readonly<Record<SourceName, { streams: readonly string[]; beside: readonly string[] }>> = {
  helpdesk: { streams: ['tickets'], beside: ['messages'] },
  books: { streams: ['shelves', 'volumes'], beside: [] },
};

const isAuditWanted: Readonly<Record<SourceName, (ctx: Context) => boolean>> = {
  helpdesk: ({ helpdesk: { audit } }) => audit.ticketsPerHour > 0 || audit.messagesAgeMs !== undefined,
  books: ({ books }) => books.auditVolumesPerHour > 0,
};

/** Credits that nobody wants buy certainty: not while anything else is to be read of the source. */
async function openAudit(ctx: Context, source: SourceName, opener: number): Promise<void> {
  if (!isAuditWanted[source](ctx)) return;
  const key = { account: ctx.account, source };
  const { streams, beside } = audited[source];
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

type Key = { account: string; stream: string };

async function messagesWait(ctx: Context, key: Key): Promise<boolean> {
  const nowMs = ctx.clock.now();
  const sourceMs = ctx.helpdesk.send.sourceNow() ?? nowMs;
  const when = { ripeMs: sourceMs, futureMs: sourceMs + ctx.helpdesk.lookbackMs, startedMs: nowMs, namesMs: 0 };
  const first = await firstWaiting(ctx.pg, key, when);
  return isRipe(first, when) || (await dueRejects(ctx.pg, key, new Date(nowMs))).length > 0;
}

async function volumesWait(ctx: Context, key: Key): Promise<boolean> {
  const nowMs = ctx.clock.now();
  const beforeMs = (ctx.books.send.sourceNow() ?? nowMs) - ctx.books.volumeAgeMs;
  const waiting = await nextVolumes(ctx.pg, key, { beforeMs, startedMs: nowMs }, 1);
  return waiting.length > 0 || (await dueVolumes(ctx.pg, key, new Date(nowMs))).length > 0;
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
          ctx.log[tries === 1 ? 'warn' : 'debug']({ error: error.message }, `${awaySaid(error)}; waiting for it`);
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
