/**
 * Opens the runs that read lists again when their time in the rotation has come. Fresh changes never wait for sweeps: their lane has
 * the lowest rank. A list that a sync reads whole, such as users, is read by a fresh run, as at night. The times between look and
 * look are held in memory: a worker that starts looks at once. How long a list rests follows from the last run of its stream.
 */
import type { Context, OpenSource } from '../context.ts';
import { type Due, dueOf, promisesOf, readBy, restsUntilMs, rotationOf } from '../deletions/rotation.ts';
import { keepTargets } from '../runs/freshness-targets.ts';
import { notPaused } from '../runs/pauses.ts';
import { isOpen, lastEnd, openRun, withAccount } from '../runs/runs.ts';

/** Longest time between two looks: lists grow, people sweep, and a pause ends. */
const anywayMs = 15 * 60_000;
/** Shortest time between two looks. */
const againMs = 60_000;
/** A person must confirm a mass deletion. The nightly run asks again. */
const dayMs = 24 * 3_600_000;

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
    const rotation = await rotationOf(ctx, source);
    await keepTargets(ctx.pg, ctx.account, promisesOf(ctx, source, rotation), `reread ${source.name}.`);
    const all = dueOf(ctx, rotation);
    const looks: (number | 'opened')[] = [];
    for (const due of all) looks.push(due.inMs > 0 ? due.inMs : await open(due));
    const soonestMs = Math.min(anywayMs, ...looks.filter(one => one !== 'opened'));
    nextMs.set(source.name, nowMs + Math.max(soonestMs, againMs));
    return looks.includes('opened');
  }

  /** Opens a run for one stream, so that no stream waits for the rest of another; or tells after how many ms it may. */
  const open = ({ stream: { key }, kind, lists }: Due): Promise<number | 'opened'> =>
    withAccount(ctx.pg, ctx.account, async client => {
      const now = new Date(ctx.clock.now());
      const last = await lastEnd(client, { account: ctx.account, stream: key }, readBy[kind], now);
      const restMs = last?.massDeletion
        ? last.endedMs + dayMs
        : Math.min(...lists.map(one => restsUntilMs(ctx, one, last)));
      const untilMs = Math.max(restMs, last?.deferredMs ?? 0);
      if (untilMs > now.getTime()) return untilMs - now.getTime();
      if ((await notPaused(client, ctx.account, [key])).length === 0) return anywayMs;
      if ((await isOpen(client, ctx.account, [key], readBy[kind])) !== undefined) return anywayMs;
      await openRun(client, { account: ctx.account, kind, streams: [key], opener }, now);
      return 'opened';
    });

  return {
    async look() {
      let opened = false;
      for (const source of ctx.sources.values()) opened = (await lookAt(source)) || opened;
      return opened;
    },
  };
}
