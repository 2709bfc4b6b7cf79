/** Authentication, rate limit headers and errors of the help desk (spec, Authentication, Limits, Errors). */

import { parseJson } from '../../engine/exact-json.ts';
import { pauseMs, refusal } from '../../engine/http/bearer-dialect.ts';
import { rightMissing, tokenRefused } from '../../engine/http/causes.ts';
import type { Dialect } from '../../engine/http/dialect.ts';
import { isObject } from '../../engine/http/request.ts';
import { Fatal, Gone, Retry } from '../../errors.ts';

/** Spec, Authentication. */
const tokenMade =
  'A token is made by installing the API app in the settings of the help desk (apps tab); each installed app has its own.';

export const helpdeskDialect: Dialect = {
  idTypes: ['string'],
  needsToken: () => true,
  query: () => ({}),
  secrets: [],
  rate(header) {
    const number = (name: string) => {
      const value = header(`rate-limit-${name}`);
      return value !== undefined && /^\d+(\.\d+)?$/.test(value.trim()) ? Number(value) : undefined;
    };
    const [limit, remaining, used, resetSeconds] = ['limit', 'remaining', 'used', 'reset'].map(number);
    return {
      ...(limit !== undefined && { limit }),
      ...(remaining !== undefined && { remaining }),
      ...(used !== undefined && { used }),
      ...(resetSeconds !== undefined && { resetSeconds }),
    };
  },
  // Without the header the refusal may come from a proxy. Growing pauses find its limit; a pause of a whole period
  // would not.
  refusal({ status, header }, refusals) {
    if (status !== 429) return undefined;
    return header('rate-limit-reset') === undefined ? { freezeMs: pauseMs(header, refusals) } : {};
  },
  failure(_request, { status, text }, { shown, asOf }) {
    const what = `${shown}: ${status}`;
    if (status === 401) return refusal(what, tokenRefused('HELPDESK_TOKEN', tokenMade));
    // A 403 or 404 without a message is not from the API. A proxy, for example, does not know which records exist.
    if ((status === 403 || status === 404) && messageOf(text) === undefined) return new Retry(what);
    if (status === 403) return refusal(what, rightMissing('Install the API app with access to all data.'), true);
    if (status === 404) return new Gone(what, asOf);
    if (status === 429 || status >= 500 || status === 408) return new Retry(what);
    return new Fatal(what, 'Check that HELPDESK_BASE_URL is the API of the help desk and ends in /api/v1.');
  },
  words: ({ text }) => messageOf(text),
};

/** The `message` of a 400-series error (spec, Errors); undefined without one. */
function messageOf(text: string): string | undefined {
  try {
    const body: unknown = parseJson(text);
    if (isObject(body) && typeof body.message === 'string') return body.message;
  } catch {
    // The body is not JSON. The status alone decides.
  }
  return undefined;
}
