/** `backfill [streams…]`: fills the gaps of a range, newest first; --again also re-reads synced ranges. */

import { type Command, InvalidArgumentError } from 'commander';
import type { Config } from '../../app/config.ts';
import type { Warehouse } from '../../app/context.ts';
import { moment } from '../../app/setting-types.ts';
import type { StreamKey } from '../../engine/database/stream-key.ts';
import type { Job } from '../../engine/queue/job.ts';
import { openBackfill } from '../../engine/runs/ranges.ts';
import type { Range } from '../../engine/runs/runs.ts';
import { UsageError } from '../../errors.ts';
import { streamNames, streams } from '../../sources/index.ts';
import type { Act, Deps } from '../command.ts';
import { say } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';
import { chooseStreams, followRun, liftQuotaDeferral, type RunResult, report, skipPaused } from './follow.ts';
import { openWithForecast } from './forecast.ts';

interface Options {
  since?: Date;
  until?: Date;
  again?: boolean;
  json?: boolean;
}

export function addBackfill(program: Command, deps: Deps, act: Act): void {
  program
    .command('backfill')
    .description(
      'fill the gaps of a range, newest first, with pending messages of its tickets; shelves and volumes have no range and are fetched if due',
    )
    .argument(
      '[streams...]',
      `some of: ${streamNames.join(', ')} (default: all; with --again all but messages and volumes)`,
    )
    .option('--since <time>', 'start of the range, e.g. 2024-01-01 (default: start of the mirror)', time)
    .option('--until <time>', 'end of the range (default: high-water mark, or now with --again)', time)
    .option(
      '--again',
      'also re-read synced ranges; messages and volumes only if named: 2 credits per ticket, 1 per volume',
    )
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async (names: string[], options: Options) => {
        const { since = null, until = null, again = false } = options;
        if (since && until && since >= until)
          throw new UsageError(
            '--since is not before --until',
            'Give a --since that is earlier than --until; --until itself is excluded.',
          );
        const config = deps.config();
        const wanted = chooseStreams(names, config).filter(key => names.length > 0 || !again || lists.includes(key));
        await using warehouse = await warehouseOf(config, deps.signal);
        const result = await runBackfill(config, warehouse, wanted, { since, until, again }, deps);
        report(result, options);
        return result.exitCode;
      }),
    );
}

/** Streams that are read as lists, not record by record. */
const lists = streams.filter(stream => !('of' in stream)).map(({ key }) => key);

/** Parses a time in the format of HELPDESK_SINCE. */
function time(text: string): Date {
  const { success, data } = moment.safeParse(text);
  if (success) return new Date(data);
  throw new InvalidArgumentError('It must be a day such as 2024-01-31, or a time such as 2024-01-31T12:00:00Z.');
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
