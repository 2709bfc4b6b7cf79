/**
 * How long requests take, by the very ledger that will grant them, on a clock that is only imagined. Each reader asks, waits
 * for the reply, stores it and asks again, as the loops do; streams of one source follow each other.
 *
 * A long tail of equal requests is regular once the credits of a whole period have gone round: what the ledger granted in
 * some periods it grants in the next ones. So these are measured, and the rest is passed over by whole multiples of them.
 */
import * as ledger from '../budget/ledger.ts';
import type { Ms } from '../reading/reading.ts';

/** Requests that follow each other and cost the same. */
export interface Asked {
  readonly cost: number;
  readonly lane: ledger.Lane;
  readonly many: number;
}

/** What one stream asks for. */
export interface Part {
  readonly stream: string;
  /** Each asks one request after the other, beside the others. */
  readonly readers: readonly (readonly Asked[])[];
  /** It waits so long for something else than credits. */
  readonly pauseMs?: number;
  /** To store a reply, and look up what comes next. */
  readonly storeMs: number;
}

export interface Timed {
  readonly stream: string;
  readonly requests: number;
  readonly credits: number;
  readonly fromMs: Ms;
  readonly untilMs: Ms;
  /** The first time at which credits come back only after so long that nobody waits for it. */
  readonly sleepsUntilMs?: Ms;
}

export interface Timing {
  readonly parts: readonly Timed[];
  readonly untilMs: Ms;
  /** How long a fresh request would wait for its credits meanwhile, looked at again and again, in ms, in their order. */
  readonly waits: readonly number[];
}

export interface Pace {
  readonly state: ledger.State;
  readonly rules: ledger.Rules;
  readonly latencyMs: number;
  /** Between two streams of a run. */
  readonly betweenMs: number;
  /** Before a stream makes its first request, and after its last one. */
  readonly beginMs: number;
}

/** A tail is measured over so many periods, after so many in which it has become regular. */
const settlingPeriods = 3;
const measuredPeriods = 4;
/** Fewer requests than this are not worth it. */
const longTail = 1000;
/** So often it is looked how long a fresh request would wait: no whole part of a period. A slot of the schedule needs two. */
const lookPeriods = 0.0731;
const freshCost = 2;

interface Reader {
  readonly name: string;
  readonly asked: readonly Asked[];
  /** Which of them, and how many of it are left. */
  at: number;
  left: number;
  nextMs: number;
  flight: string | undefined;
  /** Since when it has asked for what it asks for now; where a tail is measured, what was left then. */
  sinceMs: number;
  measured: { readonly fromMs: number; readonly left: number } | undefined;
}

/** `state` is as of `nowMs` or earlier. Others use the source as they have, for as long as it takes. */
export function timeOf(parts: readonly Part[], pace: Pace, nowMs: Ms): Timing {
  const { rules, latencyMs, betweenMs, beginMs } = pace;
  const others = Math.max(0, ...pace.state.others.map(([, credits]) => credits));
  const forever: ledger.State['others'] = others > 0 ? [[Number.MAX_SAFE_INTEGER, others]] : [];
  let state: ledger.State = { ...pace.state, others: forever };
  let clockMs = nowMs;
  let skippedMs = 0;
  let n = 0;
  const waits: number[] = [];
  let looksAtMs = nowMs;
  const timed: Timed[] = [];

  const run = ({ stream, readers: askedBy, pauseMs = 0, storeMs }: Part): void => {
    const fromMs = clockMs + skippedMs;
    clockMs += beginMs;
    let [count, credits] = [0, 0];
    let sleepsUntilMs: number | undefined;
    const readers = askedBy.map((asked, i) => readerOf(`${stream} ${i}`, asked, clockMs)).filter(hasWork);
    while (readers.length > 0) {
      const reader = readers.reduce((first, one) => (one.nextMs < first.nextMs ? one : first));
      clockMs = Math.max(clockMs, reader.nextMs);
      const now = { earliestMs: clockMs, latestMs: clockMs };
      if (reader.flight !== undefined) {
        ({ state } = ledger.settle(state, now, reader.flight, { headers: {}, refused: false }, rules));
        reader.flight = undefined;
        if (clockMs >= looksAtMs) {
          looksAtMs = clockMs + lookPeriods * rules.periodMs;
          waits.push(freshWaitMs(state, clockMs, rules));
        }
        reader.nextMs = clockMs + storeMs;
        goOn(reader, clockMs);
        if (!hasWork(reader)) {
          readers.splice(readers.indexOf(reader), 1);
          clockMs += storeMs;
        } else if (readers.length === 1) {
          const passed = passOver(reader, clockMs, rules);
          skippedMs += passed.ms;
          count += passed.requests;
          credits += passed.requests * reader.asked[reader.at]!.cost;
        }
        continue;
      }
      const { cost, lane } = reader.asked[reader.at]!;
      const ask = { id: `${reader.name} ${n}`, lane, cost };
      const acquired = ledger.acquire(state, now, ask, rules);
      ({ state } = acquired);
      if (acquired.granted) {
        n++;
        count++;
        credits += cost;
        reader.flight = ask.id;
        reader.nextMs = clockMs + latencyMs;
      } else {
        reader.nextMs = Math.max(clockMs + 1, acquired.waitUntilMs);
        // The work ends, and goes on then.
        if (acquired.tooLong) sleepsUntilMs ??= reader.nextMs + skippedMs;
      }
    }
    clockMs += pauseMs;
    const untilMs = clockMs + skippedMs;
    timed.push({ stream, requests: count, credits, fromMs, untilMs, ...(sleepsUntilMs && { sleepsUntilMs }) });
  };

  for (const [i, part] of parts.entries()) {
    if (i > 0) clockMs += betweenMs;
    run(part);
  }
  return { parts: timed, untilMs: clockMs + skippedMs, waits: waits.toSorted((a, b) => a - b) };
}

const hasWork = ({ at, asked }: Reader): boolean => at < asked.length;

function readerOf(name: string, asked: readonly Asked[], nowMs: number): Reader {
  const some = asked.filter(({ many }) => many > 0);
  const start = { at: 0, left: some[0]?.many ?? 0, nextMs: nowMs, flight: undefined, sinceMs: nowMs };
  return { name, asked: some, ...start, measured: undefined };
}

function goOn(reader: Reader, nowMs: number): void {
  if (--reader.left > 0) return;
  reader.at++;
  reader.left = reader.asked[reader.at]?.many ?? 0;
  reader.sinceMs = nowMs;
  reader.measured = undefined;
}

/** Whole multiples of what was measured, if the tail is long and regular by now. Its clock stands still meanwhile. */
function passOver(reader: Reader, nowMs: number, { periodMs }: ledger.Rules): { ms: number; requests: number } {
  const nothing = { ms: 0, requests: 0 };
  if (reader.measured === undefined) {
    if (reader.left > longTail && nowMs - reader.sinceMs >= settlingPeriods * periodMs)
      reader.measured = { fromMs: nowMs, left: reader.left };
    return nothing;
  }
  const { fromMs, left } = reader.measured;
  if (nowMs - fromMs < measuredPeriods * periodMs) return nothing;
  const done = left - reader.left;
  const times = Math.floor(reader.left / done);
  reader.left -= times * done;
  // What is left is less than was measured.
  reader.sinceMs = Number.POSITIVE_INFINITY;
  reader.measured = undefined;
  if (reader.left > 0) return { ms: times * (nowMs - fromMs), requests: times * done };
  // The last one is asked for.
  reader.left = 1;
  return { ms: times * (nowMs - fromMs), requests: times * done - 1 };
}

/** What would be granted to it, were it to come now. */
function freshWaitMs(before: ledger.State, nowMs: number, rules: ledger.Rules): number {
  const ask = { id: 'a fresh change', lane: 'fresh', cost: freshCost } as const;
  // What is on its way is answered meanwhile.
  const now = { earliestMs: nowMs, latestMs: nowMs };
  const answered = { headers: {}, refused: false };
  let state = before.flights.reduce((one, { id }) => ledger.settle(one, now, id, answered, rules).state, before);
  for (let atMs = nowMs; ; ) {
    const acquired = ledger.acquire(state, { earliestMs: atMs, latestMs: atMs }, ask, rules);
    if (acquired.granted || acquired.tooLong || atMs - nowMs > rules.periodMs * 2) return atMs - nowMs;
    ({ state } = acquired);
    atMs = Math.max(atMs + 1, acquired.waitUntilMs);
  }
}
