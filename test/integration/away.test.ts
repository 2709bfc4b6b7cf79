/**
 * A worker that begins while its database takes nothing waits for it, says why, and goes on: each reason is made in a real
 * PostgreSQL. A command ends with the same words, and without a stack.
 */
import { renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { describe, expect, type TestContext, test } from 'vitest';
import { settingsFor } from '../support/cli.ts';
import { type Here, here, ran } from '../support/here.ts';
import { long } from '../support/long.ts';
import { startOwnServer } from '../support/own-server.ts';
import { freshDatabase } from '../support/postgres.ts';
import { wayTo } from '../support/way.ts';

const nowhere = { url: 'http://127.0.0.1:1/api/v1', token: 'none' };
const envFor = (url: string) => ({ ...settingsFor(url, nowhere), SCHEDULE_FRESH: '', SCHEDULE_NIGHTLY: '' });

interface Worker extends Here {
  /** Ends it as people do, and holds it to how a worker ends. */
  stop(): Promise<void>;
}

function startWorker(url: string, atEnd: TestContext['onTestFinished']): Worker {
  const worker = here(['start'], envFor(url));
  atEnd(async () => void (await worker.interrupt()));
  return {
    ...worker,
    async stop() {
      const { code, stderr } = await worker.interrupt();
      expect(code).toBe(0);
      expect(stderr).not.toMatch(/\n {4}at /);
    },
  };
}

const atWork = /is running for account 'default'/;

describe.concurrent('a worker that begins', () => {
  test('waits while the server only reads, and a command says so', long, async ({ onTestFinished }) => {
    await using db = await freshDatabase();
    const name = new URL(db.url).pathname.slice(1);
    await db.pool.query(`alter database ${name} set default_transaction_read_only = on`);
    const worker = startWorker(db.url, onTestFinished);
    await worker.says(/! the (warehouse|database) cannot be used: read-only \(cannot execute .*\); waiting for it\n/);
    const command = await ran(['sync'], envFor(db.url));
    expect(command).toMatchObject({ code: 1, stdout: '' });
    expect(command.stderr).toMatch(/^error: the database cannot be used: read-only \(.*\)\nNo data is lost\./m);
    expect(command.stderr).not.toMatch(/\n {4}at /);
    await db.pool.query(`begin read write; alter database ${name} reset default_transaction_read_only; commit`);
    await worker.says(atWork);
    // Once, however often it was tried.
    expect(worker.stderr().match(/^! .* cannot be used: read-only/gm)).toHaveLength(1);
    await worker.stop();
  });

  test('waits where nobody answers, and can be told to end meanwhile', async ({ onTestFinished }) => {
    await using db = await freshDatabase();
    await using way = await wayTo(db.url);
    await way.close();
    const [one, other] = [startWorker(way.url, onTestFinished), startWorker(way.url, onTestFinished)];
    const waits = /! the warehouse does not answer: connect ECONNREFUSED .*; waiting for it\n/;
    await Promise.all([one.says(waits), other.says(waits)]);
    await other.stop();
    await way.open();
    await one.says(/^the warehouse is back$/m);
    await one.says(atWork);
    await one.stop();
  });

  test(
    'waits while the server crashes in the middle of the migration and recovers; and while its disk is full',
    long,
    async ({
      onTestFinished,
      // Of several tests at a time only its own knows which one it speaks of.
      expect,
    }) => {
      await using server = await startOwnServer({ empty: true, settings: { fsync: 'off' } });
      const connect = async () => {
        const client = new pg.Client({ connectionString: server.url });
        client.on('error', () => {});
        await client.connect();
        onTestFinished(() => client.end().catch(() => {}));
        return client;
      };
      // Some way into the migration it has to wait for a name that somebody else is about to take.
      const blocker = await connect();
      await blocker.query('begin; create schema analytics');
      const worker = startWorker(server.url, onTestFinished);
      const looker = await connect();
      await expect
        .poll(
          async () => {
            const { rows } = await looker.query(
              `select pid from pg_stat_activity where application_name = 'shelfdesk: migrates' and wait_event_type = 'Lock'`,
            );
            return rows[0]?.pid;
          },
          { timeout: 60_000 },
        )
        .toEqual(expect.any(Number));
      const { rows: done } = await looker.query('select count(*)::int as n from sync.migrations');
      expect(done[0].n).toBe(0);
      const { rows } = await looker.query(
        `select pid from pg_stat_activity where application_name = 'shelfdesk: migrates'`,
      );
      // A backend that is killed takes the whole server down: all sessions end, it recovers, and starts anew.
      process.kill(rows[0].pid, 'SIGKILL');
      await worker.says(/! .*; waiting for it\n/);
      await worker.says(atWork);
      await worker.stop();

      const owner = await connect();
      expect((await owner.query('select count(*)::int as n from sync.migrations')).rows[0].n).toBeGreaterThan(
        done[0].n,
      );
      // The file of one table leads to a device that is always full: PostgreSQL meets a real ENOSPC.
      await owner.query('truncate sync.workers');
      await owner.query('checkpoint');
      const { rows: paths } = await owner.query(
        `select current_setting('data_directory') as data, pg_relation_filepath('sync.workers') as file`,
      );
      const file = join(paths[0].data, paths[0].file);
      renameSync(file, `${file}.kept`);
      symlinkSync('/dev/full', file);
      const next = startWorker(server.url, onTestFinished);
      await next.says(
        /! the warehouse cannot be used: disk full \(could not extend file .*No space left on device\); waiting for it\n/,
      );
      renameSync(`${file}.kept`, file);
      await next.says(atWork);
      await next.stop();
    },
  );
});
