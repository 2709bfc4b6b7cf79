import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect, promisify } from 'node:util';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { migrate, pendingMigrations } from '../../src/warehouse/migrate.ts';
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
