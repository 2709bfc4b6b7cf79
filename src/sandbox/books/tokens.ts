/**
 * Access tokens for "my library": one that never expires, and those that the token endpoint gives for a refresh token,
 * which do. Several live side by side.
 */
import type { Asked, Reply } from '../exchange.ts';
import { hexId } from '../random.ts';

export const TOKEN_PATH = '/oauth/token';

export interface TokenOptions {
  /** The token that never expires; default 'sandbox-books-token'. */
  token?: string;
  clientId?: string;
  clientSecret?: string;
  refreshToken?: string;
}

export class Tokens {
  readonly token: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly refreshToken: string;
  /** How many were given. */
  given = 0;
  /** How long one lives. */
  readonly #seconds: number;
  readonly #now: () => number;
  /** Token → when it expires. */
  readonly #living = new Map<string, number>();

  constructor(options: TokenOptions, seconds: number, now: () => number) {
    this.token = options.token ?? 'sandbox-books-token';
    this.clientId = options.clientId ?? 'sandbox-client';
    this.clientSecret = options.clientSecret ?? 'sandbox-secret';
    this.refreshToken = options.refreshToken ?? 'sandbox-refresh';
    this.#seconds = seconds;
    this.#now = now;
  }

  accepts(token: string): boolean {
    return token === this.token || (this.#living.get(token) ?? 0) > this.#now();
  }

  /** All that were given expire; the one that never does stays. */
  expireAll(): void {
    this.#living.clear();
  }

  /** The token endpoint: a form in, a token out. */
  handle({ method, body }: Asked): Reply {
    const form = new URLSearchParams(body?.toString());
    const expected = {
      grant_type: 'refresh_token',
      client_id: this.clientId,
      client_secret: this.clientSecret,
      refresh_token: this.refreshToken,
    };
    const right = Object.entries(expected).every(([name, value]) => form.get(name) === value);
    if (method !== 'POST') return this.#reply(405, { error: 'invalid_request' });
    if (!right) return this.#reply(400, { error: 'invalid_grant', error_description: 'Bad Request' });
    return this.#reply(200, { access_token: this.#give(), expires_in: this.#seconds, token_type: 'Bearer' });
  }

  #give(): string {
    const token = `access-${++this.given}-${hexId(0x70ce, this.given)}`;
    this.#living.set(token, this.#now() + this.#seconds * 1000);
    return token;
  }

  #reply(status: number, body: object): Reply {
    const headers = {
      Date: new Date(this.#now()).toUTCString(),
      'Content-Type': 'application/json; charset=utf-8',
      'Cache-Control': 'no-store',
    };
    return { status, headers, text: JSON.stringify(body) };
  }
}
