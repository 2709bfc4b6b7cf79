/**
 * Takes the limits that the source reports into the state of the ledger: Remaining and Reset, the use of other clients,
 * and the length of a refusal. Pure, like the ledger.
 */
import type { RateHeaders, Reply, Rules, Source, State } from './ledger.ts';

export const secondMs = 1000;
/** How long others are remembered, and a source that was seen to slide. */
const memoryPeriods = 5;
/** The use of other clients is stored once for each tenth of a period. */
const cellsPerPeriod = 10;
/** A reset is known to a second either way; one that has not moved after this does not slide. */
const standsStillMs = 5000;
/** A 429 that asks for more than this is a mistake. */
const longestFreezeMs = 3_600_000;

export function sane(headers: RateHeaders): RateHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => Number.isFinite(value) && value >= 0));
}

/** How long a refusal (429) stops all requests to the source, in ms. */
export function freezeMs(state: State, nowMs: number, reply: Reply, rules: Rules): number {
  const { headers } = reply;
  if (reply.freezeMs !== undefined) return Math.min(reply.freezeMs, Math.max(rules.periodMs, longestFreezeMs));
  if (reply.spent) return spentMs(state, nowMs, rules);
  if (headers.resetSeconds === undefined) return rules.periodMs + secondMs;
  return Math.min(headers.resetSeconds * secondMs, longestFreezeMs) + secondMs;
}

/**
 * What the source gives for a period is used up, and it does not say until when. A fixed period that held the oldest of
 * our requests is over one period after it, whenever it began, and a sliding one has let go of it. If we hold nothing but
 * what was refused, it was somebody else: then one request an hour finds out.
 */
function spentMs(state: State, nowMs: number, rules: Rules): number {
  const held = state.spent.map(([freeMs]) => freeMs).filter(freeMs => freeMs > nowMs);
  const oldest = Math.min(...held.filter(freeMs => freeMs <= state.answeredMs + rules.periodMs));
  const lastsMs = Number.isFinite(oldest) ? Math.max(oldest - nowMs, longestFreezeMs) : longestFreezeMs;
  return Math.min(lastsMs, rules.periodMs);
}

/**
 * From this time on, our credits may be in the count of the source: from the grant, or in a fixed period from its
 * start. (Otherwise our use in the period before would hide the use of others in this one.)
 */
export function countedFromMs(state: State, grantedMs: number): number {
  return state.source?.fixed ? Math.max(state.source.resetFromMs - 1, grantedMs) : grantedMs;
}

/**
 * Notes the use of others. Only the maximum of the last periods is needed, so values below a later one are dropped, and
 * of the rest a few per period are enough.
 */
export function addOthers(others: State['others'], atMs: number, credits: number, periodMs: number): State['others'] {
  if (credits === 0) return others;
  const untilMs = atMs + memoryPeriods * periodMs;
  const cell = (ms: number) => Math.floor(ms / (periodMs / cellsPerPeriod));
  const more = others.filter(([, before]) => before > credits);
  const last = more.at(-1);
  if (last && cell(last[0]) === cell(untilMs)) return [...more.slice(0, -1), [untilMs, last[1]]];
  return [...more, [untilMs, credits]];
}

/**
 * Takes over Remaining and Reset. In a fixed period Remaining only falls until the reset, so the least one counts, in
 * whatever order the replies come in, and what is in flight is taken off it. Two resets less than a period apart prove
 * that the period slides: then the newest Remaining counts, and our own credits come back to it as they get free.
 */
export function believe(
  state: State,
  headers: RateHeaders,
  grantedMs: number,
  repliedMs: number,
  cost: number,
  rules: Rules,
): State {
  const { source } = state;
  if (headers.remaining === undefined) {
    return source ? { ...state, source: { ...source, remaining: source.remaining - cost } } : state;
  }
  const resetMs = Math.min((headers.resetSeconds ?? Number.POSITIVE_INFINITY) * secondMs, rules.periodMs);
  const said: Source = {
    remaining: headers.remaining,
    untilMs: repliedMs + resetMs,
    sinceMs: repliedMs,
    fixed: false,
    resetFromMs: grantedMs + resetMs - secondMs,
    resetToMs: repliedMs + resetMs + secondMs,
  };
  if (!source) return { ...state, source: said };
  if (isSameReset(said, source, 0)) {
    const same = sameSource(source, said, grantedMs);
    if (repliedMs >= state.slidingUntilMs) return { ...state, source: same };
    // Resets that move evenly are each the same as the one before: only narrowed down they prove it again.
    return { ...state, source: { ...said, resetFromMs: same.resetFromMs, resetToMs: same.resetToMs } };
  }
  const apartMs = Math.max(said.resetToMs - source.resetFromMs, source.resetToMs - said.resetFromMs);
  if (apartMs < rules.periodMs) {
    return { ...state, source: said, slidingUntilMs: repliedMs + memoryPeriods * rules.periodMs };
  }
  // A late reply from the period before.
  if (said.resetToMs < source.resetFromMs) return state;
  const periods = Math.round((said.resetToMs - source.resetToMs) / rules.periodMs);
  return { ...state, source: { ...said, fixed: source.fixed && isSameReset(said, source, periods * rules.periodMs) } };
}

function isSameReset(one: Source, other: Source, laterMs: number): boolean {
  return one.resetFromMs <= other.resetToMs + laterMs && other.resetFromMs + laterMs <= one.resetToMs;
}

function sameSource(source: Source, said: Source, grantedMs: number): Source {
  return {
    remaining: Math.min(said.remaining, source.remaining),
    untilMs: Math.min(said.untilMs, source.untilMs),
    sinceMs: source.sinceMs,
    fixed: source.fixed || grantedMs >= source.sinceMs + standsStillMs,
    resetFromMs: Math.max(said.resetFromMs, source.resetFromMs),
    resetToMs: Math.min(said.resetToMs, source.resetToMs),
  };
}
