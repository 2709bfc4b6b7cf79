import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect, promisify } from 'node:util';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { migrate, pendingMigrations } from '../../src/warehouse/migrate.ts';
// For its parser of bigint, which is set once for all files that share a process.
import '../../src/warehouse/pool.ts';
import { emptyDatabase, freshDatabase } from '../support/postgres.ts';

const first = '0001_schemas';
const migrations = new URL('../../migrations/', import.meta.url);

/** A folder with the project's first migration and others. */
async function folderWith(files: Record<string, string>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'shelfdesk-migrations-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  await copyFile(new URL(`${first}.sql`, migrations), join(folder, `${first}.sql`));
  for (const [name, sql] of Object.entries(files)) await writeFile(join(folder, name), sql);
  return folder;
}

const names = async (pool: pg.Pool, sql: string): Promise<string[]> =>
  (await pool.query<{ name: string }>(sql)).rows.map(({ name }) => name);
const appliedTo = (pool: pg.Pool) => names(pool, 'select name from sync.migrations order by id');
const publicTables = (pool: pg.Pool) =>
  names(pool, "select tablename as name from pg_tables where schemaname = 'public' order by 1");

test('a migrated database has nothing to do', async () => {
  await using db = await freshDatabase();
  const files = await readdir(migrations);
  expect(await appliedTo(db.pool)).toEqual(files.map(file => file.replace('.sql', '')).sort());
  expect(await migrate(db.url)).toEqual({ applied: [] });
  expect(await pendingMigrations(db.pool)).toEqual({ missing: [], unknown: [] });
});

test('eight programs that start at once on an empty database apply each migration once', async () => {
  await using db = await emptyDatabase();
  const { missing } = await pendingMigrations(db.pool);
  const results = await Promise.all(Array.from({ length: 8 }, () => migrate(db.url)));
  expect(results.flatMap(({ applied }) => applied)).toEqual(missing);
  expect(await appliedTo(db.pool)).toEqual(missing);
});

test('an older program refuses a newer database and changes nothing', async () => {
  await using db = await emptyDatabase();
  const newer = await folderWith({ '0002_future.sql': '-- Up Migration\ncreate table future ();\n' });
  await migrate(db.url, newer);

  const older = await folderWith({ '0003_own.sql': '-- Up Migration\ncreate table own ();\n' });
  await expect(migrate(db.url, older)).rejects.toMatchObject({
    message: 'the database has been migrated by a newer Shelfdesk: this one does not know 0002_future',
    remedy: expect.stringContaining('Upgrade Shelfdesk'),
    exitCode: 1,
  });

  expect(await pendingMigrations(db.pool, older)).toEqual({ missing: ['0003_own'], unknown: ['0002_future'] });
  expect(await publicTables(db.pool)).toEqual(['future']);
});

test('a migration that fails names itself and its line, and leaves nothing of itself behind', async () => {
  await using db = await emptyDatabase();
  const broken = {
    '0002_good.sql': "-- Up Migration\ncreate table good (tags text[] default '{}', name text);\n",
    '0003_broken.sql': '-- Up Migration\ncreate table half ();\n\nselect * from not_there;\n',
    '0004_later.sql': '-- Up Migration\ncreate table later ();\n',
  };
  await expect(migrate(db.url, await folderWith(broken))).rejects.toMatchObject({
    message: 'migration 0003_broken failed, line 4: relation "not_there" does not exist',
  });
  expect(await publicTables(db.pool)).toEqual(['good']);
  expect(await appliedTo(db.pool)).toEqual([first, '0002_good']);

  const mended = { ...broken, '0003_broken.sql': '-- Up Migration\ncreate table half ();\n' };
  expect(await migrate(db.url, await folderWith(mended))).toEqual({ applied: ['0003_broken', '0004_later'] });
  expect(await publicTables(db.pool)).toEqual(['good', 'half', 'later']);
});

test('a migration that comes before one already applied is refused', async () => {
  await using db = await emptyDatabase();
  await migrate(db.url, await folderWith({ '0003_second.sql': '-- Up Migration\nselect 1;\n' }));
  const late = await folderWith({
    '0002_late.sql': '-- Up Migration\ncreate table late ();\n',
    '0003_second.sql': '-- Up Migration\nselect 1;\n',
  });
  await expect(migrate(db.url, late)).rejects.toThrow('0002_late');
  expect(await publicTables(db.pool)).toEqual([]);
});

test('a database from before the catalog keeps what it knows of the help desk, and says where it stands', async () => {
  await using db = await emptyDatabase();
  const older = await folderWith({});
  const files = await readdir(migrations);
  for (const file of files.filter(name => name < '0006')) await copyFile(new URL(file, migrations), join(older, file));
  await migrate(db.url, older);
  const [minute, covered] = ['2026-01-01T10:00:00Z', '{[-infinity,"2026-01-01 10:00:00+00")}'];
  await db.pool.query(`
    insert into sync.accounts (account_id, source) values ('default', 'https://desk.example/api/v1');
    insert into sync.budget (account_id, state, version) values ('default', '{"atMs": 1}', 3);
    insert into sync.credit_minutes (account_id, minute, credit_limit, interactive, fresh, backfill, others, waited_ms, refused)
      values ('default', '${minute}', 100, 1, 2, 3, 4, 5, 6);
    insert into sync.coverage (account_id, stream, list, covered) values ('default', 'tickets', 'default', '${covered}');
    insert into sync.stored_runs (account_id, kind, state, started_at, finished_at)
      values ('default', 'sync', 'failed', '${minute}', '${minute}');
    insert into sync.stored_run_streams (run_id, account_id, stream, state, finished_at, seen, error, remedy, exit_code)
      select id, 'default', 'tickets', 'failed', '${minute}', 7, 'why', 'what to do', 1 from sync.stored_runs`);

  const { applied } = await migrate(db.url);
  expect(applied).toEqual(files.map(file => file.replace('.sql', '')).filter(name => name >= '0006'));
  const rows = async (sql: string) => (await db.pool.query(sql)).rows;
  const at = new Date(minute!);
  expect(await rows('select account_id, source, books_source from sync.accounts')).toEqual([
    { account_id: 'default', source: 'https://desk.example/api/v1', books_source: '' },
  ]);
  expect(await rows('select account_id, source, state, version from sync.budget')).toEqual([
    { account_id: 'default', source: 'helpdesk', state: { atMs: 1 }, version: 3 },
  ]);
  expect(await rows('select * from sync.credit_minutes')).toMatchObject([
    { source: 'helpdesk', minute: at, credit_limit: 100, interactive: 1, fresh: 2, backfill: 3, others: 4 },
  ]);
  expect(await rows('select stream, list, covered::text from sync.coverage')).toEqual([
    { stream: 'tickets', list: 'default', covered },
  ]);
  expect(await rows('select kind, state, finished_at from sync.stored_runs')).toEqual([
    { kind: 'sync', state: 'failed', finished_at: at },
  ]);
  expect(
    await rows('select stream, state, seen, error, remedy, exit_code, sleeps_until from sync.run_streams'),
  ).toMatchObject([{ stream: 'tickets', state: 'failed', error: 'why', exit_code: 1, sleeps_until: null }]);
  const status = 'stream, source, complete_through, waiting, last_state, last_error, sleeps_until';
  const through = { source: 'helpdesk', complete_through: at, waiting: 0, sleeps_until: null };
  expect(await rows(`select ${status} from sync.status order by stream`)).toEqual([
    { ...through, stream: 'messages', last_state: null, last_error: null },
    { ...through, stream: 'tickets', last_state: 'failed', last_error: 'why' },
  ]);
  // Each source has a budget, and minutes, of its own beside that.
  await db.pool.query(`
    insert into sync.budget (account_id, source, state) values ('default', 'books', '{}');
    insert into sync.credit_minutes (account_id, source, minute, credit_limit) values ('default', 'books', '${minute}', 1)`);
});

test('a database that cannot be reached is named without its password', async () => {
  const unreachable = 'postgres://somebody:not-to-be-shown@127.0.0.1:1/warehouse';
  const error = await migrate(unreachable).catch(error => error);
  expect(error).toMatchObject({
    message: 'no connection to database warehouse on 127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1',
    remedy: expect.stringContaining('DATABASE_URL'),
  });
  expect(inspect(error, { depth: 9 })).not.toContain('not-to-be-shown');
});

test('a dead connection while waiting for the lock ends with an error, not with the process', async () => {
  await using db = await emptyDatabase();
  const blocker = new pg.Client({ connectionString: db.url });
  await blocker.connect();
  await blocker.query("select pg_advisory_lock(x'53484d49'::int)");
  const waiting = migrate(db.url).catch(error => error.message);
  await expect
    .poll(async () => {
      const sql = "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and not granted";
      return (await blocker.query(sql)).rowCount;
    })
    .toBe(1);
  expect(await waiting).toContain('terminating connection due to administrator command');
  await blocker.end();
});

test('nothing is printed', async () => {
  await using db = await emptyDatabase();
  const module = new URL('../../src/warehouse/migrate.ts', import.meta.url);
  const program = `import { migrate } from '${module}'; await migrate('${db.url}');`;
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
  expect({ stdout, stderr }).toEqual({ stdout: '', stderr: '' });
});

test('the table of migrations explains itself', async () => {
  await using db = await freshDatabase();
  const { rows } = await db.pool.query(
    `select attname, col_description(attrelid, attnum) as comment from pg_attribute
     where attrelid = 'sync.migrations'::regclass and attnum >= 0`,
  );
  expect(rows.map(row => row.attname)).toEqual(['id', 'name', 'run_on']);
  expect(rows.filter(row => !row.comment)).toEqual([]);
});
