/**
 * A dialect: what a source does in its own way. It says how a request is authorized, how the source refuses requests at
 * its limits, and what a failed reply means. One value for each source (sources/<source>/dialect.ts), pure. send.ts
 * does the rest.
 */

import type { ShelfdeskError } from '../../errors.ts';
import type { RateHeaders } from '../budget/budget.ts';
import type { IdTypes, Request } from './request.ts';
import type { Ways } from './ways.ts';

export interface Said {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
  readonly text: string;
  /** Whether the request carried a token. */
  readonly withToken: boolean;
}

/** The source refuses all requests for now. */
interface Refusal {
  /** The pause in ms; without it, the headers or the budget tell. */
  readonly freezeMs?: number;
  /** The quota of a period is used up. */
  readonly spent?: boolean;
}

export interface Dialect {
  readonly idTypes: IdTypes;
  needsToken(request: Request<unknown>): boolean;
  /** Headers that carry the token, with names in lower case. Default: `authorization: Bearer TOKEN`. */
  authorization?(token: string): Readonly<Record<string, string>>;
  /** Query parameters of every request: a key, a country. They are never shown. */
  query(request: Request<unknown>): Readonly<Record<string, string>>;
  /** Values that must not be shown besides the token, because a source may echo them. */
  readonly secrets: readonly string[];
  rate(header: Said['header']): RateHeaders;
  /**
   * Undefined unless the source refuses the request at a limit. `refusals`: the number of refusals of this request,
   * including this one.
   */
  refusal(said: Said, refusals: number): Refusal | undefined;
  /**
   * What a failed reply means. The error is stored, so it has no text of the reply: it may name people. `shown`: the part of the
   * request that people may see.
   */
  failure(request: Request<unknown>, said: Said, deps: { shown: string; asOf: number }): ShelfdeskError;
  /** The source's own words about a failure. Only a terminal shows them. */
  words?(said: Said): string | undefined;
}

/** The token of the authenticated user, or of the account. */
export interface Token {
  /** A token that is valid now, as far as is known. */
  get(): Promise<string>;
  /** Gets another token, because the source refused this one. Missing if no other exists. */
  renew?(refused: string): Promise<void>;
  /** The same token, whose requests take these ways. Missing if it sends none. */
  over?(ways: Ways): Token;
  /** The parts of the token that must not be shown. */
  secrets(): readonly string[];
}

export function fixedToken(token: string): Token {
  return { get: async () => token, secrets: () => [token] };
}
