/**
 * Histories that are drawn, longer than those that are played: each answer of the ledger is that of the plain one. Time passes to
 * the moments at which something ends, a millisecond before, and one after.
 */
import type { Lane, Moment, RateHeaders, Reply, Rules, State } from '../../../../src/engine/budget/ledger.ts';
import { compared } from './compared.ts';
import { beginMs, type Ledger } from './steps.ts';

const hourMs = 3_600_000;
const short: Rules = { credits: 6, periodMs: 4000, requestsPerSecond: 3, reserve: 1, timeoutMs: 1000 };
const minute: Rules = { credits: 20, periodMs: 60_000, requestsPerSecond: 5, reserve: 2, timeoutMs: 9000 };
const rulesDrawn: readonly Rules[] = [
  short,
  minute,
  { ...minute, credits: 90, requestsPerSecond: 40, reserve: 0, sweepShare: 0.3, timeoutMs: 30_000 },
  { ...minute, longestWaitMs: 10_000, clockToleranceMs: 120_000 },
  { ...short, credits: 40, requestsPerSecond: 100 },
  { ...short, credits: 40, further: [{ ms: 2500, requests: 4 }] },
  { ...minute, periodMs: 4 * hourMs, evenly: false, longestWaitMs: 60_000, reserve: 0 },
  { ...minute, credits: 10, periodMs: 600_000, evenly: false, reserve: 0 },
];
const lanes: readonly Lane[] = ['interactive', 'fresh', 'backfill', 'sweep'];
const grantIds = ['10', '9', '11', '8', '12', '7'];

/** The same numbers for the same seed (mulberry32). */
function numbers(seed: number): () => number {
  let at = seed;
  return () => {
    at = (at + 0x6d2b79f5) | 0;
    let n = Math.imul(at ^ (at >>> 15), 1 | at);
    n = (n + Math.imul(n ^ (n >>> 7), 61 | n)) ^ n;
    return ((n ^ (n >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function drawnWrong(ledger: Ledger, histories: number): string | undefined {
  for (let seed = 0; seed < histories; seed++) {
    const wrong = drawOne(ledger, seed);
    if (wrong) return `history ${seed}: ${wrong}`;
  }
  return undefined;
}

interface Asked {
  readonly id: string;
  readonly lane: Lane;
  readonly cost: number;
  readonly sinceMs?: number;
  readonly sender: number;
}

function drawOne(examined: Ledger, seed: number): string | undefined {
  const ledger = compared(examined);
  const random = numbers(seed);
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)]!;
  const rules = rulesDrawn[seed % rulesDrawn.length]!;
  const { periodMs } = rules;
  const asks = pick([lanes, lanes, lanes.slice(2)]);
  const setsBack = pick([0.01, 0.01, 0.05]);
  const refuses = pick([0.05, 0.3]);
  const hasHeaders = random() < 0.7;
  const slides = random() < 0.5;
  const errorMs = pick([0, 0, 0.7, 300]);
  const fraction = pick([0, 0.3]);
  let nowMs = beginMs + Math.floor(random() * periodMs);
  let state: State = ledger.empty;
  let ids = 0;
  let sourceMs = 0;
  let waiting: Asked[] = [];
  let flying: Asked[] = [];
  /** Replies that are booked later. */
  let heard: { readonly id: string; readonly reply: Reply; readonly at: Moment }[] = [];
  /** When something ends. */
  let ends: number[] = [];
  const moment = (): Moment => ({ earliestMs: nowMs + fraction, latestMs: nowMs + fraction + errorMs });

  const ask = (one: Asked) => {
    const done = ledger.acquire(state, moment(), one, rules);
    ({ state } = done);
    waiting = waiting.filter(({ id }) => id !== one.id);
    if (done.granted) {
      flying.push(one);
      const endMs = Math.ceil(nowMs + fraction + errorMs) + rules.timeoutMs + 1000;
      ends.push(endMs, endMs + periodMs);
    } else {
      ends.push(done.waitUntilMs, done.waitUntilMs + 2000);
      if (!done.tooLong) waiting.push(done.unmarked === undefined ? one : { ...one, sinceMs: done.unmarked });
    }
  };
  const headers = (): RateHeaders => {
    if (!hasHeaders || random() < 0.2) return {};
    const limit = pick([rules.credits, rules.credits, rules.credits, rules.credits - 2, rules.credits * 2]);
    const toEndMs = slides ? pick([periodMs, periodMs / 2]) : periodMs - (nowMs % periodMs);
    const all = {
      limit,
      remaining: Math.floor(random() ** 2 * limit),
      used: pick([0, 1, 2, 3]),
      // A reset that is farther away than a period is not believed.
      resetSeconds: pick([1, 1, 1, 0.5, 3]) * Math.ceil(toEndMs / 1000),
    };
    const but = pick<keyof RateHeaders | undefined>([
      undefined,
      undefined,
      'limit',
      'remaining',
      'used',
      'resetSeconds',
    ]);
    return Object.fromEntries(
      Object.entries(all).map(([name, value]) => [name, name === but ? pick([undefined, -1]) : value]),
    ) as RateHeaders;
  };
  const hear = (one: Asked) => {
    const refused = random() < refuses;
    const reply: Reply = { headers: headers(), refused };
    if (refused && random() < 0.3) reply.freezeMs = pick([500, periodMs, 2 * hourMs, 30_000]);
    if (refused && random() < 0.5) reply.spent = true;
    if (random() < 0.1) sourceMs += pick([-hourMs, hourMs, 90_000]);
    if (random() < 0.8) reply.dateMs = Math.floor((nowMs + sourceMs) / 1000) * 1000;
    if (random() < 0.3) heard.push({ id: one.id, reply, at: moment() });
    else ({ state } = ledger.settle(state, moment(), one.id, reply, rules));
    flying = flying.filter(other => other !== one);
    const { resetSeconds } = reply.headers;
    const atMs = Math.floor(nowMs + fraction + errorMs) + 1;
    const periodEndMs = nowMs + periodMs - (nowMs % periodMs);
    ends.push(atMs + 1000, atMs + periodMs, atMs + 5 * periodMs, atMs + 5000, periodEndMs, periodEndMs - 1000);
    if (resetSeconds !== undefined) ends.push(atMs + 1000 * resetSeconds, atMs + 1000 * resetSeconds + 1000);
  };
  const book = (one: (typeof heard)[number]) => {
    ({ state } = ledger.settle(state, moment(), one.id, one.reply, rules, one.at));
    heard = heard.filter(other => other !== one);
  };
  const pass = () => {
    ends = ends.filter(ms => ms > nowMs);
    const soon = ends.toSorted((a, b) => a - b).slice(0, 4);
    nowMs =
      soon.length > 0 && random() < 0.6
        ? Math.max(nowMs, pick(random() < 0.1 ? ends : soon) + pick([-1, 0, 0, 1]))
        : nowMs +
          Math.floor(pick([1, 7, 30, 100, 400, 1000, 2500, 5000, periodMs / 20, periodMs / 4, periodMs]) * random());
  };

  const length = 25 + Math.floor(random() * 30);
  for (let n = 0; n < length; n++) {
    const what = random();
    if (what < 0.3) pass();
    else if (what < 0.55)
      ask({ id: `${grantIds[ids % 6]}${ids++}`, lane: pick(asks), cost: pick([1, 1, 2, 3]), sender: pick([1, 2]) });
    else if (what < 0.7 && waiting.length > 0) ask(pick(waiting));
    else if (what < 0.75 && heard.length > 0) book(pick(heard));
    else if (what < 0.92 && flying.length > 0) hear(pick(flying));
    else if (what < 0.93 && flying.length > 0) state = ledger.cancel(state, moment(), flying.shift()!.id, rules);
    else if (what < 0.94) state = ledger.thaw(state, moment(), rules);
    else if (what < 0.95) state = ledger.bury(state, moment(), [pick([1, 2])], rules);
    else if (what > 1 - setsBack) nowMs -= pick([900, 1000, 1001, 2000, hourMs]);
    // What would be told to each lane now, and later.
    for (const lane of lanes) ledger.acquire(state, moment(), { id: 'asks', lane, cost: 1 + (n % 3) }, rules);
    const wrong = ledger.difference();
    if (wrong) return wrong;
  }
  return undefined;
}

/** How long each refusal stops us: asked a millisecond before it ends, at its end, and after it. */
export function refusedWrong(ledger: Ledger): string | undefined {
  for (const rules of rulesDrawn) {
    const { periodMs } = rules;
    const lengths = [500, 30_000, hourMs, periodMs, 2 * hourMs, 5 * hourMs];
    const replies: Reply[] = [
      ...lengths.map(freezeMs => ({ headers: {}, refused: true, freezeMs })),
      ...lengths.map(ms => ({ headers: { resetSeconds: ms / 1000 }, refused: true })),
      ...[false, true].map(spent => ({ headers: {}, refused: true, spent })),
    ];
    const ends = [...lengths, ...lengths.map(ms => ms + 1000)].flatMap(ms => [ms - 1, ms, ms + 1, ms + 2]);
    for (const reply of replies)
      for (const answeredMs of [undefined, 20, periodMs / 2]) {
        const examined = compared(ledger);
        let state = examined.empty;
        const at = (ms: number): Moment => ({ earliestMs: beginMs + ms, latestMs: beginMs + ms });
        const send = (id: string, ms: number, heard: Reply) => {
          const done = granted(examined, state, beginMs + ms, rules, id);
          state = examined.settle(done.state, { earliestMs: done.atMs, latestMs: done.atMs }, id, heard, rules).state;
          return done.atMs - beginMs;
        };
        if (answeredMs !== undefined) send('first', 0, { headers: {}, refused: false });
        const refusedMs = send('second', answeredMs ?? 0, reply);
        for (const ms of ends)
          examined.acquire(state, at(refusedMs + ms), { id: 'asks', lane: 'interactive', cost: 1 }, rules);
        const wrong = examined.difference();
        if (wrong) return `after a refusal, ${JSON.stringify(reply)}: ${wrong}`;
      }
  }
  return undefined;
}

/** A reply: how long after the one before, what is left, and when the period ends. */
interface Told {
  readonly gapMs: number;
  /** Undefined: nothing is told. */
  readonly left: number | undefined;
  readonly resetSeconds: number | 'as a fixed period tells';
  /** A request that was sent right after the reply before is answered after this one. */
  readonly overtakes?: true;
}

/** Every short row of replies that show others: each is remembered as long as it must be. */
export function rememberedWrong(ledger: Ledger): string | undefined {
  const rules: Rules = { ...minute, credits: 200 };
  const { periodMs, credits } = rules;
  const gaps = [1, periodMs / 20 - 1, periodMs / 10, periodMs];
  const told = [1, 6, 9, 13].flatMap(less => gaps.map(gapMs => ({ gapMs, left: credits - less, resetSeconds: 30 })));
  return rowsWrong(ledger, rules, told, 3, repliedMs => {
    const endMs = repliedMs + 5 * periodMs;
    return [endMs - periodMs / 20, endMs - 1, endMs, endMs + periodMs / 20];
  });
}

/** Every short row of replies whose periods end at the same time or not, by a millisecond: it is fixed, or it slides. */
export function resetsWrong(ledger: Ledger, times = 4): string | undefined {
  const rules: Rules = { ...minute, periodMs: 10_000 };
  const rows = (gaps: readonly number[], resets: readonly number[]): Told[] =>
    gaps.flatMap(gapMs => resets.map((resetSeconds, n) => ({ gapMs, left: rules.credits - 4 - n, resetSeconds })));
  const fixed = (gaps: readonly number[]): Told[] =>
    gaps.flatMap(gapMs =>
      [rules.credits, rules.credits - 6].map(left => ({ gapMs, left, resetSeconds: 'as a fixed period tells' })),
    );
  const late: Told = { ...fixed([5000])[0]!, left: rules.credits - 4, overtakes: true };
  // The clock is set back as well.
  const backMs = 700 - hourMs;
  const sliding = [3000, 4001, backMs].flatMap(gapMs =>
    [2, undefined].map((left): Told => ({ gapMs, left, resetSeconds: 10 })),
  );
  sliding.push({ gapMs: 4001, left: undefined, resetSeconds: 10, overtakes: true });
  const soon = (repliedMs: number) => [repliedMs + 1, repliedMs + 3000];
  return (
    rowsWrong(ledger, rules, rows([999, 1000, 2001, 2002, 5000, 5001, 7998, 7999], [10, 7, 5]), times - 1, soon) ??
    rowsWrong(ledger, rules, [...fixed([700, 1002, 4500, 5001, 8997, 8998, 8999]), late], times - 1, soon) ??
    rowsWrong(ledger, rules, fixed([backMs, 5001, 8998]), times, soon) ??
    rowsWrong(ledger, rules, sliding, times, soon) ??
    rowsWrong(ledger, rules, rows([2001, 2002, 5001, 7999, 47_000], [10, 7]), times, soon)
  );
}

function rowsWrong(
  ledger: Ledger,
  rules: Rules,
  told: readonly Told[],
  times: number,
  asksAt: (repliedMs: number) => readonly number[],
): string | undefined {
  const examined = compared(ledger);
  const play = (before: State, atMs: number, asks: readonly number[], left: number): string | undefined => {
    for (const ms of asks) {
      const now = { earliestMs: ms, latestMs: ms };
      let had = before;
      // The first shows in the pace of the second.
      for (const cost of [rules.credits / 10, 3]) {
        const done = examined.acquire(had, now, { id: 'asks', lane: 'fresh', cost }, rules);
        if (done.granted) had = examined.settle(done.state, now, 'asks', { headers: {}, refused: false }, rules).state;
      }
    }
    if (left === 0 || examined.difference()) return examined.difference();
    for (const { gapMs, left: remaining, resetSeconds, overtakes } of told) {
      const behind = overtakes && granted(examined, before, atMs + 1, rules, 'behind');
      const sent = granted(examined, behind?.state ?? before, atMs + gapMs, rules);
      const secondsAt = (ms: number) =>
        typeof resetSeconds === 'number' ? resetSeconds : Math.ceil((rules.periodMs - (ms % rules.periodMs)) / 1000);
      const hear = (had: State, id: string, countedMs: number) => {
        const headers = remaining === undefined ? {} : { remaining, resetSeconds: secondsAt(countedMs) };
        const now = { earliestMs: sent.atMs, latestMs: sent.atMs };
        return examined.settle(had, now, id, { headers, refused: false }, rules).state;
      };
      const first = hear(sent.state, 'sent', sent.atMs);
      const state = behind ? hear(first, 'behind', behind.atMs) : first;
      const wrong = play(state, sent.atMs, [...asks, ...asksAt(sent.atMs + 1)], left - 1);
      if (wrong) return `${gapMs} ms later ${remaining} are left, for ${secondsAt(sent.atMs)} s; ${wrong}`;
    }
    return undefined;
  };
  return play(examined.empty, beginMs, [], times);
}

/** A request is granted, as soon as it may be. */
function granted(
  ledger: Ledger,
  before: State,
  fromMs: number,
  rules: Rules,
  id = 'sent',
): { state: State; atMs: number } {
  let [state, atMs] = [before, fromMs];
  for (let n = 0; n < 100; n++) {
    const now = { earliestMs: atMs, latestMs: atMs };
    const done = ledger.acquire(state, now, { id, lane: 'interactive', cost: 1 }, rules);
    ({ state } = done);
    if (done.granted) break;
    atMs = done.waitUntilMs;
  }
  return { state, atMs };
}
