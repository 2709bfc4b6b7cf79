/**
 * What analysts wait for, and what erasures cost, in a warehouse of 200,000 tickets and a million messages that is made by SQL.
 * Words are as frequent as in a language: the second one stands in half as many messages as the first, and so on.
 */
import type pg from 'pg';
import { tickets as stream } from '../../src/streams/tickets.ts';
import { singleBatch } from '../../src/sync/batch.ts';
import { writeBatch } from '../../src/warehouse/commit.ts';
import { eraseCustomer } from '../../src/warehouse/operations.ts';
import { makePool, transaction } from '../../src/warehouse/pool.ts';
import { openDatabase } from '../lab.ts';
import type { Report, Section } from '../report.ts';

const all = 200_000;
const messagesEach = 5;
const ticketsEach = 4;
const vocabulary = 30_000;
const rounds = 5;
const nowMs = Date.UTC(2025, 10, 22);

export const analytics: Section = {
  name: 'analytics',
  title: 'Questions and erasures',
  about: `A warehouse of ${all.toLocaleString('en-US')} tickets of two years with five states each, ${(all * messagesEach).toLocaleString('en-US')} messages and ${(all / ticketsEach).toLocaleString('en-US')} customers, made by SQL. Milliseconds as whoever asks sees them. Changed tickets are written by the program, with history and metrics.`,
  run: async report => {
    await using database = await openDatabase();
    const tickets = report.quick ? all / 10 : all;
    await fill(database.pool, tickets);
    await askBacklog(database.pool, report);
    await askWords(database.pool, report);
    await askHours(database.pool, report);
    const pool = makePool(database.url);
    try {
      await changeFew(pool, tickets, report);
      await erase(pool, report);
    } finally {
      await pool.end();
    }
  },
};

const own = `_first_seen_at, _synced_at, _observed_at, _payload`;

/** Without triggers: history is given, and metrics are made for what changes. */
async function fill(pool: pg.Pool, tickets: number): Promise<void> {
  const client = await pool.connect();
  try {
    await fillBy(client, tickets);
  } finally {
    client.release(true);
  }
}

async function fillBy(client: pg.ClientBase, tickets: number): Promise<void> {
  await client.query(
    `set session_replication_role = replica; set synchronous_commit = off; set maintenance_work_mem = '256MB'`,
  );
  // Made again when the rows are there, which is faster.
  const { rows: indexes } = await client.query<{ name: string; made: string }>(
    `select indexrelid::regclass as name, pg_get_indexdef(indexrelid) as made from pg_index
     where indrelid = any ('{helpdesk.tickets, helpdesk.messages, helpdesk.contacts}'::regclass[]) and not indisunique`,
  );
  await client.query(`drop index ${indexes.map(({ name }) => name).join(', ')}`);
  await client.query(`
    insert into sync.accounts (account_id, since, queue) values ('default', '1970-01-01', gen_random_uuid()) on conflict do nothing;
    create table words as
      select n, (select string_agg(chr(97 + ('x' || substr(md5(n || '-' || k), 1, 6))::bit(24)::int % 26), '') from generate_series(1, 3 + n % 7) k) as word
      from generate_series(1, ${vocabulary}) n;
    create unique index on words (n);
    create table sentences as
      select n, (select string_agg(w.word, ' ') from generate_series(1, 8) k
        cross join lateral (select floor(exp(random() * ln(${vocabulary})))::int + 0 * k * n as r) z join words w on w.n = z.r) as said
      from generate_series(1, 60000) n;
    create unique index on sentences (n);
    create table world as
      select g.n, 't' || g.n as id, 'c' || g.n / ${ticketsEach} as customer, timestamptz '2025-11-22' - (${tickets} - g.n + 1) * interval '730 days' / ${tickets} as created_at,
        array_to_string((string_to_array(s.said, ' '))[1 : 3 + g.n % 4], ' ') || ' ' || g.n as subject
      from generate_series(1, ${tickets}) g (n) join sentences s on s.n = 1 + (g.n * 7919::bigint) % 60000;
    insert into helpdesk.tickets (account_id, id, number, customer_id, user_id, inbox_id, label_ids, state, type, subject, spam, trash, created_at, updated_at, _messages_as_of, ${own})
      select 'default', id, n, customer, 'u' || n % 30, 'i' || n % 5, '{l1}', case when n % 20 = 0 then 'open' else 'closed' end, 'email', subject, n % 50 = 0, false,
        created_at, created_at + interval '3 days', created_at + interval '4 days', created_at, created_at, created_at,
        jsonb_build_object('id', id, 'customer_id', customer, 'subject', subject, 'updated_at', created_at + interval '3 days')
      from world order by n;
    insert into helpdesk.ticket_history (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, valid_to, change_after, is_first)
      select 'default', id, case when k = 5 and n % 20 > 0 then 'closed' when k = 4 then 'hold' else 'open' end,
        case when k > 1 then 'u' || n % 30 end, 'i' || n % 5, '{l1}', n % 50 = 0, false,
        created_at + (k - 1) * interval '18 hours', case when k < 5 then created_at + k * interval '18 hours' end,
        created_at + (k - 1) * interval '18 hours' - interval '2 minutes', k = 1
      from world, generate_series(1, 5) k order by n, k;
    insert into helpdesk.messages (account_id, id, ticket_id, position, type, direction, user_id, from_name, from_address, to_address, body_text, created_at, ${own})
      select 'default', w.id || '-' || k, w.id, k, case k when 4 then 'note' else 'reply' end, case when k = 4 then null when k % 2 = 1 then 'in' else 'out' end,
        case when k % 2 = 0 then 'u' || w.n % 30 end, 'Ada ' || customer,
        case k % 2 when 1 then customer || '@example.org' else 'help@example.org' end, case k % 2 when 0 then customer || '@example.org' else 'help@example.org' end,
        a.said || '. ' || b.said || '? Order ' || w.n, created_at + k * interval '2 hours', created_at, created_at, created_at, '{}'
      from world w cross join generate_series(1, ${messagesEach}) k
        join sentences a on a.n = 1 + (hashint4(w.n * 7 + k) & 32767) join sentences b on b.n = 20001 + (hashint4(w.n * 11 + k) & 32767)
      order by w.n, k;
    insert into helpdesk.customers (account_id, id, first_name, _created_after, _created_before, _checked_at, ${own})
      select 'default', 'c' || n, 'Ada ' || n, t, t, t, t, t, t, jsonb_build_object('id', 'c' || n, 'first_name', 'Ada ' || n)
      from generate_series(0, ${tickets / ticketsEach}) n, (select timestamptz '2025-11-01') x (t);
    insert into helpdesk.contacts (account_id, id, customer_id, type, value, ${own})
      select 'default', 'k' || n, 'c' || n, 'email', 'c' || n || '@example.org', t, t, t, '{}'
      from generate_series(0, ${tickets / ticketsEach}) n, (select timestamptz '2025-11-01') x (t)`);
  for (const { made } of indexes) await client.query(made);
  await client.query('analyze');
}

/** ms of one after the other. */
async function timed(work: (round: number) => Promise<unknown>, times = rounds): Promise<number[]> {
  const took: number[] = [];
  for (let round = 0; round < times; round++) {
    const begun = performance.now();
    await work(round);
    took.push(performance.now() - begun);
  }
  return took;
}

async function askBacklog(pool: pg.Pool, { figure }: Report): Promise<void> {
  const ask = (sql: string) => timed(() => pool.query(sql));
  const ninety = `select * from analytics.backlog_daily('2025-08-24', '2025-11-21', 'Europe/Berlin')`;
  figure({
    what: 'the backlog of 90 days over 200,000 tickets',
    unit: 'ms',
    rounds: await ask(ninety),
    atMost: 1000,
    headline: true,
  });
  const asOf = `select count(*) from analytics.tickets_as_of('2025-10-01') where certain`;
  figure({ what: 'all tickets as of a day', unit: 'ms', rounds: await ask(asOf) });
}

async function askWords(pool: pg.Pool, { figure }: Report): Promise<void> {
  const one = async (sql: string, ...values: unknown[]): Promise<string> =>
    (await pool.query(sql, values)).rows[0]!.one;
  const ask = async (what: string, sql: string, value: string, atMost: number) =>
    figure({
      what,
      unit: 'ms',
      rounds: await timed(() => pool.query(sql, [value]), 4 * rounds),
      atMost,
      headline: true,
    });
  const search = 'select * from helpdesk.search_messages($1)';
  const words = { 'in most messages': 1, 'in one of fifty': 100, 'in one of a thousand': 3000, 'that is rare': 29_000 };
  for (const [which, rank] of Object.entries(words))
    await ask(
      `search in a million messages: a word ${which}`,
      search,
      await one('select word as one from words where n = $1', rank),
      20,
    );
  await ask('search in a million messages: a word that is nowhere', search, 'nowherenever', 20);
  const subject = await one(
    `select overlay(subject placing 'x' from 6) as one from helpdesk.tickets where id = 't777'`,
  );
  await ask('search: a subject with a slip of the pen', 'select * from helpdesk.similar_subjects($1)', subject, 100);
  await ask('search: an address with one', 'select * from helpdesk.similar_contacts($1)', 'cx777@example.org', 100);
}

async function askHours(pool: pg.Pool, { figure }: Report): Promise<void> {
  const calls = 100_000;
  await pool.query(`
    insert into analytics.calendars values ('office', 'Europe/Berlin');
    insert into analytics.calendar_holidays select 'office', '2020-12-25'::date + n from generate_series(0, 5) n;
    insert into analytics.calendar_hours select 'office', day, opens, closes
      from generate_series(1, 5) day, (values (time '09:00', time '12:30'), ('13:15', '18:00')) h (opens, closes);
    create table pairs as
      select timestamptz '2018-01-01' + random() * interval '8 years' as since, timestamptz '2018-01-01' + random() * interval '8 years' as until
      from generate_series(1, ${calls})`);
  const asked = () => pool.query(`select count(analytics.business_seconds('office', since, until)) from pairs`);
  const took = (await timed(asked)).map(ms => (ms * 1000) / calls);
  figure({ what: 'analytics.business_seconds, for each call', unit: 'µs', rounds: took, atMost: 25, headline: true });
}

/** A page as the source shows it. */
async function writePage(pool: pg.Pool, tickets: readonly number[], updatedMs: number, state: string): Promise<void> {
  const records = tickets.map(n => ({
    ...{ id: `t${n}`, number: n, customer_id: `c${Math.floor(n / ticketsEach)}`, subject: `Subject ${n}`, state },
    ...{ user_id: `u${n % 30}`, inbox_id: `i${n % 5}`, label_ids: ['l1'], type: 'email', spam: false, trash: false },
    ...{ created_at: new Date(nowMs - 86_400_000 * 30).toISOString(), updated_at: new Date(updatedMs).toISOString() },
  }));
  const batch = { ...singleBatch(stream, { records, text: '', date: 0 }), text: () => JSON.stringify(records) };
  const at = { nowMs: updatedMs + 60_000, asOfMs: updatedMs + 60_000 };
  await transaction(pool, client => writeBatch(client, { account: 'default', run: null }, batch, at, 'as it came'));
}

const states = ['hold', 'open', 'closed'];

async function changeFew(pool: pg.Pool, tickets: number, { figure }: Report): Promise<void> {
  const few = Array.from({ length: 50 }, (_, i) => 1000 + i * Math.floor(tickets / 60));
  const change = (round: number) => writePage(pool, few, nowMs + round * 3_600_000, states[round % 3]!);
  await timed(change, 3);
  const took = await timed(round => change(round + 3), 2 * rounds);
  figure({
    what: '50 changed tickets among 200,000, with history and metrics',
    unit: 'ms',
    rounds: took,
    atMost: 100,
    headline: true,
  });
}

async function erase(pool: pg.Pool, { figure }: Report): Promise<void> {
  const page = Array.from({ length: 100 }, (_, i) => 5000 + i);
  const unchanged = (first: number) => timed(() => writePage(pool, page, nowMs + first * 3_600_000, 'open'), 20);
  await unchanged(1);
  const [nothing, question] = await ask(pool);
  figure({ what: 'a commit asks whether anybody was erased', unit: 'ms', rounds: question! });
  figure({ what: 'a question that asks nothing', unit: 'ms', rounds: nothing! });
  figure({ what: 'an unchanged page of 100 tickets, where nobody was erased', unit: 'ms', rounds: await unchanged(1) });
  const took = await timed(
    round => eraseCustomer(pool, { account: 'default', customer: `c${100 + round}`, who: 'bench' }, new Date(nowMs)),
    3,
  );
  figure({ what: 'a person is erased', unit: 's', rounds: took.map(ms => ms / 1000), atMost: 10, headline: true });
  figure({ what: 'an unchanged page of 100 tickets, where somebody was', unit: 'ms', rounds: await unchanged(1) });
}

/** Each a thousand times, within one session. */
async function ask(pool: pg.Pool): Promise<number[][]> {
  const client = await pool.connect();
  const many = (text: string) => async () => {
    for (let i = 0; i < 1000; i++) await client.query({ name: text, text, values: ['default'] });
  };
  const nothing = await timed(many('select $1::text'));
  const any = await timed(many('select sync.any_erased($1)'));
  client.release();
  return [nothing, any].map(all => all.map(ms => ms / 1000));
}
