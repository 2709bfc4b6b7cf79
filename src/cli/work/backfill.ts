/** `backfill [streams…]`: fills the gaps of a range, newest first; --again also re-reads synced ranges. */

import type { Command } from 'commander';
import type { Config } from '../../app/config.ts';
import type { Warehouse } from '../../app/context.ts';
import type { StreamKey } from '../../engine/database/stream-key.ts';
import type { Job } from '../../engine/queue/job.ts';
import { openBackfill } from '../../engine/runs/ranges.ts';
import type { Range } from '../../engine/runs/runs.ts';
import { UsageError } from '../../errors.ts';
import { streamNames } from '../../sources/index.ts';
import { listStreams, parsePast, parseTime } from '../arguments.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { say } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';
import { chooseStreams, followRun, liftQuotaDeferral, type RunResult, report, skipPaused } from './follow.ts';
import { openWithForecast } from './forecast.ts';

export interface BackfillOptions {
  since?: Date;
  until?: Date;
  again?: boolean;
  json?: boolean;
}

/** The streams and the range of a backfill. Throws UsageError. */
export function backfillOf(
  names: readonly string[],
  options: BackfillOptions,
  config: Config,
): { streams: StreamKey[]; range: Range } {
  const { since = null, until = null, again = false } = options;
  if (since && until && since >= until)
    throw new UsageError(
      '--since is not before --until',
      'Give a --since that is earlier than --until; --until itself is excluded.',
    );
  const all = chooseStreams(names, config);
  const streams = names.length > 0 || !again ? all : all.filter(key => listStreams.includes(key));
  return { streams, range: { since, until, again } };
}

export function addBackfill(program: Command, deps: Deps, act: Act): void {
  program
    .command('backfill')
    .summary('fill the gaps of a range')
    .description(
      'fill the gaps of a range, newest first, with pending messages of its tickets; shelves and volumes have no range and are fetched if due',
    )
    .addHelpText(
      'after',
      note(
        'Of messages it reads those of the tickets that changed in the range. An interrupted backfill resumes, and a second one with the same range joins the first. --again costs 1 credit for each page of a list; it re-reads messages and volumes only if they are named, for 2 credits a ticket and 1 request a volume.',
      ),
    )
    .argument(
      '[streams...]',
      `some of: ${streamNames.join(', ')} (default: all; with --again all but messages and volumes)`,
    )
    .option('--since <time>', 'start of the range, e.g. 2024-01-01 (default: start of the mirror)', parsePast)
    .option('--until <time>', 'end of the range (default: high-water mark, or now with --again)', parseTime)
    .option(
      '--again',
      'also re-read synced ranges; messages and volumes only if named: 2 credits per ticket, 1 per volume',
    )
    .option(...jsonOption)
    .action(
      act(async (names: string[], options: BackfillOptions) => {
        const config = deps.config();
        const { streams, range } = backfillOf(names, options, config);
        await using warehouse = await warehouseOf(config, deps.signal);
        const result = await runBackfill(config, warehouse, streams, range, deps);
        report(result, options);
        return result.exitCode;
      }),
    );
}

export async function runBackfill(
  config: Config,
  warehouse: Warehouse,
  names: readonly StreamKey[],
  range: Range,
  deps: { jobs: readonly Job[]; signal: AbortSignal },
): Promise<RunResult> {
  return followRun(config, warehouse, deps, async (ctx, opener) => {
    const wanted = await skipPaused(ctx, names);
    await liftQuotaDeferral(ctx, wanted);
    const asked = { account: ctx.account, streams: wanted, opener, range };
    const question = { kind: 'backfill', streams: wanted, range } as const;
    const open = () => openBackfill(ctx.pg, asked, new Date(ctx.clock.now()));
    const { run, resumed } = await openWithForecast(ctx, question, open);
    if (resumed) say(`Resuming run ${run}, which has the same range.`);
    return run;
  });
}
