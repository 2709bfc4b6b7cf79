/**
 * Forecasts a run before it begins: the imagined readings give its requests, and the ledger gives its time. A forecast
 * writes nothing but the cost of its own requests, and opens no run. Unknown figures are requested from the source, if
 * allowed.
 */

import { count } from '../../words.ts';
import { empty, type State } from '../budget/ledger.ts';
import { type Context, type OpenSource, takeCredits } from '../context.ts';
import type { Ms } from '../reading/reading.ts';
import { beginningMs, betweenStreamsMs, budgetOf, type ForecastTotals, paceOf, runsAtWork } from './forecast-rows.ts';
import { type Part, type Timed, timeOf } from './plan-time.ts';
import type { Planning, Question } from './planning.ts';

export interface Given {
  readonly ctx: Context;
  /** Whether credits may be used to count what the sources hold. */
  readonly counts: boolean;
}

export interface Planned extends Omit<ForecastTotals, 'streams'> {
  readonly kind: Question['kind'];
  readonly at: string;
  readonly streams: Readonly<Record<string, StreamPlanned>>;
  readonly done_at: string;
  /** How long a fresh change waits for credits during the run, beyond the next slot of the schedule. */
  readonly fresh_waits_seconds: { readonly p50: number; readonly p95: number; readonly most: number } | null;
  readonly counted: readonly { readonly what: string; readonly credits: number }[];
  /** An important figure is unknown, so the others are too low. */
  readonly incomplete: boolean;
}

interface StreamPlanned {
  readonly requests: number;
  readonly credits: number;
  readonly seconds: number;
  readonly from: string;
  readonly until: string;
  /** The daily quota is used up before the end; the run resumes at this time. */
  readonly deferred_until?: string;
}

/** Latency of requests if none was measured recently. */
const assumedLatencyMs = 300;
const recentMs = 6 * 3_600_000;
/** Assumed time from the end of one job to the start of the next one. */
const assumedBetweenMs = 100;
const timeoutMs = 30_000;

export async function plan(question: Question, { ctx, counts }: Given): Promise<Planned> {
  const nowMs = ctx.clock.now();
  const planning: Planning = {
    ...{ ctx, nowMs, counts },
    counted: [],
    assumed: new Set(),
    unknown: false,
  };
  const parts = new Map<OpenSource, readonly Part[]>();
  for (const source of ctx.sources.values()) parts.set(source, await source.declaration.forecast(planning, question));
  // Credits of the forecast itself, which belong to no run.
  const counted = takeCredits(ctx);
  const others = await runsAtWork(ctx.pg, ctx.account);
  if (others.length > 0) planning.assumed.add(`run ${others.join(', ')} is running as well; its cost comes on top`);
  planning.assumed.add('nothing more changes meanwhile, and no request fails');
  const timed: Timed[] = [];
  const waits: number[] = [];
  for (const [source, unstored] of parts) {
    if (unstored.length === 0) continue;
    const pace = await paceFor(planning, source);
    const { storeMs } = pace;
    const stored = unstored.map(part => ({ ...part, storeMs: storeMs ?? part.storeMs }));
    const timing = timeOf(stored, pace, nowMs);
    timed.push(...timing.parts);
    // A deferred run holds up no fresh change.
    if (source.longestWaitMs === undefined) for (const wait of timing.waits) waits.push(wait);
  }
  return told(question, planning, { timed, waits, counted });
}

/** The current ledger, and the recent speed of the source. */
async function paceFor({ ctx, nowMs, assumed }: Planning, open: OpenSource) {
  const { name: source, limits, longestWaitMs } = open;
  const seenMs = open.send.latencyMs();
  const key = { account: ctx.account, source };
  const state: State = { ...empty, ...(await budgetOf(ctx.pg, key)) };
  const since = new Date(nowMs - recentMs);
  const measured = await paceOf(ctx.pg, key, since);
  const latencyMs = Math.round(measured.latencyMs ?? (seenMs || assumedLatencyMs));
  const isMeasured = measured.latencyMs !== undefined || seenMs > 0;
  assumed.add(`a request takes ${latencyMs} ms (${isMeasured ? 'measured' : 'assumed'}, ${source})`);
  const storeMs = measured.storeMs === undefined ? undefined : Math.round(measured.storeMs);
  assumed.add(
    `to store a reply takes ${storeMs === undefined ? '8 to 20 ms (assumed' : `${storeMs} ms (measured`}, ${source})`,
  );
  const betweenMs = (await betweenStreamsMs(ctx.pg, ctx.account, since)) ?? assumedBetweenMs;
  const beginMs = await beginningMs(ctx.pg, ctx.account, { since, perCreditMs: latencyMs + (storeMs ?? 0) });
  const others = Math.max(0, ...state.others.map(([, credits]) => credits));
  if (others > 0) assumed.add(`other clients keep using ${count(others, 'credit')} a period (${source})`);
  const rules = { ...limits, timeoutMs, ...(longestWaitMs !== undefined && { longestWaitMs }) };
  return { state, rules, latencyMs, betweenMs, storeMs, beginMs };
}

function told(
  { kind }: Question,
  planning: Planning,
  { timed, waits, counted }: { timed: readonly Timed[]; waits: readonly number[]; counted: number },
): Planned {
  const { nowMs, assumed, unknown } = planning;
  const untilMs = Math.max(nowMs, ...timed.map(one => one.untilMs));
  const sum = (of: (one: Timed) => number) => timed.reduce((all, one) => all + of(one), 0);
  const at = (share: number) => secondsOf(waits[Math.min(waits.length - 1, Math.floor(share * waits.length))]!);
  return {
    kind,
    at: isoOf(nowMs),
    requests: sum(one => one.requests),
    credits: sum(one => one.credits),
    seconds: secondsOf(untilMs - nowMs),
    done_at: isoOf(untilMs),
    streams: Object.fromEntries(timed.map(one => [one.stream, streamOf(one)])),
    fresh_waits_seconds: waits.length > 0 ? { p50: at(0.5), p95: at(0.95), most: at(1) } : null,
    counted_with_credits: counted,
    counted: planning.counted,
    assumptions: [...assumed],
    incomplete: unknown,
  };
}

const streamOf = ({ requests, credits, fromMs, untilMs, deferredUntilMs }: Timed): StreamPlanned => ({
  requests,
  credits,
  seconds: secondsOf(untilMs - fromMs),
  from: isoOf(fromMs),
  until: isoOf(untilMs),
  ...(deferredUntilMs !== undefined && { deferred_until: isoOf(deferredUntilMs) }),
});

const secondsOf = (ms: number): number => Math.round(ms / 100) / 10;
const isoOf = (ms: Ms): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

/** The part of a forecast that is stored with the run. Undefined if a comparison would mean nothing. */
export function totalsOf({ incomplete, ...planned }: Planned): ForecastTotals | undefined {
  if (incomplete) return undefined;
  const { requests, credits, seconds, counted_with_credits, assumptions } = planned;
  const streams = Object.fromEntries(
    Object.entries(planned.streams).map(([name, one]) => [
      name,
      { requests: one.requests, credits: one.credits, seconds: one.seconds },
    ]),
  );
  return { requests, credits, seconds, streams, counted_with_credits, assumptions };
}
