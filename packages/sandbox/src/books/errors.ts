/** Errors of the catalog: an envelope with a `reason` for clients to act on. */

/** Reason → domain; `global` for all other reasons. */
const DOMAINS: Record<string, string> = {
  dailyLimitExceeded: 'usageLimits',
  rateLimitExceeded: 'usageLimits',
  userRateLimitExceeded: 'usageLimits',
  keyInvalid: 'usageLimits',
};

/** Newer parts of the interface add a word to some statuses. */
const STATUS_WORDS: Record<number, string> = {
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  429: 'RESOURCE_EXHAUSTED',
};

/** The parameter or header that caused the error. */
interface Blamed {
  locationType: 'parameter' | 'header';
  location: string;
}

/** An error reply, thrown where its reason is found. */
export class BooksError extends Error {
  readonly status: number;
  readonly reason: string;
  readonly headers: Record<string, string>;
  readonly blamed: Blamed | undefined;

  constructor(
    status: number,
    reason: string,
    message: string,
    more: { headers?: Record<string, string>; blamed?: Blamed } = {},
  ) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.headers = more.headers ?? {};
    this.blamed = more.blamed;
  }
}

const parameter = (location: string): { blamed: Blamed } => ({ blamed: { locationType: 'parameter', location } });

export const unknownVolume = () => new BooksError(503, 'backendFailed', 'Service temporarily unavailable.');
export const unknownShelf = (id: string) => new BooksError(404, 'notFound', `The bookshelf ${id} could not be found.`);
export const missing = (name: string) =>
  new BooksError(400, 'required', `Required parameter: ${name}`, parameter(name));
export const invalid = (name: string, message: string) =>
  new BooksError(400, 'invalidParameter', message, parameter(name));

/** 401 with a Bearer challenge. `error`: code of RFC 6750 for an invalid token. */
export function unauthorized(reason: string, message: string, error?: string): BooksError {
  const challenge = `Bearer realm="books"${error === undefined ? '' : `, error="${error}"`}`;
  return new BooksError(401, reason, message, {
    headers: { 'WWW-Authenticate': challenge },
    blamed: { locationType: 'header', location: 'Authorization' },
  });
}

export function envelope(code: number, reason: string, message: string, blamed?: Blamed): unknown {
  const domain = DOMAINS[reason] ?? 'global';
  const word = STATUS_WORDS[code];
  return { error: { code, message, errors: [{ domain, reason, message, ...blamed }], ...(word && { status: word }) } };
}
