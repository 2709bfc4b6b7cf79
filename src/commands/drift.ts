/** `drift list`: where the source differs from its documentation. */
import type { Command } from 'commander';
import { exitCodes } from '../errors.ts';
import { listDrift } from '../warehouse/rejects.ts';
import type { Act, Deps } from './command.ts';
import { print, printJson, say, table } from './terminal.ts';
import { requireTables, warehouseOf } from './warehouse.ts';

export function addDrift(program: Command, deps: Deps, act: Act): void {
  const drift = program.command('drift').description('where the source differs from its documentation');
  drift
    .command('list')
    .description('unknown fields, unknown values and wrong types, how often each was seen, and a record that showed it')
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async (options: { json?: boolean }) => {
        const config = deps.config();
        await using warehouse = await warehouseOf(config, deps.signal);
        await requireTables(warehouse.pg);
        const found = await listDrift(warehouse.pg, config.account);
        const columns = ['stream', 'kind', 'path', 'value', 'seen', 'first', 'last', 'sample'];
        if (options.json) printJson(found);
        else print(table(columns, found.map(Object.values)));
        if (found.length === 0) say('Nothing differs.');
        return exitCodes.ok;
      }),
    );
}
