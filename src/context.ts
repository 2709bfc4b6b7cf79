/**
 * What every piece of work is given: the warehouse, the source, the clock, the log. Whatever varies comes in here, so
 * that the same code runs in a simulation. Opened in order, closed last in, first out.
 */
import { join } from 'node:path';
import type pg from 'pg';
import { type Logger, pino } from 'pino';
import { Agent } from 'undici';
import { makeBudget } from './budget/budget.ts';
import { type Clock, systemClock } from './clock.ts';
import type { Config, HelpdeskConfig } from './config.ts';
import { joinEmbedded } from './embedded/postgres.ts';
import { ShelfdeskError, UsageError } from './errors.ts';
import { makeSend, type Send, timeoutMs, undiciFetch } from './http/send.ts';
import type { Claimant } from './warehouse/claims.ts';
import { makePool } from './warehouse/pool.ts';

export interface Context {
  readonly account: string;
  readonly pg: pg.Pool;
  readonly clock: Clock;
  readonly log: Logger;
  /** Aborts with `Interrupted`: the page in flight is committed, then the work ends. */
  readonly signal: AbortSignal;
  readonly helpdesk: { readonly send: Send; readonly lookbackMs: number };
}

/** What a job is given: a count of credits of its own, and under which name it takes work up. */
export interface JobContext extends Context {
  readonly claimant: Claimant;
}

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

/** The configured database, or the embedded one: started if nobody has, stopped by the last one out. */
export async function openWarehouse(
  config: Pick<Config, 'databaseUrl'>,
  options: { folder?: string; signal?: AbortSignal } = {},
): Promise<Warehouse> {
  await using stack = new AsyncDisposableStack();
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
  const pool = makePool(url);
  stack.defer(() => pool.end());
  await pool.query('select').catch((error: Error) => {
    throw new ShelfdeskError(
      `the warehouse does not answer: ${error.message}`,
      'Check DATABASE_URL and the server.',
      1,
      error,
    );
  });
  const opened = stack.move();
  return { url, pg: pool, folder, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

export function requireHelpdesk(config: Config): HelpdeskConfig {
  if (config.helpdesk !== undefined) return config.helpdesk;
  throw new UsageError(
    'the help desk is not configured',
    'Set HELPDESK_BASE_URL and HELPDESK_TOKEN in the environment or in .env, or try `npm run demo`.',
  );
}

export function openContext(
  config: Config,
  pool: pg.Pool,
  deps: { log: Logger; signal: AbortSignal },
): Context & AsyncDisposable {
  const clock = systemClock;
  const { account, limits } = config;
  const helpdesk = requireHelpdesk(config);
  const agent = new Agent({ connections: 4 });
  const budget = makeBudget({ pg: pool, clock, account, limits, timeoutMs, random: Math.random });
  const send = makeSend({ ...helpdesk, budget, clock, random: Math.random, log: deps.log, fetch: undiciFetch(agent) });
  return {
    account,
    pg: pool,
    clock,
    ...deps,
    helpdesk: { send, lookbackMs: config.lookbackMs },
    [Symbol.asyncDispose]: () => agent.close(),
  };
}
