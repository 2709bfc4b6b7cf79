/** `source test` holds the name of a header against its declaration only where the name means one thing. */
import { expect, test } from 'vitest';
import { headersOf, misread } from '../../src/source-test/gate.ts';
import { perHour, rateOf } from '../../src/sources/service/limits.ts';

const found = (remaining: string, resets: string) => {
  const limits = [perHour(9, { remaining, resets })];
  return misread(limits, headersOf(limits, { rate: header => rateOf(limits[0]!, header, 9) }));
};

test.each([
  ['X-Left', 'X-Seconds-Left'],
  ['X-RateLimit-Remaining', 'X-Time-Remaining'],
  ['X-Unused', 'X-RateLimit-Reset'],
  ['X-Rate-Limit', 'X-Until'],
])('%s and %s are what they are declared as', (remaining, resets) => {
  expect(found(remaining, resets)).toEqual([]);
});

test.each(['X-Limit', 'X-RateLimit-Limit', 'X-Used', 'X-RateLimit-Reset'])('%s is not what is left', name => {
  expect(found(name, 'X-Until')).toHaveLength(1);
});
