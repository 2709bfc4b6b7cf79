/** Until what waits is in, at the credits that the limits allow. */
import type { Config } from '../app/config.ts';
import type { SourceName } from '../engine/http/request.ts';

/** Of a stream that is asked for by id. */
export interface Waiting {
  readonly source: SourceName;
  /** Tickets or volumes. */
  readonly waiting: number;
  /** The requests of the day are spent until then. */
  readonly sleeps_until: Date | null;
}

/**
 * In seconds; null if nothing waits, or no limits are known. Two credits for a ticket with its messages, one for a volume;
 * where the requests of the day are spent, only from when it goes on.
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
  // The requests of a day may all go at once.
  const days = Math.ceil(waiting / credits) - 1;
  const sleepsMs = Math.max(0, (sleeps_until?.getTime() ?? 0) - nowMs);
  return Math.ceil((sleepsMs + days * periodMs) / 1000 + (waiting - days * credits) / requestsPerSecond);
}
