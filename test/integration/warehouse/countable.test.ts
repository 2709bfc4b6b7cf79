/** One way to count: whatever counts tickets, messages or waits counts those of analytics.countable_tickets. And what null means, by the comments. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Relation, readCatalog } from '../../../src/analytics/catalog.ts';
import { readQueries } from '../../../src/analytics/questions.ts';
import { long } from '../../support/long.ts';
import { fillOddWorld } from '../../support/odd-world.ts';
import { freshDatabase, type TestDatabase } from '../../support/postgres.ts';
import { letReaderIn, type TestReader } from '../../support/readers.ts';

let db: TestDatabase;
let reader: TestReader;
let whole: TestReader;
let relations: Relation[];
beforeAll(async () => {
  db = await freshDatabase();
  await fillOddWorld(db.pool);
  reader = await letReaderIn(db, { accounts: ['acme'] });
  whole = await letReaderIn(db);
  const all = (await readCatalog(db.pool)).flatMap(schema => schema.relations);
  relations = all.filter(({ schema }) => schema === 'analytics');
});
afterAll(async () => {
  await reader?.[Symbol.asyncDispose]();
  await whole?.[Symbol.asyncDispose]();
  await db?.drop();
});

type Sums = Record<string, number>;

/** From the stored rows themselves, with the rule written out. */
const truth = (account: string): string => `
  with counts as (
    select t.*, k.n, k.inbound, k.authored, k.notes, k.other, k.undated_inbound, k.undated_tickets, k.by_users
    from helpdesk.tickets t cross join lateral (
      select count(*) as n, count(*) filter (where type = 'reply' and direction = 'in') as inbound,
        count(*) filter (where type = 'reply' and direction = 'out' and user_id is not null) as authored,
        count(*) filter (where type = 'note') as notes, count(*) filter (where type = 'chat') as other,
        count(*) filter (where type = 'reply' and direction = 'in' and created_at is null) as undated_inbound,
        (t.created_at is null)::int as undated_tickets,
        count(*) filter (where type = 'note' and user_id is not null and created_at is not null) as by_users
      from internal.messages m where (m.account_id, m.ticket_id) = (t.account_id, t.id)) k
    where t.account_id ${account} and coalesce(t.spam, false) = false and coalesce(t.trash, false) = false and t._deleted_at is null)
  select count(*) as tickets, sum(n) as messages, sum(inbound) as inbound, sum(authored) as authored, sum(notes) as notes, sum(other) as other,
    sum(undated_inbound) as undated_inbound, sum(undated_tickets) as undated_tickets, sum(by_users) as notes_by_users,
    count(*) filter (where state is null or state not in ('closed', 'archived')) as open,
    sum((select count(distinct l) from unnest(label_ids) l)) as labels
  from counts`;

/** Each sum by each way to it: a figure and where it is taken from. */
const ways: Readonly<Record<string, readonly string[]>> = {
  tickets: [
    'select count(*) from analytics.countable_tickets',
    'select count(*) from analytics.fact_tickets',
    'select count(*) from analytics.ticket_metrics where analytics.is_countable(spam, trash, deleted_at)',
    `select sum(tickets) + (select count(*) from analytics.fact_tickets where customer_key is null) from analytics.customer_summary`,
    'select sum(tickets_created) + (select count(*) from analytics.fact_tickets where created_at is null) from analytics.arrivals_hourly',
    `select sum(n) from (select count(*) as n from analytics.fact_tickets group by created_date) d`,
    `select count(*) from analytics.fact_targets where metric = 'resolution'`,
    'select count(*) from analytics.dim_inbox right join analytics.fact_tickets using (inbox_key)',
  ],
  messages: [
    'select sum(message_count) from analytics.fact_tickets',
    'select count(*) from analytics.fact_messages',
    'select count(*) from analytics.fact_messages join analytics.fact_tickets using (ticket_key)',
    'select sum(inbound_count + authored_count + automatic_count + note_count + other_count) from analytics.countable_tickets',
  ],
  inbound: [
    'select sum(inbound_count) from analytics.fact_tickets',
    `select count(*) from analytics.fact_messages where kind = 'inbound'`,
    'select sum(inbound_messages) from analytics.fact_turns',
    `select sum(inbound_messages) + (select count(*) from analytics.fact_messages where kind = 'inbound' and created_at is null)
      from analytics.arrivals_hourly`,
    `select sum(inbound_messages) + (select sum(inbound_count) from analytics.fact_tickets where customer_key is null)
      from analytics.customer_summary`,
  ],
  authored: [
    'select sum(authored_count) from analytics.fact_tickets',
    `select count(*) from analytics.fact_messages where kind = 'authored'`,
    `select sum(replies) + (select count(*) from analytics.fact_messages where kind = 'authored' and created_at is null)
      from analytics.agent_daily`,
    'select sum(replies) + (select sum(authored_count) from analytics.fact_tickets where customer_key is null) from analytics.customer_summary',
  ],
  notes: [
    'select sum(note_count) from analytics.fact_tickets',
    `select count(*) from analytics.fact_messages where kind = 'note'`,
  ],
  notes_by_users: ['select sum(notes) from analytics.agent_daily'],
  labels: [
    'select count(*) from analytics.fact_ticket_labels',
    'select count(*) from analytics.fact_ticket_labels join analytics.fact_tickets using (ticket_key)',
  ],
  open: [
    `select count(*) from analytics.fact_tickets where analytics.is_backlog(state, false, false)`,
    `select sum(tickets) from analytics.backlog_daily(current_date, current_date)`,
    `select count(*) from analytics.tickets_as_of(now()) where analytics.is_backlog(state, spam, trash)`,
    `select sum(open_tickets) + (select count(*) from analytics.fact_tickets where customer_key is null and analytics.is_backlog(state, false, false))
      from analytics.customer_summary`,
  ],
};

const over = [
  { what: 'one account', account: 'acme', filter: `= 'acme'`, when: {} },
  { what: 'all accounts', account: '', filter: 'is not null', when: long },
];
for (const { what, account, filter, when } of over)
  describe(`sums agree over ${what}:`, when, () => {
    const asked = async (sql: string): Promise<Sums> => {
      const client = await db.pool.connect();
      try {
        await client.query(`select set_config('shelfdesk.account', $1, false)`, [account]);
        const { rows } = await client.query(sql);
        const asReader = await (account === '' ? whole : reader).client.query(sql);
        if (!sql.includes('internal.')) expect(asReader.rows, sql).toEqual(rows);
        return rows[0];
      } finally {
        await client.query(`select set_config('shelfdesk.account', '', false)`);
        client.release();
      }
    };
    const read = async (sql: string): Promise<number> => Number(Object.values(await asked(sql))[0]);

    test.each(Object.entries(ways))('%s', async (name, each) => {
      const { rows } = await db.pool.query(truth(filter));
      const expected = Number(rows[0][name]);
      expect(expected).toBeGreaterThan(5);
      for (const sql of each) expect({ sql, is: await read(sql) }).toEqual({ sql, is: expected });
    });
  });

test('reports leave something out: the world has each kind of it', async () => {
  const { rows } = await db.pool.query(`
    select count(*) filter (where spam)::int as spam, count(*) filter (where trash)::int as trash, count(deleted_at)::int as deleted,
      count(*) filter (where spam is null and trash is not true and deleted_at is null)::int as unknown,
      count(*) filter (where not messages_complete)::int as incomplete
    from analytics.ticket_metrics`);
  for (const [kind, n] of Object.entries(rows[0])) expect({ kind, n }).toEqual({ kind, n: expect.any(Number) });
  expect(Math.min(...(Object.values(rows[0]) as number[]))).toBeGreaterThan(5);
});

test('no question and no fact tells again which tickets count', async () => {
  const said = (await readQueries()).filter(({ sql }) => /\b(is_)?(spam|trash)\b/.test(sql.replaceAll(/^--.*$/gm, '')));
  // Of a past time: countable tickets are those of now.
  expect(said.map(({ name }) => name)).toEqual(['as-of']);
  const { rows } = await db.pool.query(`
    select c.relname || '.' || a.attname as name from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'analytics'::regnamespace and c.relname ~ '^(dim|fact)_' and a.attname ~ '(^|_)(spam|trash|agent_key|channel)$'`);
  expect(rows).toEqual([]);
});

test('senders are those of the messages that count, with the hashes that readers of masks see', async () => {
  const client = await db.pool.connect();
  try {
    await client.query('begin');
    await client.query(`
      update internal.messages set from_address = (array['Ada@example.org', 'ada@example.org ', '+49 (30) 123', '', null, 'bo@example.org'])[1 + hashtext(id) & 7];
      insert into helpdesk.contacts (account_id, id, customer_id, type, value, _first_seen_at, _synced_at, _observed_at, _payload)
      select 'acme', v, 'c1', 'email', v, now(), now(), now(), '{}' from unnest(array['ADA@example.org', '+4930123', '']) v`);
    const { rows: senders } = await client.query(
      'select account_id, ticket_type, address, is_known, messages from analytics.message_senders order by 1, 2, 3',
    );
    const { rows: messages } = await client.query(`
      select t.account_id, t.type as ticket_type, m.from_address as address,
        case when m.from_address is not null then exists (
          select from safe.contacts c where c.account_id = m.account_id and c.value = m.from_address) end as is_known,
        count(*) as messages
      from safe.messages m join safe.tickets t on t.account_id = m.account_id and t.id = m.ticket_id
      where m.direction = 'in' and analytics.is_countable(t.spam, t.trash, t._deleted_at)
      group by 1, 2, 3, m.account_id, m.from_address order by 1, 2, 3`);
    expect(senders).toEqual(messages);
    expect(new Set(senders.map(one => one.is_known))).toEqual(new Set([true, false, null]));
  } finally {
    await client.query('rollback');
    client.release();
  }
});

// What null means: the comment of a column says so, and of two causes it names the column that decides.

const metrics = [
  'ticket_metrics',
  'countable_tickets',
  'reply_turns',
  'agent_daily',
  'arrivals_hourly',
  'customer_summary',
  'ticket_targets',
  'message_kinds',
];

test('each column of metrics and star that is ever null says what null means', async () => {
  const ofMetrics = relations.filter(({ name }) => metrics.includes(name) || /^(dim|fact)_/.test(name));
  expect(ofMetrics.length).toBeGreaterThan(20);
  const silent: string[] = [];
  let found = 0;
  for (const { name, columns } of ofMetrics) {
    const { rows } = await db.pool.query(
      `select ${columns.map(column => `bool_or(${column.name} is null) as ${column.name}`).join(', ')} from analytics.${name}`,
    );
    for (const { name: column, comment } of columns) {
      if (rows[0][column]) found++;
      if (rows[0][column] && !/\bnull\b/i.test(comment)) silent.push(`${name}.${column}`);
    }
  }
  expect(found).toBeGreaterThan(60);
  expect(silent).toEqual([]);
});

/** "Null if a is null", "null if a or b is null". Whatever follows, as "; otherwise", names further causes. */
const claim = /\b[Nn]ull if (\w+)(?: or (\w+))? is null\b([.;,])/g;

test('a comment that says by another column when a column is null is right', async () => {
  const untrue: string[] = [];
  let found = 0;
  for (const { name, columns } of relations)
    for (const { name: column, comment } of columns)
      for (const [said, one, other, end] of comment.matchAll(claim)) {
        found++;
        const cause = `(${one} is null${other ? ` or ${other} is null` : ''})`;
        const { rows } = await db.pool.query(
          `select count(*) filter (where ${cause} and ${column} is not null)::int as set,
             count(*) filter (where not ${cause} and ${column} is null)::int as unset from analytics.${name}`,
        );
        if (rows[0].set > 0 || (end === '.' && rows[0].unset > 0)) untrue.push(`${name}.${column}: ${said}`);
      }
  expect(found).toBeGreaterThan(30);
  expect(untrue).toEqual([]);
});

test('business time that is null says by another column why', async () => {
  for (const { name, columns } of relations)
    for (const { name: column, comment } of columns.filter(
      one => one.name.endsWith('_business_seconds') && !name.startsWith('stored_'),
    )) {
      const [, decides] = /\bNull if (\w+) is null; otherwise null means that .* calendar/.exec(comment) ?? [];
      expect({ name, column, comment, decides }).toEqual({ name, column, comment, decides: expect.any(String) });
      const { rows } = await db.pool.query(
        `select count(*)::int as found from analytics.${name} where ${decides} is null and ${column} is not null`,
      );
      expect({ name, column, ...rows[0] }).toEqual({ name, column, found: 0 });
    }
});
