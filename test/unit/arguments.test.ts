/** Numbers on the command line. */
import { expect, test } from 'vitest';
import { parseCount, parseNumber } from '../../src/cli/arguments.ts';

test('a number has up to fifteen digits, as that of a run may', () => {
  expect(['1', '1000000000', '999999999999999'].map(parseCount)).toEqual([1, 1_000_000_000, 999_999_999_999_999]);
});

test.each(['0', '', '-1', '1.5', '1e3', 'ten', '1000000000000000'])('%o is no number of something', text => {
  expect(() => parseCount(text)).toThrow('It must be a number, 1 or more.');
});

test('a number has the bounds that are given', () => {
  const port = parseNumber('a port, 0 to 65535', { least: 0, most: 65_535 });
  expect(['0', '65535'].map(port)).toEqual([0, 65_535]);
  expect(() => port('65536')).toThrow('It must be a port, 0 to 65535.');
});
