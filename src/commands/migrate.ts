/** `migrate`: brings the warehouse to the tables of this version. */
import type { Command } from 'commander';
import { exitCodes } from '../errors.ts';
import { migrate } from '../warehouse/migrate.ts';
import type { Act, Deps } from './command.ts';
import { print, printJson } from './terminal.ts';
import { warehouseOf } from './warehouse.ts';

export function addMigrate(program: Command, deps: Deps, act: Act): void {
  program
    .command('migrate')
    .description('create or update the tables (start, sync and backfill do it as well)')
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async (options: { json?: boolean }) => {
        await using warehouse = await warehouseOf(deps.fleet(), deps.signal);
        const { applied } = await migrate(warehouse.url);
        if (options.json) printJson({ applied });
        else print(applied.length > 0 ? applied.map(name => `applied ${name}`).join('\n') : 'nothing to do');
        return exitCodes.ok;
      }),
    );
}
