/**
 * A token that expires, and the refresh that gets the next one (OAuth 2.0, RFC 6749, 6). A library does the refresh
 * against the configured token endpoint. This file turns its failures into ours, without secrets.
 */
import type { OAuth2Client } from 'google-auth-library';
import { exitCodes, Fatal, Retry, type ShelfdeskError } from '../../errors.ts';
import { causeOfError } from './causes.ts';
import type { Token } from './dialect.ts';
import { proxyFor } from './proxies.ts';
import type { Ways } from './ways.ts';

export interface Refresh {
  clientId: string;
  clientSecret: string;
  refreshToken: string;
  tokenUrl: URL;
}

const timeoutMs = 15_000;
/** Longer than a request may take: a token must not expire in flight. */
const eagerRefreshThresholdMillis = 35_000;

export function refreshedToken(refresh: Refresh, ways?: Ways): Token {
  const { clientId, clientSecret, refreshToken, tokenUrl } = refresh;
  let opened: Promise<OAuth2Client> | undefined;
  const open = async () => {
    // Loaded only for a token that expires: the library takes as long to load as our whole program.
    const { OAuth2Client } = await import('google-auth-library');
    return new OAuth2Client({
      clientId,
      clientSecret,
      endpoints: { oauth2TokenUrl: tokenUrl.href },
      credentials: { refresh_token: refreshToken },
      eagerRefreshThresholdMillis,
      // A redirect would carry the secret to another host.
      transporterOptions: {
        timeout: timeoutMs,
        redirect: 'error',
        ...(ways && { fetchImplementation: await over(ways) }),
      },
    });
  };
  const theClient = () => {
    opened ??= open();
    return opened;
  };
  // A reply in flight may still echo the previous token.
  const known: string[] = [];

  async function get(): Promise<string> {
    const client = await theClient();
    try {
      const { token } = await client.getAccessToken();
      if (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token)) throw new Error('no token in the reply');
      if (!known.includes(token)) known.unshift(token);
      known.splice(3);
      return token;
    } catch (error) {
      throw failureOf(error, tokenUrl, ways);
    }
  }

  return {
    get,
    async renew(refused) {
      const client = await theClient();
      // Another request may have refreshed the token meanwhile.
      if (client.credentials.access_token === refused) client.setCredentials({ refresh_token: refreshToken });
      await get();
    },
    over: given => refreshedToken(refresh, given),
    secrets: () => [clientSecret, refreshToken, ...known],
  };
}

/** The library would read the proxies from the environment alone. */
async function over(ways: Ways): Promise<typeof globalThis.fetch> {
  const { fetch: ask } = (await import('undici/lib/web/fetch/index.js')).default;
  const send = async (to: string | URL, { method, headers, body, redirect, signal }: RequestInit = {}) => {
    const url = new URL(to);
    const plain = Object.fromEntries(new Headers(headers));
    return ask(url, {
      method,
      redirect,
      signal,
      body,
      headers: plain,
      dispatcher: ways.to(url),
    } as never);
  };
  return send as unknown as typeof globalThis.fetch;
}

/** The names of errors that the protocol has (RFC 6749, 5.2, and 4.1.2.1). */
const named = [
  ...['invalid_request', 'invalid_client', 'invalid_grant', 'unauthorized_client', 'unsupported_grant_type'],
  ...['invalid_scope', 'access_denied', 'server_error', 'temporarily_unavailable'],
];

/** Passes on only the status and the name of the error: the rest may be secret, or about a person. */
function failureOf(error: unknown, address: URL, ways: Ways | undefined): ShelfdeskError {
  const { status, data } = (error as { response?: { status?: number; data?: unknown } }).response ?? {};
  const said = (data as { error?: unknown } | undefined)?.error;
  const { code } = error as { code?: unknown };
  const reason = typeof said === 'string' && named.includes(said) ? said : code;
  const shown = typeof reason === 'string' && /^\w{1,40}$/.test(reason) ? ` ${reason}` : '';
  if (status === undefined) {
    const proxy = ways && proxyFor(address, ways.proxies);
    const place = { label: 'the token endpoint of the catalog', address, setting: 'BOOKS_TOKEN_URL', proxy };
    const { what, remedy, lasts } = causeOfError(rootOf(error), place);
    const message = `the token endpoint of the catalog: ${what}`;
    return lasts ? new Fatal(message, remedy) : new Retry(message, undefined, undefined, remedy);
  }
  const what = `the token endpoint of the catalog: ${status}${shown}`;
  if (status >= 400 && status < 500 && status !== 408 && status !== 429) {
    return new Fatal(
      `${what}: it gives no token`,
      'Set BOOKS_CLIENT_ID, BOOKS_CLIENT_SECRET and BOOKS_REFRESH_TOKEN anew (a refresh token can be withdrawn), and check BOOKS_TOKEN_URL.',
      exitCodes.refused,
    );
  }
  return new Retry(what);
}

/** The error of the connection, within those of fetch and of the library. */
function rootOf(error: unknown): unknown {
  const { cause } = (error ?? {}) as { cause?: unknown };
  return cause instanceof Error ? rootOf(cause) : error;
}
