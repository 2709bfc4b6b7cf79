/** The sessions of the pool: what they hold is not held by a process that has vanished, or sleeps. */
import { expect, test } from 'vitest';
import { makePool, transaction } from '../../../src/engine/database/pool.ts';
import { isAway } from '../../../src/errors.ts';
import { freshDatabase } from '../../support/postgres.ts';

test('a session is given up when its machine vanishes, or sleeps in a transaction', async () => {
  await using db = await freshDatabase();
  const pool = makePool(db.url);
  const { rows } = await pool.query(
    `select name, setting, unit from pg_settings
     where name like 'tcp_keepalives%' or name = 'idle_in_transaction_session_timeout' order by name`,
  );
  await pool.end();
  expect(rows).toEqual([
    { name: 'idle_in_transaction_session_timeout', setting: '10000', unit: 'ms' },
    { name: 'tcp_keepalives_count', setting: '3', unit: null },
    { name: 'tcp_keepalives_idle', setting: '10', unit: 's' },
    { name: 'tcp_keepalives_interval', setting: '5', unit: 's' },
  ]);
});

test('a transaction that idles holds nobody up: it is ended, and to whoever had it the database was away', async () => {
  await using db = await freshDatabase();
  await db.pool.query(`insert into sync.accounts (account_id) values ('default')`);
  const row = 'select account_id from sync.accounts for update';
  const pool = makePool(db.url);
  const over = Promise.withResolvers<void>();
  const holds = Promise.withResolvers<void>();
  const idler = transaction(pool, async client => {
    // In one message: between two it would idle already.
    await client.query(`set local idle_in_transaction_session_timeout = 1; ${row}`);
    holds.resolve();
    await over.promise;
    await client.query(row);
  });
  idler.catch(() => {});
  await holds.promise;
  expect((await db.pool.query(row)).rows).toEqual([{ account_id: 'default' }]);
  over.resolve();
  await expect(idler).rejects.toSatisfy(isAway);
  expect((await pool.query(row)).rows).toEqual([{ account_id: 'default' }]);
  await pool.end();
});

test('a session that the database refuses writes to is not used again: it may be of a server that others have left', async () => {
  await using db = await freshDatabase();
  const pool = makePool(db.url);
  const session = async () => (await pool.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]!.pid;
  const before = await session();
  await pool.query('set default_transaction_read_only = on');
  const refused = transaction(pool, client => client.query('create table refused ()'));
  await expect(refused).rejects.toMatchObject({ code: '25006' });
  expect(await session()).not.toBe(before);
  // Another failure is no reason.
  const kept = await session();
  await expect(transaction(pool, client => client.query('select 1 / 0'))).rejects.toMatchObject({ code: '22012' });
  expect(await session()).toBe(kept);
  await pool.end();
});
