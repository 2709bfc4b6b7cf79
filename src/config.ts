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

const baseUrl = z
  .string()
  .refine(value => URL.canParse(value), { error: 'is no URL' })
  .transform(value => new URL(value.replace(/\/+$/, '')))
  .refine(url => url.protocol === 'https:' || (url.protocol === 'http:' && withoutTls.test(url.hostname)), {
    error: 'must begin with https:// (http:// only to this machine itself, or to a name without a dot)',
  })
  .refine(url => url.username === '' && url.password === '', { error: 'must not carry a user name or password' })
  .refine(url => url.href.endsWith('/api/v1'), { error: 'must end in /api/v1' });

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
    schema: baseUrl.optional(),
    says: 'Base address of the help desk; ends in `/api/v1`. HTTPS, except to this machine itself and to names without a dot.',
    // No secret as such, but people paste keys and passwords into URLs.
    secret: true,
  },
  HELPDESK_TOKEN: {
    schema: z
      .string()
      .regex(/^[\x21-\x7e]+$/, { error: 'must be printable text without spaces' })
      .optional(),
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
  limits: { credits: number; periodMs: number; requestsPerSecond: number; reserve: number };
  sinceMs: number;
  lookbackMs: number;
  schedule: Times;
  logLevel: string;
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
    schedule: {
      fresh: value.SCHEDULE_FRESH,
      nightly: value.SCHEDULE_NIGHTLY,
      timeZone: value.SCHEDULE_TIME_ZONE,
    },
    logLevel: value.LOG_LEVEL,
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
