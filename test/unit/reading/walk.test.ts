import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Fatal } from '../../../src/errors.ts';
import { walkList } from '../../../src/reading/walk.ts';
import { checkComplete, type Drive, drive, Mirror } from './drive.ts';
import { type Change, ModelList, type ModelOptions, type Second, start } from './model.ts';
import { from, holdsWhileMoving } from './properties.ts';
import { depth, layout, miscounted, perPage, runs } from './scenario.ts';

const quiet: ModelOptions = { inclusive: false, ties: 'change', depth, layout: [], ageMs: 400_000, hidden: true };
const options = { lookbackMs: 120_000, perPage, depth };

function given(model: Partial<ModelOptions>): Drive {
  const list = new ModelList({ ...quiet, ...model });
  return { list, mirror: new Mirror(), read: walkList, from, options, freely: true };
}

const remove = (pick: number, skip: number): Change => ({ kind: 'delete', pick, skip, count: 1, lateMs: 0 });
const create = (count: number, skip: number): Change => ({ kind: 'create', pick: 0, skip, count, lateMs: 0 });
const one = (gap = 5): Second => ({ gap, count: 1 });
const many = (count: number): Second[] => Array.from({ length: count }, () => one(1));

describe('properties', () => {
  test('whatever is created and deleted and whenever it dies, nothing is claimed that is not there', () => {
    fc.assert(holdsWhileMoving(walkList, { freely: true }), runs(1500));
  });

  test('only seconds with more records than paging reaches leave a hole, wherever it dies, and all else is there', () => {
    const deaths = fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 4 });
    fc.assert(
      fc.property(
        layout,
        fc.boolean(),
        fc.boolean(),
        fc.boolean(),
        miscounted,
        deaths,
        (seconds, inclusive, capped, firstLoad, wrong, at) => {
          const run = given({ layout: seconds, inclusive, capped, miscounted: wrong });
          const begun = { ...run, options: { ...options, firstLoad } };
          for (const dieAt of at) drive({ ...begun, dieAt });
          drive({ ...begun, most: 1000 });
          checkComplete(run);
          const crowds = [...Map.groupBy(run.list.truth(), ({ time }) => time)].filter(
            ([, { length }]) => length > depth,
          );
          for (const [time] of crowds) expect(run.mirror.covers(time)).toBe(false);
          for (const hole of run.mirror.holes) {
            expect(hole.to - hole.from).toBeLessThanOrEqual(2000);
            expect(crowds.some(([time]) => hole.from - 1000 <= time && time < hole.to)).toBe(true);
          }
        },
      ),
      runs(1000),
    );
  });
});

describe.each([{ inclusive: false }, { inclusive: true }])('since_created_at, inclusive: $inclusive', how => {
  test('a list of one page costs one request', () => {
    const run = given({ ...how, layout: many(4) });
    expect(drive(run)).toMatchObject({ requests: 1, credits: 1 });
    expect(run.mirror.covered).toEqual([{ from, to: start - 121_000 }]);
  });

  test('a longer one is counted and walked from the last page to the first, and proves nothing before its end', () => {
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

  test('a first load is counted with its first page', () => {
    const run = given({ ...how, layout: many(13) });
    const { credits } = drive({ ...run, options: { ...options, firstLoad: true } });
    expect(run.list.asked.map(({ page, count }) => `${page}${count ? '+' : ''}`)).toEqual(['1+', '3', '2', '1']);
    expect(credits).toBe(5);
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

  test('a last page that is full costs the empty one behind it, which shows that the list ends', () => {
    const run = given({ ...how, layout: many(15) });
    drive(run);
    expect(run.list.asked.slice(2).map(({ page }) => page)).toEqual([4, 3, 2, 1]);
  });

  test('a count that is far too small hides neither what paging reaches nor what it does not', () => {
    const run = given({ ...how, layout: many(180), miscounted: -180 });
    drive(run);
    checkComplete(run);
    expect(run.mirror.holes).toEqual([]);
  });

  test('a walk that died on its way to the end is begun anew', () => {
    const run = given({ ...how, layout: many(23), miscounted: -23 });
    drive({ ...run, dieAt: 5 });
    expect(run.mirror.walk).toBeUndefined();
    drive(run);
    checkComplete(run);
  });

  test('deletions move records towards pages that are still to come', () => {
    const run = given({ ...how, layout: many(40), changes: Array.from({ length: 9 }, (_, i) => remove(i, i ? 3 : 8)) });
    drive(run);
    checkComplete(run);
  });

  test('what is created during a walk is read by the next run', () => {
    const run = given({ ...how, layout: many(23), changes: [create(3, 9), create(4, 3)] });
    drive(run);
    run.list.settle(120_000);
    drive(run);
    checkComplete(run);
    expect(run.mirror.rows.size).toBe(30);
  });

  test('a walk goes on at the page at which it died, and then reads what was created since', () => {
    const run = given({ ...how, layout: many(23) });
    drive({ ...run, dieAt: 5 });
    expect(run.mirror.walk).toMatchObject({ page: 3, deep: false });
    run.list.add();
    run.list.settle(120_000);
    const before = run.list.asked.length;
    drive(run);
    expect(run.list.asked.slice(before).map(({ page }) => page)).toEqual([3, 2, 1, 1]);
    checkComplete(run);
    expect(run.mirror.covered).toEqual([{ from, to: run.list.now - 121_000 }]);
  });

  test.each([{ capped: true }, { capped: false }])('more than paging reaches takes several walks: %o', count => {
    const run = given({ ...how, ...count, layout: many(180) });
    drive(run);
    checkComplete(run);
    expect(run.mirror.holes).toEqual([]);
    expect(run.list.asked.some(({ page }) => page * perPage === depth)).toBe(true);
  });

  test('a crowd that paging reaches is no hole, not even for a walk that died on its last page', () => {
    const all = given({ ...how, layout: [{ gap: 1, count: 30 }, ...many(40)] });
    const run = { ...all, from: all.list.truth()[0]!.time };
    drive({ ...run, dieAt: 13 }); // The first probe: page 1 was committed.
    expect(run.mirror.walk).toMatchObject({ page: 1, deep: true });
    drive(run);
    checkComplete(run);
    expect(run.mirror.holes).toEqual([]);
  });

  test('a second with more than paging reaches is a hole that is not claimed, and what is behind it is read', () => {
    const run = given({ ...how, layout: [one(), { gap: 5, count: depth + 1 }, one(), one()] });
    drive(run);
    checkComplete(run);
    const crowd = run.list.truth()[1]!.time;
    expect(run.mirror.holes).toHaveLength(1);
    expect(run.mirror.inHole(crowd)).toBe(true);
    expect(run.mirror.covers(crowd)).toBe(false);
    expect(run.mirror.covered.at(-1)!.to).toBe(start - 121_000);
  });

  test('a crowd at the very beginning is not claimed either', () => {
    const run = given({ ...how, layout: [{ gap: 5, count: depth + 1 }, one()] });
    const crowd = run.list.truth()[0]!.time;
    drive({ ...run, from: crowd });
    expect(run.mirror.covers(crowd)).toBe(false);
  });
});

test('wherever it dies between two holes, neither is claimed', () => {
  const crowd = { gap: 1, count: depth + 1 };
  for (let dieAt = 1; dieAt < 80; dieAt++) {
    const run = given({ layout: [crowd, { gap: 1, count: 4 }, crowd, one(), one()] });
    drive({ ...run, dieAt });
    drive(run); // Throws on a claim to what is not there, and on a gap.
    checkComplete(run);
    const [first, , last] = [...new Set(run.list.truth().map(({ time }) => time))];
    expect([first, last].map(time => run.mirror.covers(time!))).toEqual([false, false]);
  }
});

test('without a Total-Count it fails and says so', () => {
  const run = given({ layout: many(9) });
  const answer = run.list.answer.bind(run.list);
  run.list.answer = ask => ({ ...answer(ask), total: undefined });
  expect(() => drive(run)).toThrow(Fatal);
});
