/**
 * Opens the context of every piece of work: warehouse, sources, clock, log. Everything that varies is in the context,
 * so that the same code runs in a simulation. Opened in order, closed in reverse order.
 */

import { join } from 'node:path';
import type pg from 'pg';
import { type Logger, pino } from 'pino';
import { Agent } from 'undici';
import { type Clock, systemClock } from '../clock.ts';
import { joinEmbedded } from '../embedded/postgres.ts';
import { makeBudget } from '../engine/budget/budget.ts';
import type { Context, OpenSource } from '../engine/context.ts';
import { makePool } from '../engine/database/pool.ts';
import { type Fetch, makeSend, timeoutMs, undiciFetch } from '../engine/http/send.ts';
import { makeBell } from '../engine/notifier.ts';
import type { Bound } from '../engine/runs/accounts.ts';
import { Away, exitCodes, isAway, ShelfdeskError, UsageError } from '../errors.ts';
import { OpenStack } from '../open-stack.ts';
import { sources, streams } from '../sources/index.ts';
import type { Connection, Source } from '../sources/source.ts';
import type { Config } from './config.ts';

export interface Warehouse extends AsyncDisposable {
  readonly url: string;
  readonly pg: pg.Pool;
  /** Where the embedded server keeps its data; undefined with DATABASE_URL. */
  readonly folder: string | undefined;
}

/** The log goes to stderr: stdout belongs to results. */
export function openLog(config: Pick<Config, 'logLevel'>): Logger {
  return pino({ level: config.logLevel }, pino.destination(2));
}

/** The configured database, or the embedded one. The first process starts the embedded server, the last one stops it. */
export async function openWarehouse(
  config: Pick<Config, 'databaseUrl'> & { accounts?: readonly unknown[] },
  options: { folder?: string; signal?: AbortSignal } = {},
): Promise<Warehouse> {
  await using stack = new OpenStack();
  let url = config.databaseUrl;
  let folder: string | undefined;
  if (url === undefined) {
    const embedded = await joinEmbedded({
      folder: join(options.folder ?? process.cwd(), '.shelfdesk', 'postgres'),
      ...(options.signal && { signal: options.signal }),
    });
    stack.defer(() => embedded.release());
    ({ url, dataFolder: folder } = embedded);
  }
  const pool = makePool(url, config.accounts?.length);
  stack.defer(() => pool.end());
  await pool.query('select').catch((error: unknown) => {
    const remedy = 'Check DATABASE_URL and the server.';
    if (isAway(error)) throw new Away(error, 'the warehouse', remedy);
    const { message } = error as Error;
    throw new ShelfdeskError(`the warehouse does not answer: ${message}`, remedy, exitCodes.failed, error);
  });
  const opened = stack.move();
  return { url, pg: pool, folder, [Symbol.asyncDispose]: () => opened.disposeAsync() };
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
  if (wanted !== undefined && configured.size > 0)
    throw new UsageError(`${wanted.label} is not configured`, `Set ${wanted.requires}, in the environment or in .env.`);
  const [first, ...others] = sources.map(({ requires }) => requires);
  throw new UsageError(
    `${sources.map(({ label }) => label).join(' and ')} are not configured`,
    `Set ${first} in the environment or in .env (or ${others.join('; or ')}), or try \`npm run demo\`.`,
  );
}

/** The configured sources and their addresses. */
export function boundSources(config: Config): Bound[] {
  const configured = configuredSources(config);
  return sources.flatMap(({ name, address: setting, label }) => {
    const connection = configured.get(name);
    return connection === undefined ? [] : [{ name, setting, label, address: connection.baseUrl }];
  });
}

/** Opens the configured sources. */
export function openContext(
  config: Config,
  pool: pg.Pool,
  deps: { log: Logger; signal: AbortSignal },
): Context & AsyncDisposable {
  const agent = new Agent({ connections: 4 });
  const common = { pg: pool, log: deps.log, clock: systemClock, random: Math.random };
  const fetch = undiciFetch(agent);
  const configured = configuredSources(config);
  const opened = sources.flatMap(source => {
    const connection = configured.get(source.name);
    return connection === undefined
      ? []
      : [openSource(source, connection, { ...common, account: config.account, fetch })];
  });
  return {
    ...{ account: config.account, streams, sweep: config.sweep },
    ...common,
    ...deps,
    sources: new Map(opened.map(source => [source.name, source])),
    [Symbol.asyncDispose]: () => agent.close(),
  };
}

interface SourceDeps {
  account: string;
  pg: pg.Pool;
  log: Logger;
  clock: Clock;
  random: () => number;
  fetch: Fetch;
}

function openSource(declaration: Source, connection: Connection, deps: SourceDeps): OpenSource {
  const { name, label } = declaration;
  const { own, dialect, token, baseUrl, lookbackMs, ...rules } = connection;
  const budget = makeBudget({ ...deps, ...rules, label, source: name, timeoutMs });
  return {
    ...{ name, declaration, lookbackMs },
    limits: rules.limits,
    longestWaitMs: rules.longestWaitMs,
    send: makeSend({ ...deps, label, baseUrl, dialect, token, budget }),
    stored: makeBell(),
    thaw: () => budget.thaw(),
    ...own,
  };
}
