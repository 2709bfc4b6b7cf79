/**
 * The dialect of most services: a bearer token, 429 with `Retry-After` at a limit, 404 for a record that does not exist.
 * A service with a dialect of its own overrides what differs.
 */
import { exitCodes, Fatal, Gone, Retry } from '../../errors.ts';
import { type Cause, rightMissing, tokenRefused } from './causes.ts';
import type { Dialect, Said } from './dialect.ts';

/** Without `Retry-After` the first refusal pauses this long, each further one twice as long. */
const firstPauseMs = 1000;
const longestPauseMs = 60_000;

/** `address` and `token` are the settings that people change. */
export function bearerDialect({ address, token }: { address: string; token: string }): Dialect {
  return {
    idTypes: ['string', 'number'],
    needsToken: () => true,
    query: () => ({}),
    secrets: [],
    rate: () => ({}),
    refusal: ({ status, header }, refusals) => (status === 429 ? { freezeMs: pauseMs(header, refusals) } : undefined),
    failure(_request, { status, text }, { shown, asOf }) {
      const what = `${shown}: ${status}`;
      if (status === 401) return refusal(what, tokenRefused(token));
      // An HTML page comes from a proxy or a firewall, so the refusal is often temporary.
      if (status === 403 && text.trimStart().startsWith('<')) return new Retry(what);
      if (status === 403) return refusal(what, rightMissing(`Give ${token} the right to read it.`), true);
      if (status === 404) return new Gone(what, asOf, 'The source does not have it any more.');
      if (status === 429 || status === 408 || status >= 500) return new Retry(what);
      return new Fatal(what, `Check ${address}.`);
    },
  };
}

/** The source refuses the token, or this use of it. `shown`: the request and its status. */
export const refusal = (shown: string, { what, remedy }: Pick<Cause, 'what' | 'remedy'>, isDenied = false): Fatal =>
  new Fatal(`${shown}: ${what}`, remedy, exitCodes.refused, isDenied);

/** How long the refusal at a limit stops everybody. `refusals`: of this request, with this one. */
export const pauseMs = (header: Said['header'], refusals: number): number =>
  retryAfterMs(header) ?? Math.min(firstPauseMs * 2 ** (refusals - 1), longestPauseMs);

/** Seconds, or a date by the clock of the source. */
export function retryAfterMs(header: Said['header']): number | undefined {
  const value = header('retry-after')?.trim();
  if (!value) return undefined;
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  const ms = Date.parse(value) - Date.parse(header('date') ?? '');
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
