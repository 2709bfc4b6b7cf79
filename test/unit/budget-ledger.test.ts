/** The ledger step by step: what is held, for how long, and what the headers change. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  type Ask,
  acquire,
  cancel,
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
    cancel(id: string) {
      state = cancel(state, now(), id, own);
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

test('a credit is held until one period after the reply, not after the request', () => {
  const ledger = open(empty, broad);
  const { id } = ledger.ask(90);
  ledger.at(5000).reply(id);
  expect(ledger.grantedAt(90)).toBe(65_001);
});

test('a slot of the burst is held until one second after the reply', () => {
  const ledger = open();
  ledger.reply(ledger.ask(1).id);
  const ids = [1, 2, 3, 4, 5].map(() => ledger.ask(1).id);
  ledger.at(700).reply(ids.pop()!);
  ledger.at(740);
  for (const id of ids) ledger.reply(id);
  expect(ledger.grantedAt(1)).toBe(1001);
  expect(ledger.grantedAt(1)).toBe(1741);
});

test('what a dead worker held comes back one period after its deadline', () => {
  const ledger = open(empty, broad);
  ledger.ask(90);
  const deadlineMs = rules.timeoutMs + 1000; // A second for the statement between the decision and the sending.
  expect(ledger.at(deadlineMs + rules.periodMs - 1).ask(90, 'fresh', 'next').waitMs).toBeGreaterThan(0);
  expect(ledger.at(deadlineMs + rules.periodMs).ask(90, 'fresh', 'next').waitMs).toBe(0);
});

test('a reply of a process that was suspended past its deadline says nothing of others, and nothing of what is left', () => {
  const ledger = open(empty, broad);
  ledger.reply(ledger.ask(50).id, { limit: 100, remaining: 50, used: 50, resetSeconds: 60 });
  const { id } = ledger.ask(1);
  // Meanwhile the fifty are free again, and the ledger no longer knows that the source had counted them.
  ledger.at(80_000);
  const told = ledger.reply(id, { limit: 100, remaining: 49, used: 1, resetSeconds: 60 });
  expect(told).toMatchObject({ cost: 1, others: 0 });
  expect(ledger.drain()).toBe(89);
});

test('what was cancelled is free at once, and settling twice counts once', () => {
  const ledger = open(empty, broad);
  ledger.cancel(ledger.ask(90).id);
  const { id, waitMs } = ledger.ask(90);
  expect(waitMs).toBe(0);
  expect(ledger.reply(id)).toMatchObject({ cost: 90, lane: 'fresh', refused: false });
  const before = ledger.state;
  expect(ledger.reply(id, { remaining: 0 }, true)).toBeNull();
  expect(ledger.state).toEqual(before);
});

test('Rate-Limit-Used above the known cost is what is held', () => {
  const ledger = open(empty, broad);
  expect(ledger.reply(ledger.ask(1).id, { used: 80 })).toMatchObject({ cost: 80 });
  expect(ledger.drain()).toBe(10);
});

/** The source says that 30 are left until second 79; by our own count, 40 more are free again at second 61. */
function tight() {
  const ledger = open(empty, broad);
  ledger.reply(ledger.ask(40).id);
  ledger.at(59_000).reply(ledger.ask(30).id, { limit: 100, remaining: 30, used: 30, resetSeconds: 20 });
  return ledger.at(61_000);
}

test('Remaining binds until the reset, less the reserve, what is in flight and what got no reply', () => {
  expect(tight().ask(20).waitMs).toBe(0);
  expect(tight().grantedAt(21)).toBe(79_001);

  const flying = tight();
  flying.ask(5);
  expect(flying.ask(16).waitMs).toBeGreaterThan(0);
  expect(flying.ask(15).waitMs).toBeGreaterThan(0); // The 16 are ahead.

  // What the reset has to bring is not asked for again every 200 ms.
  const waiting = tight();
  waiting.ask(5);
  expect(waiting.ask(26).waitMs).toBe(5000);

  const lost = tight();
  lost.reply(lost.ask(5).id);
  expect(lost.grantedAt(16)).toBe(79_001);
});

test('the least Remaining of a period counts, in whatever order the replies come in', () => {
  const ledger = open(empty, broad);
  ledger.reply(ledger.ask(1).id);
  const [early, late] = [ledger.ask(3), ledger.ask(5)];
  ledger.reply(late.id, { limit: 100, remaining: 91, used: 5, resetSeconds: 20 });
  ledger.reply(early.id, { limit: 100, remaining: 96, used: 3, resetSeconds: 20 });
  expect(ledger.state.source).toMatchObject({ remaining: 91 });
  expect(ledger.state.others).toEqual([]);
});

test('in a period that is known to be fixed, our use of the one before does not hide that of others', () => {
  const ledger = open(empty, broad);
  ledger.at(50_000).reply(ledger.ask(50).id, { limit: 100, remaining: 50, used: 50, resetSeconds: 10 });
  ledger.at(56_000).reply(ledger.ask(1).id, { limit: 100, remaining: 49, used: 1, resetSeconds: 4 });
  const headers = { limit: 100, remaining: 69, used: 1, resetSeconds: 58 };
  expect(ledger.at(62_000).reply(ledger.ask(1).id, headers)).toMatchObject({ others: 30 });
});

test.for([
  { ms: 2001, sliding: false },
  { ms: 2002, sliding: true },
  { ms: 57_998, sliding: true },
  { ms: 57_999, sliding: false },
])('a reset that is $ms ms later in an equal period slides: $sliding', ({ ms, sliding }) => {
  const ledger = open(empty, broad);
  const headers = { limit: 100, remaining: 90, used: 1, resetSeconds: 1 };
  ledger.reply(ledger.ask(1).id, headers);
  ledger.at(ms).reply(ledger.ask(1).id, headers);
  expect(ledger.state.slidingUntilMs > begin).toBe(sliding);
});

test.for([
  { ms: 5000, fixed: false },
  { ms: 5001, fixed: true },
])('a reset that stands still for five seconds after the first reply, at $ms ms, is fixed: $fixed', ({ ms, fixed }) => {
  const ledger = open(empty, broad);
  ledger.reply(ledger.ask(1).id, { limit: 100, remaining: 90, used: 1, resetSeconds: 30 });
  ledger.at(ms).reply(ledger.ask(1).id, { limit: 100, remaining: 89, used: 1, resetSeconds: 25 });
  expect(ledger.state.source).toMatchObject({ fixed, remaining: 89 });
});

test('the last credit above the reserve is spread over the time until the reset', () => {
  const ledger = open(empty, broad);
  ledger.reply(ledger.ask(80).id);
  ledger.reply(ledger.ask(1).id, { limit: 100, remaining: 11, used: 1, resetSeconds: 60 });
  expect(ledger.ask(1, 'fresh', 'next').waitMs).toBe(5000);
  expect(ledger.at(29_000).ask(1, 'fresh', 'next').waitMs).toBeGreaterThan(0);
  expect(ledger.at(31_000).ask(1, 'fresh', 'next').waitMs).toBe(0);
});

test('a refusal shows that others are about, although the headers leave none for them', () => {
  const ledger = open(empty, broad);
  const headers = { limit: 100, remaining: 99, used: 1, resetSeconds: 20 };
  expect(ledger.reply(ledger.ask(1).id, headers, true)).toMatchObject({ others: 1 });
});

test('a Remaining of 0 is believed', () => {
  const ledger = open(empty, broad);
  const headers = { limit: 100, remaining: 0, used: 1, resetSeconds: 20 };
  expect(ledger.reply(ledger.ask(1).id, headers)).toMatchObject({ others: 99 });
  expect(ledger.state.source).toMatchObject({ remaining: 0 });
});

test('a lower limit in the headers holds until a header shows another one', () => {
  const ledger = open(empty, broad);
  ledger.reply(ledger.ask(1).id, { limit: 50 });
  expect(ledger.drain()).toBe(39);
  ledger.at(70_000);
  ledger.reply(ledger.ask(1).id, { limit: 500 });
  expect(ledger.drain()).toBe(89);
});

test('after a 429 nobody goes before the reset and a second, or a period and a second where no reset is told', () => {
  const told = open();
  told.reply(told.ask(1).id, { limit: 100, remaining: 98, used: 0, resetSeconds: 17 }, true);
  expect(told.grantedAt(1, 'interactive')).toBe(18_001);
  const silent = open();
  silent.reply(silent.ask(1).id, {}, true);
  expect(silent.grantedAt(1, 'interactive')).toBe(61_001);
});

test('others are what the limit lacks and we have not used, and our share gives way to them for five periods', () => {
  const ledger = open(empty, broad);
  expect(ledger.reply(ledger.ask(2).id, { limit: 100, remaining: 58, used: 2, resetSeconds: 1 })).toMatchObject({
    others: 40,
  });
  ledger.at(120_000);
  expect(ledger.ask(51).waitMs).toBe(0); // More than the 50 that are left, and still once a period.
  ledger.at(130_000);
  expect(ledger.ask(1).waitMs).toBeGreaterThan(0);
  expect(open(ledger.state, broad).at(301_000).drain()).toBeGreaterThan(50);
});

test('the most that others used is forgotten after five periods, though they used less since', () => {
  const ledger = open(empty, broad);
  ledger.reply(ledger.ask(1).id, { limit: 100, remaining: 59, used: 1, resetSeconds: 1 });
  for (const ms of [30_000, 31_500])
    ledger.at(ms).reply(ledger.ask(1).id, { limit: 100, remaining: 78, used: 1, resetSeconds: 60 });
  const most = (ms: number) => {
    const later = open(ledger.state, broad).at(ms);
    later.ask(1);
    return Math.max(0, ...later.state.others.map(([, credits]) => credits));
  };
  expect([most(300_000), most(302_000), most(332_000)]).toEqual([40, 20, 0]);
  // Our clock is set back by an hour.
  ledger.at(-3_600_000).ask(1);
  expect([most(-3_340_000), most(-3_310_000), most(-3_290_000)]).toEqual([40, 20, 0]);
});

test('what others use less and less is kept in few numbers', () => {
  const ledger = open(empty, { ...broad, credits: 1e6 });
  for (let i = 0; i < 5000; i++) {
    const { id } = ledger.at(i * 50).ask(1, 'interactive');
    ledger.reply(id, { limit: 1e6, remaining: 5e5 + i * 10, used: 1, resetSeconds: 60 });
  }
  expect(ledger.state.others.length).toBeLessThanOrEqual(51);
});

test('while others are about, one request is in flight, and the next one keeps its distance', () => {
  const ledger = open();
  const first = ledger.ask(1);
  ledger.reply(first.id, { limit: 100, remaining: 69, used: 1, resetSeconds: 60 });
  const second = ledger.grantedAt(1); // 59 credits are left for 60 s.
  expect(second).toBe(1017);
  expect(ledger.at(second + 5000).ask(1).waitMs).toBe(200);
});

test('while others are about and the period slides, what slow replies held up is made up for', () => {
  const ledger = open();
  ledger.reply(ledger.ask(1).id, { limit: 100, remaining: 59, used: 1, resetSeconds: 60 });
  ledger.at(10_000).reply(ledger.ask(1).id, { limit: 100, remaining: 58, used: 1, resetSeconds: 20 });
  expect(ledger.state.slidingUntilMs).toBeGreaterThan(begin);
  // 50 are left to us, one in 1.2 s: while a reply took 3.2 s two more would have gone.
  const slow = ledger.at(20_000).ask(1).id;
  ledger.at(23_200).reply(slow);
  const waits = ['a', 'b', 'c', 'd'].map(id => {
    const { waitMs } = ledger.ask(1, 'fresh', id);
    if (waitMs === 0) ledger.reply(id);
    return waitMs;
  });
  expect(waits).toEqual([0, 0, 0, 100]);
});

/** One credit a second, so that the pace is in whole seconds; another reply has just come. */
function slow() {
  const ledger = open(empty, { ...broad, credits: 70 });
  ledger.reply(ledger.ask(1).id);
  return ledger;
}
const grants = (ledger: ReturnType<typeof open>, count: number, lane: Lane) =>
  Array.from({ length: count }, () => ledger.grantedAt(1, lane));

test('backfill gets a tenth at once and the rest evenly, or at once what some seconds without a grant bring', () => {
  const ledger = slow();
  expect(grants(ledger, 8, 'backfill')).toEqual([...Array(6).fill(0), 3500, 4500]);
  expect(grants(ledger.at(30_000), 6, 'backfill')).toEqual([...Array(4).fill(30_000), 30_500, 31_500]);
});

test('the lanes above it are not paced, and it makes up for what they took', () => {
  const ledger = slow();
  grants(ledger, 7, 'backfill');
  expect(ledger.ask(1, 'backfill', 'next').waitMs).toBe(1000);
  expect(grants(ledger, 3, 'fresh')).toEqual(Array(3).fill(3500));
  expect(ledger.ask(1, 'backfill', 'next').waitMs).toBe(4000);
  expect(grants(ledger, 30, 'fresh')).toEqual(Array(30).fill(3500));
  expect(grants(ledger, 10, 'interactive')).toEqual(Array(10).fill(3500));
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

test('what waits for the pace keeps its order', () => {
  const ledger = slow();
  grants(ledger, 8, 'backfill');
  expect(ledger.ask(3, 'backfill', 'first').waitMs).toBe(1000);
  expect(ledger.at(4700).ask(3, 'backfill', 'first').waitMs).toBe(800);
  expect(ledger.ask(1, 'backfill', 'second').waitMs).toBe(3800);
  expect(ledger.at(6000).ask(1, 'backfill', 'second').waitMs).toBe(2500);
  expect(ledger.ask(3, 'backfill', 'first').waitMs).toBe(0);
  expect(ledger.ask(1, 'backfill', 'second').waitMs).toBe(2500);
});

test('a short wait of backfill changes nothing, once; a long one, and one of another lane, leaves a mark', () => {
  const ledger = slow();
  grants(ledger, 8, 'backfill');
  const before = ledger.state;
  expect(ledger.ask(1, 'backfill', 'short').waitMs).toBe(1000);
  expect(ledger.state).toBe(before);
  ledger.at(4600).ask(1, 'backfill', 'short');
  expect(ledger.state.waits).toMatchObject([{ id: 'short', sinceMs: begin + 4500 }]);
  const used = open(empty, { ...broad, credits: 70 });
  used.drain();
  used.at(59_000).ask(1, 'fresh', 'urgent');
  expect(used.state.waits).toMatchObject([{ id: 'urgent' }]);
});

test('a source that slides is known to, as long as its resets move, however evenly', () => {
  const ledger = open();
  for (let ms = 0; ms <= 600_000; ms += 700) {
    const { id } = ledger.at(ms).ask(1);
    const remaining = Math.max(14, 99 - ms / 700);
    ledger.at(ms + 300).reply(id, { limit: 100, remaining, used: 1, resetSeconds: 60 });
    if (ms > 10_000) expect(ledger.state.slidingUntilMs).toBeGreaterThan(begin + ms + 300);
  }
});

test('among others backfill goes as evenly as the rest, and no slower', () => {
  const spread = (lane: Lane) => {
    const ledger = open();
    ledger.reply(ledger.ask(1, lane).id, { limit: 100, remaining: 20, used: 1, resetSeconds: 1 });
    ledger.at(290_000).reply(ledger.ask(1, lane).id, { limit: 100, remaining: 90, used: 1, resetSeconds: 60 });
    ledger.at(299_000).reply(ledger.ask(9, lane).id); // For others 79 are kept, which are forgotten a second later.
    return [ledger.at(300_500).grantedAt(1, lane), ledger.grantedAt(1, lane)];
  };
  expect(spread('backfill')).toEqual(spread('fresh'));
});

test('a server without headers is believed to have what the settings say', () => {
  const ledger = open(empty, broad);
  expect(ledger.drain()).toBe(90);
  expect(ledger.state).toMatchObject({ source: null, others: [], limit: null });
});

test('a refusal without headers takes a tenth of the rate, not the whole period', () => {
  const ledger = open(empty, broad);
  ledger.reply(ledger.ask(1).id, {}, true, { freezeMs: 1000 });
  ledger.at(1001);
  expect(ledger.grantedAt(1)).toBeLessThan(5000);
});

test('nonsense in the headers changes nothing', () => {
  const ledger = open(empty, broad);
  ledger.reply(ledger.ask(1).id, { limit: Number.NaN, remaining: -5, used: Number.NaN, resetSeconds: -1 });
  expect(ledger.state).toMatchObject({ source: null, others: [], limit: null });
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

test('over a day backfill is not spread, and leaves a tenth to the other lanes, whatever those have used', () => {
  const ledger = open(empty, daily);
  expect(ledger.drain(1000, 'backfill')).toBe(90);
  expect(ledger.drain()).toBe(10);
  const other = open(empty, daily);
  expect(other.drain(10)).toBe(10);
  expect(other.drain(1000, 'backfill')).toBe(90);
});

test('what takes too long is told, not waited for, and leaves no mark', () => {
  const ledger = open(empty, daily);
  ledger.drain();
  expect(ledger.at(hourMs).ask(1).waitMs).toBe(dayMs - hourMs + 1);
  expect(ledger.state.waits).toEqual([]);
  expect(ledger.at(dayMs - 59_000).ask(1).waitMs).toBe(5000);
  expect(ledger.state.waits).toHaveLength(1);
});

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

test('a short pause is as long as it was told, and a refusal tells nothing of others', () => {
  const ledger = open(empty, daily);
  expect(ledger.reply(ledger.ask(1).id, {}, true, { freezeMs: 2000 })).toMatchObject({ others: 0, refused: true });
  expect(ledger.grantedAt(1)).toBe(2001);
  expect(ledger.drain(1000, 'backfill')).toBe(90);
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

test.for([
  { seconds: 2, lifted: false },
  { seconds: 60, lifted: false },
  { seconds: 62, lifted: true },
])('a pause of $seconds seconds is lifted by hand: $lifted', ({ seconds, lifted }) => {
  const ledger = open(empty, daily);
  ledger.reply(ledger.ask(1).id, {}, true, { freezeMs: seconds * 1000 });
  ledger.at(500).thaw();
  expect(ledger.ask(1, 'fresh', 'next').waitMs).toBe(lifted ? 0 : Math.min(seconds * 1000 + 1 - 500, 5000));
  if (lifted) return;
  expect(ledger.grantedAt(1)).toBe(seconds * 1000 + 1);
  // Nothing goes one at a time after it, as it does after a thaw.
  expect(ledger.ask(1).waitMs).toBe(0);
});
