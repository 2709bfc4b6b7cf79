/**
 * The server of the model, from what the documentation says of limits: credits of a window, fixed or sliding, for all
 * clients together. It also keeps what the ledger does not see: when it truly counted each request.
 */
import type { RateHeaders } from '../../../../src/engine/budget/ledger.ts';
import type { World } from './worlds.ts';

export interface Use {
  readonly atMs: number;
  readonly cost: number;
  readonly ours: boolean;
}

export interface Answer {
  readonly refused: boolean;
  /** True words. What the ledger hears may be a lie. */
  readonly headers: RateHeaders;
  /** When the window of this answer ends; for a sliding one, when its oldest credit comes back. */
  readonly endsMs: number;
  /** What is left in that window at the most, as our later requests are counted. */
  readonly left: number;
  /** What others used in that window. */
  readonly others: number;
  /** Whether the server held anything of ours but this request. */
  readonly clean: boolean;
}

/** Requests count that are younger than a period, whatever window the server has: any window holds no more of them. */
export const inPeriod = (uses: readonly Use[], nowMs: number, periodMs: number): Use[] =>
  uses.filter(use => use.atMs > nowMs - periodMs);

const windowStart = (world: World, nowMs: number): number =>
  Math.floor((nowMs - world.phaseMs) / world.rules.periodMs) * world.rules.periodMs + world.phaseMs;

export const sumOf = (uses: readonly { readonly cost: number }[]): number => {
  let all = 0;
  for (const { cost } of uses) all += cost;
  return all;
};

/** Limits of requests in a time shorter than the period. */
export const windowsOf = ({ requestsPerSecond, further = [] }: World['rules']) => [
  { ms: 1000, requests: requestsPerSecond },
  ...further,
];

/** The fewest requests that all of them let go at once. */
export const leastWindow = (rules: World['rules']): number =>
  Math.min(...windowsOf(rules).map(({ requests }) => requests));

export function answer(
  world: World,
  uses: readonly Use[],
  nowMs: number,
  { cost, ours }: { cost: number; ours: boolean },
): { uses: readonly Use[]; answer: Answer } {
  const { periodMs } = world.rules;
  const limit = world.serverCredits ?? world.rules.credits;
  const fromMs = world.window === 'fixed' ? windowStart(world, nowMs) : nowMs - periodMs;
  const counted = uses.filter(use => (world.window === 'fixed' ? use.atMs >= fromMs : use.atMs > fromMs));
  const isFull = windowsOf(world.rules).some(
    ({ ms, requests }) => uses.filter(use => use.atMs > nowMs - ms).length >= requests,
  );
  const refused = sumOf(counted) + cost > limit || isFull;
  const charged = refused && !world.chargesRefused ? 0 : cost;
  const after = charged > 0 ? [...uses, { atMs: nowMs, cost: charged, ours }] : uses;
  const now = charged > 0 ? [...counted, { atMs: nowMs, cost: charged, ours }] : counted;
  const endsMs =
    world.window === 'fixed'
      ? fromMs + periodMs
      : ((world.resets === 'all' ? now.at(-1) : now[0])?.atMs ?? nowMs - periodMs) + periodMs;
  const left = Math.max(0, limit - sumOf(now));
  const headers: RateHeaders = {
    limit,
    remaining: left,
    used: charged,
    resetSeconds: Math.ceil((endsMs - nowMs) / 1000),
  };
  const others = sumOf(now.filter(use => !use.ours));
  const clean = !uses.some(use => use.ours && use.atMs > nowMs - 2 * periodMs - world.rules.timeoutMs);
  return { uses: after, answer: { refused, headers, endsMs, left, others, clean } };
}
