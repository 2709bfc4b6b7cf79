/** What history and metrics add to the work of PostgreSQL: seconds of CPU of the one session that writes, with triggers on and off. */
import { readFileSync } from 'node:fs';
import type pg from 'pg';
import type { Batch } from '../../../../src/engine/commit/page.ts';
import { writeBatch } from '../../../../src/engine/commit/rows.ts';
import { makePool, transaction, withKeptPlans } from '../../../../src/engine/database/pool.ts';
import { tickets as stream } from '../../../../src/sources/helpdesk/tickets.ts';
import { told } from '../../../../test/support/told.ts';
import { openDatabase } from '../lab.ts';
import type { Section } from '../report.ts';

const rounds = 3;
const perPage = 100;
const messagesEach = 5;
const nowMs = Date.UTC(2026, 5, 1);
const states = ['archived', 'archived', 'archived', 'closed', 'open'];
const stamp = (ms: number) => `${new Date(ms).toISOString().slice(0, 19)}Z`;
const createdMs = (n: number) => nowMs - 86_400_000 * 700 + n * 60_000;

const ticketOf = (n: number) => ({
  id: `${(n * 2_654_435_761) % 4_294_967_296}-${n}`,
  number: n,
  customer_id: `c${n % 5000}`,
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
    body: 'Dear all, '.repeat(30),
    more_body: null,
    htmlized: false,
    created_at: stamp(createdMs(n) + i * 7_200_000),
    attachments: [],
  }));

async function writePage(pool: pg.Pool, from: number): Promise<void> {
  const records = Array.from({ length: perPage }, (_, i) => ticketOf(from + i));
  const text = JSON.stringify(records);
  const batch: Batch = {
    merge: stream.merge,
    filter: stream.personal,
    records: records.map(({ id }, place) => ({ place, id })),
    text: () => text,
    record: () => text,
    parameters: () => [],
  };
  const at = { nowMs, asOfMs: nowMs };
  await transaction(
    pool,
    client => writeBatch({ client, claim: { account: 'default', run: 1 }, at, care: 'as it came' }, batch),
    withKeptPlans,
  );
}

const triggers = (pool: pg.Pool, on: boolean, table: string, names: string) =>
  pool.query(`do $$ declare t name; begin
    for t in select tgname from pg_trigger where tgrelid = '${table}'::regclass and not tgisinternal and tgname ~ '${names}'
    loop execute format('alter table ${table} ${on ? 'enable' : 'disable'} trigger %I', t); end loop; end $$`);

/** Measured in turn, so that no way has the smaller table. The first metrics of a ticket are written with its first row of history. */
const ways = [
  { what: 'without', on: false },
  { what: 'with history and metrics', on: true },
];

export const metrics: Section = {
  name: 'metrics',
  title: 'What history and metrics cost',
  about: [
    'CPU of the session that writes, on an embedded PostgreSQL as it comes: pages of 100 new tickets, and tickets with five messages',
    'of 0.3 KB that are read for the first time, with the triggers of history and of metrics on and off, in turn. Then all metrics are',
    'worked out anew (`call analytics.recompute`).',
  ].join(' '),
  async run({ quick, figure }) {
    await using db = await openDatabase();
    const pool = makePool(db.url);
    // One session for all, whose CPU is told.
    Object.assign(pool.options, { max: 1, idleTimeoutMillis: 0 });
    await pool.query(`insert into sync.accounts (account_id) values ('default')`);
    const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid');
    const cpuMs = () => Number(readFileSync(`/proc/${rows[0]!.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
    const costOf = async (work: () => Promise<unknown>) => {
      const before = cpuMs();
      await work();
      return cpuMs() - before;
    };
    const pages = quick ? 5 : 50;
    let next = 0;
    const load = async () => {
      for (let i = 0; i < pages; i++, next += perPage) await writePage(pool, next);
    };
    await load();
    const found = ways.map(() => [] as number[]);
    for (let round = 0; round < rounds; round++)
      for (const [i, { on }] of ways.entries()) {
        await triggers(pool, on, 'helpdesk.tickets', 'history');
        found[i]!.push((await costOf(load)) / pages);
      }
    for (const [i, { what }] of ways.entries())
      figure({ what: `a page of 100 new tickets, ${what}`, unit: 'ms', rounds: found[i]! });

    const some = quick ? 50 : 500;
    let read = 0;
    const readMessages = async () => {
      for (const until = read + some; read < until; read++)
        await told(pool, 'default', nowMs, ticketOf(read), talkOf(read));
    };
    await readMessages();
    const took = { without: [] as number[], with: [] as number[] };
    for (let round = 0; round < rounds; round++)
      for (const on of [false, true]) {
        await triggers(pool, on, 'internal.messages', 'metrics');
        took[on ? 'with' : 'without'].push((await costOf(readMessages)) / some);
      }
    figure({ what: 'a ticket with five messages, without metrics', unit: 'ms', rounds: took.without });
    figure({ what: 'a ticket with five messages, with metrics', unit: 'ms', rounds: took.with, atMost: 5 });
    const anew = await costOf(() => pool.query(`call analytics.recompute('default')`));
    figure({ what: 'all metrics anew, a ticket', unit: 'ms', rounds: [anew / next] });
    await pool.end();
  },
};
