/**
 * Computes how long requests take, with the same ledger that will grant them, on an imagined clock. Each reader sends a
 * request, waits for the reply, stores it and continues, as the real loops do. Streams of one source follow each other.
 *
 * A long run of equal requests becomes regular once the credits of a whole period have been used: later periods grant
 * what earlier ones did. So a few periods are measured, and whole multiples of them are skipped.
 */
import * as ledger from '../budget/ledger.ts';
import type { Ms } from '../reading/reading.ts';

/** Equal requests in a row. */
export interface Asked {
  readonly cost: number;
  readonly lane: ledger.Lane;
  readonly many: number;
}

export interface Part {
  readonly stream: string;
  /** Concurrent readers. Each sends its requests one after another. */
  readonly readers: readonly (readonly Asked[])[];
  /** Time to store a reply and look up the next request. */
  readonly storeMs: number;
}

export interface Timed {
  readonly stream: string;
  readonly requests: number;
  readonly credits: number;
  readonly fromMs: Ms;
  readonly untilMs: Ms;
  /** The time when the quota resets, if the work is deferred. */
  readonly deferredUntilMs?: Ms;
}

export interface Timing {
  readonly parts: readonly Timed[];
  readonly untilMs: Ms;
  /** How long a fresh request would wait for credits during the work, sampled at intervals, in ms, ascending. */
  readonly waits: readonly number[];
}

export interface Pace {
  readonly state: ledger.State;
  readonly rules: ledger.Rules;
  readonly latencyMs: number;
  /** Between two streams of a run. */
  readonly betweenMs: number;
  /** Before the first request of a stream, and after its last one. */
  readonly beginMs: number;
}

/** Periods before a tail counts as regular, and periods that are measured. */
const settlingPeriods = 3;
const measuredPeriods = 4;
/** Shorter tails are not worth skipping. */
const longTail = 1000;
/**
 * Sampling interval for fresh requests, in periods: deliberately no whole fraction. A slot of the schedule needs two
 * requests.
 */
const lookPeriods = 0.0731;
const freshCost = 2;

interface Reader {
  readonly name: string;
  readonly asked: readonly Asked[];
  /** The current item, and how many of its requests are left. */
  at: number;
  left: number;
  nextMs: number;
  flight: string | undefined;
  /** When its current request was sent; for a measured tail, the requests left at that time. */
  sinceMs: number;
  measured: { readonly fromMs: number; readonly left: number } | undefined;
}

/** `state` is as of `nowMs` or earlier. Other clients are assumed to continue as before. */
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

  const run = ({ stream, readers: askedBy, storeMs }: Part): void => {
    const fromMs = clockMs + skippedMs;
    clockMs += beginMs;
    let [count, credits] = [0, 0];
    let deferredUntilMs: number | undefined;
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
        // The work is deferred, and resumes at this time.
        if (acquired.tooLong) deferredUntilMs ??= reader.nextMs + skippedMs;
      }
    }
    const untilMs = clockMs + skippedMs;
    timed.push({ stream, requests: count, credits, fromMs, untilMs, ...(deferredUntilMs && { deferredUntilMs }) });
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

/**
 * Skips whole multiples of the measured periods, if the tail is long and regular. The clock of the reader does not move
 * meanwhile.
 */
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
  // The remaining tail is shorter than the measured part.
  reader.sinceMs = Number.POSITIVE_INFINITY;
  reader.measured = undefined;
  if (reader.left > 0) return { ms: times * (nowMs - fromMs), requests: times * done };
  // The last request of the tail is sent normally.
  reader.left = 1;
  return { ms: times * (nowMs - fromMs), requests: times * done - 1 };
}

/** How long a fresh request would wait if it came now. */
function freshWaitMs(before: ledger.State, nowMs: number, rules: ledger.Rules): number {
  const ask = { id: 'a fresh change', lane: 'fresh', cost: freshCost } as const;
  // Requests in flight are answered meanwhile.
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
