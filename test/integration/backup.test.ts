/** `db backup`, `db restore` and `db run`: the warehouse in one file, without pg_dump. */
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { addDb } from '../../src/cli/setup/db.ts';
import { copiedTables, openCopying } from '../../src/engine/database/backup/backup.ts';
import { copyOut } from '../../src/engine/database/backup/copy.ts';
import { programEnvironment } from '../../src/engine/database/session/connection-url.ts';
import { shelfdesk } from '../support/cli.ts';
import { command } from '../support/command.ts';
import { configFor } from '../support/mirror.ts';
import { emptyDatabase, freshDatabase, type TestDatabase } from '../support/postgres.ts';
import { scripted, ticket } from '../support/scripted.ts';

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'shelfdesk-backup-'));
  onTestFinished(() => rm(made, { recursive: true }));
  return made;
}

const db = (url: string, ...args: string[]) =>
  command(addDb, configFor(url, { url: 'https://desk.example/api/v1', token: 'none' }), 'db', ...args);

/** With texts that COPY has to escape, and a reader whose login no server has. */
async function filled() {
  const s = await scripted();
  s.lists.tickets = [
    ticket('t1', { label_ids: ['l1'], subject: 'tab\there, line\nthere, \\N and \u{1f4da}' }),
    ticket('t2', { subject: '\\.' }),
    ticket('t3', { summary: '\\.\n\\.\n' }),
  ];
  await s.sync('tickets');
  await s.pool.query(`insert into sync.readers values ('shelfdesk_nobody', null, false, now(), 'a test')`);
  return s;
}

test('a table whose rows come in one piece leaves the connection ready for the next statement', async () => {
  await using database = await freshDatabase();
  await using session = await openCopying(database.url, 'a test');
  const rows = await copyOut(session.client, 'copy (select generate_series(1, 1000)) to stdout').toArray();
  expect(rows).toHaveLength(1000);
  expect((await session.client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
});

/** All rows of all tables. */
async function rowsOf({ pool }: Pick<TestDatabase, 'pool'>): Promise<Record<string, string[]>> {
  const client = await pool.connect();
  const tables = await copiedTables(client as never).finally(() => client.release());
  const all: Record<string, string[]> = {};
  for (const { name } of tables) {
    const { rows } = await pool.query(`select t::text as row from ${name} t order by 1`);
    all[name] = rows.map(({ row }) => row);
  }
  return all;
}

test('an empty database gets each row of the backup, its sequences and triggers, and says which logins are missing', async () => {
  await using s = await filled();
  const file = join(await folder(), 'shelfdesk.gz');
  const made = await db(s.url, 'backup', file);
  expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(/: \d+ rows of \d+ tables, [\d.]+ MB\n$/) });
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(await readdir(join(file, '..'))).toEqual(['shelfdesk.gz']);

  await using other = await emptyDatabase();
  const restored = await db(other.url, 'restore', file);
  expect(restored).toMatchObject({ code: 0, stdout: expect.stringMatching(/^restored \d+ rows of \d+ tables, from /) });
  expect(restored.stderr).toContain('This server has no login shelfdesk_nobody.');
  const there = await rowsOf(other);
  expect(there['helpdesk.tickets']).toHaveLength(3);
  expect(there).toEqual(await rowsOf(s));

  const { rows } = await other.pool.query(
    `select nextval('sync.runs_id_seq')::int as next, (select max(id)::int from sync.stored_runs) as top,
       (select count(*)::int from pg_trigger where tgenabled <> 'O' and not tgisinternal) as off`,
  );
  expect(rows).toEqual([{ next: rows[0].top + 1, top: rows[0].top, off: 0 }]);
});

test('a file that is there is kept, unless --force is given', async () => {
  await using s = await filled();
  const file = join(await folder(), 'shelfdesk.gz');
  await writeFile(file, 'mine');
  expect(await db(s.url, 'backup', file)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('is there already'),
  });
  expect(await readFile(file, 'utf8')).toBe('mine');
  expect(await db(s.url, 'backup', file, '--force')).toMatchObject({ code: 0 });
  expect(gunzipSync(await readFile(file)).toString()).toMatch(/^{"format":"shelfdesk backup 1"/);
  expect(await db(s.url, 'backup', join(file, 'no', 'folder'))).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('cannot be written'),
  });
});

test('a warehouse with data is not replaced', async () => {
  await using s = await filled();
  const file = join(await folder(), 'shelfdesk.gz');
  await db(s.url, 'backup', file);
  const before = await rowsOf(s);
  expect(await db(s.url, 'restore', file)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('the database has data of Shelfdesk already, in sync.accounts'),
  });
  expect(await rowsOf(s)).toEqual(before);
});

test('a file that is no backup, is not whole, or was made by another version fills nothing', async () => {
  await using s = await filled();
  await using other = await freshDatabase();
  const before = await rowsOf(other);
  const file = join(await folder(), 'shelfdesk.gz');
  await db(s.url, 'backup', file);
  const whole = await readFile(file);
  const text = gunzipSync(whole).toString();
  const [header = '', ...lines] = text.split('\n');
  const headed = (change: (header: Record<string, unknown>) => void): Buffer => {
    const changed = JSON.parse(header);
    change(changed);
    return gzipSync([JSON.stringify(changed), ...lines].join('\n'));
  };
  const damaged = 'the backup is damaged';
  const bad: [what: string, bytes: Buffer, says: string][] = [
    ['no gzip', Buffer.from('hello'), 'the file is no backup'],
    ['another gzip', gzipSync('hello\n'), 'the file is no backup'],
    ['nothing', Buffer.alloc(0), damaged],
    ['cut', whole.subarray(0, whole.length - 9), damaged],
    ['cut and closed', gzipSync(text.slice(0, -200)), damaged],
    ['without its last line', gzipSync(text.slice(0, text.lastIndexOf('{'))), damaged],
    ['with more behind it', Buffer.concat([whole, Buffer.from('x')]), damaged],
    ['with another file behind it', Buffer.concat([whole, whole]), damaged],
    ['with a changed value', gzipSync(text.replace('there, line', 'there, lime')), damaged],
    ['with a row less', gzipSync(text.replace(/^.*there, line.*\n/m, '')), damaged],
    ['with a table of somebody else', headed(one => (one.tables = [{ name: 'public.x', columns: ['y'] }])), 'public.x'],
    [
      'of a newer version',
      headed(one => (one.migrations as unknown[]).push({ name: '9999_new', checksum: 'x' })),
      '9999_new',
    ],
    ['of an older version', headed(one => (one.migrations as unknown[]).pop()), 'it lacks 00'],
  ];
  for (const [what, bytes, says] of bad) {
    await writeFile(file, bytes);
    const refused = await db(other.url, 'restore', file);
    expect(refused.stderr, what).toContain(says);
    expect(refused.code, what).toBe(1);
    expect(await rowsOf(other), what).toEqual(before);
  }
  expect(await db(other.url, 'restore', `${file}.no`)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('cannot be read: ENOENT'),
  });
  await writeFile(file, whole);
  expect(await db(other.url, 'restore', file)).toMatchObject({ code: 0 });
});

test('an empty database is no warehouse', async () => {
  const file = join(await folder(), 'shelfdesk.gz');
  await using bare = await emptyDatabase();
  expect(await db(bare.url, 'backup', file)).toMatchObject({ code: 1, stderr: expect.stringContaining('are missing') });
  expect(await db(bare.url, 'run', 'true')).toMatchObject({
    code: 1,
    stderr: 'the database has no tables of Shelfdesk\nCheck DATABASE_URL, in the environment or in .env.\n',
  });
  await using migrated = await freshDatabase();
  expect(await db(migrated.url, 'backup', file)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('is empty'),
  });
  expect(await readdir(join(file, '..'))).toEqual([]);
});

test('a program of PostgreSQL gets the warehouse in its environment, and the answer is its exit code', async () => {
  await using s = await freshDatabase();
  const show =
    'console.log(process.env.PGDATABASE, process.argv.length, process.env.DATABASE_URL); process.exitCode = 7';
  const env = { DATABASE_URL: s.url };
  const { finished } = shelfdesk(['db', 'run', '--', process.execPath, '-e', show, '--', 'one'], env, await folder());
  expect(await finished).toMatchObject({ code: 7, stdout: `${new URL(s.url).pathname.slice(1)} 2 undefined\n` });
  const missing = shelfdesk(['db', 'run', 'no-such-program'], env, await folder());
  expect(await missing.finished).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('no-such-program cannot be run'),
  });
});

test('the variables for psql and pg_dump are the decoded parts of the URL', () => {
  expect(
    programEnvironment('postgres://a%40b:c%2Fd@[::1]:6543/e%20f?sslmode=verify-full&sslrootcert=/dev/null'),
  ).toEqual({
    PGHOST: '::1',
    PGPORT: '6543',
    PGUSER: 'a@b',
    PGPASSWORD: 'c/d',
    PGDATABASE: 'e f',
    PGSSLMODE: 'verify-full',
    PGSSLROOTCERT: '/dev/null',
  });
  expect(programEnvironment('postgres://u@/d?host=/var/run/postgresql')).toMatchObject({
    PGHOST: '/var/run/postgresql',
  });
});
