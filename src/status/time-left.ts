/** Estimates the time until all pending records are read, at the configured limits. */
import type { SourceName } from '../engine/http/request.ts';
import { streams } from '../sources/index.ts';
import type { Served } from './accounts.ts';

/** A stream of an account. */
export interface Waiting {
  readonly source: SourceName;
  readonly stream: string;
  /** Number of pending records. */
  readonly waiting: number;
  /** The state in sync.status. A failing stream has no time left. */
  readonly state: string;
  /** End of the used-up daily quota. */
  readonly deferred_until: Date | null;
}

/**
 * Seconds; null if nothing is pending or the limits are unknown. If the quota is used up, the time begins when it
 * resets.
 */
export function timeLeft(
  { source, stream, state, waiting, deferred_until }: Waiting,
  served: Pick<Served, 'sources'> | undefined,
  nowMs: number,
): number | null {
  const limits = served?.sources.get(source)?.limits;
  const pending = streams.find(one => one.source === source && one.name === stream)?.pending;
  if (waiting === 0 || state === 'failing' || limits === undefined || pending === undefined) return null;
  const { credits, reserve, periodMs, requestsPerSecond, evenly = true } = limits;
  const needed = waiting * pending.cost;
  if (evenly) return Math.ceil((needed * periodMs) / (credits - reserve) / 1000);
  // All credits of the first period may be spent immediately.
  const periods = Math.ceil(needed / credits) - 1;
  const deferredMs = Math.max(0, (deferred_until?.getTime() ?? 0) - nowMs);
  return Math.ceil((deferredMs + periods * periodMs) / 1000 + (needed - periods * credits) / requestsPerSecond);
}
