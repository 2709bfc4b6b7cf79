/**
 * What one source does in a way of its own: how a request is authorized, how it says that it has had enough, and what a
 * reply means that is no success. One value for each source (sources/<source>/dialect.ts), pure; send.ts does the rest.
 */

import type { ShelfdeskError } from '../../errors.ts';
import type { RateHeaders } from '../budget/budget.ts';
import type { Request } from './request.ts';

/** A reply, as a dialect is shown it. */
export interface Said {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
  readonly text: string;
  /** Whether the request carried a token. */
  readonly withToken: boolean;
}

/** The source sends nothing more for now, to nobody. */
export interface Refusal {
  /** For so long; without it, as its headers or the budget know. */
  readonly freezeMs?: number;
  /** Its quota of a period is spent. */
  readonly spent?: boolean;
}

export interface Dialect {
  /** What the id of a single record may be. */
  readonly idTypes: readonly ('string' | 'number')[];
  needsToken(request: Request<unknown>): boolean;
  /** What this request carries in its query besides its own: a key, a country. Not shown to anybody. */
  query(request: Request<unknown>): Readonly<Record<string, string>>;
  /** What must not be shown, besides the token: a source may echo it. */
  readonly secrets: readonly string[];
  rate(header: Said['header']): RateHeaders;
  /** Undefined unless it refuses for its limits. `refusals`: how many there have been of this request, this one included. */
  refusal(said: Said, refusals: number): Refusal | undefined;
  /** `shown`: what people may see of the request; `clean` takes secrets out of what the source says. */
  failure(
    request: Request<unknown>,
    said: Said,
    deps: { shown: string; clean: (text: string) => string; asOf: number },
  ): ShelfdeskError;
}

/** The token of the authenticated user, or of the account. */
export interface Token {
  /** Valid now, as far as it can be told. */
  get(): Promise<string>;
  /** Gets another one, because the source has refused this. Missing where there is no other. */
  renew?(refused: string): Promise<void>;
  /** What of it must not be shown. */
  secrets(): readonly string[];
}

export function fixedToken(token: string): Token {
  return { get: async () => token, secrets: () => [token] };
}
