/** Lists the accounts: those with settings in this process, and those in the warehouse. */
import type pg from 'pg';
import type { Config } from '../app/config.ts';
import type { Connection } from '../sources/source.ts';

/** An account with settings in this process. */
export interface Served {
  readonly config: Config;
  /** The connections of the configured sources, by the name of the source. */
  readonly sources: ReadonlyMap<string, Connection>;
}

/** Names of accounts whose settings name a source, or are invalid. */
export const setAccounts = (served: readonly Served[], refused: readonly string[]): string[] => [
  ...served.filter(({ sources }) => sources.size > 0).map(({ config }) => config.account),
  ...refused,
];

/** All names, sorted. `default` without a source counts only if there is no other account. */
export function allAccounts(
  served: readonly Served[],
  refused: readonly string[],
  held: readonly string[],
): readonly string[] {
  const all = [...new Set([...setAccounts(served, refused), ...held])].sort();
  return all.length > 0 ? all : served.map(({ config }) => config.account);
}

/** The accounts of the warehouse, by name, with the names of their job queues. */
export async function readAccounts(db: Pick<pg.ClientBase, 'query'>): Promise<{ account: string; queue: string }[]> {
  const { rows } = await db.query<{ account: string; queue: string }>(
    'select account_id as account, queue from sync.accounts order by account_id',
  );
  return rows;
}

export const accountNames = async (db: Pick<pg.ClientBase, 'query'>): Promise<string[]> =>
  (await readAccounts(db)).map(({ account }) => account);
