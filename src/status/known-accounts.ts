/** Lists the accounts: those with settings in this process, and those in the warehouse. */
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
