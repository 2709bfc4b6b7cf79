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
    expect(run.mirror.gaps).toEqual([]);
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
    expect(run.mirror.gaps).toEqual([]);
    expect(run.list.asked.some(({ page }) => page * perPage === depth)).toBe(true);
  });

  test('a second with more than paging reaches is a gap that is not claimed, and what is behind it is read', () => {
    const run = given({ ...how, layout: [one(), { gap: 5, count: depth + 1 }, one(), one()] });
    drive(run);
    checkComplete(run);
    const tie = run.list.truth()[1]!.time;
    expect(run.mirror.gaps).toHaveLength(1);
    expect(run.mirror.inGap(tie)).toBe(true);
    expect(run.mirror.covers(tie)).toBe(false);
    expect(run.mirror.covered.at(-1)!.to).toBe(start - 121_000);
  });

  /** From the n-th record to before the m-th. */
  const part = (run: Drive, n: number, m: number): Drive => {
    const [wanted, until] = [n, m].map(i => run.list.truth()[i]!.time);
    return { ...run, from: wanted!, options: { ...run.options, until } };
  };
  /** What was asked: a page of the part, what is beyond it, a count. */
  const asked = ({ list, options: { until } }: Drive) =>
    list.asked.map(ask => (ask.since === until ? 'beyond' : ask.perPage === 0 ? 'count' : ask.page));

  test('a part begins at the page that shows what is beyond it, and is walked to the first', () => {
    const run = part(given({ ...how, layout: many(60) }), 20, 33);
    const { credits, proofs } = drive(run);
    expect(asked(run)).toEqual([1, 'beyond', 'count', 3, 2, 1]);
    expect(credits).toBe(8);
    expect(proofs.map(({ covered }) => covered !== undefined)).toEqual([false, false, false, false, false, true]);
    expect(run.mirror.covered).toEqual([{ from: run.from, to: run.options.until }]);
    expect(run.mirror.rows.size).toBeLessThanOrEqual(15 + 5);
    expect(drive(run).requests).toBe(0);
  });

  test.each([
    { miscounted: [100, 0], pages: [2, 3, 2, 1] },
    { miscounted: [0, -6], pages: [2, 3, 2, 1] },
    { miscounted: [-5, 0], pages: [4, 3, 2, 1] },
    { miscounted: [0, 100], pages: [10, 9, 8, 7, 6, 5, 4, 3, 2, 1] },
  ])('counts that are wrong by $miscounted only say where to look for the end', ({ miscounted: wrong, pages }) => {
    const run = part(given({ ...how, layout: many(60), miscounted: wrong }), 20, 33);
    drive(run);
    expect(asked(run).slice(3)).toEqual(pages);
    expect(run.mirror.covered).toEqual([{ from: run.from, to: run.options.until }]);
  });

  test('a part with more than paging reaches takes several walks', () => {
    const run = part(given({ ...how, layout: many(250) }), 20, 170);
    drive(run);
    expect(run.mirror.covered).toEqual([{ from: run.from, to: run.options.until }]);
    expect(run.mirror.gaps).toEqual([]);
    expect(run.mirror.rows.size).toBeLessThanOrEqual(150 + 4 * perPage);
    expect(run.list.asked.every(({ since }) => since! <= run.options.until!)).toBe(true);
  });

  test('a walk of a part goes on at its page, and the walk of another part is left alone', () => {
    const all = given({ ...how, layout: many(60) });
    const run = part(all, 20, 43);
    drive({ ...run, dieAt: 6 });
    expect(run.mirror.walk).toMatchObject({ page: 3, until: run.options.until });
    const { walk } = run.mirror;
    const before = run.list.asked.length;
    drive({ ...run, dieAt: 3 });
    expect(run.list.asked.slice(before).map(({ page }) => page)).toEqual([3, 2, 1]);
    for (const until of [undefined, run.options.until! - 1000, run.options.until! + 9000]) {
      const mirror = new Mirror();
      mirror.walk = walk;
      drive({ ...run, mirror, options: { ...options, until } }); // Throws where one is claimed that was not read.
      expect(mirror.covered).toHaveLength(1);
    }
  });

  test('of nothing, nothing is asked', () => {
    expect(drive(part(given({ ...how, layout: many(9) }), 3, 3)).requests).toBe(0);
  });
});

test('wherever it dies between two gaps, neither is claimed', () => {
  const tie = { gap: 1, count: depth + 1 };
  for (let dieAt = 1; dieAt < 80; dieAt++) {
    const run = given({ layout: [tie, { gap: 1, count: 4 }, tie, one(), one()] });
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
