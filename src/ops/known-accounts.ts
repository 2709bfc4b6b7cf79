/** Which accounts there are: those that have settings here, and those that the warehouse holds, with or without. */
import type { Config } from '../app/config.ts';
import type { SourceName } from '../engine/http/request.ts';

/** An account that this process has settings for. */
export interface Served {
  readonly config: Config;
  /** Those that are configured. */
  readonly sources: ReadonlySet<SourceName>;
}

/** The names of those whose settings name a source, or are refused. */
export const setAccounts = (served: readonly Served[], refused: readonly string[]): string[] => [
  ...served.filter(({ sources }) => sources.size > 0).map(({ config }) => config.account),
  ...refused,
];

/** All names, in order. Settings that name no source are an account only where there is no other: `default`. */
export function allAccounts(
  served: readonly Served[],
  refused: readonly string[],
  held: readonly string[],
): readonly string[] {
  const all = [...new Set([...setAccounts(served, refused), ...held])].sort();
  return all.length > 0 ? all : served.map(({ config }) => config.account);
}
