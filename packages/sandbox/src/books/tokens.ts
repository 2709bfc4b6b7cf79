/**
 * Access tokens for "my library": one that never expires, and expiring ones that the token endpoint issues for the refresh
 * token. Several can be valid at the same time. Error codes of the endpoint are those of OAuth 2 (RFC 6749, 5.2).
 */

import type { Asked, Reply } from '../http/request-reply.ts';
import { hexId } from '../random.ts';
import { isTooLong, LONGEST_FORM } from './request.ts';

export const TOKEN_PATH = '/oauth/token';

/** Bound for valid tokens: requests for tokens have no rate limit. */
const MOST_LIVING = 10_000;

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
  /** Number of tokens issued. */
  given = 0;
  /** Lifetime of a token. */
  readonly #seconds: number;
  readonly #now: () => number;
  /** Token → expiry in milliseconds. */
  readonly #living = new Map<string, number>();

  constructor(options: TokenOptions, seconds: number, now: () => number) {
    this.token = options.token ?? 'sandbox-books-token';
    this.clientId = options.clientId ?? 'sandbox-client';
    this.clientSecret = options.clientSecret ?? 'sandbox-secret';
    this.refreshToken = options.refreshToken ?? 'sandbox-refresh';
    this.#seconds = seconds;
    this.#now = now;
  }

  /** Number of issued tokens still stored. */
  get kept(): number {
    return this.#living.size;
  }

  accepts(token: string): boolean {
    return (token !== '' && token === this.token) || (this.#living.get(token) ?? 0) > this.#now();
  }

  /** Expires all issued tokens; the permanent one stays. */
  expireAll(): void {
    this.#living.clear();
  }

  /** The token endpoint: a form in, a token out. */
  handle(asked: Asked): Reply {
    try {
      if (asked.method !== 'POST') throw new Refused(405, 'invalid_request', 'Only POST is offered', { Allow: 'POST' });
      const form = formOf(asked);
      const grant = one(form, 'grant_type');
      this.#demandClient(asked, form);
      if (grant !== 'refresh_token')
        throw new Refused(400, 'unsupported_grant_type', `Unsupported grant type ${grant}`);
      if (one(form, 'refresh_token') !== this.refreshToken) {
        throw new Refused(400, 'invalid_grant', 'The refresh token is invalid for this client');
      }
      return this.#reply(200, { access_token: this.#give(), expires_in: this.#seconds, token_type: 'Bearer' });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return this.#reply(error.status, { error: error.word, error_description: error.message }, error.headers);
    }
  }

  /** The client authenticates by form or Basic, with the secret in one of them only (RFC 6749, 2.3). */
  #demandClient({ headers }: Asked, form: URLSearchParams): void {
    const basic = basicOf(headers.authorization);
    if (basic && form.has('client_secret')) {
      throw new Refused(400, 'invalid_request', 'Send the client_secret in the form or as Basic, not both');
    }
    const id = form.has('client_id') ? one(form, 'client_id') : basic?.id;
    const secret = basic?.secret ?? form.get('client_secret');
    const same = basic === undefined || basic.id === id;
    if (same && id === this.clientId && secret === this.clientSecret) return;
    const challenge = { 'WWW-Authenticate': 'Basic realm="books"' };
    throw new Refused(401, 'invalid_client', 'The OAuth client was not found.', basic ? challenge : {});
  }

  /** Issues a token. Drops expired tokens, and the oldest beyond the bound. */
  #give(): string {
    const now = this.#now();
    for (const [old, expires_at] of this.#living) {
      if (expires_at > now && this.#living.size < MOST_LIVING) break;
      this.#living.delete(old);
    }
    const token = `access-${++this.given}-${hexId(0x70ce, this.given)}`;
    this.#living.set(token, now + this.#seconds * 1000);
    return token;
  }

  #reply(status: number, body: object, more: Record<string, string> = {}): Reply {
    const headers = {
      Date: new Date(this.#now()).toUTCString(),
      'Content-Type': 'application/json; charset=utf-8',
      'Cache-Control': 'no-store',
      Pragma: 'no-cache',
      ...more,
    };
    return { status, headers, text: JSON.stringify(body) };
  }
}

class Refused extends Error {
  readonly status: number;
  /** OAuth error code, such as `invalid_grant`. */
  readonly word: string;
  readonly headers: Record<string, string>;

  constructor(status: number, word: string, message: string, headers: Record<string, string> = {}) {
    super(message);
    this.status = status;
    this.word = word;
    this.headers = headers;
  }
}

/** Parses the form; a missing content type counts as a form. */
function formOf(asked: Asked): URLSearchParams {
  const { headers, body } = asked;
  if (isTooLong(asked)) throw new Refused(413, 'invalid_request', `The form has more than ${LONGEST_FORM} bytes`);
  const type = String(headers['content-type'] ?? FORM)
    .split(';')[0]!
    .trim()
    .toLowerCase();
  if (type !== FORM) throw new Refused(400, 'invalid_request', `The body must be ${FORM}, not ${type}`);
  return new URLSearchParams(body?.toString('utf8'));
}

const FORM = 'application/x-www-form-urlencoded';

/** A required field, exactly once. */
function one(form: URLSearchParams, name: string): string {
  const [value, ...more] = form.getAll(name);
  if (value && more.length === 0) return value;
  throw new Refused(400, 'invalid_request', `${more.length > 0 ? 'More than one' : 'Missing'} ${name}`);
}

function basicOf(header: string | string[] | undefined): { id: string; secret: string } | undefined {
  const [, credentials] = /^Basic +(\S+) *$/i.exec(String(header ?? '')) ?? [];
  if (credentials === undefined) return undefined;
  const [id = '', ...secret] = Buffer.from(credentials, 'base64').toString('utf8').split(':');
  return { id: plain(id), secret: plain(secret.join(':')) };
}

/** Form-decodes a part of Basic (RFC 6749, 2.3.1); many clients do not encode it, so invalid text stays unchanged. */
function plain(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return text;
  }
}
