import { once } from 'node:events';
import { get as httpGet, request as httpRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { ADMIN_ENDPOINTS } from '../src/admin/admin-endpoints.ts';
import { linesOf } from '../src/admin/truth.ts';
import { Rules } from '../src/admission/rules.ts';
import { wholeNote } from '../src/helpdesk/world/conversation.ts';
import { type Sandbox, type SandboxOptions, startSandbox } from '../src/server.ts';
import { emptyWorld, NOON } from './in-process.ts';

async function sandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const made = await startSandbox({
    tickets: 30,
    books: { volumes: 5 },
    requestsPerSecond: 1e6,
    now: () => NOON,
    adminPort: 0,
    ...options,
  });
  onTestFinished(() => made.close());
  return made;
}

interface Got {
  status: number;
  headers: Headers;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever came
  json: any;
}

async function admin(
  made: Sandbox,
  method: string,
  path: string,
  json?: unknown,
  text = JSON.stringify(json),
): Promise<Got> {
  const body = text === undefined ? {} : { body: text, headers: { 'content-type': 'application/json' } };
  const reply = await fetch(made.adminUrl + path, { method, ...body });
  const came = await reply.text();
  const isJson = reply.headers.get('content-type') === 'application/json';
  return { status: reply.status, headers: reply.headers, text: came, json: isJson ? JSON.parse(came) : undefined };
}

const records = (text: string) =>
  text
    .split('\n')
    .slice(0, -1)
    .map(line => JSON.parse(line));

const ask = (made: Sandbox, path: string, agent = 'test') =>
  fetch(made.url + path, { headers: { authorization: `Bearer ${made.token}`, 'user-agent': agent } });

/** As `fetch` cannot: with any headers, to any path. */
function raw(
  made: Sandbox,
  options: object,
  body?: string | Buffer,
): Promise<[status: number | undefined, text: string]> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(made.adminUrl!, options, async response => {
      let text = '';
      for await (const chunk of response.setEncoding('utf8')) text += chunk;
      resolve([response.statusCode, text]);
    });
    request.on('error', reject).end(body);
  });
}

describe('who gets in', () => {
  test('nobody, unless a port was asked for', async () => {
    const made = await startSandbox({ tickets: 0 });
    onTestFinished(() => made.close());
    expect(made.adminUrl).toBeUndefined();
    expect((await fetch(new URL('/truth/counts', made.url))).status).not.toBe(200);
  });

  test('it listens to this machine alone, whatever the host of the services is', async () => {
    const made = await sandbox({ host: '0.0.0.0' });
    expect(made.adminUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const others = Object.values(networkInterfaces())
      .flatMap(all => all ?? [])
      .filter(({ family, internal }) => family === 'IPv4' && !internal);
    for (const { address } of others) {
      await expect(fetch(made.adminUrl!.replace('127.0.0.1', address)), address).rejects.toThrow();
      expect((await fetch(made.url.replace('127.0.0.1', address))).status, address).toBe(401);
    }
    expect((await admin(made, 'GET', '/')).status).toBe(200);
  });

  test('a port that is taken is an error, and the other port is free again', async () => {
    const made = await sandbox();
    const adminPort = Number(new URL(made.adminUrl!).port);
    const { port } = new URL((await sandbox()).url);
    await expect(startSandbox({ tickets: 0, adminPort })).rejects.toThrow('EADDRINUSE');
    await expect(startSandbox({ tickets: 0, adminPort: 0, port: Number(port) })).rejects.toThrow('EADDRINUSE');
  });

  test.each([
    ['localhost', 200],
    ['LOCALHOST:4011', 200],
    ['127.0.0.1:1', 200],
    ['[::1]:4011', 200],
    ['evil.example', 403],
    ['127.0.0.1.evil.example', 403],
    ['localhost.evil.example:4011', 403],
    ['localhost:4011@evil.example', 403],
    ['192.168.0.7:4011', 403],
  ])('Host %s: %i', async (host, expected) => {
    const made = await sandbox();
    const [status, text] = await raw(made, { headers: { host }, path: '/truth/counts' });
    expect(status).toBe(expected);
    if (status === 403) expect(JSON.parse(text)).toStrictEqual({ message: expect.stringMatching(/^Host: /) });
  });

  test('not a page in a browser, not even one of this machine', async () => {
    const made = await sandbox();
    for (const origin of ['https://evil.example', 'null', made.adminUrl!]) {
      for (const method of ['GET', 'POST', 'OPTIONS', 'DELETE']) {
        const reply = await fetch(`${made.adminUrl}/faults`, { method, headers: { origin } });
        expect([reply.status, reply.headers.get('access-control-allow-origin')], `${method} ${origin}`).toEqual([
          403,
          null,
        ]);
      }
    }
    expect((await admin(made, 'GET', '/faults')).json).toEqual([]);
  });

  test('close() ends its connections too, those that wait included', async () => {
    const made = await startSandbox({ tickets: 2000, adminPort: 0 });
    const [reply] = (await once(httpGet(`${made.adminUrl}/truth/messages`), 'response')) as [IncomingMessage];
    const broken = once(reply, 'error');
    await made.close();
    reply.resume();
    await broken;
    await expect(fetch(made.adminUrl!)).rejects.toThrow();
  });
});

describe('what is malformed', () => {
  let made: Sandbox;
  beforeAll(async () => {
    made = await startSandbox({ tickets: 3, now: () => NOON, adminPort: 0 });
    return () => made.close();
  });

  test.each<[what: string, method: string, path: string, text: string | undefined, status: number, says: RegExp]>([
    ['nothing there', 'GET', '/nowhere', undefined, 404, /GET \/ lists/],
    ['no truth of that kind', 'GET', '/truth/lies', undefined, 404, /known kinds: tickets, messages/],
    ['no truth of the language itself', 'GET', '/truth/constructor', undefined, 404, /known kinds: tickets/],
    ['another verb', 'DELETE', '/clock', undefined, 405, /DELETE is not allowed/],
    ['HEAD', 'PATCH', '/faults', undefined, 405, /PATCH is not allowed/],
    ['no rule', 'GET', '/faults/none', undefined, 404, /no rule none/],
    ['no rule', 'DELETE', '/faults/none', undefined, 404, /no rule none/],
    ['an odd escape', 'GET', '/faults/%ff', undefined, 404, /no rule %ff/],
    ['no body', 'POST', '/clock', '', 422, /object with seconds/],
    ['no JSON', 'POST', '/clock', '{', 400, /not JSON/],
    ['too deep', 'POST', '/faults', '['.repeat(200_000), 400, /deeper/],
    ['not an object', 'POST', '/clock', '[1]', 422, /object with seconds/],
    ['null', 'POST', '/changes', 'null', 422, /object with count/],
    ['another type', 'POST', '/clock', '{"seconds": "1"}', 422, /seconds: has to be a number/],
    ['too far', 'POST', '/clock', '{"seconds": 1e999}', 422, /seconds: has to be a number/],
    ['before 1970', 'POST', '/clock', '{"seconds": -1e9, "service": "books"}', 200, /^$/],
    ['before 1970', 'POST', '/clock', '{"seconds": -1e9, "service": "books"}', 422, /between the years/],
    ['another clock', 'POST', '/clock', '{"seconds": 1, "only": "sun"}', 422, /only: the one choice is "date"/],
    ['misspelt', 'POST', '/clock', '{"second": 1}', 422, /no "second"/],
    ['another service', 'POST', '/clock', '{"seconds": 1, "service": "toaster"}', 422, /"helpdesk" or "books"/],
    ['a fraction', 'POST', '/credits', '{"credits": 1.5}', 422, /whole number/],
    ['nothing', 'POST', '/credits', '{"credits": 0}', 422, /1 to/],
    ['too many', 'POST', '/changes', '{"count": 10001}', 422, /1 to 10000/],
    ['too many to see', 'GET', '/requests?last=10001', undefined, 400, /last: "10001"/],
    ['odd number', 'GET', '/refusals?last=-1', undefined, 400, /last: "-1"/],
    ['no label', 'POST', '/bulk', '{"count": 1, "label_id": "none"}', 422, /id of a label/],
    ['no label', 'POST', '/bulk', '{"count": 1, "label_id": 7}', 422, /id of a label/],
    ['too many', 'POST', '/bulk', '{"count": 100001}', 422, /1 to 100000/],
    ['no rule', 'POST', '/faults', '{}', 422, /fault: /],
    ['a rule with an odd fault', 'PUT', '/faults/x', '{"fault": {"kind": "flood"}}', 422, /one of status/],
    ['no list of rules', 'PUT', '/faults', '{}', 422, /list/],
  ])('%s: %s %s', async (_, method, path, text, status, says) => {
    const got = await admin(made, method, path, undefined, text);
    expect([got.status, got.headers.get('content-type')]).toEqual([status, 'application/json']);
    const { message = '', errors = [] } = got.json as { message?: string; errors?: { message: string }[] };
    expect([message, ...errors.map(error => error.message)].join(' ')).toMatch(status === 200 ? /^$/ : says);
    if (status === 422) expect(errors.length).toBeGreaterThan(0);
    if (status === 405) expect(got.headers.get('allow')).not.toBe('');
  });

  test('a body that does not call itself JSON, as forms of pages do', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded']) {
      const headers = { 'content-type': type };
      const reply = await fetch(`${made.adminUrl}/clock`, { method: 'POST', headers, body: '{"seconds": 1}' });
      expect(reply.status, type).toBe(415);
    }
  });

  test('a body that is too long, or no UTF-8, or breaks off', async () => {
    const send = (body: Buffer) =>
      raw(made, { method: 'POST', path: '/faults', headers: { 'content-type': 'application/json' } }, body);
    for (const mebibytes of [3, 8]) expect((await send(Buffer.alloc(mebibytes * 1024 * 1024, 32)))[0]).toBe(413);
    expect((await send(Buffer.from([0x22, 0xff, 0x22])))[0]).toBe(400);
    const { port } = new URL(made.adminUrl!);
    const socket = connect(Number(port), '127.0.0.1');
    socket.write('POST /faults HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{');
    socket.resume().end();
    await once(socket, 'close');
    expect((await admin(made, 'GET', '/')).status).toBe(200);
  });

  test('what is no HTTP, and a flood of headers', async () => {
    const { port } = new URL(made.adminUrl!);
    for (const [text, expected] of [
      ['hello\r\n\r\n', 400],
      ['GET / HTTP/1.1\r\nConnection: close\r\n\r\n', 403],
      ['GET / HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n', 403],
      ['GET / HTTP/1.0\r\n\r\n', 403],
      [`GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(100_000)}\r\n\r\n`, 431],
      ['GET http://evil.example/faults HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n', 403],
      ['GET http://localhost/faults HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n', 200],
    ] as const) {
      const socket = connect(Number(port), '127.0.0.1').setEncoding('utf8');
      let reply = '';
      socket.on('data', chunk => {
        reply += chunk;
      });
      socket.on('error', () => {}).write(text);
      await once(socket, 'close');
      expect(reply, text.slice(0, 40)).toMatch(new RegExp(`^HTTP/1.1 ${expected} `));
    }
    expect((await admin(made, 'GET', '/')).status).toBe(200);
  });
});

describe('what can be seen', () => {
  test('every endpoint says what it is for, with an example that it takes', async () => {
    const rules = new Rules();
    const made = await sandbox({ rules });
    const list = (await admin(made, 'GET', '/')).json as {
      method: string;
      path: string;
      says: string;
      takes?: string;
    }[];
    expect(list).toEqual(ADMIN_ENDPOINTS.map(({ answer: _, ...shown }) => shown));
    for (const { method, path, says, takes } of list) {
      rules.set([{ id: 'one', fault: { kind: 'truncate' } }]);
      const filled = path.replace(':id', 'one').replace(':kind', 'users');
      const { status } = await admin(made, method, filled, undefined, takes);
      const created = method === 'POST' && path === '/faults';
      expect(status, `${method} ${path}`).toBe(method === 'DELETE' ? 204 : created ? 201 : 200);
      expect(says, path).not.toBe('');
    }
  });

  test('how both services are doing', async () => {
    const made = await sandbox();
    const { status, headers, json } = await admin(made, 'GET', '/status');
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store']);
    expect(json).toMatchObject({
      helpdesk: { holds: { tickets: 30 }, budget: { limit: 100, used: 0 } },
      books: { holds: { volumes: made.books.world.volumes.size } },
      admin_port: Number(new URL(made.adminUrl!).port),
    });
  });

  test('who asked, who was refused and by whose fault, without a credential', async () => {
    const made = await sandbox({ credits: 3 });
    const { books } = made;
    for (const agent of ['one', 'one', 'two', 'two']) await ask(made, '/users?fields=id', agent);
    await fetch(`${books.url}/volumes?q=x&key=${books.key}&access_token=${books.token}`);
    const at = '2024-05-01T12:00:00.000Z';
    const clients = (await admin(made, 'GET', '/clients')).json;
    const use = (agent: string, requests: number, credits: number, others: number) => ({
      ...{ credential: 'token 1', agent, requests, credits, refused: { own: 0, others } },
      ...{ first_at: at, last_at: at },
    });
    expect(clients.helpdesk).toStrictEqual({
      totals: made.totals,
      foreign: 0,
      clients: [use('one', 2, 2, 0), { ...use('two', 2, 1, 0), refused: { own: 1, others: 0 } }],
    });
    expect(clients.books.foreign).toBe(0);
    expect(clients.books.clients).toMatchObject([{ credential: 'token 1', requests: 1, credits: 1 }]);
    const refusals = (await admin(made, 'GET', '/refusals')).json;
    expect(refusals).toStrictEqual({
      helpdesk: [
        {
          ...{ at, client: { credential: 'token 1', agent: 'two' }, request: 'GET /users', cost: 1 },
          ...{ limit: 'credits', fault: 'own', why: 'told' },
        },
      ],
      books: [],
    });
    const requests = (await admin(made, 'GET', '/requests?last=2')).json;
    expect(requests.helpdesk).toStrictEqual([
      ...[
        { cost: 1, outcome: 'admitted', status: 200 },
        { cost: 0, outcome: 'credits', status: 429 },
      ].map(more => ({
        ...{ at, method: 'GET', path: '/users', query: 'fields=id', client: { credential: 'token 1', agent: 'two' } },
        ...more,
      })),
    ]);
    expect(requests.books[0].query).toBe('q=x&key=hidden&access_token=hidden');
    expect((await admin(made, 'GET', '/requests?last=0')).json).toEqual({ helpdesk: [], books: [] });
    const all = await Promise.all(
      ['/', '/status', '/clients', '/refusals', '/requests'].map(p => admin(made, 'GET', p)),
    );
    for (const secret of [made.token, books.key, books.token, books.clientSecret, books.refreshToken]) {
      expect(all.map(({ text }) => text).join('')).not.toContain(secret);
    }
  });

  test('what is truly there, one record a line, with what the interface never shows', async () => {
    const { world } = emptyWorld();
    world.addUser({ id: 'u', first_name: 'Ann' });
    world.addLabel({ id: 'l', name: 'late' });
    world.addInbox({ id: 'i', name: 'Post' });
    world.customers.add({
      id: 'c',
      created_at: '2020-01-01T00:00:00Z',
      contacts: [{ id: 'k', type: 'email', value: 'a@b.example' }],
    });
    world.addTicket({ id: 't', number: 7, subject: 'one\ntwo \u2028 \ud800' });
    world.addTicket({ id: 'w', spam: true });
    const said = world.addMessage('t', { id: 'm', body: 'hello' });
    const file = world.addAttachment('t', 'm', { id: 'a', name: 'x.pdf' });
    const waiting = { id: 'b', name: 'y.pdf', size: 1, type: 'application/pdf' };
    world.uploads.add(waiting, world.clock.now());
    const made = await sandbox({ world, books: { volumes: 5 } });
    const truth = async (kind: string) => records((await admin(made, 'GET', `/truth/${kind}`)).text);
    const { created_at } = world.ticket('t');
    expect((await truth('tickets')).map(({ id }) => id)).toEqual(['t', 'w']);
    expect((await truth('tickets'))[0]).toStrictEqual({
      ...{ id: 't', number: 7, subject: 'one\ntwo \u2028 \ud800', state: 'open', type: 'email', label_ids: [] },
      ...{ customer_id: 'c', user_id: null, inbox_id: 'i', snoozed_until: null, spam: false, trash: false },
      ...{ updated_at: created_at, created_at, reply_to: null, reply_cc: null, summary: null },
    });
    expect(await truth('messages')).toStrictEqual([{ ticket_id: 't', ...said, attachments: [file] }]);
    expect(await truth('customers')).toStrictEqual([
      {
        ...{ id: 'c', first_name: null, last_name: null, summary: null, created_at: '2020-01-01T00:00:00Z' },
        contacts: [{ id: 'k', type: 'email', value: 'a@b.example' }],
      },
    ]);
    expect(await truth('users')).toEqual([...world.users.values()]);
    expect(await truth('labels')).toEqual([{ id: 'l', name: 'late' }]);
    expect(await truth('inboxes')).toEqual([{ id: 'i', name: 'Post' }]);
    expect(await truth('attachments')).toEqual([file]);
    expect(await truth('uploads')).toEqual([waiting]);
    const { volumes, users } = made.books.world;
    expect(await truth('volumes')).toEqual([...volumes.values()]);
    expect(await truth('shelves')).toEqual(
      [...users.values()].flatMap(({ id, shelves }) => [...shelves.values()].map(shelf => ({ user_id: id, ...shelf }))),
    );
    const counts = (await admin(made, 'GET', '/truth/counts')).json;
    for (const kind of Object.keys(counts)) expect(await truth(kind), kind).toHaveLength(counts[kind]);
    expect(counts).toMatchObject({ tickets: 2, messages: 1, customers: 1, attachments: 1, uploads: 1, volumes: 5 });
  });

  test('a truth of any length is written while it is read, and no further than its reader comes', async () => {
    const { world } = emptyWorld();
    for (let n = 0; n < 3000; n++)
      world.addTicket({ messages: [wholeNote({ body: 'x'.repeat(30_000) }, `${n}`, '2024-05-01T12:00:00Z')] });
    const stopped = Promise.withResolvers<number>();
    const all = world.tickets.values.bind(world.tickets);
    world.tickets.values = function* () {
      let written = 0;
      try {
        for (const ticket of all()) {
          written++;
          yield ticket;
        }
      } finally {
        stopped.resolve(written);
      }
    } as typeof all;
    const made = await sandbox({ world });
    const request = httpGet(`${made.adminUrl}/truth/messages`);
    const [reply] = (await once(request, 'response')) as [IncomingMessage];
    expect(reply.headers['content-type']).toBe('application/x-ndjson');
    await once(reply, 'data');
    reply.pause();
    request.destroy();
    expect(await stopped.promise).toBeLessThan(1500);
    expect((await admin(made, 'GET', '/truth/counts')).json.tickets).toBe(3000);
  });

  test('others have their turns while it is written, also where little comes of it', async () => {
    const { world } = emptyWorld();
    for (let n = 0; n < 3000; n++) world.addTicket();
    let turns = 0;
    let writing = true;
    const turn = () => {
      turns++;
      if (writing) setImmediate(turn);
    };
    const all = world.tickets.values.bind(world.tickets);
    world.tickets.values = function* () {
      setImmediate(turn);
      yield* all();
      writing = false;
    } as typeof all;
    const made = await sandbox({ world });
    expect((await admin(made, 'GET', '/truth/attachments')).text).toBe('');
    expect(turns).toBeGreaterThanOrEqual(29);
  });

  test('a mistake in the middle of it is told; that a reader goes away is none', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    onTestFinished(() => warned.mockRestore());
    const made = await sandbox();
    const all = made.world.tickets.values.bind(made.world.tickets);
    made.world.tickets.values = function* () {
      yield* all();
      throw new Error('a mistake');
    } as typeof all;
    await expect(admin(made, 'GET', '/truth/tickets')).rejects.toThrow();
    expect(warned.mock.calls.map(([warning]) => String(warning))).toEqual(['Error: a mistake']);
  });

  test('lines come in pieces of whole lines', () => {
    expect([...linesOf([{ a: 1 }, undefined, { a: 2 }, { a: 3 }, undefined], 2)]).toEqual([
      ...['{"a":1}\n', '{"a":2}\n{"a":3}\n', ''],
    ]);
    const long = { a: 'x'.repeat(65_536) };
    expect([...linesOf([long, long])].map(({ length }) => length)).toEqual([65_545, 65_545, 0]);
    expect([...linesOf([])].join('')).toBe('');
  });
});

describe('what can be made to happen', () => {
  test('faults: added, replaced, counted and removed while it runs', async () => {
    const made = await sandbox();
    const fault = { kind: 'status', status: 503 };
    const added = await admin(made, 'POST', '/faults', { path: '/users', times: 1, fault });
    expect([added.status, added.headers.get('location')]).toEqual([201, '/faults/rule-1']);
    expect(added.json).toEqual({ rule: { id: 'rule-1', path: '/users', times: 1, fault }, matched: 0, fired: 0 });
    expect([(await ask(made, '/users')).status, (await ask(made, '/users')).status]).toEqual([503, 200]);
    expect((await admin(made, 'GET', '/faults/rule-1')).json).toMatchObject({ matched: 2, fired: 1 });
    expect(
      (await admin(made, 'GET', '/requests?last=2')).json.helpdesk.map(({ rules }: { rules: unknown }) => rules),
    ).toEqual([['rule-1'], undefined]);
    const replaced = await admin(made, 'PUT', '/faults/rule-1', { service: 'books', fault });
    expect(replaced.json).toMatchObject({ rule: { id: 'rule-1', service: 'books' }, matched: 0 });
    expect((await ask(made, '/users')).status).toBe(200);
    const { key, url } = made.books;
    expect((await fetch(`${url}/volumes?q=x&key=${key}`)).status).toBe(503);
    expect((await admin(made, 'DELETE', '/faults/rule-1')).status).toBe(204);
    expect((await fetch(`${url}/volumes?q=x&key=${key}`)).status).toBe(200);
    const two = [
      { id: 'a', fault },
      { id: 'b', fault },
    ];
    expect((await admin(made, 'PUT', '/faults', two)).json).toMatchObject([
      { rule: { id: 'a' } },
      { rule: { id: 'b' } },
    ]);
    expect((await admin(made, 'POST', '/faults', { id: 'a', fault })).status).toBe(422);
    expect((await admin(made, 'DELETE', '/faults')).status).toBe(204);
    expect((await admin(made, 'GET', '/faults')).json).toEqual([]);
  });

  test('the clock jumps, of both services or of one, and no limit with it', async () => {
    const made = await sandbox({ credits: 1 });
    await ask(made, '/users');
    const jump = async (json: object) => (await admin(made, 'POST', '/clock', json)).json;
    const clocks = (helpdesk: string, books: string) => ({
      helpdesk: `2024-05-01T${helpdesk}.000Z`,
      books: `2024-05-01T${books}.000Z`,
    });
    expect(await jump({ seconds: 90 })).toEqual(clocks('12:01:30', '12:01:30'));
    expect(await jump({ seconds: -30, service: 'helpdesk' })).toEqual(clocks('12:01:00', '12:01:30'));
    expect(await jump({ seconds: 10, service: 'books' })).toEqual(clocks('12:01:00', '12:01:40'));
    const reply = await ask(made, '/users');
    expect([reply.status, reply.headers.get('date')]).toEqual([429, 'Wed, 01 May 2024 12:01:00 GMT']);
    expect(await jump({ seconds: 180, service: 'helpdesk', only: 'date' })).toEqual(clocks('12:01:00', '12:01:40'));
    expect((await ask(made, '/users')).headers.get('date')).toBe('Wed, 01 May 2024 12:04:00 GMT');
  });

  test('somebody else uses credits, or requests of the day; a new day comes', async () => {
    const made = await sandbox({ books: { requestsPerDay: 10 } });
    const use = async (json: object) => (await admin(made, 'POST', '/credits', json)).json;
    expect(await use({ credits: 40 })).toEqual({ limit: 100, remaining: 60, reset: 60 });
    expect((await ask(made, '/users')).headers.get('rate-limit-remaining')).toBe('59');
    expect(await use({ credits: 1000 })).toMatchObject({ remaining: 0 });
    expect((await admin(made, 'GET', '/clients')).json.helpdesk).toMatchObject({ totals: { credits: 1 }, foreign: 99 });
    expect(await use({ credits: 4, service: 'books' })).toMatchObject({ limit: 10, remaining: 6 });
    expect((await admin(made, 'GET', '/clients')).json.books).toMatchObject({ foreign: 4 });
    expect((await admin(made, 'POST', '/books/day')).json).toMatchObject({ limit: 10, remaining: 10 });
  });

  test('changes: as many as are wanted, the same for the same seed', async () => {
    const change = async (json: object) => (await admin(await sandbox({ seed: 5 }), 'POST', '/changes', json)).json;
    const first = await change({ count: 40 });
    expect(first).toHaveLength(40);
    expect(first[0]).toEqual({ kind: expect.any(String), id: expect.any(String) });
    expect(await change({ count: 40 })).toEqual(first);
    const made = await sandbox();
    const [desk, books] = [made.world, made.books.world].map(world => vi.spyOn(world, 'mutate'));
    expect((await admin(made, 'POST', '/changes', { count: 3, service: 'books' })).json).toHaveLength(3);
    expect(desk).not.toHaveBeenCalled();
    expect(books).toHaveBeenCalledTimes(3);
  });

  test('others have their turns between changes', async () => {
    const made = await sandbox();
    let turns = 0;
    let changing = true;
    const turn = () => {
      turns++;
      if (changing) setImmediate(turn);
    };
    vi.spyOn(made.world, 'mutate').mockImplementationOnce(() => {
      setImmediate(turn);
      return { kind: 'none', id: '' };
    });
    expect((await admin(made, 'POST', '/changes', { count: 30 })).json).toHaveLength(30);
    changing = false;
    expect(turns).toBeGreaterThanOrEqual(29);
  });

  test('a bulk action: so many tickets within one second', async () => {
    const made = await sandbox();
    const [label] = made.world.labels.keys();
    const { json } = await admin(made, 'POST', '/bulk', { count: 12, label_id: label });
    const now = [...made.world.tickets.values()].filter(({ updated_at }) => updated_at === '2024-05-01T12:00:00Z');
    expect(now.map(({ id }) => id).toSorted()).toEqual(json.ids.toSorted());
    expect(now).toHaveLength(12);
    expect(now.every(({ state, label_ids }) => state === 'closed' && label_ids.includes(label!))).toBe(true);
    expect((await admin(made, 'POST', '/bulk', { count: 99_999 })).json.ids).toHaveLength(30);
  });

  test('what was due before it is looked at has happened by then', async () => {
    const clock = { ms: NOON };
    const made = await sandbox({ now: () => clock.ms, activity: 60 });
    const changes = vi.spyOn(made.world, 'mutate');
    clock.ms += 20_000;
    await admin(made, 'GET', '/truth/counts');
    expect(changes).toHaveBeenCalledTimes(20);
  });

  test('a mistake of the sandbox’s own ends one request', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    onTestFinished(() => warned.mockRestore());
    const made = await sandbox();
    const broken = vi.spyOn(made.world, 'mutate').mockImplementation(() => {
      throw new Error('a mistake');
    });
    expect((await admin(made, 'POST', '/changes', { count: 1 })).status).toBe(500);
    expect(String(warned.mock.calls[0]?.[0])).toMatch('a mistake');
    broken.mockRestore();
    expect((await admin(made, 'POST', '/changes', { count: 1 })).status).toBe(200);
  });

  test('access tokens expire', async () => {
    const made = await sandbox();
    const { books } = made;
    const form = new URLSearchParams({
      ...{ grant_type: 'refresh_token', client_id: books.clientId, client_secret: books.clientSecret },
      refresh_token: books.refreshToken,
    });
    const { access_token } = (await (await fetch(books.tokenUrl, { method: 'POST', body: form })).json()) as {
      access_token: string;
    };
    const mine = async () =>
      (await fetch(`${books.url}/mylibrary/bookshelves`, { headers: { authorization: `Bearer ${access_token}` } }))
        .status;
    expect(await mine()).toBe(200);
    const expired = await admin(made, 'POST', '/books/tokens/expire');
    expect([expired.json, expired.text.includes(access_token)]).toEqual([{ given_so_far: 1 }, false]);
    expect(await mine()).toBe(401);
  });
});
