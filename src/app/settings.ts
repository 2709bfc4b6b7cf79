/**
 * Every setting: what it takes, its default, what it means. README and .env.example are tested against this table; config.ts
 * reads it.
 */
import { createTask, validate } from 'node-cron';
import { z } from 'zod';

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

/** It guards all that the page shows, so nobody may be able to guess it. */
const webToken = z
  .string()
  .regex(/^[\x21-\x7e]{16,}$/, { error: 'must be 16 characters or more, printable and without spaces' })
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

const percent = count(1).refine(value => value <= 100, { error: 'must be 100 or less' });

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

const freshness = 'tickets=5m messages=15m customers=5m users=26h shelves=26h volumes=26h';
const unitMs: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** By stream, in ms: what a text such as the default says. */
function targetsIn(text: string): Record<string, number> {
  const parts = text.split(/[\s,]+/).filter(part => part !== '');
  return Object.fromEntries(
    parts.map(part => {
      const [, stream, amount, unit] = /^([a-z]+)=([1-9]\d{0,5})([smhd])$/.exec(part) ?? [];
      if (stream === undefined)
        throw new Error(`must be streams and spans, such as tickets=5m (units s, m, h, d); ${part} is none`);
      return [stream, Number(amount) * unitMs[unit!]!];
    }),
  );
}

const usualTargets = targetsIn(freshness);

/** Each stream's; those that are not named, or as usual, are not set. */
const targets = z.string().transform((text, ctx) => {
  const given = (() => {
    try {
      return targetsIn(text);
    } catch (error) {
      return (error as Error).message;
    }
  })();
  const unknown = typeof given === 'string' ? undefined : Object.keys(given).find(name => !(name in usualTargets));
  const wrong =
    typeof given === 'string'
      ? given
      : unknown && `names ${unknown}, which is no stream (${Object.keys(usualTargets).join(', ')})`;
  if (wrong === undefined) return withUsual(given as Record<string, number>);
  ctx.addIssue({ code: 'custom', message: wrong });
  return z.NEVER;
});

function withUsual(given: Record<string, number>): Record<string, { ms: number; isSet: boolean }> {
  return Object.fromEntries(
    Object.entries(usualTargets).map(([stream, usualMs]) => {
      const ms = given[stream] ?? usualMs;
      return [stream, { ms, isSet: ms !== usualMs }];
    }),
  );
}

/**
 * Each setting: what it takes, its default as it would be written, what it means, and whether it is a secret. `inFile`: it
 * describes an account, so that it may also stand in the file of SHELFDESK_CONFIG; as a reference only if it lets people in.
 * One without it is of the whole process.
 */
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
  SHELFDESK_CONFIG: {
    schema: z.string().optional(),
    says: 'Path of a YAML file with many accounts (docs/FLEET.md). The plain variables, if they name a source, stay the account `default`.',
  },
  HELPDESK_BASE_URL: {
    schema: baseUrl('/api/v1').optional(),
    says: 'Base address of the help desk; ends in `/api/v1`. HTTPS, except to this machine itself and to names without a dot.',
    // No secret as such, but people paste keys and passwords into URLs.
    secret: true,
    inFile: 'plain',
  },
  HELPDESK_TOKEN: {
    schema: credential,
    says: 'Access token of the help desk.',
    secret: true,
    inFile: 'reference',
  },
  HELPDESK_CREDITS: {
    schema: count(1).default(100),
    default: '100',
    says: 'Credits that the whole account has in a period.',
    inFile: 'plain',
  },
  HELPDESK_PERIOD_SECONDS: {
    schema: count(1).default(60),
    default: '60',
    says: 'Length of that period.',
    inFile: 'plain',
  },
  HELPDESK_REQUESTS_PER_SECOND: {
    schema: count(1).default(6),
    default: '6',
    says: 'Requests that the whole account may make in a second.',
    inFile: 'plain',
  },
  HELPDESK_RESERVE: {
    schema: count(0).default(10),
    default: '10',
    says: "Credits of each period that are left to the account's other tools.",
    inFile: 'plain',
  },
  HELPDESK_SINCE: {
    schema: moment.default(0),
    default: 'everything',
    says: 'The mirror begins here (ISO 8601).',
    inFile: 'plain',
  },
  HELPDESK_LOOKBACK_SECONDS: {
    schema: count(0).default(120),
    default: '120',
    says: 'How late a record may appear after its own time; that much is read again by the next sync.',
    inFile: 'plain',
  },
  SWEEP_AGE_DAYS: {
    schema: count(1).default(7),
    default: '7',
    says: 'Tickets and customers are looked at again after so long, for deletions and for edits that nothing announces; open tickets every night.',
    inFile: 'plain',
  },
  SWEEP_SHARE_PERCENT: {
    schema: percent.default(10),
    default: '10',
    says: 'Share of the credits that looking again gets while other work waits.',
    inFile: 'plain',
  },
  SWEEP_MOST_DELETED_PERCENT: {
    schema: percent.default(20),
    default: '20',
    says: 'If more of the rows of a stream than this seem to be deleted at once, a sweep stops and asks.',
    inFile: 'plain',
  },
  AUDIT_TICKETS_PER_HOUR: {
    schema: count(0).default(50),
    default: '50',
    says: 'Tickets, chosen at random, that `start` reads again each hour while nobody wants the credits, and compares; 0: none.',
    inFile: 'plain',
  },
  MESSAGES_AGE_DAYS: {
    schema: count(0).default(0),
    default: '0',
    says: 'Messages that were read longer ago than this are read again while nobody wants the credits; 0: never.',
    inFile: 'plain',
  },
  BOOKS_BASE_URL: {
    schema: baseUrl('/books/v1').optional(),
    says: 'Base address of the book catalog; ends in `/books/v1`. HTTPS, with the same exceptions.',
    secret: true,
    inFile: 'plain',
  },
  BOOKS_USERS: {
    schema: users.default([]),
    says: 'Ids of the users whose public shelves are mirrored, with commas or spaces between them.',
    inFile: 'plain',
  },
  BOOKS_API_KEY: {
    schema: credential,
    says: 'Key for what is public in the catalog.',
    secret: true,
    inFile: 'reference',
  },
  BOOKS_ACCESS_TOKEN: {
    schema: credential,
    says: 'Token of the user whose own library is mirrored, if there is one that lasts; else set the next three.',
    secret: true,
    inFile: 'reference',
  },
  BOOKS_CLIENT_ID: {
    schema: credential,
    says: 'Id of the OAuth client that gets tokens of that user.',
    inFile: 'plain',
  },
  BOOKS_CLIENT_SECRET: {
    schema: credential,
    says: 'Secret of that client.',
    secret: true,
    inFile: 'reference',
  },
  BOOKS_REFRESH_TOKEN: {
    schema: credential,
    says: "The user's refresh token for that client.",
    secret: true,
    inFile: 'reference',
  },
  BOOKS_TOKEN_URL: {
    schema: address.default(new URL('https://oauth2.googleapis.com/token')),
    default: 'https://oauth2.googleapis.com/token',
    says: 'Where that client gets its tokens.',
    secret: true,
    inFile: 'plain',
  },
  BOOKS_LIBRARY: {
    schema: z.enum(['true', 'false'], { error: 'must be true or false' }).default('true'),
    default: 'true',
    says: "Whether the user's own library is mirrored, once there is a token: true or false.",
    inFile: 'plain',
  },
  BOOKS_COUNTRY: {
    schema: z
      .string()
      .regex(/^[A-Za-z]{2}$/, { error: 'must be a country of two letters' })
      .transform(value => value.toUpperCase())
      .optional(),
    says: 'Country that prices and sales are told for, such as DE.',
    inFile: 'plain',
  },
  BOOKS_REQUESTS_PER_DAY: {
    schema: count(1).default(1000),
    default: '1000',
    says: 'Requests that may be made in any 24 hours.',
    inFile: 'plain',
  },
  BOOKS_REQUESTS_PER_SECOND: {
    schema: count(1).default(5),
    default: '5',
    says: 'Requests that may be made in a second.',
    inFile: 'plain',
  },
  BOOKS_SHELF_AGE_HOURS: {
    schema: count(1).default(168),
    default: '168',
    says: 'A shelf that shows no change is read again all the same after so long.',
    inFile: 'plain',
  },
  BOOKS_VOLUME_AGE_DAYS: {
    schema: count(1).default(30),
    default: '30',
    says: 'A volume is asked for in full again after so long.',
    inFile: 'plain',
  },
  BOOKS_AUDIT_VOLUMES_PER_HOUR: {
    schema: count(0).default(5),
    default: '5',
    says: 'Volumes, chosen at random, that `start` reads again each hour while nobody wants the requests, and compares, and a shelf for each five of them; 0: none.',
    inFile: 'plain',
  },
  SCHEDULE_FRESH: {
    schema: cron.default('* * * * *'),
    default: '* * * * *',
    says: 'When `start` extends the top of customers and tickets: a cron expression of five fields, or six with seconds; empty: never.',
    emptyIsValue: true,
    inFile: 'plain',
  },
  SCHEDULE_NIGHTLY: {
    schema: cron.default('0 2 * * *'),
    default: '0 2 * * *',
    says: 'When `start` reads all lists, and sweeps what is due; empty: never.',
    emptyIsValue: true,
    inFile: 'plain',
  },
  SCHEDULE_TIME_ZONE: {
    schema: z.string().refine(isTimeZone, { error: 'is no time zone' }).default('UTC'),
    default: 'UTC',
    says: 'Time zone of both, such as Europe/Berlin. A local time that daylight saving removes is skipped that day.',
    inFile: 'plain',
  },
  FRESHNESS_TARGETS: {
    schema: targets.default(withUsual({})),
    default: freshness,
    says: 'How far each stream may be behind (s, m, h, d). Those not named keep the default, which grows where SCHEDULE_FRESH or SCHEDULE_NIGHTLY comes more seldom.',
    inFile: 'plain',
  },
  NIGHTLY_WITHIN_HOURS: {
    schema: count(1).default(6),
    default: '6',
    says: 'The run of the night is to have ended so long after it was due.',
    inFile: 'plain',
  },
  ALARM_WEBHOOK_URL: {
    schema: address.optional(),
    says: 'Where alarms are sent (docs/ALARMS.md). HTTPS, with the same exceptions. Without it nobody is told.',
    secret: true,
    inFile: 'reference',
  },
  ALARM_FORMAT: {
    schema: z.enum(['json', 'slack'], { error: 'must be json or slack' }).default('json'),
    default: 'json',
    says: 'What alarms are sent as: json, or slack for an incoming webhook of Slack.',
    inFile: 'plain',
  },
  SHELFDESK_WEB_PORT: {
    schema: count(0)
      .refine(value => value <= 65_535, { error: 'must be 65535 or less' })
      .optional(),
    says: 'Port of the page. With it `start` serves the page too; `web` does in any case, at 8090 without it.',
  },
  SHELFDESK_WEB_HOST: {
    schema: z
      .string()
      .regex(/^[\w.:-]+$/, { error: 'must be an address or a name of this machine' })
      .default('127.0.0.1'),
    default: '127.0.0.1',
    says: 'Address that the page is served at. Any but this machine itself needs a token.',
  },
  SHELFDESK_WEB_TOKEN: {
    schema: webToken,
    says: 'Makes an operator of who logs in to the page with it: 16 characters or more. Without tokens everybody on this machine is one.',
    secret: true,
  },
  SHELFDESK_WEB_VIEWER_TOKEN: {
    schema: webToken,
    says: 'Makes a viewer of who logs in with it, who sees all of the page and may press nothing.',
    secret: true,
  },
  LOG_LEVEL: {
    schema: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('warn'),
    default: 'warn',
    says: 'Least level of the log on stderr: trace, debug, info, warn, error, fatal, silent.',
  },
} as const;
