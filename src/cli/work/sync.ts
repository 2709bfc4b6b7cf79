/** `sync [streams…]`: incremental sync from the high-water mark to now, then pending messages. */

import type { Command } from 'commander';
import type { Config } from '../../app/config.ts';
import { requireSource, type Warehouse } from '../../app/context.ts';
import type { StreamKey } from '../../engine/database/stream-key.ts';
import type { Job } from '../../engine/queue/job.ts';
import { command } from '../../engine/runs/pauses.ts';
import { openSync } from '../../engine/runs/runs.ts';
import { UsageError } from '../../errors.ts';
import { streamNames, streams } from '../../sources/index.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { requireTables, warehouseOf } from '../warehouse.ts';
import { runBackfill } from './backfill.ts';
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
    .option('--ticket <id>', 'read only this ticket again, by its id or number, with its messages: 2 credits')
    .option(...jsonOption)
    .action(
      act(async (names: string[], options: { json?: boolean; ticket?: string }) => {
        const config = deps.config();
        if (options.ticket !== undefined && names.length > 0)
          throw new UsageError('--ticket and streams exclude each other', 'Give one of them.');
        const wanted = chooseStreams(names, config);
        await using warehouse = await warehouseOf(config, deps.signal);
        if (options.ticket !== undefined) {
          const refreshed = await refresh(config, warehouse, options.ticket, deps);
          report(refreshed, options);
          return refreshed.exitCode;
        }
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

/** The update time of a record has a resolution of one second. */
const secondMs = 1000;

/**
 * Reads one ticket again: a backfill of the second in which it changed last. Other tickets of that second are read with
 * it. A ticket that has changed since is stored as it is now.
 */
async function refresh(
  config: Config,
  warehouse: Warehouse,
  name: string,
  deps: { jobs: readonly Job[]; signal: AbortSignal },
): Promise<RunResult> {
  const stream = streams.find(({ pending }) => pending?.changedAt !== undefined)!;
  requireSource(config, stream.source);
  await requireTables(warehouse.pg);
  const changed = await stream.pending!.changedAt!(warehouse.pg, config.account, name);
  if (changed === undefined)
    throw new UsageError(
      `there is no ticket ${name} here, by id or by number`,
      `A new ticket comes with ${command(config.account, 'sync')}.`,
    );
  const since = new Date(Math.floor(changed.getTime() / secondMs) * secondMs);
  const range = { since, until: new Date(since.getTime() + secondMs), again: true };
  return runBackfill(config, warehouse, [stream.key], range, deps);
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
    const carry = deps.carryMs ?? carryMs;
    const open = async () => ({ run: await openSync(ctx.pg, run, new Date(ctx.clock.now()), carry) });
    return (await openWithForecast(ctx, { kind: 'sync', streams: wanted }, open)).run;
  });
}
