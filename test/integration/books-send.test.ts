/**
 * The way to the book catalog, against a real server whose every reply the test writes, with the budget in a real
 * PostgreSQL: what authorizes a request, what is done about refusals, and that no secret is shown.
 */

import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { readConfig } from '../../src/app/config.ts';
import { openContext } from '../../src/app/open-context.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import type { Reply, Request } from '../../src/engine/http/request.ts';
import { exitCodes, Fatal, Gone, quotedBy, Retry, ShelfdeskError, Spent } from '../../src/errors.ts';
import { getVolume, listShelves, listVolumes, myLibrary } from '../../src/sources/books/endpoints.ts';
import { booksOf } from '../../src/sources/books/open.ts';
import type { BooksConfig } from '../../src/sources/books/settings.ts';
import { helpdeskOf } from '../../src/sources/helpdesk/open.ts';
import { freshDatabase } from '../support/postgres.ts';

type Says = { status?: number; body?: unknown; headers?: Record<string, string>; drop?: true };
type Asked = { method: string; path: string; query: Record<string, string>; auth: string | undefined; body: string };

/** Answers with what `says` says, and keeps what it was asked. The token endpoint is `/token` of the same server. */
async function catalog(says: (asked: Asked, nth: number) => Says) {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const url = new URL(request.url!, 'http://catalog');
    const one = {
      method: request.method!,
      path: url.pathname.replace('/books/v1', ''),
      query: Object.fromEntries(url.searchParams),
      auth: request.headers.authorization,
      body: await textOf(request),
    };
    asked.push(one);
    const { status = 200, body = {}, headers = {}, drop } = says(one, asked.length);
    if (drop) return request.socket.destroy();
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(status === 204 ? undefined : typeof body === 'string' ? body : JSON.stringify(body));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const host = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    asked,
    paths: () => asked.map(({ path }) => path),
    host,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise(done => server.close(done));
    },
  };
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const part of request) text += String(part);
  return text;
}

const secrets = ['hush/key', 'hush-token', 'hush-client', 'hush-refresh', 'hush-access-1', 'hush-access-2'];

interface Opened extends AsyncDisposable {
  readonly books: ReturnType<typeof booksOf>;
  readonly logged: string[];
  ask<T>(request: Request<T>, tries?: number): Promise<Reply<T>>;
}

/** As the program opens it, with a database of its own. */
async function open(host: string, more: Partial<BooksConfig> = {}): Promise<Opened> {
  const db = await freshDatabase();
  const pool = makePool(db.url);
  const logged: string[] = [];
  const config = readConfig('/nowhere', { BOOKS_BASE_URL: `${host}/books/v1`, BOOKS_USERS: 'ada' });
  const log = pino({ level: 'trace' }, { write: line => logged.push(line) });
  const books = { ...config.books!, apiKey: 'hush/key', ...more };
  const context = openContext(
    { ...config, books },
    { pg: pool, ledger: pool },
    { log, signal: new AbortController().signal },
  );
  return {
    books: booksOf(context),
    logged,
    ask: (request, tries = 3) => booksOf(context).send(request, { lane: 'fresh', tries }),
    async [Symbol.asyncDispose]() {
      await context[Symbol.asyncDispose]();
      await pool.end();
      await db.drop();
    },
  };
}

const refreshAt = (host: string): BooksConfig['refresh'] & object => ({
  clientId: 'client',
  clientSecret: 'hush-client',
  refreshToken: 'hush-refresh',
  tokenUrl: new URL(`${host}/token`),
});
const volumes = (...ids: string[]) => ({ kind: 'books#volumes', totalItems: 99, items: ids.map(id => ({ id })) });
const failure = (reason: string, message = 'No.') => ({ error: { errors: [{ reason, message }], message } });
const own = listShelves(myLibrary);

async function errorOf(work: Promise<unknown>): Promise<ShelfdeskError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ShelfdeskError);
  const shown = inspect(error, { depth: 9 });
  for (const secret of [...secrets, ...secrets.map(encodeURIComponent)]) expect(shown).not.toContain(secret);
  return error as ShelfdeskError;
}

describe('what authorizes', () => {
  test('public requests carry the key, requests for own shelves the token, and both the country', async () => {
    await using server = await catalog(() => ({ body: volumes() }));
    await using opened = await open(server.host, { accessToken: 'hush-token', country: 'DE', library: true });
    await opened.ask(listVolumes('ada', '3', { startIndex: 0, maxResults: 40 }));
    await opened.ask(own);
    expect(server.asked).toMatchObject([
      { path: '/users/ada/bookshelves/3/volumes', query: { maxResults: '40', country: 'DE', key: 'hush/key' } },
      { path: '/mylibrary/bookshelves', query: { maxResults: '40', country: 'DE' }, auth: 'Bearer hush-token' },
    ]);
    expect([server.asked[0]!.auth, server.asked[1]!.query.key]).toEqual([undefined, undefined]);
    expect(opened.books.owners).toEqual(['ada', 'mylibrary']);
  });

  test('a token is fetched once, and again when the catalog refuses it; refused again, it says what to set', async () => {
    let given = 0;
    let valid = 'Bearer hush-access-1';
    await using server = await catalog(({ path, auth }) => {
      if (path === '/token') return { body: { access_token: `hush-access-${++given}`, expires_in: 3600 } };
      if (auth === valid) return { body: volumes('a') };
      return { status: 401, body: failure('authError', `no ${auth} with hush-refresh`) };
    });
    await using opened = await open(server.host, { refresh: refreshAt(server.host), library: true });
    await opened.ask(own);
    await opened.ask(own);
    expect(server.paths()).toEqual(['/token', '/mylibrary/bookshelves', '/mylibrary/bookshelves']);
    expect(new URLSearchParams(server.asked[0]!.body).get('refresh_token')).toBe('hush-refresh');
    valid = 'Bearer hush-access-2';
    expect((await opened.ask(own, 1)).arrived).toBe(1);
    expect(server.paths().slice(3)).toEqual(['/mylibrary/bookshelves', '/token', '/mylibrary/bookshelves']);
    expect(opened.books.send.takeCredits()).toBe(4);
    valid = 'nothing';
    const error = await errorOf(opened.ask(own));
    expect(error).toMatchObject({ name: 'Fatal', exitCode: exitCodes.refused });
    expect(error.message).toMatch(/401 authError: the catalog/);
    expect(quotedBy(error)).toBe('authError: no Bearer … with …');
    expect(error.remedy).toContain('BOOKS_REFRESH_TOKEN');
    expect(server.asked).toHaveLength(9);
  });

  test('a refresh token that was withdrawn is fatal, a token endpoint that fails is not, and neither costs a request', async () => {
    let says: Says = { status: 400, body: { error: 'invalid_grant', error_description: 'hush-refresh is void' } };
    await using server = await catalog(() => says);
    await using opened = await open(server.host, { refresh: refreshAt(server.host), library: true });
    const fatal = await errorOf(opened.ask(own));
    expect(fatal).toBeInstanceOf(Fatal);
    expect([fatal.exitCode, fatal.message]).toEqual([4, expect.stringContaining('400 invalid_grant')]);
    expect(fatal.remedy).toContain('BOOKS_REFRESH_TOKEN');
    says = { status: 302, headers: { location: `${server.host}/elsewhere` } };
    expect(await errorOf(opened.ask(own, 1))).toBeInstanceOf(Retry);
    expect(new Set(server.paths())).toEqual(new Set(['/token']));
    expect(opened.books.send.takeCredits()).toBe(0);
  });
});

describe('what is refused', () => {
  test('a day that is spent: until when, and nothing is sent any more, until a person asks by hand', async () => {
    let spent = true;
    await using server = await catalog(() =>
      spent ? { status: 429, body: failure('dailyLimitExceeded') } : { body: { id: 'v' } },
    );
    await using opened = await open(server.host);
    const first = await errorOf(opened.ask(getVolume('v')));
    expect(first).toBeInstanceOf(Spent);
    expect(first).toMatchObject({ exitCode: exitCodes.partial, message: expect.stringContaining('resumes at 20') });
    const again = (await errorOf(opened.ask(getVolume('v')))) as Spent;
    expect(again.until.getTime()).toBe((first as Spent).until.getTime());
    expect(server.asked).toHaveLength(1);
    await opened.books.thaw();
    expect(await errorOf(opened.ask(getVolume('v')))).toBeInstanceOf(Spent);
    expect(await errorOf(opened.ask(getVolume('v')))).toBeInstanceOf(Spent);
    expect(server.asked).toHaveLength(2);
    spent = false;
    await opened.books.thaw();
    expect((await opened.ask(getVolume('v'))).records).toEqual([{ id: 'v' }]);
  });

  test('our own requests of a day, and what is left of it: the same', async () => {
    await using server = await catalog(() => ({ body: { id: 'v' } }));
    const limits = { credits: 2, periodMs: 24 * 3_600_000, requestsPerSecond: 5, reserve: 0 };
    await using opened = await open(server.host, { limits });
    await opened.ask(getVolume('v'));
    await opened.ask(getVolume('v'));
    await opened.books.thaw();
    const error = (await errorOf(opened.ask(getVolume('v')))) as Spent;
    expect(error).toBeInstanceOf(Spent);
    expect(Math.abs(error.until.getTime() - Date.now() - limits.periodMs)).toBeLessThan(60_000);
    expect(server.asked).toHaveLength(2);
  });

  test('a rate limit pauses and goes on; if it does not end within the tries, it is told until when', async () => {
    await using server = await catalog((_asked, nth) =>
      nth === 2 ? { body: { id: 'v' } } : { status: 403, body: failure('rateLimitExceeded') },
    );
    await using opened = await open(server.host);
    const began = performance.now();
    expect((await opened.ask(getVolume('v'))).arrived).toBe(1);
    expect(performance.now() - began).toBeGreaterThan(1000);
    expect(await errorOf(opened.ask(getVolume('v'), 1))).toMatchObject({
      name: 'Spent',
      message: expect.stringContaining('asked for a pause'),
    });
    expect(server.asked).toHaveLength(3);
  });

  test('a pause that is too long to be waited for is told as well', async () => {
    await using server = await catalog(() => ({
      status: 429,
      body: failure('rateLimitExceeded'),
      headers: { 'retry-after': '600' },
    }));
    await using opened = await open(server.host);
    const error = (await errorOf(opened.ask(getVolume('v')))) as Spent;
    expect(error.until.getTime() - Date.now()).toBeGreaterThan(590_000);
    expect(server.asked).toHaveLength(1);
  });
});

describe('what comes back', () => {
  test.for<[body: unknown, arrived: number, total: number | undefined, texts: string]>([
    [volumes('a', 'b'), 2, 99, 'records'],
    [{ kind: 'books#volumes', totalItems: 7 }, 0, 7, 'no items'],
    [{ kind: 'books#volumes', items: null }, 0, undefined, 'no items, and no total'],
    [{ items: [{ id: 'a' }, { id: 7 }], totalItems: 'many' }, 2, undefined, 'an id of another type'],
  ])('a list: %j', async ([body, arrived, total]) => {
    await using server = await catalog(() => ({ body }));
    await using opened = await open(server.host);
    const reply = await opened.ask(listVolumes('ada', '3', { startIndex: 0, maxResults: 40 }));
    expect([reply.arrived, reply.total, reply.text]).toEqual([arrived, total, JSON.stringify(body)]);
    expect(reply.records.length + reply.unreadable.length).toBe(arrived);
  });

  test('what is no list is no empty list; a request has no body', async () => {
    await using server = await catalog((_asked, nth) => ({ body: nth === 1 ? { message: 'hello' } : volumes('a') }));
    await using opened = await open(server.host, { accessToken: 'hush-token' });
    expect((await opened.ask(listVolumes('ada', '3', { startIndex: 0, maxResults: 40 }))).arrived).toBe(1);
    expect(server.asked.at(-1)).toEqual({
      method: 'GET',
      path: '/users/ada/bookshelves/3/volumes',
      query: { key: 'hush/key', maxResults: '40' },
      auth: undefined,
      body: '',
    });
  });

  test('no secret in an error or in the log, however the catalog echoes it', async () => {
    const echo = `key=hush/key&key=${encodeURIComponent('hush/key')} Bearer hush-token`;
    await using server = await catalog((_asked, nth) =>
      nth === 1
        ? { drop: true }
        : nth === 2
          ? { status: 503, body: echo }
          : { status: 404, body: failure('notFound', echo) },
    );
    await using opened = await open(server.host, { accessToken: 'hush-token' });
    const error = await errorOf(opened.ask(getVolume('v')));
    expect(error).toBeInstanceOf(Gone);
    expect(error.message).toBe('GET /volumes/v: 404 notFound');
    expect(quotedBy(error)).toBe('notFound: key=…&key=… Bearer …');
    expect(opened.logged).toHaveLength(2);
    for (const secret of secrets) expect(opened.logged.join()).not.toContain(secret);
  });
});

test('what is not configured says what to set', async () => {
  const config = readConfig('/nowhere', {});
  const db = await freshDatabase();
  const pool = makePool(db.url);
  const signal = new AbortController().signal;
  await using context = openContext(config, { pg: pool, ledger: pool }, { log: pino({ level: 'silent' }), signal });
  expect([...context.sources]).toEqual([]);
  for (const open of [helpdeskOf, booksOf]) {
    const error = await errorOf((async () => open(context))());
    expect([error.exitCode, error.message]).toEqual([exitCodes.usage, expect.stringContaining('is not configured')]);
  }
  await pool.end();
  await db.drop();
});
