/** `db`: starts the embedded server, prints its URL and waits for Ctrl-C. */
import type { Command } from 'commander';
import { exitCodes, UsageError } from '../../errors.ts';
import type { Act, Deps } from '../command.ts';
import { print, printJson, say } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';

export function addDb(program: Command, deps: Deps, act: Act): void {
  program
    .command('db')
    .summary('run the embedded PostgreSQL')
    .description('start the embedded PostgreSQL, print its URL and stay until Ctrl-C')
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async (options: { json?: boolean }) => {
        const { fleet } = deps.asked();
        if (fleet.databaseUrl !== undefined) {
          throw new UsageError(
            'DATABASE_URL is set, so there is no embedded server',
            'Connect to that URL with psql, or unset DATABASE_URL.',
          );
        }
        await using warehouse = await warehouseOf(fleet, deps.signal);
        if (options.json) printJson({ url: warehouse.url, folder: warehouse.folder });
        else print(warehouse.url);
        say('Press Ctrl-C to stop.');
        await new Promise(ended => deps.signal.addEventListener('abort', ended, { once: true }));
        return exitCodes.ok;
      }),
    );
}
