/** What comes over the wire from services and networks that are not as documented, and what is said of it. */
import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { fixedToken } from '../../src/engine/http/dialect.ts';
import { fetchOver } from '../../src/engine/http/fetch.ts';
import type { Request } from '../../src/engine/http/request.ts';
import { makeSend, type SendOptions } from '../../src/engine/http/send.ts';
import { openWays } from '../../src/engine/http/ways.ts';
import { ShelfdeskError } from '../../src/errors.ts';
import { helpdeskDialect } from '../../src/sources/helpdesk/dialect.ts';

const tickets: Request<{ id: string }> = {
  ...({ path: '/tickets', query: {}, cost: 1, shape: 'list', kind: 'tickets' } as const),
  record: z.looseObject({ id: z.string() }),
};

/** Asks this address, without a budget and without waits. */
async function asked(baseUrl: URL, options: Partial<SendOptions> = {}, request: Request<{ id: string }> = tickets) {
  await using ways = openWays();
  let tries = 0;
  const send = makeSend({
    ...{ source: 'helpdesk', label: 'the help desk', address: 'HELPDESK_BASE_URL', baseUrl },
    ...{ dialect: helpdeskDialect, token: fixedToken('hush-hush-4711'), random: () => 0 },
    ...{ log: pino({ level: 'silent' }), clock: { now: () => 0, monotonic: () => 0, sleep: async () => {} } },
    budget: {
      acquire: async (cost, lane) => ({ id: String(tries++), cost, lane }),
      settle: async () => ({}),
      book: async () => {},
      thaw: async () => {},
    },
    fetch: fetchOver(ways, 1_000_000),
  });
  const told = await send(request, { lane: 'fresh', tries: 3, ...options }).catch((error: unknown) => error);
  if (told instanceof ShelfdeskError) return { tries, name: told.name, says: told.message, remedy: told.remedy };
  if (told instanceof Error) throw told;
  return { tries, reply: told as Awaited<ReturnType<typeof send<{ id: string }>>> };
}

async function listening(server: Server | ReturnType<typeof createTcpServer>) {
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  return {
    url: new URL(`http://127.0.0.1:${port}/api/v1`),
    async [Symbol.asyncDispose]() {
      if ('closeAllConnections' in server) server.closeAllConnections();
      await new Promise(done => server.close(done));
    },
  };
}

/** Asks a server that answers so. */
async function answered(listener: RequestListener, request = tickets) {
  await using server = await listening(createServer(listener));
  const told = await asked(server.url, {}, request);
  const host = server.url.host;
  const without = (text = '') => text.replaceAll(host, 'HOST');
  return 'reply' in told ? told : { ...told, says: without(told.says), remedy: without(told.remedy) };
}

const body = Buffer.from('[{"id":"a","subject":"Grüße"}]');

test.each([
  ['gzip', gzipSync(body)],
  ['br', brotliCompressSync(body)],
  ['x-gzip', gzipSync(body)],
  ['gzip, br', brotliCompressSync(gzipSync(body))],
  ['identity', body],
])('a reply that is encoded as %s is read', async (encoding, bytes) => {
  const heard: (string | string[] | undefined)[] = [];
  const { reply } = await answered((request, response) => {
    heard.push(request.headers['accept-encoding'], request.headers['cache-control']);
    response.writeHead(200, { 'content-encoding': encoding }).end(bytes);
  });
  expect(heard).toEqual(['gzip, br', 'no-cache']);
  expect(reply).toMatchObject({ text: body.toString(), records: [{ id: 'a' }] });
  expect(reply).not.toHaveProperty('notUtf8');
});

test.each([
  [200, 'zstd', 'Fatal', 1, 'GET /tickets: the body is encoded as zstd, and gzip, br was asked for'],
  [503, 'zstd', 'Retry', 3, 'GET /tickets: 503; gave up after 3 tries'],
  [429, 'zstd', 'Retry', 3, 'GET /tickets: 429; gave up after 3 tries'],
])('%i in the encoding %s is %s', async (status, encoding, name, tries, says) => {
  const told = await answered((_, response) => response.writeHead(status, { 'content-encoding': encoding }).end('(µ'));
  expect(told).toMatchObject({ name, tries, says });
});

test.each([['gzip', gzipSync(body)] as const, ['br', brotliCompressSync(body)] as const])(
  'a body in %s that is cut short or damaged is asked for again',
  async (encoding, bytes) => {
    for (const part of [bytes.subarray(0, -5), Buffer.concat([bytes.subarray(0, 4), Buffer.alloc(40, 255)])]) {
      const told = await answered((_, response) => response.writeHead(200, { 'content-encoding': encoding }).end(part));
      expect(told).toMatchObject({
        ...{ name: 'Retry', tries: 3 },
        says: 'GET /tickets: the compressed body is cut short or damaged; gave up after 3 tries',
      });
    }
  },
);

test('a refusal without a body may name an encoding', async () => {
  const told = await answered((_, response) => response.writeHead(401, { 'content-encoding': 'gzip' }).end());
  expect(told).toMatchObject({ name: 'Fatal', says: 'GET /tickets: 401: the source does not accept the token' });
  expect(told.remedy).toContain('apps tab');
});

test('a byte that is not UTF-8 is replaced, and the reply says so', async () => {
  const bytes = Buffer.from('[{"id":"a","subject":"Gr\xfc\xdfe"}]', 'latin1');
  const { reply } = await answered((_, response) => response.writeHead(200).end(bytes));
  expect(reply).toMatchObject({ records: [{ subject: 'Gr\ufffd\ufffde' }], notUtf8: true });
});

test('what came is stored in its bytes, unless they hold what its text does not', async () => {
  const echoed = '[{"id":"a","subject":"hush-hush-4711"}]';
  for (const [came, text, bytes] of [
    [body, `${body}`, body],
    [`\ufeff${body}`, `${body}`, undefined],
    [Buffer.from('[{"id":"a","subject":"Gr\xfc"}]', 'latin1'), '[{"id":"a","subject":"Gr\ufffd"}]', undefined],
    [echoed, echoed.replace('hush-hush-4711', '…'), undefined],
  ] as const) {
    const { reply } = await answered((_, response) => response.writeHead(200).end(came));
    expect(reply).toMatchObject({ text });
    expect(reply!.bytes).toEqual(bytes);
  }
});

test.each([
  [200, '[]'],
  [404, '{"message":"Not found"}'],
])('a copy that a cache kept is no reply: %i', async (status, text) => {
  const told = await answered((_, response) => response.writeHead(status, { age: '120' }).end(text));
  expect(told).toMatchObject({
    ...{ name: 'Retry', tries: 3 },
    says: 'GET /tickets: a cache before HOST answered with a copy that is 120 s old; gave up after 3 tries',
    remedy: expect.stringContaining('Cache-Control: no-cache'),
  });
});

test('what a cache has asked for anew is a reply', async () => {
  const { reply } = await answered((_, response) => response.writeHead(200, { age: '0' }).end('[{"id":"a"}]'));
  expect(reply).toMatchObject({ records: [{ id: 'a' }] });
});

test.each([
  ['an object with the list in it', '{"tickets":[]}', 'Fatal', 1, 'it has its list in a field of an object'],
  ['another object', '{"busy":true}', 'Retry', 3, 'the reply is JSON, but no array'],
  ['a web page', '\n<!doctype html><title>Desk</title>', 'Retry', 3, 'HOST answers with a web page, not with JSON'],
])('%s in place of a list', async (_what, text, name, tries, says) => {
  const told = await answered((_, response) => response.writeHead(200).end(text));
  expect(told).toMatchObject({ name, tries, says: expect.stringContaining(says) });
});

const one: Partial<Request<never>> = { shape: 'single', selector: 'getSelector' };

test.each([
  ['{"data":{"tickets":[]},"tags":[]}', { within: 'rows' }, 'no array at rows', 'dataSelector', 'data.tickets, tags'],
  ['{"tickets":[{"id":1}],"page":{"n":1}}', {}, 'no array', 'dataSelector', 'tickets'],
  ['[{"id":1}]', { within: 'rows' }, 'no array at rows', 'dataSelector', 'the body itself'],
  ['{"ticket":{"id":"a"}}', one, 'no object with an id', 'getSelector', 'ticket'],
])(
  'a declaration that looks for records in the wrong place is an error at once: %s',
  async (text, more, says, of, meant) => {
    const request = { ...tickets, selector: 'dataSelector', ...more } as typeof tickets;
    const told = await answered((_, response) => response.end(text), request);
    expect(told).toEqual({
      ...{ name: 'Fatal', tries: 1, says: `GET /tickets: the reply is JSON, but ${says}` },
      remedy: `Correct ${of} of tickets, where the help desk is declared. It may mean: ${meant}.`,
    });
    // What is no declaration's fault passes.
    const failed = await answered((_, response) => response.end('{"error":"busy","data":[]}'), request);
    expect(failed).toMatchObject({ name: 'Retry', tries: 3 });
  },
);

test('a path that a service does not have is named with its stream', async () => {
  const request: typeof tickets = { ...tickets, selector: 'dataSelector' };
  const told = await answered((_, response) => response.writeHead(404).end('no'), request);
  expect(told).toMatchObject({ name: 'Fatal', tries: 1, says: 'GET /tickets: 404, the help desk has no such list' });
  expect(told.remedy).toContain('Correct the path of tickets, where the help desk is declared');
});

test.each([
  [302, { location: 'https://new.example/api/v1/tickets?key=hush' }, ': 302, HOST redirects to https://new.example'],
  [301, { location: '/desk/api/v1/tickets' }, ': 301, HOST redirects to another path of itself'],
  [307, {}, ': 307, HOST redirects to nowhere'],
  [401, { 'www-authenticate': 'Basic realm="x"' }, ': 401: the source does not accept the token'],
  [407, { 'proxy-authenticate': 'Basic' }, ': 407, a proxy on the way wants a user name and a password'],
  [404, {}, '404, there is no such interface of the help desk at HOST'],
  [
    200,
    { 'x-long': 'x'.repeat(20_000) },
    'the headers of the reply of HOST are longer than 16 KB (UND_ERR_HEADERS_OVERFLOW)',
  ],
] as const)('%i with %j', async (status, headers, says) => {
  const told = await answered((_, response) => response.writeHead(status, headers).end('{"message":"no"}'));
  expect(told).toMatchObject({ name: 'Fatal', tries: 1, says: expect.stringContaining(says) });
  expect(JSON.stringify(told)).not.toContain('hush');
});

test.each([
  [{ 'www-authenticate': 'Basic realm="x"' }, '', ' (Basic)'],
  [{ 'www-authenticate': 'Digest realm="x"' }, '<html>hush</html>', ' (Digest)'],
  [{}, '<html>hush</html>', ''],
])('401 with %j and %j is of something in between', async (headers, text, scheme) => {
  const told = await answered((_, response) => response.writeHead(401, headers).end(text));
  const says = `: 401, something before the help desk asks for a login of its own${scheme}`;
  expect(told).toMatchObject({ name: 'Fatal', tries: 1, says: expect.stringContaining(says) });
});

test('an error that comes with a status of success is tried again', async () => {
  const told = await answered((_, response) => response.end('{"message":"Maintenance","errors":[]}'));
  expect(told).toMatchObject({ name: 'Retry', tries: 3 });
});

test.each(['3600, 3600', 'old'])('Age: %s is no proof', async age => {
  const told = await answered((_, response) => response.writeHead(200, { age }).end('[]'));
  expect(told).toMatchObject({ name: 'Retry', says: expect.stringContaining('answered with a copy') });
});

test('a redirect names the address to set', async () => {
  const told = await answered((_, response) =>
    response.writeHead(308, { location: 'https://new.example/api/v2/tickets' }).end(),
  );
  expect(told.remedy).toBe(
    'Set HELPDESK_BASE_URL to https://new.example/api/v2. A redirect is not followed, because it would take the token along.',
  );
});

test('nobody listens, no HTTP, no TLS, and a connection that is closed', async () => {
  const closed = await listening(createTcpServer());
  await closed[Symbol.asyncDispose]();
  expect(await asked(closed.url)).toMatchObject({
    ...{ name: 'Retry', tries: 3, remedy: expect.stringContaining('HELPDESK_BASE_URL') },
    says: `GET /tickets: nobody listens at ${closed.url.host} (ECONNREFUSED); gave up after 3 tries`,
  });
  await using chatty = await listening(
    createTcpServer(
      socket =>
        void socket
          .on('error', () => {})
          .resume()
          .end('220 mail.example ESMTP\r\n'),
    ),
  );
  expect(await asked(chatty.url)).toMatchObject({
    ...{ name: 'Fatal', tries: 1, remedy: expect.stringContaining('https://') },
    says: expect.stringContaining(`${chatty.url.host} answers, but not in HTTP (HPE_`),
  });
  await using plain = await listening(createServer((_, response) => response.end('[]')));
  expect(await asked(new URL(plain.url.href.replace('http:', 'https:')))).toMatchObject({
    ...{ name: 'Fatal', tries: 1, remedy: expect.stringContaining('http://') },
    says: expect.stringMatching(/127\.0\.0\.1:\d+ does not speak TLS/),
  });
  expect(await answered(request => request.socket.destroy())).toMatchObject({
    ...{ name: 'Retry', tries: 3 },
    says: expect.stringContaining('HOST closed the connection before the reply was whole'),
  });
});

test('a 429 without the header of the help desk pauses briefly at first, then twice as long each time', () => {
  const refused = (headers: Record<string, string>, nth = 1) =>
    helpdeskDialect.refusal({ status: 429, header: name => headers[name], text: '', withToken: true }, nth);
  expect([1, 2, 3, 9].map(nth => refused({}, nth))).toEqual([
    { freezeMs: 1000 },
    { freezeMs: 2000 },
    { freezeMs: 4000 },
    { freezeMs: 60_000 },
  ]);
  expect(refused({ 'retry-after': '7' })).toEqual({ freezeMs: 7000 });
  expect(refused({ 'rate-limit-reset': '30' })).toEqual({});
});
