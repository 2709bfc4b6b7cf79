/**
 * Tests that take long: most show on another queue, world, size or seed what a shorter one shows as well, or in whole processes
 * what others show of the parts. They run where CI is set; elsewhere the run says at its end how many did not (see not-run.ts).
 */
import type {} from 'vitest';

declare module 'vitest' {
  interface TaskMeta {
    /** Not run, because it takes long and CI is not set. */
    lacksTime?: boolean;
  }
}

/** For `test` and `describe`: `test('…', long, () => …)`. */
export const long: { readonly skip?: true; readonly meta?: { readonly lacksTime: true } } = process.env.CI
  ? {}
  : { skip: true, meta: { lacksTime: true } };

/** How many cases of a property are drawn: a third where CI is not set. */
export const draws = (numRuns: number): { numRuns: number } => ({
  numRuns: process.env.CI ? numRuns : Math.ceil(numRuns / 3),
});
