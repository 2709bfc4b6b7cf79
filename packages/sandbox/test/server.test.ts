import { Agent, get as httpGet, request as httpRequest } from 'node:http';
import { get as httpsGet } from 'node:https';
import { networkInterfaces } from 'node:os';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { Rules } from '../src/admission/rules.ts';
import { ticketRecord } from '../src/helpdesk/records.ts';
import { type Fault, type Sandbox, type SandboxOptions, startSandbox } from '../src/server.ts';
import { CERTIFICATE } from './certificate.ts';
import { emptyWorld, NOON } from './in-process.ts';

async function sandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const made = await startSandbox({ tickets: 30, requestsPerSecond: 1e6, credits: 1e6, ...options });
  onTestFinished(() => made.close());
  return made;
}

const ask = (made: Sandbox, path: string) =>
  fetch(made.url + path, { headers: { authorization: `Bearer ${made.token}` } });

afterEach(() => {
  vi.useRealTimers();
});

describe('a real server', () => {
  test('serves lists and records from its world, at an address of this machine', async () => {
    const made = await sandbox();
    expect(made.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/api\/v1$/);
    const reply = await ask(made, '/tickets?sort=updated_at&per_page=100&count=true');
    const json = (await reply.json()) as { id: string }[];
    expect(json).toHaveLength(30);
    expect(reply.headers.get('content-type')).toBe('application/json');
    expect(reply.headers.get('total-count')).toBe('30');
    expect(reply.headers.get('rate-limit-used')).toBe('2');
    const one = (await (await ask(made, `/tickets/${json[3]!.id}?embed=messages`)).json()) as object;
    const ticket = made.world.ticket(json[3]!.id);
    expect(one).toStrictEqual({ ...ticketRecord(ticket), messages: ticket.messages });
    expect(made.requests.map(({ method, path, cost }) => `${method} ${path} ${cost}`)).toEqual([
      'GET /tickets 2',
      `GET /tickets/${json[3]!.id} 2`,
    ]);
    expect(made.totals).toEqual({ requests: 2, credits: 4, refused: 0 });
  });

  test('lists as the defaults say: the token, six requests a second, a hundred credits', async () => {
    const made = await startSandbox({ now: () => NOON });
    onTestFinished(() => made.close());
    expect(made.token).toBe('sandbox-token');
    const replies = await Promise.all(Array.from({ length: 8 }, () => ask(made, '/users')));
    expect(replies.map(({ status }) => status).toSorted()).toEqual([200, 200, 200, 200, 200, 200, 429, 429]);
    expect(replies[0]!.headers.get('rate-limit-limit')).toBe('100');
    expect(made.totals.refused).toBe(2);
  });

  test('Date and everything else is told by the world’s clock', async () => {
    const { world, clock } = emptyWorld();
    const made = await sandbox({ world });
    clock.ms += 61_000;
    world.addTicket({ id: 't' });
    const reply = await ask(made, '/tickets');
    expect(reply.headers.get('date')).toBe('Wed, 01 May 2024 12:01:01 GMT');
    expect(reply.headers.get('rate-limit-reset')).toBe('59');
    expect(await reply.json()).toMatchObject([{ id: 't', created_at: '2024-05-01T12:01:01Z' }]);
    expect(made.requests[0]!.at).toBe(NOON + 61_000);
  });

  test('a client that sends a body and an unknown verb is told so, on the same connection', async () => {
    const made = await sandbox();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const headers = { authorization: `Bearer ${made.token}`, 'content-type': 'application/json' };
    const send = (method: string, body: string) =>
      new Promise<[status: number | undefined, port: number | undefined]>((resolve, reject) => {
        const request = httpRequest(`${made.url}/tickets`, { method, agent, headers }, response => {
          const { localPort } = response.socket;
          response.resume().on('end', () => resolve([response.statusCode, localPort]));
        });
        request.on('error', reject).end(body);
      });
    const [status, port] = await send('PATCH', JSON.stringify({ subject: 'x'.repeat(200_000) }));
    expect(status).toBe(405);
    expect(await send('GET', '')).toEqual([200, port]);
    expect(await send('HEAD', '')).toEqual([405, port]);
  });

  test('close() ends idle connections, and those that still wait, at once', async () => {
    const asked = Promise.withResolvers<void>();
    const fault = (): Fault => {
      asked.resolve();
      return { kind: 'delay', ms: 3_600_000 };
    };
    const made = await startSandbox({ tickets: 3, fault });
    const waiting = ask(made, '/users');
    await asked.promise;
    await made.close();
    await expect(waiting).rejects.toThrow();
    await expect(ask(made, '/users')).rejects.toThrow();
  });

  test('listens to this machine alone, and on all of its addresses if told to', async () => {
    const addresses = Object.values(networkInterfaces())
      .flatMap(all => all ?? [])
      .filter(({ family }) => family === 'IPv4')
      .map(({ address }) => address);
    const at = (made: Sandbox, address: string) => fetch(made.url.replace('127.0.0.1', address));
    const all = await sandbox({ host: '0.0.0.0' });
    for (const address of addresses) expect((await at(all, address)).status, address).toBe(401);
    const alone = await sandbox();
    for (const address of addresses.filter(one => !one.startsWith('127.'))) {
      await expect(at(alone, address), address).rejects.toThrow();
    }
  });

  test('a port that is taken is an error, not a silence', async () => {
    const made = await sandbox();
    await expect(startSandbox({ tickets: 0, port: Number(new URL(made.url).port) })).rejects.toThrow('EADDRINUSE');
  });

  test('order under changes: what is touched between two pages jumps to the end', async () => {
    const { world, clock } = emptyWorld();
    for (const id of ['a', 'b', 'c', 'd']) world.addTicket({ id });
    clock.ms += 1000;
    const made = await sandbox({ world, before: (_, n) => n === 2 && world.touch('a') });
    const page = async (n: number) => {
      const reply = await ask(made, `/tickets?sort=updated_at&per_page=2&page=${n}`);
      return ((await reply.json()) as { id: string }[]).map(({ id }) => id).join(' ');
    };
    expect([await page(1), await page(2), await page(1)]).toEqual(['a b', 'd a', 'b c']);
  });
});

describe('activity', () => {
  test('the world changes by itself, as often a minute as was ordered', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const clock = { ms: NOON };
    const made = await startSandbox({ tickets: 20, activity: 120, now: () => clock.ms });
    const changes = vi.spyOn(made.world, 'mutate');
    clock.ms += 30_000;
    vi.advanceTimersByTime(1000);
    expect(changes).toHaveBeenCalledTimes(60);
    vi.advanceTimersByTime(10_000);
    expect(changes).toHaveBeenCalledTimes(60);
    clock.ms += 1000;
    vi.advanceTimersByTime(1000);
    expect(changes).toHaveBeenCalledTimes(62);
    await made.close();
    clock.ms += 60_000;
    vi.advanceTimersByTime(10_000);
    expect(changes).toHaveBeenCalledTimes(62);
  });

  test('what was due while the machine slept comes in slices, and a request finds all of it', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'setImmediate'] });
    const clock = { ms: NOON };
    const made = await sandbox({ tickets: 20, activity: 120, now: () => clock.ms, books: { volumes: 0 } });
    const changes = vi.spyOn(made.world, 'mutate');
    clock.ms += 150_000;
    vi.advanceTimersByTime(250);
    expect(changes).toHaveBeenCalledTimes(100);
    vi.advanceTimersByTime(1);
    expect(changes.mock.calls.length).toBeGreaterThan(100);
    clock.ms += 600_000;
    vi.useRealTimers();
    expect((await ask(made, '/users')).status).toBe(200);
    expect(changes).toHaveBeenCalledTimes(1500);
  });
});

describe('faults', () => {
  /** A server that does this to its first request, and its second answer, which has to be right again. */
  async function faulty(fault: Fault, path = '/customers') {
    const made = await sandbox({ fault: (_, n) => (n === 1 ? fault : undefined) });
    onTestFinished(async () => {
      const second = await ask(made, '/customers');
      expect(((await second.json()) as unknown[]).length).toBe(10);
    });
    return { made, reply: ask(made, path) };
  }

  test('a status of the 500 series has no body', async () => {
    const reply = await (await faulty({ kind: 'status', status: 503 })).reply;
    expect([reply.status, await reply.text(), reply.headers.get('content-type')]).toEqual([503, '', null]);
    expect(reply.headers.get('rate-limit-used')).toBe('1');
  });

  test('a status of the 400 series has a message', async () => {
    const reply = await (await faulty({ kind: 'status', status: 403 })).reply;
    expect(reply.status).toBe(403);
    expect(await reply.json()).toStrictEqual({ message: 'Status 403 on purpose' });
  });

  test('a connection that is destroyed before anything was sent', async () => {
    const { reply } = await faulty({ kind: 'reset', after: 'before' });
    await expect(reply).rejects.toThrow('fetch failed');
  });

  test('also where there is TLS between', async () => {
    const fault: Fault = { kind: 'reset', after: 'before' };
    const made = await sandbox({ tls: CERTIFICATE, fault: (_, n) => (n === 1 ? fault : undefined) });
    const status = () =>
      new Promise((resolve, reject) => {
        const headers = { authorization: `Bearer ${made.token}` };
        const options = { headers, agent: false, rejectUnauthorized: false };
        httpsGet(`${made.url}/users`, options, response => resolve(response.resume().statusCode)).on('error', reject);
      });
    await expect(status()).rejects.toThrow();
    expect(await status()).toBe(200);
  });

  test('a reply that cannot be sent ends its own connection, and is told', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    onTestFinished(() => warned.mockRestore());
    const { reply } = await faulty({ kind: 'headers', set: { 'X-Odd': 'two\nlines' } });
    await expect(reply).rejects.toThrow('fetch failed');
    expect(String(warned.mock.calls[0]?.[0])).toMatch('Invalid character in header content');
  });

  test('a length that is wrong on purpose, however it is written, is the only one', async () => {
    for (const name of ['content-length', 'Content-Length']) {
      const made = await sandbox({ fault: () => ({ kind: 'headers', set: { [name]: '2' } }) });
      const lengths = await new Promise<string[]>((resolve, reject) => {
        const headers = { authorization: `Bearer ${made.token}` };
        httpGet(`${made.url}/users`, { headers, agent: false }, response => {
          resolve(response.rawHeaders.filter((_, at, all) => all[at - 1]?.toLowerCase() === 'content-length'));
          response.destroy();
        }).on('error', reject);
      });
      expect(lengths, name).toEqual(['2']);
    }
  });

  test.each(['headers', 'half'] as const)('a connection that is destroyed behind the %s', async after => {
    const reply = await (await faulty({ kind: 'reset', after })).reply;
    expect(reply.status).toBe(200);
    expect(Number(reply.headers.get('content-length'))).toBeGreaterThan(1000);
    await expect(reply.text()).rejects.toThrow('terminated');
  });

  test('half of the body does arrive', async () => {
    const made = await sandbox({ fault: () => ({ kind: 'reset', after: 'half' }) });
    const [arrived, promised] = await new Promise<[arrived: number, promised: number]>(resolve => {
      httpGet(`${made.url}/customers`, { headers: { authorization: `Bearer ${made.token}` } }, response => {
        let arrived = 0;
        response.on('data', chunk => {
          arrived += chunk.length;
        });
        response.on('error', () => resolve([arrived, Number(response.headers['content-length'])]));
      });
    });
    expect(arrived).toBe(promised >> 1);
  });

  test('JSON that ends in the middle of a reply that is complete', async () => {
    const reply = await (await faulty({ kind: 'truncate' })).reply;
    const text = await reply.text();
    expect(reply.status).toBe(200);
    expect(Number(reply.headers.get('content-length'))).toBe(Buffer.byteLength(text));
    expect(() => JSON.parse(text)).toThrow(SyntaxError);
  });

  test('a page of HTML', async () => {
    const reply = await (await faulty({ kind: 'html' })).reply;
    expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'text/html']);
    expect(await reply.text()).toMatch(/^<!DOCTYPE html>/);
  });

  test('a body with another content, while the world keeps its own', async () => {
    const edit = (json: unknown) => {
      (json as Record<string, unknown>[])[0]!.contacts = 'none';
      return json;
    };
    const { made, reply } = await faulty({ kind: 'body', edit });
    expect(((await (await reply).json()) as { contacts: unknown }[])[0]!.contacts).toBe('none');
    expect([...made.world.customers.values()].every(({ contacts }) => Array.isArray(contacts))).toBe(true);
  });

  test('text with another content', async () => {
    const edit = (text: string) => text.replace('"id":"', '"id":"\\u0000\\ud800');
    const { reply } = await faulty({ kind: 'text', edit });
    expect(await (await reply).text()).toMatch(/^\[\{"id":"\\u0000\\ud800/);
  });

  test('headers that are missing or wrong', async () => {
    const { reply } = await faulty({ kind: 'headers', drop: ['date'], set: { 'rate-limit-remaining': 'many' } });
    const { headers } = await reply;
    expect([headers.get('date'), headers.get('rate-limit-remaining'), headers.get('rate-limit-used')]).toEqual([
      null,
      'many',
      '1',
    ]);
  });

  test('a delay: the data is that of the request, the Date that of the reply', async () => {
    const { world, clock } = emptyWorld();
    world.addTicket({ id: 't', subject: 'before' });
    const fault = (): Fault => {
      // Runs as soon as the server has computed the reply, and before any timer.
      queueMicrotask(() => {
        world.patchTicket('t', { subject: 'after' });
        clock.ms += 5000;
      });
      return { kind: 'delay', ms: 1 };
    };
    const made = await sandbox({ world, fault });
    const reply = ask(made, '/tickets/t');
    expect((await reply).headers.get('date')).toBe('Wed, 01 May 2024 12:00:05 GMT');
    expect(await (await reply).json()).toMatchObject({ subject: 'before' });
  });

  test.each([
    [{ drop: ['Date'] }, null],
    [{ set: { Date: 'yesterday' } }, 'yesterday'],
  ])('a Date that is wrong on purpose stays so where the reply is late: %o', async (headers, expected) => {
    const rules = new Rules([{ fault: { kind: 'headers', ...headers } }, { fault: { kind: 'delay', ms: 1 } }]);
    expect((await ask(await sandbox({ rules }), '/users')).headers.get('date')).toBe(expected);
  });

  test('only a request that was let in can go wrong, and it is numbered', async () => {
    const seen: string[] = [];
    const made = await sandbox({ credits: 3, fault: ({ path, query }, n) => void seen.push(`${n} ${path}?${query}`) });
    await fetch(`${made.url}/users`);
    for (const path of ['/users?fields=id', '/tickets/x?embed=user', '/users']) await (await ask(made, path)).text();
    expect(seen).toEqual(['1 /users?fields=id', '2 /tickets/x?embed=user']);
    expect(made.totals).toEqual({ requests: 4, credits: 3, refused: 1 });
  });
});
