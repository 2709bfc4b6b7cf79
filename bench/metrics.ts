/**
 * What history and metrics cost, on an embedded PostgreSQL as it comes: a first load of tickets, the messages of a ticket, 50
 * changed tickets among many, and everything anew. CPU seconds of the server's session beside the clock, since a machine has others.
 *
 *   node bench/metrics.ts [tickets, default 200000]
 */
import { readFileSync } from 'node:fs';
import { tickets as stream } from '../src/streams/tickets.ts';
import { type Batch, writeBatch } from '../src/warehouse/commit.ts';
import { makePool, transaction } from '../src/warehouse/pool.ts';
import { told } from '../test/support/told.ts';
import { openDatabase } from './lab.ts';

const tickets = Number(process.argv[2] ?? 200_000);
const perPage = 100;
const messagesEach = 5;
const nowMs = Date.UTC(2026, 5, 1);
const yearsMs = 2 * 365 * 86_400_000;
const states = ['archived', 'archived', 'archived', 'closed', 'open'];

const stamp = (ms: number) => `${new Date(ms).toISOString().slice(0, 19)}Z`;
const createdMs = (n: number) => nowMs - yearsMs + Math.floor((n / tickets) * (yearsMs - 86_400_000));

const ticketOf = (n: number, more: object = {}) => ({
  id: `${(n * 2_654_435_761) % 4_294_967_296}-${n}`,
  number: n,
  customer_id: `c${n % (tickets / 3)}`,
  user_id: n % 4 === 0 ? null : `u${n % 12}`,
  inbox_id: `i${n % 6}`,
  label_ids: [`l${n % 25}`],
  state: states[n % states.length],
  snoozed_until: null,
  subject: `Where is my order of volume ${n}, and when does it come?`,
  type: 'email',
  spam: false,
  trash: false,
  created_at: stamp(createdMs(n)),
  updated_at: stamp(createdMs(n) + 36_000_000),
  reply_to: 'somebody@example.org',
  reply_cc: null,
  summary: null,
  ...more,
});

const talkOf = (n: number) =>
  Array.from({ length: messagesEach }, (_, i) => ({
    id: `m${n}-${i}`,
    type: i === 3 ? 'note' : 'reply',
    direction: i === 3 ? null : i % 2 === 0 ? 'in' : 'out',
    user_id: i % 2 === 0 ? null : `u${(n + i) % 12}`,
    from_name: 'Ada',
    from: 'ada@example.org',
    to: 'help@example.org',
    body: 'Dear all, '.repeat(60),
    more_body: null,
    htmlized: false,
    created_at: stamp(createdMs(n) + i * 7_200_000),
    attachments: [],
  }));

await using db = await openDatabase();
const pool = makePool(db.url);
pool.options.max = 1;
await pool.query(`insert into sync.accounts (account_id) values ('default')`);
const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid');
const cpuMs = () => Number(readFileSync(`/proc/${rows[0]!.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;

async function measure(what: string, of: number, work: () => Promise<unknown>): Promise<void> {
  const [cpu, clock] = [cpuMs(), performance.now()];
  await work();
  const [cpuTook, took] = [cpuMs() - cpu, performance.now() - clock];
  console.log(
    `${what.padEnd(66)} ${took.toFixed(0).padStart(8)} ms, ${cpuTook.toFixed(0).padStart(7)} ms CPU, ${((cpuTook * 1000) / of).toFixed(1).padStart(8)} µs CPU each`,
  );
}

async function writePage(records: readonly { id: string }[], asOfMs: number): Promise<void> {
  const text = JSON.stringify(records);
  const batch: Batch = {
    name: 'tickets',
    merge: stream.merge,
    records: records.map(({ id }, place) => ({ place, id })),
    text: () => text,
    record: () => text,
    parameters: () => [],
  };
  await transaction(pool, client =>
    writeBatch(client, { account: 'default', run: 1 }, batch, { nowMs: asOfMs, asOfMs }, 'as it came'),
  );
}

async function load(from: number, to: number): Promise<void> {
  for (let first = from; first < to; first += perPage)
    await writePage(
      Array.from({ length: perPage }, (_, i) => ticketOf(first + i)),
      nowMs,
    );
}

const triggers = (on: boolean, table: string, names: string) =>
  pool.query(`do $$ declare t name; begin
    for t in select tgname from pg_trigger where tgrelid = '${table}'::regclass and not tgisinternal and tgname ~ '${names}'
    loop execute format('alter table ${table} ${on ? 'enable' : 'disable'} trigger %I', t); end loop; end $$`);

console.log(`${tickets} tickets of ${messagesEach} messages`);
const part = Math.floor(tickets / 10 / perPage) * perPage;
// The first tenth warms everything up; the others are measured in turn, so that no way has the smaller table.
await load(0, part);
const ways = [
  { what: 'first load of tickets, without history and metrics', history: false, metrics: false },
  { what: 'with history', history: true, metrics: false },
  { what: 'with history and metrics', history: true, metrics: true },
];
for (let n = 0; n < 9; n++) {
  const { what, history, metrics } = ways[n % 3]!;
  await triggers(history, 'helpdesk.tickets', 'history');
  await triggers(metrics, 'helpdesk.ticket_history', 'metrics');
  await measure(`${what} (${part})`, part, () => load((n + 1) * part, (n + 2) * part));
}
await triggers(true, 'helpdesk.tickets', 'history');
await triggers(true, 'helpdesk.ticket_history', 'metrics');
// What was loaded without them.
await pool.query(`insert into helpdesk.ticket_history
  select t.account_id, t.id, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam, t.trash, t.updated_at, null, t.created_at - interval '1 second'
  from helpdesk.tickets t where not exists (select from helpdesk.ticket_history h where h.account_id = t.account_id and h.ticket_id = t.id)`);
await triggers(false, 'helpdesk.messages', 'metrics');
await pool.query(
  `insert into helpdesk.messages (account_id, id, ticket_id, position, type, direction, user_id, body, created_at, _first_seen_at, _synced_at, _observed_at, _payload)
   select t.account_id, t.id || '-' || i, t.id, i, case when i = 4 then 'note' else 'reply' end,
     case when i = 4 then null when i % 2 = 1 then 'in' else 'out' end, case when i % 2 = 0 then 'u' || t.number % 12 end,
     repeat('Dear all, ', 60), t.created_at + i * interval '2 hours', $1, $1, $1, '{}'
   from helpdesk.tickets t cross join generate_series(1, ${messagesEach}) i where t.number >= ${part}`,
  [new Date(nowMs)],
);
await pool.query('analyze');
const few = Math.min(1000, part);
const readMessages = (from: number) => async () => {
  for (let n = from; n < from + few; n++) await told(pool, 'default', nowMs, ticketOf(n), talkOf(n));
};
await measure(`the messages of a ticket, without metrics (${few} tickets)`, few, readMessages(0));
await triggers(true, 'helpdesk.messages', 'metrics');
await measure(`with metrics (${few} tickets)`, few, readMessages(few));
await measure('everything anew: call analytics.recompute', tickets, () =>
  pool.query(`call analytics.recompute('default')`),
);

const changed = (state: string, at: number) => async () =>
  writePage(
    Array.from({ length: 50 }, (_, i) => ticketOf(part + i * 997, { state, updated_at: stamp(at - 60_000) })),
    at,
  );
await measure('50 changed tickets, the first such page of a session', 50, changed('hold', nowMs + 1e6));
for (const [i, state] of ['open', 'closed', 'hold'].entries())
  await measure('50 changed tickets, later ones', 50, changed(state, nowMs + (i + 2) * 1e6));
await triggers(false, 'helpdesk.ticket_history', 'metrics');
await measure('50 changed tickets, without metrics', 50, changed('open', nowMs + 6e6));
await triggers(true, 'helpdesk.ticket_history', 'metrics');
await pool.query('truncate analytics.stored_ticket_metrics');
await measure('the migration: all tickets that are here', tickets, () =>
  pool.query('insert into analytics.stored_ticket_metrics select * from analytics.ticket_metrics_defined'),
);
const queries = {
  'a report: first response by inbox':
    'select inbox_id, percentile_cont(0.5) within group (order by first_response_seconds) from analytics.ticket_metrics where messages_complete group by 1',
  'reply_turns, all': 'select count(*), avg(wait_seconds) from analytics.reply_turns',
  'agent_daily, all': 'select count(*) from analytics.agent_daily',
  'arrivals_hourly, all': 'select count(*) from analytics.arrivals_hourly',
  'customer_summary, all': 'select count(*), sum(tickets) from analytics.customer_summary',
  'integrity, all': 'select count(*) from analytics.integrity where found > 0',
};
for (const [what, query] of Object.entries(queries)) await measure(what, 1, () => pool.query(query));
await pool.end();
