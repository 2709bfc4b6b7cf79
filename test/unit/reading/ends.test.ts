/** Sources that answer fewer records than they are asked for, though others follow. */
import fc from 'fast-check';
import { describe, test } from 'vitest';
import { readMovingList } from '../../../src/engine/reading/moving-list.ts';
import { walkList } from '../../../src/engine/reading/page-walk.ts';
import type { Ends, Reader } from '../../../src/engine/reading/reading.ts';
import { checkComplete, type Drive, drive } from './drive.ts';
import type { ModelOptions } from './model.ts';
import { given } from './properties.ts';
import { depth, perPage, runs, scenario } from './scenario.ts';

/** Which records are taken out of the pages: each n-th one, and all of a run. */
const taken = fc.record({
  each: fc.integer({ min: 2, max: 9 }),
  first: fc.nat({ max: 40 }),
  many: fc.nat({ max: 14 }),
});
const pageCap = fc.integer({ min: 3, max: perPage - 1 });
/** Where Total-Count leaves out what is taken out, it does not tell of pages that are empty one after the other. */
const some = fc.record({ each: fc.integer({ min: 2, max: 9 }), first: fc.constant(0), many: fc.constant(0) });
const short = fc.oneof(
  fc.record({ pageCap }),
  fc.record({ taken }),
  fc.record({ taken: some, countsShown: fc.constant(true) }),
  fc.record({ pageCap, taken }),
);
type Short = typeof short extends fc.Arbitrary<infer S> ? S : never;

const modelOf = (how: Short): Partial<ModelOptions> => {
  if (!('taken' in how)) return how;
  const { each, first, many } = how.taken;
  const isTaken = (n: number) => n % each === 0 || (n >= first && n < first + many);
  return { ...how, taken: id => isTaken(Number(id.slice(1))) };
};

/** Runs that begin where the one before ended, while the records move; then a quiet one. */
function losesNothing(read: Reader, ends: (how: Short) => Ends) {
  const hidden = read === (walkList as Reader);
  return fc.property(scenario(['change', 'id'], { hidden, capped: false, miscounted: 0 }), short, (case_, how) => {
    const happens = case_.model.changes!.filter(({ kind }) => !hidden || kind === 'create' || kind === 'delete');
    // Records that are taken out hide the time at which a walk beyond the depth may go on.
    const reach = hidden ? 1000 : depth;
    const model = { ...case_.model, ...modelOf(how), changes: happens, depth: reach };
    const run: Drive = {
      ...given(read, { model, options: { ...case_.options, depth: reach, ends: ends(how) } }),
      ...{ most: 2000, freely: true },
    };
    drive(run);
    run.list.now += 10_000;
    drive(run);
    run.list.settle(case_.options.lookbackMs);
    drive(run);
    checkComplete(run);
  });
}

const readers = [
  { name: 'a moving list', read: readMovingList as Reader },
  { name: 'a walk', read: walkList as Reader },
];

describe.each(readers)('$name', ({ read }) => {
  test('of short pages loses nothing where each end is doubted', () => {
    fc.assert(
      losesNothing(read, () => ({ counts: true, doubt: 'always' })),
      runs(300),
    );
  });

  test('of pages known to vary loses nothing', () => {
    fc.assert(
      losesNothing(read, how => ({ counts: true, size: 'pageCap' in how ? how.pageCap : perPage, varies: true })),
      runs(300),
    );
  });
});
