/** What a reply that is no success concerns: one record, a part of the source, or all of it. */
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { bearerDialect } from '../../src/engine/http/bearer-dialect.ts';
import { type Dialect, fixedToken } from '../../src/engine/http/dialect.ts';
import { makeSend } from '../../src/engine/http/send.ts';
import { Fatal, Retry } from '../../src/errors.ts';
import { helpdeskDialect } from '../../src/sources/helpdesk/dialect.ts';

const json = '{"message":"No: Ann Lee"}';
const html = '\n<html>Blocked</html>';

async function failed(dialect: Dialect, shape: 'single' | 'list', status: number, text: string) {
  let asked = 0;
  const send = makeSend({
    source: 'helpdesk',
    ...{ baseUrl: new URL('http://crm.example/'), token: fixedToken('x'), dialect, random: () => 1 },
    ...{ log: pino({ level: 'silent' }), clock: { now: () => 0, monotonic: () => 0, sleep: async () => {} } },
    budget: {
      acquire: async (cost, lane) => ({ id: '', cost, lane }),
      settle: async () => ({}),
      book: async () => {},
      thaw: async () => {},
    },
    fetch: async () => {
      asked++;
      return { status, headers: { date: new Date(0).toUTCString() }, text };
    },
  });
  const request = { path: '/x/1', query: {}, cost: 1, shape, kind: 'x', record: z.unknown() };
  const signal = new AbortController().signal;
  const error = (await send(request, { lane: 'fresh', signal, tries: 3 }).catch((error: Error) => error)) as Error;
  return { error, asked };
}

const nameOf = (error: Error) =>
  error instanceof Retry && error.everywhere
    ? 'refused'
    : error instanceof Fatal && error.denied
      ? 'denied'
      : error.name;

const dialects = { 'the help desk': helpdeskDialect, 'most services': bearerDialect({ address: 'A', token: 'B' }) };

test.each(
  Object.entries(dialects).flatMap(([name, dialect]) =>
    (
      [
        ...[400, 405, 409, 410, 415, 422, 451].map(status => [status, json, 'refused', 'Fatal', 1] as const),
        [401, json, 'Fatal', 'Fatal', 1],
        [403, json, 'denied', 'denied', 1],
        [403, html, 'Retry', 'Retry', 3],
        [404, json, 'Gone', 'Fatal', 1],
        [408, '', 'Retry', 'Retry', 3],
        [500, '', 'Retry', 'Retry', 3],
      ] as const
    ).map(row => [name, ...row, dialect] as const),
  ),
)('%s: %i %j of a record is %s, of a list %s', async (_name, status, text, ofOne, ofList, tries, dialect) => {
  const [one, list] = [await failed(dialect, 'single', status, text), await failed(dialect, 'list', status, text)];
  expect([nameOf(one.error), nameOf(list.error)]).toEqual([ofOne, ofList]);
  expect([one.asked, list.asked]).toEqual([tries, tries]);
  if (text === html)
    expect(list.error.message).toMatch(/: 403, something before .+ refuses the request; gave up after 3 tries$/);
  if (ofOne !== 'refused' || !(one.error instanceof Retry)) return;
  expect(one.error.message).toBe(`GET /x/1: the source refuses this record (${status})`);
  expect(one.error.everywhere?.remedy).toMatch(/^Check /);
});
