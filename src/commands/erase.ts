/** `erase --customer <id>`: removes what is here of a person, and keeps it out. */
import type { Command } from 'commander';
import { systemClock } from '../clock.ts';
import { exitCodes } from '../errors.ts';
import { eraseCustomer, wouldErase } from '../warehouse/operations.ts';
import type { Act, Deps } from './command.ts';
import { operator } from './operator.ts';
import { print, printJson, say, table } from './terminal.ts';
import { requireTables, warehouseOf } from './warehouse.ts';

export function addErase(program: Command, deps: Deps, act: Act): void {
  program
    .command('erase')
    .description(
      "remove a person's data from mirror, history, rejects and samples, and keep it out when it comes again",
    )
    .requiredOption('--customer <id>', 'their id at the help desk')
    .option('--dry-run', 'say what would be removed, and whom else it would concern')
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async ({ customer, dryRun = false, json }: { customer: string; dryRun?: boolean; json?: boolean }) => {
        const { account, ...config } = deps.config();
        await using warehouse = await warehouseOf(config, deps.signal);
        await requireTables(warehouse.pg);
        const now = new Date(systemClock.now());
        const { customers, rows } = dryRun
          ? await wouldErase(warehouse.pg, account, customer, now)
          : await eraseCustomer(warehouse.pg, { account, customer, who: operator() }, now);
        if (json) printJson({ account, erased: !dryRun, customers, rows });
        else print(table([dryRun ? 'would be erased' : 'erased', 'rows'], Object.entries(rows)));
        const others = customers.filter(id => id !== customer);
        if (others.length > 0)
          say(`With customer ${customer}: ${others.join(', ')}, who share a contact value with them.`);
        say(
          dryRun
            ? 'Nothing was changed.'
            : 'Old row versions stay in the files of the database until it is vacuumed, and in backups: docs/ERASURE.md says what to run. The help desk itself still has the data.',
        );
        return exitCodes.ok;
      }),
    );
}
