/** `sync [streams…]`: from the top of coverage to now, then the messages of all tickets that wait for them. */

import type { Command } from 'commander';
import type { Config } from '../../app/config.ts';
import type { Warehouse } from '../../app/context.ts';
import type { StreamKey } from '../../engine/database/stream-key.ts';
import type { Job } from '../../engine/queue/job.ts';
import { openSync } from '../../engine/runs/runs.ts';
import { streamNames } from '../../sources/index.ts';
import type { Act, Deps } from '../command.ts';
import { warehouseOf } from '../warehouse.ts';
import { chooseStreams, followRun, leaveOutPaused, type RunResult, report, thawFor } from './follow.ts';
import { foretold } from './forecast.ts';

/** What an interrupted run completed longer ago than this is read again. */
const carryMs = 60_000;

export function addSync(program: Command, deps: Deps, act: Act): void {
  program
    .command('sync')
    .description('run an incremental sync, then fetch pending messages')
    .argument('[streams...]', `some of: ${streamNames.join(', ')} (default: all)`)
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async (names: string[], options: { json?: boolean }) => {
        const config = deps.config();
        const wanted = chooseStreams(names, config);
        await using warehouse = await warehouseOf(config, deps.signal);
        const result = await runSync(config, warehouse, wanted, {
          ...deps,
          // Who names a stream wants it read now.
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
    const wanted = await leaveOutPaused(ctx, streams);
    await thawFor(ctx, wanted);
    const run = { account: ctx.account, streams: wanted, opener };
    const carry = { carryMs: deps.carryMs ?? carryMs, lookbackMs: config.lookbackMs };
    const open = async () => ({ run: await openSync(ctx.pg, run, new Date(ctx.clock.now()), carry) });
    return (await foretold(ctx, { kind: 'sync', streams: wanted }, open)).run;
  });
}
