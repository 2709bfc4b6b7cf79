import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { chmod, copyFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect, promisify } from 'node:util';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { joinEmbedded } from '../../src/embedded/postgres.ts';
import { migrate, ownSql, pendingMigrations, type Sql } from '../../src/engine/database/migrate.ts';
import { addMirrors } from '../../src/engine/database/mirrors.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import { refuseUnfit } from '../../src/engine/database/refusals.ts';
import { letIn } from '../../src/privacy/readers.ts';
import { sources } from '../../src/sources/index.ts';
import { removeServer } from '../support/global.ts';
import { long } from '../support/long.ts';
import { emptyDatabase, freshDatabase } from '../support/postgres.ts';
import { aName } from '../support/readers.ts';
import { dumpSchema } from '../support/schema-dump.ts';

const migrations = new URL('../../migrations/', import.meta.url);
const ours = readdirSync(migrations)
  .filter(file => file.endsWith('.sql'))
  .map(file => file.replace(/\.sql$/, ''))
  .sort();

/** A folder with the project's migrations and others. */
async function folderWith(files: Record<string, string>): Promise<Sql> {
  const folder = await mkdtemp(join(tmpdir(), 'shelfdesk-migrations-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const name of ours) await copyFile(new URL(`${name}.sql`, migrations), join(folder, `${name}.sql`));
  for (const [name, sql] of Object.entries(files)) await writeFile(join(folder, name), sql);
  return { ...ownSql, migrations: folder };
}

const names = async (pool: pg.Pool, sql: string): Promise<string[]> =>
  (await pool.query<{ name: string }>(sql)).rows.map(({ name }) => name);
const appliedTo = (pool: pg.Pool) => names(pool, 'select name from sync.migrations order by id');
const publicTables = (pool: pg.Pool) =>
  names(pool, "select tablename as name from pg_tables where schemaname = 'public' order by 1");

test('a migrated database has nothing to do', async () => {
  await using db = await freshDatabase();
  const files = (await readdir(migrations)).filter(file => file.endsWith('.sql'));
  expect(await appliedTo(db.pool)).toEqual(files.map(file => file.replace('.sql', '')).sort());
  expect(await migrate(db.url)).toEqual({ applied: [] });
  expect(await pendingMigrations(db.pool)).toEqual({ missing: [], unknown: [] });
});

test('four programs that start at once on an empty database apply each migration once', async () => {
  await using db = await emptyDatabase();
  const { missing } = await pendingMigrations(db.pool);
  const results = await Promise.all(Array.from({ length: 4 }, () => migrate(db.url)));
  expect(results.flatMap(({ applied }) => applied)).toEqual(missing);
  expect([...(await appliedTo(db.pool)), 'schema/views']).toEqual(missing);
});

test('an older program refuses a newer database and changes nothing', async () => {
  await using db = await freshDatabase();
  const newer = await folderWith({ '0902_future.sql': '-- Up Migration\ncreate table public.future ();\n' });
  await migrate(db.url, newer);

  const older = await folderWith({ '0903_own.sql': '-- Up Migration\ncreate table public.own ();\n' });
  await expect(migrate(db.url, older)).rejects.toMatchObject({
    message: 'the database has been migrated by a newer Shelfdesk: this one does not know 0902_future',
    remedy: expect.stringContaining('Upgrade Shelfdesk'),
    exitCode: 1,
  });

  expect(await pendingMigrations(db.pool, older)).toEqual({ missing: ['0903_own'], unknown: ['0902_future'] });
  expect(await publicTables(db.pool)).toEqual(['future']);
});

test('a migration that fails names itself and its line, and leaves nothing of itself behind', async () => {
  await using db = await emptyDatabase();
  const broken = {
    '0902_good.sql': "-- Up Migration\ncreate table public.good (tags text[] default '{}', name text);\n",
    '0903_broken.sql': '-- Up Migration\ncreate table public.half ();\n\nselect * from not_there;\n',
    '0904_later.sql': '-- Up Migration\ncreate table public.later ();\n',
  };
  await expect(migrate(db.url, await folderWith(broken))).rejects.toMatchObject({
    message: 'migration 0903_broken failed, line 4: relation "not_there" does not exist',
  });
  expect(await publicTables(db.pool)).toEqual(['good']);
  expect(await appliedTo(db.pool)).toEqual([...ours, '0902_good']);

  const mended = { ...broken, '0903_broken.sql': '-- Up Migration\ncreate table public.half ();\n' };
  expect(await migrate(db.url, await folderWith(mended))).toEqual({
    applied: ['0903_broken', '0904_later', 'schema/views'],
  });
  expect(await publicTables(db.pool)).toEqual(['good', 'half', 'later']);
});

test('a migration that comes before one already applied is refused', async () => {
  await using db = await freshDatabase();
  await migrate(db.url, await folderWith({ '0903_second.sql': '-- Up Migration\nselect 1;\n' }));
  const late = await folderWith({
    '0902_late.sql': '-- Up Migration\ncreate table public.late ();\n',
    '0903_second.sql': '-- Up Migration\nselect 1;\n',
  });
  await expect(migrate(db.url, late)).rejects.toThrow('0902_late');
  expect(await publicTables(db.pool)).toEqual([]);
});

const checksums = async (pool: pg.Pool) =>
  (
    await pool.query<{ name: string; checksum: string | null }>(
      'select name, checksum from sync.migrations order by id',
    )
  ).rows;

test('an applied migration that was edited is refused by its name, and nothing is changed', async () => {
  await using db = await freshDatabase();
  const released = {
    '0902_one.sql': '-- Up Migration\ncreate table public.one ();\n',
    '0903_two.sql': '-- Up Migration\ncreate table public.two ();\n',
  };
  await migrate(db.url, await folderWith(released));
  const before = await checksums(db.pool);
  expect(before.map(({ checksum }) => checksum)).toEqual(
    Array(ours.length + 2).fill(expect.stringMatching(/^[0-9a-f]{64}$/)),
  );

  const edited = {
    ...released,
    '0902_one.sql': '-- Up Migration\ncreate table public.one (a int);\n',
    '0904_three.sql': '-- Up Migration\ncreate table public.three ();\n',
  };
  await expect(migrate(db.url, await folderWith(edited))).rejects.toMatchObject({
    message: 'edited after it was applied to this database: migration 0902_one',
    remedy: expect.stringContaining('Put the file back'),
    exitCode: 1,
  });
  expect(await publicTables(db.pool)).toEqual(['one', 'two']);
  // Also where nothing else is to be done; and of several each is named.
  const { '0904_three.sql': _, ...both } = { ...edited, '0903_two.sql': `${released['0903_two.sql']}-- said later\n` };
  await expect(migrate(db.url, await folderWith(both))).rejects.toThrow('migration 0902_one, 0903_two');
  expect(await checksums(db.pool)).toEqual(before);

  // Ends of lines are no edit.
  const windows = Object.fromEntries(
    Object.entries(released).map(([name, sql]) => [name, sql.replaceAll('\n', '\r\n')]),
  );
  expect(await migrate(db.url, await folderWith(windows))).toEqual({ applied: [] });
});

/** The views of the project with changed ones, in a folder of their own. */
async function viewsWith(change: (text: string) => string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'shelfdesk-views-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const name of await readdir(ownSql.views))
    await writeFile(join(folder, name), change(await readFile(join(ownSql.views, name), 'utf8')));
  return folder;
}

const withViews = async (change: (text: string) => string): Promise<Sql> => ({
  ...ownSql,
  views: await viewsWith(change),
});

const tableOfMigrations =
  'create schema sync; create table sync.migrations (id serial primary key, name varchar(255) not null, run_on timestamp not null)';

test('schema/tables is what the migrations make, and schema/views goes on both', async () => {
  await using migrated = await freshDatabase();
  await using read = await emptyDatabase();
  const textOf = async (kind: string) => {
    const folder = new URL(`../../schema/${kind}/`, import.meta.url);
    const files = (await readdir(folder)).sort();
    return (await Promise.all(files.map(file => readFile(new URL(file, folder), 'utf8')))).join('\n');
  };
  await read.pool.query(`begin; ${tableOfMigrations}; ${await textOf('tables')}; ${await textOf('views')}; commit`);
  const client = await read.pool.connect();
  // A client that is not released keeps its pool open for ever.
  await addMirrors(client as unknown as pg.Client, sources, true).finally(() => client.release());
  await read.pool.query('select sync.settle_roles()');
  expect(await dumpSchema(read.pool)).toEqual(await dumpSchema(migrated.pool));
});

test('a database of the first migration alone is upgraded, with its rows and a view of somebody', async () => {
  await using db = await emptyDatabase();
  const [first, ...later] = ours;
  const text = await readFile(new URL(`${first}.sql`, migrations), 'utf8');
  await db.pool.query(`begin; ${tableOfMigrations}; ${text}; commit`);
  await db.pool.query('insert into sync.migrations (name, run_on) values ($1, now())', [first]);
  await db.pool.query(`
    insert into sync.view_sets (checksum, made) values ('of before', '{}');
    insert into sync.accounts (account_id, since) values ('kept', '2026-01-01');
    create view public.report as select subject from helpdesk.tickets`);
  expect(await migrate(db.url)).toEqual({ applied: [...later, 'schema/views'] });
  expect(await pendingMigrations(db.pool)).toEqual({ missing: [], unknown: [] });
  expect(await names(db.pool, 'select account_id as name from sync.accounts')).toEqual(['kept']);
  expect((await db.pool.query('select from public.report')).rowCount).toBe(0);
});

test('changed views are applied once, and keep rights and the views of others; what cannot stay is named', async () => {
  await using db = await freshDatabase();
  const other = aName('bi');
  await db.pool.query(`
    create role ${other}; create schema own authorization ${other};
    grant usage on schema analytics to ${other}; grant select on analytics.dim_label, analytics.dim_account to ${other};
    set role ${other};
    create view own.report with (security_barrier) as select label_key, label_name from analytics.dim_label;
    create view own.of_report as select label_key from own.report;
    reset role;
    comment on column own.report.label_name is 'As people call it.'`);
  const asOther = async (sql: string) => {
    const client = await db.pool.connect();
    try {
      await client.query(`set role ${other}`);
      const { rows, fields } = await client.query(sql);
      return { rows, columns: fields.map(({ name }) => name) };
    } finally {
      client.release(true);
    }
  };
  const ofLabels = /(create or replace view analytics\.dim_label with \(security_barrier\) as\nselect )/;
  try {
    // A column in front: the view cannot be replaced. Another one goes.
    const moved = await withViews(text =>
      text.replace(ofLabels, '$1true as is_new, ').replaceAll('analytics.dim_volume', 'analytics.dim_book'),
    );
    expect(await migrate(db.url, moved)).toEqual({ applied: ['schema/views'] });
    expect(await migrate(db.url, moved)).toEqual({ applied: [] });
    expect(await asOther('select * from own.of_report')).toEqual({ rows: [], columns: ['label_key'] });
    expect((await asOther('select * from analytics.dim_label')).columns.slice(0, 2)).toEqual(['is_new', 'label_key']);
    const { rows } = await db.pool.query(
      `select c.reloptions, c.relowner::regrole::text as owner, col_description(c.oid, 2) as says, to_regclass('analytics.dim_volume') as old
       from pg_class c where c.oid = 'own.report'::regclass`,
    );
    expect(rows).toEqual([
      { reloptions: ['security_barrier=true'], owner: other, says: 'As people call it.', old: null },
    ]);
    // An older program does not put its own back, whether it has been here before or not.
    await db.pool.query(`update sync.view_sets set version = '0.10.0'`);
    for (const older of [ownSql, await withViews(text => text.replace(ofLabels, '$11 as never_here, '))])
      await expect(migrate(db.url, older)).rejects.toThrow('newer Shelfdesk: this one does not know schema/views');
    await db.pool.query(`update sync.view_sets set version = '0.1.0'`);

    const without = await withViews(text => text.replaceAll('label_key', 'label_code'));
    await expect(migrate(db.url, without)).rejects.toMatchObject({
      message: expect.stringContaining('view own.report, view own.of_report'),
      remedy: expect.stringContaining('Nothing was changed'),
    });
    await db.pool.query('create materialized view own.stored as select label_key from analytics.dim_label');
    const back = await withViews(text => text.replace(ofLabels, '$11 as number, '));
    await expect(migrate(db.url, back)).rejects.toThrow('materialized view own.stored');
    const gone = await withViews(text =>
      text.replace(ofLabels, '$&true as is_new, ').replaceAll('analytics.dim_account', 'analytics.dim_desk'),
    );
    await db.pool.query(
      'drop materialized view own.stored; create view own.accounts as select * from analytics.dim_account',
    );
    await expect(migrate(db.url, gone)).rejects.toThrow(
      /view analytics\.dim_account goes, and something of yours reads it: .*own\.accounts/,
    );
    expect((await asOther('select * from analytics.dim_label')).columns[0]).toBe('is_new');
  } finally {
    await db.pool.query(`drop schema own cascade; drop owned by ${other}; drop role ${other}`);
  }
});

test('views that fail name themselves, and change nothing', async () => {
  await using db = await freshDatabase();
  const before = await dumpSchema(db.pool);
  const wrong = await withViews(text =>
    text.replace(/create or replace view analytics\.dim_label .*\nselect/, '$& not_there,'),
  );
  await expect(migrate(db.url, wrong)).rejects.toThrow(
    'the views cannot be made: view analytics.dim_label: column "not_there" does not exist',
  );
  expect(await dumpSchema(db.pool)).toEqual(before);
});

test('a function with another result is made anew, with the views that call it', async () => {
  await using db = await freshDatabase();
  await db.pool.query('create view public.of_label as select sync.label_of(source) as label from sync.streams');
  const other = await withViews(text =>
    text.replace(
      /(function sync\.label_of\(source text\) returns) text([\s\S]*?)end;\n/,
      '$1 varchar$2end::varchar;\n',
    ),
  );
  expect(await migrate(db.url, other)).toEqual({ applied: ['schema/views'] });
  const { rows } = await db.pool.query('select distinct label from public.of_label order by 1');
  expect(rows).toContainEqual({ label: 'the help desk' });
});

test('a database from before the first release is refused', async () => {
  await using db = await emptyDatabase();
  await db.pool.query(`create schema sync; create table sync.migrations (id serial primary key, name varchar(255) not null, run_on timestamp not null);
    insert into sync.migrations (name, run_on) values ('0001_shelfdesk', now())`);
  await expect(refuseUnfit(db.pool, [])).rejects.toMatchObject({
    message: expect.stringContaining('was made by a version of Shelfdesk before the first release'),
    remedy: expect.stringContaining('Name an empty database in DATABASE_URL'),
  });
});

test('long texts are kept in lz4 where the server has it', async () => {
  await using db = await freshDatabase();
  const { rows } = await db.pool.query(
    `select c.relname || '.' || a.attname as name, a.attcompression = 'l' as is_lz4, (
       select 'lz4' = any (enumvals) from pg_settings where name = 'default_toast_compression') as has
     from pg_attribute a join pg_class c on c.oid = a.attrelid
     where c.relkind = 'r' and c.relnamespace = any ('{helpdesk,books,internal}'::regnamespace[])
       and a.attname in ('_payload', 'body', 'more_body', 'body_text')`,
  );
  expect(rows.map(({ name }) => name)).toEqual(expect.arrayContaining(['messages.body', 'volumes._payload']));
  expect(rows.filter(({ is_lz4, has }) => is_lz4 !== has)).toEqual([]);
});

test('a database that cannot be reached is named without its password', async () => {
  const unreachable = 'postgres://somebody:not-to-be-shown@127.0.0.1:1/warehouse';
  const error = await migrate(unreachable).catch(error => error);
  expect(error).toMatchObject({
    message: 'database warehouse on 127.0.0.1:1 does not answer: connect ECONNREFUSED 127.0.0.1:1',
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

test('migrations print nothing', async () => {
  await using db = await emptyDatabase();
  const module = new URL('../../src/engine/database/migrate.ts', import.meta.url);
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
  expect(rows.map(row => row.attname)).toEqual(['id', 'name', 'run_on', 'checksum']);
  expect(rows.filter(row => !row.comment)).toEqual([]);
});

test(
  'in a new server a role that may make no roles is told which are missing, and the statements of let-readers-in.md are enough',
  long,
  async () => {
    const parent = await mkdtemp(join(tmpdir(), `shelfdesk-tests-${process.pid}-`));
    await chmod(parent, 0o755); // Root's PostgreSQL runs as another user, who has to get in here.
    const folder = join(parent, 'postgres');
    onTestFinished(async () => {
      await removeServer(folder);
      await rm(parent, { recursive: true });
    });
    const server = await joinEmbedded({ folder, settings: { fsync: 'off' } });
    onTestFinished(() => server.release());
    const asSuperuser = async (url: string, statements: string) => {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      await client.query(statements).finally(() => client.end());
    };
    await asSuperuser(server.url, `create role migrator login password 'x'`);
    await asSuperuser(server.url, 'create database warehouse owner migrator');
    const url = new URL(server.url);
    [url.username, url.password, url.pathname] = ['migrator', 'x', 'warehouse'];
    await expect(migrate(url.href)).rejects.toMatchObject({
      message: expect.stringContaining('role "shelfdesk_owner" does not exist'),
      remedy: expect.stringContaining('As a superuser: `create role shelfdesk_owner; '),
    });
    const readers = await readFile(new URL('../../docs/how-to/let-readers-in.md', import.meta.url), 'utf8');
    const [, statements] = /^```sql\n(create role shelfdesk_owner[\s\S]*?)^```$/m.exec(readers)!;
    await asSuperuser(server.url, statements!.replaceAll(/\bshelfdesk\b/g, 'migrator'));
    await migrate(url.href);
    const pool = makePool(url.href);
    onTestFinished(() => pool.end());
    expect(await letIn(pool, { name: 'ada', pii: true, accounts: null, who: 'me' }, new Date(0))).not.toBe('');
  },
);

test('no login of the database compiles its questions, whoever made it', async () => {
  await using db = await emptyDatabase();
  const role = aName('plain');
  const name = new URL(db.url).pathname.slice(1);
  const jitOf = async (url: string) => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    try {
      return (await client.query('show jit')).rows[0].jit;
    } finally {
      await client.end();
    }
  };
  await migrate(db.url);
  await db.pool.query(`create role ${role} login password 'plain' in role shelfdesk_writer`);
  onTestFinished(async () => {
    await using admin = await emptyDatabase();
    await admin.pool.query(`drop role ${role}`);
  });
  const plain = new URL(db.url);
  [plain.username, plain.password] = [role, 'plain'];
  expect([await jitOf(db.url), await jitOf(plain.href)]).toEqual(['off', 'off']);

  // A dump does not keep what belongs to the database. Whoever does not own it changes nothing.
  await db.pool.query(`alter database ${name} reset jit`);
  expect(await migrate(plain.href)).toEqual({ applied: [] });
  expect(await jitOf(plain.href)).toBe('on');
  expect(await migrate(db.url)).toEqual({ applied: [] });
  expect(await jitOf(plain.href)).toBe('off');

  // The operator wants it.
  await db.pool.query(`alter database ${name} set jit = on`);
  await migrate(db.url);
  expect(await jitOf(plain.href)).toBe('on');
});

test('a table that was loaded or restored has statistics when the program next opens the database', async () => {
  await using db = await freshDatabase();
  const counted = async () =>
    (await db.pool.query(`select reltuples::int as rows from pg_class where oid = 'helpdesk.users'::regclass`)).rows[0]
      .rows;
  await db.pool.query('alter table helpdesk.users set (autovacuum_enabled = false)');
  await db.pool.query(`insert into helpdesk.users (account_id, id, first_name, _first_seen_at, _synced_at, _observed_at, _payload)
    select 'default', n::text, repeat('x', 100), now(), now(), now(), '{}' from generate_series(1, 10000) n`);
  expect(await counted()).toBe(-1);
  await migrate(db.url);
  expect(await counted()).toBe(10_000);
});
