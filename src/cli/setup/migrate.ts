/** `migrate`: applies the pending migrations. */
import type { Command } from 'commander';
import { leftOut, migrateWarehouse } from '../../app/migrate.ts';
import { openQueues } from '../../engine/queue/queue.ts';
import { type Act, type Deps, jsonOption } from '../command.ts';
import { print, printJson, say } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';

export function addMigrate(program: Command, deps: Deps, act: Act): void {
  program
    .command('migrate')
    .summary('create or update the tables')
    .description('create or update the tables; start, sync and backfill do this automatically')
    .option(...jsonOption)
    .action(
      act(async (options: { json?: boolean }) => {
        const { fleet } = deps.asked();
        await using warehouse = await warehouseOf(fleet, deps.signal);
        // Opening the queue creates its tables; a worker's login may lack the right to create them.
        if (fleet.redisUrl === undefined)
          await (await openQueues({ redisUrl: undefined, databaseUrl: warehouse.url }))[Symbol.asyncDispose]();
        const migrated = await migrateWarehouse(warehouse.url);
        const { applied } = migrated;
        if (migrated.busy) say(leftOut(migrated));
        if (options.json) printJson({ applied });
        else print(applied.length > 0 ? applied.map(name => `applied ${name}`).join('\n') : 'nothing to do');
      }),
    );
}
