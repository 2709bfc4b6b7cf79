import { execFile } from 'node:child_process';
import { chmod, copyFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect, promisify } from 'node:util';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { joinEmbedded } from '../../src/embedded/postgres.ts';
import { migrate, pendingMigrations } from '../../src/engine/database/migrate.ts';
import { makePool, transaction } from '../../src/engine/database/pool.ts';
import { letIn } from '../../src/privacy/readers.ts';
import { buryTicket } from '../../src/sources/helpdesk/messages/waiting.ts';
import { tickets } from '../../src/sources/helpdesk/tickets.ts';
import { settingsFor, shelfdesk } from '../support/cli.ts';
import { removeServer } from '../support/global.ts';
import { long } from '../support/long.ts';
import { emptyDatabase, freshDatabase } from '../support/postgres.ts';
import { at, iso, second, ticket } from '../support/scripted.ts';

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

test('a database that was migrated before there were checksums takes them as they are, says so once, and is held to them', async () => {
  await using db = await emptyDatabase();
  const older = { '0002_one.sql': '-- Up Migration\ncreate table public.one ();\n' };
  const folder = await folderWith(older);
  await migrate(db.url, folder);
  const kept = await checksums(db.pool);
  await db.pool.query('alter table sync.migrations drop column checksum');
  const newer = { ...older, '0003_two.sql': '-- Up Migration\ncreate table public.two ();\n' };
  expect(await migrate(db.url, await folderWith(newer))).toEqual({
    applied: ['0003_two'],
    trusted: [first, '0002_one'],
  });
  expect((await checksums(db.pool)).slice(0, 2)).toEqual(kept);
  expect(await migrate(db.url, await folderWith(newer))).toEqual({ applied: [] });
  await expect(
    migrate(db.url, await folderWith({ ...newer, '0002_one.sql': '-- Up Migration\nselect 1;\n' })),
  ).rejects.toThrow('0002_one');
});

test('`migrate` tells of checksums that were taken unseen', async () => {
  await using db = await freshDatabase();
  await db.pool.query('update sync.migrations set checksum = null');
  const env = settingsFor(db.url, { url: 'https://desk.example/api/v1', token: 'none' });
  const all = (await readdir(migrations)).length;
  expect(await shelfdesk(['migrate'], env).finished).toMatchObject({
    code: 0,
    stdout: 'nothing to do\n',
    stderr: expect.stringMatching(new RegExp(`^${all} migrations \\(0001_schemas to \\w+\\) were applied before`)),
  });
  expect(await shelfdesk(['migrate'], env).finished).toMatchObject({ code: 0, stderr: '' });
});

test('rows of before the keys of streams get the source of their stream', async () => {
  await using db = await emptyDatabase();
  const older = await folderWith({});
  const files = await readdir(migrations);
  for (const file of files.filter(name => name < '0060')) await copyFile(new URL(file, migrations), join(older, file));
  await migrate(db.url, older);
  await db.pool.query(`
    insert into sync.accounts (account_id) values ('default');
    insert into sync.coverage (account_id, stream, list) values ('default', 'tickets', 'default'), ('default', 'shelves', 'ada');
    insert into sync.audit (account_id, id, run_id, stream, record_id, checked_at, random) overriding system value
      values ('default', 1, 1, 'labels', 'l1', now(), false);
    insert into sync.paused values ('default', '', now(), 'ada'), ('default', 'volumes', now(), 'ada');
    insert into sync.alarms (account_id, problem, stream, severity, says, remedy, began_at)
      values ('default', 'hole', 'users', 'warning', 's', 'r', now()), ('default', 'no_worker', '', 'critical', 's', 'r', now());
    insert into sync.targets values ('default', 'tickets', '5 min'), ('default', 'nightly', '6 h')`);
  expect((await migrate(db.url)).applied).toContain('0060_stream_keys');
  const keys = async (table: string, column = 'stream_key') =>
    names(db.pool, `select ${column} as name from sync.${table} order by 1`);
  expect(await keys('coverage')).toEqual(['books.shelves', 'helpdesk.tickets']);
  expect(await keys('audit')).toEqual(['helpdesk.labels']);
  expect(await keys('paused')).toEqual(['', 'books.volumes']);
  expect(await keys('alarms')).toEqual(['', 'helpdesk.users']);
  expect(await keys('targets', 'subject')).toEqual(['helpdesk.tickets', 'nightly']);
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
  expect(await rows('select account_id, source, address from sync.sources')).toEqual([
    { account_id: 'default', source: 'helpdesk', address: 'https://desk.example/api/v1' },
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

test('long texts are kept in lz4 where the server has it', async () => {
  await using db = await freshDatabase();
  const { rows } = await db.pool.query(
    `select c.relname || '.' || a.attname as name, a.attcompression = 'l' as is_lz4, (
       select 'lz4' = any (enumvals) from pg_settings where name = 'default_toast_compression') as has
     from pg_attribute a join pg_class c on c.oid = a.attrelid
     where c.relkind = 'r' and c.relnamespace = any ('{helpdesk,books}'::regnamespace[])
       and a.attname in ('_payload', 'body', 'more_body', 'body_text')`,
  );
  expect(rows.map(({ name }) => name)).toEqual(expect.arrayContaining(['messages.body', 'volumes._payload']));
  expect(rows.filter(({ is_lz4, has }) => is_lz4 !== has)).toEqual([]);
});

/** What befalls three tickets, page by page and with their tombstones, as the program writes it. */
async function live(url: string): Promise<void> {
  await using pool = Object.assign(makePool(url), { [Symbol.asyncDispose]: () => pool.end() });
  await pool.query(`insert into sync.accounts (account_id) values ('default') on conflict do nothing`);
  // The statement itself: what else a program of today writes with it, the tables of then do not know.
  const { rows: columns } = await pool.query(`select from pg_attribute
    where attrelid = 'helpdesk.tickets'::regclass and attname = '_true_by'`);
  const { upsert } = tickets.merge;
  // Tables of before keep no time by which a reply was true, and accounts no lookback.
  const merge =
    columns.length > 0
      ? upsert
      : upsert
          .replaceAll('_true_by, _payload', '_payload')
          .replaceAll('$6, _payload', '_payload')
          .replace(' _true_by = excluded._true_by,', '')
          .replaceAll(/(t|excluded)\._true_by/g, 'null::timestamptz')
          .replaceAll(/\(select a\.lookback[^)]*\)/g, `interval '2 minutes'`);
  const show = (n: number, ...records: object[]) =>
    transaction(pool, client =>
      client.query(merge, [JSON.stringify(records), 'default', at(n), at(n), 1, columns.length > 0 ? at(n) : null]),
    );
  const bury = (id: string, n: number) =>
    transaction(pool, client => buryTicket(client, { account: 'default', run: 1 }, id, second(n), at(n)));
  await show(
    1000,
    ticket('quiet', { updated_at: iso(900) }),
    ticket('busy', { created_at: iso(500), updated_at: iso(800) }),
  );
  await show(2000, ticket('busy', { created_at: iso(500), updated_at: iso(1900), subject: 'Coffee' }));
  await show(
    3000,
    ticket('busy', { created_at: iso(500), updated_at: iso(2900), state: 'hold', label_ids: ['l1', 'l2'] }),
  );
  await show(
    4000,
    ticket('busy', { created_at: iso(500), updated_at: iso(2900), state: 'hold', label_ids: ['l2', 'l1'] }),
  );
  await show(4100, ticket('busy', { created_at: iso(500), updated_at: iso(2900), state: 'closed', label_ids: ['l2'] }));
  // Dated before what was seen last: it takes its place.
  await show(
    4200,
    ticket('busy', { created_at: iso(500), updated_at: iso(4050), state: 'open', label_ids: [], user_id: 'u1' }),
  );
  // In the future.
  await show(
    5000,
    ticket('busy', { created_at: iso(500), updated_at: iso(95_000), state: 'closed', label_ids: [], spam: true }),
  );
  // In the future from the first: by what is kept of it, it is dated when it was first written here.
  await show(5100, ticket('early', { updated_at: iso(99_000) }));
  await show(5300, ticket('early', { updated_at: iso(99_000), state: 'closed' }));
  await show(1500, ticket('gone', { updated_at: iso(1400), state: 'hold' }));
  await bury('gone', 6000);
  await show(7000, ticket('gone', { updated_at: iso(1400), state: 'hold' }));
  await show(8000, ticket('gone', { updated_at: iso(7500), state: 'closed' }));
  await bury('gone', 9000);
}

/** Rows of a table, as text. */
const rowsOf = (pool: pg.Pool, table: string, columns: string) =>
  names(pool, `select row(${columns})::text as name from ${table} order by 1`);

test('a database from before the history gets all that was kept; nothing is lost, and views of before work still', async () => {
  await using fresh = await freshDatabase();
  await live(fresh.url);
  await using db = await emptyDatabase();
  const older = await folderWith({});
  const files = await readdir(migrations);
  for (const file of files.filter(name => name < '0018')) await copyFile(new URL(file, migrations), join(older, file));
  await migrate(db.url, older);
  await live(db.url);
  await db.pool.query(`create schema reports;
    create view reports.open as
      select t.*, c.checked_at, s.complete_through, h.changes
      from helpdesk.tickets t left join sync.checked_tickets c on (c.account_id, c.ticket_id) = (t.account_id, t.id)
      left join sync.status s on s.account_id = t.account_id and s.stream = 'tickets'
      left join sync.changes h on (h.account_id, h.record_id) = (t.account_id, t.id)`);
  const kept = async () => ({
    tickets: await rowsOf(
      db.pool,
      'helpdesk.tickets',
      'account_id, id, state, label_ids, updated_at, _observed_at, _deleted_at, _payload',
    ),
    changes: await rowsOf(db.pool, 'sync.changes', 'id, account_id, table_name, record_id, as_of, changes'),
    view: await rowsOf(db.pool, 'reports.open', 'id, state, checked_at, changes'),
  });
  const before = await kept();
  expect(before.changes.length).toBeGreaterThan(8);
  expect(await migrate(db.url)).toEqual({
    applied: files
      .map(file => file.replace('.sql', ''))
      .filter(name => name >= '0018')
      .sort(),
  });
  expect(await kept()).toEqual(before);

  const history = async (pool: pg.Pool) =>
    (
      await pool.query(
        `select ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, valid_to, deleted_after, is_first,
           change_after, greatest(valid_from, change_by) as change_by
         from helpdesk.ticket_history order by ticket_id, valid_from`,
      )
    ).rows.map(({ change_after, change_by, ...row }) => ({ row, after: change_after as Date, by: change_by as Date }));
  const [expected, found] = [await history(fresh.pool), await history(db.pool)];
  // What the triggers would have written. Only when the old values were last seen is not so well known.
  expect(expected).toHaveLength(10);
  expect(found.map(({ row }) => row)).toEqual(expected.map(({ row }) => row));
  for (const [i, { after, by, row }] of found.entries()) {
    // After a version that was dated ahead the older program took the reading before at its word.
    const isAfterSlip = row.ticket_id === 'early' && !row.is_first;
    expect(after.getTime(), JSON.stringify(row)).toBeLessThanOrEqual(
      expected[i]!.after.getTime() + (isAfterSlip ? second(5000) - second(-1) : 0),
    );
    // By when replies were true nobody kept: it is taken to be later, and nothing is certain that was not.
    expect(by.getTime(), JSON.stringify(row)).toBeGreaterThanOrEqual(
      expected[i]!.by.getTime() + (row.is_first ? 0 : 1000),
    );
    expect(after.getTime(), JSON.stringify(row)).toBeGreaterThanOrEqual(second(-1));
  }
  expect(await names(db.pool, 'select ticket_id as name from analytics.ticket_metrics order by 1')).toEqual([
    'busy',
    'early',
    'gone',
    'quiet',
  ]);
  // And it goes on from there.
  await db.pool.query(
    `update helpdesk.tickets set state = 'archived', updated_at = $1, _observed_at = $1 where id = 'quiet'`,
    [at(9999)],
  );
  expect((await history(db.pool)).at(-1)!.row).toMatchObject({
    ticket_id: 'quiet',
    state: 'archived',
    valid_from: at(9999),
  });
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
  'in a new server a role that may make no roles is told which are missing, and the statements of READERS.md are enough',
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
    const readers = await readFile(new URL('../../docs/READERS.md', import.meta.url), 'utf8');
    const [, statements] = /^```sql\n(create role shelfdesk_owner[\s\S]*?)^```$/m.exec(readers)!;
    await asSuperuser(server.url, statements!.replaceAll(/\bshelfdesk\b/g, 'migrator'));
    await migrate(url.href);
    const pool = makePool(url.href);
    onTestFinished(() => pool.end());
    expect(await letIn(pool, { name: 'ada', pii: true, accounts: null, who: 'me' }, new Date(0))).not.toBe('');
  },
);

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
