/** The requests of a try: how they keep to the limits of a service that counts them where they arrive. */
import { expect, test } from 'vitest';
import type { Clock } from '../../src/clock.ts';
import { Asking } from '../../src/sources/try/asking.ts';

test('a request that takes longer to arrive than those behind it brings no more of them into a second than are allowed', async () => {
  let nowMs = 0;
  const clock: Clock = {
    now: () => nowMs,
    monotonic: () => nowMs,
    sleep: async ms => {
      nowMs += ms;
    },
  };
  const arrived: number[] = [];
  const fetch = async () => {
    arrived.push(nowMs + (arrived.length === 0 ? 50 : 0));
    return { status: 200, headers: {}, text: '[]' };
  };
  const connection = {
    baseUrl: new URL('http://shop.example/'),
    dialect: { needsToken: () => false, query: () => ({}), refusal: () => undefined, rate: () => ({}) },
    limits: { requestsPerSecond: 3, credits: 100, periodMs: 86_400_000 },
  };
  const asking = new Asking({
    ...{ fetch, connection, clock, signal: new AbortController().signal, onWait: () => {} },
    place: { name: 'the shop', address: 'SHOP_BASE_URL' },
  } as never);
  for (let n = 0; n < 4; n++) await asking.get({ path: '/orders', query: {} } as never);
  expect(arrived[3]! - arrived[0]!).toBeGreaterThanOrEqual(1000);
});
