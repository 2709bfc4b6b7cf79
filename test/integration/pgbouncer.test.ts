import pg from 'pg';
import { expect, test } from 'vitest';
import { describeLongOnLake } from '../../packages/lake/test/support/lake.ts';
import { openWarehouse } from '../../src/app/context.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import { connectSession, sessionTo } from '../../src/engine/database/session/session.ts';
import { openLake } from '../../src/lake/package.ts';
import { settingsFor, shelfdesk } from '../support/cli.ts';
import { eventually } from '../support/desk.ts';
import { ran } from '../support/here.ts';
import { long } from '../support/long.ts';
import { openSandbox } from '../support/open-sandbox.ts';
import { describeWithPgBouncer, startPgBouncer } from '../support/pgbouncer.ts';
import { freshDatabase } from '../support/postgres.ts';

/** What a session is given must be there, whatever the database has for others. */
const odd = [
  ['standard_conforming_strings', 'off'],
  ['client_encoding', 'LATIN1'],
  ['datestyle', 'German'],
  ['intervalstyle', 'iso_8601'],
  ['timezone', 'Asia/Tokyo'],
  ['bytea_output', 'escape'],
  ['quote_all_identifiers', 'on'],
  ['default_transaction_isolation', 'serializable'],
  ['search_path', 'public'],
];

test('a session has the settings of ours, whatever the database has for others', async () => {
  await using db = await freshDatabase();
  const { rows } = await db.pool.query('select current_database() as name');
  for (const [name, value] of odd) await db.pool.query(`alter database ${rows[0].name} set ${name} = '${value}'`);
  const client = sessionTo(db.url, {});
  await connectSession(client, db.url, { search_path: 'pg_catalog, pg_temp' });
  const { rows: found } = await client.query('select name, setting from pg_settings where name = any ($1) order by 1', [
    odd.map(([name]) =>
      name === 'datestyle'
        ? 'DateStyle'
        : name === 'intervalstyle'
          ? 'IntervalStyle'
          : name === 'timezone'
            ? 'TimeZone'
            : name,
    ),
  ]);
  await client.end();
  expect(Object.fromEntries(found.map(({ name, setting }) => [name, setting]))).toEqual({
    standard_conforming_strings: 'on',
    client_encoding: 'UTF8',
    DateStyle: 'ISO, MDY',
    IntervalStyle: 'postgres',
    TimeZone: 'UTC',
    bytea_output: 'hex',
    quote_all_identifiers: 'off',
    default_transaction_isolation: 'read committed',
    search_path: 'pg_catalog, pg_temp',
  });
});

describeWithPgBouncer('PgBouncer', () => {
  test('a session for each client: everything works, and no lock outlives a killed process', long, async () => {
    await using db = await freshDatabase();
    await using bouncer = await startPgBouncer(db.url, { pool_mode: 'session', default_pool_size: '60' });
    await using stack = new AsyncDisposableStack();
    const sandbox = stack.use(await openSandbox({ tickets: 20 }));
    const settings = { ...settingsFor(bouncer.url, sandbox), SCHEDULE_NIGHTLY: '' };
    const synced = await ran(['sync'], settings);
    expect(synced).toMatchObject({ code: 0 });
    // This one logs everybody in as one user, whose rights would be those of the question.
    expect(await ran(['sql', 'select 1'], settings)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('logs everybody in as shelfdesk'),
    });
    const worker = shelfdesk(['start'], settings);
    const locks = `select count(*)::int as n from pg_locks where locktype = 'advisory' and classid = ${0x53_48_53_57}`;
    const held = async () =>
      (await db.pool.query(`${locks} and database = (select oid from pg_database where datname = current_database())`))
        .rows[0].n;
    await eventually(async () => expect(await held()).toBe(1));
    worker.process.kill('SIGKILL');
    await worker.finished;
    await eventually(async () => expect(await held()).toBe(0));
  });

  test.for(['transaction', 'statement'])(
    'a pooler that shares sessions after each %s is refused, and its sessions stay unchanged',
    async mode => {
      await using db = await freshDatabase();
      await using bouncer = await startPgBouncer(db.url, { pool_mode: mode });
      const env = { DATABASE_URL: bouncer.url, HELPDESK_BASE_URL: 'http://127.0.0.1:1/api/v1', HELPDESK_TOKEN: 't' };
      for (const command of ['migrate', 'sync', 'start', 'status']) {
        const { code, stderr } = await ran([command], env);
        expect([command, code, stderr]).toEqual([
          command,
          2,
          expect.stringMatching(new RegExp(`shares sessions after each ${mode}.*\n.*pool_mode = session`)),
        ]);
      }
      const { stdout } = await ran(['doctor'], env);
      expect(stdout).toContain(`shares sessions after each ${mode}`);
      const next = new pg.Client({ connectionString: bouncer.url });
      await next.connect();
      const { rows } = await next.query('show search_path');
      await next.end();
      expect(rows[0].search_path).toBe('"$user", public');
    },
  );

  test('sessions that are handed on as they are, with their locks, are refused', async () => {
    await using db = await freshDatabase();
    await using bouncer = await startPgBouncer(db.url, { pool_mode: 'session', server_reset_query: '' });
    const pool = makePool(bouncer.url);
    await expect(pool.query('select')).rejects.toThrow(/without resetting them/);
    await pool.end();
  });
});

await describeLongOnLake('the lake through PgBouncer', () => {
  describeWithPgBouncer('a session for each client', () => {
    test('reads the warehouse', async () => {
      await using db = await freshDatabase();
      await using bouncer = await startPgBouncer(db.url, { pool_mode: 'session' });
      await using warehouse = await openWarehouse({ databaseUrl: bouncer.url });
      const place = { path: '/nowhere', extensions: process.env.LAKE_EXTENSIONS };
      await using lake = await openLake(warehouse.url, place, { mode: 'none' });
      expect(await lake.rows('select count(*)::int as n from warehouse.sync.accounts')).toEqual([{ n: 0 }]);
    });
  });
});
