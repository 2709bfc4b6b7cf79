/** A slice of every history of the budget, and that each planted mistake is found. The whole: `npm run every-history`. */
import { describe, expect, test } from 'vitest';
import * as budgets from '../../../src/engine/budget/budget.ts';
import * as product from '../../../src/engine/budget/ledger.ts';
import { amount, long, proof } from '../../../test/support/long.ts';
import { freshDatabase } from '../../../test/support/postgres.ts';
import { clocksWrong } from './ledger/clocks.ts';
import { drawnWrong, refusedWrong, rememberedWrong, resetsWrong } from './ledger/drawn.ts';
import { plantedInLedger } from './ledger/planted.ts';
import { plantedInRecordClock, recordClocksWrong } from './ledger/record-clocks.ts';
import { rowWrong } from './ledger/row.ts';
import type { Ledger } from './ledger/steps.ts';
import type { World } from './ledger/worlds.ts';
import { exploreWorld, worlds } from './ledger.ts';
import { someOf, withMistake } from './planted.ts';

const named = (name: string): World => worlds.find(world => world.name === name)!;

describe('every history of the budget', () => {
  test.for(worlds.map(({ name }) => name))('nothing is wrong in: %s', name => {
    expect(exploreWorld(named(name), undefined, { mostStates: 700 }).complaint).toBeUndefined();
  });

  test('what others used is remembered as long as it must be', () => {
    expect(rememberedWrong(product)).toBeUndefined();
  });

  test('a refusal stops us as long as it must', () => {
    expect(refusedWrong(product)).toBeUndefined();
  });

  test('a period is fixed or slides, as its ends are told', () => {
    expect(resetsWrong(product, amount(4, 3))).toBeUndefined();
  });

  test('the clock of the source is judged as plainly as can be', () => {
    expect(clocksWrong(product)).toBeUndefined();
  });

  test('no reply proves more than the clock of the records has shown', () => {
    expect(recordClocksWrong(product)).toBeUndefined();
  });

  test.for(Object.entries(plantedInRecordClock))(
    'a reply proves too much, or too little, where %s',
    async ([, mistakes]) => {
      using mistaken = await withMistake<Ledger>('src/engine/budget/ledger.ts', mistakes);
      expect(recordClocksWrong(mistaken.module, false)).toBeDefined();
    },
  );

  test('histories that are drawn are those of the plain ledger', () => {
    expect(drawnWrong(product, amount(3000, 1000, 500))).toBeUndefined();
  });

  test('what happens to the row is what the ledger makes of the same steps', async () => {
    await using db = await freshDatabase();
    expect(await rowWrong(db.url, budgets)).toBeUndefined();
  });

  test.for(someOf(Object.entries(plantedInLedger)))('is wrong where %s', long, async ([, { mistakes, foundIn }]) => {
    using mistaken = await withMistake<Ledger>('src/engine/budget/ledger.ts', mistakes);
    const { complaint } = exploreWorld(named(foundIn), mistaken.module, { mostStates: 10_000 });
    expect(complaint?.what).toBeDefined();
  });
});

describe('what shortens the search loses nothing', () => {
  const tiny: World = { ...named('no headers'), tickMs: 2000, requests: 1, deaths: 1 };
  const found = (
    ledger: Ledger | undefined,
    how: { symmetric?: boolean; remembers?: boolean; onState?: (key: string) => void },
  ) => exploreWorld(tiny, ledger, { ...how, mostStates: 150_000 });

  test('the same states are reached where known ones are played again', () => {
    const [once, again] = [new Set<string>(), new Set<string>()];
    const short = found(undefined, { onState: key => once.add(key) });
    const long = found(undefined, { remembers: false, onState: key => again.add(key) });
    expect([short.complaint, long.complaint]).toEqual([undefined, undefined]);
    expect([...again].filter(key => !once.has(key))).toEqual([]);
    expect(long.states).toBeGreaterThan(short.states);
  });

  test('the same mistakes are found with processes told apart, and without memory', proof, async () => {
    const verdicts: Record<string, boolean[]> = {};
    for (const [name, { mistakes }] of Object.entries(plantedInLedger)) {
      using mistaken = await withMistake<Ledger>('src/engine/budget/ledger.ts', mistakes);
      const ways = [{}, { symmetric: false }, { symmetric: false, remembers: false }];
      verdicts[name] = ways.map(how => found(mistaken.module, { ...how }).complaint !== undefined);
    }
    const differ = Object.entries(verdicts).filter(([, all]) => new Set(all).size > 1);
    expect(differ).toEqual([]);
    expect(Object.values(verdicts).filter(([one]) => one).length).toBeGreaterThan(5);
  });
});
