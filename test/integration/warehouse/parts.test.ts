/** Parts of records of a further source: invoices with lines, and taxes in the lines. A part dies and comes back with its record. */
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { z } from 'zod';
import {
  buildMerge,
  type Column,
  derived,
  elements,
  numericAt,
  page,
  type Table,
  text,
} from '../../../src/engine/commit/merge.ts';
import { addMirrors } from '../../../src/engine/database/mirrors.ts';
import { transaction } from '../../../src/engine/database/pool.ts';
import { sweepWholeList } from '../../../src/engine/deletions/sweep-whole-list.ts';
import { syncList } from '../../../src/engine/load/list-loop.ts';
import { runStream } from '../../../src/engine/load/run-stream.ts';
import { readByCursor } from '../../../src/engine/reading/by-cursor.ts';
import { openRun, readProgress } from '../../../src/engine/runs/runs.ts';
import { openVerification, readFindings } from '../../../src/engine/verify/verifications.ts';
import { verifyList } from '../../../src/engine/verify/verify-list.ts';
import { identify, type ListStream, type Row, type Stream } from '../../../src/sources/source.ts';
import { scripted, second } from '../../support/scripted.ts';

const record = z.looseObject({ id: z.string() });

const part = (name: string, of: string, selected: string, columns: readonly Column[]): Table => ({
  name: `shop.${name}`,
  from: `(select ${selected}, a.record, row_number() over (order by p.n, a.n) as n from ${of}_row p, ${elements(`p.record -> '${name}'`)} with ordinality as a (record, n)) e`,
  parent: 'invoice_id',
  columns,
});

/** `byId`: only a 404 is a deletion. */
const invoicesOf = ({ byId = false } = {}): ListStream<Row> => ({
  kind: 'list',
  ...identify('shop', 'invoices'),
  schedule: ['nightly'],
  lists: [{ name: 'default' }],
  read: (from, options) => readByCursor(from, options),
  paging: { perPage: 100, depth: Number.POSITIVE_INFINITY },
  fromTheBeginning: true,
  request: () => ({ path: '/invoices', query: {}, cost: 1, shape: 'list', kind: 'invoices', record }),
  orderedBy: () => Number.NaN,
  ...(byId && {
    get: (id: string) => ({ path: `/invoices/${id}`, query: {}, cost: 1, shape: 'single', kind: 'invoices', record }),
  }),
  deletions: 'whole list',
  merge: buildMerge({ name: 'shop.invoices', from: page, columns: [text('id'), numericAt('total', 'total')] }, [
    part('lines', 'invoices', 'p.id as invoice_id', [
      text('id'),
      derived('invoice_id', 'invoice_id'),
      numericAt('amount', 'amount'),
    ]),
    part('taxes', 'lines', 'p.invoice_id, p.id as line_id', [
      text('id'),
      derived('invoice_id', 'invoice_id'),
      derived('line_id', 'line_id'),
      numericAt('rate', 'rate'),
    ]),
  ]),
  fields: new Set(['id', 'total', 'lines']),
  enumerations: {},
  sets: ['id'],
});

const invoice = (n: number) => ({
  id: `i${n}`,
  total: 10 * n,
  lines: [1, 2].map(m => ({ id: `l${n}${m}`, amount: 5 * n, taxes: [{ id: `t${n}${m}`, rate: 0.2 }] })),
});

async function shop(stream: ListStream<Row>) {
  const s = await scripted({ lookbackMs: 10_000 });
  const declared = { ...stream, jobs: {} } as unknown as Stream;
  const client = await s.pool.connect();
  await client.query(await readFile(new URL('../../support/invoices.sql', import.meta.url), 'utf8'));
  await addMirrors(client as never, [{ name: 'shop', streams: [declared] }]);
  client.release();
  await s.rows(
    `insert into sync.sources (account_id, source, address) values ('default', 'shop', 'https://shop.example')`,
  );
  await s.rows(
    `insert into sync.coverage (account_id, source, stream, list, covered) values ('default', 'shop', 'invoices', 'default', '{}')`,
  );
  const ctx = {
    ...s.ctx,
    sources: new Map([...s.ctx.sources, ['shop', { ...s.ctx.sources.get('helpdesk')!, name: 'shop' }]]),
  };
  let now = 100;
  const reads = { sync: syncList, sweep: sweepWholeList, verify: verifyList };
  const work = async (kind: keyof typeof reads, run: number) => {
    await runStream(
      ctx,
      { account: 'default', run, stream: stream.key },
      { read: (job, claim) => reads[kind](job, claim, stream) },
    );
    return (await readProgress(s.pool, run)).streams[0]!;
  };
  return Object.assign(s, {
    async run(kind: 'sync' | 'sweep') {
      now += 100;
      s.goTo(now);
      const opened = { account: 'default', kind, streams: [stream.key], opener: 0 };
      return work(kind, await transaction(s.pool, db => openRun(db, opened, new Date(second(now)))));
    },
    async verify(repair: boolean) {
      now += 100;
      s.goTo(now);
      const asked = { asked: { sample: null, repair }, forecast: { credits: 1, seconds: 1 } };
      const opened = { account: 'default', streams: [stream.key], opener: 0, ...asked };
      const { run } = await openVerification(s.pool, opened, new Date(second(now)));
      await work('verify', run);
      const { found } = await readFindings(s.pool, run, 100);
      return found.map(({ record: id, kind, differences, repaired_at }) => [
        id,
        kind,
        Object.keys(differences),
        repaired_at !== null,
      ]);
    },
    /** Live rows by table. */
    live: async () =>
      (
        await s.rows(`select (select string_agg(id, ' ' order by id) from shop.invoices where _deleted_at is null) as invoices,
          (select string_agg(id, ' ' order by id) from shop.lines where _deleted_at is null) as lines,
          (select string_agg(id, ' ' order by id) from shop.taxes where _deleted_at is null) as taxes`)
      )[0],
  });
}

const both = { invoices: 'i1 i2', lines: 'l11 l12 l21 l22', taxes: 't11 t12 t21 t22' };
const one = { invoices: 'i1', lines: 'l11 l12', taxes: 't11 t12' };

test.each([
  ['a sync', 'sync', false],
  ['a sweep', 'sweep', false],
  ['a sweep that asks by id', 'sweep', true],
  ['verify', 'verify', false],
  ['verify that asks by id', 'verify', true],
] as const)(
  '%s that buries a record buries its parts, and their parts; the record brings them back',
  async (_, kind, byId) => {
    await using s = await shop(invoicesOf({ byId }));
    s.lists.invoices = [invoice(1), invoice(2)];
    await s.run('sync');
    expect(await s.live()).toEqual(both);
    s.lists.invoices = [invoice(1)];
    s.details['/invoices/i2'] = 404;
    if (kind === 'verify') expect(await s.verify(true)).toEqual([['i2', 'deleted', ['row'], true]]);
    else expect(await s.run(kind)).toMatchObject({ deleted: 1 });
    expect(await s.live()).toEqual(one);
    // One history: old and new tombstone of each row.
    expect(
      await s.rows(`select table_name, record_id from sync.changes where changes ? '_deleted_at' order by 1, 2`),
    ).toEqual(
      [
        ['invoices', 'i2'],
        ['lines', 'l21'],
        ['lines', 'l22'],
        ['taxes', 't21'],
        ['taxes', 't22'],
      ].map(([table_name, record_id]) => ({ table_name, record_id })),
    );
    expect(await s.verify(false)).toEqual([]);
    s.lists.invoices = [invoice(1), invoice(2)];
    await s.run('sync');
    expect(await s.live()).toEqual(both);
  },
);

test('verify finds live parts of records that are deleted or missing here, and repairs them', async () => {
  await using s = await shop(invoicesOf());
  s.lists.invoices = [invoice(1), invoice(2), invoice(3)];
  await s.run('sync');
  s.lists.invoices = [invoice(1)];
  await s.rows(`update shop.invoices set _deleted_at = _observed_at where id = 'i2'`);
  await s.rows(`delete from shop.invoices where id = 'i3'`);
  const found = (repaired: boolean) => ['i2', 'i3'].map(id => [id, 'only here', ['lines.row', 'taxes.row'], repaired]);
  expect(await s.verify(false)).toEqual(found(false));
  expect(await s.verify(true)).toEqual(found(true));
  expect(await s.live()).toEqual(one);
  expect(await s.rows(`select id from shop.lines where _deleted_at is not null order by 1`)).toEqual([
    { id: 'l21' },
    { id: 'l22' },
  ]);
  expect(await s.verify(false)).toEqual([]);
  s.lists.invoices = [invoice(1), invoice(2)];
  await s.run('sync');
  expect(await s.live()).toEqual(both);
});

test('a record that one reading passes over, and the next one shows, is not deleted', async () => {
  await using s = await shop(invoicesOf());
  s.lists.invoices = [invoice(1), invoice(2)];
  await s.run('sync');
  const shown = [[invoice(1)], [invoice(1), invoice(2)]];
  s.lists.invoices = () => shown.shift()!;
  expect(await s.run('sync')).toMatchObject({ deleted: 0, error: null });
  expect(shown).toEqual([]);
  expect(await s.live()).toEqual(both);
});
