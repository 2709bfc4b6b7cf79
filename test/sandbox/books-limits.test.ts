import { describe, expect, test } from 'vitest';
import { BooksService, type BooksServiceOptions } from '../../src/sandbox/books/service.ts';
import { askingBooks, emptyBooks } from './books-asking.ts';

const DAY = 86_400_000;

function limited(options: BooksServiceOptions) {
  const { world, clock } = emptyBooks();
  const asking = askingBooks(world, options);
  const outcome = (path: string) => {
    const { status, json, headers } = asking.get(path);
    return [status, json.error?.errors[0].reason, headers['Retry-After']];
  };
  return { ...asking, clock, mine: () => outcome('/mylibrary/bookshelves'), others: () => outcome('/volumes?q=x') };
}

const OK = [200, undefined, undefined];

describe('8 limits', () => {
  test('a day: so many requests, then none until the next one', () => {
    const { clock, others, service, get } = limited({ requestsPerDay: 2 });
    expect([others(), others()]).toEqual([OK, OK]);
    clock.ms += DAY - 1;
    expect(others()).toEqual([403, 'dailyLimitExceeded', undefined]);
    expect(get('/mylibrary/bookshelves').json.error).toStrictEqual({
      code: 403,
      message: 'Daily Limit Exceeded',
      errors: [{ domain: 'usageLimits', reason: 'dailyLimitExceeded', message: 'Daily Limit Exceeded' }],
      status: 'PERMISSION_DENIED',
    });
    clock.ms += 1;
    expect(others()).toEqual(OK);
    expect(service.totals).toEqual({ requests: 5, refused: 2 });
    expect(service.requests.map(({ cost }) => cost)).toEqual([1, 1, 0, 0, 1]);
  });

  test('a day of another length, and one that begins now', () => {
    const { clock, others, service } = limited({ requestsPerDay: 1, daySeconds: 60, retryAfter: true });
    expect(others()).toEqual(OK);
    clock.ms += 20_500;
    expect(others()).toEqual([403, 'dailyLimitExceeded', '40']);
    service.beginNewDay();
    expect(others()).toEqual(OK);
    clock.ms += 59_999;
    expect(others()).toEqual([403, 'dailyLimitExceeded', '1']);
    clock.ms += 1;
    expect(others()).toEqual(OK);
  });

  test('a second: those that come too fast are told so, and cost nothing of the day', () => {
    const { clock, mine, others } = limited({ requestsPerSecond: 2, requestsPerDay: 3 });
    expect([mine(), others()]).toEqual([OK, OK]);
    expect(others()).toEqual([429, 'rateLimitExceeded', undefined]);
    expect(mine()).toEqual([429, 'userRateLimitExceeded', undefined]);
    clock.ms += 999;
    expect(others()).toEqual([429, 'rateLimitExceeded', undefined]);
    clock.ms += 1;
    expect(others()).toEqual(OK);
    expect(others()).toEqual([403, 'dailyLimitExceeded', undefined]);
  });

  test('a second, told of with 403, and with the time to wait', () => {
    const { mine } = limited({ requestsPerSecond: 1, tooFast: 403, retryAfter: true });
    expect([mine(), mine()]).toEqual([OK, [403, 'userRateLimitExceeded', '1']]);
  });

  test('errors cost as answers do; who is not known costs nothing', () => {
    const { get, anonymous, others } = limited({ requestsPerDay: 2 });
    expect(get('/volumes/none').status).toBe(503);
    expect(anonymous('/volumes/none').status).toBe(403);
    expect(anonymous('/volumes/none?key=wrong').status).toBe(400);
    expect([others(), others()[1]]).toEqual([OK, 'dailyLimitExceeded']);
  });

  test('the defaults: a thousand a day, five a second', () => {
    const { world, clock } = emptyBooks();
    const service = new BooksService(world);
    const url = '/books/v1/volumes?q=x&key=sandbox-books-key';
    const status = () => service.handle({ method: 'GET', url, headers: {} }).status;
    expect(Array.from({ length: 6 }, status)).toEqual([200, 200, 200, 200, 200, 429]);
    for (let left = 995; left > 0; left--) {
      clock.ms += 200;
      if (left === 995) clock.ms += 1000;
      expect(status()).toBe(200);
    }
    clock.ms += 1000;
    expect(status()).toBe(403);
  });

  test('every reply tells the time of the world', () => {
    const { clock, get, anonymous, refresh } = limited({});
    clock.ms += 61_000;
    const dates = [get('/mylibrary/bookshelves'), anonymous('/x'), refresh({})].map(({ headers }) => headers.Date);
    expect(new Set(dates)).toEqual(new Set(['Wed, 01 May 2024 12:01:01 GMT']));
  });
});

describe('5 tokens', () => {
  const right = {
    grant_type: 'refresh_token',
    client_id: 'sandbox-client',
    client_secret: 'sandbox-secret',
    refresh_token: 'sandbox-refresh',
  };

  function tokens(options: BooksServiceOptions = {}) {
    const { world, clock } = emptyBooks();
    const asking = askingBooks(world, options);
    const status = (token: string) =>
      asking.anonymous('/mylibrary/bookshelves', { authorization: `Bearer ${token}` }).status;
    return { ...asking, clock, status };
  }

  test('a refresh token gives an access token, which expires', () => {
    const { refresh, status, clock } = tokens({ tokenSeconds: 60 });
    const { json, status: given } = refresh(right);
    expect(given).toBe(200);
    expect(json).toStrictEqual({ access_token: expect.any(String), expires_in: 60, token_type: 'Bearer' });
    expect(status(json.access_token)).toBe(200);
    clock.ms += 59_999;
    expect(status(json.access_token)).toBe(200);
    const second = refresh(right).json.access_token;
    expect(second).not.toBe(json.access_token);
    clock.ms += 1;
    expect([status(json.access_token), status(second)]).toEqual([401, 200]);
  });

  test('all expire at once, but for the one that never does', () => {
    const { refresh, status, clock, service } = tokens();
    const { access_token } = refresh(right).json;
    service.tokens.expireAll();
    clock.ms += 10 * DAY;
    expect([status(access_token), status('sandbox-books-token')]).toEqual([401, 200]);
    expect(status(refresh(right).json.access_token)).toBe(200);
    expect(service.tokens.given).toBe(2);
  });

  test.each(Object.keys(right))('a wrong %s gives nothing', field => {
    const { refresh, service } = tokens();
    for (const form of [
      { ...right, [field]: 'wrong' },
      { ...right, [field]: '' },
    ]) {
      const { status, json } = refresh(form);
      expect([status, json.error]).toEqual([400, 'invalid_grant']);
    }
    expect(service.tokens.given).toBe(0);
  });

  test('names and tokens of one’s own; only POST is answered; the quota is another one', () => {
    const own = { clientId: 'c', clientSecret: 's', refreshToken: 'r', token: 't' };
    const { refresh, status } = tokens({ ...own, requestsPerDay: 1 });
    const form = { grant_type: 'refresh_token', client_id: 'c', client_secret: 's', refresh_token: 'r' };
    expect(refresh(form, 'GET').status).toBe(405);
    expect([refresh(form).status, refresh(form).status, status('t'), status('t')]).toEqual([200, 200, 200, 403]);
  });

  test('what goes wrong on purpose with it', () => {
    const { refresh } = tokens({ tokenFault: n => (n === 1 ? { kind: 'status', status: 503 } : undefined) });
    const at = () => refresh(right).status;
    expect(() => at()).toThrow(SyntaxError); // A status of the 500 series has no body.
    expect(at()).toBe(200);
  });
});
