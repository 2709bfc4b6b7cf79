/**
 * Prints a line for each run of this process that ended, except runs of every minute that found nothing; and a line when
 * requests of a source begin to fail. The run itself fails minutes later only.
 */
import type { Context } from '../../engine/context.ts';
import { finishedSince } from '../../engine/runs/runs.ts';
import { amount, count } from '../../words.ts';
import { waitText } from '../output/progress.ts';
import { say, style } from '../output/terminal.ts';

/** With several accounts in the process, each line names its account. */
export const reporterOf =
  (accounts: number) =>
  (ctx: Context, worker: number): (() => Promise<void>) => {
    const whose = accounts > 1 ? `${ctx.account}: ` : '';
    let since = new Date(ctx.clock.now());
    const reportRetries = retriesOf(ctx, whose);
    return async () => {
      reportRetries();
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

/** An outage is over if so many looks in a row find no retry. */
const calmLooks = 3;

/** Reports the first retry of each outage of a source. */
function retriesOf(ctx: Context, whose: string): () => void {
  const calm = new Map<string, number>();
  return () => {
    for (const { name, send, declaration } of ctx.sources.values()) {
      const wait = send.waits();
      const before = calm.get(name) ?? calmLooks;
      if (wait?.isRetry !== true) calm.set(name, before + 1);
      else {
        if (before >= calmLooks)
          say(`${style('yellow', '!', process.stderr)} ${whose}${declaration.label}: ${waitText(wait)}`);
        calm.set(name, 0);
      }
    }
  };
}
