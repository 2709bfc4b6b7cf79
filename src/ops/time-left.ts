/** Estimates the time until all pending records are read, at the configured limits. */
import type { Config } from '../app/config.ts';
import type { SourceName } from '../engine/http/request.ts';

/** A stream that is fetched by id. */
export interface Waiting {
  readonly source: SourceName;
  /** Pending tickets or volumes. */
  readonly waiting: number;
  /** End of the used-up daily quota. */
  readonly sleeps_until: Date | null;
}

/**
 * Seconds; null if nothing is pending or the limits are unknown. Two credits per ticket with messages, one request per
 * volume. If the daily quota is used up, the time begins when it resets.
 */
export function timeLeft(
  { source, waiting, sleeps_until }: Waiting,
  config: Pick<Config, 'limits' | 'books'> | undefined,
  nowMs: number,
): number | null {
  if (waiting === 0 || config === undefined) return null;
  const limits = source === 'books' ? config.books?.limits : config.limits;
  if (limits === undefined) return null;
  const { credits, reserve, periodMs, requestsPerSecond } = limits;
  if (source === 'helpdesk') return Math.ceil((waiting * 2 * periodMs) / (credits - reserve) / 1000);
  // All requests of a day may be sent immediately.
  const days = Math.ceil(waiting / credits) - 1;
  const sleepsMs = Math.max(0, (sleeps_until?.getTime() ?? 0) - nowMs);
  return Math.ceil((sleepsMs + days * periodMs) / 1000 + (waiting - days * credits) / requestsPerSecond);
}
