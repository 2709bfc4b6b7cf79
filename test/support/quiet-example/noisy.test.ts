/** Run by test/integration/quiet.test.ts alone. */
import { expect, test } from 'vitest';

test('passes', () => {
  console.log('console of a test that passes');
  process.stdout.write('stdout of a test that passes\n');
  process.stderr.write('stderr of a test that passes\n');
});

test('fails', () => {
  process.stderr.write('stderr of a test that fails\n');
  expect(1).toBe(2);
});

test('is not run', { skip: true, meta: { lacksTime: true } }, () => {});
