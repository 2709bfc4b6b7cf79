/**
 * Every setting, in one schema: the only reader of the environment. An `.env` file in the working folder is read where
 * there is one; what the environment says goes before it. README and .env.example are tested against this table.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { createTask, validate } from 'node-cron';
import { z } from 'zod';
import { UsageError } from './errors.ts';

/** This machine itself, and names without a dot: those of a private network, such as `sandbox` in docker-compose.yml. */
const withoutTls = /^([\w-]+|127(\.\d+){3}|\[::1\])$/;

const address = z
  .string()
  .refine(value => URL.canParse(value), { error: 'is no URL' })
  .transform(value => new URL(value.replace(/\/+$/, '')))
  .refine(url => url.protocol === 'https:' || (url.protocol === 'http:' && withoutTls.test(url.hostname)), {
    error: 'must begin with https:// (http:// only to this machine itself, or to a name without a dot)',
  })
  .refine(url => url.username === '' && url.password === '', { error: 'must not carry a user name or password' });

const baseUrl = (end: string) =>
  address.refine(url => url.href.endsWith(end), {
    error: `must end in ${end}`,
  });

const credential = z
  .string()
  .regex(/^[\x21-\x7e]+$/, { error: 'must be printable text without spaces' })
  .optional();

/** Ids of users, each once. Of the shelves of the authenticated user BOOKS_LIBRARY decides. */
const users = z
  .string()
  .transform(value => [...new Set(value.split(/[\s,]+/).filter(id => id !== ''))])
  .refine(ids => !ids.includes('mylibrary'), {
    error: 'must not name mylibrary: that is read by itself, as soon as there is a token (BOOKS_LIBRARY)',
  })
  .refine(ids => ids.every(id => id.length <= 500 && !/^\.\.?$/.test(id)), { error: 'must be ids of users' });

const connection = (...protocols: string[]) =>
  z.string().refine(value => URL.canParse(value) && protocols.includes(new URL(value).protocol), {
    error: `must be a URL that begins with ${protocols[0]}//`,
  });

const count = (least: number) =>
  z
    .string()
    .refine(value => /^\d+$/.test(value) && Number(value) >= least && Number.isSafeInteger(Number(value)), {
      error: `must be a whole number, ${least} or more`,
    })
    .transform(Number);

/** In ms. A day, or a time with its offset: without one it would mean another moment on each machine. */
export const moment = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], { error: 'must be a time such as 2024-01-01T00:00:00Z' })
  .transform(value => Date.parse(value));

/** As node-cron reads it, which rings the alarm: BullMQ has a dialect of its own. */
const cron = z
  .string()
  .trim()
  .refine(value => value === '' || (/^\S+( +\S+){4,5}$/.test(value) && validate(value)), {
    error: 'must be a cron expression of five or six fields, or empty',
    abort: true,
  })
  .refine(value => value === '' || isEverDue(value), { error: 'is never due' });

/** What is never due may be written correctly all the same; its alarm would fail when it is set. */
function isEverDue(expression: string): boolean {
  const task = createTask(expression, () => {}, { timezone: 'UTC' });
  try {
    return task.getNextRuns(1).length > 0;
  } catch {
    return false;
  } finally {
    void task.destroy();
  }
}

function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }) !== undefined;
  } catch {
    return false;
  }
}

/** Each setting: what it takes, its default as it would be written, what it means, and whether it is a secret. */
export const settings = {
  DATABASE_URL: {
    schema: connection('postgres:', 'postgresql:').optional(),
    says: 'PostgreSQL of the warehouse, 15 or newer. Without it: an embedded PostgreSQL in `.shelfdesk/`.',
    secret: true,
  },
  REDIS_URL: {
    schema: connection('redis:', 'rediss:').optional(),
    says: 'Redis for the job queue. Without it: the queue lives in PostgreSQL.',
    secret: true,
  },
  HELPDESK_BASE_URL: {
    schema: baseUrl('/api/v1').optional(),
    says: 'Base address of the help desk; ends in `/api/v1`. HTTPS, except to this machine itself and to names without a dot.',
    // No secret as such, but people paste keys and passwords into URLs.
    secret: true,
  },
  HELPDESK_TOKEN: {
    schema: credential,
    says: 'Access token of the help desk.',
    secret: true,
  },
  HELPDESK_CREDITS: {
    schema: count(1).default(100),
    default: '100',
    says: 'Credits that the whole account has in a period.',
  },
  HELPDESK_PERIOD_SECONDS: {
    schema: count(1).default(60),
    default: '60',
    says: 'Length of that period.',
  },
  HELPDESK_REQUESTS_PER_SECOND: {
    schema: count(1).default(6),
    default: '6',
    says: 'Requests that the whole account may make in a second.',
  },
  HELPDESK_RESERVE: {
    schema: count(0).default(10),
    default: '10',
    says: "Credits of each period that are left to the account's other tools.",
  },
  HELPDESK_SINCE: {
    schema: moment.default(0),
    default: 'everything',
    says: 'The mirror begins here (ISO 8601).',
  },
  HELPDESK_LOOKBACK_SECONDS: {
    schema: count(0).default(120),
    default: '120',
    says: 'How late a record may appear after its own time; that much is read again by the next sync.',
  },
  BOOKS_BASE_URL: {
    schema: baseUrl('/books/v1').optional(),
    says: 'Base address of the book catalog; ends in `/books/v1`. HTTPS, with the same exceptions.',
    secret: true,
  },
  BOOKS_USERS: {
    schema: users.default([]),
    says: 'Ids of the users whose public shelves are mirrored, with commas or spaces between them.',
  },
  BOOKS_API_KEY: {
    schema: credential,
    says: 'Key for what is public in the catalog.',
    secret: true,
  },
  BOOKS_ACCESS_TOKEN: {
    schema: credential,
    says: 'Token of the user whose own library is mirrored, if there is one that lasts; else set the next three.',
    secret: true,
  },
  BOOKS_CLIENT_ID: {
    schema: credential,
    says: 'Id of the OAuth client that gets tokens of that user.',
  },
  BOOKS_CLIENT_SECRET: {
    schema: credential,
    says: 'Secret of that client.',
    secret: true,
  },
  BOOKS_REFRESH_TOKEN: {
    schema: credential,
    says: "The user's refresh token for that client.",
    secret: true,
  },
  BOOKS_TOKEN_URL: {
    schema: address.default(new URL('https://oauth2.googleapis.com/token')),
    default: 'https://oauth2.googleapis.com/token',
    says: 'Where that client gets its tokens.',
    secret: true,
  },
  BOOKS_LIBRARY: {
    schema: z.enum(['true', 'false'], { error: 'must be true or false' }).default('true'),
    default: 'true',
    says: "Whether the user's own library is mirrored, once there is a token: true or false.",
  },
  BOOKS_COUNTRY: {
    schema: z
      .string()
      .regex(/^[A-Za-z]{2}$/, { error: 'must be a country of two letters' })
      .transform(value => value.toUpperCase())
      .optional(),
    says: 'Country that prices and sales are told for, such as DE.',
  },
  BOOKS_REQUESTS_PER_DAY: {
    schema: count(1).default(1000),
    default: '1000',
    says: 'Requests that may be made in any 24 hours.',
  },
  BOOKS_REQUESTS_PER_SECOND: {
    schema: count(1).default(5),
    default: '5',
    says: 'Requests that may be made in a second.',
  },
  BOOKS_SHELF_AGE_HOURS: {
    schema: count(1).default(168),
    default: '168',
    says: 'A shelf that shows no change is read again all the same after so long.',
  },
  BOOKS_VOLUME_AGE_DAYS: {
    schema: count(1).default(30),
    default: '30',
    says: 'A volume is asked for in full again after so long.',
  },
  SCHEDULE_FRESH: {
    schema: cron.default('* * * * *'),
    default: '* * * * *',
    says: 'When `start` extends the top of customers and tickets: a cron expression of five fields, or six with seconds; empty: never.',
    emptyIsValue: true,
  },
  SCHEDULE_NIGHTLY: {
    schema: cron.default('0 2 * * *'),
    default: '0 2 * * *',
    says: 'When `start` reads all lists, and customers whole; empty: never.',
    emptyIsValue: true,
  },
  SCHEDULE_TIME_ZONE: {
    schema: z.string().refine(isTimeZone, { error: 'is no time zone' }).default('UTC'),
    default: 'UTC',
    says: 'Time zone of both, such as Europe/Berlin. A local time that daylight saving removes is skipped that day.',
  },
  LOG_LEVEL: {
    schema: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('warn'),
    default: 'warn',
    says: 'Least level of the log on stderr: trace, debug, info, warn, error, fatal, silent.',
  },
} as const;

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
    },
    sinceMs: value.HELPDESK_SINCE,
    lookbackMs: value.HELPDESK_LOOKBACK_SECONDS * 1000,
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
