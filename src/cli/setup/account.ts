/** `account list | remove | move`: the accounts of the warehouse. */
import type { Command } from 'commander';
import { removeQueue } from '../../app/remove-queue.ts';
import { systemClock } from '../../clock.ts';
import { settleFences } from '../../engine/database/move/fence.ts';
import { addressesOf } from '../../engine/runs/accounts/accounts.ts';
import {
  beginRemoval,
  clearAccount,
  comingFrom,
  endRemoval,
  type Held,
  movedTo,
  rowsOf,
} from '../../engine/runs/accounts/remove-account.ts';
import { UsageError } from '../../errors.ts';
import { lakePackage } from '../../lake/package.ts';
import { readLake } from '../../lake/state.ts';
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
import { giveUp, isDatabase, moveWarehouse } from './move-warehouse.ts';

interface Asked {
  readonly json?: boolean;
  readonly yes?: boolean;
  readonly to?: string;
  readonly giveUp?: true;
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
    .description('bind an account to the new address of its source, or move it to another warehouse')
    .addHelpText(
      'after',
      note(
        'To another address: compares stored records with those there first, which costs a few credits, and refuses if they differ. --yes skips the question, and moves where nothing can be compared.',
      ) +
        note(
          'To another warehouse, --to postgres://user:password@host/database: copies all rows, and compares them. The account is read-only here from the beginning on, so no process may serve it. A move that is interrupted continues with the same command.',
        ),
    )
    .argument('<name>', 'name of the account')
    .option('--to <address>', 'new address of the source, as in the settings, or URL of the other warehouse')
    .option('--give-up', 'end a move to another warehouse before its end: the account stays here')
    .option('--yes', 'skip the confirmation, and move also if the comparison fails')
    .option(...jsonOption)
    .action(act((name: string, asked: Asked) => move(deps, name, asked)));
}

async function move(deps: Deps, account: string, { to, giveUp: isOver, yes = false, json = false }: Asked) {
  if ((to === undefined) === (isOver === undefined))
    throw new UsageError('a move needs either --to or --give-up', 'See `npx shelfdesk account move --help`.');
  if (to === undefined) return giveUp(deps, account);
  if (isDatabase(to)) return moveWarehouse(deps, { account, to, yes, json });
  if (json) throw new UsageError('--json is for a move to another warehouse', 'Leave it out.');
  return moveAccount(deps, { account, to, yes });
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
      moved_to: (await movedTo(pg, name)) ?? null,
    })),
  );
  if (json) printJson(accounts);
  else if (accounts.length === 0) say('The warehouse has no account yet.');
  else
    print(
      table(
        ['account', 'source', 'address', 'workers', 'settings here', 'moved to'],
        accounts.flatMap(one => {
          const sources = Object.entries(one.sources);
          return (sources.length > 0 ? sources : [['none read yet', '']]).map(([source, address]) => [
            ...[one.account, source, address],
            one.workers,
            one.has_settings ? 'yes' : 'no',
            one.moved_to ?? '',
          ]);
        }),
        Number.POSITIVE_INFINITY,
      ),
    );
}

async function remove(deps: Deps, account: string, { yes = false }: Asked): Promise<void> {
  const { fleet } = deps.asked();
  await using warehouse = await tablesOf(fleet, deps.signal);
  const { pg } = warehouse;
  const held = await rowsOf(pg, account);
  const moved = await movedTo(pg, account);
  if (held.length === 0 && moved !== undefined) {
    await endRemoval(pg, account, false);
    await settleFences(warehouse.url);
    return say(
      `Account '${account}' moved to ${moved}. That is no longer noted here: if it has settings here, it is read anew.`,
    );
  }
  const coming = await comingFrom(pg, account);
  if (held.length === 0 && coming !== undefined) {
    await endRemoval(pg, account, false);
    await settleFences(warehouse.url);
    return say(`Account '${account}' was to come from ${coming}. That is no longer noted here, and its name is free.`);
  }
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
  await endRemoval(pg, account, moved !== undefined);
  await settleFences(warehouse.url);
  if (lake !== undefined) await exportNow(deps, { fleet, warehouse }, lake);
  say(`Removed account '${account}'.`);
  const isSet = servedOf(fleet).some(({ config, sources }) => config.account === account && sources.size > 0);
  if (moved !== undefined)
    return say(
      `That it moved to ${moved} stays noted, so nobody reads it anew here. The same command again forgets that.`,
    );
  if (isSet)
    say('It still has settings here: the next `start` or `sync` reads it anew. Take them out if it is to stay away.');
}

const sumOf = (held: readonly Held[]): number => held.reduce((sum, { rows }) => sum + rows, 0);
