/**
 * Opens the context of every piece of work: sources, clock, log. Everything that varies is in the context, so that the
 * same code runs in a simulation.
 */

import type pg from 'pg';
import { type Logger, pino } from 'pino';
import { type Clock, systemClock } from '../clock.ts';
import { makeBudget } from '../engine/budget/budget.ts';
import type { Context, OpenSource } from '../engine/context.ts';
import { type Fetch, openFetch, timeoutMs } from '../engine/http/fetch.ts';
import { makeSend } from '../engine/http/send.ts';
import { makeBell } from '../engine/notifier.ts';
import { messageOf } from '../errors.ts';
import { fullRulesOf } from '../privacy/fields/stored-rules.ts';
import { sources, streams } from '../sources/index.ts';
import type { Connection, Source } from '../sources/source.ts';
import type { Config } from './config.ts';
import { configuredSources, type Warehouse } from './context.ts';

/** The log goes to stderr: stdout belongs to results. */
export function openLog(config: Pick<Config, 'logLevel'>): Logger {
  return pino({ level: config.logLevel, serializers: { err: inLog } }, pino.destination(2));
}

interface Logged {
  readonly type: string;
  readonly message: string;
  readonly code?: unknown;
  /** The lines of the stack. Its head is the whole message. */
  readonly stack: readonly string[];
  readonly cause?: Logged;
}

/** An error of PostgreSQL has values of records in its detail and its context. */
function inLog(error: unknown): Logged {
  if (!(error instanceof Error)) return { type: typeof error, message: messageOf(error), stack: [] };
  const { code, cause } = error as { code?: unknown; cause?: unknown };
  return {
    ...{ type: error.name, message: messageOf(error), ...(code !== undefined && { code }) },
    stack: error.stack?.match(/^ {4}at .*$/gm) ?? [],
    ...(cause !== undefined && { cause: inLog(cause) }),
  };
}

/** Opens the configured sources. */
export function openContext(
  config: Config,
  { pg: pool, ledger }: Pick<Warehouse, 'pg' | 'ledger'>,
  { sender, ...deps }: { log: Logger; signal: AbortSignal; sender?: () => number | undefined },
): Context & AsyncDisposable {
  const common = { pg: pool, log: deps.log, clock: systemClock, random: Math.random };
  const { fetch, ...closing } = openFetch(config.replyBytes);
  const configured = configuredSources(config);
  const opened = sources.flatMap(source => {
    const connection = configured.get(source.name);
    return connection === undefined
      ? []
      : [
          openSource(source, connection, {
            ...common,
            ledger,
            account: config.account,
            fetch,
            rules: config.fieldRules,
            ...(sender && { sender }),
          }),
        ];
  });
  return {
    ...{ account: config.account, streams, sweep: config.sweep, rules: fullRulesOf(config.fieldRules) },
    ...common,
    ...deps,
    sources: new Map(opened.map(source => [source.name, source])),
    ...closing,
  };
}

interface SourceDeps {
  account: string;
  ledger: pg.Pool;
  log: Logger;
  clock: Clock;
  random: () => number;
  fetch: Fetch;
  rules: Config['fieldRules'];
  sender?: () => number | undefined;
}

function openSource(declaration: Source, connection: Connection, deps: SourceDeps): OpenSource {
  const { name, label } = declaration;
  const { own, dialect, token, baseUrl, lookbackMs, sinceMs, ...rules } = connection;
  const budget = makeBudget({ ...deps, ...rules, pg: deps.ledger, label, source: name, timeoutMs });
  return {
    ...{ name, declaration, lookbackMs, sinceMs },
    limits: rules.limits,
    longestWaitMs: rules.longestWaitMs,
    send: makeSend({ ...deps, source: name, label, baseUrl, dialect, token, budget }),
    stored: makeBell(),
    thaw: () => budget.thaw(),
    ...own,
  };
}
