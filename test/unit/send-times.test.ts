/** By when a reply is true, and what the source's clock may show, as Date and the ledger tell. */
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { bearerDialect } from '../../src/engine/http/bearer-dialect.ts';
import { fixedToken } from '../../src/engine/http/dialect.ts';
import { makeSend } from '../../src/engine/http/send.ts';

const date = Date.UTC(2026, 10, 28, 12);
const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

test.each([
  ['Date alone', undefined, 1000],
  ['a witness that says less', date - minuteMs, 1000],
  ['a witness that says more', date + minuteMs, minuteMs],
  ['a clock that is a day off', date + dayMs, dayMs],
  ['a clock that was never set', date + 2 * dayMs, 1000],
])('%s', async (_name, trueByMs, expected) => {
  let elapsed = 0;
  const send = makeSend({
    source: 'helpdesk',
    ...{ baseUrl: new URL('http://crm.example/'), token: fixedToken('x'), random: () => 1 },
    dialect: bearerDialect({ address: 'A', token: 'B' }),
    ...{ log: pino({ level: 'silent' }), clock: { now: () => 0, monotonic: () => elapsed, sleep: async () => {} } },
    budget: {
      acquire: async (cost, lane) => ({ id: '', cost, lane }),
      settle: async () => ({ ...(trueByMs !== undefined && { trueByMs }) }),
      thaw: async () => {},
    },
    fetch: async () => ({ status: 200, headers: { date: new Date(date).toUTCString() }, text: '[]' }),
  });
  expect(send.sourceLatest()).toBeUndefined();
  const reply = await send(
    { path: '/x', query: {}, cost: 1, shape: 'list', kind: 'x', record: z.unknown() },
    { lane: 'fresh' },
  );
  elapsed = 5000;
  expect([reply.trueBy - date, send.sourceLatest()! - date]).toEqual([expected, expected + 5000]);
});
