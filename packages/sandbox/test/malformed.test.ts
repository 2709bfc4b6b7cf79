/**
 * Malformed requests over real sockets. Each gets an error reply of the service or the end of its connection, and the server
 * keeps serving.
 */
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../src/server.ts';

let made: Sandbox;

beforeAll(async () => {
  made = await startSandbox({
    tickets: 5,
    credits: 1e6,
    requestsPerSecond: 1e6,
    books: { volumes: 5, requestsPerDay: 1e6, requestsPerSecond: 1e6 },
  });
});
afterAll(() => made.close());

/** Sends these bytes as they are, and reads until the server ends the connection (`Connection: close` asks for it). */
function raw(...parts: (string | Buffer)[]): Promise<string> {
  const { port, hostname } = new URL(made.url);
  return new Promise(resolve => {
    let text = '';
    const socket = connect(Number(port), hostname, () => {
      for (const part of parts) socket.write(part);
    });
    socket.on('data', chunk => {
      text += chunk.toString('latin1');
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(text));
  });
}

const statusOf = (reply: string) => Number(/^HTTP\/1\.1 (\d+)/.exec(reply)?.[1] ?? 0);
const bodyOf = (reply: string) => reply.slice(reply.indexOf('\r\n\r\n') + 4);

const post = (path: string, headers: string[], body: string | Buffer = '', method = 'POST'): (string | Buffer)[] => [
  [
    `${method} ${path} HTTP/1.1`,
    'Host: desk.example',
    'Connection: close',
    `Authorization: Bearer ${path.startsWith('/books') ? 'sandbox-books-token' : 'sandbox-token'}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...headers,
    '',
    '',
  ].join('\r\n'),
  body,
];
const JSON_TYPE = 'Content-Type: application/json';
const creating = (body: string | Buffer) => post('/api/v1/customers', [JSON_TYPE], body);
const getting = (path: string, ...headers: string[]) => post(path, headers, '', 'GET');

describe('a request that cannot be meant', () => {
  test.each<[what: string, status: number, parts: (string | Buffer)[]]>([
    ['no HTTP at all', 400, ['hello?\r\n\r\n']],
    ['TLS on a plain port', 400, [Buffer.from('16030100c8010000c40303', 'hex'), '\r\n\r\n']],
    ['a verb that there is not', 400, ['BREW /api/v1/tickets HTTP/1.1\r\nHost: a\r\n\r\n']],
    ['a proxy is wanted', 405, ['CONNECT elsewhere:443 HTTP/1.1\r\nHost: a\r\n\r\n']],
    ['a flood of headers', 431, getting('/api/v1/tickets', ...Array.from({ length: 3000 }, (_, n) => `X-${n}: x`))],
    ['one endless header', 431, getting('/api/v1/tickets', `X: ${'x'.repeat(200_000)}`)],
    ['an endless path', 431, getting(`/api/v1/tickets/${'x'.repeat(200_000)}`)],
    ['nobody’s request, for it names no host', 401, ['GET /api/v1/users HTTP/1.1\r\nConnection: close\r\n\r\n']],
    ['two lengths', 400, post('/api/v1/customers', [JSON_TYPE, 'Transfer-Encoding: chunked'], '{}')],
    ['a negative length', 400, ['POST /api/v1/customers HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n']],
    ['a header with a line break in it', 400, getting('/api/v1/users', 'X: a\rb')],
    ['JSON that ends in the middle', 400, creating('{"first_name": "A')],
    ['words', 400, creating('first_name=Ada')],
    ['NaN', 400, creating('{"first_name": NaN}')],
    ['a byte order mark and nothing', 400, creating('\uFEFF{')],
    ['half a character', 400, creating(Buffer.from([0x22, 0xc3, 0x22]))],
    ['UTF-16', 400, creating(Buffer.from('{"first_name":"Ada"}', 'utf16le'))],
    ['another charset', 415, post('/api/v1/customers', ['Content-Type: application/json; charset=utf-16'], '{}')],
    ['a form', 415, post('/api/v1/customers', ['Content-Type: application/x-www-form-urlencoded'], 'a=b')],
    ['a compressed body', 415, post('/api/v1/customers', [JSON_TYPE, 'Content-Encoding: gzip'], '{}')],
    ['lists in lists', 400, creating('['.repeat(100_000))],
    ['lists in lists, all closed', 400, creating('['.repeat(5000) + ']'.repeat(5000))],
    ['objects in objects', 400, creating(`${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`)],
    ['a list', 422, creating('[1, 2]')],
    ['null', 422, creating('null')],
    ['a number in the place of a name', 422, creating('{"first_name": 5}')],
    ['a prototype in the place of contacts', 422, creating('{"__proto__": {"a": 1}, "contacts": {"length": 1}}')],
    ['17 MB', 413, creating(`{"first_name": "${'x'.repeat(17 * 1024 * 1024)}"}`)],
    ['a path that no decoder reads', 404, getting('/api/v1/tickets/%E0%A4%A')],
    ['a path with a NUL', 404, getting('/api/v1/tickets/%00')],
    ['dots', 404, getting('/api/v1/../../etc/passwd')],
    ['an id of a prototype', 404, getting('/api/v1/tickets/__proto__')],
    ['a query that no decoder reads', 400, getting('/api/v1/tickets?page=%E0%A4%A')],
    ['an infinite page', 400, getting('/api/v1/tickets?page=1e999')],
    ['a page of many digits', 400, getting(`/api/v1/tickets?page=${'9'.repeat(400)}`)],
    ['a catalog’s mask without an end', 400, getting(`/books/v1/volumes?q=a&fields=${'a('.repeat(3000)}`)],
  ])('%s: %i', async (_, status, parts) => {
    const reply = await raw(...parts);
    expect([statusOf(reply), reply.slice(0, 300)]).toEqual([status, expect.any(String)]);
    expect(reply.toLowerCase()).toContain('\r\ncontent-type: application/json');
    // On every response (help desk 8), also to what is no request.
    if (!reply.includes('authError') && !reply.includes('invalidParameter')) {
      expect(reply).toMatch(/\r\nRate-Limit-Limit: 1000000\r\nRate-Limit-Remaining: \d+\r\nRate-Limit-Used: [01]\r\n/);
    }
    const { message, error } = JSON.parse(bodyOf(reply)) as { message?: string; error?: { message: string } };
    expect(message ?? error?.message).toMatch(/\w{3}/);
    // And the next one is served.
    expect(statusOf(await raw(...getting('/api/v1/users')))).toBe(200);
  });

  test('a proxy is wanted by somebody who goes away at once', async () => {
    const { port, hostname } = new URL(made.url);
    for (let n = 0; n < 20; n++) {
      await new Promise<void>(resolve => {
        const socket = connect(Number(port), hostname, () => {
          socket.write('CONNECT elsewhere:443 HTTP/1.1\r\nHost: a\r\n\r\n', () => socket.resetAndDestroy());
        });
        socket.on('error', () => {}).on('close', () => resolve());
      });
    }
    expect(statusOf(await raw(...getting('/api/v1/users')))).toBe(200);
  });

  test('a whole address, as to a proxy: its path counts, and its host in links', async () => {
    const reply = await raw(...post('HTTP://other.example:81/api/v1/customers', [JSON_TYPE], '{}'));
    expect([statusOf(reply), reply]).toEqual([
      201,
      expect.stringContaining('\r\nLocation: http://other.example:81/api/v1/customers/'),
    ]);
    expect(await raw(...getting('http://a/books/v1/volumes?q=x'))).toContain('"authError"');
    expect(await raw(...getting('http://a'))).toContain('<!DOCTYPE html>');
  });

  test('a body that breaks off, or a client that goes away, is nobody’s request', async () => {
    const { port, hostname } = new URL(made.url);
    const before = made.requests.length;
    const head = `POST /api/v1/customers HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${made.token}\r\n${JSON_TYPE}\r\n`;
    await new Promise<void>(resolve => {
      const socket = connect(Number(port), hostname, () => socket.write(`${head}Content-Length: 100\r\n\r\n{"first`));
      socket.on('error', () => {}).on('close', () => resolve());
      setImmediate(() => socket.destroy());
    });
    expect(statusOf(await raw(...getting('/api/v1/users')))).toBe(200);
    expect(made.requests.slice(before).map(({ path }) => path)).toEqual(['/users']);
  });
});

describe('a body that is longer than it may be', () => {
  let strict: Sandbox;

  beforeAll(async () => {
    strict = await startSandbox({ tickets: 0, mostBodyBytes: 100, books: { volumes: 0 } });
  });
  afterAll(() => strict.close());

  const head = (...headers: string[]) =>
    [
      ...['POST /api/v1/customers HTTP/1.1', 'Host: a', JSON_TYPE, 'Authorization: Bearer sandbox-token', ...headers],
      ...['', ''],
    ].join('\r\n');
  const FIVE_HUNDRED = `1f4\r\n${'x'.repeat(500)}\r\n`;

  test.each<[what: string, parts: string[]]>([
    ['five times as long', [head('Content-Length: 500'), 'x'.repeat(500)]],
    ['of which nothing comes', [head('Content-Length: 1000000000')]],
    ['in chunks', [head('Transfer-Encoding: chunked'), FIVE_HUNDRED, '0\r\n\r\n']],
    ['without an end', [head('Transfer-Encoding: chunked'), FIVE_HUNDRED, FIVE_HUNDRED]],
  ])('%s: told at once, and the connection ends', async (_, parts) => {
    const { port, hostname } = new URL(strict.url);
    const reply = await new Promise<string>((resolve, reject) => {
      let text = '';
      const socket = connect(Number(port), hostname, () => socket.write(parts.join('')));
      socket.setEncoding('utf8').on('data', chunk => {
        text += chunk;
        if (!text.endsWith('}')) return;
        resolve(text);
        socket.end();
      });
      socket.on('error', reject).on('close', () => reject(new Error(`It ended behind ${text}`)));
    });
    expect([statusOf(reply), reply.toLowerCase()]).toEqual([413, expect.stringContaining('\r\nconnection: close\r\n')]);
    expect(JSON.parse(bodyOf(reply))).toEqual({ message: 'Payload Too Large: the body has more than 100 bytes' });
  });

  test('a client that sends all of it before it reads gets its answer', async () => {
    const reply = await raw(...creating(Buffer.alloc(70 * 1024 * 1024, 32)));
    expect([statusOf(reply), JSON.parse(bodyOf(reply))]).toEqual([
      413,
      { message: expect.stringMatching('Too Large') },
    ]);
  });
});
