/** A declared service: the limits, settings and mistakes that need no server. */
import { expect, test } from 'vitest';
import { readDetail } from '../../src/engine/load/read-members.ts';
import { plansFor } from '../../src/engine/queue/schedule.ts';
import type { Ask } from '../../src/engine/reading/reading.ts';
import { applyRules } from '../../src/privacy/fields/field-rules.ts';
import { kindOf } from '../../src/sources/record/kinds.ts';
import { masksOfRecord } from '../../src/sources/record/masks.ts';
import { keptOf } from '../../src/sources/record/personal.ts';
import { children, columnNameOf, id, oneOf, record, reference, text, time } from '../../src/sources/record/record.ts';
import { readAs, writtenAs } from '../../src/sources/service/datetime-format.ts';
import { created, details, feed, fullRefresh, incremental } from '../../src/sources/service/declared.ts';
import { perDay, perHour, perMinute, perSecond } from '../../src/sources/service/limits.ts';
import type { Paginator } from '../../src/sources/service/paginator.ts';
import { defineService, type Service } from '../../src/sources/service/service.ts';
import type { DetailStream, ListStream, Row, Stream } from '../../src/sources/source.ts';

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
const bare: Omit<Service<string>, 'name'> = {
  ...{ label: 'the shop', says: 'The shop.', limits: [] },
  paginator: { type: 'offset', offsetParam: 'offset', limit: 50 },
  streams: [incremental(order, '/orders', { cursor: 'changedAt', startParam: 'since' })],
};
const shop = (more: Partial<Service<'shop'>> = {}) => defineService({ ...bare, name: 'shop', ...more });
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
    ...{ credits: 4000, periodMs: 86_400_000, requestsPerSecond: 3, reserve: 0, evenly: false, aligned: true },
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

test('an audit has a setting where a record has a request of its own, and takes a small part of the limits without one', () => {
  const byId = incremental(order, '/orders', { cursor: 'changedAt', startParam: 'since', get: '/orders/:id' });
  const note = record('notes', 'Notes.', { id: id() });
  const notes = details(note, '/orders/:id/notes', { parent: 'orders' });
  const name = 'SHOP_AUDIT_RECORDS_PER_HOUR';
  const usually = (more: Partial<Service<'shop'>>) => shop(more).settings[name]?.default;
  expect([usually({}), connectionOf(shop()).audit]).toEqual([undefined, undefined]);
  expect(usually({ streams: [byId] })).toBe('50');
  expect(usually({ streams: [byId], limits: [perMinute(60), perDay(5000)] })).toBe('10');
  expect(usually({ streams: [byId, notes], limits: [perDay(5000)] })).toBe('5');
  expect(usually({ streams: [byId], limits: [perDay(100)] })).toBe('0');
  const daily = shop({ streams: [byId], limits: [perDay(5000)] });
  const perHourWith = (requests: number) => connectionOf(daily, { SHOP_REQUESTS_PER_DAY: requests }).audit?.perHour;
  expect([perHourWith(5000), perHourWith(500), perHourWith(100), perHourWith(50_000)]).toEqual([10, 1, 0, 50]);
  const source = shop({ streams: [bare.streams[0]!, notes] });
  expect(source.settings[name]!.says).toContain('each of notes');
  expect(connectionOf(source, { [name]: 7 }).audit).toEqual({ perHour: 7 });
});

test('columns have names of SQL, and a field that SQL reserves has an underscore', () => {
  const [stream] = shop().streams;
  const { root } = stream!.merge.declared;
  expect(root.columns.map(({ name }) => name)).toEqual(['id', 'order_', 'changed_at']);
  expect(root.version).toBe('changed_at');
  expect(stream!.merge.upsert).toContain(`record ->> 'changedAt'`);
  // A merge calls a record and its place so.
  expect(['record', 'n', 'number'].map(columnNameOf)).toEqual(['record_', 'n_', 'number']);
});

const part = record('parts', 'Parts.', { id: id() });
const whole = fullRefresh(record('clients', 'Clients.', { id: id() }), '/clients');
const box = record('boxes', 'Boxes.', { id: id(), parts: children(part) });
test.each([
  [
    { streams: [whole, details(part, '/clients/:id/parts', { parent: 'clients' })] },
    'parts has the parent clients, whose list does not say what has changed',
  ],
  [
    { streams: [...bare.streams, details(part, '/orders/:id/parts', { parent: 'order' })] },
    'parts has the parent order, and there is no stream of this name',
  ],
  [
    { streams: [...bare.streams, details(box, '/orders/:id/boxes', { parent: 'orders' })] },
    'parts lies within a record that lies within another one',
  ],
  [{ streams: [fullRefresh(part, 'parts')] }, 'the path parts of parts has no slash before it'],
  [
    { streams: [fullRefresh(part, '/parts', { get: 'parts/:id' })] },
    'the path parts/:id of parts has no slash before it',
  ],
  [
    { streams: [...bare.streams, details(part, 'orders/:id/parts', { parent: 'orders' })] },
    'the path orders/:id/parts of parts has no slash before it',
  ],
  [
    { streams: [fullRefresh(part, '/shops/:shop/parts')] },
    'the path /shops/:shop/parts of parts has :shop, for which nothing stands',
  ],
  [{ streams: [fullRefresh(part, '/parts/:id')] }, 'the path /parts/:id of parts has :id, for which nothing stands'],
  [
    { streams: [fullRefresh(part, '/parts', { get: '/shops/:shop/parts/:id' })] },
    'has :shop, for which nothing stands',
  ],
  [{ limits: [perSecond(1), perSecond(2)] }, 'two limits of the same time'],
  [{ limits: undefined as never }, 'no limits, or one that allows nothing'],
  [{ limits: [perSecond(0)] }, 'no limits, or one that allows nothing'],
  [{ streams: [] }, 'it has no streams'],
  [{ paginator: { type: 'offset', limit: 50 } as never }, 'the paginator offset has no offsetParam'],
  [
    { streams: [fullRefresh(record('orders', 'Orders.', { at: time('Time.') } as never), '/orders')] },
    'orders has no id',
  ],
  [{ streams: [fullRefresh(record('Orders', 'Orders.', { id: id() }), '/orders')] }, 'Orders is no name of SQL'],
  [{ streams: [fullRefresh(part, '/a'), fullRefresh(part, '/b')] }, 'two records have the name parts'],
  [
    { streams: [feed(gone, '/gone', { cursorParam: 'after', deletes: { id: 'of', at: 'at', of: 'ordres' } })] },
    'and there is no stream ordres',
  ],
  [
    { streams: [fullRefresh(record('parts', 'Parts.', { id: id(), of: reference('order', 'It') }), '/parts')] },
    'the field of of parts refers to order, and there is no such stream',
  ],
  [{ label: '' }, 'it has no label'],
  [{ paginator: undefined as never }, 'it has no paginator'],
  [{ streams: [incremental(order, '/orders', undefined as never)] }, 'orders has no options'],
  [{ streams: [feed(gone, '/gone', undefined as never)] }, 'gone has no options'],
  [{ streams: [incremental(order, '/orders', { cursor: 'changedAt', startParam: '' })] }, 'orders has no startParam'],
  [{ keyHeader: 'X-Key', dialect: { authorization: () => ({}) } }, 'keyHeader and dialect.authorization both say'],
  [{ limits: [perHour(9, { remaining: 'X-A', resets: 'x-a' })] }, 'remaining and resets are both X-A'],
  [{ limits: [{ per: 'week' as never, requests: 9 }] }, 'a limit is per week'],
  [{ lookbackSeconds: -1 }, 'lookbackSeconds is no time'],
  [{ keyHeader: 'My Key' }, 'My Key is no name of a header'],
  [{ dialect: { authorisation: () => ({}) } as never }, 'authorisation is no option of a dialect'],
  [{ limits: [perDay(9, { remaining: 'midnight UTC' })] }, 'midnight UTC is no name of a header'],
  [{ limits: [perHour(9, { resets: 'X-Reset' })] }, 'resets is X-Reset, and there is no remaining'],
  [{ limits: [perHour(9, { resets: 'midnight UTC' })] }, 'a limit of a hour ends at midnight UTC'],
  [{ limits: [(perSecond as typeof perDay)(9, { remaining: 'X-Left' })] }, 'remaining tells of a limit that is not'],
  [{ paginator: { ...bare.paginator, pageSize: 9 } as never }, 'pageSize is no option of the paginator offset'],
  [{ paginator: { ...bare.paginator, limit: '50' } as never }, 'the paginator offset has a number that is none'],
  [
    { paginator: { ...bare.paginator, limitParam: 'offset' } as never },
    'limitParam and offsetParam of orders are both offset',
  ],
  [
    { paginator: { type: 'cursor', cursorParam: 'since', cursorPath: 'next', limit: 50 } },
    'cursorParam and startParam of orders are both since',
  ],
  [
    { dataSelector: 'total', paginator: { ...bare.paginator, totalPath: 'total' } as never },
    'dataSelector and totalPath of orders are both total',
  ],
  [{ streams: [fullRefresh(part, '/parts?offset=0')] }, 'offset is offsetParam of parts, and has a value in its path'],
  [
    { streams: [fullRefresh(part, '/parts', { params: { offset: '0' } })] },
    'offset is offsetParam of parts, and has a value in params',
  ],
  [
    { streams: [fullRefresh(record('parts', 'Parts.', { id: id(), key: id() }), '/parts')] },
    'the id of parts is id and key',
  ],
] satisfies [Partial<Service<'shop'>>, string][])('a mistake is refused when it is declared: %o', (more, sentence) => {
  expect(() => shop(more)).toThrow(sentence);
});

const since = { cursor: 'changedAt', startParam: 'since' } as const;
test.each([
  [{}, '2026-01-02T03:04:05.678Z'],
  [{ datetimeFormat: "Changed >= '%Y-%m-%d %H:%M:%S'" }, "Changed >= '2026-01-02 03:04:05'"],
  [{ datetimeFormat: '%s 100%%' }, '1767323045 100%'],
  [{ datetimeFormat: '>=%Y-%m-%dT%H:%M:%SZ', startSlackSeconds: 1 }, '>=2026-01-02T03:04:06Z'],
])('the service is asked for changes since a time as it writes times: %o', (more, written) => {
  const [stream] = shop({ streams: [incremental(order, '/orders', { ...since, ...more })] }).streams;
  const ask = { page: 1, perPage: 50, since: Date.UTC(2026, 0, 2, 3, 4, 5, 678) };
  expect((stream as ListStream<Row>).request('default', ask).query).toMatchObject({ since: written });
});

test.each(["Changed >= '%Y-%m-%d %H:%M:%S'", '>=%Y-%m-%dT%H:%M:%SZ', '%s 100%% of (a|b)?', '^%d.%m.%Y [%H:%M:%S]$'])(
  'what is written as %s is read back, and nothing else',
  format => {
    const ms = Date.UTC(2026, 0, 2, 3, 4, 5);
    expect(readAs(format, writtenAs(format, ms))).toBe(ms);
    expect(readAs(format, new Date(ms).toISOString())).toBeNaN();
  },
);

const typed = record('gone', 'What was deleted.', { ...gone.fields, type: oneOf(['order']) });
// Nobody compiles a file of one's own.
const wild = (make: (...args: never[]) => unknown, ...args: unknown[]) => [make(...(args as never[]))] as never;
test.each([
  [
    wild(incremental, order, '/orders', { cursor: 'order', startParam: 'since' }),
    'order is no time that all orders have',
  ],
  [
    wild(incremental, order, '/orders', { cursor: 'changed', startParam: 'since' }),
    'changed is no time that all orders have',
  ],
  [wild(created, order, '/orders', { cursor: 'order', startParam: 'since' }), 'order is no time that all orders have'],
  [wild(created, order, '/orders', { cursor: 'changedAt' }), 'orders has no startParam'],
  [wild(incremental, order, '/orders', { ...since, datetimeFormat: '%Y-%m-%d' }), 'orders says no second'],
  [wild(incremental, order, '/orders', { ...since, datetimeFormat: '%%s' }), 'orders says no second'],
  [
    wild(incremental, order, '/orders', { ...since, startSlackSeconds: 60 }),
    'startSlackSeconds of orders is not a whole number up to 2',
  ],
  [
    wild(incremental, order, '/orders', { ...since, datetimeFormat: '%q %s' }),
    'orders has %q, which stands for nothing',
  ],
  [wild(incremental, order, '/orders', { startParam: 'since' }), 'undefined is no time that all orders have'],
  [wild(created, order, '/orders', { startParam: 'since' }), 'undefined is no time that all orders have'],
  [wild(fullRefresh, order, '/orders', { ...since }), 'cursor is no option of orders, which is a list of full refresh'],
  [wild(fullRefresh, order, '/orders', { updatedAt: 'order' }), 'order is no time of orders'],
  [wild(fullRefresh, order, '/orders', { getSelector: 'order' }), 'orders has a getSelector, and no get'],
  [wild(fullRefresh, order, '/orders', { schedule: 'daily' }), 'daily is no schedule of orders'],
  [wild(fullRefresh, order, '/orders', { target: '5 min' }), 'the target 5 min of orders is no duration'],
  [wild(feed, gone, '/gone', { cursorParam: 'a' }), 'the events of gone have no time: one that is listed late'],
  [
    wild(feed, gone, '/gone', { cursorParam: 'a', deletes: { id: 'of', at: 'at', of: { order: 'gone' } } }),
    'deletes of gone has several streams, and no type that chooses one',
  ],
  [
    wild(feed, typed, '/gone', { cursorParam: 'a', deletes: { id: 'type', at: 'at', type: 'of', of: {} } }),
    'type of gone is one of a few words, and no id',
  ],
  [
    wild(feed, typed, '/gone', { cursorParam: 'a', deletes: { id: 'of', at: 'at', type: 'type', of: { b: 'gone' } } }),
    'b is no value of type of gone',
  ],
  [
    [...bare.streams, ...wild(details, part, '/orders/:id/parts', { parent: 'orders', ageDays: 0 })],
    'ageDays of parts is no number of days',
  ],
  [wild(fullRefresh, order, '/orders', { updated_at: 'changedAt' }), 'updated_at is no option of orders'],
  [wild(fullRefresh, order, '/orders', { get: '/orders' }), 'the path /orders of orders has no :id'],
  [
    wild(feed, gone, '/gone', { cursorParam: 'a', deletes: { id: 'on', at: 'at', of: 'gone' } }),
    'gone has no field on',
  ],
  [
    wild(feed, gone, '/gone', { cursorParam: 'a', deletes: { id: 'of', at: 'at', kind: 'of', of: 'gone' } }),
    'kind is no option of deletes of gone',
  ],
  [
    wild(feed, gone, '/gone', { cursorParam: 'a', deletes: { id: 'of', at: 'of', of: 'gone' } }),
    'of is no time that all gone have',
  ],
  [
    [...bare.streams, ...wild(details, part, '/orders/parts', { parent: 'orders' })],
    'the path /orders/parts of parts has no :id',
  ],
])('what does not compile is refused where nobody compiles it: %o', (streams, sentence) => {
  expect(() => shop({ streams })).toThrow(sentence);
});

test('so is an option of the service that nobody knows', () => {
  expect(() => shop({ lookback: 5 } as never)).toThrow('lookback is no option of a service');
  expect(() => shop({ paginator: { type: 'pages', limit: 9 } } as never)).toThrow('pages is no type of a paginator');
  const paginator = { type: 'offset', offsetParam: 'offset', limit: 9, totalpath: 'total' };
  expect(() => shop({ paginator } as never)).toThrow('totalpath is no option of the paginator offset');
  const limits = [{ per: 'day', requests: 9, remaning: 'X-Left' }];
  expect(() => shop({ limits } as never)).toThrow('remaning is no option of a limit');
});

const fieldsOf = (fields: Record<string, unknown>) => ({
  streams: [fullRefresh(record('orders', 'Orders.', { id: id(), ...fields } as never), '/orders')],
});
const plain = text('Text.').plain();
test.each([
  [{ account_id: plain }, 'the column account_id, which the mirror has itself'],
  [{ _payload: plain }, 'the column _payload, which the mirror has itself'],
  [{ updatedAt: plain, updated_at: plain }, 'would have one column, updated_at'],
  [{ "it's": plain }, 'has a quotation mark'],
  [{ note: text('Note.').personal('contacts' as never) }, 'does not say what it tells of people'],
  [{ '1st': plain }, 'the column 1st, which is no name of SQL'],
  [{ note: text('Note.').plain({ column: 'record' }) }, 'the column record, which is no name of SQL'],
  [
    { lines: children(record('lines', 'Lines.', { id: id(), order_id: plain })) },
    'order_id, which the mirror has itself',
  ],
])('a field that would break the SQL is refused: %o', (fields, sentence) => {
  expect(() => shop(fieldsOf(fields))).toThrow(sentence);
});

test('names and limits that cannot be are refused', () => {
  expect(() => defineService({ ...bare, name: 'sync' })).toThrow('a schema of this name is there already');
  expect(() => defineService({ ...bare, name: 'left' })).toThrow('left is no name of SQL');
  expect(() => shop({ limits: [perMinute(60, { remaining: 'X-Left' }), perDay(5000)] })).toThrow(
    'remaining tells of a limit that is not the longest',
  );
  expect(() => shop({ paginator: { type: 'offset', offsetParam: 'offset', limit: 0 } })).toThrow('less than 2');
});

const asked = (source: ReturnType<typeof shop>, ask: Partial<Ask> = {}) =>
  (source.streams[0] as ListStream<Row>).request('default', { page: 1, perPage: 2, ...ask });
const none = () => undefined;

test('the first cursor of a list, or place of a feed, stands in its parameters, and a later one takes its place', () => {
  const paginator = { type: 'cursor', cursorParam: 'cursor', cursorPath: 'next', limit: 2 } as const;
  const list = shop({ paginator, streams: [fullRefresh(part, '/parts', { params: { cursor: '*' } })] });
  expect(asked(list).query).toEqual({ cursor: '*' });
  expect(asked(list, { cursor: 'b', page: 2 }).query).toEqual({ cursor: 'b' });
  const events = shop({ streams: [feed(gone, '/gone', { cursorParam: 'after', at: 'at', params: { after: '0' } })] });
  expect(asked(events).query).toMatchObject({ after: '0' });
  expect(asked(events, { cursor: '7' }).query).toMatchObject({ after: '7' });
});

test('a wrong path of the next page is an error, and no end of the list', () => {
  const paginator = { type: 'cursor', cursorParam: 'c', cursorPath: 'nxt', limit: 2 } as const;
  const request = asked(shop({ paginator, dataSelector: 'rows', streams: [fullRefresh(part, '/parts')] }));
  expect(() => request.next!({ rows: [1, 2], next: 'b' }, none)).toThrow('has no field nxt');
  expect(request.next!({ rows: [1, 2], nxt: null }, none)).toBeUndefined();
  expect(request.next!({ rows: [1] }, none)).toBeUndefined();
  const events = asked(
    shop({
      dataSelector: 'rows',
      streams: [feed(gone, '/gone', { cursorParam: 'after', hasMorePath: 'more', at: 'at' })],
    }),
  );
  expect(() => events.next!({ rows: [{ id: 1 }], has_more: true }, none)).toThrow('the reply has no field more');
  expect(() => events.next!({ rows: [null, { of: 'a' }], more: true }, none)).toThrow('none of this page has an id');
  expect(events.next!({ rows: [{ id: 7 }, null], more: 'true' }, none)).toBe('7');
  expect(events.next!({ rows: [{ id: 7 }], more: false }, none)).toBeUndefined();
});

test('the end of a period comes as seconds, as a time, or as a date', () => {
  const { dialect } = connectionOf(shop({ limits: [perHour(10, { remaining: 'Left', resets: 'Resets' })] }), {
    SHOP_REQUESTS_PER_HOUR: 10,
  });
  const resets = (value: string) => {
    const headers: Record<string, string> = { left: '1', resets: value, date: 'Thu, 01 Jan 2026 00:00:00 GMT' };
    return dialect.rate(name => headers[name]).resetSeconds;
  };
  const midnight = Date.UTC(2026, 0, 1) / 1000;
  expect(['30', String(midnight + 30), 'Thu, 01 Jan 2026 00:00:30 GMT'].map(resets)).toEqual([30, 30, 30]);
});

test('a field rule leaves ids and texts that are numbers as they are', () => {
  const { tables } = shop();
  const kind = kindOf(tables![0]!.record);
  expect(kind.shapes).toMatchObject({ id: 'scalar', order: 'scalar' });
  const rules = {
    kinds: { orders: kind },
    rules: [{ kind: 'orders', path: ['order'], action: { name: 'leave out' } }],
  };
  expect(
    applyRules(
      { ...rules, key: 'k' } as never,
      'orders',
      '[{"id":1152921504606846977,"order":7,"changedAt":"2026-01-01T00:00:00Z"}]',
    ),
  ).toBe('[{"id":1152921504606846977,"changedAt":"2026-01-01T00:00:00Z"}]');
});

test('a cursor that is no time of the record does not compile', () => {
  // @ts-expect-error The order is a text.
  incremental(order, '/orders', { cursor: 'order', startParam: 'since' });
  // @ts-expect-error A path of one record has its id.
  fullRefresh(order, '/orders', { get: '/orders' });
});

test('a value of a list may tell of a person: it is masked, and goes with the person', () => {
  const person = record('people', 'People.', { id: id(), faith: oneOf(['none', 'some'], 'Faith: ').personal('text') });
  expect([...masksOfRecord(person)]).toEqual([['faith', { by: 'value' }]]);
  expect(keptOf(person)).toEqual(['id']);
});

test('a night sweeps no list that its sync has read whole already, and whose deletions need no request of their own', () => {
  const { streams } = shop({
    streams: [
      fullRefresh(part, '/parts'),
      fullRefresh(order, '/orders', { get: '/orders/:id' }),
      feed(gone, '/gone', { cursorParam: 'after', at: 'at' }),
    ],
  });
  const [nightly] = plansFor(streams);
  expect(nightly!.streams).toEqual(['shop.parts', 'shop.orders', 'shop.gone']);
  expect(nightly!.sweeps).toEqual(['shop.orders']);
});

/** Reads the parts of an order at a service that shows so many, and no more of a page than `cap`. `asked`: of each page. */
async function partsRead(paginator: Paginator, there: () => number[], cap = 50) {
  const declared = details(part, '/orders/:id/parts', { parent: 'orders', paginator });
  const stream = shop({ streams: [...bare.streams, declared] }).streams[1] as Stream & DetailStream<Row, Row>;
  const asked: string[] = [];
  const reply = await readDetail(stream, { id: 'o/1', more: [] }, async request => {
    asked.push(`${request.path}?${new URLSearchParams(request.query)}`);
    const { page = '1', offset = '0', cursor = '0', limit = '50' } = request.query;
    const from = paginator.type === 'page_number' ? (Number(page) - 1) * cap : Number(offset) + Number(cursor);
    const all = there();
    const shown = all.slice(from, from + Math.min(cap, Number(limit))).map(id => ({ id }));
    const body = { parts: shown, total: all.length, next: from + cap < all.length ? String(from + cap) : null };
    const [next, total] = [request.next?.(body.parts, () => undefined), request.total?.(body)];
    const records = shown.map(({ id }) => ({ id: String(id) }));
    const more = { ...(next !== undefined && { next }), total };
    return {
      text: JSON.stringify(shown),
      records,
      unreadable: [],
      arrived: shown.length,
      ...times(asked.length),
      ...more,
    };
  });
  const [record] = reply.records as unknown as [{ parts: { id: number }[] }];
  return { asked, ids: record.parts.map(({ id }) => id), reply };
}
const times = (n: number) => ({ asOf: 1000 * n, trueBy: 1000 * n + 1000, shownBy: 1000 * n + 2000 });
const numbered = (n: number) => Array.from({ length: n }, (_, i) => i + 1);
const numberedPages = { type: 'page_number', pageParam: 'page', limit: 50 } as const;
const byOffset = { type: 'offset', offsetParam: 'offset', limitParam: 'limit', limit: 50 } as const;

test('a list of very few details is one request, and its path has the id of the record', async () => {
  for (const paginator of [numberedPages, byOffset]) {
    const { asked, ids, reply } = await partsRead(paginator, () => numbered(9));
    expect([asked.length, ids]).toEqual([1, numbered(9)]);
    expect(asked[0]).toMatch(/^\/orders\/o%2F1\/parts\?/);
    expect(reply.text).toBe(`{"id":"o/1","parts":[${numbered(9).map(id => `{"id":${id}}`)}]}`);
  }
  expect((await partsRead(byOffset, () => [])).ids).toEqual([]);
});

test.each([
  ['numbered pages', numberedPages],
  ['offsets', byOffset],
] as const)(
  'details on several pages are read to their end by %s, also where the pages are capped',
  async (_, paginator) => {
    for (const cap of [50, 20]) {
      const { ids, reply } = await partsRead(paginator, () => numbered(65), cap);
      expect(ids.toSorted((a, b) => a - b)).toEqual(numbered(65));
      // It shows what happened before the first page, and nothing after the last one.
      expect([reply.asOf, reply.arrived, reply.trueBy > 3000]).toEqual([1000, 1, true]);
    }
  },
);

test('a detail that goes away between two pages moves no other one out of sight', async () => {
  let requests = 0;
  const { ids } = await partsRead(byOffset, () => (requests++ === 0 ? numbered(65) : numbered(65).slice(1)));
  expect(ids).toEqual(numbered(65).slice(1));
});

test('a list of details that moves all the time is no set: it is read again later', async () => {
  let requests = 0;
  const moving = partsRead(byOffset, () => numbered(200).slice(requests++));
  await expect(moving).rejects.toThrow('the parts of o/1: the list moved in each of 5 readings');
});
