/**
 * Three ways to the same tables: `schema/`, the migrations, and a database of the migrations before 0001_shelfdesk. These are
 * kept, compressed, in test/support/before-0001.sql.gz.
 */
import { readdir, readFile } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';
import type pg from 'pg';
import { expect, test } from 'vitest';
import { readSearch, searchOff } from '../../src/analytics/search.ts';
import { migrate } from '../../src/engine/database/migrate.ts';
import { sources } from '../../src/sources/index.ts';
import { emptyDatabase, freshDatabase } from '../support/postgres.ts';
import { dumpSchema } from '../support/schema-dump.ts';

const schema = new URL('../../schema/', import.meta.url);
const tableOfMigrations =
  'create schema sync; create table sync.migrations (id serial primary key, name varchar(255) not null, run_on timestamp not null)';

/** The tables of the migrations up to 0059_safe_change_by. */
async function before0001(pool: pg.Pool): Promise<void> {
  const packed = await readFile(new URL('../support/before-0001.sql.gz', import.meta.url));
  const files = gunzipSync(packed)
    .toString()
    .split(/^-- File (\w+)\n/m)
    .slice(1);
  const client = await pool.connect();
  try {
    await client.query(tableOfMigrations);
    for (let i = 0; i < files.length; i += 2) {
      await client.query(`begin; ${files[i + 1]}; commit`);
      await client.query('insert into sync.migrations (name, run_on) values ($1, now())', [files[i]]);
    }
  } finally {
    client.release();
  }
}

test('schema/ is what the migrations make', async () => {
  await using migrated = await freshDatabase();
  await using read = await emptyDatabase();
  const files = (await readdir(schema)).sort();
  const text = await Promise.all(files.map(file => readFile(new URL(file, schema), 'utf8')));
  await read.pool.query(`begin; ${tableOfMigrations}; ${text.join('\n')}; commit`);
  expect(await dumpSchema(read.pool)).toEqual(await dumpSchema(migrated.pool));
});

test('a database of the last old migration becomes one of today, with its rows and with the views of others', async () => {
  await using db = await emptyDatabase();
  await before0001(db.pool);
  await db.pool.query(`
    insert into sync.accounts (account_id, source) values ('default', 'https://desk.example/api/v1');
    insert into sync.coverage (account_id, stream, list) values ('default', 'tickets', 'default'), ('default', 'shelves', 'ada');
    insert into sync.hole_reasons values ('default', 'tickets', 'default', '[2026-01-01, 2026-01-02)', 'no answer', now());
    insert into sync.suspects (account_id, stream, record_id, suspected_at, alive_at)
      values ('default', 'tickets', 't1', '2026-01-02', '2026-01-01');
    insert into sync.audit (account_id, id, run_id, stream, record_id, checked_at, random) overriding system value
      values ('default', 1, 1, 'labels', 'l1', now(), false);
    insert into sync.paused values ('default', '', now(), 'ada'), ('default', 'volumes', now(), 'ada');
    insert into sync.stored_runs (account_id, kind, state, started_at, finished_at)
      values ('default', 'sync', 'partly', '2026-01-01', '2026-01-01');
    insert into sync.stored_run_streams (run_id, account_id, stream, state, finished_at)
      select id, 'default', 'tickets', 'partly', '2026-01-01' from sync.stored_runs;
    insert into sync.alarms (account_id, problem, stream, severity, says, remedy, began_at)
      values ('default', 'hole', 'users', 'warning', 's', 'r', now()), ('default', 'no_worker', '', 'critical', 's', 'r', now());
    insert into sync.targets values ('default', 'tickets', '5 min'), ('default', 'nightly', '6 h');
    insert into helpdesk.tickets (account_id, id, state, created_at, updated_at, label_ids, _first_seen_at, _synced_at, _observed_at, _payload)
      values ('default', 't1', 'open', '2026-01-01', '2026-01-01', '{l1}', now(), now(), now(), '{"id": "t1"}');
    update helpdesk.tickets set state = 'closed', updated_at = '2026-01-02';
    create schema reports;
    create view reports.open as
      select t.id, t.state, c.checked_at, s.complete_through, s.holes, m.message_count
      from helpdesk.tickets t
      left join sync.checked_tickets c on (c.account_id, c.ticket_id) = (t.account_id, t.id)
      left join sync.status s on s.account_id = t.account_id and s.stream = 'tickets'
      left join analytics.ticket_metrics m on (m.account_id, m.ticket_id) = (t.account_id, t.id)`);
  const rows = async (sql: string) => (await db.pool.query(sql)).rows;
  const kept = async () => ({
    tickets: await rows('select * from helpdesk.tickets'),
    history: await rows('select * from helpdesk.ticket_history order by valid_from'),
    changes: await rows('select id, record_id, changes from sync.changes'),
    metrics: await rows('select ticket_id, state, messages_complete from analytics.ticket_metrics'),
    view: await rows('select id, state, message_count from reports.open'),
  });
  const before = await kept();
  expect(before.history).toHaveLength(2);

  expect(await migrate(db.url, undefined, sources)).toMatchObject({
    applied: expect.arrayContaining(['0001_shelfdesk']),
  });
  expect(await migrate(db.url, undefined, sources)).toEqual({ applied: [] });
  expect(await kept()).toEqual(before);
  await using fresh = await freshDatabase();
  // Its tickets could be searched, and still can.
  expect((await readSearch(db.pool)).map(({ state }) => state)).toEqual(['on', 'on', 'on']);
  await searchOff(db);
  expect(await dumpSchema(db.pool)).toEqual(await dumpSchema(fresh.pool));

  const keys = async (table: string, column = 'stream_key') =>
    (await rows(`select ${column} as key from sync.${table} order by 1`)).map(({ key }) => key);
  expect(await keys('coverage')).toEqual(['books.shelves', 'helpdesk.tickets']);
  expect(await keys('audit')).toEqual(['helpdesk.labels']);
  expect(await keys('paused')).toEqual(['', 'books.volumes']);
  expect(await keys('alarms', `stream_key || ' ' || problem`)).toEqual([' no_worker', 'helpdesk.users gap']);
  expect(await keys('targets', 'subject')).toEqual(['helpdesk.tickets', 'nightly']);
  expect(await keys('stored_runs', 'state')).toEqual(['partial']);
  expect(await keys('stored_run_streams', 'state')).toEqual(['partial']);
  expect(await rows('select source, address from sync.sources')).toEqual([
    { source: 'helpdesk', address: 'https://desk.example/api/v1' },
  ]);
  expect(await rows('select stream_key, gap::text, reason from sync.gap_reasons')).toMatchObject([
    { stream_key: 'helpdesk.tickets', reason: 'no answer' },
  ]);
  expect(await rows('select stream_key, record_id from sync.deletion_candidates')).toEqual([
    { stream_key: 'helpdesk.tickets', record_id: 't1' },
  ]);
});

test('an older database is refused, and told what to do', async () => {
  await using db = await emptyDatabase();
  await before0001(db.pool);
  await db.pool.query(`delete from sync.migrations where name = '0059_safe_change_by'`);
  await expect(migrate(db.url)).rejects.toMatchObject({
    message:
      'the database stands at migration 0051_one_account; this version takes over databases from 0059_safe_change_by on',
    remedy: expect.stringMatching(/^Check out commit [0-9a-f]{7}, run `npx shelfdesk migrate` there, then here again/),
    exitCode: 1,
  });
  expect((await db.pool.query('select from sync.migrations')).rowCount).toBe(44);
});
