/** One account in a process of `start`: its jobs, its runs and its schedule, until it is disposed of. */

import { say, style } from '../cli/output/terminal.ts';
import type { Context } from '../engine/context.ts';
import type { Job } from '../engine/queue/job.ts';
import { keepTending, openWaiting, tend } from '../engine/queue/reconcile.ts';
import { keepSchedule } from '../engine/queue/schedule.ts';
import { work } from '../engine/queue/worker.ts';
import { finishedSince } from '../engine/runs/runs.ts';
import { forgetOld } from '../engine/runs/slots.ts';
import { amount, count } from '../words.ts';
import { type Ground, openAccountOn } from './account.ts';
import type { Config } from './config.ts';

const dayMs = 24 * 3_600_000;

/** The alarms of all accounts ring in the same second: so much is put between two of them on average. */
const apartMs = 20;

export interface Served extends AsyncDisposable {
  /** The number of this process in sync.workers, for this account. */
  readonly worker: number;
  /** Rejects when what looks after the account failed, for a reason that does not pass. */
  readonly failed: Promise<never>;
}

/** `beside`: how many accounts the process serves in all, by which the looks of each are spread. */
export async function serve(
  ground: Ground,
  config: Config,
  { jobs, signal, beside }: { jobs: readonly Job[]; signal: AbortSignal; beside: number },
): Promise<Served> {
  await using stack = new AsyncDisposableStack();
  const { ctx, queue, presence } = stack.use(await openAccountOn(ground, config, { signal, works: true }));
  const leaving = new AbortController();
  const over = AbortSignal.any([signal, leaving.signal]);
  const runs = reporter(ctx, presence.id, beside > 1 ? `${ctx.account}: ` : '');
  let forgotMs = Number.NEGATIVE_INFINITY;
  const look = async () => {
    await schedule.look();
    await openWaiting(ctx, presence.id);
    await tend(ctx, queue, { worker: presence.id, jobs: working.jobs });
    await runs();
    if (ctx.clock.monotonic() - forgotMs < dayMs) return;
    await forgetOld(ctx.pg, ctx.account, new Date(ctx.clock.now()));
    forgotMs = ctx.clock.monotonic();
  };
  const tending = keepTending(ctx, look, beside);
  // Chance decides each time who is first: so nobody is always the last.
  const alarm = () => {
    const waitMs = beside > 1 ? ctx.random() * beside * apartMs : 0;
    ctx.clock.sleep(waitMs, over).then(tending.ring, () => {});
  };
  const schedule = stack.use(keepSchedule(ctx, config.schedule, presence.id, alarm));
  const working = stack.use(work(ctx, queue, jobs, { worker: presence.id, afterEach: tending.ring }));
  stack.defer(() => {
    leaving.abort();
    tending.stop();
  });
  const opened = stack.move();
  return { worker: presence.id, failed: tending.failed, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

/** A line for each run that this process had a part in: but for those of every minute that found nothing. */
function reporter(ctx: Context, worker: number, whose: string): () => Promise<void> {
  let since = new Date(ctx.clock.now());
  return async () => {
    const runs = await finishedSince(ctx.pg, ctx.account, worker, since);
    for (const {
      run,
      kind,
      state,
      finished_at,
      seen,
      inserted,
      updated,
      deleted,
      rejected,
      credits,
      error,
      remedy,
    } of runs) {
      since = finished_at;
      const found = inserted + updated + deleted + rejected > 0;
      if (state === 'completed' && !found && (kind === 'fresh' || kind === 'hydrate')) continue;
      const mark = state === 'completed' ? style('green', '✓', process.stderr) : style('yellow', '!', process.stderr);
      const counts = `${amount(seen)} read, ${amount(inserted)} new, ${amount(updated)} changed, ${count(credits, 'credit')}`;
      say(`${finished_at.toISOString().slice(0, 19)}Z ${mark} ${whose}run ${run}, ${kind}: ${state}: ${counts}`);
      if (error) say(`  ${error}. ${remedy ?? ''}`);
    }
  };
}
