/**
 * The accounts of commands that read what the warehouse holds: an account needs no settings to be read, only to be
 * filled. After `demo` there is one without settings, and the only one is the default.
 */
import type pg from 'pg';
import { type Config, type Fleet, withoutSettings } from '../app/config.ts';
import { configuredSources, type Warehouse } from '../app/context.ts';
import { UsageError } from '../errors.ts';
import { allAccounts, type Served, setAccounts } from '../ops/known-accounts.ts';
import { accountNames } from '../ops/page/overview.ts';
import type { Deps } from './command.ts';
import { tablesOf } from './warehouse.ts';

export const servedOf = ({ accounts }: Fleet): Served[] =>
  accounts.map(config => ({ config, sources: configuredSources(config) }));

/**
 * The account of --account. Without it the only one that has settings; where none has, the only one of the warehouse; of
 * several `default`. Throws UsageError if it is not there, refused, or not named. `db` is undefined where the tables
 * are not there yet.
 */
export async function chosenAccount(deps: Deps, db: pg.Pool | undefined): Promise<Config> {
  const { fleet, account: named } = deps.asked();
  const [served, refused] = [servedOf(fleet), fleet.refused.map(({ account }) => account)];
  const known = allAccounts(served, refused, db ? await accountNames(db) : []);
  const set = setAccounts(served, refused);
  const from = set.length > 0 ? set : known;
  const account = named ?? (from.length === 1 ? from[0]! : 'default');
  const wrong = fleet.refused.find(one => one.account === account);
  if (wrong) throw wrong.error;
  if (!known.includes(account)) throw notThere(named, known);
  return fleet.accounts.find(one => one.account === account) ?? withoutSettings(account);
}

/** The same with the warehouse, which has its tables. */
export async function openChosen(deps: Deps): Promise<{ config: Config; warehouse: Warehouse } & AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const warehouse = stack.use(await tablesOf(deps.asked().fleet, deps.signal));
  const config = await chosenAccount(deps, warehouse.pg);
  const opened = stack.move();
  return { config, warehouse, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

/**
 * That of --account; without it all that have settings, and none of other files; where none has, all of the warehouse.
 * `db` as above.
 */
export async function chosenAccounts(
  deps: Deps,
  db: pg.Pool | undefined,
): Promise<{ accounts: readonly Config[]; refused: Fleet['refused'] }> {
  const { fleet, account: named } = deps.asked();
  const [served, wrong] = [servedOf(fleet), fleet.refused.map(({ account }) => account)];
  const known = allAccounts(served, wrong, db ? await accountNames(db) : []);
  if (named !== undefined && !known.includes(named)) throw notThere(named, known);
  const set = setAccounts(served, wrong);
  const wanted = named !== undefined ? [named] : set.length > 0 ? set : known;
  const accounts = wanted
    .filter(account => !wrong.includes(account))
    .map(account => fleet.accounts.find(one => one.account === account) ?? withoutSettings(account));
  return { accounts, refused: fleet.refused.filter(({ account }) => wanted.includes(account)) };
}

const notThere = (named: string | undefined, known: readonly string[]) =>
  new UsageError(
    named === undefined ? 'there are several accounts, and none of them is named' : `there is no account '${named}'`,
    `Choose with --account: ${known.join(', ')}.`,
  );
