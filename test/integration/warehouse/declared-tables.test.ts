/** The tables of a declared service, made by `migrate`, and what becomes of them when the declaration changes. */
import type pg from 'pg';
import { expect, test } from 'vitest';
import { addMirrors } from '../../../src/engine/database/mirrors.ts';
import { children, type Fields, id, integer, record, text, time } from '../../../src/sources/record/record.ts';
import { created, details, feed, fullRefresh, incremental } from '../../../src/sources/service/declared.ts';
import { defineService } from '../../../src/sources/service/service.ts';
import { freshDatabase } from '../../support/postgres.ts';

const line = (more: Fields = {}) => record('lines', 'Lines.', { id: id(), text: text('Text.').plain(), ...more });
const shop = (more: Fields, lines: Fields = {}) =>
  defineService({
    ...{ name: 'shop', label: 'the shop', says: 'The shop.', limits: [], paginator: { type: 'single_page' } },
    streams: [
      fullRefresh(record('buyers', 'Buyers.', { id: id(), ...more, lines: children(line(lines)) } as never), '/buyers'),
    ],
  });
const name = text('Name.').personal('name');
const mail = text('E-mail address.').personal('contact');
const secret = 'ada@secret.example';

async function opened() {
  const db = await freshDatabase();
  const rows = async (sql: string) => (await db.pool.query(sql)).rows;
  const migrate = async (source: ReturnType<typeof shop>) => {
    const client = await db.pool.connect();
    try {
      return await addMirrors(client as unknown as pg.Client, [source]);
    } finally {
      client.release();
    }
  };
  await migrate(shop({ name, mail, born: text('Birthday.').personal('text') }));
  const times = 'now(), now(), now()';
  await rows(`insert into sync.accounts (account_id) values ('default');
    insert into shop.buyers (account_id, id, name, mail, born, _first_seen_at, _synced_at, _observed_at, _payload)
      values ('default', 'b1', 'Ada', '${secret}', '1815-12-10', ${times}, '{"id": "b1", "born": "1815-12-10T00:00:00Z", "points": 12, "order": "7", "lines": []}'),
        ('default', 'b2', 'Bo', 'bo@x.example', 'soon', ${times}, '{"id": "b2", "born": "soon", "points": "many"}');
    insert into shop.lines (account_id, buyer_id, id, text, _first_seen_at, _synced_at, _observed_at, _payload)
      values ('default', 'b1', 'l1', 'One', ${times}, '{"id": "l1", "text": "One", "amount": 3}')`);
  return { rows, migrate, [Symbol.asyncDispose]: () => db[Symbol.asyncDispose]() };
}

test('a further column is filled from the stored records, also of parts; a value that it cannot hold is null', async () => {
  await using s = await opened();
  const points = integer('Points.');
  const more = { name, mail, born: text('Birthday.').personal('text'), points, order: text('Order.').plain() };
  expect(await s.migrate(shop(more, { amount: integer('Amount.') }))).toEqual(['shop: tables']);
  expect(await s.rows('select id, points, order_ from shop.buyers order by id')).toEqual([
    { id: 'b1', points: 12, order_: '7' },
    { id: 'b2', points: null, order_: null },
  ]);
  expect(await s.rows('select id, amount from shop.lines')).toEqual([{ id: 'l1', amount: 3 }]);
  expect(await s.migrate(shop(more, { amount: integer('Amount.') }))).toEqual([]);
});

test('a column that is no longer declared is emptied, and not shown; one of another type is another column', async () => {
  await using s = await opened();
  await expect(s.migrate(shop({ name, mail, born: time('Birthday.') }))).rejects.toMatchObject({
    message: 'the column born of shop.buyers is text, and its record declares timestamptz',
    remedy: expect.stringContaining('Give the field another column'),
  });
  await s.migrate(shop({ name, born: time('Birthday.', { column: 'born_at' }) }));
  expect(await s.rows('select id, born_at from shop.buyers order by id')).toEqual([
    { id: 'b1', born_at: new Date('1815-12-10T00:00:00Z') },
    { id: 'b2', born_at: null },
  ]);
  expect(await s.rows('select distinct mail, born from shop.buyers')).toEqual([{ mail: null, born: null }]);
  expect((await s.rows(`select pg_get_viewdef('safe.shop_buyers'::regclass) as sql`))[0].sql).not.toContain('t.mail');
});

test('of a stream that is declared no more nothing is told; its rows stay, with their rights', async () => {
  await using s = await opened();
  await s.rows(`insert into sync.coverage (account_id, source, stream, list, covered)
    values ('default', 'shop', 'buyers', 'default', '{[2026-01-01,2026-01-02)}')`);
  const told = () => s.rows(`select stream from sync.status where source = 'shop'`);
  expect(await told()).toEqual([{ stream: 'buyers' }]);
  const sellers = fullRefresh(record('sellers', 'Sellers.', { id: id() }), '/sellers');
  await s.migrate(
    defineService({
      ...{ name: 'shop', label: 'the shop', says: 'The shop.', limits: [], paginator: { type: 'single_page' } },
      streams: [sellers],
    }),
  );
  expect(await told()).toEqual([]);
  const [kept] = await s.rows(
    `select count(*) as rows, (select personal from sync.streams where stream_key = 'shop.buyers') as personal from shop.buyers`,
  );
  expect(kept).toEqual({ rows: 2, personal: true });
});

test('the newest change of a stream is that of its time, or a deletion; that of details is that of their records', async () => {
  await using s = await opened();
  const dated = (name: string) => record(name, 'Records.', { id: id(), changedAt: time('Time.').always() });
  const of = { cursor: 'changedAt', startParam: 'since' } as const;
  await s.migrate(
    defineService({
      ...{ name: 'shop', label: 'the shop', says: 'The shop.', limits: [], paginator: { type: 'single_page' } },
      streams: [
        incremental(dated('orders'), '/orders', of),
        created(dated('payments'), '/payments', of),
        fullRefresh(dated('clients'), '/clients', { updatedAt: 'changedAt' }),
        fullRefresh(dated('wares'), '/wares'),
        feed(dated('gone'), '/gone', { cursorParam: 'after', deletes: { id: 'id', at: 'changedAt', of: 'orders' } }),
        details(record('notes', 'Notes.', { id: id() }), '/orders/:id/notes', { parent: 'orders' }),
      ],
    }),
  );
  const all = ['orders', 'payments', 'clients', 'wares', 'gone'];
  const put = (id: string, changed: string, gone = 'null') =>
    s.rows(
      all
        .map(
          name => `insert into shop.${name} (account_id, id, changed_at, _first_seen_at, _synced_at, _observed_at, _payload, _deleted_at)
            values ('default', '${id}', '${changed}', now(), now(), now(), '{}', ${gone})`,
        )
        .join(';'),
    );
  const newest = async () =>
    Object.fromEntries(
      (
        await s.rows(
          `select stream, sync.newest_change('default', stream_key) as at from sync.streams where source = 'shop' and stream <> 'buyers' order by place`,
        )
      ).map(({ stream, at }) => [stream, at?.toISOString().slice(0, 10) ?? null]),
    );
  const each = (at: string | null) => ({ orders: at, payments: at, clients: at, wares: null, gone: at, notes: at });
  expect(await newest()).toEqual(each(null));
  await put('1', '2026-02-01');
  await put('2', '2026-01-01');
  expect(await newest()).toEqual(each('2026-02-01'));
  await put('3', '2026-05-01', `'2026-03-01'`);
  expect(await newest()).toEqual(each('2026-03-01'));
});
