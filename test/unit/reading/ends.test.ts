/** Sources that answer fewer records than they are asked for, though others follow. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readNewest } from '../../../src/engine/reading/ends.ts';
import { readMovingList } from '../../../src/engine/reading/moving-list.ts';
import { walkList } from '../../../src/engine/reading/page-walk.ts';
import type { Ask, Ends, Reader, ReadingOptions } from '../../../src/engine/reading/reading.ts';
import { readWhole } from '../../../src/engine/reading/whole-list.ts';
import { sweep } from './creation.ts';
import { checkComplete, type Drive, drive, Mirror } from './drive.ts';
import { ModelList, type ModelOptions } from './model.ts';
import { from, given } from './properties.ts';
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
      runs(150),
    );
  });

  test('of pages known to vary loses nothing', () => {
    fc.assert(
      losesNothing(read, how => ({ counts: true, size: 'pageCap' in how ? how.pageCap : perPage, varies: true })),
      runs(150),
    );
  });
});

const quiet: ModelOptions = { inclusive: false, ties: 'id', depth: 1000, layout: [], ageMs: 400_000 };
const apart = (count: number) => Array.from({ length: count }, () => ({ gap: 5, count: 1 }));
const options = { lookbackMs: 1000, perPage: 20, depth: 1000 };
const runOn = (read: Reader, model: Partial<ModelOptions>, more: Partial<ReadingOptions>): Drive => {
  const list = new ModelList({ ...quiet, hidden: read === (walkList as Reader), ...model });
  return {
    list,
    mirror: new Mirror(),
    read,
    from,
    freely: true,
    options: { ...options, ends: { counts: true }, ...more },
  };
};

describe.each(readers)('$name whose pages are as long as they are asked to be', ({ read }) => {
  test('costs nothing more where few records came, and a look at the next page where a page is nearly full', () => {
    for (const count of [0, 1, 14]) expect(drive(runOn(read, { layout: apart(count) }, {})).credits).toBe(1);
    for (const count of [15, 19]) expect(drive(runOn(read, { layout: apart(count) }, {})).credits).toBe(2);
  });

  test('costs the count of its end at a first load', () => {
    for (const count of [0, 7, 19]) {
      const { requests, credits } = drive(runOn(read, { layout: apart(count) }, { firstLoad: true }));
      expect([requests, credits]).toEqual([1, 2]);
    }
  });

  test('is not taken for one with short pages where it grows between two requests', () => {
    const run = runOn(read, { layout: apart(18) }, {});
    const { answer } = run.list;
    run.list.answer = ask => {
      const page = answer.call(run.list, ask);
      if (ask.page === 1 && run.list.asked.length === 1) for (let i = 0; i < 5; i++) run.list.add();
      return page;
    };
    drive(run);
    expect(run.mirror.pages).toBeUndefined();
    run.list.settle(1000);
    drive(run);
    checkComplete(run);
  });
});

test('a look at the newest records costs a credit, and learns a cap', () => {
  const ends: Ends = { counts: true, doubt: 'always' };
  const whole = runOn(readNewest, { layout: apart(50) }, { ends });
  expect(drive(whole).credits).toBe(1);
  expect([whole.mirror.pages, whole.list.asked]).toEqual([undefined, [{ page: 1, perPage: 20, order: 'newest' }]]);
  const capped = runOn(readNewest, { layout: apart(50), pageCap: 12 }, { ends });
  drive(capped);
  expect(capped.mirror.pages).toEqual({ size: 12, varies: false });
});

test('by creation, a second that fills pages has no gap where a record is taken out of them', () => {
  const layout = [...apart(10), { gap: 5, count: 70 }, ...apart(10)];
  for (const doubt of ['always', 'never'] as const) {
    const list = new ModelList({ ...quiet, layout, taken: id => id === 'r35' });
    const ends: Ends = { counts: true, size: 20, varies: true, doubt };
    const { covered, gaps } = sweep(list, { ...options, ends });
    expect([gaps, covered.at(-1)!.to]).toEqual([[], list.now - 2000]);
  }
});

describe('a list that is read whole', () => {
  const answer = (ids: readonly string[], cap: number) => (ask: Ask) => {
    const rows = ids.slice((ask.page - 1) * Math.min(cap, ask.perPage), ask.page * Math.min(cap, ask.perPage));
    return { arrived: rows.length, rows: rows.map(id => ({ id, time: Number.NaN })), asOf: 5000, trueBy: 5000 };
  };
  const read = (ids: readonly string[], cap: number, ends: Ends, firstLoad = false) => {
    const asks: Ask[] = [];
    const met = new Set<string>();
    const reading = readWhole(0, { ...options, firstLoad, ends });
    for (let step = reading.next(); !step.done; ) {
      asks.push(step.value.ask);
      const page = answer(ids, cap)(step.value.ask);
      for (const { id } of page.rows) met.add(id);
      step = reading.next(page);
    }
    return { requests: asks.length, met: [...met] };
  };
  const users = Array.from({ length: 50 }, (_, i) => `u${i}`);

  test('is whole though its pages are capped', () => {
    expect(read(users, 12, {}, true).met.sort()).toEqual(users.toSorted());
    expect(read(users, 12, { size: 12 }).met.sort()).toEqual(users.toSorted());
  });

  test('costs one request while it shows what is stored, and another where it shows more', () => {
    const few = users.slice(0, 8);
    expect(read(few, 100, { known: new Set(few) }).requests).toBe(1);
    expect(read(few, 100, { known: new Set([...few, 'gone']) }).requests).toBe(1);
    expect(read(few, 100, { known: new Set(few.slice(1)) }).requests).toBe(2);
  });
});
