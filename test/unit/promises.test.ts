/** What is promised follows from what was set, and from how often the schedule reads it. */
import { describe, expect, test } from 'vitest';
import { readConfig } from '../../src/app/config.ts';
import { promisesOf } from '../../src/app/freshness-targets.ts';
import { nameOfKey } from '../../src/engine/database/stream-key.ts';
import { longestPauseMs } from '../../src/engine/queue/longest-pause.ts';
import { streamNames } from '../../src/sources/index.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

describe('the longest pause of a schedule', () => {
  test.for([
    ['* * * * *', minute],
    ['*/10 * * * * *', minute],
    ['*/5 * * * *', 5 * minute],
    ['0 * * * *', hour],
    ['5,10 * * * *', 55 * minute],
    ['0 2 * * *', day],
    ['*/5 8-18 * * *', 13 * hour + 5 * minute],
    ['0 2 * * MON-FRI', 3 * day],
    ['0 2 * * 7', 7 * day],
    ['0 2 1 * *', 31 * day],
    ['0 2 L * *', 31 * day],
    ['0 2 1 1 *', 365 * day],
  ] as const)('%s', ([expression, ms]) => {
    expect(longestPauseMs(expression)).toBe(ms);
  });

  test('an empty one is never due', () => {
    expect(longestPauseMs('')).toBeUndefined();
  });
});

const source = { HELPDESK_BASE_URL: 'https://desk.example/api/v1', HELPDESK_TOKEN: 'x' };
const books = { BOOKS_BASE_URL: 'https://books.example/books/v1', BOOKS_USERS: 'ada' };
const promised = (environment: Record<string, string>) =>
  Object.fromEntries(
    promisesOf(readConfig('/nowhere', environment)).map(({ subject, ms }) => [nameOfKey(subject), ms / minute]),
  );

describe('what is promised', () => {
  const desk = { users: 26 * 60, customers: 5, tickets: 5, messages: 15, nightly: 360 };
  test.for<[string, Record<string, string>, Record<string, number>]>([
    ['by default', {}, desk],
    ['of both sources', books, { ...desk, shelves: 26 * 60, volumes: 26 * 60 }],
    [
      'where it comes once an hour',
      { SCHEDULE_FRESH: '0 * * * *' },
      { ...desk, customers: 64, tickets: 64, messages: 74 },
    ],
    [
      'where only the night reads',
      { SCHEDULE_FRESH: '' },
      { ...desk, customers: 24 * 60 + 4, tickets: 24 * 60 + 4, messages: 24 * 60 + 14 },
    ],
    ['of nights that come on work days', { SCHEDULE_NIGHTLY: '0 2 * * 1-5' }, { ...desk, users: 74 * 60 }],
    ['where nothing is ever read', { SCHEDULE_FRESH: '', SCHEDULE_NIGHTLY: '' }, {}],
    [
      'what was set is promised as it is',
      { SCHEDULE_FRESH: '', SCHEDULE_NIGHTLY: '', FRESHNESS_TARGETS: 'tickets=10m', NIGHTLY_WITHIN_HOURS: '2' },
      { tickets: 10 },
    ],
    ['of the night', { NIGHTLY_WITHIN_HOURS: '2' }, { ...desk, nightly: 120 }],
  ])('%s', ([, environment, expected]) => {
    expect(promised({ ...source, ...environment })).toEqual(expected);
  });

  test('there is one for each stream', () => {
    expect(Object.keys(readConfig('/nowhere', {}).promises.targets).sort()).toEqual([...streamNames].sort());
  });

  test.for([
    ['tickets=5', /FRESHNESS_TARGETS must list streams and durations.*tickets=5 is invalid/],
    ['tickets=5m 7', /7 is invalid/],
    ['tickets=0m', /tickets=0m is invalid/],
    ['tockets=5m', /names tockets, which is no stream \(users, customers, tickets/],
    ['toString=5m', /toString=5m is invalid|toString/],
  ] as const)('%s is refused', ([value, says]) => {
    expect(() => readConfig('/nowhere', { FRESHNESS_TARGETS: value })).toThrow(says);
  });
});
