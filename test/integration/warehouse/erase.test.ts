/** Erasing, in places where it is easily forgotten: what is set aside, what shows drift, what is being stored just now. */
import { expect, test } from 'vitest';
import { withCare } from '../../../src/engine/commit/commit.ts';
import { writeBatch } from '../../../src/engine/commit/rows.ts';
import { transaction } from '../../../src/engine/database/pool.ts';
import { singleBatch } from '../../../src/engine/load/batch.ts';
import { eraseNamed } from '../../../src/privacy/erase.ts';
import { eraseCustomer } from '../../../src/privacy/erasures.ts';
import { tickets } from '../../../src/sources/helpdesk/tickets.ts';
import { users } from '../../../src/sources/helpdesk/users.ts';
import { streams } from '../../../src/sources/index.ts';
import { at, iso, message, type Scripted, scripted, second, ticket } from '../../support/scripted.ts';

const customer = (id: string, more: object = {}) => ({
  ...{ id, first_name: 'Ada', last_name: 'Secret', summary: null },
  contacts: [{ id: `k${id}`, type: 'email', value: 'ada@secret.example' }],
  ...more,
});
const erase = (s: Scripted, id = 'c1', n = 50) =>
  eraseCustomer(s.pool, { account: 'default', customer: id, who: 'test', streams }, at(n));
const show = (s: Scripted, id: string, messages: unknown[], more: object = {}) => {
  const record = ticket(id, { inbox_id: null, ...more });
  s.details[`/tickets/${id}`] = { ...record, messages, ...more };
  return record;
};
const secrets = (s: Scripted) =>
  s.rows(`select 'rejects' as place, r::text as row from sync.rejects r where r::text ~* 'secret' union all
    select 'drift', d::text from sync.drift d where d::text ~* 'secret' union all
    select 'changes', c::text from sync.changes c where c::text ~* 'secret' union all
    select 'audit', a::text from sync.audit a where a::text ~* 'secret' union all
    select 'tickets', t::text from helpdesk.tickets t where t::text ~* 'secret' union all
    select 'messages', m::text from helpdesk.messages m where m::text ~* 'secret' union all
    select 'attachments', m::text from helpdesk.attachments m where m::text ~* 'secret' union all
    select 'customers', c::text from helpdesk.customers c where c::text ~* 'secret' union all
    select 'contacts', c::text from helpdesk.contacts c where c::text ~* 'secret'`);

test('what is unreadable or odd of them keeps no payload and no sample, and breaks nothing', async () => {
  await using s = await scripted();
  s.lists.customers = [customer('c1'), customer('c2', { first_name: 'Bo', last_name: null, contacts: [] })];
  s.lists.tickets = [show(s, 't1', [message('m1')], { subject: 'secret' }), show(s, 't2', [], { customer_id: 'c2' })];
  for (const name of ['customers', 'tickets', 'messages']) await s.sync(name);
  await erase(s);
  s.goTo(100);
  s.lists.customers = [
    customer('c1', { first_name: 5, note: 'secret' }),
    // Under another id, unreadable.
    customer('c8', { first_name: 5 }),
    customer('c2', { first_name: 'Bo', last_name: null, contacts: [], shoe: 'left' }),
  ];
  for (const id of ['c1', 'c8']) s.details[`/customers/${id}`] = 500;
  s.lists.tickets = [
    show(s, 't1', [message('m1', { mood: 'secret', body: 'secret' }), message('m2', { body: 5, from: 'secret' })], {
      ...{ subject: 'secret', mood: 'secret', state: 'odd', updated_at: iso(90) },
    }),
    show(s, 't3', [], { subject: 'secret', number: 'secret' }),
    // Of somebody else, with what cannot be stored beside an address of hers.
    show(s, 't2', [message('m3', { from: 'Ada\0 <ADA@secret.example>', from_name: 'Secret', body: 'secret\0' })], {
      ...{ customer_id: 'c2', reply_to: 'ada@secret.example\0', updated_at: iso(90) },
    }),
  ];
  s.details['/tickets/t3'] = { ...ticket('t3'), subject: 'secret', number: 'secret', messages: [] };
  for (const name of ['customers', 'tickets', 'messages']) await s.sync(name);
  expect(await secrets(s)).toEqual([]);
  expect(
    await s.rows('select stream, record_id, payload, reason from sync.rejects where cleared_at is null order by id'),
  ).toMatchObject([
    { stream: 'customers', record_id: 'c1', payload: null },
    { stream: 'customers', record_id: 'c8', payload: null },
    { stream: 'tickets', record_id: 't3', payload: null },
    { stream: 'messages', record_id: 'm2', payload: null },
  ]);
  // Others' samples are kept.
  expect(
    await s.rows(
      `select stream, path, sample is not null as sample from sync.drift where kind = 'unknown_field' order by 1, 2`,
    ),
  ).toEqual([
    { stream: 'customers', path: 'shoe', sample: true },
    { stream: 'messages', path: 'mood', sample: false },
    { stream: 'tickets', path: 'mood', sample: false },
  ]);
  expect(await s.rows('select id, state, subject from helpdesk.tickets order by id')).toEqual([
    { id: 't1', state: 'odd', subject: null },
    { id: 't2', state: 'open', subject: 'Tea' },
  ]);
});

test('with a message that came from another ticket, or was removed since, its old values of there go', async () => {
  await using s = await scripted();
  s.lists.customers = [customer('c1'), customer('c2', { first_name: 'Bo', last_name: null, contacts: [] })];
  const file = (name: string) => ({ attachments: [{ id: 'f1', name, size: 3, type: 'pdf' }] });
  const moved = (body: string) => [message('m1', { body, ...file(`${body}.pdf`) }), message('m2', { body })];
  const look = async (n: number, theirs: unknown[], others: unknown[]) => {
    s.goTo(n + 5);
    const updated_at = iso(n);
    s.lists.tickets = [show(s, 't1', theirs, { updated_at }), show(s, 't2', others, { customer_id: 'c2', updated_at })];
    for (const name of ['customers', 'tickets', 'messages']) await s.sync(name);
  };
  // Of these, the second one was in their ticket only before.
  const stays = (body: string) => [message('m3', { body }), message('m4', { body })];
  await look(10, stays('-').slice(1), [...moved('secret a'), ...stays('other a').slice(0, 1)]);
  await look(20, [], [...moved('secret b'), ...stays('other a')]);
  await look(30, moved('secret b'), stays('other b'));
  await look(40, moved('secret b').slice(0, 1), stays('other b'));
  await erase(s, 'c1', 50);
  expect(await secrets(s)).toEqual([]);
  expect(await s.rows(`select record_id from sync.changes where changes::text like '%other a%' order by 1`)).toEqual([
    { record_id: 'm3' },
    { record_id: 'm4' },
  ]);
});

test('an erasure waits for what is being stored, and whoever stores waits for it: nothing slips through', async () => {
  await using s = await scripted();
  s.lists.customers = [customer('c1')];
  await s.sync('customers');
  const claim = await s.claim('tickets');
  const record = ticket('t1', { subject: 'secret' });
  const batch = singleBatch(tickets, { records: [record], text: JSON.stringify(record), shownBy: second(10) });
  const store = (client: Parameters<typeof writeBatch>[0]['client']) =>
    writeBatch({ client, claim, at: { nowMs: second(10), asOfMs: second(10) }, care: 'as it came' }, batch);
  const waiting = () =>
    s.rows(
      `select from pg_locks l where l.locktype = 'advisory' and not l.granted and l.database = (select oid from pg_database where datname = current_database())`,
    );
  const until = async (many: number) => {
    while ((await waiting()).length !== many);
  };

  let erased: Promise<unknown> | undefined;
  await transaction(s.pool, async client => {
    await store(client);
    erased = erase(s);
    await until(1);
  });
  await erased;
  expect(await s.rows('select id, subject from helpdesk.tickets')).toEqual([{ id: 't1', subject: null }]);

  // The other way round: while c2 is erased, a page of its ticket is about to be stored.
  s.lists.customers = [customer('c2', { contacts: [] })];
  await s.sync('customers');
  const late = ticket('t2', { customer_id: 'c2', subject: 'secret' });
  const page = singleBatch(tickets, { records: [late], text: JSON.stringify(late), shownBy: second(10) });
  await s.pool.query(`create function public.linger() returns trigger language plpgsql as $$ begin
      perform pg_advisory_xact_lock(1); return null; end $$;
    create trigger linger before insert on sync.operations for each statement execute function public.linger()`);
  const holder = await s.pool.connect();
  await holder.query('select pg_advisory_lock(1)');
  const erasing = erase(s, 'c2');
  await until(1);
  const stored = withCare({ pg: s.pool, streams }, (client, care) =>
    writeBatch({ client, claim, at: { nowMs: second(60), asOfMs: second(60) }, care }, page),
  );
  await until(2);
  await holder.query('select pg_advisory_unlock(1)');
  holder.release();
  await Promise.all([erasing, stored]);
  expect(await s.rows(`select id, subject from helpdesk.tickets where id = 't2'`)).toEqual([
    { id: 't2', subject: null },
  ]);
});

test('each account for itself; where nobody was erased, the merge itself asks, and not for those without people', async () => {
  await using s = await scripted();
  s.lists.customers = [customer('c1')];
  s.lists.tickets = [show(s, 't1', [message('m1', { from: 'ada@secret.example' })], { subject: 'secret' })];
  for (const name of ['customers', 'tickets', 'messages']) await s.sync(name);
  await s.pool.query(`
    insert into helpdesk.customers select (jsonb_populate_record(c, '{"account_id":"other"}')).* from helpdesk.customers c;
    insert into helpdesk.tickets select (jsonb_populate_record(c, '{"account_id":"other"}')).* from helpdesk.tickets c;
    insert into internal.messages select (jsonb_populate_record(c, '{"account_id":"other"}')).* from internal.messages c;
    insert into helpdesk.contacts (account_id, id, customer_id, type, value, _first_seen_at, _synced_at, _observed_at, _payload)
      select 'other', id, customer_id, type, value, _first_seen_at, _synced_at, _observed_at, _payload from helpdesk.contacts`);
  const others = () =>
    s.rows(`select c.first_name, k.value, t.subject, m.from_address from helpdesk.customers c, helpdesk.contacts k, helpdesk.tickets t, internal.messages m
      where 'other' = all (array[c.account_id, k.account_id, t.account_id, m.account_id])`);
  const before = await others();
  expect(before).toHaveLength(1);
  await erase(s);
  expect(await others()).toEqual(before);

  const asked: string[] = [];
  const client = {
    query: async (what: { text: string; values: unknown[] } | string, values?: unknown[]) => {
      const text = typeof what === 'string' ? what : what.text;
      // A merge whose text was searched already does not ask.
      const asks = typeof what === 'string' || !what.text.includes('$7') || what.values[6] === 'unfiltered';
      if (asks && /erased/.test(text)) asked.push(text.replace(/\s+/g, ' ').slice(0, 40));
      return s.pool.query(what as string, values as unknown[]);
    },
  } as unknown as Parameters<typeof writeBatch>[0]['client'];
  const write = async (stream: typeof tickets, account: string, record: { id: string }) => {
    asked.length = 0;
    const batch = singleBatch(stream, {
      records: [record as never],
      text: JSON.stringify(record),
      shownBy: second(10),
    });
    const at = { nowMs: second(10), asOfMs: second(10) };
    await writeBatch({ client, claim: { account, run: null }, at, care: 'as it came' }, batch);
    return [...asked];
  };
  const merge = expect.stringMatching(/^with asked as materialized/);
  expect(await write(tickets, 'other', ticket('t5'))).toEqual([merge]);
  const looked = expect.stringMatching(/^select array\(select/);
  expect(await write(tickets, 'default', ticket('t6', { customer_id: 'c3' }))).toEqual([
    ...[merge, 'select sync.any_erased($1) as any', looked],
  ]);
  expect(await write(users as never, 'default', { id: 'u1' })).toEqual([]);
});

test('the worker may ask and erase without being the owner; readers see neither hashes nor their key', async () => {
  await using s = await scripted();
  s.lists.customers = [customer('c1')];
  await s.sync('customers');
  const client = await s.pool.connect();
  const as = async (role: string, sql: string) => {
    await client.query(`begin; set local role ${role}`);
    return client
      .query(sql)
      .then(
        ({ rows }) => rows.length,
        (error: Error) => error.message,
      )
      .finally(() => client.query('rollback'));
  };
  expect(await as('shelfdesk_writer', `select sync.any_erased('default'), sync.contact_hash('default', 'x')`)).toBe(1);
  await client.query('begin; set local role shelfdesk_writer');
  const { customers } = await eraseNamed(client, 'default', { customer: 'c1' }, at(10), streams);
  await client.query('commit');
  expect(customers).toEqual(['c1']);
  expect(await secrets(s)).toEqual([]);
  for (const role of ['shelfdesk_reader', 'shelfdesk_reader_pii'])
    for (const sql of [
      'select from sync.secret_erased',
      'select from sync.secret_erasure',
      `select sync.contact_hash('default', 'x')`,
    ])
      expect(await as(role, sql), `${role}: ${sql}`).toMatch(/permission denied/);
  client.release();
});

test('contact values are compared by what they mean; what names nobody is not taken for anybody', async () => {
  await using s = await scripted();
  const forms = async (value: string) =>
    (await s.rows('select sync.contact_forms($1) as forms', value))[0]!.forms as string[];
  expect(await forms(' Ada.L@Example.ORG ')).toEqual(['ada.l@example.org']);
  expect((await forms('"L, Ada" <ada@x.org>, Bo <bo@y.org>; mailto:cy@z.org.')).toSorted()).toEqual([
    'ada@x.org',
    'bo@y.org',
    'cy@z.org',
  ]);
  expect(await forms('+49 (30) 555-12.34')).toEqual(['49305551234']);
  expect(await forms('@AdaL ')).toEqual(['adal']);
  for (const nobody of ['', ' ', '@', 'null', '12345', 'N/A', '--', 'x'])
    expect(await forms(nobody), nobody).toEqual([]);
});
