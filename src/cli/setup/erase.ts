/** `erase --customer <id>`, `erase --contact <value>`: erases a person's data and keeps it from being stored again. */
import { type Command, Option } from 'commander';
import { systemClock } from '../../clock.ts';
import { exitCodes, UsageError } from '../../errors.ts';
import type { Named } from '../../privacy/erase.ts';
import { eraseCustomer, wouldErase } from '../../privacy/erasures.ts';
import { streams } from '../../sources/index.ts';
import { openChosen } from '../choose-account.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { tellLakeLeft } from '../lake-left.ts';
import { operator } from '../operator.ts';
import { askToConfirm, print, printJson, say, table } from '../output/terminal.ts';

interface Options {
  readonly customer?: string;
  readonly contact?: string;
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
    .option('--customer <id>', 'id of the customer at the help desk')
    .addOption(new Option('--contact <value>', 'address or phone number, of any source').conflicts('customer'))
    .option('--dry-run', 'show what would be erased and who else is affected, then roll back; workers wait meanwhile')
    .option('--with-shared', 'also erase the other customers that share a contact value, even if many')
    .option('--yes', 'skip the confirmation')
    .option(...jsonOption)
    .action(
      act(async ({ customer, contact, dryRun = false, withShared = false, yes = false, json }: Options) => {
        const whom = whomOf(customer, contact);
        await using opened = await openChosen(deps);
        const { account, db } = opened;
        if (!dryRun && !yes) {
          const name = customer ?? contact!;
          const all = `All data of ${customer === undefined ? 'everybody with' : 'customer'} ${name} in account ${account}`;
          const remedy = 'Preview the erasure with --dry-run; add --yes to skip the confirmation.';
          await askToConfirm(name, { says: `${all} will be erased for good.`, act: 'an erasure', remedy }, deps.signal);
        }
        const now = new Date(systemClock.now());
        const { customers, rows } = dryRun
          ? await wouldErase(db, account, whom, now, streams)
          : await eraseCustomer(db, { account, ...whom, who: operator(), withShared, streams }, now);
        if (json) printJson({ account, erased: !dryRun, customers, rows });
        else print(table([dryRun ? 'would be erased' : 'erased', 'rows'], Object.entries(rows)));
        const others = customers.filter(id => id !== customer);
        if (others.length > 0)
          say(
            `Also affected: ${others.join(', ')}, who share ${customer === undefined ? 'it' : `a contact value with customer ${customer}`}.`,
          );
        const code = dryRun
          ? exitCodes.ok
          : await tellLakeLeft(
              db,
              'The files of the lake have the data until its next export. `npx shelfdesk lake export` takes it out now.',
            );
        say(
          dryRun
            ? 'Nothing was changed.'
            : 'Old row versions remain in the database files until a vacuum, and in backups: see docs/how-to/erase-a-person.md. The sources still have the data.',
        );
        return code;
      }),
    );
}

function whomOf(customer: string | undefined, contact: string | undefined): Named {
  if (customer !== undefined) return { customer };
  if (contact !== undefined) return { contact };
  throw new UsageError(
    'nobody is named',
    'Add --customer with an id of the help desk, or --contact with an address or phone number.',
  );
}
