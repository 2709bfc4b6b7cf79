/**
 * Opens the runs that read lists again when their time in the rotation has come. Fresh changes never wait for them: their lane has
 * the lowest rank. The times between look and look are held in memory: a worker that starts looks at once.
 */
import type { Context, OpenSource } from '../context.ts';
import { type Due, dueOf, rotationOf } from '../deletions/rotation.ts';
import { notPaused } from '../runs/pauses.ts';
import { isOpen, lastEnd, openRun, type RunKind, withAccount } from '../runs/runs.ts';

/** Longest time between two looks: lists grow, and people sweep. */
const anywayMs = 15 * 60_000;
/** Shortest time between two looks: what was opened begins meanwhile. */
const againMs = 60_000;
/** A run that failed has found what a person must decide, such as a mass deletion. The nightly run asks again. */
const dayMs = 24 * 3_600_000;

/** The runs that read a stream again, by the kind that the rotation opens. */
const readBy: Record<Due['kind'], readonly RunKind[]> = { sweep: ['sweep'], fresh: ['sync', 'fresh', 'nightly'] };

export interface Rereading {
  /** Opens what is due. Returns true if it opened a run. */
  look(): Promise<boolean>;
}

export function keepRereading(ctx: Context, opener: number): Rereading {
  /** By source: when to look next, by the monotonic clock. */
  const nextMs = new Map<string, number>();

  async function lookAt(source: OpenSource): Promise<boolean> {
    const nowMs = ctx.clock.monotonic();
    if (nowMs < (nextMs.get(source.name) ?? 0)) return false;
    const all = dueOf(ctx, await rotationOf(ctx, source));
    const soonestMs = Math.min(...all.map(({ inMs }) => inMs));
    nextMs.set(source.name, nowMs + Math.min(Math.max(soonestMs, againMs), anywayMs));
    let opened = false;
    for (const due of all) if (due.inMs <= 0) opened = (await open(due)) || opened;
    return opened;
  }

  /** A run for one stream, so that no stream waits for the rest of another. */
  const open = ({ stream: { key }, kind, everyMs }: Due): Promise<boolean> =>
    withAccount(ctx.pg, ctx.account, async client => {
      const now = new Date(ctx.clock.now());
      const last = await lastEnd(client, { account: ctx.account, stream: key }, readBy[kind]);
      const untilMs = last && Math.max(last.endedMs + (last.failed ? dayMs : everyMs), last.deferredMs ?? 0);
      if (untilMs !== undefined && untilMs > now.getTime()) return false;
      if ((await notPaused(client, ctx.account, [key])).length === 0) return false;
      if ((await isOpen(client, ctx.account, [key], readBy[kind])) !== undefined) return false;
      await openRun(client, { account: ctx.account, kind, streams: [key], opener }, now);
      return true;
    });

  return {
    async look() {
      let opened = false;
      for (const source of ctx.sources.values()) opened = (await lookAt(source)) || opened;
      return opened;
    },
  };
}
