/** When the source's clock has moved, what that makes void, and when it is believed again. */
import { describe, expect, test } from 'vitest';
import { acquire, empty, type Rules, type State, settle } from '../../src/engine/budget/ledger.ts';

const begin = 1_700_000_000_000;
const minute = 60_000;
const hour = 60 * minute;
const lookback = 2 * minute;
const latency = 400;
const own: Rules = {
  ...{ credits: 100, periodMs: 60_000, requestsPerSecond: 6, reserve: 10, timeoutMs: 30_000 },
  clockToleranceMs: lookback,
};

/** A ledger whose requests are answered by a source with a clock of its own; all times from the begin. */
function open() {
  let state: State = empty;
  let ids = 0;
  const it = {
    /** The source's clock less the true time, and ours. */
    source: 0,
    ours: 0,
    /** One request at this true time; its Date was written when it was granted. */
    at(ms: number, dateMs?: number) {
      const now = (late: number) => ({
        earliestMs: begin + ms + it.ours + late,
        latestMs: begin + ms + it.ours + late,
      });
      const id = `${ids++}`;
      ({ state } = acquire(state, now(0), { id, lane: 'fresh', cost: 1 }, own));
      const date = Math.floor((dateMs ?? begin + ms + it.source) / 1000) * 1000;
      const done = settle(state, now(latency), id, { headers: {}, refused: false, dateMs: date }, own);
      ({ state } = done);
      const { voidFromMs, byMs, steady } = done.settled!.clock!;
      return { steady, by: Math.round(byMs / minute), ...(voidFromMs !== undefined && { from: voidFromMs - begin }) };
    },
  };
  return it;
}

describe('the clock of the source', () => {
  test('ahead: proves nothing, and what it showed is void when it is back, from right after the last reply', () => {
    const it = open();
    it.at(0);
    it.source = hour;
    for (const n of [1, 2, 3]) expect(it.at(n * minute)).toEqual({ steady: false, by: 60 });
    it.source = 0;
    const { from, ...back } = it.at(10 * minute);
    expect(back).toEqual({ steady: false, by: 60 });
    // It may have been back since minute 3.
    expect(from).toBeGreaterThan(3 * minute - lookback - 2000);
    expect(from).toBeLessThanOrEqual(3 * minute - lookback + 1);
    expect(it.at(11 * minute)).toEqual({ steady: true, by: 60 });
  });

  test('ahead for five minutes: is believed; and set back then, all of that hour is void', () => {
    const it = open();
    it.at(0);
    it.source = hour;
    expect(it.at(minute).steady).toBe(false);
    expect(it.at(6 * minute - 1).steady).toBe(false);
    // The one that makes it believed proves nothing either: its reading may have begun before.
    expect(it.at(6 * minute).steady).toBe(false);
    expect(it.at(7 * minute)).toEqual({ steady: true, by: 60 });
    it.source = 0;
    const { from, ...set } = it.at(8 * minute);
    expect(set).toEqual({ steady: false, by: -60 });
    expect(from).toBeGreaterThan(7 * minute - lookback - 2000);
    expect(from).toBeLessThanOrEqual(7 * minute - lookback + 1);
    expect(it.at(9 * minute)).toEqual({ steady: false, by: -60 });
    // Said a second time, for what was on its way.
    expect(it.at(13 * minute)).toEqual({ steady: false, by: -60, from });
    expect(it.at(14 * minute)).toEqual({ steady: true, by: -60 });
  });

  test('back, and forward again: what was dated earlier meanwhile is void both times', () => {
    const it = open();
    it.at(0);
    it.at(5 * minute);
    it.source = -hour;
    const { from, steady } = it.at(6 * minute);
    expect(steady).toBe(false);
    expect(from).toBeGreaterThan(5 * minute - hour - lookback - 2000);
    expect(from).toBeLessThanOrEqual(5 * minute - hour - lookback + 1);
    it.source = 0;
    expect(it.at(7 * minute)).toEqual({ steady: false, by: -60, from });
    expect(it.at(8 * minute)).toEqual({ steady: true, by: -60 });
  });
});

describe("our own clock, the database's", () => {
  test('set back: what is known of the source moves along', () => {
    const it = open();
    it.at(0);
    it.at(minute);
    it.ours = -hour;
    expect(it.at(minute + 1000)).toEqual({ steady: true, by: 0 });
  });
});
