/**
 * What a run will take, told before it begins: its requests by the readings that will make them, its time by the ledger that
 * will grant them. Nothing is written but what its own requests cost, and no run is opened; what is not known here is asked of the source, if it may be.
 */

import type { Context } from '../../app/context.ts';
import { type Catalog, partsOfBooks, partsOfVerifyBooks } from '../../sources/books/forecast.ts';
import { type Desk, type Planning, partsOfBackfill, partsOfSync } from '../../sources/helpdesk/forecast/lists.ts';
import { partsOfSweep, partsOfVerify } from '../../sources/helpdesk/forecast/sweep.ts';
import { count } from '../../words.ts';
import { empty, type Limits, type State } from '../budget/ledger.ts';
import type { SourceName } from '../http/request.ts';
import type { Ms } from '../reading/reading.ts';
import type { Range } from '../runs/runs.ts';
import { beginningMs, betweenStreamsMs, budgetOf, type Foreseen, paceOf, runsAtWork } from './forecast-rows.ts';
import { type Part, type Timed, timeOf } from './plan-time.ts';

export type Question =
  | { readonly kind: 'sync' | 'sweep'; readonly streams: readonly string[] }
  | { readonly kind: 'backfill'; readonly streams: readonly string[]; readonly range: Range }
  | { readonly kind: 'verify'; readonly streams: readonly string[]; readonly sample: number | null };

export interface Given {
  readonly ctx: Context;
  readonly desk: Desk;
  readonly catalog: Catalog;
  readonly limits: Readonly<Partial<Record<SourceName, Limits>>>;
  /** Whether credits may be used to count what there is. */
  readonly counts: boolean;
}

export interface Planned extends Omit<Foreseen, 'streams'> {
  readonly kind: Question['kind'];
  readonly at: string;
  readonly streams: Readonly<Record<string, StreamPlanned>>;
  readonly done_at: string;
  /** When everything that tickets, then messages, are read for is here; null where they are not read. */
  readonly tickets_in_at: string | null;
  readonly messages_in_at: string | null;
  /** How long a fresh change waits for its credits meanwhile, beyond the next slot of the schedule. */
  readonly fresh_waits_seconds: { readonly p50: number; readonly p95: number; readonly most: number } | null;
  readonly counted: readonly { readonly what: string; readonly credits: number }[];
  /** Something that matters could not be known: the figures are too low. */
  readonly incomplete: boolean;
}

export interface StreamPlanned {
  readonly requests: number;
  readonly credits: number;
  readonly seconds: number;
  readonly from: string;
  readonly until: string;
  /** The credits of a day are used up before its end: it goes on then. */
  readonly sleeps_until?: string;
}

/** Where no request of the last hours tells how long one takes. */
const assumedLatencyMs = 300;
const lately = 6 * 3_600_000;
/** From one stream to the next: a job ends, another one is taken up. */
const assumedBetweenMs = 100;
/** The catalog is not waited for longer; see context.ts. */
const longestWaitMs = 60_000;
const timeoutMs = 30_000;

export async function plan(question: Question, given: Given): Promise<Planned> {
  const { ctx, desk, counts } = given;
  const nowMs = ctx.clock.now();
  const planning: Planning = {
    ctx,
    nowMs,
    counts,
    desk,
    counted: [],
    assumed: new Set(),
    unknown: false,
    latencyMs: undefined,
  };
  const parts = await partsOf(planning, question, given);
  // They are no run's.
  const counted = ctx.helpdesk.send.takeCredits() + ctx.books.send.takeCredits();
  const others = await runsAtWork(ctx.pg, ctx.account);
  if (others.length > 0)
    planning.assumed.add(`run ${others.join(', ')} is at work as well: what it takes comes on top`);
  planning.assumed.add('nothing more changes meanwhile, and no request fails');
  const timed: Timed[] = [];
  let waits: readonly number[] = [];
  for (const source of ['helpdesk', 'books'] as const) {
    if (parts[source].length === 0) continue;
    const limits = given.limits[source];
    if (limits === undefined) continue;
    const pace = await paceFor(
      planning,
      source,
      limits,
      source === 'helpdesk' ? (planning.latencyMs ?? 0) : ctx.books.send.latencyMs(),
    );
    const { storeMs } = pace;
    const stored = parts[source].map(part => ({ ...part, storeMs: storeMs ?? part.storeMs }));
    const timing = timeOf(stored, pace, nowMs);
    timed.push(...timing.parts);
    if (source === 'helpdesk') ({ waits } = timing);
  }
  return told(question, planning, { timed, waits, counted });
}

async function partsOf(
  planning: Planning,
  question: Question,
  { catalog }: Given,
): Promise<Record<SourceName, readonly Part[]>> {
  const { streams: names } = question;
  if (question.kind === 'sweep') return { helpdesk: await partsOfSweep(planning, names), books: [] };
  if (question.kind === 'verify') {
    const { sample } = question;
    const isDesk = names.includes('tickets');
    return {
      helpdesk: isDesk ? await partsOfVerify(planning, sample) : [],
      books: await partsOfVerifyBooks(planning, catalog, { names, sample }),
    };
  }
  const range = question.kind === 'backfill' ? question.range : undefined;
  const isSync = range === undefined;
  const again = range?.again ?? false;
  return {
    helpdesk: range ? await partsOfBackfill(planning, names, range) : await partsOfSync(planning, names),
    books: await partsOfBooks(planning, catalog, { names, isSync, again }),
  };
}

/** The ledger as it stands, and as fast as the source has been. */
async function paceFor({ ctx, nowMs, assumed }: Planning, source: SourceName, limits: Limits, seenMs: number) {
  const key = { account: ctx.account, source };
  const state: State = { ...empty, ...(await budgetOf(ctx.pg, key)) };
  const since = new Date(nowMs - lately);
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
  if (others > 0) assumed.add(`others go on to use ${count(others, 'credit')} a period (${source})`);
  const rules = source === 'books' ? { ...limits, evenly: false, timeoutMs, longestWaitMs } : { ...limits, timeoutMs };
  return { state, rules, latencyMs, betweenMs, storeMs, beginMs };
}

function told(
  { kind }: Question,
  planning: Planning,
  { timed, waits, counted }: { timed: readonly Timed[]; waits: readonly number[]; counted: number },
): Planned {
  const { nowMs, assumed, unknown } = planning;
  // What only looks again brings nothing in.
  const reads = kind === 'sync' || kind === 'backfill';
  const endOf = (name: string) => timed.find(({ stream }) => stream === name)?.untilMs;
  const untilMs = Math.max(nowMs, ...timed.map(one => one.untilMs));
  const sum = (of: (one: Timed) => number) => timed.reduce((all, one) => all + of(one), 0);
  const at = (share: number) => secondsOf(waits[Math.min(waits.length - 1, Math.floor(share * waits.length))]!);
  const timeAt = (ms: Ms | undefined) => (ms === undefined ? null : isoOf(ms));
  return {
    kind,
    at: isoOf(nowMs),
    requests: sum(one => one.requests),
    credits: sum(one => one.credits),
    seconds: secondsOf(untilMs - nowMs),
    done_at: isoOf(untilMs),
    streams: Object.fromEntries(timed.map(one => [one.stream, streamOf(one)])),
    tickets_in_at: reads ? timeAt(endOf('tickets')) : null,
    messages_in_at: reads ? timeAt(endOf('messages')) : null,
    fresh_waits_seconds: waits.length > 0 ? { p50: at(0.5), p95: at(0.95), most: at(1) } : null,
    counted_with_credits: counted,
    counted: planning.counted,
    assumptions: [...assumed],
    incomplete: unknown,
  };
}

const streamOf = ({ requests, credits, fromMs, untilMs, sleepsUntilMs }: Timed): StreamPlanned => ({
  requests,
  credits,
  seconds: secondsOf(untilMs - fromMs),
  from: isoOf(fromMs),
  until: isoOf(untilMs),
  ...(sleepsUntilMs !== undefined && { sleeps_until: isoOf(sleepsUntilMs) }),
});

const secondsOf = (ms: number): number => Math.round(ms / 100) / 10;
const isoOf = (ms: Ms): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

/** What is kept with the run. Nothing where it would not be worth a comparison. */
export function foreseenOf({ incomplete, ...planned }: Planned): Foreseen | undefined {
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
