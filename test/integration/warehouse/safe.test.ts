/** The masked mirror: nothing in it is a name, an address, a subject or a text of the help desk, and yet it joins. */
import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import type { World } from '../../../packages/sandbox/src/helpdesk/world/world.ts';
import { inProcess } from '../../support/in-process.ts';
import { long } from '../../support/long.ts';
import { freshDatabase } from '../../support/postgres.ts';
import { letReaderIn, type TestReader } from '../../support/readers.ts';

/** What the world truly holds of people, by what it is. */
function truth(world: World): Record<string, Set<string>> {
  const held: Record<string, Set<string>> = {};
  const add = (kind: string, ...values: (string | null | undefined)[]) => {
    held[kind] ??= new Set();
    for (const value of values) if (value?.trim()) held[kind].add(value.trim());
  };
  for (const user of world.users.values()) {
    add('names', user.first_name, user.last_name);
    add('addresses', user.email);
  }
  for (const customer of world.customers.values()) {
    add('names', customer.first_name, customer.last_name);
    add('summaries', customer.summary);
    for (const { value } of customer.contacts) add('addresses', value);
  }
  for (const ticket of world.tickets.values()) {
    add('subjects', ticket.subject);
    add('summaries', ticket.summary);
    add('addresses', ticket.reply_to, ticket.reply_cc);
    for (const message of ticket.messages) {
      add('names', message.from_name);
      add('bodies', message.body);
      if ('from' in message) {
        add('addresses', message.from, message.to);
        add('bodies', message.more_body);
      }
      for (const { name } of message.attachments) add('files', name);
    }
  }
  return held;
}

/** Every text in every column, whatever its type, of every relation that it may read, and of what the functions show. */
async function textsOf(reader: TestReader, functions: readonly string[]): Promise<Map<string, string[]>> {
  const { rows: relations } = await reader.client.query<{ name: string }>(`
    select n.nspname || '.' || c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('helpdesk', 'books', 'sync', 'analytics', 'safe', 'bullmq', 'public') and c.relkind in ('r', 'p', 'v', 'm')
      and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select') order by 1`);
  const found = new Map<string, string[]>();
  for (const name of [...relations.map(one => one.name), ...functions]) {
    const rows = await reader.rows<{ row: Record<string, unknown> }>(`select to_jsonb(r) as row from ${name} r`);
    const texts = rows.flatMap(({ row }) => Object.values(row).flatMap(value => leaves(value)));
    found.set(name, texts);
  }
  return found;
}

const leaves = (value: unknown): string[] =>
  typeof value === 'string'
    ? [value]
    : value !== null && typeof value === 'object'
      ? Object.values(value).flatMap(leaves)
      : [];

/** As a part of a longer text only what is long enough to be no chance. */
function holds(texts: readonly string[], values: ReadonlySet<string>): string[] {
  const whole = texts.filter(text => values.has(text.trim()));
  const all = texts.join('\n').toLowerCase();
  return [
    ...new Set([...whole, ...[...values].filter(value => value.length >= 6 && all.includes(value.toLowerCase()))]),
  ];
}

test('a reader of what is masked finds no true value of a person, whatever it reads', long, async () => {
  await using s = await inProcess({ tickets: 150 });
  await s.sync();
  await using reader = await letReaderIn(s);
  const held = truth(s.world);
  for (const kind of ['names', 'addresses', 'subjects', 'summaries', 'bodies', 'files'])
    expect([kind, held[kind]!.size]).toEqual([kind, expect.any(Number)]);
  expect(held.addresses!.size).toBeGreaterThan(50);
  expect(held.bodies!.size).toBeGreaterThan(100);

  const functions = [
    `analytics.tickets_as_of('2026-02-01')`,
    `analytics.backlog_daily('2026-01-01', '2026-02-01')`,
    `analytics.open_spans('none', '2026-01-01', '2026-01-02')`,
  ];
  const { rows: there } = await s.pool.query<{ name: string }>(
    `select distinct proname as name from pg_proc where pronamespace = 'analytics'::regnamespace`,
  );
  const texts = await textsOf(
    reader,
    functions.filter(one => there.some(({ name }) => one.includes(`.${name}(`))),
  );
  expect([...texts.values()].flat().length).toBeGreaterThan(5000);
  const found = [...texts].flatMap(([name, all]) =>
    Object.entries(held).flatMap(([kind, values]) =>
      holds(all, values).map(value => `${name}: ${kind}: ${value.slice(0, 60)}`),
    ),
  );
  expect(found).toEqual([]);

  // The same search finds them where they are.
  await using other = await letReaderIn({ pool: s.pool, url: s.url }, { pii: true });
  const open = await textsOf(other, []);
  for (const [kind, values] of Object.entries(held))
    expect([kind, holds([...open.values()].flat(), values).length > values.size * 0.9]).toEqual([kind, true]);
});

test('hashes join and count as the values do', async () => {
  await using s = await inProcess({ tickets: 60 });
  await s.sync();
  const both = async (sql: string) =>
    Promise.all(['helpdesk', 'safe'].map(async schema => s.rows(sql.replaceAll('mirror.', `${schema}.`))));
  for (const sql of [
    'select count(*), count(distinct subject), count(distinct summary), count(reply_to), count(*) filter (where subject = $$$$) as empty, count(*) filter (where subject is null) as unknown from mirror.tickets',
    'select count(*), count(distinct first_name), count(distinct last_name), count(*) filter (where first_name = $$$$) as empty from mirror.customers',
    'select count(*), count(distinct name) from mirror.attachments',
    'select count(*), count(distinct from_name), count(to_address) from mirror.messages',
    'select array_agg(name order by id) as names from mirror.inboxes',
    'select count(*), sum(array_length(label_ids, 1)) from mirror.tickets',
    'select count(*) from mirror.ticket_labels',
    'select md5(string_agg(to_jsonb(h)::text, $$,$$ order by to_jsonb(h)::text)) from mirror.ticket_history h',
  ]) {
    const [open, masked] = await both(sql);
    expect([sql, masked]).toEqual([sql, open]);
  }
  const joined = `from mirror.messages m join mirror.contacts c on c.account_id = m.account_id and c.%`;
  const [open] = await s.rows(
    `select count(*) ${joined.replace('%', 'value_normalized = lower(m.from_address)')}`.replaceAll(
      'mirror',
      'helpdesk',
    ),
  );
  const [masked] = await s.rows(
    `select count(*) ${joined.replace('%', 'value = m.from_address')}`.replaceAll('mirror', 'safe'),
  );
  expect(Number(masked!.count)).toBeGreaterThanOrEqual(Number(open!.count));
  expect(Number(open!.count)).toBeGreaterThan(30);
  expect(
    await s.rows(
      `select sum(body_length) = (select sum(length(body_text)) from helpdesk.messages) as equal from safe.messages`,
    ),
  ).toEqual([{ equal: true }]);
});

test('masking is HMAC-SHA-256 with the key of this warehouse, and equal for all spellings of an address', async () => {
  await using db = await freshDatabase();
  const rows = async (sql: string, ...values: unknown[]) => (await db.pool.query(sql, values)).rows;
  const key = Buffer.alloc(64);
  key.write('Jefe');
  const xor = (byte: number) => Buffer.from(key.map(one => one ^ byte));
  expect(await rows('select sync.masked($1, $2, $3, $4) as hash', 'a kind', 'ä value', xor(0x36), xor(0x5c))).toEqual([
    { hash: createHmac('sha256', 'Jefe').update('a kind:ä value').digest('hex') },
  ]);
  const [salt] = await rows(
    'select length(inner_key) as inner, length(outer_key) as outer, inner_key <> decode(repeat($$36$$, 64), $$hex$$) as made from sync.secret_salt',
  );
  expect(salt).toEqual({ inner: 64, outer: 64, made: true });
  await using other = await freshDatabase();
  // A copy of a database has its key: that of another one that was migrated is another.
  expect((await other.pool.query('select * from sync.secret_salt')).rows).toEqual(
    await rows('select * from sync.secret_salt'),
  );

  const forms: [string, string][] = [
    [' Ada@Mail.Example ', 'ada@mail.example'],
    ['@Ada_L', 'ada_l'],
    ['ada_l', 'ada_l'],
    ['+49 (30) 123-456', '+4930123456'],
    ['030 / 123456', '030123456'],
    ['Nobody', 'nobody'],
  ];
  for (const [value, form] of forms)
    expect(await rows('select sync.contact_form($1) as form', value)).toEqual([{ form }]);
  const names = `select sync.masked_title($1, 'k', 'k') = $1 as shown`;
  for (const [name, shown] of [
    ['Support', true],
    ['Schools & Libraries', true],
    ['help@desk.example', false],
    ['Tel 030123456', false],
    ['call +49 30 12 34 56', false],
    ['030-1234-567', false],
    ['１２３ ４５６', false],
    ['ada＠x.org', false],
    ['Top 100 of 2025', true],
  ])
    expect([name, await rows(names, name)]).toEqual([name, [{ shown }]]);
});

test('every table of the help desk is there with every column, but those that are left out on purpose', async () => {
  await using db = await freshDatabase();
  const { rows } = await db.pool.query<{ name: string; masked: boolean | null }>(`
    select c.relname || '.' || a.attname as name
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'helpdesk'::regnamespace and c.relkind in ('r', 'p', 'v') and not exists (
      select from pg_attribute s where s.attrelid = to_regclass('safe.' || c.relname) and s.attname = a.attname)
    order by 1`);
  const leftOut = ['messages.body', 'messages.body_text', 'messages.more_body'];
  expect(rows.map(({ name }) => name).filter(name => !name.endsWith('._payload'))).toEqual(leftOut);
});
