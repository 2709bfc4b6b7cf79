/**
 * What analysts wait for, and what it costs those who load: each section in a database of its own, with a world made by SQL.
 *
 *   node bench/analytics.ts [--tickets 200000] [section …]
 */
import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type pg from 'pg';
import { tickets as stream } from '../src/streams/tickets.ts';
import { migrate } from '../src/warehouse/migrate.ts';
import { openDatabase } from './lab.ts';

type Section = (tickets: number) => Promise<unknown>;

const sections: Record<string, Section> = {
  backlog,
  'first-load': firstLoad,
  migration,
};

const { values, positionals } = parseArgs({
  options: { tickets: { type: 'string', default: '200000' } },
  allowPositionals: true,
});
for (const [name, run] of Object.entries(sections)) {
  if (positionals.length > 0 && !positionals.includes(name)) continue;
  console.log(name, await run(Number(values.tickets)));
}

/** The best of three, in ms: what else the machine does shows in the others. */
async function best(work: () => Promise<unknown>): Promise<number> {
  const took: number[] = [];
  for (let i = 0; i < 3; i++) {
    const begun = performance.now();
    await work();
    took.push(performance.now() - begun);
  }
  return Math.round(Math.min(...took));
}

async function world(pool: pg.Pool, tickets: number): Promise<void> {
  await pool.query(`
    create unlogged table world as
      select n, 't' || n as id, '2025-11-22'::timestamptz - n * interval '730 days' / ${tickets} as created_at
      from generate_series(1, ${tickets}) n;
    insert into sync.accounts (account_id) values ('default') on conflict do nothing`);
}

/** Every ticket is assigned, held and, but for one in twenty, closed, within three days, two years long: five rows each. */
async function backlog(tickets: number): Promise<unknown> {
  await using db = await openDatabase();
  await world(db.pool, tickets);
  await db.pool.query(`
    alter table helpdesk.tickets disable trigger user;
    alter table helpdesk.ticket_history disable trigger user;
    insert into helpdesk.tickets (account_id, id, number, created_at, updated_at, _first_seen_at, _synced_at, _observed_at, _payload)
      select 'default', id, n, created_at, created_at, created_at, created_at, created_at, '{}' from world;
    insert into helpdesk.ticket_history
      (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, valid_to, change_after, is_first)
      select 'default', id, case when k = 5 and n % 20 > 0 then 'closed' when k = 4 then 'hold' else 'open' end,
        case when k > 1 then 'u' || n % 30 end, 'i' || n % 5, '{l1}', n % 50 = 0, false,
        created_at + (k - 1) * interval '18 hours', case when k < 5 then created_at + k * interval '18 hours' end,
        created_at + (k - 1) * interval '18 hours' - interval '2 minutes', k = 1
      from world, generate_series(1, 5) k
      order by created_at + k * interval '18 hours';
    analyze helpdesk.tickets, helpdesk.ticket_history`);
  const ask = (sql: string) => best(() => db.pool.query(sql));
  const seen = {
    backlog_of_90_days_ms: await ask(
      `select * from analytics.backlog_daily('2025-08-24', '2025-11-21', 'Europe/Berlin')`,
    ),
    backlog_of_2_years_ms: await ask(
      `select * from analytics.backlog_daily('2023-11-22', '2025-11-21', 'Europe/Berlin')`,
    ),
    tickets_as_of_ms: await ask(`select count(*) from analytics.tickets_as_of('2025-10-01') where certain`),
    intervals_of_a_ticket_ms: await ask(
      `select * from analytics.ticket_state_intervals where account_id = 'default' and ticket_id = 't77'`,
    ),
  };
  // As after an outage, or with nightly looks only: of a third of the tickets nobody knows on which day they changed.
  await db.pool.query(`
    update helpdesk.ticket_history set change_after = valid_from - interval '2 days' where hashtext(ticket_id) % 3 = 0 and not is_first;
    analyze helpdesk.ticket_history`);
  const uncertain = {
    backlog_of_90_days_ms: await ask(
      `select * from analytics.backlog_daily('2025-08-24', '2025-11-21', 'Europe/Berlin')`,
    ),
    tickets_as_of_ms: await ask(`select count(*) from analytics.tickets_as_of('2025-10-01') where certain`),
  };
  return { tickets, seen, uncertain };
}

/** The same pages into empty tables by the merge of the program, with and without what hangs on it. */
async function firstLoad(tickets: number): Promise<unknown> {
  const pages = Math.min(tickets, 50_000) / 100;
  const page = (p: number) =>
    JSON.stringify(
      Array.from({ length: 100 }, (_, i) => {
        const at = new Date(Date.UTC(2025, 0, 1) + (p * 100 + i) * 60_000).toISOString();
        const more = { user_id: `u${i % 30}`, inbox_id: `i${i % 5}`, state: i % 20 ? 'closed' : 'open', type: 'email' };
        const text = {
          subject: 'A subject of some length',
          summary: 'x'.repeat(200),
          label_ids: ['l1'],
          spam: false,
          trash: false,
        };
        return {
          id: `t${p * 100 + i}`,
          number: i,
          customer_id: `c${i}`,
          ...more,
          ...text,
          created_at: at,
          updated_at: at,
        };
      }),
    );
  const off = {
    without: 'alter table helpdesk.tickets disable trigger user',
    with_history: 'alter table helpdesk.ticket_history disable trigger user',
    with_metrics: '',
  };
  const took: Record<string, number> = {};
  for (let round = 0; round < 3; round++) {
    for (const [name, sql] of Object.entries(off)) {
      await using db = await openDatabase();
      await db.pool.query(`insert into sync.accounts (account_id) values ('default'); ${sql}`);
      const begun = performance.now();
      for (let p = 0; p < pages; p++)
        await db.pool.query({
          name: 'merge',
          text: stream.merge.upsert,
          values: [page(p), 'default', new Date(), new Date(), 1],
        });
      took[name] = Math.min(took[name] ?? Number.POSITIVE_INFINITY, Math.round(performance.now() - begun));
    }
  }
  return { tickets: pages * 100, ms: took };
}

/** From the tables before the history on, with two messages and three kept changes of every ticket; one in ten is deleted. */
async function migration(tickets: number): Promise<unknown> {
  await using db = await openDatabase({ empty: true });
  const folder = await mkdtemp(join(tmpdir(), 'shelfdesk-bench-migrations-'));
  const all = new URL('../migrations/', import.meta.url);
  for (const file of await readdir(all)) if (file < '0018') await copyFile(new URL(file, all), join(folder, file));
  await migrate(db.url, folder).finally(() => rm(folder, { recursive: true }));
  await world(db.pool, tickets);
  await db.pool.query(`
    insert into helpdesk.tickets (account_id, id, number, customer_id, user_id, inbox_id, label_ids, state, type, subject, spam, trash,
        created_at, updated_at, _deleted_at, _deleted_after, _messages_as_of, _first_seen_at, _synced_at, _observed_at, _payload)
      select 'default', id, n, 'c' || n % 50000, 'u' || n % 30, 'i' || n % 5, '{l1}', case when n % 20 = 0 then 'open' else 'closed' end,
        'email', 'Subject ' || n, n % 50 = 0, false, created_at, created_at + interval '3 days',
        case when n % 10 = 0 then created_at + interval '5 days' end, case when n % 10 = 0 then created_at + interval '4 days' end, now(), now(), now(),
        created_at + interval '3 days 1 minute', jsonb_build_object('id', id, 'subject', 'Subject ' || n, 'summary', repeat('x', 200))
      from world;
    insert into helpdesk.messages (account_id, id, ticket_id, position, type, direction, user_id, body, body_text, created_at,
        _first_seen_at, _synced_at, _observed_at, _payload)
      select 'default', id || '-' || k, id, k, 'reply', case k when 1 then 'in' else 'out' end, case k when 2 then 'u' || n % 30 end, b.text,
        b.text, created_at + k * interval '1 hour', now(), now(), now(), jsonb_build_object('id', id || '-' || k)
      from world, generate_series(1, 2) k, lateral (select repeat('word' || (n * k) % 5000 || ' and more ', 30) as text) b;
    insert into sync.changes (account_id, table_name, record_id, seen_at, as_of, run_id, changes)
      select 'default', 'tickets', id, created_at, created_at + k * interval '1 day' + interval '1 minute', 1, jsonb_build_object(
        'updated_at', jsonb_build_array(created_at + (k - 1) * interval '1 day', created_at + k * interval '1 day'),
        case k when 3 then 'state' else 'user_id' end, case k when 3 then '["open", "closed"]' when 2 then '["u1", "u2"]' else '[null, "u1"]' end::jsonb)
      from world, generate_series(1, 3) k;
    analyze`);
  await db.pool.query('drop table world');
  const begun = performance.now();
  const { applied } = await migrate(db.url);
  const seconds = Math.round((performance.now() - begun) / 100) / 10;
  const { rows } = await db.pool.query(
    `select count(*) as rows, count(valid_to) as ended, count(deleted_after) as deleted from helpdesk.ticket_history`,
  );
  return { tickets, seconds, applied, history: rows[0] };
}
