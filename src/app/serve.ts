/** Runs one account in a process of `start`: its jobs, runs and schedule, until it is disposed of. */

import type { Context } from '../engine/context.ts';
import type { Job } from '../engine/queue/job.ts';
import { keepReconciling, openWaiting, reconcile } from '../engine/queue/reconcile.ts';
import { keepSchedule } from '../engine/queue/schedule.ts';
import { work } from '../engine/queue/worker.ts';
import { forgetOld } from '../engine/runs/slots.ts';
import { OpenStack } from '../open-stack.ts';
import { type Ground, openAccountOn } from './account.ts';
import type { Config } from './config.ts';

const dayMs = 24 * 3_600_000;

/** The timers of all accounts fire in the same second. This is the mean distance between two accounts. */
const apartMs = 20;

export interface Served extends AsyncDisposable {
  /** Number of this process in sync.workers, for this account. */
  readonly worker: number;
  /** Rejects when the reconcile loop of the account fails for a permanent reason. */
  readonly failed: Promise<never>;
}

interface How {
  readonly jobs: readonly Job[];
  readonly signal: AbortSignal;
  /** Number of accounts that the process serves. It spreads their database queries over time. */
  readonly beside: number;
  /** Makes the function that reports finished runs after each look. */
  readonly reporter: (ctx: Context, worker: number) => () => Promise<void>;
}

export async function serve(ground: Ground, config: Config, { jobs, signal, beside, reporter }: How): Promise<Served> {
  await using stack = new OpenStack();
  const { ctx, queue, presence } = stack.use(await openAccountOn(ground, config, { signal, works: true }));
  const leaving = new AbortController();
  const over = AbortSignal.any([signal, leaving.signal]);
  const report = reporter(ctx, presence.id);
  let forgotMs = Number.NEGATIVE_INFINITY;
  const look = async () => {
    await schedule.look();
    await openWaiting(ctx, presence.id);
    await reconcile(ctx, queue, { worker: presence.id, jobs: working.jobs });
    await report();
    if (ctx.clock.monotonic() - forgotMs < dayMs) return;
    await forgetOld(ctx.pg, ctx.account, new Date(ctx.clock.now()));
    forgotMs = ctx.clock.monotonic();
  };
  const reconciling = keepReconciling(ctx, look, beside);
  // A random order, so that no account is always the last.
  const alarm = () => {
    const waitMs = beside > 1 ? ctx.random() * beside * apartMs : 0;
    ctx.clock.sleep(waitMs, over).then(reconciling.ring, () => {});
  };
  const schedule = stack.use(keepSchedule(ctx, config.schedule, presence.id, alarm));
  const working = stack.use(work(ctx, queue, jobs, { worker: presence.id, afterEach: reconciling.ring }));
  stack.defer(() => {
    leaving.abort();
    reconciling.stop();
  });
  const opened = stack.move();
  return { worker: presence.id, failed: reconciling.failed, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}
