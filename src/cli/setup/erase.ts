/** `erase --customer <id>`: erases a person's data and keeps it from being stored again. */
import type { Command } from 'commander';
import { forgetJobs } from '../../app/forget-jobs.ts';
import { systemClock } from '../../clock.ts';
import { eraseCustomer, wouldErase } from '../../engine/runs/operations.ts';
import { exitCodes, UsageError } from '../../errors.ts';
import { readLakeStatus } from '../../lake/state.ts';
import { streams } from '../../sources/index.ts';
import { openChosen } from '../choose-account.ts';
import { type Act, type Deps, note } from '../command.ts';
import { operator } from '../operator.ts';
import { askToType, print, printJson, say, table } from '../output/terminal.ts';

interface Options {
  readonly customer: string;
  readonly dryRun?: boolean;
  readonly withShared?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

export function addErase(program: Command, deps: Deps, act: Act): void {
  program
    .command('erase')
    .summary("erase a person's data for good")
    .description("erase a person's data from mirror, history, rejects and samples, and keep it from being stored again")
    .addHelpText('after', note('The data stays erased when the source sends it again, also under another id.'))
    .requiredOption('--customer <id>', 'id of the customer at the help desk')
    .option('--dry-run', 'show what would be erased and who else is affected, then roll back; workers wait meanwhile')
    .option('--with-shared', 'also erase the other customers that share a contact value, even if many')
    .option('--yes', 'skip the confirmation')
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async ({ customer, dryRun = false, withShared = false, yes = false, json }: Options) => {
        await using opened = await openChosen(deps);
        const { warehouse } = opened;
        const { account } = opened.config;
        if (!dryRun && !yes) await confirm(account, customer, deps.signal);
        const now = new Date(systemClock.now());
        if (!dryRun) await forgetJobs(opened.config, warehouse, account);
        const { customers, rows } = dryRun
          ? await wouldErase(warehouse.pg, account, customer, now, streams)
          : await eraseCustomer(warehouse.pg, { account, customer, who: operator(), withShared, streams }, now);
        if (json) printJson({ account, erased: !dryRun, customers, rows });
        else print(table([dryRun ? 'would be erased' : 'erased', 'rows'], Object.entries(rows)));
        const others = customers.filter(id => id !== customer);
        if (others.length > 0)
          say(`Also affected: ${others.join(', ')}, who share a contact value with customer ${customer}.`);
        const lake = dryRun ? undefined : await readLakeStatus(warehouse.pg);
        if (lake !== undefined)
          say(
            'The files of the lake have the data until its next export. `npx shelfdesk lake export` takes it out now.',
          );
        say(
          dryRun
            ? 'Nothing was changed.'
            : 'Old row versions remain in the database files until a vacuum, and in backups: see docs/how-to/erase-a-person.md. The help desk still has the data.',
        );
        return exitCodes.ok;
      }),
    );
}

async function confirm(account: string, customer: string, signal: AbortSignal): Promise<void> {
  const typed = await askToType(
    `All data of customer ${customer} in account ${account} will be erased permanently. Type the id again to confirm: `,
    signal,
  );
  if (typed === customer) return;
  throw new UsageError(
    typed === undefined
      ? 'an erasure cannot be undone and needs a confirmation, but there is no terminal'
      : 'nothing was erased: the typed id differs',
    'Preview the erasure with --dry-run; add --yes to skip the confirmation.',
  );
}
