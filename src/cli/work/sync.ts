/** `sync [streams…]`: incremental sync from the high-water mark to now, then pending messages. */

import type { Command } from 'commander';
import type { Config } from '../../app/config.ts';
import type { Warehouse } from '../../app/context.ts';
import type { StreamKey } from '../../engine/database/stream-key.ts';
import type { Job } from '../../engine/queue/job.ts';
import { openSync } from '../../engine/runs/runs.ts';
import { streamNames } from '../../sources/index.ts';
import { type Act, type Deps, note } from '../command.ts';
import { warehouseOf } from '../warehouse.ts';
import { chooseStreams, followRun, liftQuotaDeferral, type RunResult, report, skipPaused } from './follow.ts';
import { openWithForecast } from './forecast.ts';

/** A stream that an interrupted run completed within this time is carried over, not re-read. */
const carryMs = 60_000;

export function addSync(program: Command, deps: Deps, act: Act): void {
  program
    .command('sync')
    .summary('read what is new')
    .description('run an incremental sync, then fetch pending messages')
    .addHelpText(
      'after',
      note(
        'Creates the tables first. If a worker runs, the worker does the work and this command watches: Ctrl-C ends the watching only. Otherwise Ctrl-C stops the run at the next page, and the same command resumes it.',
      ),
    )
    .argument('[streams...]', `some of: ${streamNames.join(', ')} (default: all)`)
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async (names: string[], options: { json?: boolean }) => {
        const config = deps.config();
        const wanted = chooseStreams(names, config);
        await using warehouse = await warehouseOf(config, deps.signal);
        const result = await runSync(config, warehouse, wanted, {
          ...deps,
          // A named stream is always read now.
          ...(names.length > 0 && { carryMs: 0 }),
        });
        report(result, options);
        return result.exitCode;
      }),
    );
}

export async function runSync(
  config: Config,
  warehouse: Warehouse,
  streams: readonly StreamKey[],
  deps: { jobs: readonly Job[]; signal: AbortSignal; carryMs?: number },
): Promise<RunResult> {
  return followRun(config, warehouse, deps, async (ctx, opener) => {
    const wanted = await skipPaused(ctx, streams);
    await liftQuotaDeferral(ctx, wanted);
    const run = { account: ctx.account, streams: wanted, opener };
    const carry = { carryMs: deps.carryMs ?? carryMs, lookbackMs: config.lookbackMs };
    const open = async () => ({ run: await openSync(ctx.pg, run, new Date(ctx.clock.now()), carry) });
    return (await openWithForecast(ctx, { kind: 'sync', streams: wanted }, open)).run;
  });
}
