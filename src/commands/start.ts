/** `start`: a worker and the schedule, until SIGTERM. Any number of them may run, on any number of machines. */
import type { Command } from 'commander';
import { type Context, requireSource } from '../context.ts';
import { exitCodes } from '../errors.ts';
import { keepSchedule } from '../queue/schedule.ts';
import { keepTending, openWaiting, tend } from '../queue/tend.ts';
import { work } from '../queue/worker.ts';
import { finishedSince } from '../warehouse/runs.ts';
import { forgetOld } from '../warehouse/slots.ts';
import { openAccount } from './account.ts';
import type { Act, Deps } from './command.ts';
import { scheduleOf, showSchedule } from './schedule.ts';
import { amount, say, style } from './terminal.ts';
import { warehouseOf } from './warehouse.ts';

const dayMs = 24 * 3_600_000;

export function addStart(program: Command, deps: Deps, act: Act): void {
  program
    .command('start')
    .description('work and keep the schedule until SIGTERM or Ctrl-C; several may run, on several machines')
    .action(
      act(async () => {
        const config = deps.config();
        requireSource(config);
        await using warehouse = await warehouseOf(config, deps.signal);
        await using account = await openAccount(config, warehouse, { signal: deps.signal, works: true });
        const { ctx, queue, presence } = account;
        say(`Worker ${presence.id} is at work on account '${ctx.account}', until Ctrl-C.`);
        showSchedule(await scheduleOf(ctx.pg, config));

        const runs = reporter(ctx, presence.id);
        let forgotMs = Number.NEGATIVE_INFINITY;
        const tending = keepTending(ctx, async () => {
          await schedule.look();
          await openWaiting(ctx, presence.id);
          await tend(ctx, queue, { worker: presence.id, jobs: working.jobs });
          await runs();
          if (ctx.clock.monotonic() - forgotMs < dayMs) return;
          await forgetOld(ctx.pg, ctx.account, new Date(ctx.clock.now()));
          forgotMs = ctx.clock.monotonic();
        });
        await using schedule = keepSchedule(ctx, config.schedule, presence.id, tending.ring);
        await using working = work(ctx, queue, deps.jobs, { worker: presence.id, afterEach: tending.ring });
        await Promise.race([aborted(deps.signal), tending.failed]);
        tending.stop();
        say('Handing over at the next page…');
        return exitCodes.ok;
      }),
    );
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** A line for each run that this process had a part in: but for those of every minute that found nothing. */
function reporter(ctx: Context, worker: number): () => Promise<void> {
  let since = new Date(ctx.clock.now());
  return async () => {
    const runs = await finishedSince(ctx.pg, worker, since);
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
      const counts = `${amount(seen)} read, ${amount(inserted)} new, ${amount(updated)} changed, ${amount(credits)} credits`;
      say(`${finished_at.toISOString().slice(0, 19)}Z ${mark} run ${run}, ${kind}: ${state}: ${counts}`);
      if (error) say(`  ${error}. ${remedy ?? ''}`);
    }
  };
}
