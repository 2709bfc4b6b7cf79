import { connect } from 'node:net';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type BooksOptions, type Sandbox, type SandboxOptions, startSandbox } from '../src/server.ts';
import { emptyBooks, ME } from './books-in-process.ts';
import { NOON } from './in-process.ts';

async function sandbox(books: BooksOptions = {}, options: SandboxOptions = {}): Promise<Sandbox> {
  const unlimited = { requestsPerDay: 1e6, requestsPerSecond: 1e6 };
  const made = await startSandbox({ tickets: 3, ...options, books: { ...unlimited, ...books } });
  onTestFinished(() => made.close());
  return made;
}

const ask = ({ books }: Sandbox, path: string) =>
  fetch(books.url + path, { headers: { authorization: `Bearer ${books.token}` } });

/** What a client that writes exactly this gets back. */
function raw(made: Sandbox, request: string[]): Promise<string> {
  const { port, hostname } = new URL(made.books.url);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let text = '';
  const socket = connect(Number(port), hostname, () => socket.write(`${request.join('\r\n')}\r\n\r\n`));
  socket.setEncoding('utf8').on('data', piece => {
    text += piece;
  });
  socket.on('end', () => resolve(text)).on('error', reject);
  return promise;
}

describe('both services on one port', () => {
  test('each has its address, its credentials, its log and its limits', async () => {
    const made = await sandbox({ requestsPerDay: 1 }, { credits: 1 });
    const { url, books } = made;
    expect(books.url).toBe(url.replace('/api/v1', '/books/v1'));
    expect(books.tokenUrl).toBe(url.replace('/api/v1', '/oauth/token'));
    expect((await fetch(`${url}/users`, { headers: { authorization: `Bearer ${made.token}` } })).status).toBe(200);
    const volume = [...books.world.volumes.keys()][0]!;
    const reply = await fetch(`${books.url}/volumes/${volume}?key=${books.key}&fields=id`);
    expect([reply.status, await reply.json()]).toEqual([200, { id: volume }]);
    expect(reply.headers.get('content-type')).toBe('application/json; charset=UTF-8');
    expect(made.requests.map(({ path }) => path)).toEqual(['/users']);
    expect(books.requests).toEqual([
      {
        method: 'GET',
        path: `/volumes/${volume}`,
        query: expect.any(URLSearchParams),
        cost: 1,
        at: expect.any(Number),
        client: { credential: 'key', agent: 'node' },
        outcome: 'admitted',
        status: 200,
      },
    ]);
    expect((await ask(made, '/mylibrary/bookshelves')).status).toBe(403);
    books.beginNewDay();
    expect((await ask(made, '/mylibrary/bookshelves')).status).toBe(200);
    expect(books.totals).toEqual({ requests: 3, credits: 2, refused: 1 });
    expect(made.totals).toEqual({ requests: 1, credits: 1, refused: 0 });
  });

  test('the token of one is none of the other; what is neither is the help desk’s', async () => {
    const made = await sandbox();
    const { books, url } = made;
    const with_ = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
    expect((await fetch(`${books.url}/mylibrary/bookshelves`, with_(made.token))).status).toBe(401);
    expect((await fetch(`${url}/users`, with_(books.token))).status).toBe(401);
    expect((await fetch(new URL('/books/v2/volumes', url), with_(made.token))).status).toBe(404);
    expect(made.requests).toHaveLength(2);
  });

  test('a catalog of one’s own, and the clock of the server', async () => {
    const { world, clock } = emptyBooks();
    world.addVolume({ id: 'mine' });
    const made = await sandbox({ world });
    expect(made.books.world).toBe(world);
    clock.ms += 61_000;
    expect((await ask(made, '/volumes/mine')).headers.get('date')).toBe('Wed, 01 May 2024 12:01:01 GMT');
    const other = await sandbox({}, { now: () => NOON });
    expect((await ask(other, '/mylibrary/bookshelves')).headers.get('date')).toBe('Wed, 01 May 2024 12:00:00 GMT');
    expect(other.books.world.volumes.size).toBe(300);
  });
});

describe('POSTs as clients of this kind send them', () => {
  const credentials = (made: Sandbox) => ['Host: x', `Authorization: Bearer ${made.books.token}`, 'Connection: close'];
  test.each<[what: string, more: string[]]>([
    ['neither body nor type', ['Content-Length: 0']],
    ['not even a length', []],
    ['a type without a body', ['Content-Length: 0', 'Content-Type: application/json']],
    ['an odd type', ['Content-Length: 0', 'Content-Type: text/x-nothing; charset=utf-8']],
    ['a body that nobody needs', ['Content-Length: 2', 'Content-Type: application/json', '', '{}']],
  ])('%s', async (_, more) => {
    for (const posts of [200, 204] as const) {
      const made = await sandbox({ posts });
      const id = [...made.books.world.volumes.keys()].find(id => !made.books.world.shelf(ME, 3).volumes.includes(id))!;
      const line = `POST /books/v1/mylibrary/bookshelves/3/addVolume?volumeId=${id} HTTP/1.1`;
      const text = await raw(made, [line, ...credentials(made), ...more]);
      const [head = '', body] = text.split('\r\n\r\n');
      expect(head).toMatch(new RegExp(`^HTTP/1.1 ${posts} `));
      expect(body).toBe(posts === 200 ? '{}' : '');
      expect(/content-length/i.test(head)).toBe(posts === 200);
      expect(made.books.world.shelf(ME, 3).volumes[0]).toBe(id);
    }
  });
});

describe('the token endpoint', () => {
  const refresh = ({ books }: Sandbox, form: Record<string, string> = {}) => {
    const { clientId: client_id, clientSecret: client_secret, refreshToken: refresh_token } = books;
    const right = { grant_type: 'refresh_token', client_id, client_secret, refresh_token };
    return fetch(books.tokenUrl, { method: 'POST', body: new URLSearchParams({ ...right, ...form }) });
  };

  test('gives a token for "my library", until all expire', async () => {
    const made = await sandbox({ tokenSeconds: 100 });
    const reply = await refresh(made);
    const { access_token, ...rest } = (await reply.json()) as { access_token: string };
    expect(rest).toEqual({ expires_in: 100, token_type: 'Bearer' });
    const headers = { authorization: `Bearer ${access_token}` };
    const status = async () => (await fetch(`${made.books.url}/mylibrary/bookshelves`, { headers })).status;
    expect(await status()).toBe(200);
    made.books.expireTokens();
    expect(await status()).toBe(401);
    expect([made.books.tokensGiven(), made.books.requests.length]).toEqual([1, 2]);
  });

  test('takes forms of its own length, whatever the help desk takes', async () => {
    const made = await startSandbox({ tickets: 0, mostBodyBytes: 1, books: { volumes: 0 } });
    onTestFinished(() => made.close());
    expect((await refresh(made)).status).toBe(200);
  });

  test('refuses what is wrong, however long it is, and whatever is no form', async () => {
    const made = await sandbox();
    for (const [refresh_token, status, error] of [
      ['wrong', 400, 'invalid_grant'],
      ['x'.repeat(60_000), 400, 'invalid_grant'],
      ['x'.repeat(300_000), 413, 'invalid_request'],
    ] as const) {
      const reply = await refresh(made, { refresh_token });
      expect([reply.status, await reply.json()]).toMatchObject([status, { error }]);
    }
    const bare = await fetch(made.books.tokenUrl, { method: 'POST' });
    expect([bare.status, await bare.json()]).toMatchObject([400, { error: 'invalid_request' }]);
    expect((await fetch(made.books.tokenUrl)).status).toBe(405);
  });
});

describe('faults', () => {
  const failing = (fault: BooksOptions['fault'] & object) => sandbox({ fault });

  test('a status has the envelope of the service, with the reason that was ordered', async () => {
    const made = await failing((_, n) => ({
      kind: 'status',
      status: n === 1 ? 403 : 503,
      reason: 'dailyLimitExceeded',
    }));
    for (const status of [403, 503]) {
      const reply = await ask(made, '/mylibrary/bookshelves');
      expect(reply.status).toBe(status);
      expect(await reply.json()).toMatchObject({
        error: { code: status, errors: [{ domain: 'usageLimits', reason: 'dailyLimitExceeded' }] },
      });
    }
    expect(made.books.requests.map(({ status }) => status)).toEqual([200, 200]);
  });

  test('connections break, texts end, and the next request is right again', async () => {
    const made = await failing((_, n) => {
      if (n === 1) return { kind: 'reset', after: 'before' };
      if (n === 2) return { kind: 'reset', after: 'half' };
      if (n === 3) return { kind: 'truncate' };
      return undefined;
    });
    await expect(ask(made, '/mylibrary/bookshelves')).rejects.toThrow('fetch failed');
    await expect(ask(made, '/mylibrary/bookshelves').then(reply => reply.text())).rejects.toThrow('terminated');
    await expect(ask(made, '/mylibrary/bookshelves').then(reply => reply.json())).rejects.toThrow(SyntaxError);
    expect((await ask(made, '/mylibrary/bookshelves')).status).toBe(200);
  });

  test('`before` sees each request that was let in, and may change the catalog under it', async () => {
    const { world } = emptyBooks();
    for (const id of 'abcd') world.add(ME, 0, world.addVolume({ id }).id, 9);
    const made = await sandbox({
      world,
      before: (_, n) => n === 2 && world.add(ME, 0, world.addVolume({ id: 'new' }).id),
    });
    const page = async (start: number) => {
      const reply = await ask(
        made,
        `/mylibrary/bookshelves/0/volumes?maxResults=2&startIndex=${start}&fields=items/id`,
      );
      return ((await reply.json()) as { items: { id: string }[] }).items.map(({ id }) => id).join(' ');
    };
    expect([await page(0), await page(2), await page(4)]).toEqual(['a b', 'b c', 'd']);
  });
});

describe('activity', () => {
  test('a tenth of the help desk’s, or what was ordered', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const clock = { ms: NOON };
    const one = await startSandbox({ tickets: 3, activity: 600, now: () => clock.ms });
    const other = await startSandbox({ tickets: 3, now: () => clock.ms, books: { activity: 120 } });
    const changes = [one, other].map(({ books }) => vi.spyOn(books.world, 'mutate'));
    const desk = vi.spyOn(other.world, 'mutate');
    clock.ms += 30_000;
    vi.advanceTimersByTime(1000);
    expect(changes.map(({ mock }) => mock.calls.length)).toEqual([30, 60]);
    expect(desk).not.toHaveBeenCalled();
    for (const made of [one, other]) await made.close();
    clock.ms += 60_000;
    vi.advanceTimersByTime(10_000);
    expect(changes.map(({ mock }) => mock.calls.length)).toEqual([30, 60]);
  });
});
