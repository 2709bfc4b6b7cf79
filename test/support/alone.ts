/**
 * Runs as `sync` and `backfill` make them, read in this process by their jobs alone, one stream after the other. A queue, a worker,
 * and a command that follows a run have no part in it, and are half of what a small run takes.
 */
import { pino } from 'pino';
import { backfillStream } from '../../jobs/backfill-stream.ts';
import { syncStream } from '../../jobs/sync-stream.ts';
import { type Ground, openAccountOn } from '../../src/app/account.ts';
import type { Config } from '../../src/app/config.ts';
import { chooseStreams, liftQuotaDeferral, type RunResult, resultOf } from '../../src/cli/work/follow.ts';
import type { Context } from '../../src/engine/context.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import type { StreamKey } from '../../src/engine/database/stream-key.ts';
import { openBackfill } from '../../src/engine/runs/ranges.ts';
import { endAbandonedRuns, endRun, openSync, type Range, readProgress } from '../../src/engine/runs/runs.ts';
import { Interrupted, StreamFailed } from '../../src/errors.ts';
import { streamOf } from '../../src/sources/index.ts';
import { keysOf } from './keys.ts';

/** In place of the parts of a process that are left out. */
const nobody = {
  queues: { open: () => ({ [Symbol.asyncDispose]: async () => {} }) },
  attendance: { enter: async () => ({ id: 0, [Symbol.asyncDispose]: async () => {} }) },
  log: pino({ level: 'silent' }),
};

type Open = (ctx: Context, streams: StreamKey[]) => Promise<number>;

async function read(
  config: Config,
  names: readonly string[] | undefined,
  open: Open,
  kind: 'sync' | 'backfill',
  signal = new AbortController().signal,
): Promise<RunResult> {
  const pool = makePool(config.databaseUrl!);
  try {
    const warehouse = { url: config.databaseUrl!, pg: pool, ledger: pool };
    const ground = { ...nobody, warehouse } as unknown as Ground;
    await using account = await openAccountOn(ground, config, { signal, works: false });
    const { ctx } = account;
    const now = () => new Date(ctx.clock.now());
    const streams = chooseStreams(names ? keysOf(names) : [], config);
    await endAbandonedRuns(pool, ctx.account, now());
    await liftQuotaDeferral(ctx, streams);
    const run = await open(ctx, streams);
    const claimant = { worker: 0, job: 'job', rules: ctx.rules ?? '', bound: ctx.bound ?? [] };
    for (const stream of streams) {
      const job = kind === 'backfill' && streamOf(stream).jobs.backfill ? backfillStream : syncStream;
      await job.run({ ...ctx, claimant }, { account: ctx.account, run, stream }).catch((error: unknown) => {
        if (!(error instanceof StreamFailed || error instanceof Interrupted)) throw error;
      });
    }
    if (signal.aborted) await endRun(pool, run, now(), signal.reason);
    return resultOf(run, await readProgress(pool, run));
  } finally {
    await pool.end();
  }
}

const minuteMs = 60_000;

export const syncAlone = (config: Config, names?: readonly string[], signal?: AbortSignal): Promise<RunResult> =>
  read(
    config,
    names,
    (ctx, streams) =>
      openSync(ctx.pg, { account: ctx.account, streams, opener: 0 }, new Date(ctx.clock.now()), minuteMs),
    'sync',
    signal,
  );

export const backfillAlone = (
  config: Config,
  names: readonly string[],
  range: Partial<Range> = {},
  signal?: AbortSignal,
): Promise<RunResult> =>
  read(
    config,
    names,
    async (ctx, streams) => {
      const whole = { since: null, until: null, again: false, ...range };
      const asked = { account: ctx.account, streams, opener: 0, range: whole };
      return (await openBackfill(ctx.pg, asked, new Date(ctx.clock.now()))).run;
    },
    'backfill',
    signal,
  );
