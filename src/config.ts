/**
 * The only reader of the environment. An `.env` file in the working folder is read where there is one; what the environment
 * says goes before it. What can be set stands in settings.ts.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { z } from 'zod';
import { UsageError } from './errors.ts';
import { settings } from './settings.ts';

type Name = keyof typeof settings;

export interface Config {
  /** The operator's name for the account that these settings describe. */
  account: string;
  databaseUrl: string | undefined;
  redisUrl: string | undefined;
  /** Undefined while the help desk is not configured: only some commands need it. */
  helpdesk: HelpdeskConfig | undefined;
  limits: Limits;
  sinceMs: number;
  lookbackMs: number;
  sweep: SweepConfig;
  audit: AuditConfig;
  /** Undefined while the catalog is not configured. */
  books: BooksConfig | undefined;
  schedule: Times;
  logLevel: string;
}

export interface Limits {
  credits: number;
  periodMs: number;
  requestsPerSecond: number;
  reserve: number;
  /** Of the help desk: the share of the credits that the sweep gets while others wait, 0 to 1. */
  sweepShare?: number;
}

export interface SweepConfig {
  /** What was looked at longer ago is looked at again. */
  ageMs: number;
  /** If a larger share of a stream's rows seems to be gone at once, a sweep stops and asks: 0 to 1. */
  mostDeleted: number;
}

export interface AuditConfig {
  ticketsPerHour: number;
  /** Messages that were read longer ago are read again; undefined: never. */
  messagesAgeMs: number | undefined;
}

export interface BooksConfig {
  baseUrl: URL;
  apiKey?: string;
  accessToken?: string;
  /** Instead of a token: what gets one. */
  refresh?: { clientId: string; clientSecret: string; refreshToken: string; tokenUrl: URL };
  users: string[];
  /** The authenticated user's shelves are mirrored as well: it is wanted, and there is a token. */
  library: boolean;
  country?: string;
  /** Credits are requests, and the period is a day. */
  limits: Limits;
  /** A shelf that shows no change is read again after so long. */
  shelfAgeMs: number;
  /** A volume is asked for again after so long. */
  volumeAgeMs: number;
}

/** Cron expressions; an empty one is switched off. */
export interface Times {
  fresh: string;
  nightly: string;
  timeZone: string;
}

export interface HelpdeskConfig {
  baseUrl: URL;
  token: string;
}

/** Throws UsageError: which setting, from where, what to do. A value is shown only where it is no secret. */
export function readConfig(
  folder = process.cwd(),
  environment: Record<string, string | undefined> = process.env,
): Config {
  const file = readEnvFile(folder);
  const given = Object.fromEntries(
    Object.entries(settings).map(([name, setting]) => {
      const value = environment[name] || file[name];
      const said = environment[name] ?? file[name];
      return [name, 'emptyIsValue' in setting ? said : value || undefined] as const;
    }),
  );
  const shape = Object.fromEntries(Object.entries(settings).map(([name, { schema }]) => [name, schema])) as {
    [N in Name]: (typeof settings)[N]['schema'];
  };
  const parsed = z.object(shape).safeParse(given);
  if (!parsed.success) {
    const { path, message } = parsed.error.issues[0]!;
    const name = String(path[0]) as Name;
    throw wrongSetting(
      name,
      message,
      environment[name] !== undefined && given[name] === environment[name] ? 'the environment' : join(folder, '.env'),
      given[name],
    );
  }
  const value = parsed.data;
  if (value.HELPDESK_RESERVE + 4 > value.HELPDESK_CREDITS) {
    throw new UsageError(
      `HELPDESK_RESERVE (${value.HELPDESK_RESERVE}) leaves less than 4 of HELPDESK_CREDITS (${value.HELPDESK_CREDITS}), and one ticket with its messages may cost 4`,
      'Lower HELPDESK_RESERVE.',
    );
  }
  const { HELPDESK_BASE_URL: url, HELPDESK_TOKEN: token } = value;
  if ((url === undefined) !== (token === undefined)) {
    const missing = url === undefined ? 'HELPDESK_BASE_URL' : 'HELPDESK_TOKEN';
    throw new UsageError(
      `${missing} is not set`,
      `Set ${missing} as well, in the environment or in ${join(folder, '.env')}.`,
    );
  }
  return {
    account: 'default',
    databaseUrl: value.DATABASE_URL,
    redisUrl: value.REDIS_URL,
    helpdesk: url && token ? { baseUrl: url, token } : undefined,
    limits: {
      credits: value.HELPDESK_CREDITS,
      periodMs: value.HELPDESK_PERIOD_SECONDS * 1000,
      requestsPerSecond: value.HELPDESK_REQUESTS_PER_SECOND,
      reserve: value.HELPDESK_RESERVE,
      sweepShare: value.SWEEP_SHARE_PERCENT / 100,
    },
    sinceMs: value.HELPDESK_SINCE,
    lookbackMs: value.HELPDESK_LOOKBACK_SECONDS * 1000,
    sweep: { ageMs: value.SWEEP_AGE_DAYS * dayMs, mostDeleted: value.SWEEP_MOST_DELETED_PERCENT / 100 },
    audit: {
      ticketsPerHour: value.AUDIT_TICKETS_PER_HOUR,
      messagesAgeMs: value.MESSAGES_AGE_DAYS === 0 ? undefined : value.MESSAGES_AGE_DAYS * dayMs,
    },
    books: booksOf(value, folder),
    schedule: {
      fresh: value.SCHEDULE_FRESH,
      nightly: value.SCHEDULE_NIGHTLY,
      timeZone: value.SCHEDULE_TIME_ZONE,
    },
    logLevel: value.LOG_LEVEL,
  };
}

const dayMs = 24 * 3_600_000;
const hourMs = 3_600_000;

type Values = z.infer<z.ZodObject<{ [N in Name]: (typeof settings)[N]['schema'] }>>;

/** The catalog, if it is configured. What contradicts itself is an error, what is not set at all is none. */
function booksOf(value: Values, folder: string): BooksConfig | undefined {
  const where = `in the environment or in ${join(folder, '.env')}`;
  const baseUrl = value.BOOKS_BASE_URL;
  const triple = ['BOOKS_CLIENT_ID', 'BOOKS_CLIENT_SECRET', 'BOOKS_REFRESH_TOKEN'] as const;
  if (baseUrl === undefined) {
    const needing = ['BOOKS_API_KEY', 'BOOKS_ACCESS_TOKEN', ...triple].find(name => value[name as Name] !== undefined);
    const lonely = value.BOOKS_USERS.length > 0 ? 'BOOKS_USERS' : needing;
    if (lonely === undefined) return undefined;
    throw new UsageError(`${lonely} is set, but BOOKS_BASE_URL is not`, `Set BOOKS_BASE_URL as well, ${where}.`);
  }
  const missing = triple.filter(name => value[name] === undefined);
  if (missing.length > 0 && missing.length < triple.length) {
    const given = triple.find(name => value[name] !== undefined);
    throw new UsageError(
      `${given} is set, but ${missing.join(' and ')} ${missing.length > 1 ? 'are' : 'is'} not`,
      `Set all three (${triple.join(', ')}) or none, ${where}.`,
    );
  }
  const accessToken = value.BOOKS_ACCESS_TOKEN;
  if (accessToken !== undefined && missing.length === 0) {
    throw new UsageError(
      'BOOKS_ACCESS_TOKEN and BOOKS_REFRESH_TOKEN are both set',
      `Set one of them, ${where}: a token that lasts, or what gets tokens.`,
    );
  }
  const library = value.BOOKS_LIBRARY === 'true' && (accessToken !== undefined || missing.length === 0);
  if (!library && value.BOOKS_USERS.length === 0) {
    throw new UsageError(
      'BOOKS_BASE_URL is set, but there is nothing to mirror: no users, and no library of your own',
      `Set BOOKS_USERS, or BOOKS_ACCESS_TOKEN or the three of a refresh token with BOOKS_LIBRARY=true, ${where}.`,
    );
  }
  const refresh = {
    clientId: value.BOOKS_CLIENT_ID!,
    clientSecret: value.BOOKS_CLIENT_SECRET!,
    refreshToken: value.BOOKS_REFRESH_TOKEN!,
    tokenUrl: value.BOOKS_TOKEN_URL,
  };
  return {
    baseUrl,
    ...(value.BOOKS_API_KEY !== undefined && { apiKey: value.BOOKS_API_KEY }),
    ...(accessToken !== undefined && { accessToken }),
    ...(missing.length === 0 && { refresh }),
    users: value.BOOKS_USERS,
    library,
    ...(value.BOOKS_COUNTRY !== undefined && { country: value.BOOKS_COUNTRY }),
    limits: {
      credits: value.BOOKS_REQUESTS_PER_DAY,
      periodMs: dayMs,
      requestsPerSecond: value.BOOKS_REQUESTS_PER_SECOND,
      reserve: 0,
    },
    shelfAgeMs: value.BOOKS_SHELF_AGE_HOURS * hourMs,
    volumeAgeMs: value.BOOKS_VOLUME_AGE_DAYS * dayMs,
  };
}

function wrongSetting(name: Name, message: string, where: string, value: string | undefined): UsageError {
  const setting: { says: string; secret?: boolean } = settings[name];
  const shown = setting.secret ? '' : ` (it is "${value}")`;
  return new UsageError(`${name} ${lowerFirst(message)}${shown}`, `Change it in ${where}. ${setting.says}`);
}

const lowerFirst = (text: string) => text.charAt(0).toLowerCase() + text.slice(1);

function readEnvFile(folder: string): Record<string, string | undefined> {
  const file = join(folder, '.env');
  if (!existsSync(file)) return {};
  return parseEnv(readFileSync(file, 'utf8'));
}
