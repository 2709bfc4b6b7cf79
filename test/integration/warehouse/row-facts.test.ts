/**
 * A further source with the lists of a help desk: orders, which move by their changes and can be read by creation, with a list
 * of the returned ones; and buyers, which are walked. What they declare is all that sweeps and verifications know of them.
 */
import { readFile } from 'node:fs/promises';
import type pg from 'pg';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { buildMerge, derived, elements, numericAt, page, text, time } from '../../../src/engine/commit/merge.ts';
import { addMirrors } from '../../../src/engine/database/mirrors.ts';
import { openCandidates } from '../../../src/engine/database/open-candidates.ts';
import { transaction } from '../../../src/engine/database/pool.ts';
import { sweepStream } from '../../../src/engine/deletions/sweep.ts';
import { syncList } from '../../../src/engine/load/list-loop.ts';
import { runStream } from '../../../src/engine/load/run-stream.ts';
import { readMovingList } from '../../../src/engine/reading/moving-list.ts';
import { walkList } from '../../../src/engine/reading/page-walk.ts';
import type { Ask } from '../../../src/engine/reading/reading.ts';
import { openRun, readProgress } from '../../../src/engine/runs/runs.ts';
import { openVerification, readFindings } from '../../../src/engine/verify/verifications.ts';
import { verifyList } from '../../../src/engine/verify/verify-list.ts';
import { sources } from '../../../src/sources/index.ts';
import { identify, type ListStream, type Row, type Stream } from '../../../src/sources/source.ts';
import { iso, scripted, second } from '../../support/scripted.ts';

const record = z.looseObject({ id: z.string() });
const own = {
  schedule: ['nightly'],
  paging: { perPage: 100, depth: 10_000 },
  enumerations: {},
  sets: ['id'],
} as const;
const ask = (kind: string, path: string, query: Record<string, string> = {}, shape: 'list' | 'single' = 'list') =>
  ({ path, query, cost: 1, shape, kind, record }) as const;
const timeOf = (record: Row, name: string) => Date.parse((record as unknown as Record<string, string>)[name]!);

const orders: ListStream<Row> = {
  kind: 'list',
  ...identify('store', 'orders'),
  ...own,
  lists: [
    { name: 'default' },
    { name: 'returned', shows: one => (one as { returned?: boolean }).returned === true, flag: 'returned' },
  ],
  read: readMovingList,
  request: (list, { page }) => ask('orders', list === 'default' ? '/orders' : '/returned', { page: String(page) }),
  orderedBy: (one, order) => timeOf(one, order === 'created' ? 'created_at' : 'changed_at'),
  get: id => ask('orders', `/orders/${id}`, {}, 'single'),
  rowFacts: { created: { at: 'created_at' } },
  quiet: { total: 'new totals' },
  merge: buildMerge(
    {
      name: 'store.orders',
      from: page,
      version: 'changed_at',
      ofTombstone: ['_deleted_after'],
      columns: [
        text('id'),
        time('created_at'),
        time('changed_at'),
        numericAt('total', 'total'),
        { name: 'returned', sql: `(record ->> 'returned')::boolean` },
      ],
    },
    [
      {
        name: 'store.items',
        from: `(select p.id as order_id, a.record, row_number() over (order by p.n, a.n) as n
          from orders_row p join orders_written using (id), ${elements(`p.record -> 'items'`)} with ordinality as a (record, n)) e`,
        parent: 'order_id',
        columns: [text('id'), derived('order_id', 'order_id')],
      },
    ],
  ),
  fields: new Set(['id', 'created_at', 'changed_at', 'total', 'returned', 'items']),
};

const buyers: ListStream<Row> = {
  kind: 'list',
  ...identify('store', 'buyers'),
  ...own,
  lists: [{ name: 'default' }],
  read: walkList,
  fromTheBeginning: true,
  request: (_list, { page, count }: Ask) =>
    ask('buyers', '/buyers', { page: String(page), ...(count && { count: 'true' }) }),
  orderedBy: () => Number.NaN,
  get: id => ask('buyers', `/buyers/${id}`, {}, 'single'),
  rowFacts: { created: { before: '_created_before', checkedAt: '_checked_at' } },
  edited: 'buyer edited',
  parameters: ({ since }, shownBy) => [new Date(since ?? 0), new Date(shownBy)],
  merge: buildMerge({
    name: 'store.buyers',
    from: page,
    columns: [text('id'), text('nick')],
    atFirst: { _created_after: '$8', _created_before: '$9', _checked_at: '$4' },
    ofTombstone: ['_deleted_after'],
  }),
  fields: new Set(['id', 'nick']),
};

const order = (n: number, more: object = {}) => ({
  ...{ id: `o${n}`, created_at: iso(n), changed_at: iso(n), total: n, returned: false, items: [{ id: `i${n}` }] },
  ...more,
});
const buyer = (n: number, nick = `nick ${n}`) => ({ id: `b${n}`, nick });

async function store(stream: ListStream<Row>) {
  const s = await scripted({ lookbackMs: 2000 });
  const streams = [orders, buyers].map(one => ({ ...one, jobs: { sweep: {} } }) as unknown as Stream);
  const client = (await s.pool.connect()) as pg.PoolClient & pg.Client;
  await client.query(await readFile(new URL('../../support/orders.sql', import.meta.url), 'utf8'));
  const mirrors = [...sources, { name: 'store', streams, schema: { says: 'The store.' } }];
  await addMirrors(client, mirrors);
  await openCandidates(client, mirrors);
  await openCandidates(client, mirrors);
  client.release();
  await s.rows(
    `insert into sync.sources (account_id, source, address) values ('default', 'store', 'https://store.example')`,
  );
  for (const { name } of stream.lists)
    await s.rows(
      `insert into sync.coverage (account_id, source, stream, list, covered) values ('default', 'store', $1, $2, '{}')`,
      stream.name,
      name,
    );
  const { sources: open } = s.ctx;
  const ctx = { ...s.ctx, sources: new Map([...open, ['store', { ...open.get('helpdesk')!, name: 'store' }]]) };
  let now = 1000;
  const reads = { sync: syncList, sweep: sweepStream, verify: verifyList };
  const work = async (kind: keyof typeof reads, run: number) => {
    const of = { account: 'default', run, stream: stream.key };
    await runStream(ctx, of, { read: (job, claim) => reads[kind](job, claim, stream) });
    return (await readProgress(s.pool, run)).streams[0]!;
  };
  const later = () => {
    now += 10_000;
    s.goTo(now);
    return new Date(second(now));
  };
  return Object.assign(s, {
    async run(kind: 'sync' | 'sweep') {
      const opened = {
        account: 'default',
        kind,
        streams: [stream.key],
        opener: 0,
        range: { since: null, until: null, again: true },
      };
      const at = later();
      return work(kind, await transaction(s.pool, db => openRun(db, opened, at)));
    },
    async verify() {
      const asked = { asked: { sample: null, repair: true }, forecast: { credits: 1, seconds: 1 } };
      const { run } = await openVerification(
        s.pool,
        { account: 'default', streams: [stream.key], opener: 0, ...asked },
        later(),
      );
      expect(await work('verify', run)).toMatchObject({ error: null });
      const { found } = await readFindings(s.pool, run, 100);
      return found.map(({ record: id, kind, repaired_at }) => [id, kind, repaired_at !== null]);
    },
    live: async (table: string) =>
      (await s.rows(`select string_agg(id, ' ' order by id) as ids from store.${table} where _deleted_at is null`))[0]!
        .ids,
    open: async () =>
      (await s.rows('select record_id from sync.open_deletion_candidates order by 1')).map(one => one.record_id),
    known: async () =>
      (await s.rows(`select sync.deletes_checked_at('default', $1) as at`, stream.key))[0]!.at as Date | null,
  });
}

test('a sweep by creation asks for each order that its list lacks, and buries it with its items', async () => {
  await using s = await store(orders);
  const returned = order(4, { returned: true });
  s.lists.orders = [order(1), order(2), order(3)];
  s.lists.returned = [returned];
  await s.run('sync');
  expect(await s.live('orders')).toBe('o1 o2 o3 o4');
  expect(await s.known()).toBeNull();

  // The default list hides the returned one. One is gone, one is hidden, and one cannot be asked for.
  s.lists.orders = [];
  Object.assign(s.details, { '/orders/o1': 404, '/orders/o2': order(2), '/orders/o3': 503 });
  expect(await s.run('sweep')).toMatchObject({ deleted: 1 });
  expect(await s.live('orders')).toBe('o2 o3 o4');
  expect(await s.live('items')).toBe('i2 i3 i4');
  expect(await s.open()).toEqual(['o3']);
  const before = await s.known();
  expect(before).not.toBeNull();

  // Nobody has to ask for what a list shows again.
  s.lists.orders = [order(2), order(3)];
  expect(await s.run('sweep')).toMatchObject({ deleted: 0, error: null });
  expect(await s.open()).toEqual([]);
  expect((await s.known())!.getTime()).toBeGreaterThan(before!.getTime());

  s.lists.orders = [order(1, { changed_at: iso(40_000) })];
  s.lists.returned = [];
  await s.run('sync');
  expect(await s.live('items')).toBe('i1 i2 i3 i4');
  expect(await s.rows(`select id from store.orders where _deleted_after is not null`)).toEqual([]);
});

test('verify names what is different in orders, asks for what is gone, and repairs both', async () => {
  await using s = await store(orders);
  s.lists.orders = [order(1), order(2), order(3)];
  s.lists.returned = [];
  await s.run('sync');
  s.lists.orders = [order(1), order(2, { total: 20 })];
  s.details['/orders/o3'] = 404;
  expect(await s.verify()).toEqual([
    ['o2', 'new totals do not move changed_at', true],
    ['o3', 'deleted', true],
  ]);
  expect(await s.live('items')).toBe('i1 i2');
  expect(await s.verify()).toEqual([]);
});

test('buyers are walked: whom a walk does not show is asked for, and an edit that nothing announces is found', async () => {
  await using s = await store(buyers);
  s.lists.buyers = [buyer(1), buyer(2), buyer(3)];
  await s.run('sync');
  s.lists.buyers = [buyer(1, 'new')];
  Object.assign(s.details, { '/buyers/b2': 404, '/buyers/b3': 503 });
  expect(await s.run('sweep')).toMatchObject({ deleted: 1, updated: 1 });
  expect(await s.live('buyers')).toBe('b1 b3');
  expect(await s.open()).toEqual(['b3']);
  s.details['/buyers/b3'] = 404;
  s.lists.buyers = [buyer(1, 'newer')];
  expect(await s.verify()).toEqual([
    ['b1', 'buyer edited', true],
    ['b3', 'deleted', true],
  ]);
  expect(await s.open()).toEqual([]);
  expect(await s.rows(`select id from store.buyers where _deleted_after is null`)).toEqual([{ id: 'b1' }]);
});
