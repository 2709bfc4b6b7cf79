/**
 * Authorization and refusals of the book catalog. Its specification leaves both open (5 Authentication, 7 Errors, 8
 * Limits: not shown), so this file follows the field notes: a key for public data, a token for the library of its user;
 * failures have a `reason`. Newer services of this kind put the reason into `details` and `status`, so all three are
 * checked.
 */

import { parseJson } from '../../engine/exact-json.ts';
import { refusal, retryAfterMs } from '../../engine/http/bearer-dialect.ts';
import type { Dialect, Said } from '../../engine/http/dialect.ts';
import { isObject, type Request } from '../../engine/http/request.ts';
import { Fatal, Gone, Retry, type ShelfdeskError } from '../../errors.ts';

interface BooksAccess {
  apiKey?: string | undefined;
  country?: string | undefined;
  hasToken: boolean;
}

/** Reasons of a daily quota. `quotaExceeded` means a shorter quota if its message says so. */
const daily = ['dailyLimitExceeded', 'dailyLimitExceededUnreg', 'quotaExceeded'];
const brief = ['rateLimitExceeded', 'userRateLimitExceeded', 'rateLimitExceededUnreg', 'userRateLimitExceededUnreg'];
const briefToo = ['RATE_LIMIT_EXCEEDED', 'RESOURCE_EXHAUSTED'];
const wrongKey = ['keyInvalid', 'keyExpired', 'API_KEY_INVALID', 'API_KEY_EXPIRED', 'API_KEY_SERVICE_BLOCKED'];
const notForKey = ['accessNotConfigured', 'SERVICE_DISABLED', 'ipRefererBlocked', 'API_KEY_HTTP_REFERRER_BLOCKED'];

/** Any other reason may be a text about a person, which no message has. */
const known: ReadonlySet<string> = new Set([
  ...[...daily, ...brief, ...briefToo, ...wrongKey, ...notForKey],
  ...['unknownLocation', 'invalidUser', 'backendFailed', 'backendError', 'internalError', 'UNAVAILABLE', 'INTERNAL'],
  ...['authError', 'required', 'UNAUTHENTICATED', 'forbidden', 'insufficientPermissions', 'PERMISSION_DENIED'],
  ...['notFound', 'NOT_FOUND', 'badRequest', 'invalid', 'invalidParameter', 'INVALID_ARGUMENT'],
]);

const ofDays = /\bdays?\b|\bdaily\b|per_?day|\b1\/d\b/i;
const ofLess = /\b(second|minute|hour)s?\b|per_?(second|minute|hour)|\b1\/(s|min|h)\b/i;

const firstPauseMs = 1000;

export function booksDialect({ apiKey, country, hasToken }: BooksAccess): Dialect {
  const needsToken = (request: Request<unknown>) => request.as === 'user' || (apiKey === undefined && hasToken);
  return {
    idTypes: ['string', 'number'],
    needsToken,
    query: request => ({
      ...(country !== undefined && { country }),
      ...(apiKey !== undefined && !needsToken(request) && { key: apiKey }),
    }),
    secrets: apiKey === undefined ? [] : [apiKey],
    rate: () => ({}),
    refusal(said, refusals) {
      const limit = limitOf(said);
      if (limit === undefined) return undefined;
      const askedMs = retryAfterMs(said.header);
      // A retry delay of 0 means no delay was given.
      if (limit === 'day') return { spent: true, ...(askedMs && { freezeMs: askedMs }) };
      return { freezeMs: askedMs || firstPauseMs * 2 ** (refusals - 1) };
    },
    failure(request, said, { shown, asOf }) {
      const { reasons } = envelopeOf(said.text);
      const reason = reasons.find(one => known.has(one));
      const what = `${shown}: ${said.status}${reason === undefined ? '' : ` ${reason}`}`;
      // A page in HTML is of a proxy or a firewall, and often passes.
      if (said.status === 403 && said.text.trimStart().startsWith('<')) return new Retry(what);
      const anonymous = apiKey === undefined && !said.withToken;
      // Without a key, an anonymous request may not see public data.
      if (anonymous && said.status === 403 && limitOf(said) === undefined && !reasons.includes('unknownLocation'))
        return refused(said, what);
      return classify(request, said, reasons, what, asOf);
    },
    words({ text }) {
      const { reasons, message } = envelopeOf(text);
      return [reasons[0], message].filter(Boolean).join(': ');
    },
  };
}

function classify(
  request: Request<unknown>,
  said: Said,
  reasons: readonly string[],
  what: string,
  asOf: number,
): ShelfdeskError {
  const { status } = said;
  const is = (...some: string[]) => some.some(reason => reasons.includes(reason));
  if (limitOf(said) !== undefined || status >= 500 || status === 408 || is('backendFailed')) return new Retry(what);
  if (is('unknownLocation'))
    return new Fatal(`${what}: the catalog wants to know the country`, 'Set BOOKS_COUNTRY, such as DE.');
  if (is(...wrongKey))
    return refusal(what, {
      what: 'the catalog does not accept the key',
      remedy: 'Set BOOKS_API_KEY to a valid key.',
    });
  if (is(...notForKey))
    return refusal(what, {
      what: 'the key or its project may not use this catalog',
      remedy: 'Allow the catalog for the project of BOOKS_API_KEY or of the token, and this machine for the key.',
    });
  if (status === 401) return refused(said, what);
  if (status === 404 || is('invalidUser')) return new Gone(what, asOf, goneRemedy);
  const isHidden = status === 403 && request.as !== 'user' && request.path.startsWith('/users/') && reasons.length > 0;
  // Only a 404 says that a record does not exist.
  if (isHidden && request.shape === 'single') {
    const hidden = `${what}: not visible`;
    return new Retry(hidden, undefined, new Fatal(hidden, goneRemedy));
  }
  if (isHidden) return new Gone(`${what}: not visible`, asOf, goneRemedy);
  if (status === 410 && request.shape !== 'single') return new Gone(what, asOf, goneRemedy);
  if (status === 403) {
    const remedy = said.withToken
      ? 'Give the token the right to read the library (scope books).'
      : 'Check BOOKS_API_KEY, and what its project may use.';
    return refusal(what, { what: 'the catalog does not allow this', remedy }, true);
  }
  return new Fatal(what, 'Check that BOOKS_BASE_URL is the API of the catalog and ends in /books/v1.');
}

const goneRemedy = 'The catalog does not show it, or no longer: check BOOKS_USERS where a user is meant.';

const refused = ({ withToken }: Said, what: string): Fatal =>
  refusal(
    what,
    withToken
      ? {
          what: 'the catalog does not accept the token',
          remedy:
            'Set BOOKS_ACCESS_TOKEN to a valid token, or BOOKS_CLIENT_ID, BOOKS_CLIENT_SECRET and BOOKS_REFRESH_TOKEN.',
        }
      : {
          what: 'the catalog wants a valid key or a token',
          remedy: 'Set BOOKS_API_KEY to a valid key, or BOOKS_ACCESS_TOKEN, or the three of a refresh token.',
        },
  );

/** The limit that refused the request, if any. */
function limitOf({ status, text }: Said): 'day' | 'pause' | undefined {
  if (status < 400) return undefined;
  const { reasons, message, metadata } = envelopeOf(text);
  const is = (some: readonly string[]) => some.some(reason => reasons.includes(reason));
  const words = `${message} ${metadata}`;
  if (is(daily)) {
    const shorter = is(['quotaExceeded']) && ofLess.test(words) && !ofDays.test(words);
    return shorter ? 'pause' : 'day';
  }
  if (is(brief) || is(briefToo) || status === 429) return ofDays.test(words) ? 'day' : 'pause';
  return undefined;
}

interface Envelope {
  /** Most specific reason first. */
  reasons: string[];
  message: string;
  /** The texts of `details` about a limit. */
  metadata: string;
}

/** `{error: {code, message, errors: [{domain, reason, message}], status?, details?: [{reason, metadata}]}}` (field notes). */
function envelopeOf(text: string): Envelope {
  const error = objectIn(parsed(text), 'error');
  const errors = objectsIn(error.errors);
  const details = objectsIn(error.details);
  const reasons = [...errors, ...details].map(({ reason }) => reason).concat(error.status);
  const message = [error.message, errors[0]?.message].find(one => typeof one === 'string');
  return {
    reasons: reasons.filter(reason => typeof reason === 'string' && reason !== '') as string[],
    message: typeof message === 'string' ? message : '',
    metadata: details.map(({ metadata }) => JSON.stringify(metadata ?? '')).join(' '),
  };
}

function parsed(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    // Without JSON only the status counts.
    return undefined;
  }
}

function objectIn(value: unknown, name: string): Record<string, unknown> {
  const inner = isObject(value) ? value[name] : undefined;
  return isObject(inner) ? inner : {};
}

const objectsIn = (value: unknown): Record<string, unknown>[] => (Array.isArray(value) ? value.filter(isObject) : []);
