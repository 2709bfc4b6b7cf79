/** The clock of the process. */
import { expect, test } from 'vitest';
import { systemClock } from '../../src/clock.ts';

test('a sleep never ends early: a request that asks too early for credits waits once more', async () => {
  const early = await Promise.all(
    Array.from({ length: 200 }, async (_, i) => {
      const ms = 1 + i / 7;
      const begunMs = systemClock.monotonic();
      await systemClock.sleep(ms);
      return systemClock.monotonic() - begunMs < ms;
    }),
  );
  expect(early).not.toContain(true);
});
