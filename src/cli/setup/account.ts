/** `account list | remove | move`: the accounts of the warehouse. */
import type { Command } from 'commander';
import { isDemo } from '../../app/config.ts';
import { removeQueue } from '../../app/forget-jobs.ts';
import { systemClock } from '../../clock.ts';
import { addressesOf } from '../../engine/runs/accounts/accounts.ts';
import {
  beginRemoval,
  clearAccount,
  endRemoval,
  type Held,
  rowsOf,
} from '../../engine/runs/accounts/remove-account.ts';
import { UsageError } from '../../errors.ts';
import { lakePackage } from '../../lake/package.ts';
import { readLake } from '../../lake/state.ts';
import { oldDemo } from '../../ops/old-demo.ts';
import { accountNames } from '../../status/accounts.ts';
import { liveWorkers } from '../../status/workers.ts';
import { count } from '../../words.ts';
import { servedOf } from '../choose-account.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { operator } from '../operator.ts';
import { askToConfirm, print, printJson, say, table } from '../output/terminal.ts';
import { tablesOf } from '../warehouse.ts';
import { exportNow } from '../work/lake.ts';
import { moveAccount } from './move-account.ts';

interface Asked {
  readonly json?: boolean;
  readonly yes?: boolean;
  readonly to?: string;
}

export function addAccount(program: Command, deps: Deps, act: Act): void {
  const account = program
    .command('account')
    .summary('list, move and remove the accounts of the warehouse')
    .description('the accounts of the warehouse: list them, move one to another address, or remove one');
  account
    .command('list')
    .description('show each account: its sources, its workers, and whether it has settings here')
    .option(...jsonOption)
    .action(act((asked: Asked) => list(deps, asked)));
  account
    .command('remove')
    .description('remove an account from every table, the queue and the lake')
    .addHelpText(
      'after',
      note(
        'Says first how many rows go, and asks. A removal that is interrupted continues with the same command. The lake keeps only its newest snapshot afterwards. The settings of the account stay, and so does the help desk.',
      ),
    )
    .argument('<name>', 'name of the account')
    .option('--yes', 'skip the confirmation')
    .action(act((name: string, asked: Asked) => remove(deps, name, asked)));
  account
    .command('move')
    .description('bind an account to the new address of its source')
    .addHelpText(
      'after',
      note(
        'Compares stored records with those of the new address first, which costs a few credits, and refuses if they differ. --yes skips the question, and moves where nothing can be compared.',
      ),
    )
    .argument('<name>', 'name of the account')
    .requiredOption('--to <address>', 'new address of the source, as in the settings')
    .option('--yes', 'skip the confirmation, and move also if the comparison fails')
    .action(act((name: string, { to, yes = false }: Asked) => moveAccount(deps, { account: name, to: to!, yes })));
}

async function list(deps: Deps, { json = false }: Asked): Promise<void> {
  const { fleet } = deps.asked();
  await using warehouse = await tablesOf(fleet, deps.signal);
  const { pg } = warehouse;
  const names = await accountNames(pg);
  const workers = await liveWorkers(pg, names);
  const set = servedOf(fleet).flatMap(({ config, sources }) => (sources.size > 0 ? [config.account] : []));
  const accounts = await Promise.all(
    names.map(async name => ({
      account: name,
      sources: Object.fromEntries([...(await addressesOf(pg, name))].map(([source, { href }]) => [source, href])),
      workers: workers.filter(({ account }) => account === name).length,
      has_settings: set.includes(name),
    })),
  );
  if (json) printJson(accounts);
  else if (accounts.length === 0) say('The warehouse has no account yet.');
  else
    print(
      table(
        ['account', 'source', 'address', 'workers', 'settings here'],
        accounts.flatMap(one => {
          const sources = Object.entries(one.sources);
          return (sources.length > 0 ? sources : [['none read yet', '']]).map(([source, address]) => [
            ...[one.account, source, address],
            one.workers,
            one.has_settings ? 'yes' : 'no',
          ]);
        }),
        Number.POSITIVE_INFINITY,
      ),
    );
  const demo = isDemo(fleet) ? undefined : await oldDemo(pg);
  if (demo !== undefined) say(`${demo.says} ${demo.remedy}`);
}

async function remove(deps: Deps, account: string, { yes = false }: Asked): Promise<void> {
  const { fleet } = deps.asked();
  await using warehouse = await tablesOf(fleet, deps.signal);
  const { pg } = warehouse;
  const held = await rowsOf(pg, account);
  if (held.length === 0) {
    const names = await accountNames(pg);
    throw new UsageError(
      `this warehouse holds nothing of an account '${account}'`,
      names.length === 0 ? 'It has no account.' : `Choose from: ${names.join(', ')}.`,
    );
  }
  const lake = await readLake(pg);
  // Checked before any removal, because the lake needs its package for the export that removes the account.
  if (lake !== undefined) await lakePackage();
  print(
    table(
      ['table', 'rows'],
      held.map(({ table: name, rows }) => [name, rows]),
    ),
  );
  if (lake !== undefined) say(`The lake at ${lake.path} loses these rows, and all snapshots but its newest.`);
  const all = `${count(sumOf(held), 'row')} in ${count(held.length, 'table')} and all jobs of account ${account}`;
  if (!yes) await askToConfirm(account, { says: `${all} will be removed for good.`, act: 'a removal' }, deps.signal);
  await beginRemoval(pg, { account, who: operator() }, new Date(systemClock.now()));
  await removeQueue(fleet, warehouse, account);
  await clearAccount(pg, account, {
    signal: deps.signal,
    told: ({ table: name, rows }) => say(`✓ ${name}: ${count(rows, 'row')} removed`),
  });
  await endRemoval(pg, account);
  if (lake !== undefined) await exportNow(deps, { fleet, warehouse }, lake);
  say(`Removed account '${account}'.`);
  const isSet = servedOf(fleet).some(({ config, sources }) => config.account === account && sources.size > 0);
  if (isSet)
    say('It still has settings here: the next `start` or `sync` reads it anew. Take them out if it is to stay away.');
}

const sumOf = (held: readonly Held[]): number => held.reduce((sum, { rows }) => sum + rows, 0);
