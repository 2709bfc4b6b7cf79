import { execFile } from 'node:child_process';
import { chmod, copyFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect, promisify } from 'node:util';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { joinEmbedded } from '../../src/embedded/postgres.ts';
import { migrate, pendingMigrations } from '../../src/engine/database/migrate.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import { letIn } from '../../src/privacy/readers.ts';
import { removeServer } from '../support/global.ts';
import { long } from '../support/long.ts';
import { emptyDatabase, freshDatabase } from '../support/postgres.ts';
import { aName } from '../support/readers.ts';

const first = '0001_shelfdesk';
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
  const files = (await readdir(migrations)).filter(file => file.endsWith('.sql'));
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
  const newer = await folderWith({ '0002_future.sql': '-- Up Migration\ncreate table public.future ();\n' });
  await migrate(db.url, newer);

  const older = await folderWith({ '0003_own.sql': '-- Up Migration\ncreate table public.own ();\n' });
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
    '0002_good.sql': "-- Up Migration\ncreate table public.good (tags text[] default '{}', name text);\n",
    '0003_broken.sql': '-- Up Migration\ncreate table public.half ();\n\nselect * from not_there;\n',
    '0004_later.sql': '-- Up Migration\ncreate table public.later ();\n',
  };
  await expect(migrate(db.url, await folderWith(broken))).rejects.toMatchObject({
    message: 'migration 0003_broken failed, line 4: relation "not_there" does not exist',
  });
  expect(await publicTables(db.pool)).toEqual(['good']);
  expect(await appliedTo(db.pool)).toEqual([first, '0002_good']);

  const mended = { ...broken, '0003_broken.sql': '-- Up Migration\ncreate table public.half ();\n' };
  expect(await migrate(db.url, await folderWith(mended))).toEqual({ applied: ['0003_broken', '0004_later'] });
  expect(await publicTables(db.pool)).toEqual(['good', 'half', 'later']);
});

test('a migration that comes before one already applied is refused', async () => {
  await using db = await emptyDatabase();
  await migrate(db.url, await folderWith({ '0003_second.sql': '-- Up Migration\nselect 1;\n' }));
  const late = await folderWith({
    '0002_late.sql': '-- Up Migration\ncreate table public.late ();\n',
    '0003_second.sql': '-- Up Migration\nselect 1;\n',
  });
  await expect(migrate(db.url, late)).rejects.toThrow('0002_late');
  expect(await publicTables(db.pool)).toEqual([]);
});

const checksums = async (pool: pg.Pool) =>
  (
    await pool.query<{ name: string; checksum: string | null }>(
      'select name, checksum from sync.migrations order by id',
    )
  ).rows;

test('an applied migration that was edited is refused by its name, and nothing is changed', async () => {
  await using db = await emptyDatabase();
  const released = {
    '0002_one.sql': '-- Up Migration\ncreate table public.one ();\n',
    '0003_two.sql': '-- Up Migration\ncreate table public.two ();\n',
  };
  await migrate(db.url, await folderWith(released));
  const before = await checksums(db.pool);
  expect(before.map(({ checksum }) => checksum)).toEqual(Array(3).fill(expect.stringMatching(/^[0-9a-f]{64}$/)));

  const edited = {
    ...released,
    '0002_one.sql': '-- Up Migration\ncreate table public.one (a int);\n',
    '0004_three.sql': '-- Up Migration\ncreate table public.three ();\n',
  };
  await expect(migrate(db.url, await folderWith(edited))).rejects.toMatchObject({
    message: 'edited after it was applied to this database: migration 0002_one',
    remedy: expect.stringContaining('Put the file back'),
    exitCode: 1,
  });
  expect(await publicTables(db.pool)).toEqual(['one', 'two']);
  // Also where nothing else is to be done; and of several each is named.
  const { '0004_three.sql': _, ...both } = { ...edited, '0003_two.sql': `${released['0003_two.sql']}-- said later\n` };
  await expect(migrate(db.url, await folderWith(both))).rejects.toThrow('migration 0002_one, 0003_two');
  expect(await checksums(db.pool)).toEqual(before);

  // Ends of lines are no edit.
  const windows = Object.fromEntries(
    Object.entries(released).map(([name, sql]) => [name, sql.replaceAll('\n', '\r\n')]),
  );
  expect(await migrate(db.url, await folderWith(windows))).toEqual({ applied: [] });
});

test('messages and labels that become views keep rows, rights, search, and the views of others; a materialized view is named', async () => {
  await using db = await emptyDatabase();
  const names = (await readdir(migrations)).filter(name => /^000[1-7]_.*\.sql$/.test(name)).sort();
  const upTo = async (last: string) =>
    folderWith(
      Object.fromEntries(
        await Promise.all(
          names
            .filter(name => name < last)
            .map(async name => [name, await readFile(new URL(name, migrations), 'utf8')]),
        ),
      ),
    );
  await migrate(db.url, await upTo('0006'));
  const other = aName('bi');
  await db.pool.query(`
    insert into sync.accounts (account_id) values ('acme');
    insert into helpdesk.tickets (account_id, id, label_ids, updated_at, _first_seen_at, _synced_at, _observed_at, _payload)
      values ('acme', 't1', '{l1,l2,l1}', now(), now(), now(), now(), '{}');
    insert into helpdesk.messages (account_id, id, ticket_id, position, body, body_text, _first_seen_at, _synced_at, _observed_at, _payload)
      select 'acme', id, 't1', n, body, text, now(), now(), now(), '{}'
      from (values (1, 'm1', 'a plain text', 'a plain text'), (2, 'm2', '<p>a parcel</p>', 'a parcel'), (3, 'm3', null, null)) v (n, id, body, text);
    create index messages_words on helpdesk.messages
      using gin (account_id, date_trunc('hour', created_at at time zone 'UTC'), helpdesk.search_words(body_text));
    delete from sync.changes;
    create role ${other}; create schema own authorization ${other};
    grant usage on schema helpdesk to ${other}; grant select on all tables in schema helpdesk to ${other};
    set role ${other};
    create view own.texts with (security_barrier) as select id, body_text from helpdesk.messages;
    create view own.labels as select ticket_id, label_id from helpdesk.ticket_labels;
    reset role;
    create materialized view own.stored as select id from helpdesk.messages`);
  const rows = async (sql: string) => {
    const client = await db.pool.connect();
    try {
      await client.query(`set role ${other}`);
      return (await client.query(sql)).rows;
    } finally {
      client.release(true);
    }
  };
  try {
    const all = await upTo('0008');
    await expect(migrate(db.url, all)).rejects.toThrow(/materialized view own\.stored reads helpdesk\.messages/);
    await db.pool.query('drop materialized view own.stored');
    await migrate(db.url, all);
    const texts = [
      { id: 'm1', body_text: 'a plain text' },
      { id: 'm2', body_text: 'a parcel' },
      { id: 'm3', body_text: null },
    ];
    expect(await rows('select id, body_text from helpdesk.messages order by id')).toEqual(texts);
    expect(await rows('select * from own.texts order by id')).toEqual(texts);
    const labels = ['l1', 'l2'].map(label_id => ({ ticket_id: 't1', label_id }));
    expect(await rows('select ticket_id, label_id from helpdesk.ticket_labels order by 2')).toEqual(labels);
    expect(await rows('select * from own.labels order by 2')).toEqual(labels);
    const owner = async (sql: string) => (await db.pool.query(sql)).rows;
    expect(await owner('select id from internal.messages where body_text is not null')).toEqual([{ id: 'm2' }]);
    expect(await owner(`select message_id from helpdesk.search_messages('plain')`)).toEqual([{ message_id: 'm1' }]);
    expect(await owner('select * from sync.changes')).toEqual([]);
    expect(await owner(`select reloptions from pg_class where oid = 'own.texts'::regclass`)).toEqual([
      { reloptions: ['security_barrier=true'] },
    ]);
  } finally {
    await db.pool.query(`drop schema own cascade; drop owned by ${other}; drop role ${other}`);
  }
});

test('a view of others on the star is named before columns go; rights on it stay', async () => {
  await using db = await emptyDatabase();
  const names = (await readdir(migrations)).filter(name => /^00(0\d|10)_.*\.sql$/.test(name)).sort();
  const read = async (chosen: string[]) =>
    folderWith(
      Object.fromEntries(
        await Promise.all(
          chosen.map(async name => [name, await readFile(new URL(name, migrations), 'utf8')] as [string, string]),
        ),
      ),
    );
  await migrate(db.url, await read(names.slice(0, -1)));
  const other = aName('bi');
  await db.pool.query(`
    create role ${other}; create schema own;
    grant select on analytics.fact_tickets, analytics.dim_agent to ${other};
    create view own.report as select ticket_key, is_spam from analytics.fact_tickets`);
  try {
    const all = await read(names);
    await expect(migrate(db.url, all)).rejects.toThrow(/the view own\.report reads analytics\.fact_tickets/);
    await db.pool.query('drop view own.report');
    await migrate(db.url, all);
    const { rows } = await db.pool.query(
      `select v, has_table_privilege('${other}', v, 'select') as may
       from unnest('{analytics.fact_tickets,analytics.dim_user,analytics.fact_turns}'::text[]) v`,
    );
    expect(rows).toEqual([
      { v: 'analytics.fact_tickets', may: true },
      { v: 'analytics.dim_user', may: true },
      { v: 'analytics.fact_turns', may: false },
    ]);
  } finally {
    await db.pool.query(`drop owned by ${other}; drop role ${other}`);
  }
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

test('nothing is printed', async () => {
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
