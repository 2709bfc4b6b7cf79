/** How the book catalog refuses: an envelope in which clients decide by the `reason`. */
import { Refusal } from '../query.ts';

/** Reason → the domain that it belongs to; `global` for all others. */
const DOMAINS: Record<string, string> = {
  dailyLimitExceeded: 'usageLimits',
  rateLimitExceeded: 'usageLimits',
  userRateLimitExceeded: 'usageLimits',
  keyInvalid: 'usageLimits',
};

/** The newer half of the interface adds a word to some statuses. */
const STATUS_WORDS: Record<number, string> = {
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  429: 'RESOURCE_EXHAUSTED',
};

/** Thrown from wherever the reason is found. */
export class BooksError extends Error {
  readonly status: number;
  readonly reason: string;
  readonly headers: Record<string, string>;

  constructor(status: number, reason: string, message: string, headers: Record<string, string> = {}) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.headers = headers;
  }
}

export const unknownVolume = () => new BooksError(503, 'backendFailed', 'Service temporarily unavailable.');
export const unknownShelf = (id: string) => new BooksError(404, 'notFound', `The bookshelf ${id} could not be found.`);
export const missing = (name: string) => new BooksError(400, 'required', `Required parameter: ${name}`);

/** What reading the query has refused is an invalid parameter. */
export function asBooksError(error: unknown): BooksError {
  if (error instanceof BooksError) return error;
  if (error instanceof Refusal) return new BooksError(error.status, 'invalidParameter', error.message);
  throw error;
}

export function envelope(code: number, reason: string, message: string): unknown {
  const domain = DOMAINS[reason] ?? 'global';
  const word = STATUS_WORDS[code];
  return { error: { code, message, errors: [{ domain, reason, message }], ...(word && { status: word }) } };
}
