/**
 * Opens the runs that read lists again when their time in the rotation has come. Fresh changes never wait for them: their lane has
 * the lowest rank.
 */
import type { Context, OpenSource } from '../context.ts';
import type { StreamKey } from '../database/stream-key.ts';
import { dueIn, rotationOf } from '../deletions/rotation.ts';
import { notPaused } from '../runs/pauses.ts';
import { failedSince, isOpen, openRun, type RunKind, withAccount } from '../runs/runs.ts';

/** Longest time between two looks: lists grow, and people sweep. */
const anywayMs = 15 * 60_000;
/** What was opened is not looked at again while it begins. */
const againMs = 60_000;
/** A sweep that failed has found what a person must decide, or a source that is away. */
const restMs = 3_600_000;

export interface Rereading {
  /** Opens what is due. Returns true if it opened a run. */
  look(): Promise<boolean>;
}

export function keepRereading(ctx: Context, opener: number): Rereading {
  /** By source: when the next list is due. */
  const nextMs = new Map<string, number>();

  async function lookAt(source: OpenSource): Promise<boolean> {
    const nowMs = ctx.clock.now();
    if (nowMs < (nextMs.get(source.name) ?? 0)) return false;
    const rotation = await rotationOf(ctx, source);
    const soonest = Math.min(...rotation.map(({ checkedMs, everyMs }) => (checkedMs ?? nowMs) + everyMs));
    const due = new Set(dueIn(rotation, nowMs).map(({ stream }) => stream));
    nextMs.set(source.name, due.size > 0 ? nowMs + againMs : Math.min(soonest, nowMs + anywayMs));
    const streams = ctx.streams.filter(stream => due.has(stream.key));
    const swept = await open(
      'sweep',
      streams.filter(({ jobs }) => jobs.sweep !== undefined).map(({ key }) => key),
    );
    return (
      (await open(
        'fresh',
        streams.filter(({ jobs }) => jobs.sweep === undefined).map(({ key }) => key),
      )) || swept
    );
  }

  const open = (kind: RunKind, all: readonly StreamKey[]): Promise<boolean> =>
    withAccount(ctx.pg, ctx.account, async client => {
      const now = new Date(ctx.clock.now());
      const failed = await failedSince(client, ctx.account, kind, all, new Date(now.getTime() - restMs));
      const streams = (await notPaused(client, ctx.account, all)).filter(key => !failed.includes(key));
      if (streams.length === 0 || (await isOpen(client, ctx.account, streams, [kind])) !== undefined) return false;
      await openRun(client, { account: ctx.account, kind, streams, opener }, now);
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
