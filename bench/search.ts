/**
 * How long a search takes among so many messages, and a question for business time; and what the indexes cost to make.
 *
 *   node bench/search.ts [messages]      a million messages, 300,000 subjects and addresses: some minutes
 *
 * Words are as frequent as in a language: the second one stands in half as many messages as the first, and so on.
 */
import { openDatabase, secondsOf } from './lab.ts';

const [messages = 1_000_000] = process.argv.slice(2).map(Number);
const subjects = Math.round(messages * 0.3);
const vocabulary = 30_000;
const calls = 100_000;

await using database = await openDatabase();
const client = await database.pool.connect();
const say = (what: string, value: unknown) => console.log(`${what.padEnd(46)} ${value}`);
const timed = async (work: () => Promise<unknown>) => {
  const start = performance.now();
  await work();
  return performance.now() - start;
};

// Without triggers: history and metrics are not what is measured.
await client.query(
  `set session_replication_role = replica; set synchronous_commit = off; set client_min_messages = warning`,
);
const { rows: indexes } = await client.query<{ name: string; made: string }>(
  `select indexrelid::regclass as name, pg_get_indexdef(indexrelid) as made from pg_index
   where indexrelid in ('helpdesk.messages_words'::regclass, 'helpdesk.tickets_subject_alike'::regclass, 'helpdesk.contacts_value_alike'::regclass)`,
);
for (const { name } of indexes) await client.query(`drop index ${name}`);
const common = `'2026-01-01', '2026-01-01', '2026-01-01', '{}'`;
const own = '_first_seen_at, _synced_at, _observed_at, _payload';
await client.query(`
  insert into sync.accounts (account_id) values ('default') on conflict do nothing;
  create temp table words as
  select n, (select string_agg(chr(97 + ('x' || substr(md5(n || '-' || k), 1, 6))::bit(24)::int % 26), '') from generate_series(1, 3 + n % 7) k) as word
  from generate_series(1, ${vocabulary}) n;
  create unique index on words (n);
  create temp table sentences as
  select n, (select string_agg(w.word, ' ') from generate_series(1, 12) k
    cross join lateral (select floor(exp(random() * ln(${vocabulary})))::int + 0 * k * n as r) z join words w on w.n = z.r) as said
  from generate_series(1, 60000) n;
  create unique index on sentences (n);
  insert into helpdesk.messages (account_id, id, ticket_id, position, body_text, created_at, ${own})
  select 'default', 'm' || g, 't' || g / 3, 1, a.said || '. ' || b.said || ', ' || c.said || '? ' || d.said || '. Order ' || g,
    timestamptz '2024-01-01' + g * interval '75 seconds', ${common}
  from generate_series(1, ${messages}) g
  join sentences a on a.n = 1 + (hashint4(g) & 32767) join sentences b on b.n = 20001 + (hashint4(g + 7000000) & 32767)
  join sentences c on c.n = 1 + (hashint4(g * 2) & 32767) join sentences d on d.n = 10001 + (hashint4(g + 9000000) & 32767)
  order by g;
  insert into helpdesk.tickets (account_id, id, number, subject, created_at, updated_at, ${own})
  select 'default', 't' || g, g, case g % 3 when 0 then 'Re: ' else '' end || array_to_string((string_to_array(s.said, ' '))[1 : 3 + g % 4], ' ') || ' ' || w.word,
    timestamptz '2024-01-01' + g * interval '4 minutes', '2026-01-01', ${common}
  from generate_series(1, ${subjects}) g join sentences s on s.n = 1 + (g * 7919::bigint) % 60000 join words w on w.n = 1 + (g * 104729::bigint) % ${vocabulary};
  insert into helpdesk.contacts (account_id, id, customer_id, type, value, ${own})
  select 'default', 'k' || g, 'c' || g, 'email', a.word || '.' || b.word || g % 100 || '@' || (array['gmail.com', 'example.com', 'web.de', 'outlook.com'])[1 + g % 4], ${common}
  from generate_series(1, ${subjects}) g join words a on a.n = 1 + (g * 7919::bigint) % 3000 join words b on b.n = 1 + (g * 104729::bigint) % 20000`);
await client.query(`set maintenance_work_mem = '256MB'`);
for (const { name, made } of indexes) say(`made ${name}, s`, secondsOf(await timed(() => client.query(made))));

const one = async (sql: string, ...values: unknown[]): Promise<string> =>
  (await client.query(sql, values)).rows[0]!.one;
async function measure(what: string, sql: string, value: string): Promise<void> {
  const times: number[] = [];
  for (let i = 0; i < 21; i++) times.push(await timed(() => client.query(sql, [value])));
  const [first, ...others] = times;
  others.sort((a, b) => a - b);
  say(`${what}, ms: first, median, slowest`, [first!, others[10]!, others.at(-1)!].map(ms => ms.toFixed(1)).join('  '));
}
for (const rank of [1, 10, 100, 1000, 10_000, 29_000]) {
  const word = await one('select word as one from words where n = $1', rank);
  const holds = await one(
    'select count(*) as one from helpdesk.messages where helpdesk.search_words(body_text) @@ helpdesk.search_query($1)',
    word,
  );
  await measure(`a word in ${holds} messages`, 'select * from helpdesk.search_messages($1)', word);
}
await measure('a word that is nowhere', 'select * from helpdesk.search_messages($1)', 'nowherenever');
const subject = await one(`select overlay(subject placing 'x' from 6) as one from helpdesk.tickets where id = 't777'`);
await measure('a subject with a slip', 'select * from helpdesk.similar_subjects($1)', subject);
const address = await one(`select overlay(value placing 'x' from 2) as one from helpdesk.contacts where id = 'k777'`);
await measure('an address with a slip', 'select * from helpdesk.similar_contacts($1)', address);

await client.query(`set session_replication_role = origin;
  insert into analytics.calendars values ('office', 'Europe/Berlin');
  insert into analytics.calendar_holidays select 'office', '2020-12-25'::date + n from generate_series(0, 5) n`);
const hours = `insert into analytics.calendar_hours select 'office', day, opens, closes
  from generate_series(1, 5) day, (values (time '09:00', time '12:30'), ('13:15', '18:00')) h (opens, closes)`;
say('hours of a calendar changed, s', secondsOf(await timed(() => client.query(hours))));
await client.query(`create temp table pairs as
  select timestamptz '2018-01-01' + random() * interval '8 years' as since, timestamptz '2018-01-01' + random() * interval '8 years' as until
  from generate_series(1, ${calls})`);
const asked = () => client.query(`select count(analytics.business_seconds('office', since, until)) from pairs`);
await asked();
say('analytics.business_seconds, µs a call', (((await timed(asked)) * 1000) / calls).toFixed(1));
client.release(true);
