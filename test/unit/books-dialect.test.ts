/** How the book catalog is asked, and what its failures mean: by their reason, wherever it stands. */
import { describe, expect, test } from 'vitest';
import type { Said } from '../../src/engine/http/dialect.ts';
import type { Request } from '../../src/engine/http/request.ts';
import { exitCodes, ShelfdeskError } from '../../src/errors.ts';
import { booksDialect } from '../../src/sources/books/dialect.ts';
import { getShelf, getVolume, listShelves, myLibrary } from '../../src/sources/books/endpoints.ts';

const dialect = booksDialect({ apiKey: 'hush-key', country: 'DE', hasToken: true });

/** What services of this kind answer. */
const envelope = (reason?: string, message = 'No.', more: object = {}) => ({
  error: { code: 0, message, ...(reason && { errors: [{ domain: 'global', reason, message }] }), ...more },
});
const said = (status: number, body: unknown, headers: Record<string, string> = {}, withToken = false): Said => ({
  status,
  header: name => headers[name],
  text: typeof body === 'string' ? body : JSON.stringify(body),
  withToken,
});
const day = { spent: true };
const pause = { freezeMs: 1000 };

describe('which limit refuses', () => {
  test.for<[status: number, body: unknown, refusal: object | undefined]>([
    [429, envelope('dailyLimitExceeded'), day],
    [403, envelope('dailyLimitExceeded'), day],
    [403, envelope('dailyLimitExceededUnreg'), day],
    [403, envelope('quotaExceeded'), day],
    [403, envelope('quotaExceeded', 'Quota exceeded: requests per minute'), pause],
    [429, envelope('rateLimitExceeded'), pause],
    [403, envelope('userRateLimitExceeded'), pause],
    [429, envelope('rateLimitExceeded', "Quota exceeded for 'Queries' and limit 'Queries per day'"), day],
    [
      429,
      envelope(undefined, 'Quota exceeded.', {
        status: 'RESOURCE_EXHAUSTED',
        details: [{ reason: 'RATE_LIMIT_EXCEEDED', metadata: { quota_limit: 'defaultPerDayPerProject' } }],
      }),
      day,
    ],
    [429, envelope(undefined, 'Slow down.', { status: 'RESOURCE_EXHAUSTED' }), pause],
    [429, '<html>Too Many Requests</html>', pause],
    [503, envelope('backendFailed'), undefined],
    [403, envelope('forbidden', 'No sharing today'), undefined],
    [404, envelope('notFound'), undefined],
    [200, envelope('dailyLimitExceeded'), undefined],
  ])('%i %j', ([status, body, refusal]) => {
    expect(dialect.refusal(said(status, body), 1)).toEqual(refusal);
  });

  test('Retry-After goes before what we would wait, in seconds or as a time of the source; else the pause grows', () => {
    const date = 'Sat, 21 Nov 2026 08:00:00 GMT';
    const later = { date, 'retry-after': 'Sat, 21 Nov 2026 10:00:00 GMT' };
    const short = envelope('rateLimitExceeded');
    expect(dialect.refusal(said(429, short, { 'retry-after': '7' }), 3)).toEqual({ freezeMs: 7000 });
    expect(dialect.refusal(said(429, envelope('quotaExceeded'), later), 1)).toEqual({
      spent: true,
      freezeMs: 7_200_000,
    });
    expect(dialect.refusal(said(429, short, { 'retry-after': 'soon' }), 1)).toEqual(pause);
    expect(dialect.refusal(said(429, short, { 'retry-after': '0' }), 1)).toEqual(pause);
    expect(dialect.refusal(said(429, envelope('quotaExceeded'), { 'retry-after': '0' }), 1)).toEqual(day);
    expect([2, 3, 4].map(nth => dialect.refusal(said(429, short), nth))).toEqual([
      { freezeMs: 2000 },
      { freezeMs: 4000 },
      { freezeMs: 8000 },
    ]);
  });
});

describe('what a failure is', () => {
  const public_ = listShelves('ada');
  const own = listShelves(myLibrary);
  const one = getVolume('v1');

  test.for<[status: number, body: unknown, request: Request<unknown>, name: string, remedy: string]>([
    [400, envelope('keyInvalid'), public_, 'Fatal 4', 'BOOKS_API_KEY'],
    [
      400,
      envelope('badRequest', 'API key not valid', { details: [{ reason: 'API_KEY_INVALID' }] }),
      one,
      'Fatal 4',
      'BOOKS_API_KEY',
    ],
    [400, envelope('invalidUser'), public_, 'Gone', 'BOOKS_USERS'],
    [400, envelope('invalid'), one, 'Fatal 1', 'BOOKS_BASE_URL'],
    [401, envelope('authError'), own, 'Fatal 4', 'BOOKS_ACCESS_TOKEN'],
    [403, envelope('unknownLocation'), one, 'Fatal 1', 'BOOKS_COUNTRY'],
    [403, envelope('forbidden'), public_, 'Gone', 'BOOKS_USERS'],
    [403, envelope('forbidden'), own, 'Fatal 4', 'token'],
    [403, envelope('accessNotConfigured'), public_, 'Fatal 4', 'project'],
    [403, '<html>firewall</html>', public_, 'Retry', ''],
    [403, envelope('forbidden'), getShelf('ada', '3'), 'Retry', ''],
    [410, '', public_, 'Gone', 'BOOKS_USERS'],
    [410, '', one, 'Fatal 1', 'BOOKS_BASE_URL'],
    [404, envelope('notFound'), one, 'Gone', 'no longer'],
    [404, '<html>no such page</html>', one, 'Gone', 'no longer'],
    [400, envelope('backendFailed'), one, 'Retry', ''],
    [499, '', one, 'Fatal 1', 'BOOKS_BASE_URL'],
    [408, '', one, 'Retry', ''],
    [429, envelope('rateLimitExceeded'), one, 'Retry', ''],
    [500, '<html>', one, 'Retry', ''],
    [503, envelope('backendFailed'), one, 'Retry', ''],
    [302, '', one, 'Fatal 1', 'BOOKS_BASE_URL'],
    [409, envelope('conflict'), one, 'Fatal 1', 'BOOKS_BASE_URL'],
  ])('%i %j', ([status, body, request, name, remedy]) => {
    const reply = said(status, body, {}, request.as === 'user');
    const error = dialect.failure(request, reply, { shown: 'GET /it', asOf: 5 });
    expect(error).toBeInstanceOf(ShelfdeskError);
    expect(error.name === 'Fatal' ? `Fatal ${error.exitCode}` : error.name).toBe(name);
    expect(error.remedy).toContain(remedy);
    expect(error.message).toMatch(new RegExp(`^GET /it: ${status}`));
    if (name === 'Gone') expect(error).toMatchObject({ asOf: 5 });
    expect(exitCodes.refused).toBe(4);
  });

  test.for<[said: Said, apiKey: string | undefined, request: Request<unknown>, name: string, remedy: string]>([
    [said(403, envelope('forbidden')), undefined, public_, 'Fatal 4', 'BOOKS_API_KEY'],
    [said(403, envelope('forbidden')), undefined, one, 'Fatal 4', 'BOOKS_API_KEY'],
    [said(403, '<html>'), undefined, public_, 'Retry', ''],
    [said(403, envelope('unknownLocation')), undefined, one, 'Fatal 1', 'BOOKS_COUNTRY'],
    [said(403, envelope('dailyLimitExceededUnreg')), undefined, one, 'Retry', ''],
    [said(404, envelope('notFound')), undefined, public_, 'Gone', 'BOOKS_USERS'],
    // Who is known is told who is not visible.
    [said(403, envelope('forbidden')), 'hush-key', public_, 'Gone', 'BOOKS_USERS'],
    [said(403, envelope('forbidden'), {}, true), undefined, public_, 'Gone', 'BOOKS_USERS'],
  ])('without a key, or with one: %j %s', ([reply, apiKey, request, name, remedy]) => {
    const own = booksDialect({ ...(apiKey !== undefined && { apiKey }), hasToken: reply.withToken });
    const error = own.failure(request, reply, { shown: 'GET /it', asOf: 5 });
    expect(error.name === 'Fatal' ? `Fatal ${error.exitCode}` : error.name).toBe(name);
    expect(error.remedy).toContain(remedy);
  });

  test('the message has a known reason, and no words of the source', () => {
    const of = (reason: string) => {
      const reply = said(500, envelope(reason, 'Ann Example'));
      return [dialect.failure(one, reply, { shown: 'GET /it', asOf: 0 }).message, dialect.words?.(reply)];
    };
    expect(of('backendFailed')).toEqual(['GET /it: 500 backendFailed', 'backendFailed: Ann Example']);
    expect(of('AnnExample')).toEqual(['GET /it: 500', 'AnnExample: Ann Example']);
  });
});

describe('what authorizes a request', () => {
  const asked = (own: ReturnType<typeof booksDialect>) =>
    [getVolume('v'), listShelves(myLibrary)].map(request => [own.needsToken(request), own.query(request)]);

  test('the key what is public, the token what is its own, and the country goes with all', () => {
    expect(asked(dialect)).toEqual([
      [false, { country: 'DE', key: 'hush-key' }],
      [true, { country: 'DE' }],
    ]);
  });

  test('the key is a secret', () => {
    expect([dialect.secrets, booksDialect({ hasToken: true }).secrets]).toEqual([['hush-key'], []]);
  });

  test('without a key the token everything, without either nothing', () => {
    expect(asked(booksDialect({ hasToken: true }))).toEqual([
      [true, {}],
      [true, {}],
    ]);
    expect(asked(booksDialect({ hasToken: false }))[0]).toEqual([false, {}]);
  });
});
