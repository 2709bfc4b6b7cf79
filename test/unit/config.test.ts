import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { readConfig } from '../../src/app/config.ts';
import { settings } from '../../src/app/settings.ts';
import { exitCodes, UsageError } from '../../src/errors.ts';
import { kinds } from '../../src/sources/index.ts';

/** A folder with this `.env`, or without one. */
async function folderWith(env?: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'shelfdesk-config-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  if (env !== undefined) await writeFile(join(folder, '.env'), env);
  return folder;
}

const nowhere = join(tmpdir(), 'shelfdesk-config-nowhere');
const read = (environment: Record<string, string>) => readConfig(nowhere, environment);

function refusal(environment: Record<string, string>, folder = nowhere): UsageError {
  try {
    readConfig(folder, environment);
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return error as UsageError;
  }
  throw new Error('it was accepted');
}

const usually = {
  tickets: { ms: 300_000, isSet: false },
  messages: { ms: 900_000, isSet: false },
  customers: { ms: 300_000, isSet: false },
  users: { ms: 93_600_000, isSet: false },
  shelves: { ms: 93_600_000, isSet: false },
  volumes: { ms: 93_600_000, isSet: false },
};

const helpdesk = { HELPDESK_BASE_URL: 'https://desk.example/api/v1', HELPDESK_TOKEN: 'hush-hush' };

describe('what is given', () => {
  test('nothing: the defaults', () => {
    expect(read({})).toEqual({
      account: 'default',
      databaseUrl: undefined,
      redisUrl: undefined,
      proxies: { http: undefined, https: undefined, none: '' },
      replyBytes: 32_000_000,
      helpdesk: undefined,
      limits: { credits: 100, periodMs: 60_000, requestsPerSecond: 6, reserve: 10, sweepShare: 0.1 },
      sinceMs: 0,
      lookbackMs: 120_000,
      sweep: { ageMs: 604_800_000, mostDeleted: 0.2, share: 0.1 },
      audit: { perHour: 50, againMs: undefined },
      books: undefined,
      schedule: { fresh: '* * * * *', nightly: '0 2 * * *', timeZone: 'UTC' },
      promises: { targets: usually, nightlyMs: 21_600_000 },
      alarm: undefined,
      handOff: undefined,
      logLevel: 'info',
    });
  });

  test('everything', () => {
    const all = {
      ...helpdesk,
      DATABASE_URL: 'postgresql://u:p@db.example/warehouse',
      REDIS_URL: 'rediss://cache.example:6380/1',
      SHELFDESK_CONFIG: 'fleet.yml',
      SHELFDESK_SOURCES: 'sources',
      LAKE_S3_ENDPOINT: 'https://bucket.example',
      LAKE_S3_REGION: 'eu-central-1',
      LAKE_S3_KEY_ID: 'hush-key',
      LAKE_S3_SECRET: 'hush-bucket-hush',
      LAKE_EXTENSIONS: '/srv/extensions',
      SCHEDULE_LAKE: '5 * * * *',
      HELPDESK_CREDITS: '400',
      HELPDESK_PERIOD_SECONDS: '30',
      HELPDESK_REQUESTS_PER_SECOND: '12',
      HELPDESK_RESERVE: '0',
      HELPDESK_SINCE: '2024-01-01T02:00:00+02:00',
      HELPDESK_LOOKBACK_SECONDS: '0',
      SCHEDULE_FRESH: '*/10 * * * * *',
      SCHEDULE_NIGHTLY: ' 30  3 * * MON-FRI ',
      SCHEDULE_TIME_ZONE: 'Europe/Berlin',
      LOG_LEVEL: 'debug',
      SHELFDESK_WEB_PORT: '8091',
      SHELFDESK_WEB_HOST: '::1',
      SHELFDESK_WEB_TOKEN: 'hush-operators-hush',
      SHELFDESK_WEB_VIEWER_TOKEN: 'hush-viewers-hush',
      SWEEP_AGE_DAYS: '1',
      SWEEP_SHARE_PERCENT: '30',
      SWEEP_MOST_DELETED_PERCENT: '100',
      AUDIT_TICKETS_PER_HOUR: '0',
      MESSAGES_AGE_DAYS: '30',
      BOOKS_BASE_URL: 'https://books.example/books/v1/',
      BOOKS_USERS: 'ada, ben  ada,,cem',
      BOOKS_API_KEY: 'hush-key',
      BOOKS_CLIENT_ID: 'client',
      BOOKS_CLIENT_SECRET: 'hush-client',
      BOOKS_REFRESH_TOKEN: 'hush-refresh',
      BOOKS_TOKEN_URL: 'http://localhost:4011/token',
      BOOKS_LIBRARY: 'true',
      BOOKS_COUNTRY: 'de',
      BOOKS_REQUESTS_PER_DAY: '500',
      BOOKS_REQUESTS_PER_SECOND: '2',
      BOOKS_SHELF_AGE_HOURS: '24',
      BOOKS_VOLUME_AGE_DAYS: '7',
      BOOKS_AUDIT_VOLUMES_PER_HOUR: '7',
      FRESHNESS_TARGETS: 'tickets=90s, users=2d volumes=26h',
      NIGHTLY_WITHIN_HOURS: '8',
      ALARM_WEBHOOK_URL: 'https://hooks.example/services/hush',
      ALARM_FORMAT: 'slack',
      HANDOFF_WEBHOOK_URL: 'https://hooks.example/done/hush',
      HANDOFF_SECRET: `whsec_${'hush'.repeat(8)}`,
      HANDOFF_COMMAND: ' dbt build ',
      HANDOFF_NOTIFY: 'load_done',
      HANDOFF_RUNS: 'sync, fresh sync',
      HANDOFF_REJECTS_ALLOWED: '3',
      HANDOFF_DUE: '06:30',
      FIELD_RULES: 'messages.body, contacts.value:hash',
      FIELD_RULES_KEY: 'hush-hush-hush-hush',
      SHELFDESK_MCP: 'masked',
      SHELFDESK_MCP_SECONDS: '9',
      SHELFDESK_MCP_ROWS: '50',
      SHELFDESK_MCP_KILOBYTES: '30',
      HTTPS_PROXY: 'http://proxy.example:3128',
      HTTP_PROXY: 'http://u:hush@proxy.example:3129',
      NO_PROXY: 'desk.example',
      SHELFDESK_REPLY_MEGABYTES: '16',
    };
    // A token that lasts is set instead of what gets one.
    expect([...Object.keys(all), 'BOOKS_ACCESS_TOKEN'].sort()).toEqual(Object.keys(settings).sort());
    expect(read(all)).toEqual({
      account: 'default',
      databaseUrl: all.DATABASE_URL,
      redisUrl: all.REDIS_URL,
      proxies: {
        https: new URL('http://proxy.example:3128'),
        http: new URL('http://u:hush@proxy.example:3129'),
        none: 'desk.example',
      },
      replyBytes: 16_000_000,
      helpdesk: { baseUrl: new URL('https://desk.example/api/v1'), token: 'hush-hush' },
      limits: { credits: 400, periodMs: 30_000, requestsPerSecond: 12, reserve: 0, sweepShare: 0.3 },
      sinceMs: Date.UTC(2024, 0, 1),
      lookbackMs: 0,
      sweep: { ageMs: 86_400_000, mostDeleted: 1, share: 0.3 },
      audit: { perHour: 0, againMs: 2_592_000_000 },
      books: {
        baseUrl: new URL('https://books.example/books/v1'),
        apiKey: 'hush-key',
        refresh: {
          clientId: 'client',
          clientSecret: 'hush-client',
          refreshToken: 'hush-refresh',
          tokenUrl: new URL('http://localhost:4011/token'),
        },
        users: ['ada', 'ben', 'cem'],
        library: true,
        country: 'DE',
        limits: { credits: 500, periodMs: 86_400_000, requestsPerSecond: 2, reserve: 0 },
        shelfAgeMs: 86_400_000,
        volumeAgeMs: 604_800_000,
        auditVolumesPerHour: 7,
      },
      schedule: { fresh: '*/10 * * * * *', nightly: '30  3 * * MON-FRI', timeZone: 'Europe/Berlin' },
      promises: {
        targets: { ...usually, tickets: { ms: 90_000, isSet: true }, users: { ms: 172_800_000, isSet: true } },
        nightlyMs: 28_800_000,
      },
      alarm: { url: new URL('https://hooks.example/services/hush'), format: 'slack' },
      handOff: {
        webhook: { url: new URL('https://hooks.example/done/hush'), secret: `whsec_${'hush'.repeat(8)}` },
        ...{ command: 'dbt build', notify: 'load_done', runs: ['sync', 'fresh'], rejectsAllowed: 3 },
        due: { by: '06:30' },
      },
      fieldRules: {
        kinds,
        rules: [
          {
            ...{ kind: 'helpdesk.messages', path: ['body'], action: { name: 'leave out' }, whole: false },
            ...{ written: 'messages.body', full: 'helpdesk.messages.body' },
          },
          {
            ...{ kind: 'helpdesk.contacts', path: ['value'], action: { name: 'hash' }, whole: false },
            ...{ written: 'contacts.value:hash', full: 'helpdesk.contacts.value:hash' },
          },
        ],
        key: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
      logLevel: 'debug',
    });
  });

  test('an empty value is none, and what is no setting is nothing to us', () => {
    expect(read({ DATABASE_URL: '', HELPDESK_CREDITS: '', HELPDESK_COLOUR: 'blue' })).toEqual(read({}));
  });

  test('an empty schedule is one that is switched off; an empty time zone is none', () => {
    expect(read({ SCHEDULE_FRESH: '' }).schedule).toEqual({ fresh: '', nightly: '0 2 * * *', timeZone: 'UTC' });
    expect(read({ SCHEDULE_NIGHTLY: '' }).schedule).toEqual({ fresh: '* * * * *', nightly: '', timeZone: 'UTC' });
    expect(read({ SCHEDULE_NIGHTLY: '  ' }).schedule.nightly).toBe('');
    expect(read({ SCHEDULE_TIME_ZONE: '' }).schedule).toEqual(read({}).schedule);
  });

  test('a date alone is its midnight, UTC', () => {
    expect(read({ HELPDESK_SINCE: '2024-01-01' }).sinceMs).toBe(Date.UTC(2024, 0, 1));
  });

  test.for([
    ['messages.bdy', 'the nearest is messages.body'],
    ['mesages.body', 'which is none of tickets, messages'],
    ['tickets.updated_at', 'without which nothing can be mirrored'],
    ['tickets.number:hash', 'it can only be left out'],
    ['tickets.messages.body', 'write messages.body'],
    ['tickets', 'only messages, customers, users can be left out whole'],
    ['contacts.value:hash', 'FIELD_RULES_KEY is not set'],
  ])('field rules that cannot be followed are refused: %s', ([rules, why]) => {
    expect(refusal({ ...helpdesk, FIELD_RULES: rules! }).message).toContain(why);
  });

  test('each setting without a value has the default that it is documented with', () => {
    for (const [name, setting] of Object.entries(settings)) {
      if (!('default' in setting) || name === 'HELPDESK_SINCE') continue;
      expect([name, read({ [name]: setting.default })]).toEqual([name, read({})]);
    }
    expect(settings.HELPDESK_SINCE!.default).toBe('everything');
  });
});

describe('.env', () => {
  test('is read where there is one, and the environment goes before it', async () => {
    const folder = await folderWith('HELPDESK_CREDITS=200 # more\nLOG_LEVEL="info"\n\nOTHER=x\n');
    const config = readConfig(folder, { LOG_LEVEL: 'error' });
    expect([config.limits.credits, config.logLevel]).toEqual([200, 'error']);
  });

  test('a variable that is set to nothing does not hide it', async () => {
    const folder = await folderWith('HELPDESK_CREDITS=200\n');
    expect(readConfig(folder, { HELPDESK_CREDITS: '' }).limits.credits).toBe(200);
  });

  test('but a schedule that is set to nothing is off, whatever it says there; and there as well', async () => {
    const folder = await folderWith('SCHEDULE_FRESH=*/5 * * * *\nSCHEDULE_NIGHTLY=\n');
    expect(readConfig(folder, {}).schedule).toMatchObject({ fresh: '*/5 * * * *', nightly: '' });
    expect(readConfig(folder, { SCHEDULE_FRESH: '' }).schedule).toMatchObject({ fresh: '', nightly: '' });
    expect(readConfig(folder, { SCHEDULE_NIGHTLY: '0 4 * * *' }).schedule.nightly).toBe('0 4 * * *');
  });

  test('a wrong value in it is said to be there, and one in the environment is not', async () => {
    const folder = await folderWith('HELPDESK_CREDITS=many\n');
    expect(refusal({}, folder).remedy).toContain(`Change it in ${join(folder, '.env')}.`);
    expect(refusal({ HELPDESK_CREDITS: 'some' }, folder).remedy).toContain('Change it in the environment.');
  });
});

describe('a wrong value: which one, what is wrong with it, what to do', () => {
  test.for<[name: keyof typeof settings, value: string, message: string]>([
    ['DATABASE_URL', 'mysql://db.example/warehouse', 'begins with postgres://'],
    ['DATABASE_URL', 'warehouse', 'begins with postgres://'],
    ['REDIS_URL', 'http://cache.example', 'begins with redis://'],
    ['HELPDESK_BASE_URL', 'desk.example', 'is no url'],
    ['HELPDESK_BASE_URL', 'https://desk.example', 'must end in /api/v1'],
    ['HELPDESK_BASE_URL', 'https://desk.example/api/v2', 'must end in /api/v1'],
    ['HELPDESK_BASE_URL', 'https://desk.example/api/v1?x=y', 'must end in /api/v1'],
    ['HELPDESK_BASE_URL', 'ftp://desk.example/api/v1', 'must begin with https://'],
    ['HELPDESK_TOKEN', 'two words', 'must be printable text without spaces'],
    ['HELPDESK_TOKEN', 'line\nbreak', 'must be printable text without spaces'],
    ['HELPDESK_CREDITS', '0', 'must be a whole number, 1 or more (it is "0")'],
    ['HELPDESK_CREDITS', '1e3', 'must be a whole number, 1 or more'],
    ['HELPDESK_CREDITS', '99999999999999999999', 'must be a whole number'],
    ['HELPDESK_PERIOD_SECONDS', '-60', 'must be a whole number, 1 or more (it is "-60")'],
    ['HELPDESK_REQUESTS_PER_SECOND', '6.5', 'must be a whole number'],
    ['HELPDESK_RESERVE', 'ten', 'must be a whole number, 0 or more (it is "ten")'],
    ['HELPDESK_SINCE', 'yesterday', '(it is "yesterday")'],
    ['HELPDESK_SINCE', '2024-02-31', '(it is "2024-02-31")'],
    ['HELPDESK_LOOKBACK_SECONDS', 'two minutes', 'must be a whole number, 0 or more'],
    [
      'SCHEDULE_FRESH',
      'every minute',
      'must have five fields (minute, hour, day of month, month, weekday), or six with seconds first, or be empty (it is "every minute")',
    ],
    ['BOOKS_BASE_URL', 'https://books.example/api/v1', 'must end in /books/v1'],
    ['BOOKS_BASE_URL', 'http://books.example/books/v1', 'must begin with https://'],
    ['BOOKS_TOKEN_URL', 'http://books.example/token', 'must begin with https://'],
    ['BOOKS_API_KEY', 'two words', 'must be printable text without spaces'],
    ['BOOKS_USERS', 'ada,mylibrary', 'must not name mylibrary'],
    ['BOOKS_USERS', 'ada ..', 'must be ids of users (it is "ada ..")'],
    ['BOOKS_LIBRARY', 'yes', 'must be true or false (it is "yes")'],
    ['BOOKS_COUNTRY', 'Germany', 'must be a country of two letters (it is "Germany")'],
    ['BOOKS_REQUESTS_PER_DAY', '0', 'must be a whole number, 1 or more'],
    ['BOOKS_SHELF_AGE_HOURS', '0', 'must be a whole number, 1 or more'],
    ['SCHEDULE_FRESH', '* * * *', 'must have five fields (minute,'],
    ['SCHEDULE_FRESH', '* * * * * * *', 'must have five fields (minute,'],
    ['SCHEDULE_NIGHTLY', '@daily', 'must have five fields (minute,'],
    [
      'SCHEDULE_FRESH',
      '*/0 * * * *',
      'has the minute */0: allowed are 0 to 59, *, a list (1,4), a range (1-4), a step (*/2)',
    ],
    ['SCHEDULE_FRESH', 'a * * * *', 'has the minute a: allowed are 0 to 59, *,'],
    ['SCHEDULE_FRESH', '60 * * * * *', 'has the second 60: allowed are 0 to 59, *,'],
    ['SCHEDULE_NIGHTLY', '60 2 * * *', 'has the minute 60: allowed are 0 to 59, *,'],
    ['SCHEDULE_NIGHTLY', '0 24 * * *', 'has the hour 24: allowed are 0 to 23, *,'],
    ['SCHEDULE_NIGHTLY', '0 2 32 * *', 'has the day of month 32: allowed are 1 to 31, *,'],
    ['SCHEDULE_NIGHTLY', '0 2 * foo *', 'has the month foo: allowed are 1 to 12 or JAN-DEC, *,'],
    ['SCHEDULE_NIGHTLY', '0 2 * * 8', 'has the weekday 8: allowed are 0 to 7 or SUN-SAT, *,'],
    ['SCHEDULE_FRESH', '5-1 * * * *', 'has the minute 5-1: a range cannot go backwards; write 5-59,0-1'],
    ['SCHEDULE_NIGHTLY', '0 22-6 * * *', 'has the hour 22-6: a range cannot go backwards; write 22-23,0-6'],
    ['SCHEDULE_NIGHTLY', '0 2 * * FRI-MON', 'a range cannot go backwards; write FRI,SAT,SUN,MON'],
    ['SCHEDULE_FRESH', '*/70 * * * *', 'has the minute */70: a step there is at most 59'],
    ['SCHEDULE_FRESH', '0,10-20/30 * * * *', 'has the minute 0,10-20/30: a step there is at most 10'],
    ['SCHEDULE_NIGHTLY', '0 2 30 2 *', 'is never due: no such day is in a month of it (day 30, month 2)'],
    ['SCHEDULE_NIGHTLY', '0 2 31 4,6 *', 'is never due: no such day is in a month of it (day 31, month 4,6)'],
    ['SCHEDULE_NIGHTLY', '0 2 L-30 2 *', 'is never due'],
    ['SCHEDULE_NIGHTLY', '0 2 31W 4 *', 'is never due'],
    ['SCHEDULE_NIGHTLY', '0 2 * * 7-1', 'a range cannot go backwards; write 0-1'],
    ['SCHEDULE_NIGHTLY', '50-10/5 * * * *', 'a range cannot go backwards; write two, each with its step'],
    ['SCHEDULE_NIGHTLY', '0\t2 * * *', 'has a tab or a line break between its fields: write blanks'],
    ['SCHEDULE_LAKE', '5-1 * * * *', 'a range cannot go backwards'],
    ['SCHEDULE_TIME_ZONE', 'Europe/Atlantis', 'is no time zone (it is "Europe/Atlantis")'],
    ['LOG_LEVEL', 'loud', '"trace"|"debug"|"info"|"warn"|"error"|"fatal"|"silent" (it is "loud")'],
  ])('%s=%s', ([name, value, message]) => {
    const error = refusal({ ...helpdesk, [name]: value });
    expect(error.exitCode).toBe(exitCodes.usage);
    expect(error.message.startsWith(`${name} `)).toBe(true);
    expect(error.message.toLowerCase()).toContain(message.toLowerCase());
    expect(error.remedy).toBe(`Change it in the environment. ${settings[name]!.says}`);
  });

  test('a reserve that leaves less than one ticket with its messages may cost', () => {
    const error = refusal({ HELPDESK_CREDITS: '20', HELPDESK_RESERVE: '17' });
    expect(error.message).toContain('HELPDESK_RESERVE (17) leaves less than 4 of HELPDESK_CREDITS (20)');
    expect([error.remedy, error.exitCode]).toEqual(['Lower HELPDESK_RESERVE.', exitCodes.usage]);
    expect(read({ HELPDESK_CREDITS: '20', HELPDESK_RESERVE: '16' }).limits.reserve).toBe(16);
  });

  test.for([
    ['HELPDESK_TOKEN', 'HELPDESK_BASE_URL'],
    ['HELPDESK_BASE_URL', 'HELPDESK_TOKEN'],
  ] as const)('%s without %s', ([given, missing]) => {
    const error = refusal({ [given]: helpdesk[given] });
    expect(error.message).toBe(`${missing} is not set`);
    expect(error.remedy).toBe(`Set ${missing} as well, in the environment or in ${join(nowhere, '.env')}.`);
  });
});

describe('the book catalog', () => {
  const catalog = { BOOKS_BASE_URL: 'https://books.example/books/v1' };
  const triple = { BOOKS_CLIENT_ID: 'id', BOOKS_CLIENT_SECRET: 'secret', BOOKS_REFRESH_TOKEN: 'refresh' };

  test('what mirrors nobody, or contradicts itself, is refused, and the remedy names what to set', () => {
    const cases: [given: Record<string, string>, message: string, remedy: string][] = [
      [{ BOOKS_USERS: 'ada' }, 'BOOKS_USERS is set, but BOOKS_BASE_URL is not', 'Set BOOKS_BASE_URL as well'],
      [{ BOOKS_API_KEY: 'key' }, 'BOOKS_API_KEY is set, but BOOKS_BASE_URL is not', 'Set BOOKS_BASE_URL as well'],
      [triple, 'BOOKS_CLIENT_ID is set, but BOOKS_BASE_URL is not', 'Set BOOKS_BASE_URL as well'],
      [catalog, 'BOOKS_BASE_URL is set, but there is nothing to mirror', 'Set BOOKS_USERS'],
      [{ ...catalog, BOOKS_API_KEY: 'key' }, 'there is nothing to mirror', 'Set BOOKS_USERS'],
      [{ ...catalog, BOOKS_ACCESS_TOKEN: 'token', BOOKS_LIBRARY: 'false' }, 'nothing to mirror', 'BOOKS_LIBRARY=true'],
      [{ ...catalog, ...triple, BOOKS_ACCESS_TOKEN: 'token' }, 'are both set', 'Set one of them'],
      [
        { ...catalog, BOOKS_USERS: 'ada', BOOKS_CLIENT_ID: 'id' },
        'BOOKS_CLIENT_ID is set, but BOOKS_CLIENT_SECRET and BOOKS_REFRESH_TOKEN are not',
        'Set all three (BOOKS_CLIENT_ID, BOOKS_CLIENT_SECRET, BOOKS_REFRESH_TOKEN) or none',
      ],
    ];
    for (const [given, message, remedy] of cases) {
      const error = refusal(given);
      expect(error.message).toContain(message);
      expect(error.remedy).toContain(remedy);
    }
  });

  test('users need neither key nor token, a token needs no users, and the library can be left out', () => {
    const limits = { credits: 1000, periodMs: 86_400_000, requestsPerSecond: 5, reserve: 0 };
    const rest = {
      baseUrl: new URL(catalog.BOOKS_BASE_URL),
      limits,
      shelfAgeMs: 604_800_000,
      volumeAgeMs: 2_592_000_000,
      auditVolumesPerHour: 5,
    };
    expect(read({ ...catalog, BOOKS_USERS: 'ada' }).books).toEqual({ ...rest, users: ['ada'], library: false });
    const own = { ...catalog, BOOKS_ACCESS_TOKEN: 'token' };
    expect(read(own).books).toEqual({ ...rest, accessToken: 'token', users: [], library: true });
    const others = { ...own, BOOKS_USERS: 'ada', BOOKS_LIBRARY: 'false' };
    expect(read(others).books).toEqual({ ...rest, accessToken: 'token', users: ['ada'], library: false });
  });
});

describe('HTTPS, except to this machine itself and to names without a dot', () => {
  test.for([
    'https://desk.example/api/v1',
    'https://desk.example/some/where/api/v1/',
    'http://localhost:4010/api/v1',
    'http://127.0.0.1:4010/api/v1',
    'http://127.1.2.3/api/v1',
    'http://[::1]:4010/api/v1',
    'http://sandbox:8080/api/v1',
    'http://help-desk_2/api/v1',
  ])('%s is taken', url => {
    const { baseUrl } = read({ ...helpdesk, HELPDESK_BASE_URL: url }).helpdesk!;
    expect(baseUrl.href).toBe(url.replace(/\/$/, ''));
  });

  test.for([
    'http://desk.example/api/v1',
    'http://localhost.desk.example/api/v1',
    'http://127.0.0.1.desk.example/api/v1',
    'http://10.0.0.1/api/v1',
    'http://[::2]/api/v1',
    'http://sandbox./api/v1',
    'http://desk.local/api/v1',
    'http://167772161/api/v1', // 10.0.0.1 in one number
    'http://[fd00::1]/api/v1',
  ])('%s is not', url => {
    expect(refusal({ ...helpdesk, HELPDESK_BASE_URL: url }).message).toContain('must begin with https://');
  });
});

describe('a secret is never shown', () => {
  test.for<[name: string, value: string]>([
    ['DATABASE_URL', 'mysql://u:hush-hush@db.example/warehouse'],
    ['DATABASE_URL', 'hush-hush'],
    ['REDIS_URL', 'http://:hush-hush@cache.example'],
    ['HELPDESK_TOKEN', 'hush hush-hush'],
    ['HELPDESK_BASE_URL', 'https://u:hush-hush@desk.example/api/v1'],
    ['HELPDESK_BASE_URL', 'http://u:hush-hush@desk.example/api/v2'],
    ['HELPDESK_BASE_URL', 'https://desk.example/api/v1?key=hush-hush'],
    ['HELPDESK_BASE_URL', 'hush-hush'],
    ['HELPDESK_BASE_URL', 'https://desk.example/api/v1#hush-hush'],
  ])('%s=%s', ([name, value]) => {
    const error = refusal({ ...helpdesk, [name]: value });
    expect(error.message).toContain(name);
    expect(inspect(error, { depth: 9 })).not.toContain('hush-hush');
  });

  test('a wrong value beside it does not bring it out either', () => {
    expect(inspect(refusal({ ...helpdesk, LOG_LEVEL: 'loud' }), { depth: 9 })).not.toContain('hush-hush');
  });

  test('settings that may carry one are marked as secret', () => {
    const secret = Object.entries(settings).filter(([, setting]) => 'secret' in setting && setting.secret);
    expect(secret.map(([name]) => name)).toEqual([
      'DATABASE_URL',
      'REDIS_URL',
      'HTTPS_PROXY',
      'HTTP_PROXY',
      'LAKE_S3_KEY_ID',
      'LAKE_S3_SECRET',
      'HELPDESK_BASE_URL',
      'HELPDESK_TOKEN',
      'BOOKS_BASE_URL',
      'BOOKS_API_KEY',
      'BOOKS_ACCESS_TOKEN',
      'BOOKS_CLIENT_SECRET',
      'BOOKS_REFRESH_TOKEN',
      'BOOKS_TOKEN_URL',
      'FIELD_RULES_KEY',
      'ALARM_WEBHOOK_URL',
      'HANDOFF_WEBHOOK_URL',
      'HANDOFF_SECRET',
      'SHELFDESK_WEB_TOKEN',
      'SHELFDESK_WEB_VIEWER_TOKEN',
    ]);
  });
});
