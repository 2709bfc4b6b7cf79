/** By when a reply was true, as its Date and the ledger say. */
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { hearClocks } from '../../src/engine/budget/clocks.ts';
import { bearerDialect } from '../../src/engine/http/bearer-dialect.ts';
import { fixedToken } from '../../src/engine/http/dialect.ts';
import { makeSend } from '../../src/engine/http/send.ts';

const date = Date.UTC(2026, 10, 28, 12);
const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

/** Granted by our clock so long after the second of Date began, and answered 300 ms later. */
test.each([
  ['Date and our clock agree', 700, 1000],
  ['the second of Date ends at the grant', 1000, 1000],
  ['Date is behind by a millisecond', 1001, 3500],
  ['Date is behind by ten minutes', 10 * minuteMs + 500, 10 * minuteMs + 2500],
  ['Date is ahead', -10 * minuteMs, 1000],
  ['our clock was never set', 2 * dayMs, 1000],
])('%s', async (_name, grantedMs, shownByMs) => {
  const heard = { dateMs: date, grantedMs: date + grantedMs, repliedMs: date + grantedMs + 300 };
  const { told } = hearClocks({ clock: null, records: null }, heard, undefined);
  const send = makeSend({
    source: 'helpdesk',
    ...{ baseUrl: new URL('http://crm.example/'), token: fixedToken('x'), random: () => 1 },
    dialect: bearerDialect({ address: 'A', token: 'B' }),
    ...{ log: pino({ level: 'silent' }), clock: { now: () => 0, monotonic: () => 0, sleep: async () => {} } },
    budget: {
      acquire: async (cost, lane) => ({ id: '', cost, lane }),
      settle: async () => told,
      book: async () => {},
      thaw: async () => {},
    },
    fetch: async () => ({ status: 200, headers: { date: new Date(date).toUTCString() }, text: '[]' }),
  });
  const reply = await send(
    { path: '/x', query: {}, cost: 1, shape: 'list', kind: 'x', record: z.unknown() },
    { lane: 'fresh' },
  );
  expect([reply.trueBy - date, reply.shownBy - date]).toEqual([1000, shownByMs]);
});
