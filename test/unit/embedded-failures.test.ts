/** What people are told when the embedded server cannot start. */
import { expect, test } from 'vitest';
import { failed } from '../../src/embedded/cluster.ts';

test('a full disk is named as such; other errors are shown in the words of PostgreSQL', () => {
  const full = 'FATAL:  could not write to file "pg_wal/xlogtemp.7": No space left on device\nLOG:  shutting down';
  expect(failed('PostgreSQL in here does not start', { code: 1, output: full })).toMatchObject({
    message: 'PostgreSQL in here does not start: its disk is full',
    remedy: expect.stringMatching(/^Free space on that disk/),
  });
  const other = failed('PostgreSQL in here does not start', { code: 1, output: 'FATAL:  bogus value' });
  expect(other.message).toContain('FATAL:  bogus value');
});
