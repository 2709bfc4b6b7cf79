/** When the schedule is due: against a model that asks node-cron about one time after the other. */

import fc from 'fast-check';
import { createTask, parse, validate } from 'node-cron';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { nextSlots, type Timetable, timetables } from '../../src/engine/queue/schedule.ts';
import { streams } from '../../src/sources/index.ts';
import { draws } from '../support/long.ts';

const secondMs = 1000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;

const timetable = (cron: string, timeZone = 'UTC'): Timetable =>
  timetables({ fresh: '', nightly: cron, timeZone }, streams)[0]!;

/** The last due time as ISO text, looked for at `now`. */
function lastDue(cron: string, timeZone: string, now: string, after = 0): string | undefined {
  const slot = timetable(cron, timeZone).lastDue(Date.parse(now), after);
  return slot === undefined ? undefined : iso(slot);
}

const iso = (ms: number) => new Date(ms).toISOString().replace('.000Z', 'Z');

/** Every slot in `(from, to]`, found as a replica finds them that looks once at each of them. */
function allDue(cron: string, timeZone: string, from: string, to: string): string[] {
  const { lastDue } = timetable(cron, timeZone);
  const slots: string[] = [];
  for (let nowMs = Date.parse(to); ; nowMs -= 1) {
    const slot = lastDue(nowMs, Date.parse(from));
    if (slot === undefined) return slots.reverse();
    slots.push(iso(slot));
    nowMs = slot;
  }
}

describe('against a model that tries every time', () => {
  const number = (min: number, max: number) => fc.integer({ min, max });
  const field = (min: number, max: number) =>
    fc.oneof(
      { weight: 3, arbitrary: fc.constant('*') },
      { weight: 3, arbitrary: number(min, max).map(String) },
      number(2, 7).map(step => `*/${step}`),
      fc.tuple(number(min, max), number(min, max)).map(ends => ends.toSorted((a, b) => a - b).join('-')),
      fc
        .tuple(number(min, max), number(min, max), number(1, 5))
        .map(([a, b, step]) => `${Math.min(a, b)}-${Math.max(a, b)}/${step}`),
      fc.array(number(min, max), { minLength: 2, maxLength: 4 }).map(list => list.join(',')),
    );
  const mostly = (other: fc.Arbitrary<string>) =>
    fc.oneof({ weight: 6, arbitrary: fc.constant('*') }, { weight: 1, arbitrary: other });
  const minute = field(0, 59);
  const hour = field(0, 23);
  const days = [
    mostly(fc.oneof(field(1, 31), fc.constant('L'))),
    mostly(field(1, 12)),
    mostly(fc.oneof(field(0, 7), fc.constant('MON-FRI'))),
  ] as const;
  const ofFive = fc.tuple(minute, hour, ...days).map(fields => fields.join(' '));
  const ofSix = fc.tuple(field(0, 59), minute, mostly(hour), ...days).map(fields => fields.join(' '));

  const zone = fc.constantFrom('UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe');
  /** Of 2026, in all of these zones. */
  const changes = ['03-29T01', '10-25T01', '03-08T07', '11-01T06', '04-04T15', '10-03T15:30'].map(at =>
    Date.parse(`2026-${at.includes(':') ? at : `${at}:00`}Z`),
  );
  const now = fc.oneof(
    number(Date.UTC(2024, 0), Date.UTC(2028, 0)),
    fc.tuple(fc.constantFrom(...changes), number(-hourMs, 4 * hourMs)).map(([at, off]) => at + off),
  );

  /** The clocks were put back not long before, and it was as late by them then. */
  function isRepeated(slotMs: number, timeZone: string): boolean {
    const shown = (ms: number) => new Date(ms).toLocaleString('sv-SE', { timeZone });
    return [30, 60].some(minutes => shown(slotMs) === shown(slotMs - minutes * minuteMs));
  }

  function model(cron: string, timeZone: string, stepMs: number, nowMs: number, afterMs: number): number | undefined {
    const task = createTask(cron, () => {}, { timezone: timeZone });
    const anyHour = new Set(parse(cron).hour).size === 24;
    try {
      for (let ms = Math.floor(nowMs / stepMs) * stepMs; ms > afterMs; ms -= stepMs) {
        if (task.match(new Date(ms)) && (anyHour || !isRepeated(ms, timeZone))) return ms;
      }
      return undefined;
    } finally {
      void task.destroy();
    }
  }

  const agrees = (crons: fc.Arbitrary<string>, stepMs: number, longestMs: number) =>
    fc.property(crons, zone, now, number(1, longestMs), (cron, timeZone, nowMs, agoMs) => {
      fc.pre(validate(cron));
      expect(timetable(cron, timeZone).lastDue(nowMs, nowMs - agoMs)).toBe(
        model(cron, timeZone, stepMs, nowMs, nowMs - agoMs),
      );
    });

  test('five fields: the latest full minute in the last day and a half', () => {
    fc.assert(agrees(ofFive, minuteMs, 36 * hourMs), draws(90));
  });

  test('six fields: the latest second in the last ten minutes', () => {
    fc.assert(agrees(ofSix, secondMs, 10 * minuteMs), draws(150));
  });
});

describe('the bounds', () => {
  test('a slot is due at its own moment, not before, and not after it has been looked at', () => {
    const { lastDue } = timetable('0 2 * * *');
    const slot = Date.UTC(2026, 5, 2, 2);
    expect(lastDue(slot - 1, slot - hourMs)).toBeUndefined();
    expect(lastDue(slot, slot - 1)).toBe(slot);
    expect(lastDue(slot + 999, slot - 1)).toBe(slot);
    expect(lastDue(slot + hourMs, slot)).toBeUndefined();
  });

  test('of several missed ones the last', () => {
    expect(lastDue('0 2 * * *', 'UTC', '2026-06-10T01:59:59Z', Date.UTC(2026, 5, 1, 2))).toBe('2026-06-09T02:00:00Z');
  });

  test('32 days back, which is any month, and no further', () => {
    expect(lastDue('0 0 1 * *', 'UTC', '2026-08-31T23:59:59Z')).toBe('2026-08-01T00:00:00Z');
    expect(lastDue('0 0 1 1 *', 'UTC', '2026-02-01T23:59:00Z')).toBe('2026-01-01T00:00:00Z');
    expect(lastDue('0 0 1 1 *', 'UTC', '2026-02-03T00:00:00Z')).toBeUndefined();
    expect(lastDue('0 2 * * *', 'UTC', '2026-06-10T12:00:00Z', Date.UTC(2024, 0))).toBe('2026-06-10T02:00:00Z');
  });

  test('a field of seconds does not make looking back sixty times as long', () => {
    const asked = vi.fn<(date: Date) => void>();
    const rare = timetable('* * * 29 2 *');
    const { match } = rare.task;
    rare.task.match = date => {
      asked(date);
      return match.call(rare.task, date);
    };
    expect(rare.lastDue(Date.UTC(2026, 5, 30), 0)).toBeUndefined();
    expect(asked.mock.calls.length).toBeLessThan(33 * 24 * 60);
  });
});

describe('daylight saving', () => {
  describe.for([
    // The clocks are put back from 03:00 to 02:00 there, and from 02:00 to 01:00 here.
    { timeZone: 'Europe/Berlin', hour: 2, first: '2026-10-25T00', second: '2026-10-25T01', next: '2026-10-26T01' },
    { timeZone: 'America/New_York', hour: 1, first: '2026-11-01T05', second: '2026-11-01T06', next: '2026-11-02T06' },
  ])('in autumn in $timeZone', ({ timeZone, hour, first, second, next }) => {
    const from = `${first}:00:00Z`;
    const start = Date.parse(from);

    test('an hour that comes twice is due the first time it comes', () => {
      expect(allDue(`0 ${hour} * * *`, timeZone, iso(start - 1), `${next}:00:00Z`)).toEqual([
        `${first}:00:00Z`,
        `${next}:00:00Z`,
      ]);
      expect(allDue(`15,45 ${hour} * * *`, timeZone, from, `${second}:59:59Z`)).toEqual([
        `${first}:15:00Z`,
        `${first}:45:00Z`,
      ]);
      expect(allDue(`30 59 ${hour} * * *`, timeZone, from, `${second}:59:59Z`)).toEqual([`${first}:59:30Z`]);
    });

    test('what is due in every hour is due in both', () => {
      expect(allDue('* * * * *', timeZone, iso(start - 1), `${second}:59:59Z`)).toEqual(
        Array.from({ length: 120 }, (_, i) => iso(start + i * minuteMs)),
      );
      for (const everyHour of ['*', '*/1', '0-23', '0-12,13-23', '*,5', '0-23,1']) {
        expect([everyHour, ...allDue(`30 ${everyHour} * * *`, timeZone, from, `${second}:59:59Z`)]).toEqual([
          everyHour,
          `${first}:30:00Z`,
          `${second}:30:00Z`,
        ]);
      }
    });
  });

  test('where clocks are put back by half an hour, too, nothing is due twice', () => {
    // From 02:00 to 01:30: 01:45 is at 14:45 and at 15:15.
    expect(allDue('45 1 * * *', 'Australia/Lord_Howe', '2026-04-04T12:00:00Z', '2026-04-04T20:00:00Z')).toEqual([
      '2026-04-04T14:45:00Z',
    ]);
  });
});

describe('nextSlots', () => {
  afterEach(() => vi.useRealTimers());

  /** The next slots, asked for at `now`. */
  function nextAt(now: string, cron: string, timeZone = 'UTC', count = 3): string[] {
    vi.useFakeTimers({ now: new Date(now), toFake: ['Date'] });
    return nextSlots(timetable(cron, timeZone), count, Date.parse(now)).map(slot => iso(slot.getTime()));
  }

  test('the next ones, none of them now', () => {
    expect(nextAt('2026-06-10T02:00:00Z', '0 2 * * *')).toEqual([
      '2026-06-11T02:00:00Z',
      '2026-06-12T02:00:00Z',
      '2026-06-13T02:00:00Z',
    ]);
    expect(nextAt('2026-06-10T11:59:58.500Z', '* * * * * *')).toEqual([
      '2026-06-10T11:59:59Z',
      '2026-06-10T12:00:00Z',
      '2026-06-10T12:00:01Z',
    ]);
    expect(nextAt('2026-06-10T11:59:58Z', '* * * * *', 'Asia/Kolkata', 1)).toEqual(['2026-06-10T12:00:00Z']);
  });

  test('years away', () => {
    expect(nextAt('2026-06-10T00:00:00Z', '0 0 29 2 *')).toEqual([
      '2028-02-29T00:00:00Z',
      '2032-02-29T00:00:00Z',
      '2036-02-29T00:00:00Z',
    ]);
  });

  test('in spring a local time that does not exist is not among them', () => {
    expect(nextAt('2026-03-28T12:00:00Z', '30 2 * * *', 'Europe/Berlin', 2)).toEqual([
      '2026-03-30T00:30:00Z',
      '2026-03-31T00:30:00Z',
    ]);
  });

  test.for([
    ['2026-10-24T12:00:00Z', '0 2 * * *', 'Europe/Berlin', '2026-10-25T00:00:00Z', '2026-10-26T01:00:00Z'],
    ['2026-10-25T00:30:00Z', '0 2 * * *', 'Europe/Berlin', '2026-10-26T01:00:00Z', '2026-10-27T01:00:00Z'],
    ['2026-06-10T00:00:00Z', '0 2 25 10 *', 'Europe/Berlin', '2026-10-25T00:00:00Z', '2027-10-25T00:00:00Z'],
    ['2026-10-25T00:30:00Z', '0 * * * *', 'Europe/Berlin', '2026-10-25T01:00:00Z', '2026-10-25T02:00:00Z'],
    ['2026-10-25T01:30:00Z', '* * * * *', 'Europe/Berlin', '2026-10-25T01:31:00Z', '2026-10-25T01:32:00Z'],
    ['2026-11-01T04:00:00Z', '0 1 * * *', 'America/New_York', '2026-11-01T05:00:00Z', '2026-11-02T06:00:00Z'],
    ['2026-11-01T05:30:00Z', '0 * * * *', 'America/New_York', '2026-11-01T06:00:00Z', '2026-11-01T07:00:00Z'],
  ])('in autumn, at %s: %s in %s', ([now, cron, timeZone, ...next]) => {
    expect(nextAt(now!, cron!, timeZone, 2)).toEqual(next);
  });
});

describe('timetables', () => {
  test('the nightly one goes first, and an empty one is none', () => {
    const names = (fresh: string, nightly: string) =>
      timetables({ fresh, nightly, timeZone: 'UTC' }, streams).map(({ plan, expression }) => [
        plan.schedule,
        expression,
      ]);
    expect(names('* * * * *', '0 2 * * *')).toEqual([
      ['nightly', '0 2 * * *'],
      ['fresh', '* * * * *'],
    ]);
    expect(names('', '0 2 * * *')).toEqual([['nightly', '0 2 * * *']]);
    expect(names('', '')).toEqual([]);
  });
});
