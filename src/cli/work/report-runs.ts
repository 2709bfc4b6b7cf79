/** Prints a line for each run of this process that ended, except runs of every minute that found nothing. */
import type { Context } from '../../engine/context.ts';
import { finishedSince } from '../../engine/runs/runs.ts';
import { amount, count } from '../../words.ts';
import { say, style } from '../output/terminal.ts';

/** With several accounts in the process, each line names its account. */
export const reporterOf =
  (accounts: number) =>
  (ctx: Context, worker: number): (() => Promise<void>) => {
    const whose = accounts > 1 ? `${ctx.account}: ` : '';
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
  };
