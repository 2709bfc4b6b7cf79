/** A declared service: the limits, settings and mistakes that need no server. */
import { expect, test } from 'vitest';
import { id, record, text, time } from '../../src/sources/record.ts';
import { defineService, perDay, perHour, perMinute, perSecond, type Service } from '../../src/sources/service.ts';
import { feed, fullRefresh, incremental } from '../../src/sources/service-streams.ts';

const order = record('orders', 'Orders.', {
  id: id(),
  order: text('Number.').plain(),
  changedAt: time('Last change.').always(),
});
const gone = record('gone', 'What was deleted.', {
  id: id(),
  of: text('Id.').plain(),
  at: time('When.').always(),
});
const shop = (more: Partial<Service<'shop'>> = {}) =>
  defineService({
    ...{ name: 'shop', label: 'the shop', says: 'The shop.', limits: [] },
    paginator: { type: 'offset', offsetParam: 'offset', limit: 50 },
    streams: [incremental(order, '/orders', { cursor: 'changedAt', startParam: 'since' })],
    ...more,
  });
const values = { SHOP_BASE_URL: new URL('https://shop.example'), SHOP_KEY: 'key', SHOP_LOOKBACK_SECONDS: 10 };
const connectionOf = (source: ReturnType<typeof shop>, more: object = {}) =>
  source.connect(source.configure({ ...values, ...more }, undefined as never))!;

test('each limit has a setting; the longest is the period, and its headers are read', () => {
  const source = shop({
    limits: [perSecond(3), perMinute(60), perHour(900), perDay(5000, { remaining: 'X-Left', resets: 'midnight UTC' })],
  });
  const most = { SHOP_REQUESTS_PER_SECOND: 3, SHOP_REQUESTS_PER_MINUTE: 60, SHOP_REQUESTS_PER_HOUR: 900 };
  expect(Object.keys(source.settings)).toEqual(expect.arrayContaining([...Object.keys(most), 'SHOP_REQUESTS_PER_DAY']));
  const { limits, dialect, longestWaitMs } = connectionOf(source, { ...most, SHOP_REQUESTS_PER_DAY: 4000 });
  expect(limits).toEqual({
    ...{ credits: 4000, periodMs: 86_400_000, requestsPerSecond: 3, reserve: 0, evenly: false },
    further: [
      { ms: 60_000, requests: 60 },
      { ms: 3_600_000, requests: 900 },
    ],
  });
  expect(longestWaitMs).toBe(60_000);
  const headers: Record<string, string> = { 'x-left': '17', date: 'Thu, 01 Jan 2026 23:59:00 GMT' };
  expect(dialect.rate(name => headers[name])).toEqual({ limit: 4000, remaining: 17, resetSeconds: 60 });
  expect(dialect.rate(() => undefined)).toEqual({});
});

test('without a limit it asks for ten a second; a limit of a minute is waited for', () => {
  expect(connectionOf(shop()).limits).toMatchObject({ credits: 600, periodMs: 60_000, requestsPerSecond: 10 });
  const minute = shop({ limits: [perMinute(100)] });
  expect(connectionOf(minute, { SHOP_REQUESTS_PER_MINUTE: 100 }).longestWaitMs).toBeUndefined();
});

test('columns have names of SQL, and a field that SQL reserves has an underscore', () => {
  const [stream] = shop().streams;
  const { root } = stream!.merge.declared;
  expect(root.columns.map(({ name }) => name)).toEqual(['id', 'order_', 'changed_at']);
  expect(root.version).toBe('changed_at');
  expect(stream!.merge.upsert).toContain(`record ->> 'changedAt'`);
});

const part = record('parts', 'Parts.', { id: id() });
test.each([
  [{ limits: [perSecond(1), perSecond(2)] }, 'two limits of the same time'],
  [{ streams: [fullRefresh(record('Orders', 'Orders.', { id: id() }), '/orders')] }, 'Orders is no name of SQL'],
  [{ streams: [fullRefresh(part, '/a'), fullRefresh(part, '/b')] }, 'two records have the name parts'],
  [
    { streams: [feed(gone, '/gone', { cursorParam: 'after', deletes: { id: 'of', at: 'at', of: 'ordres' } })] },
    'and there is no stream ordres',
  ],
] satisfies [Partial<Service<'shop'>>, string][])('a mistake is refused when it is declared: %o', (more, sentence) => {
  expect(() => shop(more)).toThrow(sentence);
});

test('a cursor that is no time of the record does not compile', () => {
  // @ts-expect-error The order is a text.
  incremental(order, '/orders', { cursor: 'order', startParam: 'since' });
  // @ts-expect-error A path of one record has its id.
  fullRefresh(order, '/orders', { get: '/orders' });
});
