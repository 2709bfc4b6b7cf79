/**
 * Tests that take long: most show on another queue, world, size or seed what a shorter one shows as well, or in whole processes
 * what others show of the parts. They run where CI is set. What takes minutes runs at night and before a release, with PROVE (`npm
 * run prove`). A run says at its end how many did not (see not-run.ts).
 */
import type {} from 'vitest';

declare module 'vitest' {
  interface TaskMeta {
    /** Not run, because it takes long and CI is not set. */
    lacksTime?: boolean;
    /** Not run, because it takes minutes and PROVE is not set. */
    lacksNight?: boolean;
  }
}

interface When {
  readonly skip?: true;
  readonly meta?: { readonly lacksTime: true } | { readonly lacksNight: true };
}

const { CI, PROVE } = process.env;

/** For `test` and `describe`: `test('…', long, () => …)`. */
export const long: When = CI || PROVE ? {} : { skip: true, meta: { lacksTime: true } };

/** For a test that takes minutes of what a slice shows within seconds. */
export const proof: When = PROVE ? {} : { skip: true, meta: { lacksNight: true } };

/** How much of something is tried: with PROVE, where CI is set, and where people work. */
export const amount = (whole: number, inCi: number, here = inCi): number => (PROVE ? whole : CI ? inCi : here);

/** How many cases of a property are drawn: a third where neither is set. */
export const draws = (numRuns: number): { numRuns: number } => ({
  numRuns: amount(numRuns, numRuns, Math.ceil(numRuns / 3)),
});
