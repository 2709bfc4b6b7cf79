/** What is searched for is found, the newest first; no text is too odd or too long to be kept. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Making, readSearch, searchOff, searchOn } from '../../../src/analytics/search.ts';
import { long } from '../../support/long.ts';
import { freshDatabase, type TestDatabase } from '../../support/postgres.ts';
import { searchableDatabase } from '../../support/searchable.ts';

interface Message {
  id: string;
  text: string | null;
  account?: string;
  /** Minutes after the 1st of January 2026; null: the source gave no time. */
  at?: number | null;
}

async function keep(db: pg.Pool, ...messages: Message[]): Promise<void> {
  await db.query(
    `insert into internal.messages (account_id, id, ticket_id, position, type, direction, body_text, created_at, _first_seen_at, _synced_at, _observed_at, _payload)
     select coalesce(m.account, 'acme'), m.id, 't1', 1, 'reply', 'in', m.text, timestamptz '2026-01-01T00:00:00Z' + m.at * interval '1 minute',
       '2026-01-01', '2026-01-01', '2026-01-01', '{}'
     from jsonb_to_recordset($1::jsonb) m (account text, id text, text text, at numeric)`,
    [JSON.stringify(messages.map((one, i) => ({ at: i, ...one })))],
  );
}

async function found(db: Pick<pg.ClientBase, 'query'>, query: string, atMost = 20): Promise<string[]> {
  const { rows } = await db.query('select message_id as id from helpdesk.search_messages($1, $2)', [query, atMost]);
  return rows.map(({ id }) => id);
}

const accounts = (db: pg.Pool, ...names: string[]) =>
  db.query('insert into sync.accounts (account_id) select unnest($1::text[])', [names]);

let db: TestDatabase;
beforeAll(async () => {
  db = await searchableDatabase();
});
beforeEach(() =>
  db.pool.query(
    'truncate internal.messages, helpdesk.tickets, helpdesk.contacts, sync.accounts, sync.readers restart identity cascade',
  ),
);
afterAll(() => db?.drop());

test('words are found in every language, all of them, in an order, one or the other, or without one', async () => {
  await accounts(db.pool, 'acme');
  await db.pool.query(
    `insert into helpdesk.tickets (account_id, id, number, subject, updated_at, _first_seen_at, _synced_at, _observed_at, _payload)
     values ('acme', 't1', 7, 'Where is it?', '2026-01-01', '2026-01-01', '2026-01-01', '2026-01-01', '{}')`,
  );
  await keep(
    db.pool,
    { id: 'm1', text: 'The parcel was lost.' },
    { id: 'm2', text: 'A lost parcel: order AB-1234, anna.schmidt@example.com, https://shop.example/a/b?id=77' },
    { id: 'm3', text: 'Das Paket kam nie an, größe 12.' },
    { id: 'm4', text: 'Где моя посылка? 注文 42' },
    { id: 'm5', text: null },
    { id: 'm6', text: '' },
  );
  expect(await found(db.pool, 'parcel')).toEqual(['m2', 'm1']);
  expect(await found(db.pool, 'PARCEL lost')).toEqual(['m2', 'm1']);
  expect(await found(db.pool, '"lost parcel"')).toEqual(['m2']);
  expect(await found(db.pool, 'parcel -order')).toEqual(['m1']);
  expect(await found(db.pool, 'paket or посылка')).toEqual(['m4', 'm3']);
  expect(await found(db.pool, 'größe')).toEqual(['m3']);
  expect(await found(db.pool, '注文')).toEqual(['m4']);
  for (const address of [
    'anna.schmidt@example.com',
    'anna',
    'AB-1234',
    'https://shop.example/a/b?id=77',
    '"example.com"',
  ])
    expect({ address, ids: await found(db.pool, address) }).toEqual({ address, ids: ['m2'] });
  // What is no question finds nothing, and is no error.
  for (const odd of ['', ' ', '-', '"', '& | ! ( ) : *', "'", '<->', "x'y\\", 'or', '-"', '((', '\u0001', 'nothere'])
    expect({ odd, ids: await found(db.pool, odd) }).toEqual({ odd, ids: [] });
  expect(await found(db.pool, 'parcel', 1)).toEqual(['m2']);
  expect(await found(db.pool, 'parcel', 0)).toEqual([]);
  expect((await db.pool.query("select * from helpdesk.search_messages('the lost', 5)")).rows).toEqual(
    [
      {
        ...{ account_id: 'acme', message_id: 'm1', ticket_id: 't1', number: '7', subject: 'Where is it?' },
        ...{
          created_at: new Date('2026-01-01T00:00:00Z'),
          type: 'reply',
          direction: 'in',
          excerpt: 'The parcel was lost.',
        },
      },
    ].map(row => ({ ...row, number: expect.anything() })),
  );
});

test('the newest messages come first, among many or few, even if some have a future time or none', async () => {
  await accounts(db.pool, 'acme');
  const minutes = 1200;
  const every = (n: number, word: string, i: number) => (i % n === 0 ? ` ${word}` : '');
  await keep(
    db.pool,
    // Three years, a message each day, so that each search has several looks.
    ...Array.from({ length: minutes }, (_, i) => ({
      id: `m${String(i).padStart(4, '0')}`,
      text: `common${every(3, 'third', i)}${every(100, 'hundredth', i)}${i === 5 ? ' once' : ''}`,
      at: i * 1440,
    })),
    { id: 'late', text: 'common third', at: 90 * 365 * 1440 },
    { id: 'undated', text: 'common third undated', at: null },
  );
  const expected = (n: number, atMost: number) =>
    Array.from({ length: minutes }, (_, i) => minutes - 1 - i)
      .filter(i => i % n === 0)
      .slice(0, atMost)
      .map(i => `m${String(i).padStart(4, '0')}`);
  expect(await found(db.pool, 'common')).toEqual(['late', ...expected(1, 19)]);
  expect(await found(db.pool, 'third', 10)).toEqual(['late', ...expected(3, 9)]);
  expect(await found(db.pool, 'hundredth')).toEqual(expected(100, 20));
  expect(await found(db.pool, 'once')).toEqual(['m0005']);
  expect(await found(db.pool, 'undated')).toEqual(['undated']);
  expect(await found(db.pool, 'third', 1000)).toEqual(['late', ...expected(3, 1000), 'undated']);
});

test('what is removed or changed is not found any more', async () => {
  await accounts(db.pool, 'acme');
  await keep(db.pool, { id: 'm1', text: 'parcel' }, { id: 'm2', text: 'parcel' }, { id: 'm3', text: 'parcel' });
  await db.pool.query("delete from internal.messages where id = 'm1'");
  await db.pool.query("update internal.messages set body_text = 'letter' where id = 'm2'");
  expect(await found(db.pool, 'parcel')).toEqual(['m3']);
  expect(await found(db.pool, 'letter')).toEqual(['m2']);
});

test('readers who see names find what their accounts hold; those who do not, nothing', async () => {
  await accounts(db.pool, 'acme', 'other');
  await keep(db.pool, { id: 'm1', text: 'parcel' }, { id: 'm2', text: 'parcel', account: 'other' });
  expect(await found(db.pool, 'parcel')).toEqual(['m2', 'm1']);
  const client = await db.pool.connect();
  try {
    const as = async (role: string) => {
      await client.query(`reset role; set role ${role}`);
      return found(client, 'parcel');
    };
    expect(await as('shelfdesk_reader_pii')).toEqual([]);
    await client.query(`reset role;
      insert into sync.readers values ('shelfdesk_reader_pii', '{other}', true, '2026-01-01', 'me'), ('shelfdesk_reader', null, false, '2026-01-01', 'me')`);
    expect(await as('shelfdesk_reader_pii')).toEqual(['m2']);
    await client.query("reset role; update sync.readers set accounts = null where role_name = 'shelfdesk_reader_pii'");
    expect(await as('shelfdesk_reader_pii')).toEqual(['m2', 'm1']);
    await expect(as('shelfdesk_reader')).rejects.toThrow('permission denied');
    // Not even who is let into the schema.
    await client.query('reset role; begin; grant usage on schema helpdesk to shelfdesk_reader');
    await expect(as('shelfdesk_reader')).rejects.toThrow('permission denied for table helpdesk.messages');
    await client.query('rollback');
  } finally {
    client.release(true);
  }
});

/** Long rows of what a parser of words looks ahead at, and more different words than a row of an index can hold. */
const odd: Record<string, string> = {
  ...Object.fromEntries(
    [
      'a.',
      'a-',
      'a/',
      'a@',
      'a_',
      '1.',
      '1-',
      '-1',
      '<',
      '<a ',
      '</',
      '&a',
      'a&b;',
      'http://',
      'a.b/',
      '-',
      '+1',
      '1e',
      '1e-',
      '~/',
      '..',
      'a:',
      'www.',
    ].map(unit => [unit, unit.repeat(100_000)]),
  ),
  one: 'x'.repeat(1_000_000),
  family: '👩‍👩‍👧‍👦'.repeat(100_000),
  characters: '漢字'.repeat(300_000),
  'all different': Array.from({ length: 60_000 }, (_, i) =>
    String.fromCodePoint(0x20000 + (i % 42_000), 0x20000 + (i % 7)),
  ).join(' '),
  'all different, joined': Array.from({ length: 60_000 }, (_, i) => String.fromCodePoint(0x20000 + (i % 42_000))).join(
    '-',
  ),
  'every character': Array.from({ length: 0xd7ff }, (_, i) => String.fromCharCode(i + 1)).join(''),
  marks: '\u0001\u200b\u2028\u202e\ufeff\uffff\u0301'.repeat(50_000),
};

test('no text stops a message, however long and odd it is', long, async () => {
  await accounts(db.pool, 'acme');
  const client = await db.pool.connect();
  try {
    await client.query("set statement_timeout = '60s'");
    for (const [name, text] of Object.entries(odd)) {
      const kept = keep(client as unknown as pg.Pool, { id: name, text: `begins ${text} ends` });
      await expect(
        kept.then(() => 'kept'),
        name,
      ).resolves.toBe('kept');
      // As a question as well.
      await expect(
        found(client, text.slice(0, 20_000)).then(() => 'asked'),
        name,
      ).resolves.toBe('asked');
    }
    // What the index had put off is sorted in.
    await client.query("select gin_clean_pending_list('internal.messages_words')");
    expect((await found(client, 'begins', 1000)).sort()).toEqual(Object.keys(odd).sort());
  } finally {
    client.release(true);
  }
});

test('subjects and addresses are found that are written nearly alike, the most similar first, of whoever may read them', async () => {
  await accounts(db.pool, 'acme', 'other');
  const times = "'2026-01-01', '2026-01-01', '2026-01-01'";
  await db.pool.query(`
    insert into helpdesk.tickets (account_id, id, number, subject, state, created_at, updated_at, _deleted_at, _first_seen_at, _synced_at, _observed_at, _payload)
    select a, id, 1, subject, 'open', '2026-01-01', '2026-01-01', gone, ${times}, '{}' from (values
      ('acme', 't1', 'Refund for order 4711', null::timestamptz), ('acme', 't2', 'Re: refund for order 4712', null), ('acme', 't3', 'Where is my parcel?', null),
      ('acme', 't4', 'Refund for order 4711', '2026-01-02'), ('acme', 't5', null, null), ('acme', 't6', '', null), ('acme', 't7', '100%_sure', null),
      ('other', 't1', 'Refund for order 4711!', null)) t (a, id, subject, gone)`);
  await db.pool.query(`
    insert into helpdesk.contacts (account_id, id, customer_id, type, value, _first_seen_at, _synced_at, _observed_at, _payload)
    select a, id, 'c', type, value, ${times}, '{}' from (values
      ('acme', 'k1', 'email', 'Anna.Schmidt@example.com'), ('acme', 'k2', 'email', 'anna.schmitt@example.com'), ('acme', 'k3', 'email', 'tom@example.com'),
      ('acme', 'k4', 'phone', '+49 151 2345678'), ('other', 'k1', 'email', 'anna.schmidt@example.org')) k (a, id, type, value)`);
  const subjects = async (like: string, on: Pick<pg.ClientBase, 'query'> = db.pool) =>
    (await on.query("select account_id || ' ' || ticket_id as id from helpdesk.similar_subjects($1)", [like])).rows.map(
      row => row.id,
    );
  const contacts = async (like: string, on: Pick<pg.ClientBase, 'query'> = db.pool) =>
    (
      await on.query("select account_id || ' ' || contact_id as id from helpdesk.similar_contacts($1)", [like])
    ).rows.map(row => row.id);
  expect(await subjects('AW: Re: refund for order 4711')).toEqual(['acme t1', 'other t1', 'acme t2']);
  expect(await subjects('Refund for ordr 4711')).toEqual(['acme t1', 'other t1', 'acme t2']);
  expect(await subjects('where is my parcl')).toEqual(['acme t3']);
  // Marks of patterns are letters like others.
  expect(await subjects('100%_sure')).toEqual(['acme t7']);
  expect(await contacts('anna.schmidt@example.com')).toEqual(['acme k1', 'acme k2', 'other k1']);
  expect(await contacts('ana.schmidt@example.com')).toEqual(['acme k1', 'acme k2', 'other k1']);
  expect(await contacts('+491512345679')).toEqual(['acme k4']);
  for (const odd of [
    '',
    ' ',
    'a',
    '%',
    '_%_',
    '\\',
    "'",
    '@',
    'Re:',
    '👩‍👩‍👧‍👦',
    'x'.repeat(100_000),
    'nothing of the kind',
  ])
    expect({ odd, found: [...(await subjects(odd)), ...(await contacts(odd))] }).toEqual({ odd, found: [] });
  const client = await db.pool.connect();
  try {
    await client.query("insert into sync.readers values ('shelfdesk_reader_pii', '{other}', true, '2026-01-01', 'me')");
    await client.query('set role shelfdesk_reader_pii');
    expect(await subjects('Refund for order 4711', client)).toEqual(['other t1']);
    expect(await contacts('anna.schmidt@example.com', client)).toEqual(['other k1']);
    await client.query('reset role; set role shelfdesk_reader');
    await expect(subjects('Refund', client)).rejects.toThrow('permission denied');
    await expect(client.query("select sync.searched_accounts('helpdesk.contacts')")).rejects.toThrow(
      'permission denied',
    );
  } finally {
    client.release(true);
  }
});

test('where few messages come, one in nine days, they are searched like any others', async () => {
  await accounts(db.pool, 'acme');
  const days = Array.from({ length: 320 }, (_, i) => ({
    id: `m${i}`,
    text: i % 100 ? 'often' : 'rarely',
    at: i * 9 * 1440,
  }));
  await keep(db.pool, ...days);
  expect(await found(db.pool, 'nowhere')).toEqual([]);
  expect(await found(db.pool, 'rarely')).toEqual(['m300', 'm200', 'm100', 'm0']);
  expect(await found(db.pool, 'often', 1)).toEqual(['m319']);
});

test('without its index a search says what to do; on makes what is missing, again after an interruption; off drops all', async () => {
  await using db = await freshDatabase();
  await accounts(db.pool, 'acme');
  await keep(db.pool, { id: 'm1', text: 'The parcel was lost.' });
  for (const search of ["search_messages('parcel')", "similar_subjects('parcel')", "similar_contacts('anna')"])
    await expect(db.pool.query(`select * from helpdesk.${search}`)).rejects.toMatchObject({
      message: expect.stringMatching(/^search is off: the index (?:helpdesk|internal).\w+ is missing$/),
      hint: expect.stringContaining('npx shelfdesk warehouse search on'),
      code: '55000',
    });
  const states = async () => (await readSearch(db.pool)).map(({ state }) => state);
  expect(await states()).toEqual(['off', 'off', 'off']);

  // A writer holds the making of the first index, until it is interrupted.
  const writer = await db.pool.connect();
  await writer.query('begin');
  await writer.query("update internal.messages set type = 'note'");
  const stop = new AbortController();
  const show = ({ phase }: Making) => {
    // An early look may see it before it waits.
    if (/waiting for writers/.test(phase)) stop.abort(new Error('Ctrl-C'));
  };
  const asked = searchOn({ url: db.url, db: db.pool }, { signal: stop.signal, show, lookMs: 5 });
  await expect(asked).rejects.toThrow('Ctrl-C');
  await writer.query('commit');
  writer.release();
  // The writer was in the way of dropping it, too: it is kept up, and finds nothing.
  expect(await states()).toEqual(['broken', 'off', 'off']);
  await expect(found(db.pool, 'parcel')).rejects.toThrow('search is off');
  const on = { show: () => {}, signal: new AbortController().signal };
  await searchOn({ url: db.url, db: db.pool }, on);
  expect(await states()).toEqual(['on', 'on', 'on']);
  expect(await found(db.pool, 'parcel')).toEqual(['m1']);

  const { rows: before } = await db.pool.query("select 'internal.messages_words'::regclass::oid as oid");
  await searchOn({ url: db.url, db: db.pool }, on);
  expect((await db.pool.query("select 'internal.messages_words'::regclass::oid as oid")).rows).toEqual(before);
  await searchOff({ url: db.url });
  expect(await states()).toEqual(['off', 'off', 'off']);
});

test('a command may follow another at once, though the server has not noticed that its connection is closed', async () => {
  await using db = await freshDatabase();
  const url = new URL(db.url);
  const goodbye = Buffer.from([0x58, 0, 0, 0, 4]);
  const held: Socket[] = [];
  const deaf = createServer(client => {
    const server = connect(Number(url.port), url.hostname);
    held.push(client, server);
    client.on('data', bytes => bytes.equals(goodbye) || server.write(bytes)).on('error', () => {});
    server.pipe(client);
  });
  await new Promise<void>(done => deaf.listen(0, '127.0.0.1', done));
  const through = new URL(db.url);
  through.port = String((deaf.address() as AddressInfo).port);
  try {
    await searchOff({ url: through.href });
    await searchOff({ url: db.url });
  } finally {
    for (const socket of held) socket.destroy();
    deaf.close();
  }
});
