/** The ledger by examples, its bounds, and set-back clocks. Every history compares it with a plain one: packages/proofs/every-history/ledger. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  type Ask,
  acquire,
  empty,
  type Lane,
  lanes,
  type RateHeaders,
  type Reply,
  type Rules,
  type State,
  settle,
  thaw,
} from '../../src/engine/budget/ledger.ts';

const rules: Rules = { credits: 100, periodMs: 60_000, requestsPerSecond: 6, reserve: 10, timeoutMs: 30_000 };
const begin = 1_700_000_000_000;

/** A ledger on a clock of its own, which starts at 0. */
function open(state: State = empty, own = rules) {
  let atMs = begin;
  let ids = 0;
  const unmarked = new Map<string, number>();
  const now = () => ({ earliestMs: atMs, latestMs: atMs });
  return {
    at(ms: number) {
      atMs = begin + ms;
      return this;
    },
    get state() {
      return state;
    },
    ask(cost: number, lane: Lane = 'fresh', id = `${ids++}`): { id: string; waitMs: number } {
      const sinceMs = unmarked.get(id);
      const wanted = { id, lane, cost, ...(sinceMs !== undefined && { sinceMs }) } satisfies Ask;
      const done = acquire(state, now(), wanted, own);
      state = done.state;
      if (!done.granted && done.unmarked !== undefined) unmarked.set(id, done.unmarked);
      return { id, waitMs: done.granted ? 0 : done.waitUntilMs - atMs };
    },
    reply(id: string, headers: RateHeaders = {}, refused = false, more: Partial<Reply> = {}) {
      const done = settle(state, now(), id, { headers, refused, ...more }, own);
      state = done.state;
      return done.settled;
    },
    thaw() {
      state = thaw(state, now(), own);
    },
    /** How much of this lane can be granted at this moment, one credit at a time, each answered at once. */
    drain(most = 1000, lane: Lane = 'fresh'): number {
      for (let granted = 0; granted < most; granted++) {
        const { id, waitMs } = this.ask(1, lane);
        if (waitMs > 0) return granted;
        this.reply(id);
      }
      return most;
    },
    /** The earliest time at which this is granted, asking whenever the ledger says so. */
    grantedAt(cost: number, lane: Lane = 'fresh'): number {
      const id = `${ids++}`;
      for (;;) {
        const { waitMs } = this.ask(cost, lane, id);
        if (waitMs === 0) return atMs - begin;
        atMs += waitMs;
      }
    },
  };
}

const broad = { ...rules, requestsPerSecond: 1000 };

test('where days begin at midnight UTC, a day that is used up ends then, whenever it was used', () => {
  const dayMs = 86_400_000;
  const midnight = Math.ceil(begin / dayMs) * dayMs - begin;
  const minuteMs = 60_000;
  const day: Rules = { ...broad, reserve: 0, periodMs: dayMs, evenly: false, aligned: true };
  const usedAt = (ms: number) => {
    const ledger = open(empty, day).at(ms);
    expect(ledger.drain()).toBe(100);
    return ledger;
  };
  // The clocks may be a minute apart.
  for (const ms of [0, midnight - 2 * minuteMs]) expect(usedAt(ms).grantedAt(100)).toBe(midnight + minuteMs);
  // Which of the two days the source counts it in is not known.
  expect(usedAt(midnight - minuteMs / 2).grantedAt(1)).toBe(midnight + dayMs + minuteMs);
});

test('a credit is held until one period after the reply, not after the request', () => {
  const ledger = open(empty, broad);
  const { id } = ledger.ask(90);
  ledger.at(5000).reply(id);
  expect(ledger.grantedAt(90)).toBe(65_001);
});

test('credits of a dead worker return one period after the deadline of its request', () => {
  const ledger = open(empty, broad);
  ledger.ask(90);
  const deadlineMs = rules.timeoutMs + 1000; // A second for the statement between the decision and the sending.
  expect(ledger.at(deadlineMs + rules.periodMs - 1).ask(90, 'fresh', 'next').waitMs).toBeGreaterThan(0);
  expect(ledger.at(deadlineMs + rules.periodMs).ask(90, 'fresh', 'next').waitMs).toBe(0);
});

test('after a 429 nobody goes before the reset and a second, or a period and a second where no reset is told', () => {
  const told = open();
  told.reply(told.ask(1).id, { limit: 100, remaining: 98, used: 0, resetSeconds: 17 }, true);
  expect(told.grantedAt(1, 'interactive')).toBe(18_001);
  const silent = open();
  silent.reply(silent.ask(1).id, {}, true);
  expect(silent.grantedAt(1, 'interactive')).toBe(61_001);
});

test('what others use less and less is kept in few numbers', () => {
  const ledger = open(empty, { ...broad, credits: 1e6 });
  for (let i = 0; i < 5000; i++) {
    const { id } = ledger.at(i * 50).ask(1, 'interactive');
    ledger.reply(id, { limit: 1e6, remaining: 5e5 + i * 10, used: 1, resetSeconds: 60 });
  }
  expect(ledger.state.others.length).toBeLessThanOrEqual(51);
});

/** One credit a second, so that the pace is in whole seconds; another reply has just come. */
function slow() {
  const ledger = open(empty, { ...broad, credits: 70 });
  ledger.reply(ledger.ask(1).id);
  return ledger;
}
const grants = (ledger: ReturnType<typeof open>, count: number, lane: Lane) =>
  Array.from({ length: count }, () => ledger.grantedAt(1, lane));

test('the lanes above it are not paced, and it makes up for what they took', () => {
  const ledger = slow();
  grants(ledger, 7, 'backfill');
  expect(ledger.ask(1, 'backfill', 'next').waitMs).toBe(1000);
  expect(grants(ledger, 3, 'fresh')).toEqual(Array(3).fill(3500));
  expect(ledger.ask(1, 'backfill', 'next').waitMs).toBe(4000);
  expect(grants(ledger, 30, 'fresh')).toEqual(Array(30).fill(3500));
  expect(grants(ledger, 10, 'interactive')).toEqual(Array(10).fill(3500));
});

test('a request of backfill that asks a little early leaves no mark, and one that another has overtaken does', () => {
  const ledger = slow();
  grants(ledger, 7, 'backfill');
  const { waitMs } = ledger.ask(1, 'backfill', 'next');
  const dueMs = 3500 + waitMs;
  expect(ledger.at(dueMs - 1).ask(1, 'backfill', 'next').waitMs).toBe(1);
  expect(ledger.state.waits).toEqual([]);
  expect(ledger.at(dueMs).ask(1, 'backfill', 'other').waitMs).toBe(0);
  expect(ledger.at(dueMs).ask(1, 'backfill', 'next').waitMs).toBeGreaterThan(20);
  expect(ledger.state.waits).toMatchObject([{ id: 'next' }]);
});

test('the sweep keeps to the same pace as backfill, and gets the share that was set while that waits', () => {
  const alone = slow();
  expect(grants(alone, 8, 'sweep')).toEqual([...Array(6).fill(0), 3500, 4500]);
  const granted = (sweepShare: number) => {
    const ledger = open(empty, { ...broad, credits: 110, sweepShare });
    ledger.reply(ledger.ask(1).id);
    const marks = { backfill: 'b', sweep: 's' };
    const count = { backfill: 0, sweep: 0 };
    for (let ms = 0; ms < 120_000; ms += 200) {
      for (const lane of ['sweep', 'backfill'] as const) {
        if (ledger.at(ms).ask(1, lane, marks[lane]).waitMs > 0) continue;
        ledger.reply(marks[lane]);
        count[lane]++;
        marks[lane] = `${marks[lane]}+`;
      }
    }
    return count.sweep / (count.backfill + count.sweep);
  };
  expect(granted(0.1)).toBeCloseTo(0.1, 1);
  expect(granted(0.4)).toBeCloseTo(0.4, 1);
});

test('raised limits cost no more: sums, not a list of requests', () => {
  const raised = { ...rules, credits: 1e9, requestsPerSecond: 1e5, reserve: 0 };
  const ledger = open(empty, raised);
  for (let i = 0; i < 10_000; i++) {
    const { id, waitMs } = ledger.at(i * 9).ask(3, 'backfill');
    expect(waitMs).toBe(0);
    ledger.reply(id, { limit: 1e9, remaining: 1e9 - 3 * i - 3, used: 3, resetSeconds: 90 });
  }
  expect(ledger.state.spent.length).toBeLessThanOrEqual(121);
  expect(ledger.state.burst.length).toBeLessThanOrEqual(21);
  expect(ledger.state.waits).toEqual([]);
});

test('whenever the clock is set back, waiting stays within a time-out, a period and a second', () => {
  const step = fc.record({
    afterMs: fc.nat(20_000),
    cost: fc.integer({ min: 1, max: 90 }),
    lane: fc.constantFrom(...lanes),
    refused: fc.boolean(),
    answered: fc.boolean(),
  });
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 20 }),
      fc.integer({ min: 2000, max: 1e10 }),
      step,
      (steps, backMs, { lane }) => {
        const ledger = open();
        let atMs = 0;
        for (const { afterMs, cost, lane, refused, answered } of steps) {
          atMs += afterMs;
          const { id } = ledger.at(atMs).ask(cost, lane);
          if (answered) ledger.reply(id, { limit: 100, remaining: 100 - cost, used: cost, resetSeconds: 60 }, refused);
        }
        const later = open(ledger.state).at(atMs - backMs);
        const grantedMs = later.grantedAt(1, lane);
        expect(grantedMs - (atMs - backMs)).toBeLessThanOrEqual(rules.timeoutMs + rules.periodMs + 1000 + 1);
      },
    ),
  );
});

// ---- a quota of a day ----

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const daily: Rules = { ...broad, credits: 100, reserve: 0, periodMs: dayMs, evenly: false, longestWaitMs: 60_000 };

test('a spent day lasts until our oldest request is a day old; an hour at least, where it was others; or as told', () => {
  const spent = { spent: true };
  const used = open(empty, daily);
  used.reply(used.ask(1).id);
  used.at(10 * hourMs).reply(used.ask(1).id, {}, true, spent);
  expect(used.at(11 * hourMs).ask(1).waitMs).toBe(13 * hourMs + 1);

  const others = open(empty, daily);
  others.reply(others.ask(1).id, {}, true, spent);
  expect(others.at(1000).ask(1).waitMs).toBe(hourMs - 999);
  // What was refused is no use of ours: after the next refusal it is an hour again.
  others.at(2 * hourMs).reply(others.ask(1).id, {}, true, spent);
  expect(others.at(2 * hourMs + 1).ask(1).waitMs).toBe(hourMs);

  const told = open(empty, daily);
  told.reply(told.ask(1).id, {}, true, { spent: true, freezeMs: 5 * hourMs });
  expect(told.at(1).ask(1).waitMs).toBe(5 * hourMs);
  expect(told.at(5 * hourMs + 1).ask(1).waitMs).toBe(0);
});

test('by hand one request is tried through a freeze, but not through what we have used', () => {
  const ledger = open(empty, daily);
  ledger.reply(ledger.ask(1).id, {}, true, { spent: true });
  ledger.at(60_000).thaw();
  const { id, waitMs } = ledger.ask(1);
  expect(waitMs).toBe(0);
  expect(ledger.ask(1).waitMs).toBeGreaterThan(0);
  ledger.reply(id, {}, true, { spent: true });
  expect(ledger.at(61_000).ask(1).waitMs).toBeGreaterThan(hourMs - 60_000);

  // Where nothing is frozen it changes nothing: somebody who died with a request in flight holds nobody up.
  const other = open(empty, daily);
  other.reply(other.ask(1).id);
  other.ask(1);
  other.thaw();
  expect(other.ask(1).waitMs).toBe(0);

  const used = open(empty, daily);
  used.drain();
  used.thaw();
  expect(used.at(1000).ask(1).waitMs).toBe(dayMs - 999);
});
