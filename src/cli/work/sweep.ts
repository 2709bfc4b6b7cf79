/** `sweep [streams…]`: re-reads everything to find deletions and silent changes. */

import type { Command } from 'commander';
import type { Config } from '../../app/config.ts';
import type { Warehouse } from '../../app/context.ts';
import type { StreamKey } from '../../engine/database/stream-key.ts';
import { openSweep } from '../../engine/deletions/swept-ranges.ts';
import { costOfRows } from '../../engine/forecast/cost-of-rows.ts';
import type { Job } from '../../engine/queue/job.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { say } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';
import { chooseSwept, followRun, type RunResult, report, skipPaused, sweptNames } from './follow.ts';
import { sayCost } from './forecast.ts';

interface Options {
  acceptDeletions?: boolean;
  json?: boolean;
}

export function addSweep(program: Command, deps: Deps, act: Act): void {
  program
    .command('sweep')
    .summary('find deletions and silent edits')
    .description(
      're-read everything to find deletions, silent changes and unlisted records; each deletion is confirmed by id',
    )
    .addHelpText(
      'after',
      note(
        'Missing records are fetched by id, and only a 404 counts as a deletion. If more than SWEEP_MOST_DELETED_PERCENT of a table seem to be deleted, none is marked, and the sweep fails. An interrupted sweep resumes within an hour.',
      ),
    )
    .argument('[streams...]', `some of: ${sweptNames.join(', ')} (default: all)`)
    .option('--accept-deletions', 'mark missing records as deleted, regardless of their number')
    .option(...jsonOption)
    .action(
      act(async (names: string[], options: Options) => {
        const config = deps.config();
        const wanted = chooseSwept(names, config);
        await using warehouse = await warehouseOf(config, deps.signal);
        const result = await runSweep(config, warehouse, wanted, options, deps);
        report(result, options);
        return result.exitCode;
      }),
    );
}

export async function runSweep(
  config: Config,
  warehouse: Warehouse,
  streams: readonly StreamKey[],
  { acceptDeletions = false }: Pick<Options, 'acceptDeletions'>,
  deps: { jobs: readonly Job[]; signal: AbortSignal },
): Promise<RunResult> {
  return followRun(config, warehouse, deps, async (ctx, opener) => {
    const wanted = await skipPaused(ctx, streams);
    const asked = { account: ctx.account, streams: wanted, opener, acceptDeletions };
    const { run, resumed, begun } = await openSweep(ctx.pg, asked, new Date(ctx.clock.now()));
    if (resumed)
      say(`Resuming run ${run}, started at ${begun.toISOString().slice(0, 16)}Z. Records already read are skipped.`);
    else sayCost('The sweep', await costOfRows(ctx, wanted));
    return run;
  });
}
