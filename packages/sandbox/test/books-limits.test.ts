import { describe, expect, test, vi } from 'vitest';
import { BooksService, type BooksServiceOptions } from '../src/books/service.ts';
import { askingBooks, emptyBooks } from './books-in-process.ts';

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
    expect(service.totals).toEqual({ requests: 5, credits: 3, refused: 2 });
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

  test('errors cost as answers do; who is not known costs nothing', () => {
    const { get, anonymous, others } = limited({ requestsPerDay: 2 });
    expect(get('/volumes/none').status).toBe(503);
    expect(anonymous('/mylibrary/bookshelves').status).toBe(401);
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

  test('a mistake of the sandbox’s own costs, and is written down', () => {
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue();
    const { get, service } = limited({
      before: () => {
        throw new Error('a mistake');
      },
    });
    expect(get('/volumes?q=x')).toMatchObject({ status: 500, text: '' });
    expect(service.requests.map(({ path, cost, status }) => [path, cost, status])).toEqual([['/volumes', 1, 500]]);
    expect(service.totals).toEqual({ requests: 1, credits: 1, refused: 0 });
    expect(warned).toHaveBeenCalledOnce();
    warned.mockRestore();
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

  test('those that have expired are forgotten, and of very many the oldest', () => {
    const { refresh, status, clock, service } = tokens({ tokenSeconds: 60 });
    for (let n = 0; n < 3; n++) refresh(right);
    expect(service.tokens.kept).toBe(3);
    clock.ms += 60_000;
    const [first] = [refresh(right).json.access_token];
    expect(service.tokens.kept).toBe(1);
    const body = Buffer.from(new URLSearchParams(right).toString());
    const again = () => service.handle({ method: 'POST', url: '/oauth/token', headers: {}, body });
    for (let n = 1; n < 10_000; n++) again();
    expect([service.tokens.kept, status(first)]).toEqual([10_000, 200]);
    again();
    expect([service.tokens.kept, status(first)]).toEqual([10_000, 401]);
  });

  test('credentials without a character are nobody’s, whatever was ordered', () => {
    const { anonymous, status } = tokens({ token: '', key: '' });
    expect(status('')).toBe(401);
    expect(anonymous('/mylibrary/bookshelves?access_token=').status).toBe(401);
    expect(anonymous('/volumes?q=x&key=').status).toBe(400);
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

  test.each<[field: string, wrong: [number, string], missing: [number, string]]>([
    ['grant_type', [400, 'unsupported_grant_type'], [400, 'invalid_request']],
    ['client_id', [401, 'invalid_client'], [400, 'invalid_request']],
    ['client_secret', [401, 'invalid_client'], [401, 'invalid_client']],
    ['refresh_token', [400, 'invalid_grant'], [400, 'invalid_request']],
  ])('a wrong %s gives nothing', (field, wrong, missing) => {
    const { refresh, service } = tokens();
    for (const [value, expected] of [
      ['wrong', wrong],
      ['', missing],
    ] as const) {
      const { status, json, headers } = refresh({ ...right, [field]: value });
      expect([status, json.error]).toEqual(expected);
      expect(json.error_description).toEqual(expect.any(String));
      expect(headers['Cache-Control']).toBe('no-store');
    }
    expect(service.tokens.given).toBe(0);
  });

  const asForm = (form: Record<string, string>) => new URLSearchParams(form).toString();
  const basic = (id: string, secret: string) => `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`;
  const { client_id, client_secret, ...grant } = right;
  test.each<[what: string, body: string, headers: Record<string, string>, status: number, error?: string]>([
    ['the client as Basic', asForm(grant), { authorization: basic(client_id, client_secret) }, 200],
    ['and named in the form', asForm({ ...grant, client_id }), { authorization: basic(client_id, client_secret) }, 200],
    ['as Basic, written as in a form', asForm(grant), { authorization: basic('sandbox%2Dclient', client_secret) }, 200],
    ['as Basic, wrong', asForm(grant), { authorization: basic(client_id, 'no') }, 401, 'invalid_client'],
    [
      'another in the form',
      asForm({ ...grant, client_id: 'b' }),
      { authorization: basic('b', '') },
      401,
      'invalid_client',
    ],
    ['secrets both ways', asForm(right), { authorization: basic(client_id, client_secret) }, 400, 'invalid_request'],
    ['no client at all', asForm(grant), {}, 401, 'invalid_client'],
    ['a form that says so', asForm(right), { 'content-type': 'application/x-www-form-urlencoded; charset=UTF-8' }, 200],
    ['JSON', JSON.stringify(right), { 'content-type': 'application/json' }, 400, 'invalid_request'],
    ['nothing', '', {}, 400, 'invalid_request'],
    ['a field twice', `${asForm(right)}&refresh_token=sandbox-refresh`, {}, 400, 'invalid_request'],
    ['a password', asForm({ ...right, grant_type: 'password' }), {}, 400, 'unsupported_grant_type'],
    ['a scope that nobody reads', asForm({ ...right, scope: 'books' }), {}, 200],
    ['bytes that are no text', `\uD800%FF&${asForm(right)}`, {}, 200],
  ])('%s: %i', (_, body, headers, status, error) => {
    const { service } = tokens();
    const reply = service.handle({ method: 'POST', url: '/oauth/token', headers, body: Buffer.from(body) });
    expect([reply.status, JSON.parse(reply.text).error]).toEqual([status, error]);
    expect('WWW-Authenticate' in reply.headers).toBe(status === 401 && 'authorization' in headers);
  });

  test('names and tokens of one’s own; only POST is answered; the quota is another one', () => {
    const own = { clientId: 'c', clientSecret: 's', refreshToken: 'r', token: 't' };
    const { refresh, status } = tokens({ ...own, requestsPerDay: 1 });
    const form = { grant_type: 'refresh_token', client_id: 'c', client_secret: 's', refresh_token: 'r' };
    expect(refresh(form, 'GET').status).toBe(405);
    expect([refresh(form).status, refresh(form).status, status('t'), status('t')]).toEqual([200, 200, 200, 403]);
  });

  test('what goes wrong on purpose with it', () => {
    const { service } = tokens({ tokenFault: n => (n === 1 ? { kind: 'status', status: 503 } : undefined) });
    const at = () => {
      const body = Buffer.from(new URLSearchParams(right).toString());
      const { status, text } = service.handle({ method: 'POST', url: '/oauth/token', headers: {}, body });
      return [status, text === ''];
    };
    expect([at(), at()]).toEqual([
      [503, true],
      [200, false],
    ]);
  });
});
