/** `fields apply`: the rules reach each place that holds values of the source, and nothing else changes there. */
import type pg from 'pg';
import { expect, test } from 'vitest';
import { applyToStored } from '../../../src/privacy/fields/apply.ts';
import { fitting } from '../../../src/privacy/fields/batches.ts';
import type { FieldRules } from '../../../src/privacy/fields/field-rules.ts';
import { parseRules } from '../../../src/privacy/fields/parse-field-rules.ts';
import { keepFieldRules } from '../../../src/privacy/fields/stored-rules.ts';
import { kinds, streams } from '../../../src/sources/index.ts';
import type { Stream } from '../../../src/sources/source.ts';
import { addShelf, openCatalog } from '../../support/books.ts';
import { inProcess } from '../../support/in-process.ts';
import { iso, message, scripted, ticket } from '../../support/scripted.ts';

const rulesOf = (text: string): FieldRules => ({ kinds, rules: parseRules(text, kinds), key: 'a key of sixteen' });

/** Stores the rules, and applies them. Returns the number of changes by place. */
async function apply(pool: pg.Pool, text: string, some: readonly Stream[] = streams) {
  const now = new Date();
  const rules = rulesOf(text);
  await keepFieldRules(pool, 'default', rules, now);
  const { signal } = new AbortController();
  return applyToStored(pool, 'default', rules, { streams: some, signal, now, told: () => {} });
}

test('labels and inboxes without a name stay as they are', async () => {
  await using s = await scripted();
  s.lists.tickets = [ticket('t1', { label_ids: ['l1'], inbox_id: 'i1' })];
  await s.sync('tickets');
  expect(await s.rows('select id, name, _payload from helpdesk.labels')).toEqual([
    { id: 'l1', name: null, _payload: null },
  ]);
  expect(await apply(s.pool, 'labels.name inboxes.name')).toMatchObject({
    'helpdesk.labels': 0,
    'helpdesk.inboxes': 0,
  });
});

const reject = (pool: pg.Pool, stream: string, record: string | null, ask: string | null, payload: string | null) =>
  pool.query(
    `insert into sync.rejects (account_id, source, stream, key, record_id, ask_id, reason, payload, replayable, first_seen_at, last_seen_at)
     values ('default', split_part($1, '.', 1), split_part($1, '.', 2), gen_random_uuid(), $2, $3, 'odd: SECRET', $4::text, $4 is not null, now(), now())`,
    [stream, record, ask, payload],
  );
const rejects = (pool: pg.Pool) =>
  pool
    .query(
      'select stream_key as stream, record_id as id, payload, replayable, reason from sync.rejects j order by j.id',
    )
    .then(({ rows }) => rows);

test('a reject that is nested deep keeps what they do not name', async () => {
  await using s = await scripted();
  const deep = `${'['.repeat(20_000)}1${']'.repeat(20_000)}`;
  await reject(s.pool, 'helpdesk.customers', 'c1', 'c1', `{"id":"c1","odd":${deep}}`);
  await reject(s.pool, 'helpdesk.customers', 'c2', 'c2', `{"id":"c2","last_name":"SECRET","odd":${deep}}`);
  await reject(s.pool, 'helpdesk.users', 'u1', 'u1', `{"id":"u1","odd":${deep}}`);
  await apply(s.pool, 'customers.last_name');
  expect((await rejects(s.pool)).map(({ id, payload, replayable }) => [id, payload?.slice(0, 12), replayable])).toEqual(
    [
      ['c1', '{"id":"c1","', true],
      ['c2', '{"id":"c2","', true],
      ['u1', '{"id":"u1","', true],
    ],
  );
});

test('a reject of a detail follows the rules of its own kind, and one of a shelf also those of volumes', async () => {
  await using s = await scripted();
  await s.sync('users');
  await reject(s.pool, 'helpdesk.messages', 'm1', 't1', '{"id":"m1","type":"reply","body":"SECRET"}');
  await reject(
    s.pool,
    'helpdesk.messages',
    't2',
    't2',
    '{"id":"t2","type":"SECRET","messages":[{"id":"m2","type":"reply"}]}',
  );
  await reject(s.pool, 'helpdesk.messages', null, 't3', '{"id":3,"type":"SECRET","body":"SECRET"}');
  await reject(s.pool, 'helpdesk.messages', 't5', 't5', '{"id":"t5","type":"SECRET","state":"open","body":"SECRET"}');
  await reject(s.pool, 'books.shelves', 'v1', 'ada/1/volumes', '{"id":"v1","volumeInfo":{"description":"SECRET"}}');
  await reject(s.pool, 'helpdesk.tickets', 't4', 't4', null);
  await reject(s.pool, 'helpdesk.users', 'u1', 'u1', null);
  await apply(s.pool, 'tickets.type messages.body volumes.volumeInfo.description');
  const left = await rejects(s.pool);
  expect(left.map(({ payload }) => payload)).toEqual([
    '{"id":"m1","type":"reply"}',
    '{"id":"t2","messages":[{"id":"m2","type":"reply"}]}',
    '{"id":0}',
    '{"id":"t5","state":"open"}',
    '{"id":"v1","volumeInfo":{}}',
    null,
    null,
  ]);
  expect(left.map(({ replayable }) => replayable)).toEqual([true, true, false, false, false, false, false]);
  expect(left.filter(({ reason }) => /SECRET/.test(reason))).toEqual([]);
});

// An unknown field of any record of a source may hold what a rule means.
test.each([
  ['labels.name', 'helpdesk'],
  ['customers.last_name', 'helpdesk'],
  ['shelves.title', 'books'],
])('%s takes samples and comparisons of each stream of %s', async (rule, source) => {
  await using s = await scripted();
  const keys = [...streams.map(({ key }) => key), 'helpdesk.labels', 'helpdesk.inboxes'];
  await s.pool.query(
    `insert into sync.drift (account_id, source, stream, kind, path, seen, first_seen_at, last_seen_at, sample)
     select 'default', split_part(k, '.', 1), split_part(k, '.', 2), 'unknown_field', 'x', 1, now(), now(), 'SECRET' from unnest($1::text[]) k`,
    [keys],
  );
  await s.pool.query(
    `insert into sync.audit (account_id, run_id, source, stream, record_id, checked_at, random, differences)
     select 'default', 1, split_part(k, '.', 1), split_part(k, '.', 2), 'x', now(), true, '{"x": ["SECRET", null]}' from unnest($1::text[]) k`,
    [keys],
  );
  await apply(s.pool, rule);
  const gone = keys.filter(key => key.startsWith(`${source}.`)).toSorted();
  const left = (table: string) =>
    s
      .rows(`select stream_key as key from ${table} t where strpos(t::text, 'SECRET') > 0`)
      .then(rows => rows.map(({ key }) => key));
  for (const table of ['sync.drift', 'sync.audit']) {
    const kept = await left(table);
    expect(keys.filter(key => !kept.includes(key)).toSorted(), table).toEqual(gone);
  }
});

test('a rewritten state makes no history, and the history has the values of the tickets', async () => {
  await using s = await inProcess({ tickets: 12, seed: 5 });
  await s.sync();
  for (const one of [...s.world.tickets.values()].slice(0, 4)) {
    one.state = one.state === 'closed' ? 'open' : 'closed';
    s.world.touch(one.id);
  }
  s.nowMs += 3_600_000;
  await s.sync();
  const history = () =>
    s.rows('select ticket_id, valid_from, valid_to from helpdesk.ticket_history order by ticket_id, valid_from');
  const stored = () => s.rows('select count(*)::int as n from internal.ticket_history');
  const before = [await history(), await stored()];
  expect(before[1]).not.toEqual([{ n: 0 }]);
  await apply(s.pool, 'tickets.state:hash tickets.inbox_id:truncate=1 tickets.label_ids');
  expect([await history(), await stored()]).toEqual(before);
  expect(
    await s.rows(`select t.id from helpdesk.tickets t join helpdesk.ticket_history h on h.ticket_id = t.id and h.valid_to is null
      where t.state is distinct from h.state or t.inbox_id is distinct from h.inbox_id or h.state !~ '^h:' or length(h.inbox_id) > 1
        or h.label_ids is not null or t.label_ids is not null`),
  ).toEqual([]);
  expect(
    await s.rows(
      `select count(*)::int as n from internal.ticket_history where state !~ '^h:' or label_ids is not null`,
    ),
  ).toEqual([{ n: 0 }]);
  const again = await apply(s.pool, 'tickets.state:hash tickets.inbox_id:truncate=1 tickets.label_ids');
  expect(Object.values(again)).toEqual(Object.values(again).map(() => 0));
});

test('a picture of a volume stays unless a rule names it', async () => {
  await using catalog = await openCatalog({});
  addShelf(catalog.world, 'ada', 1001, 3, 'a');
  catalog.pass();
  await catalog.sync();
  const pictures = () =>
    catalog.rows('select id, thumbnail from books.volumes where thumbnail is not null order by id');
  await catalog.rows(`update books.volumes set thumbnail = 'https://books.example/' || id`);
  const before = await pictures();
  expect(await apply(catalog.pool, 'volumes.volumeInfo.title')).toMatchObject({ 'books.volumes': 3 });
  expect(await pictures()).toEqual(before);
  await apply(catalog.pool, 'volumes.volumeInfo.title volumes.volumeInfo.imageLinks');
  expect(await pictures()).toEqual([]);
});

test('old values of our own columns stay', async () => {
  await using s = await scripted();
  const changes = {
    tickets: {
      ...{ subject: ['a', 'b'], odd: [1, 2], _deleted_at: [null, iso(1)], _deleted_after: [null, iso(0)] },
      _messages_as_of: [iso(0), iso(1)],
    },
    contacts: { id: ['k1', null], customer_id: ['c1', 'c2'], value: ['a', 'b'] },
    messages: {
      ticket_id: ['t1', 't2'],
      position: [1, 2],
      body: ['a', 'b'],
      body_text: ['a', 'b'],
      from_address: ['a', 'b'],
    },
    volumes: {
      title: ['a', 'b'],
      published_year: [1999, 2000],
      isbn_13: ['1', '2'],
      page_count: [1, 2],
      volumeInfo: [{ title: 'a' }, {}],
    },
  };
  for (const [table, values] of Object.entries(changes))
    await s.pool.query(
      `insert into sync.changes (account_id, source, table_name, record_id, seen_at, as_of, changes) values ('default', $3, $1, 'x', now(), now(), $2)`,
      [table, values, table === 'volumes' ? 'books' : 'helpdesk'],
    );
  await apply(
    s.pool,
    'tickets.* contacts.* messages.* volumes.volumeInfo.title volumes.volumeInfo.publishedDate.year volumes.volumeInfo.industryIdentifiers.type',
  );
  expect(await s.rows('select table_name as of, changes from sync.changes order by id')).toEqual([
    {
      of: 'tickets',
      changes: { _deleted_at: [null, iso(1)], _deleted_after: [null, iso(0)], _messages_as_of: [iso(0), iso(1)] },
    },
    { of: 'contacts', changes: { id: ['k1', null], customer_id: ['c1', 'c2'] } },
    { of: 'messages', changes: { ticket_id: ['t1', 't2'], position: [1, 2] } },
    { of: 'volumes', changes: { page_count: [1, 2], volumeInfo: [{}, {}] } },
  ]);
});

test('a batch has as many rows as fit', () => {
  expect(fitting([1, 2, 3])).toBe(3);
  expect(fitting([3e6, 1e6, 1e6, 1])).toBe(2);
  expect(fitting([9e6, 1])).toBe(1);
});

test('the text of a message is derived only if its body changed', async () => {
  await using s = await scripted();
  const html = (id: string) => message(id, { htmlized: true, body: `<b>tea</b> ${id}` });
  const record = ticket('t1', { inbox_id: null });
  s.lists.tickets = [record];
  s.details['/tickets/t1'] = { ...record, messages: ['m1', 'm2', 'm3'].map(html) };
  for (const name of ['tickets', 'messages']) await s.sync(name);
  let derived = 0;
  const counted = streams.map((stream): Stream => {
    if (stream.kind !== 'detail') return stream;
    const derive: typeof stream.derive = member => {
      derived++;
      return stream.derive(member);
    };
    return { ...stream, derive };
  });
  const texts = () => s.rows('select id, body, body_text from helpdesk.messages order by id');
  const before = await texts();
  expect(before[0]).toMatchObject({ body: '<b>tea</b> m1', body_text: expect.stringContaining('tea') });
  expect(await apply(s.pool, 'messages.from_name', counted)).toMatchObject({ 'helpdesk.messages': 3 });
  expect([derived, await texts()]).toEqual([0, before]);
  await apply(s.pool, 'messages.from_name messages.body:truncate=6', counted);
  expect([derived, (await texts())[0]]).toEqual([3, { id: 'm1', body: '<b>tea', body_text: 'tea' }]);
});

test('reasons of failures are taken out once, where they may quote a value', async () => {
  await using s = await scripted();
  for (const name of ['tickets', 'users']) await s.sync(name);
  await s.pool.query(`update sync.stored_run_streams set error = 'SECRET'`);
  await s.pool.query(`update sync.stored_run_streams set source = 'other' where stream = 'users'`);
  await apply(s.pool, 'tickets.subject');
  const told = () => s.rows('select stream, error from sync.stored_run_streams order by stream');
  expect(await told()).toEqual([
    { stream: 'tickets', error: expect.not.stringContaining('SECRET') },
    { stream: 'users', error: 'SECRET' },
  ]);
  await s.pool.query(`update sync.stored_run_streams set error = 'of today'`);
  await apply(s.pool, 'tickets.subject');
  expect(await told()).toMatchObject([{ error: 'of today' }, { error: 'of today' }]);
});
