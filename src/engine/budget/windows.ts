/** Limits of requests in a time shorter than the period of the credits: a second, and further ones. Pure, a part of the ledger. */
import type { Rules, State } from './ledger.ts';
import { secondMs } from './source-limits.ts';

/** At most so many requests in any stretch of this time. */
export interface Window {
  readonly ms: number;
  readonly requests: number;
}
/** Requests that count in a window until `freeMs`. */
export type Burst = [freeMs: number, requests: number][];

/** Requests are kept in at most this many sums a window, and a second in these. */
const sumsPerWindow = 120;
const sumsPerSecond = 20;

const windowsOf = ({ requestsPerSecond, further = [] }: Rules): readonly Window[] => [
  { ms: secondMs, requests: requestsPerSecond },
  ...further,
];
const burstOf = ({ burst, further }: State, windowMs: number): Burst =>
  windowMs === secondMs ? burst : (further.find(([ms]) => ms === windowMs)?.[1] ?? []);

/** A request that was answered at `repliedMs` counts for the whole length of each window. */
export function countIn(state: State, repliedMs: number, rules: Rules): Pick<State, 'burst' | 'further'> {
  const counted = (ms: number, sums: number) => added(burstOf(state, ms), repliedMs + ms, ms / sums);
  return {
    burst: counted(secondMs, sumsPerSecond),
    further: (rules.further ?? []).map(({ ms }) => [ms, counted(ms, sumsPerWindow)]),
  };
}

function added(burst: Burst, freeMs: number, cellMs: number): Burst {
  const last = burst.at(-1);
  if (!last || Math.floor(last[0] / cellMs) !== Math.floor(freeMs / cellMs)) return [...burst, [freeMs, 1]];
  return [...burst.slice(0, -1), [Math.max(last[0], freeMs), last[1] + 1]];
}

/** The requests that still count. */
export const stillCounted = ({ burst, further }: State, nowMs: number): Pick<State, 'burst' | 'further'> => {
  const left = (all: Burst) => all.filter(one => one[0] > nowMs);
  return { burst: left(burst), further: further.map(([ms, all]) => [ms, left(all)]) };
};

/**
 * When every window lets this request go. `wanted`: this request, and those ahead of it. `replies`: when each request in flight may be
 * answered.
 */
export const windowsFreeAtMs = (
  state: State,
  nowMs: number,
  { wanted, replies }: { wanted: number; replies: readonly number[] },
  rules: Rules,
): number =>
  Math.max(
    ...windowsOf(rules).map(({ ms, requests }) => {
      const flying = replies.map(replyMs => [replyMs + ms, 1] as const);
      const held = [...burstOf(state, ms), ...flying].filter(one => one[0] > nowMs);
      const count = held.reduce((sum, [, one]) => sum + one, 0);
      return whenFreed(held, nowMs, count + Math.min(wanted, requests) - requests);
    }),
  );

/** When `missing` more of these become free. */
export function whenFreed(
  sums: readonly (readonly [freeMs: number, ...amounts: number[]])[],
  nowMs: number,
  missing: number,
): number {
  if (missing <= 0) return nowMs;
  for (const one of sums.toSorted((a, b) => a[0] - b[0])) {
    if (one[0] > nowMs) for (let i = 1; i < one.length; i++) missing -= one[i]!;
    if (missing <= 0) return one[0];
  }
  return Number.POSITIVE_INFINITY;
}
