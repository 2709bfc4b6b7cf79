/**
 * All settings with their schema, default and description. config.ts reads this table. Tests hold README.md and .env.example
 * to it.
 */
import { z } from 'zod';
import type { Read } from '../engine/database/session/connection-types.ts';
import { readDatabaseUrl, readRedisUrl } from '../engine/database/session/connection-url.ts';
import { keptDays } from '../engine/runs/kept-days.ts';
import { parseRules, wrongRule } from '../privacy/fields/parse-field-rules.ts';
import { findStream, kinds, sources, streams, targetOf } from '../sources/index.ts';
import { cronFault } from './cron.ts';
import {
  address,
  choice,
  count,
  credential,
  matching,
  percent,
  proxy,
  type Setting,
  usually,
  type ValuesOf,
} from './setting-types.ts';

/** The token protects the whole page, so it must be hard to guess. */
const webToken = matching(
  /^[\x21-\x7e]{16,}$/,
  'must be 16 characters or more, printable and without spaces',
).optional();

/** An address of PostgreSQL or Redis, refused with the part that is wrong. */
const connection = (read: (text: string) => Read<unknown>) =>
  z
    .string()
    .trim()
    .superRefine((value, ctx) => {
      const found = read(value);
      if ('wrong' in found) ctx.addIssue({ code: 'custom', message: found.wrong });
    });

const cron = z
  .string()
  .trim()
  .superRefine((value, ctx) => {
    const fault = value === '' ? undefined : cronFault(value);
    if (fault !== undefined) ctx.addIssue({ code: 'custom', message: fault });
  });

/** No offset, because PostgreSQL reads its sign the other way round. */
function isTimeZone(name: string): boolean {
  if (/^[+-]/.test(name)) return false;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }) !== undefined;
  } catch {
    return false;
  }
}

const freshness = streams.map(one => `${findStream(one.name) ? one.name : one.key}=${targetOf(one)}`).join(' ');
const unitMs: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Parses `tickets=5m users=26h` into milliseconds by stream. Throws Error for any other text. */
function targetsIn(text: string): Record<string, number> {
  const parts = text.split(/[\s,]+/).filter(part => part !== '');
  return Object.fromEntries(
    parts.map(part => {
      const [, stream, amount, unit] = /^([a-z_.]+)=([1-9]\d{0,5})([smhd])$/.exec(part) ?? [];
      if (stream === undefined)
        throw new Error(`must list streams and durations, such as tickets=5m (units s, m, h, d); ${part} is invalid`);
      return [stream, Number(amount) * unitMs[unit!]!];
    }),
  );
}

const usualTargets = targetsIn(freshness);

/** Targets of all streams. `isSet` is true only for a target that differs from its default. */
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

/** Field rules, checked against what the sources declare. */
const fieldRules = z.string().transform((text, ctx) => {
  try {
    const rules = parseRules(text, kinds);
    const wrong = wrongRule(kinds, rules);
    if (wrong === undefined) return rules;
    ctx.addIssue({ code: 'custom', message: wrong });
  } catch (error) {
    ctx.addIssue({ code: 'custom', message: (error as Error).message });
  }
  return z.NEVER;
});

const handingOff = ['nightly', 'sync', 'backfill', 'fresh'];

/** Kinds of runs, separated by spaces. */
const handOffRuns = z
  .string()
  .transform(text => [...new Set(text.split(/[\s,]+/).filter(part => part !== ''))])
  .refine(runs => runs.length > 0 && runs.every(run => handingOff.includes(run)), {
    error: `must list some of ${handingOff.join(', ')}`,
  });

/** A time of day, or a duration. */
const handOffDue = z.string().transform((text, ctx): { by: string } | { withinMs: number } => {
  if (/^([01]\d|2[0-3]):[0-5]\d$/.test(text)) return { by: text };
  const [, amount, unit] = /^([1-9]\d{0,4})([mhd])$/.exec(text) ?? [];
  const withinMs = Number(amount) * (unitMs[unit ?? ''] ?? Number.NaN);
  // While the last hand-off is kept.
  const longestDays = keptDays - 1;
  if (withinMs <= longestDays * unitMs.d!) return { withinMs };
  ctx.addIssue({
    code: 'custom',
    message: `must be a time of day such as 06:30, or a duration such as 26h, ${longestDays}d or less`,
  });
  return z.NEVER;
});

/** Settings of the whole process. */
const processSettings = {
  DATABASE_URL: {
    schema: connection(readDatabaseUrl).optional(),
    says: 'PostgreSQL of the warehouse, version 15 or newer. Without it: an embedded PostgreSQL in `.shelfdesk/`. Encryption: docs/how-to/use-tls.md.',
    secret: true,
  },
  REDIS_URL: {
    schema: connection(readRedisUrl).optional(),
    says: 'Redis for the job queue, encrypted with `rediss://`. Without it: the queue lives in PostgreSQL.',
    secret: true,
  },
  HTTPS_PROXY: {
    schema: proxy,
    says: 'Proxy for requests to https:// addresses of sources and webhooks, such as http://USER:PASSWORD@HOST:PORT. This machine itself is always reached directly.',
    secret: true,
    ofMachine: true,
  },
  HTTP_PROXY: {
    schema: proxy,
    says: 'The same for http:// addresses.',
    secret: true,
    ofMachine: true,
  },
  NO_PROXY: {
    schema: z.string().default(''),
    says: 'Hosts that are reached without a proxy, separated by commas: desk.example (with its subdomains), *.desk.example, desk.example:8443, 10.0.0.0/8, *.',
    ofMachine: true,
  },
  SHELFDESK_CONFIG: {
    schema: z.string().optional(),
    says: 'Path of a YAML file with several accounts (docs/how-to/many-accounts.md). If the plain variables name a source, they remain the account `default`.',
  },
  // Read before this table is made: environment.ts.
  SHELFDESK_SOURCES: {
    schema: z.string().optional(),
    says: 'Folder with sources of your own, one file each (docs/how-to/add-a-source.md).',
  },
  LAKE_S3_ENDPOINT: {
    schema: address.optional(),
    says: 'Server of the bucket of the lake, if it is not AWS (docs/how-to/keep-a-lake.md). HTTPS, with the same exceptions as for a source.',
  },
  LAKE_S3_REGION: {
    schema: matching(/^[\w-]+$/, 'must be the name of a region').optional(),
    says: 'Region of the bucket of the lake, such as eu-central-1.',
  },
  LAKE_S3_KEY_ID: {
    schema: credential,
    says: 'Access key of the bucket of the lake. Without it DuckDB takes credentials as the tools of AWS do.',
    secret: true,
  },
  LAKE_S3_SECRET: {
    schema: credential,
    says: 'Secret of that access key.',
    secret: true,
  },
  LAKE_EXTENSIONS: {
    schema: z.string().optional(),
    says: 'Folder with the extensions of DuckDB (ducklake, postgres_scanner, httpfs), for machines that cannot download them.',
  },
  SCHEDULE_LAKE: {
    ...usually('17 * * * *', cron),
    says: 'Schedule of the exports to the lake, in UTC, if it is on: a cron expression; empty: never.',
    emptyIsValue: true,
  },
} as const satisfies Record<string, Setting>;

/** Settings of an account that belong to no source. */
const accountSettings = {
  SWEEP_AGE_DAYS: {
    ...usually('7', count(1)),
    says: 'Highest age of a reading of tickets and customers: what is older is re-read at night for deletions and silent changes. SWEEP_SHARE_PERCENT re-reads sooner.',
  },
  SWEEP_SHARE_PERCENT: {
    ...usually('10', percent),
    says: 'Share of the credits for reading lists and details again, by day and by night, to find what the source does not announce. While other work is queued, sweeps have no more than this share.',
  },
  SWEEP_MOST_DELETED_PERCENT: {
    ...usually('20', percent),
    says: 'Highest share of the rows of a stream that the sweeps of a day may mark as deleted. Beyond it a sweep stops and asks for confirmation.',
  },
  SCHEDULE_FRESH: {
    ...usually('* * * * *', cron),
    says: 'Schedule of the incremental sync of customers and tickets: a cron expression of five fields, or six with seconds; empty: never.',
    emptyIsValue: true,
  },
  SCHEDULE_NIGHTLY: {
    ...usually('0 2 * * *', cron),
    says: 'Schedule of the nightly run, which reads all lists and sweeps due records; empty: never.',
    emptyIsValue: true,
  },
  SCHEDULE_TIME_ZONE: {
    ...usually('UTC', z.string().refine(isTimeZone, { error: 'is no time zone' })),
    says: 'Time zone of both schedules, such as Europe/Berlin. A local time that daylight saving removes is skipped that day.',
  },
  FRESHNESS_TARGETS: {
    ...usually(freshness, targets),
    says: 'Freshness targets: the highest lag of each stream (s, m, h, d). A stream that is not named keeps its default, which grows if SCHEDULE_FRESH or SCHEDULE_NIGHTLY runs less often.',
  },
  FIELD_RULES: {
    schema: fieldRules.default([]),
    says: 'Fields that never arrive, or only in part: messages.body (left out), contacts.value:hash, messages.from:domain, tickets.subject:truncate=40. Where two sources have a name, the source stands before it (docs/how-to/keep-less.md).',
  },
  FIELD_RULES_KEY: {
    schema: credential.refine(value => value === undefined || value.length >= 16, {
      error: 'must be 16 characters or more',
    }),
    says: 'Key of the hashes of FIELD_RULES. With another key, equal values have other hashes.',
    secret: true,
    onlyByReference: true,
  },
  NIGHTLY_WITHIN_HOURS: {
    ...usually('6', count(1)),
    says: 'Hours after its due time by which the nightly run must have ended.',
  },
  ALARM_WEBHOOK_URL: {
    schema: address.optional(),
    says: 'Webhook that receives alarms (docs/how-to/alarms.md). HTTPS, with the same exceptions. Without it no alarms are sent.',
    secret: true,
    onlyByReference: true,
  },
  ALARM_FORMAT: {
    ...usually('json', choice('json', 'slack')),
    says: 'Format of alarms: json, or slack for an incoming webhook of Slack.',
  },
  HANDOFF_WEBHOOK_URL: {
    schema: address.optional(),
    says: 'Webhook that is told when a load is complete, with a signed certificate (docs/how-to/hand-off.md). HTTPS, with the same exceptions.',
    secret: true,
    onlyByReference: true,
  },
  HANDOFF_SECRET: {
    schema: matching(
      /^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/,
      'must be whsec_ and 24 to 64 random bytes in base64',
    ).optional(),
    says: 'Key of the signatures of hand-offs: whsec_ and 24 to 64 random bytes in base64, as Standard Webhooks has it. Required for HANDOFF_WEBHOOK_URL.',
    secret: true,
    onlyByReference: true,
  },
  HANDOFF_COMMAND: {
    schema: z.string().trim().optional(),
    says: 'Command line that a worker runs in a shell for each hand-off, with the certificate on stdin. Exit code 0 takes the hand-off; else it is repeated.',
  },
  HANDOFF_NOTIFY: {
    schema: matching(/^[a-z_][a-z0-9_]{0,62}$/, 'must be a name of small letters, digits and _').optional(),
    says: 'Channel of PostgreSQL that is notified of each hand-off with its id, for sessions that LISTEN.',
  },
  HANDOFF_RUNS: {
    ...usually('nightly sync backfill', handOffRuns),
    says: `Kinds of runs that hand off when they are complete: ${handingOff.join(', ')}.`,
  },
  HANDOFF_REJECTS_ALLOWED: {
    ...usually('0', count(0)),
    says: 'Highest number of open rejects of a stream with which it still is handed off.',
  },
  HANDOFF_DUE: {
    schema: handOffDue.optional(),
    says: 'When a hand-off is late, which is an alarm: a time of day such as 06:30, by which it has come, in SCHEDULE_TIME_ZONE; or the longest time between two, such as 26h.',
  },
} as const satisfies Record<string, Setting>;

const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

/** Port of the page if no other is set. */
export const defaultPort = 8090;

/** Further settings of the whole process: its page, what it reads, and its log. */
const pageSettings = {
  SHELFDESK_WEB_PORT: {
    schema: count(0, 65_535).optional(),
    says: `Port of the web page. If set, \`start\` also serves the page; \`web\` always serves it, by default at ${defaultPort}.`,
  },
  SHELFDESK_WEB_HOST: {
    ...usually('127.0.0.1', matching(/^[\w.:-]+$/, 'must be an address or a name of this machine')),
    says: 'Address that the web page listens on. Any address other than this machine itself requires a token.',
  },
  SHELFDESK_WEB_TOKEN: {
    schema: webToken,
    says: 'Operator token for the web page, at least 16 characters. Without any token, everyone on this machine has operator access.',
    secret: true,
  },
  SHELFDESK_WEB_VIEWER_TOKEN: {
    schema: webToken,
    says: 'Viewer token for the web page: shows everything, allows no actions.',
    secret: true,
  },
  SHELFDESK_MCP: {
    ...usually('off', choice('off', 'masked', 'unmasked')),
    says: 'Whether the page answers agents at /mcp (docs/how-to/answer-agents.md): off, masked, or unmasked. Only operators see what is unmasked.',
  },
  SHELFDESK_MCP_SECONDS: {
    ...usually('4', count(1, 300)),
    says: 'Longest time in seconds for one question of an agent.',
  },
  SHELFDESK_MCP_ROWS: {
    ...usually('200', count(1)),
    says: 'Most rows in one answer to an agent.',
  },
  SHELFDESK_MCP_KILOBYTES: {
    ...usually('100', count(1, 10_000)),
    says: 'Most kilobytes of rows in one answer to an agent.',
  },
  SHELFDESK_REPLY_MEGABYTES: {
    ...usually('32', count(1)),
    says: 'Longest reply of a source, in megabytes after decompression. Reading ends there, and fewer records a page are asked for. A page of 100 tickets has less than one. A process needs eight times as much memory, and at least 512 MB.',
  },
  LOG_LEVEL: {
    ...usually('info', z.enum(logLevels)),
    says: `Lowest level that is logged to stderr: ${logLevels.join(', ')}. \`start\` logs lines for people at a terminal and JSON elsewhere.`,
  },
} as const satisfies Record<string, Setting>;

/** Settings that do not belong to a source. */
const ownSettings = { ...processSettings, ...accountSettings, ...pageSettings };

const ofProcess = (table: Readonly<Record<string, Setting>>) =>
  Object.fromEntries(Object.entries(table).map(([name, setting]) => [name, { ...setting, ofProcess: true }]));

/** All settings, including those of the sources. */
export const settings: Readonly<Record<string, Setting>> = {
  ...ofProcess(processSettings),
  ...Object.assign({}, ...sources.map(source => source.settings)),
  ...accountSettings,
  ...ofProcess(pageSettings),
};

/** The value of each setting, checked. */
export type Values = ValuesOf<typeof ownSettings> & Readonly<Record<string, unknown>>;
