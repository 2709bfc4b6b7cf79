/**
 * What every piece of work is given: the warehouse, the source, the clock, the log. Whatever varies comes in here, so
 * that the same code runs in a simulation. Opened in order, closed last in, first out.
 */
import { join } from 'node:path';
import type pg from 'pg';
import { type Logger, pino } from 'pino';
import { Agent } from 'undici';
import { type Clock, systemClock } from '../clock.ts';
import { joinEmbedded } from '../embedded/postgres.ts';
import { makeBudget } from '../engine/budget/budget.ts';
import { makePool } from '../engine/database/pool.ts';
import { fixedToken, type Token } from '../engine/http/dialect.ts';
import type { SourceName } from '../engine/http/request.ts';
import { type Fetch, makeNoSend, makeSend, type Send, timeoutMs, undiciFetch } from '../engine/http/send.ts';
import { refreshedToken } from '../engine/http/token.ts';
import { type Bell, makeBell } from '../engine/notifier.ts';
import type { Claim, Claimant } from '../engine/runs/claims.ts';
import { Away, exitCodes, Fatal, isAway, ShelfdeskError, UsageError } from '../errors.ts';
import { booksDialect } from '../sources/books/dialect.ts';
import { myLibrary } from '../sources/books/endpoints.ts';
import { helpdeskDialect } from '../sources/helpdesk/dialect.ts';
import type { AuditConfig, BooksConfig, Config, SweepConfig } from './config.ts';

export interface Context {
  readonly account: string;
  readonly pg: pg.Pool;
  readonly clock: Clock;
  /** Chance: 0 to 1, without 1. */
  readonly random: () => number;
  readonly log: Logger;
  /** Aborts with `Interrupted`, `Paused` or `FencedOff`: what is in flight is committed, if it may be, then the work ends. */
  readonly signal: AbortSignal;
  /** Those that are configured; of the others `send` fails, and says what to set. */
  readonly sources: ReadonlySet<SourceName>;
  readonly helpdesk: {
    readonly send: Send;
    readonly lookbackMs: number;
    readonly sweep: SweepConfig;
    readonly audit: AuditConfig;
    /** Rings where this process has stored tickets that may wait for their messages. */
    readonly stored: Bell;
  };
  readonly books: Books;
}

export interface Books {
  readonly send: Send;
  /** Whose shelves are mirrored: the users that are set, then `mylibrary`, if it is mirrored. */
  readonly owners: readonly string[];
  /** A shelf that shows no change is read again after so long. */
  readonly shelfAgeMs: number;
  /** A volume is asked for in full again after so long. */
  readonly volumeAgeMs: number;
  /** Volumes that an audit compares in an hour; 0: no audit. */
  readonly auditVolumesPerHour: number;
  /** A person asks by hand: one request is tried, though the catalog has said that its quota is spent. */
  thaw(): Promise<void>;
}

/** What a job is given: a count of credits of its own, and under which name it takes work up. */
export interface JobContext extends Context {
  readonly claimant: Claimant;
  /** Is told what the job takes up: so it can be stopped as soon as that is no longer its own. */
  readonly onClaim?: (claim: Claim) => void;
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
  config: Pick<Config, 'databaseUrl'> & { accounts?: readonly unknown[] },
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

/** What is missing where a source is not configured. */
export const unset = {
  helpdesk: { what: 'the help desk', settings: 'HELPDESK_BASE_URL and HELPDESK_TOKEN' },
  books: { what: 'the book catalog', settings: 'BOOKS_BASE_URL, and BOOKS_USERS or a token' },
} as const satisfies Record<SourceName, { what: string; settings: string }>;

export function configuredSources(config: Pick<Config, SourceName>): ReadonlySet<SourceName> {
  const names: SourceName[] = ['helpdesk', 'books'];
  return new Set(names.filter(name => config[name] !== undefined));
}

/** Throws if nothing is configured that could be read, or this source is not. */
export function requireSource(config: Pick<Config, SourceName>, source?: SourceName): void {
  const configured = configuredSources(config);
  if (source === undefined ? configured.size > 0 : configured.has(source)) return;
  if (source !== undefined && configured.size > 0)
    throw new UsageError(
      `${unset[source].what} is not configured`,
      `Set ${unset[source].settings}, in the environment or in .env.`,
    );
  throw new UsageError(
    'the help desk and the book catalog are not configured',
    `Set ${unset.helpdesk.settings} in the environment or in .env (or ${unset.books.settings}), or try \`npm run demo\`.`,
  );
}

interface SourceDeps {
  pg: pg.Pool;
  log: Logger;
  clock: Clock;
  fetch: Fetch;
}

export function openContext(
  config: Config,
  pool: pg.Pool,
  deps: { log: Logger; signal: AbortSignal },
): Context & AsyncDisposable {
  const clock = systemClock;
  const agent = new Agent({ connections: 4 });
  const given = { pg: pool, log: deps.log, clock, fetch: undiciFetch(agent) };
  return {
    account: config.account,
    pg: pool,
    clock,
    random: Math.random,
    ...deps,
    sources: configuredSources(config),
    helpdesk: {
      send: openHelpdesk(config, given),
      lookbackMs: config.lookbackMs,
      sweep: config.sweep,
      audit: config.audit,
      stored: makeBell(),
    },
    books: openBooks(config, given),
    [Symbol.asyncDispose]: () => agent.close(),
  };
}

/** Below this nothing tells a move of the source's clock from its grain and ours. */
const leastToleranceMs = 5000;

function openHelpdesk({ account, helpdesk, limits, lookbackMs }: Config, deps: SourceDeps): Send {
  if (helpdesk === undefined) return notConfigured('helpdesk');
  const own = { ...deps, random: Math.random };
  const clockToleranceMs = Math.max(lookbackMs, leastToleranceMs);
  const budget = makeBudget({ ...own, account, source: 'helpdesk', limits, timeoutMs, clockToleranceMs });
  const token = fixedToken(helpdesk.token);
  return makeSend({ ...own, baseUrl: helpdesk.baseUrl, dialect: helpdeskDialect, token, budget });
}

/** Nobody waits longer than this for the catalog: what takes hours is told, so that the work ends and goes on then. */
const longestWaitMs = 60_000;

function openBooks({ account, books }: Config, deps: SourceDeps): Books {
  if (books === undefined) {
    return {
      send: notConfigured('books'),
      owners: [],
      shelfAgeMs: 0,
      volumeAgeMs: 0,
      auditVolumesPerHour: 0,
      thaw: async () => {},
    };
  }
  const own = { ...deps, random: Math.random };
  const limits = { ...books.limits, evenly: false };
  const budget = makeBudget({ ...own, account, source: 'books', limits, timeoutMs, longestWaitMs });
  const { apiKey, country, users, library, shelfAgeMs, volumeAgeMs, auditVolumesPerHour } = books;
  const token = tokenOf(books);
  const dialect = booksDialect({
    ...(apiKey !== undefined && { apiKey }),
    ...(country !== undefined && { country }),
    hasToken: token !== undefined,
  });
  return {
    send: makeSend({ ...own, baseUrl: books.baseUrl, dialect, token, budget }),
    owners: library ? [...users, myLibrary] : users,
    shelfAgeMs,
    volumeAgeMs,
    auditVolumesPerHour,
    thaw: () => budget.thaw(),
  };
}

/** What was set for these owners of shelves. */
export function settingsOfOwners(owners: readonly string[]): Pick<BooksConfig, 'users' | 'library'> {
  const users = owners.filter(owner => owner !== myLibrary);
  return { users, library: users.length < owners.length };
}

function tokenOf({ accessToken, refresh }: BooksConfig): Token | undefined {
  if (refresh !== undefined) return refreshedToken(refresh);
  return accessToken === undefined ? undefined : fixedToken(accessToken);
}

function notConfigured(source: SourceName): Send {
  const { what: name, settings } = unset[source];
  return makeNoSend(
    () => new Fatal(`${name} is not configured`, `Set ${settings} in the environment or in .env.`, exitCodes.usage),
  );
}
