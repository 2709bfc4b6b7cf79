/**
 * Opens the context of every piece of work: sources, clock, log. Everything that varies is in the context, so that the
 * same code runs in a simulation.
 */

import type pg from 'pg';
import { type Logger, pino } from 'pino';
import { type Clock, systemClock } from '../clock.ts';
import { makeBudget } from '../engine/budget/budget.ts';
import { bookCredits, type Context, type OpenSource } from '../engine/context.ts';
import { fetchOver, timeoutMs } from '../engine/http/fetch.ts';
import { makeSend } from '../engine/http/send.ts';
import { openWays, type Ways } from '../engine/http/ways.ts';
import { makeBell } from '../engine/notifier.ts';
import { messageOf, stackOf } from '../errors.ts';
import { filterOf } from '../privacy/fields/field-rules.ts';
import { fullRulesOf } from '../privacy/fields/stored-rules.ts';
import { sources, streams } from '../sources/index.ts';
import type { Connection, Source } from '../sources/source.ts';
import type { Config } from './config.ts';
import { boundSources, configuredSources, type Warehouse } from './context.ts';

/** Shows a line of the log to a person: its level (30 info, 40 warn, 50 error), its text, and its details. */
export type Tell = (level: number, text: string, details: Readonly<Record<string, unknown>>) => void;

/** Opens the log: JSON on stderr, because stdout is for results. With `tell`, people get each line instead. */
export function openLog({ logLevel: level }: Pick<Config, 'logLevel'>, tell?: Tell): Logger {
  const destination = pino.destination(2);
  const serializers = { err: inLog };
  if (tell === undefined) return pino({ level, serializers }, destination);
  const logMethod = (args: unknown[], _write: unknown, level: number) => {
    const [details, text] = typeof args[0] === 'string' ? [{}, args[0]] : [args[0], args[1]];
    const { err, ...rest } = details instanceof Error ? { err: details } : (details as { err?: unknown });
    const reason = err instanceof Error ? { reason: messageOf(err) } : {};
    tell(level, String(text), { ...rest, ...reason });
  };
  return pino({ level, hooks: { logMethod } }, destination);
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
    stack: stackOf(error).match(/^ {4}at .*$/gm) ?? [],
    ...(cause !== undefined && { cause: inLog(cause) }),
  };
}

interface Opening {
  log: Logger;
  signal: AbortSignal;
  sender?: () => number | undefined;
  /** Addresses to ask instead of those of the settings, by the name of the source. */
  instead?: ReadonlyMap<string, URL>;
}

/** Opens the configured sources. */
export function openContext(
  config: Config,
  { pg: pool, ledger }: Pick<Warehouse, 'pg' | 'ledger'>,
  { sender, instead, ...deps }: Opening,
): Context & AsyncDisposable {
  const common = { pg: pool, log: deps.log, clock: systemClock, random: Math.random };
  const ways = openWays(config.proxies);
  const configured = configuredSources(config);
  const opened = sources.flatMap(source => {
    const connection = configured.get(source.name);
    return connection === undefined
      ? []
      : [
          openSource(
            source,
            { ...connection, baseUrl: instead?.get(source.name) ?? connection.baseUrl },
            {
              ...common,
              ledger,
              account: config.account,
              ways,
              replyBytes: config.replyBytes,
              filter: filterOf(config.fieldRules),
              ...(sender && { sender }),
            },
          ),
        ];
  });
  const all = new Map(opened.map(source => [source.name, source]));
  return {
    ...{ account: config.account, streams, sweep: config.sweep, rules: fullRulesOf(config.fieldRules) },
    bound: boundSources(config),
    ...common,
    ...deps,
    sources: all,
    [Symbol.asyncDispose]: async () => {
      await bookCredits({ sources: all });
      await ways[Symbol.asyncDispose]();
    },
  };
}

interface SourceDeps {
  account: string;
  ledger: pg.Pool;
  log: Logger;
  clock: Clock;
  random: () => number;
  ways: Ways;
  replyBytes: number;
  filter: ReturnType<typeof filterOf>;
  sender?: () => number | undefined;
  /** Replaces the clock of the database, for a test in time of its own. */
  now?: () => number;
}

export function openSource(declaration: Source, connection: Connection, deps: SourceDeps): OpenSource {
  const { name, label } = declaration;
  const { own, dialect, baseUrl, lookbackMs, sinceMs, audit, ...rules } = connection;
  const { ways } = deps;
  const token = connection.token?.over?.(ways) ?? connection.token;
  const budget = makeBudget({ ...deps, ...rules, pg: deps.ledger, label, source: name, timeoutMs });
  return {
    ...{ name, declaration, lookbackMs, sinceMs, audit },
    limits: rules.limits,
    longestWaitMs: rules.longestWaitMs,
    send: makeSend({
      ...{ ...deps, source: name, label, address: declaration.address, baseUrl, dialect, token, budget },
      ...{ fetch: fetchOver(ways, deps.replyBytes), proxies: ways.proxies },
    }),
    stored: makeBell(),
    thaw: () => budget.thaw(),
    ...own,
  };
}
