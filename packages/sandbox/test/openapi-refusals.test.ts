/** Invalid requests to every operation of the OpenAPI document: the document must list each refusal. */
import { describe, expect, inject, test } from 'vitest';
import type { BooksServiceOptions } from '../src/books/service.ts';
import type { ServiceOptions } from '../src/helpdesk/service.ts';
import { askingBooks, emptyBooks } from './books-in-process.ts';
import { asking, emptyWorld } from './in-process.ts';

type Operation = Partial<Record<'requestBody' | 'x-method-override', unknown>> & { operationId: string };

const { paths } = inject('openapi') as { paths: Record<string, Record<string, Operation>> };

const all = Object.entries(paths).flatMap(([path, item]) =>
  ['get', 'put', 'post', 'delete', 'patch']
    .filter(verb => item[verb])
    .map(verb => ({ path, verb: verb.toUpperCase(), ...item[verb]! })),
);
const operations = all.filter(one => !one['x-method-override']);
const below = (base: string) => operations.filter(({ path }) => path.startsWith(base));
/** Fills the path with ids that do not exist. */
const filled = (path: string) => path.replaceAll(/\{\w+\}/g, 'x');

const json = { 'content-type': 'application/json' };

describe('the help desk', () => {
  const REFUSALS: [status: number, options: ServiceOptions, headers: Record<string, string>, body: string][] = [
    [401, {}, { authorization: 'Bearer wrong' }, '{}'],
    [403, { blockedToken: 'b' }, { authorization: 'Bearer b' }, '{}'],
    [429, { credits: 0 }, {}, '{}'],
    [429, { requestsPerSecond: 0 }, {}, '{}'],
    [415, {}, { 'content-type': 'text/plain' }, '{}'],
    [413, { mostBodyBytes: 1 }, {}, '{}'],
    [400, {}, {}, '{'],
  ];

  test.each(below('/api/v1').map(one => [one.operationId, one] as const))('%s', (_, { verb, path }) => {
    const takesBody = verb !== 'GET' && verb !== 'DELETE';
    for (const [status, options, headers, body] of REFUSALS.filter(
      ([status]) => takesBody || ![415, 413, 400].includes(status),
    )) {
      const { exactly, service } = asking(emptyWorld().world, options);
      const all = { authorization: `Bearer ${service.tokens[0]}`, ...json, ...headers };
      const sent = takesBody ? body : undefined;
      expect(exactly(verb, filled(path), all, sent).status).toBe(status);
      // checkReply compares the enveloped reply with the document.
      expect(exactly(verb, `${filled(path)}?envelope=true`, all, sent)).toMatchObject({
        status: 200,
        json: { status },
      });
      if (['PUT', 'PATCH', 'DELETE'].includes(verb)) {
        expect(exactly('POST', filled(path), { ...all, 'x-http-method-override': verb }, sent).status).toBe(status);
      }
    }
    if (!path.includes('{')) return;
    const got = asking(emptyWorld().world).ask(
      verb,
      filled(path).slice('/api/v1'.length),
      json,
      takesBody ? '{}' : undefined,
    );
    expect(got.status).toBe(404);
  });

  test.each([...new Set(below('/api/v1').map(({ path }) => path))])('%s has no other verbs', path => {
    const { ask } = asking(emptyWorld().world);
    for (const verb of ['GET', 'PUT', 'POST', 'PATCH', 'DELETE'].filter(verb => !has(path, verb))) {
      const got = ask(verb, filled(path).slice('/api/v1'.length), json, '{}');
      expect([got.status, got.headers.Allow?.split(', ').sort()]).toEqual([405, verbsOf(path)]);
    }
  });
});

const has = (path: string, verb: string) => operations.some(one => one.path === path && one.verb === verb);
/** Methods of the path, including the POST that overrides to another method. */
const verbsOf = (path: string) => [...new Set(all.filter(one => one.path === path).map(({ verb }) => verb))].sort();

describe('the book catalog', () => {
  const REFUSALS: [status: number, options: BooksServiceOptions, path: string][] = [
    [400, {}, '?key=wrong'],
    [401, {}, '?access_token=wrong'],
    [403, { requestsPerDay: 0 }, '?access_token=t'],
    [429, { requestsPerSecond: 0 }, '?access_token=t'],
    [403, { requestsPerSecond: 0, tooFast: 403, retryAfter: true }, '?access_token=t'],
  ];

  test.each(below('/books/v1').map(one => [one.operationId, one] as const))('%s', (_, { verb, path }) => {
    for (const [status, options, query] of REFUSALS) {
      const { exactly } = askingBooks(emptyBooks().world, { token: 't', ...options });
      expect(exactly(verb, filled(path) + query, {}).status).toBe(status);
    }
    const { exactly } = askingBooks(emptyBooks().world, { keyNeeded: true });
    expect(exactly(verb, filled(path), {}).status).toBe(path.includes('mylibrary') ? 401 : 403);
    const other = verb === 'GET' ? 'POST' : 'GET';
    expect(exactly(other, `${filled(path)}?access_token=sandbox-books-token`, {}).status).toBe(405);
  });
});
