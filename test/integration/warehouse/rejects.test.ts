/** What one record can break: itself. Everything else is stored, and nothing vanishes in silence. */
import { expect, test } from 'vitest';
import type { Reject } from '../../../src/engine/commit/page.ts';
import { dueRejects, openSince, saidGone, settle } from '../../../src/engine/commit/rejects.ts';
import { transaction } from '../../../src/engine/database/pool.ts';
import type { StreamKey } from '../../../src/engine/database/stream-key.ts';
import { tickets } from '../../../src/sources/helpdesk/tickets.ts';
import { at, counted, counts, iso, message, type Scripted, scripted, second, ticket } from '../../support/scripted.ts';

const stored = async (s: Scripted, table: string) =>
  (await s.rows(`select id from helpdesk.${table} order by id`)).map(({ id }) => id);
const rejects = (s: Scripted) =>
  s.rows(`select stream, key, record_id, ask_id, reason, payload, replayable, attempts, cleared_at
    from sync.rejects order by id`);
const drift = (s: Scripted) =>
  s.rows('select stream, kind, path, value, seen from sync.drift order by stream, kind, path, value');

/** JSON with a value in it that JavaScript cannot write: `"@…@"` stands for what is between. */
const raw = (records: unknown): string => JSON.stringify(records).replaceAll(/"@(.*?)@"/g, '$1');

/** A record that no table takes: how it looks, in which words it is refused, and by whom. */
const culprits = [
  { says: 'year 0000', field: { created_at: '0000-01-01T00:00:00Z' }, reason: /out of range/ },
  { says: 'a day that no month has', field: { created_at: '2026-02-30T00:00:00Z' }, reason: /out of range/ },
  { says: 'a number beyond all bounds', field: { extra: '@1e200000@' }, reason: /overflow/ },
  { says: 'no time', field: { created_at: 'yesterday' }, reason: /created_at: not an ISO 8601 time/ },
  { says: 'a wrong type', field: { user_id: 12 }, reason: /user_id: / },
];

test.for(culprits)('in a list of tickets: $says', async ({ field, reason }) => {
  await using s = await scripted();
  s.lists.tickets = [ticket('t1', { label_ids: ['l1', 'l2'] }), ticket('t2')];
  s.goTo(10);
  await s.sync('tickets');

  const bad = ticket('bad', { ...field, digits: '@12345678901234567890.10@' });
  s.lists.tickets = raw([
    ticket('t1', { label_ids: ['l2'], subject: 'changed', exact: '@98765432109876543210.50@' }),
    bad,
    ticket('t3', { label_ids: ['l3'] }),
  ]);
  s.details['/tickets/bad'] = raw(bad);
  s.goTo(20);
  const run = await s.sync('tickets');
  // The bad one is asked for again by its id, and counts once more.
  expect(counts(run)).toEqual(counted({ seen: 4, inserted: 1, updated: 1, rejected: 2 }));
  expect(run).toMatchObject({ state: 'partial', exit_code: 3, error: '1 record could not be stored' });

  expect(await s.rows(`select id, subject, _payload ->> 'exact' as exact from helpdesk.tickets order by id`)).toEqual([
    { id: 't1', subject: 'changed', exact: '98765432109876543210.50' },
    { id: 't2', subject: 'Tea', exact: null },
    { id: 't3', subject: 'Tea', exact: null },
  ]);
  expect(await s.rows('select ticket_id, label_id from helpdesk.ticket_labels order by 1')).toEqual([
    { ticket_id: 't1', label_id: 'l2' },
    { ticket_id: 't3', label_id: 'l3' },
  ]);
  expect(await rejects(s)).toEqual([
    {
      stream: 'tickets',
      key: 'bad',
      record_id: 'bad',
      ask_id: 'bad',
      reason: expect.stringMatching(reason),
      payload: raw(bad),
      replayable: true,
      attempts: 2,
      cleared_at: null,
    },
  ]);

  s.details['/tickets/bad'] = ticket('bad');
  s.lists.tickets = [];
  s.goTo(80);
  expect(counts(await s.sync('tickets'))).toEqual(counted({ seen: 1, inserted: 1 }));
  expect(await stored(s, 'tickets')).toEqual(['bad', 't1', 't2', 't3']);
  expect(await s.rows('select key, cleared_at from sync.rejects')).toEqual([{ key: 'bad', cleared_at: at(80) }]);
});

test('in a list of customers, contacts are still replaced', async () => {
  await using s = await scripted();
  const customer = (id: string, contacts: unknown[], more: object = {}) => ({
    id,
    first_name: 'Ada',
    last_name: null,
    summary: null,
    contacts,
    ...more,
  });
  const contact = (id: string, more: object = {}) => ({ id, type: 'email', value: 'x', ...more });
  s.lists.customers = [customer('c1', [contact('k1'), contact('k2')]), customer('c2', [contact('k3')])];
  s.goTo(10);
  await s.sync('customers');
  const breaks = { first_name: 1, extra: '@1e200000@' };
  s.lists.customers = raw([customer('c1', [contact('k2')]), customer('c2', [contact('k4')], breaks)]);
  s.details['/customers/c2'] = raw(customer('c2', [contact('k4')], breaks));
  s.goTo(20);
  expect(counts(await s.sync('customers'))).toEqual(counted({ seen: 3, updated: 1, deleted: 1, rejected: 2 }));
  expect(await stored(s, 'contacts')).toEqual(['k2', 'k3']);
  expect((await rejects(s)).map(({ key }) => key)).toEqual(['c2']);
});

// One that PostgreSQL refuses, and one that we do.
test.for([culprits[2]!, culprits[3]!])('among the messages of a ticket: $says', async ({ field, reason }) => {
  await using s = await scripted();
  const show = (updated: number, messages: unknown[]) => {
    const record = ticket('t1', { updated_at: iso(updated), inbox_id: null });
    s.lists.tickets = [record];
    s.details['/tickets/t1'] = raw({ ...record, messages });
  };
  const file = { id: 'a1', name: 'a', size: 1, type: 'text/plain' };
  show(5, [message('m1'), message('m2', { attachments: [file] }), message('m3')]);
  s.goTo(10);
  await s.sync('tickets');
  await s.sync('messages');

  // m2 is bad now, m3 has gone, m4 is new, m1 has changed: what is known of the set is kept until all of it is readable.
  const bad = message('m2', { ...field, digits: '@12345678901234567890.10@', attachments: [file] });
  show(15, [message('m0'), bad, message('m4', { exact: '@1.10@' }), message('m1', { body: 'changed' })]);
  s.goTo(20);
  await s.sync('tickets');
  const run = await s.sync('messages');
  expect(run).toMatchObject({ state: 'partial', exit_code: 3, seen: 8, inserted: 2, updated: 1, deleted: 0 });
  expect(run.rejected).toBeGreaterThan(0);
  const rows = () =>
    s.rows(`select id, position, body, _payload -> 'exact' as exact from helpdesk.messages order by position, id`);
  expect(await rows()).toEqual([
    { id: 'm0', position: 1, body: 'body of m0', exact: null },
    { id: 'm2', position: 2, body: 'body of m2', exact: null },
    { id: 'm3', position: 3, body: 'body of m3', exact: null },
    { id: 'm4', position: 3, body: 'body of m4', exact: 1.1 },
    { id: 'm1', position: 4, body: 'changed', exact: null },
  ]);
  expect(await stored(s, 'attachments')).toEqual(['a1']);
  expect(await rejects(s)).toEqual([
    {
      stream: 'messages',
      key: 'm2',
      record_id: 'm2',
      ask_id: 't1',
      reason: expect.stringMatching(reason),
      payload: raw(bad),
      replayable: true,
      attempts: expect.any(Number),
      cleared_at: null,
    },
  ]);

  show(15, [message('m0'), message('m2'), message('m4'), message('m1')]);
  s.goTo(10_000);
  await s.sync('messages');
  expect((await rows()).map(({ id, position }) => `${position} ${id}`)).toEqual(['1 m0', '2 m2', '3 m4', '4 m1']);
  expect(await stored(s, 'attachments')).toEqual([]);
  expect(await s.rows('select key, cleared_at from sync.rejects')).toEqual([{ key: 'm2', cleared_at: at(10_000) }]);
});

test('a bad message stays written down though the second reading of it is older than the first', async () => {
  await using s = await scripted();
  const record = ticket('t1', { updated_at: iso(5), inbox_id: null });
  s.lists.tickets = [record];
  let readings = 0;
  s.details['/tickets/t1'] = () => {
    // The second reply takes so long that nobody can say that it is not older.
    if (readings++ > 0) s.goTo(11.5);
    return { ...record, messages: [message('m1', { created_at: '0000-01-01T00:00:00Z' })] };
  };
  s.goTo(10);
  await s.sync('tickets');
  expect(await s.sync('messages')).toMatchObject({ state: 'partial', inserted: 0 });
  expect(readings).toBe(2);
  expect(await s.rows('select _messages_as_of from helpdesk.tickets')).toEqual([{ _messages_as_of: at(9) }]);
  expect(await s.rows('select key, cleared_at from sync.rejects')).toEqual([{ key: 'm1', cleared_at: null }]);
});

test('what breaks the ticket breaks none of its messages and names', async () => {
  await using s = await scripted();
  const record = ticket('t1', { updated_at: iso(5), label_ids: ['l1'], inbox_id: 'i1' });
  s.lists.tickets = [record];
  s.goTo(10);
  await s.sync('tickets');
  const detail = {
    ...record,
    extra: '@1e200000@',
    messages: [message('m1'), message('m2')],
    labels: [{ id: 'l1', name: 'urgent' }],
    inbox: { id: 'i1', name: 'Sales' },
  };
  s.details['/tickets/t1'] = raw(detail);
  s.goTo(20);
  expect(await s.sync('messages')).toMatchObject({ state: 'partial', inserted: 2 });
  expect(await s.rows('select id, position from helpdesk.messages order by id')).toEqual([
    { id: 'm1', position: 1 },
    { id: 'm2', position: 2 },
  ]);
  expect(await s.rows('select name from helpdesk.labels union all select name from helpdesk.inboxes')).toEqual([
    { name: 'urgent' },
    { name: 'Sales' },
  ]);
  expect((await rejects(s)).map(({ key, reason }) => `${key}: ${reason}`)).toEqual([
    expect.stringMatching(/^t1: .*overflow/),
  ]);
});

test('a name that cannot be stored breaks neither the ticket nor its messages', async () => {
  await using s = await scripted();
  const record = ticket('t1', { updated_at: iso(5), label_ids: ['l1'], inbox_id: 'i1' });
  s.lists.tickets = [record];
  s.goTo(10);
  await s.sync('tickets');
  s.details['/tickets/t1'] = raw({
    ...record,
    messages: [message('m1')],
    labels: [{ id: 'l1', name: 'urgent', extra: '@1e200000@' }],
    inbox: { id: 'i1', name: 'Sales' },
  });
  s.goTo(20);
  expect(await s.sync('messages')).toMatchObject({ state: 'partial', inserted: 1 });
  expect(await stored(s, 'messages')).toEqual(['m1']);
  expect(await s.rows('select name from helpdesk.inboxes')).toEqual([{ name: 'Sales' }]);
  const open = await s.rows('select ask_id, reason from sync.rejects where cleared_at is null');
  expect(open).toEqual([{ ask_id: 't1', reason: expect.stringMatching(/overflow/) }]);
});

/** All that is strange is in test/unit/clean.test.ts. */
const strange = [
  { says: 'surrogates in the wrong order', text: '\udc00\ud800', clean: '\ufffd\ufffd', cleaned: 2 },
  { says: 'NUL beside a good pair', text: '😀\0😀', clean: '😀\ufffd😀', cleaned: 1 },
];
test.for(strange)(
  'characters that cannot be stored are replaced and counted: $says',
  async ({ text, clean, cleaned }) => {
    await using s = await scripted();
    const record = ticket('t1', { subject: text, updated_at: iso(5), inbox_id: null, digits: '@1.10@' });
    const key = { [`key ${text}`]: { [text]: [text] } };
    s.lists.tickets = raw([ticket('t0'), { ...record, ...key }]);
    s.goTo(10);
    expect(counts(await s.sync('tickets'))).toEqual(counted({ seen: 2, inserted: 2, cleaned: 4 * cleaned }));
    expect(
      await s.rows(
        `select id, subject, _payload - $1::text = $2::jsonb as same from helpdesk.tickets order by id`,
        `key ${clean}`,
        raw({ ...record, subject: clean }),
      ),
    ).toEqual([
      { id: 't0', subject: 'Tea', same: false },
      { id: 't1', subject: clean, same: true },
    ]);
    expect(
      (await s.rows(`select _payload -> $1::text as kept from helpdesk.tickets where id = 't1'`, `key ${clean}`))[0],
    ).toEqual({
      kept: { [clean]: [clean] },
    });

    // The same again is a no-op for the table.
    const before = await s.rows('select id, xmin::text, ctid::text from helpdesk.tickets order by id');
    s.goTo(15);
    expect(counts(await s.sync('tickets'))).toMatchObject({ inserted: 0, updated: 0 });
    expect(await s.rows('select id, xmin::text, ctid::text from helpdesk.tickets order by id')).toEqual(before);

    s.details['/tickets/t1'] = raw({
      ...record,
      messages: [message('m1', { body: text, attachments: null }), message('m2')],
    });
    s.details['/tickets/t0'] = { ...ticket('t0', { inbox_id: null }), messages: [] };
    s.goTo(20);
    expect(counts(await s.sync('messages'))).toEqual(counted({ seen: 2, inserted: 2, cleaned: 2 * cleaned }));
    expect(await s.rows('select id, position, body, body_text from helpdesk.messages order by id')).toEqual([
      { id: 'm1', position: 1, body: clean, body_text: clean },
      { id: 'm2', position: 2, body: 'body of m2', body_text: 'body of m2' },
    ]);
    expect(await rejects(s)).toEqual([]);
    expect((await drift(s)).filter(({ kind }) => kind === 'unstorable')).toEqual([
      { stream: 'messages', kind: 'unstorable', path: 'body', value: '', seen: cleaned },
      { stream: 'tickets', kind: 'unstorable', path: `key ${clean}`, value: '', seen: 2 * cleaned },
      { stream: 'tickets', kind: 'unstorable', path: `key ${clean}.${clean}`, value: '', seen: 4 * cleaned },
      { stream: 'tickets', kind: 'unstorable', path: 'subject', value: '', seen: 2 * cleaned },
    ]);
  },
);

test('an id that cannot be stored is a reject: cleaned, it might be the id of another', async () => {
  await using s = await scripted();
  s.lists.tickets = [ticket('a\0b'), ticket('a\ud800'), ticket('a\ufffd', { updated_at: iso(1) })];
  s.goTo(10);
  expect(await s.sync('tickets')).toMatchObject({ state: 'partial', inserted: 1, rejected: 2 });
  expect(await stored(s, 'tickets')).toEqual(['a\ufffd']);
  // Nobody can ask for them by id, so nobody takes them for gone.
  expect(await s.rows('select record_id, ask_id, payload, cleared_at from sync.rejects order by id')).toEqual([
    { record_id: 'a\ufffdb', ask_id: null, payload: JSON.stringify(ticket('a\0b')), cleared_at: null },
    { record_id: 'a\ufffd', ask_id: null, payload: JSON.stringify(ticket('a\ud800')), cleared_at: null },
  ]);
});

test('unknown values that differ only in what cannot be stored are one drift', async () => {
  await using s = await scripted();
  s.lists.tickets = [
    ticket('t1', { state: 'x\0' }),
    ticket('t2', { state: 'x\ud800' }),
    ticket('t3', { state: 'x\udfff' }),
  ];
  s.goTo(10);
  expect(await s.sync('tickets')).toMatchObject({ state: 'completed', inserted: 3 });
  expect(await drift(s)).toEqual([
    { stream: 'tickets', kind: 'unknown_value', path: 'state', value: 'x\ufffd', seen: 3 },
    { stream: 'tickets', kind: 'unstorable', path: 'state', value: '', seen: 3 },
  ]);
  // The first record that showed it, at most 2,000 characters of it; seen again, it stays.
  const sample = JSON.stringify(ticket('t1', { state: 'x\0' }));
  s.lists.tickets = [ticket('t4', { state: 'x\0', updated_at: iso(1), subject: 'x'.repeat(5000), more: 1 })];
  s.goTo(20);
  await s.sync('tickets');
  expect(await s.rows('select kind, path, seen, sample from sync.drift order by kind, path')).toEqual([
    { kind: 'unknown_field', path: 'more', seen: 1, sample: expect.stringMatching(/^\{"id":"t4".{1990}/) },
    { kind: 'unknown_value', path: 'state', seen: 4, sample },
    { kind: 'unstorable', path: 'state', seen: 4, sample },
  ]);
  expect(await s.rows('select max(length(sample)) as longest from sync.drift')).toEqual([{ longest: 2000 }]);
});

/** Too long for an index; of random characters, since PostgreSQL would compress others. */
const long = Array.from({ length: 20_000 }, (_, i) =>
  String.fromCodePoint(0x4e00 + ((i * 7919 + i * i) % 20_000)),
).join('');
test('what is too long for an index breaks nothing else', async () => {
  await using s = await scripted();
  const customer = (id: string, value: string) => ({
    id,
    first_name: 'A',
    contacts: [{ id: `k${id}`, type: 'email', value }],
  });
  s.lists.customers = [customer('c1', 'x'), customer('c2', long), customer('c3', 'z')];
  s.details['/customers/c2'] = customer('c2', long);
  s.lists.tickets = [ticket('t1'), ticket(long), ticket('t2', { [long]: 1 }), ticket('t3', { state: long })];
  s.goTo(10);
  expect(await s.sync('customers')).toMatchObject({ state: 'partial', inserted: 2, rejected: 2 });
  expect(await stored(s, 'contacts')).toEqual(['kc1', 'kc3']);
  expect(await s.sync('tickets')).toMatchObject({ state: 'partial', inserted: 3 });
  expect(await stored(s, 'tickets')).toEqual(['t1', 't2', 't3']);
  expect(await s.rows('select stream, reason, payload from sync.rejects order by id')).toEqual([
    {
      stream: 'customers',
      reason: expect.stringContaining('index row'),
      payload: JSON.stringify(customer('c2', long)),
    },
    { stream: 'tickets', reason: expect.stringContaining('id: '), payload: JSON.stringify(ticket(long)) },
  ]);
});

test('a record without a readable id is kept under a hash, and is the same reject the next time', async () => {
  await using s = await scripted();
  s.lists.tickets = raw(['just text', null, { ...ticket('x'), id: '@12345678901234567890@' }, ticket('t1')]);
  s.goTo(10);
  // Three readings: they cannot be asked for by an id, so the page is asked for again.
  expect(counts(await s.sync('tickets'))).toEqual(counted({ seen: 12, inserted: 1, unchanged: 2, rejected: 3 }));
  s.goTo(20);
  await s.sync('tickets');
  expect(await rejects(s)).toEqual(
    ['"just text"', 'null', raw({ ...ticket('x'), id: '@12345678901234567890@' })].map(payload => ({
      stream: 'tickets',
      key: expect.stringMatching(/^[0-9a-f]{32}$/),
      record_id: null,
      ask_id: null,
      reason: expect.any(String),
      payload,
      replayable: true,
      attempts: 2,
      cleared_at: null,
    })),
  );
  expect(await drift(s)).toEqual([
    { stream: 'tickets', kind: 'wrong_type', path: '', value: '', seen: 12 },
    { stream: 'tickets', kind: 'wrong_type', path: 'id', value: '', seen: 6 },
  ]);
});

const settling =
  (s: Scripted) =>
  (n: number, stored: string[], ...rejects: Reject[]) =>
    transaction(s.pool, client => {
      const claim = { account: 'default', stream: 'helpdesk.tickets' } as const;
      const at = { nowMs: second(n), asOfMs: second(n) };
      return settle({ client, claim, at }, { stored, rejects, filter: tickets.personal });
    });

test('only an open reject of the stream says that the source has it no more; an id of 500 characters is one', async () => {
  await using s = await scripted();
  const [longest, over] = ['x'.repeat(500), 'x'.repeat(501)];
  const key = { account: 'default', stream: 'helpdesk.tickets' } as const;
  const settle = settling(s);
  const says = (id: string, stream: StreamKey = key.stream) => saidGone(s.pool, { ...key, stream }, id);
  await settle(1, [], { recordId: longest, askId: longest, reason: 'gone', gone: true, place: 4, payload: '{}' });
  await settle(1, [], { recordId: over, askId: over, reason: 'long', payload: '{"id":1}' });
  expect(await s.rows('select key, ask_id, place from sync.rejects order by id')).toEqual([
    { key: longest, ask_id: longest, place: 5 },
    { key: expect.stringMatching(/^[0-9a-f]{32}$/), ask_id: null, place: null },
  ]);
  expect(await Promise.all([says(longest), says('other'), says(longest, 'helpdesk.users')])).toEqual([
    true,
    false,
    false,
  ]);
  await settle(2, [longest]);
  expect(await says(longest)).toBe(false);
});

test('drift of a stream without personal data keeps its sample', async () => {
  await using s = await scripted();
  const found = { kind: 'unknown_field', path: 'more', value: '', seen: 1, sample: '{"more":1}' } as const;
  const key = { account: 'default', stream: 'helpdesk.users' } as const;
  await transaction(s.pool, client =>
    settle({ client, claim: key, at: { nowMs: second(1), asOfMs: 0 } }, { drift: [found], filter: undefined }),
  );
  expect(await s.rows('select path, sample from sync.drift')).toEqual([{ path: 'more', sample: '{"more":1}' }]);
});

test('a reject is asked for at once, then after 1, 4, 16 … minutes, at most a day, for ever; success begins anew', async () => {
  await using s = await scripted();
  const key = { account: 'default', stream: 'helpdesk.tickets' } as const;
  const reject = { recordId: 'r1', askId: 'r1', reason: 'why', payload: '{}' };
  const settle = (n: number, stored: string[], rejects = [reject]) => settling(s)(n, stored, ...rejects);
  const write = (n: number) => settle(n, []);
  const minutes: unknown[] = [];
  for (let i = 0; i < 60; i++) {
    await write(i);
    const [row] = await s.rows('select attempts, first_seen_at, last_seen_at, next_try_at from sync.rejects');
    expect(row).toMatchObject({ attempts: i + 1, first_seen_at: at(0), last_seen_at: at(i) });
    minutes.push(((row!.next_try_at as Date).getTime() - at(i).getTime()) / 60_000);
  }
  expect(minutes).toEqual([0, 1, 4, 16, 64, 256, 1024, ...Array(53).fill(1440)]);

  const due = (n: number) => dueRejects(s.pool, { ...key }, at(n));
  expect(await due(59 + 86_399)).toEqual([]);
  expect(await due(59 + 86_400)).toEqual(['r1']);
  // It was written by a clock that was more than an hour ahead: nobody waits until then.
  expect(await due(59 - 3600)).toEqual([]);
  expect(await due(59 - 3601)).toEqual(['r1']);
  expect(await openSince(s.pool, { ...key }, at(59))).toBe(1);
  expect(await openSince(s.pool, { ...key }, at(60))).toBe(0);
  await settle(60, ['r1']);
  expect(await due(99 + 86_400)).toEqual(['r1']);
  await settle(61, ['r1'], []);
  expect(await due(99 + 86_400)).toEqual([]);
  await write(70);
  expect(await s.rows('select attempts, cleared_at from sync.rejects order by id')).toEqual([
    { attempts: 61, cleared_at: at(61) },
    { attempts: 1, cleared_at: null },
  ]);
});
