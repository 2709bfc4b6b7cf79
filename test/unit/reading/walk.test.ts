/** How a list is walked by pages, by examples: every-history/readers plays all histories of small ones. */
import { describe, expect, test } from 'vitest';
import { walkList } from '../../../src/engine/reading/page-walk.ts';
import { Fatal } from '../../../src/errors.ts';
import { checkComplete, type Drive, drive, Mirror } from './drive.ts';
import { type Change, ModelList, type ModelOptions, type Second, start } from './model.ts';
import { from } from './properties.ts';
import { depth, perPage } from './scenario.ts';

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
    expect(run.mirror.gaps).toEqual([]);
    expect(run.list.asked.some(({ page }) => page * perPage === depth)).toBe(true);
  });

  test('a tie that paging reaches is no gap, not even for a walk that died on its last page', () => {
    const all = given({ ...how, layout: [{ gap: 1, count: 30 }, ...many(40)] });
    const run = { ...all, from: all.list.truth()[0]!.time };
    drive({ ...run, dieAt: 13 }); // The first probe: page 1 was committed.
    expect(run.mirror.walk).toMatchObject({ page: 1, deep: true });
    drive(run);
    checkComplete(run);
    expect(run.mirror.gaps).toEqual([]);
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

  test('a tie at the very beginning is not claimed either', () => {
    const run = given({ ...how, layout: [{ gap: 5, count: depth + 1 }, one()] });
    const tie = run.list.truth()[0]!.time;
    drive({ ...run, from: tie });
    expect(run.mirror.covers(tie)).toBe(false);
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

  test('a part of one page is not counted', () => {
    const run = part(given({ ...how, layout: many(60) }), 20, 23);
    expect(drive(run)).toMatchObject({ requests: 2, credits: 3 });
    expect(run.mirror.covered).toEqual([{ from: run.from, to: run.options.until }]);
  });

  test('what is beyond the end is asked for by the end itself: one second early, the part would end in its tie', () => {
    // The second before the end begins on page 1 and goes on on page 2.
    const run = part(given({ ...how, layout: [one(), one(), { gap: 5, count: 6 }, { gap: 1, count: 9 }] }), 0, 8);
    drive(run); // Throws where one is claimed that was not read.
    expect(run.mirror.covered).toEqual([{ from: run.from, to: run.options.until }]);
    expect(run.mirror.rows.size).toBeGreaterThanOrEqual(8);
  });

  test('where nothing lies beyond, it is walked from the end of the list and claimed to the end of the part', () => {
    const run = given({ ...how, layout: many(13) });
    const until = start - 300_000;
    drive({ ...run, options: { ...options, until } });
    expect(run.list.asked.map(({ page, perPage: size }) => `${page}/${size}`)).toEqual([
      ...['1/5', '1/5', '1/0'],
      ...['3/5', '2/5', '1/5'],
    ]);
    expect(run.mirror.covered).toEqual([{ from, to: until }]);
  });

  test('a part that is too young is claimed as far as the lookback allows', () => {
    const run = given({ ...how, layout: many(13), ageMs: 0 });
    drive({ ...run, options: { ...options, until: start + 60_000 } });
    expect(run.mirror.covered).toEqual([{ from, to: start - 121_000 }]);
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

  test('counts that stop at the depth cost the pages twice', () => {
    const run = part(given({ ...how, layout: many(180), capped: true }), 20, 38);
    drive(run);
    expect(asked(run)).toEqual([1, 'beyond', 'count', 2, 3, 4, 3, 2, 1]);
  });

  test.each([0, 1, 2, 3, 4])('%i of the first records beyond that are deleted meanwhile change nothing', count => {
    const gone = Array.from({ length: count }, (_, i) => remove(33, i ? 0 : 8));
    const run = part(given({ ...how, layout: many(60), changes: gone }), 20, 33);
    drive(run);
    expect(asked(run)).toEqual([1, 'beyond', 'count', 3, 2, 1]);
  });

  test('where all of them are, it is walked from the end of the list', () => {
    const gone = Array.from({ length: perPage + 1 }, (_, i) => remove(33, i ? 0 : 8));
    const run = part(given({ ...how, layout: many(60), changes: gone }), 20, 33);
    drive(run);
    expect(Math.max(...run.list.asked.map(({ page }) => page))).toBeGreaterThan(5);
    expect(run.mirror.covered).toEqual([{ from: run.from, to: run.options.until }]);
  });

  test('deletions move records of a part towards pages that are still to come', () => {
    const gone = Array.from({ length: 9 }, (_, i) => remove(21, i ? 1 : 12));
    const run = part(given({ ...how, layout: many(80), changes: gone }), 20, 54);
    drive(run); // Throws where one is claimed that was not read.
    expect(run.mirror.covered).toEqual([{ from: run.from, to: run.options.until }]);
    expect(asked(run).filter(page => page === 7)).toHaveLength(1);
  });

  test('a part with more than paging reaches takes several walks', () => {
    const run = part(given({ ...how, layout: many(250) }), 20, 170);
    drive(run);
    expect(run.mirror.covered).toEqual([{ from: run.from, to: run.options.until }]);
    expect(run.mirror.gaps).toEqual([]);
    expect(run.mirror.rows.size).toBeLessThanOrEqual(150 + 4 * perPage);
    expect(run.list.asked.every(({ since }) => since! <= run.options.until!)).toBe(true);
  });

  test('a second deeper than paging, which is all that is wanted, is the gap that it was', () => {
    const tie = { gap: 1, count: depth + 1 };
    const run = part(given({ ...how, layout: [one(), tie, one(1), one(), ...many(9)] }), 1, 1 + depth + 1);
    drive(run);
    expect(run.mirror.gaps).toEqual([{ from: run.from, to: run.options.until, reason: expect.any(String) }]);
    expect(run.mirror.covered).toEqual([]);
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

  test('where others have covered the beginning of a part meanwhile, no gap before it is found', () => {
    const layout = [one(), { gap: 1, count: depth + 1 }, ...many(90)];
    const run = part(given({ ...how, layout }), 0, 120);
    drive({ ...run, dieAt: 8 });
    expect(run.mirror.walk).toBeDefined();
    const rest = { ...run, from: run.from + 30_000 };
    drive(rest); // Throws where a gap is said to be where nothing is wanted.
    expect(run.mirror.covered).toEqual([{ from: rest.from, to: run.options.until }]);
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

test('wherever it dies behind a gap with which it began, the gap is not claimed', () => {
  const layout = [{ gap: 1, count: depth + 1 }, { gap: 1, count: 30 }, ...many(9)];
  for (const bound of [2000, 9000, undefined]) {
    for (let dieAt = 1; dieAt < 40; dieAt++) {
      const all = given({ layout });
      const tie = all.list.truth()[0]!.time;
      const until = bound && tie + bound;
      const run = { ...all, from: tie, options: { ...options, until } };
      drive({ ...run, dieAt });
      drive(run);
      expect(run.mirror.covers(tie)).toBe(false);
      expect(run.mirror.covers(tie + 1000)).toBe(true);
    }
  }
});

test('without a Total-Count it fails and says so', () => {
  const run = given({ layout: many(9) });
  const answer = run.list.answer.bind(run.list);
  run.list.answer = ask => ({ ...answer(ask), total: undefined });
  expect(() => drive(run)).toThrow(Fatal);
});
