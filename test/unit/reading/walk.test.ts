/** How a list is walked by pages, by examples: every-history/readers plays all histories of small ones. */
import { describe, expect, test } from 'vitest';
import { walkList } from '../../../src/engine/reading/page-walk.ts';
import { Fatal } from '../../../src/errors.ts';
import { checkComplete, type Drive, drive, Mirror } from './drive.ts';
import { ModelList, type ModelOptions, type Second, start } from './model.ts';
import { from } from './properties.ts';
import { depth, perPage } from './scenario.ts';

const quiet: ModelOptions = { inclusive: false, ties: 'change', depth, layout: [], ageMs: 400_000, hidden: true };
const options = { lookbackMs: 120_000, perPage, depth };

function given(model: Partial<ModelOptions>): Drive {
  const list = new ModelList({ ...quiet, ...model });
  return { list, mirror: new Mirror(), read: walkList, from, options, freely: true };
}

const one = (gap = 5): Second => ({ gap, count: 1 });
const many = (count: number): Second[] => Array.from({ length: count }, () => one(1));

describe.each([{ inclusive: false }, { inclusive: true }])('since_created_at, inclusive: $inclusive', how => {
  test('a list of several pages is counted, read from the last page to the first, and proves nothing before the end', () => {
    const run = given({ ...how, layout: many(13) });
    const { proofs } = drive(run);
    expect(run.list.asked.map(({ page, perPage: size }) => `${page}/${size}`)).toEqual([
      '1/5',
      '1/0',
      '3/5',
      '2/5',
      '1/5',
    ]);
    expect(proofs.map(({ covered }) => covered !== undefined)).toEqual([false, false, false, false, true]);
    expect(run.mirror.walk).toBeUndefined();
  });

  test.each([
    { counted: 0, pages: [1, 2, 3, 2, 1] },
    { counted: 4, pages: [1, 2, 3, 2, 1] },
    { counted: 5, pages: [2, 3, 2, 1] },
    { counted: 14, pages: [3, 2, 1] },
    { counted: 30, pages: [7, 6, 5, 4, 3, 2, 1] },
    { counted: 1000, pages: [10, 9, 8, 7, 6, 5, 4, 3, 2, 1] },
  ])('a count of $counted, where 13 are listed, only says where to look for the end', ({ counted, pages }) => {
    const run = given({ ...how, layout: many(13), miscounted: counted - 13 });
    drive(run); // Throws where one is claimed that was not read.
    checkComplete(run);
    expect(run.list.asked.slice(2).map(({ page }) => page)).toEqual(pages);
    expect(run.mirror.covered).toEqual([{ from, to: start - 121_000 }]);
  });

  test.each([{ capped: true }, { capped: false }])('more than paging reaches takes several walks: %o', count => {
    const run = given({ ...how, ...count, layout: many(180) });
    drive(run);
    checkComplete(run);
    expect(run.mirror.gaps).toEqual([]);
    expect(run.list.asked.some(({ page }) => page * perPage === depth)).toBe(true);
  });
});

test('without a Total-Count it fails and says so', () => {
  const run = given({ layout: many(9) });
  const answer = run.list.answer.bind(run.list);
  run.list.answer = ask => ({ ...answer(ask), total: undefined });
  expect(() => drive(run)).toThrow(Fatal);
});
