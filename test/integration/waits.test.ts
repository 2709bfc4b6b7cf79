/** A lock of somebody else: each command says what it waits for and who holds it, and a signal ends it. Real locks, real processes. */
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { migrateWarehouse } from '../../src/app/migrate.ts';
import { sentenceOf } from '../../src/engine/database/waits.ts';
import { settingsFor, shelfdesk } from '../support/cli.ts';
import { ran } from '../support/here.ts';
import { long } from '../support/long.ts';
import { openSandbox } from '../support/open-sandbox.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';

/** A session of Ana, who keeps what the statement locks. */
async function anaLocks(db: TestDatabase, statement: string): Promise<{ pid: number; free(): Promise<void> }> {
  const client = new pg.Client({ connectionString: db.url, application_name: 'psql of Ana' });
  client.on('error', () => {});
  await client.connect();
  onTestFinished(() => client.end().catch(() => {}));
  await client.query(`begin; ${statement}`);
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return { pid: rows[0]!.pid, free: async () => void (await client.query('rollback')) };
}

/** Runs the command until its stderr says who it waits for; then ends it with a signal. */
async function endsWaiting(
  args: readonly string[],
  env: Record<string, string>,
  sentence: RegExp,
): Promise<{ code: number | null; stderr: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-waits-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const { process: child, finished } = shelfdesk(args, env, folder);
  onTestFinished(() => void child.kill('SIGKILL'));
  let said = '';
  child.stderr!.on('data', chunk => {
    said += chunk;
  });
  while (!sentence.test(said) && child.exitCode === null)
    await Promise.race([once(child.stderr!, 'data'), once(child, 'exit')]);
  child.kill('SIGTERM');
  const { code, stderr } = await finished;
  expect(stderr).toMatch(sentence);
  return { code, stderr };
}

const waiting = async (db: TestDatabase) =>
  (
    await db.pool.query(
      `select a.query from pg_stat_activity a join pg_locks l using (pid)
       where not l.granted and a.datname = current_database() and a.application_name like 'shelfdesk%'`,
    )
  ).rows;

const heldBy = (what: string, pid: number) =>
  new RegExp(
    `! Waits for ${what}, which process ${pid} \\(role \\w+, psql of Ana, since [\\d-]+ [\\d:]+ UTC\\) holds\\.`,
  );

test('start, status, sql and doctor say who locks helpdesk.tickets, and a signal ends them', long, async () => {
  await using db = await freshDatabase();
  await using sandbox = await openSandbox({ tickets: 5 });
  const env = { ...settingsFor(db.url, sandbox), SCHEDULE_FRESH: '* * * * *' };
  expect((await ran(['sync'], env)).code).toBe(0);
  const { pid, free } = await anaLocks(db, 'lock table helpdesk.tickets in access exclusive mode');
  const sentence = heldBy('a lock on helpdesk\\.tickets', pid);
  const commands: [args: string[], code: number][] = [
    [['start'], 0],
    [['status'], 130],
    [['sql', 'select count(*) from helpdesk.tickets'], 130],
    [['doctor'], 130],
  ];
  const ends = commands.map(async ([args, code]) => {
    const ended = await endsWaiting(args, env, sentence);
    expect({ args, ...ended }).toEqual({ args, code, stderr: expect.not.stringContaining('bug') });
  });
  await Promise.all(ends);
  expect(await waiting(db)).toEqual([]);
  await free();
  expect((await ran(['sync'], env)).code).toBe(0);
  const { rows } = await db.pool.query(`select distinct state from sync.runs`);
  expect(rows.map(({ state }) => state)).not.toContain('failed');
});

test('migrate says who holds the lock of migrations; a locked table is not analysed, and named', async () => {
  await using db = await freshDatabase();
  const env = { DATABASE_URL: db.url };
  const lock = await anaLocks(db, `select pg_advisory_lock(${0x53_48_4d_49})`);
  expect(await endsWaiting(['migrate'], env, heldBy('the lock of migrations', lock.pid))).toMatchObject({
    code: 130,
  });
  expect(await waiting(db)).toEqual([]);
  await db.pool.query('select pg_terminate_backend($1, 5000)', [lock.pid]);
  const { free } = await anaLocks(db, 'lock table helpdesk.tickets in access exclusive mode');
  expect(await migrateWarehouse(db.url)).toEqual({ applied: [], busy: ['helpdesk.tickets'] });
  await free();
  expect(await migrateWarehouse(db.url)).toEqual({ applied: [] });
});

test('sentences', () => {
  const nobody = { relation: null, key: null, holder: null, role: null, program: null, backend: null, since: null };
  expect(sentenceOf({ ...nobody, kind: 'transactionid' })).toBe('Waits for a row.');
  expect(sentenceOf({ ...nobody, kind: 'tuple', relation: 'sync.runs', holder: 0 })).toBe(
    'Waits for a row of sync.runs, which a prepared transaction holds (see pg_prepared_xacts).',
  );
  expect(
    sentenceOf({ ...nobody, kind: 'relation', relation: 'sync.runs', holder: 7, backend: 'autovacuum worker' }),
  ).toBe(
    'Waits for a lock on sync.runs, which process 7 (autovacuum worker) holds. `select pg_terminate_backend(7)` ends that session.',
  );
});
