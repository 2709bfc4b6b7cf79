/**
 * Opens what a command needs first: the warehouse, and the configuration of its sources. open-context.ts has the part
 * that sends requests, so that read-only commands start without it.
 */

import { join } from 'node:path';
import type pg from 'pg';
import { keepPlansIn, makeLedgerPool, makePool } from '../engine/database/pool.ts';
import { plainly, remedyOfConnect } from '../engine/database/session/connect-failures.ts';
import { whereOffered } from '../engine/database/session/prefer-tls.ts';
import type { Bound } from '../engine/runs/accounts/accounts.ts';
import { Away, isAway, ShelfdeskError, UsageError } from '../errors.ts';
import { OpenStack } from '../open-stack.ts';
import { sources } from '../sources/index.ts';
import type { Connection } from '../sources/source.ts';
import { type Config, isDemo, typosIn } from './config.ts';

export interface Warehouse extends AsyncDisposable {
  readonly url: string;
  readonly pg: pg.Pool;
  /** Connections of the budget. */
  readonly ledger: pg.Pool;
  /** Where the embedded server keeps its data; undefined with DATABASE_URL. */
  readonly folder: string | undefined;
}

/** Where the embedded server of the warehouse, or of the demo, has its data. */
export const embeddedFolder = ({ demo }: Pick<Config, 'demo'>, folder = process.cwd()): string =>
  join(demo?.folder ?? join(folder, '.shelfdesk'), 'postgres');

/** The configured database, or the embedded one. The first process starts the embedded server, the last one stops it. */
export async function openWarehouse(
  config: Pick<Config, 'databaseUrl' | 'demo'> & { accounts?: readonly unknown[] },
  options: { folder?: string; signal?: AbortSignal } = {},
): Promise<Warehouse> {
  await using stack = new OpenStack();
  let url = config.databaseUrl === undefined ? undefined : await whereOffered(config.databaseUrl).catch(refusal);
  let folder: string | undefined;
  if (url === undefined) {
    const { joinEmbedded } = await import('../embedded/postgres.ts');
    const embedded = await joinEmbedded({
      folder: embeddedFolder(config, options.folder),
      ...(options.signal && { signal: options.signal }),
    });
    stack.defer(() => embedded.release());
    ({ url, dataFolder: folder } = embedded);
  }
  const pool = makePool(url, config.accounts?.length);
  stack.defer(() => pool.end());
  const ledger = makeLedgerPool(url);
  stack.defer(() => ledger.end());
  keepPlansIn(ledger, pool);
  await pool.query('select').catch(refusal);
  const opened = stack.move();
  return { url, pg: pool, ledger, folder, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

function refusal(error: unknown): never {
  if (error instanceof ShelfdeskError) throw error;
  const remedy = remedyOfConnect(error, 'DATABASE_URL') ?? 'Check DATABASE_URL and the server.';
  if (isAway(error)) throw new Away(error, 'the warehouse', remedy);
  const { message, code } = error as NodeJS.ErrnoException;
  throw new ShelfdeskError(`the warehouse does not answer: ${plainly(message) || code}`, remedy, { cause: error });
}

/** The connections of the configured sources, by the name of the source. */
export function configuredSources(config: Config): ReadonlyMap<string, Connection> {
  return new Map(
    sources.flatMap(source => {
      const connection = source.connect(config);
      return connection === undefined ? [] : [[source.name, connection]];
    }),
  );
}

/** Throws UsageError if no source is configured, or this one is not. */
export function requireSource(config: Config, name?: string): void {
  const configured = configuredSources(config);
  if (name === undefined ? configured.size > 0 : configured.has(name)) return;
  const wanted = sources.find(source => source.name === name);
  const typos = typosIn();
  const also = typos === '' ? '' : ` ${typos}`;
  if (wanted !== undefined && configured.size > 0)
    throw new UsageError(
      `${wanted.label} is not configured`,
      `Set ${wanted.requires}, in the environment or in .env.${also}`,
    );
  if (isDemo(config)) throw demoEnded;
  const [first, ...others] = sources.map(({ requires }) => requires);
  throw new UsageError(
    `${sources.map(({ label }) => label).join(' and ')} are not configured`,
    `Set ${first} in the environment or in .env (or ${others.join('; or ')}), or try \`npm run demo\`.${also}`,
  );
}

/** The error of commands that need a source, in a folder that has only the data of a demo. */
export const demoEnded = new UsageError(
  'this is the warehouse of the demo, which does not run now',
  '`npx shelfdesk demo --stay` runs it again; `npx shelfdesk init` connects a real help desk.',
);

/** The configured sources and their addresses. */
export function boundSources(config: Config): Bound[] {
  const configured = configuredSources(config);
  return sources.flatMap(({ name, address: setting, label }) => {
    const connection = configured.get(name);
    return connection === undefined ? [] : [{ name, setting, label, address: connection.baseUrl }];
  });
}
