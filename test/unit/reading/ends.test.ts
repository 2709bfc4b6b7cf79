import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { provingEnds } from '../../../src/engine/reading/ends.ts';
import { readMovingList } from '../../../src/engine/reading/moving-list.ts';
import { walkList } from '../../../src/engine/reading/page-walk.ts';
import type { Reader } from '../../../src/engine/reading/reading.ts';
import { checkComplete, type Drive, drive } from './drive.ts';
import type { ModelOptions } from './model.ts';
import { given } from './properties.ts';
import { depth, perPage, runs, type Scenario, scenario } from './scenario.ts';

const moving: Reader = (from, options) => provingEnds(readMovingList(from, options), options);
const walk: Reader = (from, options) => provingEnds(walkList(from, options), options);

/** A cap, records that are hidden after the pages were cut, or both. */
const manner = fc.record({
  cap: fc.constantFrom(undefined, undefined, 2, 3, 4),
  hidden: fc.oneof(
    fc.constant<number[]>([]),
    fc.uniqueArray(fc.nat({ max: 40 }), { maxLength: 6 }),
    // Whole pages.
    fc
      .record({ from: fc.nat({ max: 30 }), many: fc.integer({ min: 1, max: 6 }) })
      .map(({ from, many }) => Array.from({ length: many }, (_, i) => from + i)),
  ),
  tiesKept: fc.boolean(),
});

/** Without ties that fill a page of the source: there an empty page counts as the end. */
const spread = (case_: Scenario): boolean => case_.model.layout.every(({ count }) => count < 3);

const holds = (read: Reader, more: Partial<Drive>) =>
  fc.property(scenario(['change', 'id']), manner, fc.nat({ max: 30_000 }), (case_, how, pauseMs) => {
    fc.pre(spread(case_));
    const isWalk = more.freely === true;
    const happens = case_.model.changes!.filter(({ kind, count }) =>
      isWalk
        ? (kind === 'create' && count < 3) || kind === 'delete'
        : kind !== 'bulk' && kind !== 'future' && (kind !== 'create' || count < 3),
    );
    const { hidden, ...more_ } = how;
    const hides = (number: number) => hidden.includes(number);
    const model: ModelOptions = { ...case_.model, ...more_, hides, changes: happens, hidden: isWalk };
    const run = { ...given(read, { ...case_, model }), anchored: 3, ...more };
    for (let i = 0; i < 3; i++) {
      drive({ ...run, most: 2000 });
      run.list.now += pauseMs;
    }
    run.list.settle(case_.options.lookbackMs);
    drive({ ...run, most: 2000 });
    checkComplete(run);
  });

describe('a source that answers fewer records than asked', () => {
  test('of a moving list nothing is lost, and nothing claimed that is not there', () => {
    fc.assert(holds(moving, {}), runs(1500));
  });
  test('nor of a walk by pages', () => {
    fc.assert(holds(walk, { freely: true }), runs(1500));
  });
});

describe('what it costs', () => {
  const layout = Array.from({ length: 23 }, () => ({ gap: 3, count: 1 }));
  const quiet: ModelOptions = { inclusive: false, ties: 'id', depth, layout, ageMs: 400_000 };
  const options = { lookbackMs: 120_000, perPage, depth };
  const costs = (read: Reader, model: ModelOptions, more: Partial<Drive> = {}) => {
    const run = { ...given(read, { model, options }), anchored: 3, ...more };
    const first = drive(run).credits;
    run.list.now += 60_000;
    const next = drive(run).credits;
    run.list.add();
    run.list.now += 60_000;
    const changed = drive(run).credits;
    checkComplete(run);
    return { first, next, changed };
  };

  test('a first load pays one request more, and the syncs that follow pay nothing', () => {
    expect(costs(readMovingList, quiet)).toEqual({ first: 7, next: 1, changed: 1 });
    expect(costs(moving, quiet)).toEqual({ first: 8, next: 1, changed: 1 });
  });
});
