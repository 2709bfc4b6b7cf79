/** Replies that are larger than the cap: their reading ends there, fewer records a page are asked for, and one alone is a reject. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { fetchOver } from '../../src/engine/http/fetch.ts';
import { openWays } from '../../src/engine/http/ways.ts';
import { at, iso, message, scripted, second, ticket } from '../support/scripted.ts';

type Record = { id: string; updated_at?: string; created_at?: string };

/** A help desk over HTTP with these records, which a client reads up to `capBytes`. It tells how many bytes it has sent. */
async function desk(capBytes: number) {
  const lists: { [name: string]: readonly Record[] } = { tickets: [], customers: [], users: [] };
  const details: { [path: string]: unknown } = {};
  const asked: string[] = [];
  const sent = { bytes: 0, aborted: 0 };
  let instead: ((path: string, reply: ServerResponse) => boolean) | undefined;
  let counted = 0;
  const answer = (url: URL): unknown => {
    const path = url.pathname.replace('/api/v1/', '');
    if (path in details) return details[path];
    const [, id] = /^tickets\/(.+)$/.exec(path) ?? [];
    if (id !== undefined) return lists.tickets!.find(one => one.id === id);
    const query = url.searchParams;
    if (query.has('spam') || query.has('trash')) return [];
    const time = query.has('since_created_at') || query.get('sort') === 'created_at' ? 'created_at' : 'updated_at';
    const since = query.get('since_updated_at') ?? query.get('since_created_at') ?? '';
    // Customers do not show when they were created: all of these were before the first reading.
    const created = (one: Record) => one[time] ?? (path === 'customers' ? '2020-01-01' : since + 1);
    const all = (lists[path] ?? []).filter(one => created(one) > since);
    const perPage = Number(query.get('per_page'));
    const first = (Number(query.get('page')) - 1) * perPage;
    counted = all.length;
    return all.slice(first, first + perPage);
  };
  const server = createServer((request, reply) => {
    const url = new URL(request.url!, 'http://desk');
    asked.push(request.url!);
    reply.setHeader('date', new Date(second(1000)).toUTCString());
    reply.on('close', () => {
      if (!reply.writableFinished) sent.aborted++;
    });
    if (instead?.(url.pathname, reply)) return;
    // Without its length: the client finds out.
    const body = JSON.stringify(answer(url));
    if (url.searchParams.get('count') === 'true') reply.setHeader('total-count', String(counted));
    reply.write(body);
    reply.end();
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const ways = openWays();
  const fetch = fetchOver(ways, capBytes);
  const s = await scripted({
    lookbackMs: 1000,
    begins: 1000,
    fetch: (url, headers) => fetch(new URL(url.pathname + url.search, `http://127.0.0.1:${port}`), headers),
  });
  return Object.assign(s, {
    lists_: lists,
    details_: details,
    asked,
    sent,
    insteadOf(other: typeof instead) {
      instead = other;
    },
    sizes: () => asked.filter(url => url.includes('/tickets?')).map(url => Number(/per_page=(\d+)/.exec(url)?.[1])),
    async [Symbol.asyncDispose]() {
      await s.pool.end();
      await ways[Symbol.asyncDispose]();
      server.closeAllConnections();
      server.close();
    },
  });
}

const large = (n: number, bytes: number) =>
  ticket(`t${String(n).padStart(3, '0')}`, {
    updated_at: iso(10 * n),
    created_at: iso(10 * n),
    subject: 'x'.repeat(bytes),
  });
const many = (count: number) => Array.from({ length: count }, (_, n) => n);
const coverage = `select lower(r) as "from", upper(r) as "to" from sync.coverage c, unnest(covered) r
  where stream = 'tickets' and list = 'default' order by 1`;

test('an endless body is ended at the cap, and the request is aborted', async () => {
  await using s = await desk(100_000);
  s.insteadOf((_path, reply) => {
    const more = () => {
      while (!reply.destroyed && reply.write('x'.repeat(10_000))) s.sent.bytes += 10_000;
    };
    reply.on('drain', more);
    more();
    return true;
  });
  const { state, error } = await s.sync('tickets');
  expect({ state, error }).toEqual({ state: 'partial', error: expect.stringContaining('larger than 0.1 MB') });
  const requests = s.asked.length;
  await expect.poll(() => s.sent.aborted).toBe(requests);
  // What the two sockets hold is on its way.
  expect(s.sent.bytes / requests).toBeLessThan(20_000_000);
});

test('tickets of 1 MB each all arrive under a cap of 4 MB', async () => {
  await using s = await desk(4_000_000);
  s.lists_.tickets = many(40).map(n => large(n, 1_000_000));
  expect(await s.sync('tickets')).toMatchObject({ state: 'completed' });
  expect(await s.rows('select count(*)::int as n, min(length(subject)) as least from helpdesk.tickets')).toEqual([
    { n: 40, least: 1_000_000 },
  ]);
  expect(s.sizes().slice(0, 5)).toEqual([100, 50, 25, 10, 5]);
  expect(s.sizes()).toContain(2);
  expect(s.sizes().length).toBeLessThan(80);
  expect(await s.rows('select from sync.rejects')).toEqual([]);
  expect(await s.rows(coverage)).toEqual([{ from: expect.any(Date), to: expect.any(Date) }]);
}, 60_000);

test('a ticket beyond the cap is a reject with its id; the others arrive, and a gap names it', async () => {
  await using s = await desk(100_000);
  s.lists_.tickets = many(20).map(n => large(n, n === 7 ? 200_000 : 10));
  expect(await s.sync('tickets')).toMatchObject({
    state: 'partial',
    error: expect.stringMatching(/default list, .*record t007 is too large: GET \/tickets/),
  });
  expect(await s.rows('select count(*)::int as n from helpdesk.tickets')).toEqual([{ n: 19 }]);
  expect(await s.rows('select record_id, reason from sync.rejects')).toEqual([
    { record_id: 't007', reason: expect.stringContaining('is larger than 0.1 MB (SHELFDESK_REPLY_MEGABYTES)') },
  ]);
  const covered = await s.rows(coverage);
  expect(covered).toHaveLength(2);
  expect((covered[0]!.to as Date) <= at(70) && (covered[1]!.from as Date) > at(70)).toBe(true);
  expect(await s.rows(`select reason from sync.gap_reasons`)).toEqual([
    { reason: expect.stringContaining('record t007 is too large') },
  ]);
  // It was asked for with all others, with fewer, alone, and by its id.
  const before = s.asked.length;
  expect(before).toBeLessThan(60);

  s.lists_.tickets = many(20).map(n => large(n, 10));
  s.details_['tickets/t007'] = large(7, 10);
  s.goTo(90_000);
  expect(await s.sync('tickets', { kind: 'backfill' })).toMatchObject({ state: 'completed' });
  expect(await s.rows(coverage)).toHaveLength(1);
  expect(await s.rows('select from sync.rejects where cleared_at is null')).toEqual([]);
});

test('a record of unknown id is a reject of its place, which is cleared when the place was read', async () => {
  await using s = await desk(100_000);
  const named = (id: string, n: number, bytes = 1) => {
    const { subject: _, ...rest } = ticket(id, { updated_at: iso(n) });
    // The beginning of the reply does not show its id.
    return { subject: 'x'.repeat(bytes), ...rest };
  };
  s.lists_.tickets = [named('t1', 10), named('t2', 20, 200_000), named('t3', 30)];
  expect(await s.sync('tickets')).toMatchObject({ state: 'partial' });
  expect(await s.rows('select key, record_id, ask_id, payload from sync.rejects')).toEqual([
    {
      key: expect.stringMatching(/^2026-01-01T00:00:\d\d.000Z default list, page \d+$/),
      record_id: null,
      ask_id: null,
      payload: null,
    },
  ]);
  expect(await s.rows('select id from helpdesk.tickets order by 1')).toEqual([{ id: 't1' }, { id: 't3' }]);

  s.lists_.tickets = [named('t1', 10), named('t2', 20), named('t3', 30)];
  expect(await s.sync('tickets', { kind: 'backfill' })).toMatchObject({ state: 'completed' });
  expect(await s.rows('select id from helpdesk.tickets order by 1')).toHaveLength(3);
  expect(await s.rows('select from sync.rejects where cleared_at is null')).toEqual([]);
});

test('a whole list: all users but the one that is too large, and the list is not complete', async () => {
  await using s = await desk(100_000);
  const user = (n: number, bytes = 1) => ({
    id: `u${n}`,
    first_name: 'x'.repeat(bytes),
    last_name: 'y',
    email: `u${n}@example.org`,
  });
  s.lists_.users = many(5).map(n => user(n, n === 2 ? 200_000 : 1));
  expect(await s.sync('users')).toMatchObject({ state: 'partial' });
  expect(await s.rows('select id from helpdesk.users order by 1')).toEqual(
    ['u0', 'u1', 'u3', 'u4'].map(id => ({ id })),
  );
  expect(await s.rows(`select from sync.coverage where stream = 'users' and not isempty(covered)`)).toEqual([]);
  s.lists_.users = many(5).map(n => user(n));
  expect(await s.sync('users')).toMatchObject({ state: 'completed' });
  expect(await s.rows('select from helpdesk.users')).toHaveLength(5);
  expect(await s.rows(`select from sync.coverage where stream = 'users' and not isempty(covered)`)).toHaveLength(1);
});

test('a whole list whose pages never end is given up after some of them', async () => {
  await using s = await desk(100_000);
  s.insteadOf((path, reply) => {
    if (path !== '/api/v1/users') return false;
    reply.end(JSON.stringify([{ id: 'u1', first_name: 'x'.repeat(200_000) }]));
    return true;
  });
  expect(await s.sync('users')).toMatchObject({ state: 'partial' });
  expect(s.asked.filter(url => url.includes('/users')).length).toBeLessThan(40);
  expect(await s.rows('select from sync.rejects')).toHaveLength(1);
  expect(await s.rows(`select from sync.coverage where stream = 'users' and not isempty(covered)`)).toEqual([]);
});

test('customers: a walk by pages continues behind one that is too large', async () => {
  await using s = await desk(100_000);
  const customer = (n: number, bytes = 1) => ({
    ...{ id: `c${n}`, first_name: 'x'.repeat(bytes), last_name: 'y', summary: null, contacts: [] },
  });
  s.lists_.customers = many(30).map(n => customer(n, n === 11 ? 200_000 : 1));
  expect(await s.sync('customers')).toMatchObject({ state: 'partial', error: '1 record could not be stored' });
  expect(await s.rows('select from helpdesk.customers')).toHaveLength(29);
  expect(await s.rows('select record_id from sync.rejects')).toEqual([{ record_id: 'c11' }]);
});

test('messages: six tickets that are too large in a row are rejects, and the other tickets are read', async () => {
  await using s = await desk(100_000);
  s.lists_.tickets = many(9).map(n => large(n, 10));
  await s.sync('tickets');
  for (const n of many(9)) {
    const body = 'x'.repeat(n < 6 ? 200_000 : 10);
    const id = `t${String(n).padStart(3, '0')}`;
    s.details_[`tickets/${id}`] = { ...large(n, 10), messages: [message(`m${n}`, { body })] };
  }
  const missing = 'the messages of 6 tickets could not be read in full';
  expect(await s.sync('messages')).toMatchObject({ state: 'partial', error: missing });
  expect(await s.rows('select from helpdesk.messages')).toHaveLength(3);
  expect(
    await s.rows(`select from sync.rejects where stream = 'messages' and reason like '%larger than 0.1 MB%'`),
  ).toHaveLength(6);
});
