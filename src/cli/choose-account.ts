/**
 * Chooses the accounts of read-only commands. An account in the warehouse can be read without settings; only syncing needs
 * them. `demo`, for example, leaves an account without settings.
 */

import type pg from 'pg';
import { type Config, type Fleet, withoutSettings } from '../app/config.ts';
import { configuredSources, type Warehouse } from '../app/context.ts';
import { systemClock } from '../clock.ts';
import { UsageError } from '../errors.ts';
import { OpenStack } from '../open-stack.ts';
import { accountNames, allAccounts, type Served, setAccounts } from '../status/accounts.ts';
import { choiceOf } from '../words.ts';
import type { Deps } from './command.ts';
import { operator } from './operator.ts';
import { tablesOf } from './warehouse.ts';

/** Shown for the account of a demo after its sandbox has ended. */
export const demoHasEnded = 'The demo has ended. `npx shelfdesk demo --stay` runs it again.';

export const hasEnded = ({ demo }: Pick<Fleet, 'demo'>): boolean => demo !== undefined && !demo.running;

export const servedBy = (config: Config): Served => ({ config, sources: configuredSources(config) });

export const servedOf = ({ accounts }: Fleet): Served[] => accounts.map(servedBy);

/** The accounts that there are, and those that a command means. Throws UsageError if there is no account of --account. */
async function accountsMeant({ asked }: Pick<Deps, 'asked'>, db: pg.Pool | undefined) {
  const { fleet, account: named } = asked();
  const [served, refused] = [servedOf(fleet), fleet.refused.map(({ account }) => account)];
  const known = allAccounts(served, refused, db ? await accountNames(db) : []);
  if (named !== undefined && !known.includes(named)) throw unknownAccount(named, known);
  const set = setAccounts(served, refused);
  const meant = named !== undefined ? [named] : set.length > 0 ? set : known;
  const configOf = (account: string): Config =>
    fleet.accounts.find(one => one.account === account) ?? withoutSettings(account);
  return { refused: fleet.refused, known, meant, configOf };
}

/**
 * The account of --account. Default: the only account with settings; else the only account of the warehouse; else
 * `default`. Throws UsageError if the account is unknown or refused. `db` is undefined if the tables do not exist yet.
 */
export async function chosenAccount(deps: Pick<Deps, 'asked'>, db: pg.Pool | undefined): Promise<Config> {
  const { refused, known, meant, configOf } = await accountsMeant(deps, db);
  const account = meant.length === 1 ? meant[0]! : 'default';
  const wrong = refused.find(one => one.account === account);
  if (wrong) throw wrong.error;
  if (!known.includes(account)) throw unknownAccount(undefined, known);
  return configOf(account);
}

/** The warehouse, opened for a command about one account. */
export interface Chosen extends AsyncDisposable {
  readonly config: Config;
  readonly account: string;
  readonly warehouse: Warehouse;
  readonly db: pg.Pool;
}

/** Opens the warehouse and chooses the account. Throws ShelfdeskError if tables are missing. */
export async function openChosen(deps: Deps): Promise<Chosen> {
  await using stack = new OpenStack();
  const warehouse = stack.use(await tablesOf(deps.asked().fleet, deps.signal));
  const config = await chosenAccount(deps, warehouse.pg);
  const opened = stack.move();
  const { account } = config;
  return { config, account, warehouse, db: warehouse.pg, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

/** Opens the warehouse for a person who sets something there. The account of --account may have no valid settings. */
export async function openToSet(deps: Deps) {
  const { fleet, account } = deps.asked();
  const warehouse = await tablesOf(fleet, deps.signal);
  return {
    ...{ db: warehouse.pg, who: operator(), now: new Date(systemClock.now()) },
    account: async () => account ?? (await chosenAccount(deps, warehouse.pg)).account,
    [Symbol.asyncDispose]: () => warehouse[Symbol.asyncDispose](),
  };
}

/**
 * The account of --account. Default: all accounts with settings; if none has any, all accounts of the warehouse.
 * `db` is undefined if the tables do not exist yet.
 */
export async function chosenAccounts(
  deps: Pick<Deps, 'asked'>,
  db: pg.Pool | undefined,
): Promise<{ accounts: readonly Config[]; refused: Fleet['refused'] }> {
  const { refused, meant, configOf } = await accountsMeant(deps, db);
  const isRefused = (account: string) => refused.some(one => one.account === account);
  return {
    accounts: meant.filter(account => !isRefused(account)).map(configOf),
    refused: refused.filter(({ account }) => meant.includes(account)),
  };
}

const unknownAccount = (named: string | undefined, known: readonly string[]) =>
  new UsageError(
    named === undefined ? 'several accounts exist and none was chosen' : `there is no account '${named}'`,
    choiceOf(named ?? '', known, 'Choose with --account'),
  );
