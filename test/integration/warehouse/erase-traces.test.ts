/** What of an erased person is easily left behind: old values, comparisons, spellings, and who comes by ways of their own. */
import { expect, test } from 'vitest';
import { withCare } from '../../../src/engine/commit/commit.ts';
import { settle } from '../../../src/engine/commit/rejects.ts';
import { writeBatch } from '../../../src/engine/commit/rows.ts';
import { makePool, transaction } from '../../../src/engine/database/pool.ts';
import { detailBatch, singleBatch } from '../../../src/engine/load/batch.ts';
import { eraseCustomer } from '../../../src/privacy/erasures.ts';
import { customers } from '../../../src/sources/helpdesk/customers.ts';
import { messages } from '../../../src/sources/helpdesk/messages/messages.ts';
import { tickets } from '../../../src/sources/helpdesk/tickets.ts';
import { streams } from '../../../src/sources/index.ts';
import { freshDatabase } from '../../support/postgres.ts';
import { message as anyMessage, ticket as anyTicket, at, iso, second } from '../../support/scripted.ts';

async function mirror() {
  const db = await freshDatabase();
  const pool = makePool(db.url);
  await pool.query(`insert into sync.accounts (account_id) values ('default')`);
  let n = 0;
  const rows = async (sql: string, ...values: unknown[]) => (await pool.query(sql, values)).rows;
  const put = async (stream: typeof customers | typeof tickets, record: { id: string }) => {
    const moment = { nowMs: second(++n * 60), asOfMs: second(n * 60) };
    const batch = singleBatch(stream as typeof tickets, {
      records: [record as never],
      text: JSON.stringify(record),
      shownBy: moment.nowMs,
    });
    return withCare({ pg: pool, streams }, (client, care) =>
      writeBatch({ client, claim: { account: 'default', run: null }, at: moment, care }, batch),
    );
  };
  return {
    pool,
    rows,
    customer: (id: string, contacts: (string | object)[], more: object = {}) =>
      put(customers, {
        ...{ id, first_name: 'Ada', last_name: 'Secret', summary: null },
        contacts: contacts.map((one, i) =>
          typeof one === 'string'
            ? { id: `${id}-${i}-${one}`, type: one.includes('@') ? 'email' : 'phone', value: one }
            : one,
        ),
        ...more,
      } as never),
    ticket: (id: string, customer_id: string, more: object = {}) =>
      put(tickets, anyTicket(id, { customer_id, subject: `secret of ${id}`, updated_at: iso(++n * 60), ...more })),
    /** All messages of a ticket. */
    messages: async (id: string, ...all: object[]) => {
      const moment = { nowMs: second(++n * 60), asOfMs: second(n * 60) };
      const record = { id, messages: all };
      const { batch } = await detailBatch(messages, record as never, {
        text: JSON.stringify(record),
        asOf: moment.asOfMs,
      });
      return withCare({ pg: pool, streams }, (client, care) =>
        writeBatch({ client, claim: { account: 'default', run: null }, at: moment, care }, batch),
      );
    },
    erase: (customer: string, more: object = {}) =>
      eraseCustomer(pool, { account: 'default', customer, who: 'test', streams, ...more }, at(++n * 60)),
    /** Tables, and rows in them, that hold this text. */
    holding: async (text: string) => {
      const tables = await rows(
        `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where c.relkind = 'r' and n.nspname in ('helpdesk', 'internal', 'sync', 'analytics') and c.relname <> 'view_sets' order by 1`,
      );
      const found: string[] = [];
      for (const { name } of tables)
        for (const { row } of await rows(
          `select t::text as row from ${name} t where t::text ilike '%' || $1 || '%'`,
          text,
        ))
          found.push(`${name} ${row}`);
      return found;
    },
    async [Symbol.asyncDispose]() {
      await pool.end();
      await db[Symbol.asyncDispose]?.();
    },
  };
}
const message = (id: string, more: object = {}) =>
  anyMessage(id, { from: 'ada@x.example', body: `words of ${id}`, ...more });

test('who is asked for before the contacts are here, or has one more later, is known again by them', async () => {
  await using s = await mirror();
  await s.ticket('t1', 'c1');
  await s.ticket('t9', 'c9');
  await s.messages('t9', message('m1'));
  await s.erase('c1');
  await s.customer('c1', ['ada@x.example']);
  // What she wrote elsewhere goes when the address is known.
  expect(await s.holding('words of m1')).toEqual([]);
  await s.customer('c2', ['Ada <ADA@x.example>']);
  await s.ticket('t2', 'c2');
  expect(await s.rows(`select id, first_name from helpdesk.customers order by id`)).toEqual([
    { id: 'c1', first_name: null },
    { id: 'c2', first_name: null },
  ]);
  await s.customer('c1', ['ada@x.example', 'ada@new.example', '12']);
  await s.customer('c3', ['ada@new.example', 'ada@work.example']);
  // Values of who was only found reach nobody.
  await s.customer('c4', ['ada@work.example']);
  expect(
    await s.rows(
      `select id, first_name, (select found_again from sync.erased e where e.customer_id = c.id) as found from helpdesk.customers c order by id`,
    ),
  ).toEqual([
    { id: 'c1', first_name: null, found: false },
    { id: 'c2', first_name: null, found: true },
    { id: 'c3', first_name: null, found: true },
    { id: 'c4', first_name: 'Ada', found: null },
  ]);
  expect(await s.holding('secret of t2')).toEqual([]);
  // The worker did it by itself: it is written down, once each.
  expect(await s.rows(`select who, subject from sync.operations where action = 'erase' order by id`)).toEqual([
    { who: 'test', subject: 'customer c1' },
    { who: 'the worker', subject: 'customer c1' },
    { who: 'the worker', subject: 'customer c2' },
    { who: 'the worker', subject: 'customer c1' },
    { who: 'the worker', subject: 'customer c3' },
  ]);
  expect((await s.customer('c1', ['ada@x.example', 'ada@new.example', '12'])).counts).toMatchObject({ unchanged: 1 });
});

test('old values: of messages that were removed, of phone numbers, of tickets that were given away', async () => {
  await using s = await mirror();
  await s.customer('c1', ['ada@x.example', '+49 30 2345678']);
  await s.ticket('t9', 'c9', { reply_cc: '+49 30 2345678' });
  await s.ticket('t9', 'c9', { reply_cc: 'bo@x.example' });
  const file = { id: 'a1', name: 'lovelace.pdf', type: 'application/pdf; name="lovelace.pdf"', size: 3 };
  await s.messages(
    't9',
    message('m1'),
    message('m2', { from: '0049302345678' }),
    message('m3', { from: '+49302345678', attachments: [file] }),
  );
  await s.messages(
    't9',
    message('m1', { body: 'words, other' }),
    message('m2', { from: '+49302345678', body: 'words, other' }),
    message('m3', { from: '+49302345678', attachments: [{ ...file, name: 'lovelace, other.pdf' }] }),
  );
  await s.messages('t9', message('m4', { from: 'bo@x.example', body: 'unharmed' }));
  await s.messages('t9', message('m4', { from: 'bo@x.example', body: 'unharmed too' }));
  await s.ticket('t1', 'c1', { subject: 'secret given' });
  await s.messages('t1', message('m5', { from: 'a form', body: 'words of a form' }));
  await s.ticket('t1', 'c2', { subject: 'secret given' });
  await s.erase('c1');
  for (const text of ['2345678', 'words', 'lovelace', 'secret given']) expect(await s.holding(text), text).toEqual([]);
  expect((await s.holding('unharmed')).map(row => row.split(' ')[0])).toEqual(['internal.messages', 'sync.changes']);
  expect((await s.erase('c1')).rows).toEqual(
    Object.fromEntries(Object.keys((await s.erase('c1')).rows).map(name => [name, 0])),
  );
});

test('comparisons of what they wrote elsewhere, rejects without a payload, and unknown values', async () => {
  await using s = await mirror();
  await s.customer('c1', ['ada@x.example', '+49 30 2345678']);
  await s.ticket('t9', 'c9');
  await s.messages('t9', message('m1'));
  await s.pool.query(`
    insert into sync.audit (account_id, run_id, source, stream, record_id, checked_at, random, differences, kind) values
      ('default', 1, 'helpdesk', 'messages', 't9', '2026-01-01', false, '{"body":[{"m1":"words of hers"},{"m1":"other words"}]}', 'changed'),
      ('default', 1, 'helpdesk', 'tickets', 't9', '2026-01-01', false, '{"reply_cc":["+49 (30) 2345678",null]}', 'changed'),
      ('default', 1, 'helpdesk', 'messages', 't8', '2026-01-01', false, '{"body":[{"m8":"kept"},{"m8":"kept too"}]}', 'changed');
    insert into sync.rejects (account_id, source, stream, key, record_id, ask_id, reason, payload, replayable, first_seen_at, last_seen_at) values
      ('default', 'helpdesk', 'messages', 'k', 'm7', 't9', 'invalid: "ada@x.example"', null, false, '2026-01-01', '2026-01-01'),
      ('default', 'helpdesk', 'messages', 'l', 'm8', 't9', 'invalid: "+49 30/2345678"', null, false, '2026-01-01', '2026-01-01'),
      ('default', 'helpdesk', 'messages', 'm', 'm9', 't9', 'kept', '{"id":"m9"}', true, '2026-01-01', '2026-01-01');
    insert into sync.drift (account_id, source, stream, kind, path, value, seen, first_seen_at, last_seen_at) values
      ('default', 'helpdesk', 'tickets', 'unknown_value', 'type', 'ada@x.example', 1, '2026-01-01', '2026-01-01'),
      ('default', 'helpdesk', 'tickets', 'unknown_value', 'type', 'fax', 1, '2026-01-01', '2026-01-01')`);
  await s.erase('c1');
  for (const text of ['words', 'ada@x', '2345678']) expect(await s.holding(text), text).toEqual([]);
  expect(await s.rows('select payload from sync.rejects where payload is not null')).toEqual([
    { payload: '{"id":"m9"}' },
  ]);
  expect(await s.rows('select value from sync.drift')).toEqual([{ value: 'fax' }]);
  expect((await s.holding('kept too')).length).toBe(1);
});

test('after the erasure no sample, reject or difference holds an address of theirs, wherever a record of others shows it', async () => {
  await using s = await mirror();
  await s.customer('c1', ['ada@x.example', '+49 30 2345678']);
  await s.ticket('t9', 'c9');
  await s.erase('c1');
  const claim = { account: 'default', stream: 'helpdesk.tickets' } as const;
  const filter = tickets.personal;
  const shown = [
    { id: 'u1', customer_id: 'c9', watchers: [{ mail: 'Ada <ADA@x.example>' }] },
    { id: 'u2', customer_id: 'c9', phone: '+49 (30) 2345678' },
    { id: 'u3', customer_id: 'c9', 'ada@x.example': true },
    { id: 'u4', customer_id: 'c9', watchers: [{ mail: 'bo@x.example' }] },
  ].map(one => JSON.stringify(one));
  await transaction(s.pool, async client => {
    const drift = shown.map((sample, i) => ({ ...difference(`field ${i}`), sample }));
    const named = [difference('ada@x.example'), difference('type', 'ada@x.example'), difference('type', 'fax')];
    const tx = { client, claim, at: { nowMs: second(900), asOfMs: second(900) } };
    await settle(tx, { drift: [...drift, ...named], filter });
    const rejects = shown.map((payload, i) => ({ recordId: `u${i}`, askId: `u${i}`, reason: 'why', payload }));
    await settle(tx, { rejects, filter });
  });
  for (const text of ['ada@x', '2345678']) expect(await s.holding(text), text).toEqual([]);
  expect(await s.rows('select path, value, sample from sync.drift order by path, value')).toEqual([
    ...[0, 1, 2].map(i => ({ path: `field ${i}`, value: '', sample: null })),
    { path: 'field 3', value: '', sample: shown[3] },
    { path: 'type', value: 'fax', sample: null },
  ]);
  expect(await s.rows('select payload from sync.rejects where payload is not null')).toEqual([{ payload: shown[3] }]);
});

const difference = (path: string, value = '') => ({
  ...{ kind: value === '' ? ('unknown_field' as const) : ('unknown_value' as const), path, value, seen: 1 },
});

test('however an address is written: in quotes, in brackets, as a link, as a name, with what nobody sees', async () => {
  await using s = await mirror();
  await s.customer('c1', ['ada@x.example', '+49 30 2345678', '@AdaL']);
  await s.ticket('t9', 'c9');
  const all = [
    { from: "'ada@x.example'" },
    { from: '[ada@x.example]' },
    { from: 'mailto:ada@x.example?subject=tea' },
    { from: 'a\u200bda@x.example' },
    { from: 'a\0da@x.example' },
    { from: 'Ada\u00a0ada@x.example' },
    { from: 'tel:+49-30-2345678' },
    { from: '+49 30 8765432, +49 30 2345678' },
    { from: '+49\u00a030\u00a02345678' },
    { from: 'AdaL' },
    { from: 'list@z.example', from_name: 'ada@x.example' },
  ].map((one, i) => message(`m${i}`, { from_name: 'Ada', ...one }));
  const shown = () =>
    s.rows(
      'select id, from_address, from_name, body from helpdesk.messages where from_address is not null or from_name is not null order by id',
    );
  const left = [{ id: 'm10', from_address: 'list@z.example', from_name: null, body: 'words of m10' }];
  await s.messages('t9', ...all);
  await s.erase('c1');
  expect(await shown()).toEqual(left);
  expect(await s.holding('ada@x')).toEqual([]);
  expect((await s.messages('t9', ...all)).counts).toMatchObject({ inserted: 0, updated: 0 });
  await s.ticket('t8', 'c8');
  await s.messages('t8', ...all.map((one, i) => ({ ...one, id: `n${i}` })));
  expect((await shown()).map(({ id, from_name }) => [id, from_name])).toEqual([
    ['m10', null],
    ['n10', null],
  ]);
});

test('of the files of an erased person the type stays without the name beside it', async () => {
  await using s = await mirror();
  await s.customer('c1', ['ada@x.example']);
  await s.ticket('t1', 'c1');
  const file = { id: 'a1', name: 'x.pdf', type: 'application/pdf; name="lovelace.pdf"', size: 3 };
  await s.messages('t1', message('m1', { attachments: [file] }));
  await s.erase('c1');
  expect(await s.holding('lovelace')).toEqual([]);
  expect(await s.rows(`select type, size::int, _payload ->> 'type' as payload from helpdesk.attachments`)).toEqual([
    { type: 'application/pdf', size: 3, payload: 'application/pdf' },
  ]);
  expect((await s.messages('t1', message('m1', { attachments: [file] }))).counts).toMatchObject({
    updated: 0,
    inserted: 0,
  });
  expect(await s.holding('lovelace')).toEqual([]);
});

test('values that are filled in for nothing name nobody; one that many share is refused', async () => {
  await using s = await mirror();
  const nobodys = ['0000000', '1234567', 'noreply@shop.example', 'n.a.', 'unknown'];
  await s.customer('c1', nobodys);
  await s.customer('c2', nobodys);
  expect(await s.erase('c1')).toMatchObject({ customers: ['c1'], rows: { 'contact values kept out': 0 } });
  for (let i = 0; i < 7; i++) await s.customer(`d${i}`, ['shop@x.example'], { first_name: 'Bo' });
  await expect(s.erase('d0')).rejects.toThrow('6 other customers share a contact value with customer d0');
  expect(await s.rows(`select count(*)::int as n from helpdesk.customers where first_name = 'Bo'`)).toEqual([{ n: 7 }]);
  expect((await s.erase('d0', { withShared: true })).customers).toHaveLength(7);
});

test('a new ticket of an erased customer is stored at once, and looks through nothing; one of which something is here is cleaned up', async () => {
  await using s = await mirror();
  await s.customer('c1', ['ada@x.example']);
  await s.erase('c1');
  const said = async () =>
    (await s.rows('select ticket_id as id from sync.erased_tickets order by 1')).map(({ id }) => id);
  // Nobody may erase meanwhile: so whoever tried to would wait.
  const holder = await s.pool.connect();
  await holder.query(`begin; select pg_advisory_xact_lock_shared(1397245266, hashtext('default'))`);
  await s.ticket('t1', 'c1');
  await holder.query('rollback');
  holder.release();
  expect(await said()).toEqual(['t1']);
  expect(await s.holding('secret of')).toEqual([]);
  // Set aside before it was known whose it is.
  await s.pool.query(`insert into sync.rejects (account_id, source, stream, key, record_id, ask_id, reason, payload, replayable, first_seen_at, last_seen_at)
    values ('default', 'helpdesk', 'messages', 'm7', 'm7', 't7', 'x', '{"id":"m7","from":5,"body":"secret of m7"}', true, '2026-01-01', '2026-01-01'),
      ('default', 'helpdesk', 'tickets', 't6', 't6', 't6', 'x', '{"id":"t6","number":"secret of t6"}', true, '2026-01-01', '2026-01-01')`);
  await s.ticket('t7', 'c1');
  await s.ticket('t6', 'c1');
  await s.ticket('t5', 'c5');
  await s.ticket('t5', 'c1', { subject: 'secret of t5, too' });
  expect(await said()).toEqual(['t1', 't5', 't6', 't7']);
  expect(await s.holding('secret of')).toEqual([]);
});

test('without the key nothing is stored where somebody was erased, instead of everything', async () => {
  await using s = await mirror();
  await s.customer('c1', ['ada@x.example']);
  await s.erase('c1');
  await s.pool.query('delete from sync.secret_erasure');
  await expect(s.customer('c2', ['ada@x.example'])).rejects.toThrow(/key in sync.secret_erasure is gone/);
});
