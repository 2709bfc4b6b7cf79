import { expect, test } from 'vitest';
import { beginningAt, Clock } from '../src/clock.ts';
import { NOON } from './in-process.ts';

const HOUR = 3_600_000;

test('a clock that was set to the end of time, or before 1970, goes back from there', () => {
  const clock = new Clock(() => NOON);
  clock.jump(1e15);
  expect(new Date(clock.now()).toISOString()).toBe('9999-12-31T23:59:59.000Z');
  clock.jump(-HOUR);
  expect(new Date(clock.now()).toISOString()).toBe('9999-12-31T22:59:59.000Z');
  clock.jump(-1e15);
  clock.jump(HOUR);
  expect([clock.now(), clock.steady()]).toEqual([HOUR, NOON]);
});

test('the clock of Date is ahead of the one that stamps records, and jumps with it', () => {
  const clock = new Clock(() => NOON);
  clock.jumpDate(180_000);
  clock.jump(-HOUR);
  expect([clock.now() - NOON, clock.date() - NOON]).toEqual([-HOUR, 180_000 - HOUR]);
});

test('a time was reached when the clock showed it, or when it jumped over it', () => {
  const given = { ms: NOON };
  const clock = new Clock(() => given.ms);
  given.ms += HOUR;
  clock.jump(10 * HOUR);
  given.ms += HOUR;
  const reached = (hours: number) => (clock.reached(NOON + hours * HOUR) - NOON) / HOUR;
  expect([5, 11, 11.5, 12].map(reached)).toEqual([1, 1, 1.5, 2]);
});

test('a clock begins at a time, stands until it is started, and runs on as the given one', () => {
  const given = { ms: NOON };
  const clock = beginningAt(HOUR, () => given.ms);
  given.ms += 5;
  expect(clock.now()).toBe(HOUR);
  clock.start();
  given.ms += 7;
  expect(clock.now()).toBe(HOUR + 7);
});
