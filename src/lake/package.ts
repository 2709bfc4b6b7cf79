/**
 * The package shelfdesk-lake, which has DuckDB. It is optional, and this is the only place that loads it. It takes from the
 * program what it is given here.
 */
import pg from 'pg';
import { addressOf } from '../engine/database/session/connection-url.ts';
import { isPooled } from '../engine/database/session/pooler.ts';
import { clientConfig } from '../engine/database/session/session.ts';
import { knownAuthorities } from '../engine/database/session/tls.ts';
import { integerOf } from '../engine/exact-json.ts';
import { exitCodes, ShelfdeskError, UsageError } from '../errors.ts';
import { choiceOf } from '../words.ts';
import type { LakePlace } from './table.ts';

/** How to install the package. */
export const lakeInstall = 'Run `npm install shelfdesk-lake`; in a clone, `npm ci`.';

type LakePackage = ReturnType<typeof import('shelfdesk-lake').lakeOf>;
export type Lake = Awaited<ReturnType<LakePackage['openLake']>>;
export type Exported = Awaited<ReturnType<LakePackage['exportTo']>>;
/** What the program gives to the package. */
type Given = Parameters<typeof import('shelfdesk-lake').lakeOf>[0];

/** Throws ShelfdeskError with the exit code of a usage error if the package cannot be loaded. */
export async function lakePackage(): Promise<LakePackage> {
  const { lakeOf } = await import('shelfdesk-lake').catch((error: Error) => {
    const isMissing = error.message.startsWith("Cannot find package 'shelfdesk-lake'");
    throw new ShelfdeskError(
      `the lake needs the package shelfdesk-lake, which ${isMissing ? 'is not installed' : `cannot be loaded: ${error.message.split('\n')[0]}`}`,
      lakeInstall,
      { exitCode: exitCodes.usage, cause: error },
    );
  });
  return lakeOf({
    failure: (message, remedy, cause) => new ShelfdeskError(message, remedy, { cause }),
    refusal: (message, remedy) => new UsageError(message, remedy),
    integer: integerOf,
    choiceOf,
    addressOf: warehouseAt,
  });
}

/** Opens the lake. Throws as `lakePackage` and the package do. */
export async function openLake(
  url: string,
  place: LakePlace,
  options: { signal?: AbortSignal; mode?: 'write' | 'read' | 'none' } = {},
): Promise<Lake> {
  return (await lakePackage()).openLake(url, place, options);
}

function warehouseAt(url: string): ReturnType<Given['addressOf']> {
  const { host, port, database, user, password } = new pg.Client(clientConfig(url));
  const { tls } = addressOf(url);
  const isOurs = tls.mode === 'verify-full' && (tls.root ?? 'system') === 'system';
  return {
    login: { host, port, database, user, password },
    tls,
    authorities: isOurs ? knownAuthorities(tls.root === 'system') : undefined,
    isPooled: isPooled(url),
  };
}
