import { expect, test } from 'vitest';
import { amount, count } from '../../src/words.ts';

test('one of them is named in the singular, and no others', () => {
  expect([0, 1, 2, 1234, 1_000_000].map(n => count(n, 'credit'))).toEqual([
    '0 credits',
    '1 credit',
    '2 credits',
    '1,234 credits',
    '1,000,000 credits',
  ]);
  expect([1, 2].map(n => count(n, 'reject is', 'rejects are'))).toEqual(['1 reject is', '2 rejects are']);
  expect([0, 999, 1000, -1234].map(amount)).toEqual(['0', '999', '1,000', '-1,234']);
});
