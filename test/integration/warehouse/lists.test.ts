/** What a page of a list makes of the tables: tickets with labels and inboxes, customers with contacts, users. */
import { expect, test } from 'vitest';
import { markTicketDeleted } from '../../../src/sources/helpdesk/messages/waiting.ts';
import { tickets } from '../../../src/sources/helpdesk/tickets.ts';
import { at, counted, counts, iso, type Scripted, scripted, second, ticket } from '../../support/scripted.ts';

const ticketRow = (id: string, more: Record<string, unknown> = {}) => ({
  account_id: 'default',
  id,
  number: 7,
  customer_id: 'c1',
  user_id: null,
  inbox_id: 'i1',
  label_ids: [],
  state: 'open',
  type: 'email',
  subject: 'Tea',
  summary: null,
  spam: false,
  trash: false,
  snoozed_until: null,
  reply_to: null,
  reply_cc: null,
  created_at: at(0),
  updated_at: at(0),
  _messages_as_of: null,
  _messages_by: null,
  _listed_by: 1,
  _first_seen_at: at(10),
  _synced_at: at(10),
  _observed_at: at(9),
  _true_by: at(11),
  _deleted_at: null,
  _deleted_after: null,
  _payload: ticket(id),
  ...more,
});

const ticketRows = (s: Scripted) => s.rows('select * from helpdesk.tickets order by id');
const labelled = async (s: Scripted) =>
  (await s.rows('select ticket_id, label_id from helpdesk.ticket_labels order by 1, 2')).map(
    ({ ticket_id, label_id }) => `${ticket_id} ${label_id}`,
  );
/** Where each row of the mirror lies, and which transaction wrote it: the same before and after means nothing was written. */
const places = (s: Scripted) =>
  s.rows(`select 'tickets' as name, id, xmin::text, ctid::text from helpdesk.tickets
    union all select 'labels', id, xmin::text, ctid::text from helpdesk.labels
    union all select 'inboxes', id, xmin::text, ctid::text from helpdesk.inboxes
    union all select 'customers', id, xmin::text, ctid::text from helpdesk.customers
    union all select 'contacts', id, xmin::text, ctid::text from helpdesk.contacts
    union all select 'users', id, xmin::text, ctid::text from helpdesk.users
    union all select 'messages', id, xmin::text, ctid::text from internal.messages
    union all select 'attachments', id, xmin::text, ctid::text from helpdesk.attachments
    order by 1, 2`);

test('a first page: every column, unset kept apart from empty and absent, unknown fields in the payload', async () => {
  await using s = await scripted();
  const { subject: _, reply_to: __, label_ids: ___, ...short } = ticket('t3', { summary: '' });
  const full = ticket('t1', {
    number: 9007199254740991,
    user_id: 'u1',
    label_ids: ['l2', 'l1', 'l2'],
    snoozed_until: iso(99),
    subject: '',
    reply_to: 'a',
    reply_cc: 'b',
    summary: 's',
    new_field: { deep: [1, null, ''] },
  });
  s.lists.tickets = [full, ticket('t2', { subject: null, spam: null, label_ids: null }), short];
  s.goTo(10);
  expect(counts(await s.sync('tickets'))).toEqual(counted({ seen: 3, inserted: 3 }));

  expect(await ticketRows(s)).toEqual([
    ticketRow('t1', {
      number: 9007199254740991,
      user_id: 'u1',
      label_ids: ['l2', 'l1', 'l2'],
      snoozed_until: at(99),
      subject: '',
      reply_to: 'a',
      reply_cc: 'b',
      summary: 's',
      _payload: full,
    }),
    ticketRow('t2', {
      subject: null,
      spam: null,
      label_ids: null,
      _payload: ticket('t2', { subject: null, spam: null, label_ids: null }),
    }),
    ticketRow('t3', { subject: null, reply_to: null, label_ids: null, summary: '', _payload: short }),
  ]);
  expect(await labelled(s)).toEqual(['t1 l1', 't1 l2']);
  const unnamed = { account_id: 'default', name: null, _observed_at: null, _deleted_at: null, _payload: null };
  const seen = { _first_seen_at: at(10), _synced_at: at(10) };
  expect(await s.rows('select * from helpdesk.labels order by id')).toEqual([
    { ...unnamed, ...seen, id: 'l1' },
    { ...unnamed, ...seen, id: 'l2' },
  ]);
  expect(await s.rows('select * from helpdesk.inboxes')).toEqual([{ ...unnamed, ...seen, id: 'i1' }]);
  expect(await s.rows('select kind, path, value, seen from sync.drift')).toEqual([
    { kind: 'unknown_field', path: 'new_field', value: '', seen: 1 },
    { kind: 'repeated_id', path: 'label_ids', value: '', seen: 1 },
  ]);
});

test('integers and times in every spelling that JSON and ISO 8601 have', async () => {
  await using s = await scripted();
  const spelt = (id: string, number: string, time: string) =>
    JSON.stringify(ticket(id, { snoozed_until: time })).replace('"number":7', `"number":${number}`);
  s.lists.tickets = `[${[
    spelt('t1', '1024.0', '2026-01-01T00:01:00+00:00'),
    spelt('t2', '1e3', '2026-01-01T05:31:00+0530'),
    spelt('t3', '-0', '2026-01-01 00:01:00'),
    spelt('t4', '12E2', '2026-01-01T00:01:00.25Z'),
  ].join(',')}]`;
  s.goTo(10);
  expect(counts(await s.sync('tickets'))).toEqual(counted({ seen: 4, inserted: 4 }));
  expect(await s.rows('select id, number, snoozed_until from helpdesk.tickets order by id')).toEqual([
    { id: 't1', number: 1024, snoozed_until: at(60) },
    { id: 't2', number: 1000, snoozed_until: at(60) },
    { id: 't3', number: 0, snoozed_until: at(60) },
    { id: 't4', number: 1200, snoozed_until: new Date(second(60) + 250) },
  ]);
});

test('an unchanged page writes no row, no dead row and no WAL', async () => {
  await using s = await scripted();
  s.lists.tickets = [ticket('t1', { label_ids: ['l1'] }), ticket('t2')];
  s.lists.customers = [{ id: 'c1', first_name: 'Ada', last_name: '', summary: null, contacts: [contact('k1')] }];
  s.lists.users = [{ id: 'u1', first_name: 'Bo', last_name: null, email: 'bo@example.org' }];
  s.goTo(10);
  for (const stream of ['tickets', 'customers', 'users']) await s.sync(stream);
  const before = await places(s);
  expect(before.length).toBe(7);

  s.goTo(500);
  expect(counts(await s.sync('tickets'))).toEqual(counted({ seen: 2, unchanged: 2 }));
  expect(counts(await s.sync('customers'))).toEqual(counted({ seen: 1, unchanged: 1 }));
  expect(counts(await s.sync('users'))).toEqual(counted({ seen: 1, unchanged: 1 }));
  expect(await places(s)).toEqual(before);
  const { rows } = await s.pool.query({
    text: `explain (analyze, wal, format json) ${tickets.merge.upsert}`,
    values: [JSON.stringify(s.lists.tickets), 'default', at(600), at(599), 9, at(600), 'filtered'],
  });
  expect(rows[0]['QUERY PLAN'][0].Plan).toMatchObject({ 'WAL Records': 0, 'WAL Bytes': 0 });
});

test('embedded records are no part of a ticket: with and without them it is the same', async () => {
  await using s = await scripted();
  s.lists.tickets = [ticket('t1')];
  s.goTo(10);
  await s.sync('tickets');
  const before = await places(s);
  const embedded = { messages: [{ id: 'm' }], labels: [], inbox: { id: 'i1' }, customer: {}, user: null, group: 1 };
  s.lists.tickets = [ticket('t1', embedded)];
  s.goTo(20);
  expect(counts(await s.sync('tickets'))).toEqual(counted({ seen: 1, unchanged: 1 }));
  expect(await places(s)).toEqual(before);
});

test('a changed ticket changes its row, its labels as a set, and nothing of its siblings', async () => {
  await using s = await scripted();
  s.lists.tickets = [ticket('t1', { label_ids: ['l1', 'l2'] }), ticket('t2', { label_ids: ['l1'] })];
  s.goTo(10);
  await s.sync('tickets');

  const changed = ticket('t1', { label_ids: ['l2', 'l3'], state: 'closed', inbox_id: 'i2', updated_at: iso(15) });
  s.lists.tickets = [ticket('t2', { label_ids: ['l1'] }), changed];
  s.goTo(20);
  expect(counts(await s.sync('tickets'))).toEqual(counted({ seen: 2, updated: 1, unchanged: 1 }));

  expect(await ticketRows(s)).toEqual([
    ticketRow('t1', {
      label_ids: ['l2', 'l3'],
      state: 'closed',
      inbox_id: 'i2',
      updated_at: at(15),
      _synced_at: at(20),
      _observed_at: at(19),
      _true_by: at(21),
      _payload: changed,
    }),
    ticketRow('t2', { label_ids: ['l1'], _payload: ticket('t2', { label_ids: ['l1'] }) }),
  ]);
  expect(await labelled(s)).toEqual(['t1 l2', 't1 l3', 't2 l1']);
  expect(await s.rows('select id from helpdesk.inboxes order by id')).toEqual([{ id: 'i1' }, { id: 'i2' }]);
  expect((await s.rows('select id from helpdesk.labels order by id')).map(({ id }) => id)).toEqual(['l1', 'l2', 'l3']);

  s.lists.tickets = [ticket('t2', { label_ids: [] }), changed];
  s.goTo(30);
  await s.sync('tickets');
  expect(await labelled(s)).toEqual(['t1 l2', 't1 l3']);
});

/** What is known: updated in second 50, observed in second 99. */
const arrivals = [
  { says: 'an older update, seen later', updated: 49, asOf: 150, wins: false },
  { says: 'an older update, seen earlier', updated: 49, asOf: 60, wins: false },
  { says: 'the same second, seen earlier', updated: 50, asOf: 98, wins: false },
  { says: 'the same second, seen at the same time', updated: 50, asOf: 99, wins: false },
  { says: 'the same second, seen later', updated: 50, asOf: 100, wins: true },
  { says: 'a newer update, seen earlier', updated: 51, asOf: 98, wins: true },
];
test('older never beats newer', async () => {
  await using s = await scripted();
  const subjects = (subject: string) =>
    arrivals.map(({ says, updated }) =>
      ticket(says, { subject, label_ids: [subject], updated_at: iso(subject === 'known' ? 50 : updated) }),
    );
  s.lists.tickets = subjects('known');
  s.goTo(100);
  await s.sync('tickets');
  const before = (await places(s)).filter(({ name }) => name === 'tickets');
  for (const [n, { says, updated, asOf, wins }] of arrivals.entries()) {
    s.lists.tickets = [subjects('arrives')[n]!];
    s.goTo(asOf + 1);
    const wanted = counted(wins ? { seen: 1, updated: 1 } : { seen: 1, unchanged: 1 });
    expect({ says, ...counts(await s.sync('tickets')) }).toEqual({ says, ...wanted });
    const [row] = await s.rows(
      'select subject, updated_at, _observed_at, _synced_at from helpdesk.tickets where id = $1',
      says,
    );
    if (wins)
      expect(row).toEqual({
        ...{ subject: 'arrives', updated_at: at(updated) },
        ...{ _observed_at: at(asOf), _synced_at: at(asOf + 1) },
      });
    else {
      const isIt = ({ name, id }: Record<string, unknown>) => name === 'tickets' && id === says;
      expect((await places(s)).filter(isIt)).toEqual(before.filter(isIt));
    }
    expect((await labelled(s)).filter(one => one.startsWith(`${says} `))).toEqual([
      `${says} ${wins ? 'arrives' : 'known'}`,
    ]);
  }
});

test('one id twice in a page: the later wins, labels and all', async () => {
  await using s = await scripted();
  s.lists.tickets = [
    ticket('t1', { subject: 'first', label_ids: ['l1'] }),
    ticket('t1', { subject: 'second', label_ids: ['l2'], updated_at: iso(1) }),
  ];
  s.goTo(10);
  expect(counts(await s.sync('tickets'))).toEqual(counted({ seen: 2, inserted: 1 }));
  expect(await s.rows('select subject from helpdesk.tickets')).toEqual([{ subject: 'second' }]);
  expect(await labelled(s)).toEqual(['t1 l2']);
  const before = await places(s);
  s.goTo(20);
  await s.sync('tickets');
  expect(await places(s)).toEqual(before);
});

test('a ticket that comes back loses its tombstone, and its messages wait; a page from before the tombstone revives nothing', async () => {
  await using s = await scripted();
  s.lists.tickets = [ticket('t1', { label_ids: ['l1'] })];
  s.goTo(10);
  await s.sync('tickets');
  await s.rows(`update helpdesk.tickets set _messages_as_of = $1`, at(9));
  expect(await markTicketDeleted(await client(s), { account: 'default', run: null }, 't1', second(100), at(101))).toBe(
    1,
  );
  const deleted = ticketRow('t1', {
    label_ids: ['l1'],
    _payload: ticket('t1', { label_ids: ['l1'] }),
    _deleted_at: at(100),
    _deleted_after: at(9),
    _synced_at: at(101),
  });
  expect(await ticketRows(s)).toEqual([deleted]);

  // Observed after the content was, but before it was gone.
  s.goTo(60);
  expect(counts(await s.sync('tickets'))).toEqual(counted({ seen: 1, unchanged: 1 }));
  expect(await ticketRows(s)).toEqual([deleted]);

  s.goTo(200);
  expect(counts(await s.sync('tickets'))).toEqual(counted({ seen: 1, updated: 1 }));
  expect(await ticketRows(s)).toEqual([
    {
      ...deleted,
      _deleted_at: null,
      _deleted_after: null,
      _synced_at: at(200),
      _observed_at: at(199),
      _true_by: at(201),
    },
  ]);
  expect(await labelled(s)).toEqual(['t1 l1']);
});

const client = async (s: Scripted) => {
  const one = await s.pool.connect();
  one.release();
  return one;
};

// ---- customers --------------------------------------------------------------------------------------------------

const contact = (id: string, value = `${id}@example.org`, type: string | null = 'email') => ({ id, type, value });
const customer = (id: string, contacts: unknown, more: Record<string, unknown> = {}) => ({
  id,
  first_name: 'Ada',
  last_name: null,
  summary: '',
  contacts,
  ...more,
});
const customerRow = (id: string, contacts: unknown, more: Record<string, unknown> = {}) => ({
  account_id: 'default',
  id,
  first_name: 'Ada',
  last_name: null,
  summary: '',
  _created_after: new Date(0),
  _created_before: at(11),
  _checked_at: at(9),
  _first_seen_at: at(10),
  _synced_at: at(10),
  _observed_at: at(9),
  _deleted_at: null,
  _deleted_after: null,
  _payload: customer(id, contacts),
  ...more,
});
const owners = async (s: Scripted) =>
  (await s.rows('select id, customer_id from helpdesk.contacts order by id')).map(
    ({ id, customer_id }) => `${id} of ${customer_id}`,
  );

test('a first page of customers: rows, bracket of creation, contacts', async () => {
  await using s = await scripted();
  s.lists.customers = [customer('c1', [contact('k1'), contact('k2')]), customer('c2', []), customer('c3', null)];
  s.goTo(10);
  expect(counts(await s.sync('customers'))).toEqual(counted({ seen: 3, inserted: 3 }));
  expect(await s.rows('select * from helpdesk.customers order by id')).toEqual([
    customerRow('c1', [contact('k1'), contact('k2')]),
    customerRow('c2', []),
    customerRow('c3', null),
  ]);
  const contactRow = (id: string) => ({
    account_id: 'default',
    id,
    customer_id: 'c1',
    type: 'email',
    value: `${id}@example.org`,
    value_normalized: `${id}@example.org`,
    _first_seen_at: at(10),
    _synced_at: at(10),
    _observed_at: at(9),
    _deleted_at: null,
    _payload: contact(id),
  });
  expect(await s.rows('select * from helpdesk.contacts order by id')).toEqual([contactRow('k1'), contactRow('k2')]);
});

test('values are made comparable by their type, and kept as they came', async () => {
  await using s = await scripted();
  const cases: [string | null, string | null, string | null][] = [
    ['email', ' Ada.Lovelace@Example.ORG ', 'ada.lovelace@example.org'],
    ['twitter', ' @AdaL', 'adal'],
    ['phone', ' +49 (0) 30-123 45 ', '+4903012345'],
    ['phone', '030/12345', '03012345'],
    ['phone', '', ''],
    ['whatsapp', ' +49 30 ', '+49 30'],
    [null, ' As It Is ', 'As It Is'],
    ['email', null, null],
    ['phone', null, null],
  ];
  const contacts = cases.map(([type, value], i) => ({ id: `k${i}`, type, value }));
  s.lists.customers = [customer('c1', contacts)];
  s.goTo(10);
  await s.sync('customers');
  const rows = await s.rows('select type, value, value_normalized from helpdesk.contacts order by id');
  expect(rows.map(Object.values)).toEqual(cases);
  expect(await s.rows('select kind, path, value from sync.drift')).toEqual([
    { kind: 'unknown_value', path: 'contacts.type', value: 'whatsapp' },
  ]);
});

test('contacts are replaced as a set, also when the customer itself is the same', async () => {
  await using s = await scripted();
  s.lists.customers = [customer('c1', [contact('k1'), contact('k2')]), customer('c2', [contact('k3')])];
  s.goTo(10);
  await s.sync('customers');
  s.lists.customers = [
    customer('c1', [contact('k2', 'new@example.org'), contact('k4')]),
    customer('c2', [contact('k3')]),
  ];
  s.goTo(20);
  expect(counts(await s.sync('customers'))).toEqual(counted({ seen: 2, updated: 1, unchanged: 1, deleted: 1 }));
  expect(await owners(s)).toEqual(['k2 of c1', 'k3 of c2', 'k4 of c1']);
  expect(await s.rows(`select value, _synced_at, _observed_at from helpdesk.contacts where id = 'k2'`)).toEqual([
    { value: 'new@example.org', _synced_at: at(20), _observed_at: at(19) },
  ]);
  expect(await s.rows('select * from helpdesk.customers where id = $1', 'c1')).toEqual([
    customerRow('c1', [contact('k2', 'new@example.org'), contact('k4')], { _synced_at: at(20), _observed_at: at(19) }),
  ]);
  s.lists.customers = [customer('c1', []), customer('c2', [contact('k3')])];
  s.goTo(30);
  expect(counts(await s.sync('customers'))).toEqual(counted({ seen: 2, updated: 1, unchanged: 1, deleted: 2 }));
  expect(await owners(s)).toEqual(['k3 of c2']);
});

test('a contact that moves to another customer stands there once, whichever of the two comes first', async () => {
  await using s = await scripted();
  const pages = (n: number, giver: unknown, taker: unknown) =>
    [[[giver, taker]], [[taker, giver]], [[giver], [taker]], [[taker], [giver]]][n]!;
  for (const n of [0, 1, 2, 3]) {
    const [giver, taker, moves] = [`c${n}`, `d${n}`, contact(`k${n}`)];
    s.lists.customers = [customer(giver, [moves]), customer(taker, [])];
    s.goTo(10 + 100 * n);
    await s.sync('customers');
    expect(await owners(s)).toContain(`k${n} of ${giver}`);
    for (const [i, page] of pages(n, customer(giver, []), customer(taker, [moves])).entries()) {
      s.lists.customers = page;
      s.goTo(20 + 100 * n + i);
      await s.sync('customers');
    }
    expect((await owners(s)).filter(one => one.startsWith(`k${n} `))).toEqual([`k${n} of ${taker}`]);
  }
});

test('a contact that a page shows twice belongs to the later customer', async () => {
  await using s = await scripted();
  s.lists.customers = [customer('c1', [contact('k0'), contact('k1')]), customer('c2', [contact('k1')])];
  s.goTo(10);
  await s.sync('customers');
  expect(await owners(s)).toEqual(['k0 of c1', 'k1 of c2']);
  const before = await places(s);
  s.goTo(20);
  await s.sync('customers');
  expect(await places(s)).toEqual(before);
});

test('an older reading of a customer takes nothing back, neither its name nor its contacts', async () => {
  await using s = await scripted();
  s.lists.customers = [customer('c1', [contact('k1')], { first_name: 'new' })];
  s.goTo(100);
  await s.sync('customers');
  const before = await places(s);
  s.lists.customers = [customer('c1', [contact('k2')], { first_name: 'old' })];
  for (const n of [50, 100]) {
    s.goTo(n);
    expect(counts(await s.sync('customers'))).toEqual(counted({ seen: 1, unchanged: 1 }));
    expect(await places(s)).toEqual(before);
  }
});

// ---- users ------------------------------------------------------------------------------------------------------

test('users: first, changed, older', async () => {
  await using s = await scripted();
  const user = (first_name: string) => ({ id: 'u1', first_name, last_name: '', email: null });
  /** The first page is stored while the next one is asked for. */
  const row = (first_name: string, n: number, synced = n) => ({
    account_id: 'default',
    ...user(first_name),
    _first_seen_at: at(10.1),
    _synced_at: at(synced),
    _observed_at: at(n - 1),
    _deleted_at: null,
    _payload: user(first_name),
  });
  s.lists.users = [user('Bo')];
  s.goTo(10);
  await s.sync('users');
  expect(await s.rows('select * from helpdesk.users')).toEqual([row('Bo', 10, 10.1)]);
  s.lists.users = [user('Bob')];
  s.goTo(20);
  expect(counts(await s.sync('users'))).toEqual(counted({ seen: 1, updated: 1 }));
  expect(await s.rows('select * from helpdesk.users')).toEqual([row('Bob', 20)]);
  s.lists.users = [user('Bo')];
  s.goTo(15);
  expect(counts(await s.sync('users'))).toEqual(counted({ seen: 1, unchanged: 1 }));
  expect(await s.rows('select * from helpdesk.users')).toEqual([row('Bob', 20)]);
});

test('one contact of two customers, one label twice on a ticket, one user twice: drift says so', async () => {
  await using s = await scripted();
  const drift = () => s.rows('select stream, kind, path, value, seen from sync.drift order by 1, 2, 3, 4');
  const customer = (id: string, ...contacts: string[]) => ({
    id,
    first_name: id,
    last_name: null,
    summary: null,
    contacts: contacts.map(one => ({ id: one, type: 'email', value: `${one}@example.org` })),
  });
  s.lists.customers = [customer('c1', 'k1'), customer('c2', 'k2', 'k2')];
  s.lists.tickets = [ticket('t1', { label_ids: ['l1', 'l1'] })];
  s.lists.users = ['u1', 'u2', 'u1'].map(id => ({ id, first_name: null, last_name: null, email: null }));
  s.goTo(10);
  for (const name of ['users', 'customers', 'tickets']) await s.sync(name);
  const twice = (stream: string, path: string, value = '') => ({ stream, kind: 'repeated_id', path, value, seen: 1 });
  expect(await drift()).toEqual([
    twice('customers', 'contacts.id'),
    twice('tickets', 'label_ids'),
    twice('users', 'id'),
  ]);
  s.lists.customers = [customer('c3', 'k1')];
  s.goTo(20);
  await s.sync('customers');
  expect(await drift()).toContainEqual(twice('customers', 'contacts.id', 'of another record'));
});
