/** Each thing that the doctor looks at is broken for real, once: he says so, with the remedy, and mends what he may. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SandboxOptions } from '../../packages/sandbox/src/server.ts';
import { BLOCKED_TOKEN } from '../../packages/sandbox/src/switches.ts';
import { systemClock } from '../../src/clock.ts';
import { openQueue } from '../../src/engine/queue/queue.ts';
import { ok } from '../../src/ops/doctor/checks/check.ts';
import { judgeDisk } from '../../src/ops/doctor/checks/database.ts';
import { judgeVersion } from '../../src/ops/doctor/checks/queue.ts';
import { settingsFor } from '../support/cli.ts';
import { eventually } from '../support/desk.ts';
import { type Examined, type Examining, examined, only, someFolder } from '../support/examined.ts';
import { ran } from '../support/here.ts';
import { openSandbox } from '../support/open-sandbox.ts';
import { startOwnRedis } from '../support/own-redis.ts';
import { emptyDatabase, freshDatabase, type TestDatabase } from '../support/postgres.ts';
import { describeOnRedis } from '../support/redis.ts';

const nobody = 'postgres://shelfdesk:hidden-password@127.0.0.1:1/shelfdesk';
const desk = { HELPDESK_BASE_URL: 'http://127.0.0.1:1/api/v1', HELPDESK_TOKEN: 'secret-token-of-a-desk' };

/** Only the checks of these names, and what they need. */
const look = (environment: Record<string, string>, names: string[], options: Examining = {}): Promise<Examined> =>
  examined(environment, { checks: only(...names), ...options });

const fail = (remedy: string, says = '') => found('fail', remedy, says);
const warn = (remedy: string, says = '') => found('warn', remedy, says);
const found = (state: string, remedy: string, says: string) =>
  expect.objectContaining({ state, remedy: expect.stringContaining(remedy), says: expect.stringContaining(says) });
const skipped = (because: string) => expect.objectContaining({ state: 'skipped', because });
const good = expect.objectContaining({ state: 'ok' });

/** The checks of these names, and what they need, say so. */
async function finds(environment: Record<string, string>, expected: Record<string, unknown>, options: Examining = {}) {
  const report = await look(environment, Object.keys(expected), options);
  expect(Object.fromEntries(Object.keys(expected).map(name => [name, report.of(name)]))).toEqual(expected);
  return report;
}

const sandboxOf = (options: SandboxOptions = {}) => openSandbox({ tickets: 3, customers: 1, ...options });

describe('settings', () => {
  test('an old Node', async () => {
    await finds({}, { Node: fail('24.15') }, { node: '20.11.0' });
    for (const node of ['24.15.0', '26.0.0']) await finds({}, { Node: good }, { node });
  });

  test('everything that is wrong at once, and what others depend on is looked at all the same', async () => {
    const report = await examined({
      DATABASE_URL: nobody,
      HELPDESK_BASE_URL: 'ftp://desk.example',
      HELPDESK_CREDITS: 'many',
      HELPDESK_RESERVE: '-1',
      BOOKS_API_KEY: 'a-secret-key',
      SCHEDULE_NIGHTLY: '99 2 * * *',
    });
    const wrong = report.results.filter(({ name }) => name === 'settings');
    expect(wrong.map(({ says, state, remedy }) => [says.split(' ')[0], state, remedy])).toEqual(
      ['HELPDESK_BASE_URL', 'HELPDESK_CREDITS', 'HELPDESK_RESERVE', 'SCHEDULE_NIGHTLY', 'BOOKS_API_KEY'].map(name => [
        ...[name, 'fail', expect.stringMatching(/^(Change|Set) /)],
      ]),
    );
    expect([report.of('servers'), report.of('database')]).toEqual([good, fail('DATABASE_URL')]);
    expect(report.of('help desk')).toEqual(skipped('settings'));
  });

  test('an address of the database that is none: nothing is opened in its place', async () => {
    const report = await look({ ...desk, DATABASE_URL: 'mysql://somewhere' }, ['servers', 'database']);
    expect(report.results.map(({ name, state }) => [name, state])).toEqual([
      ['servers', 'skipped'],
      ['database', 'skipped'],
    ]);
  });

  test('no source', async () => {
    await finds({}, { sources: fail('HELPDESK_BASE_URL') });
    await finds(desk, { sources: good });
  });

  test('a name with a mistake in it, and a file that everybody may read: --fix takes that right away', async () => {
    await using folder = await someFolder();
    const file = join(folder.path, '.env');
    await writeFile(
      file,
      `HELPDESK_TOKNE=x\nHELPDESK_BASE_URL=${desk.HELPDESK_BASE_URL}\nHELPDESK_TOKEN=secret-token\n`,
    );
    const names = ['names in .env', 'files with secrets'];
    for (const [mode, state] of [
      [0o644, 'fail'],
      [0o640, 'warn'],
      [0o600, 'ok'],
    ] as const) {
      await chmod(file, mode);
      const report = await look({}, names, { folder: folder.path });
      expect([mode, report.of('files with secrets').state]).toEqual([mode, state]);
      expect(report.of('names in .env')).toEqual(warn('', 'HELPDESK_TOKNE'));
    }
    await chmod(file, 0o644);
    const asked = await look({}, names, { folder: folder.path });
    expect(asked.of('files with secrets')).toMatchObject({
      remedy: `Run \`chmod 600 ${file}\`.`,
      fix: expect.any(String),
      fixed: null,
    });
    const mended = await look({}, names, { folder: folder.path, fix: true });
    expect(mended.of('files with secrets')).toMatchObject({ state: 'ok', fixed: expect.stringContaining(file) });
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  });

  test('an accounts file, and the secret that it names, that other users may change; variables that are no settings', async () => {
    await using folder = await someFolder();
    const [file, secret] = [join(folder.path, 'fleet.yml'), join(folder.path, 'token')];
    await writeFile(secret, 'secret-token-in-a-file\n');
    await writeFile(join(folder.path, '.env'), 'SHELFDESK_CONFIG=fleet.yml\nNORTH_TOKEN=secret-token-of-the-north\n', {
      mode: 0o600,
    });
    await writeFile(
      file,
      `accounts:
  north:
    HELPDESK_BASE_URL: { env: ADDRESS }
    HELPDESK_TOKEN: { env: NORTH_TOKEN }
  south:
    HELPDESK_BASE_URL: { env: ADDRESS }
    HELPDESK_TOKEN: { file: token }
  west:
    HELPDESK_CREDITS: many
`,
    );
    await chmod(file, 0o666);
    await chmod(secret, 0o604);
    const environment = { ADDRESS: desk.HELPDESK_BASE_URL };
    const names = ['settings', 'sources', 'names in .env', 'files with secrets', 'the file of accounts'];
    const report = await look(environment, names, { folder: folder.path });
    expect([report.of('settings'), report.of('files with secrets')]).toEqual([
      fail('', 'HELPDESK_CREDITS'),
      fail('', secret),
    ]);
    expect(['north', 'south'].map(name => report.of('sources', name))).toEqual([good, good]);
    expect(report.of('names in .env')).toEqual(good);
    expect(report.of('the file of accounts')).toMatchObject({ state: 'warn', fix: expect.any(String) });
    const mended = await look(environment, names, { folder: folder.path, fix: true });
    expect([mended.of('files with secrets').state, mended.of('the file of accounts').state]).toEqual(['ok', 'ok']);
    expect([(await stat(file)).mode & 0o777, (await stat(secret)).mode & 0o777]).toEqual([0o644, 0o600]);
    await rm(secret);
    const lost = await look(environment, names, { folder: folder.path });
    expect(lost.of('settings').state).toBe('fail');
    expect(lost.of('files with secrets')).toMatchObject({ state: 'ok', says: expect.not.stringContaining('failed') });
  });

  test('a page that everybody could open', async () => {
    const open = { ...desk, SHELFDESK_WEB_HOST: '0.0.0.0' };
    await finds(open, { page: fail('SHELFDESK_WEB_TOKEN') });
    for (const safe of [{ ...open, SHELFDESK_WEB_TOKEN: 'a-long-token-of-operators' }, desk])
      await finds(safe, { page: good });
  });

  test('a secret in a command line', async () => {
    const token = `a-token-of-${process.pid}-for-this-test`;
    const settings = { ...desk, HELPDESK_TOKEN: token };
    const running = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)', token], { stdio: 'ignore' });
    try {
      await once(running, 'spawn');
      const report = await finds(settings, { 'command lines': fail('', `${running.pid}`) });
      expect(JSON.stringify(report.results)).not.toContain(token);
    } finally {
      running.kill('SIGKILL');
      if (running.exitCode === null && running.signalCode === null) await once(running, 'exit');
    }
    await finds(settings, { 'command lines': good });
  });
});

describe('database', () => {
  const all = ['rights', 'btree_gist', 'tables', 'connections', 'encoding', 'writable'];

  test('away: what needs it is left out, and the rest is looked at', async () => {
    const report = await examined({ ...desk, DATABASE_URL: nobody });
    expect(report.of('database')).toEqual(fail('DATABASE_URL'));
    expect(
      report.results.filter(one => one.because !== null && one.because !== 'Redis').map(one => one.because),
    ).toEqual(expect.arrayContaining(['database']));
    expect(report.of('next runs').state).toBe('ok');
    expect(report.credits).toBe(0);
  });

  test('a database that is not there', async () => {
    await using db = await emptyDatabase();
    const elsewhere = new URL(db.url);
    elsewhere.pathname = '/not_there_at_all';
    await finds({ ...desk, DATABASE_URL: elsewhere.href }, { database: fail('Make the database') });
  });

  test('a role without rights', async () => {
    await using db = await emptyDatabase();
    const role = `doctor_${process.pid}`;
    const name = new URL(db.url).pathname.slice(1);
    await db.pool.query(`create role ${role} login password 'let-me-look' connection limit 5`);
    try {
      await db.pool.query('create schema sync create table migrations (name text) create table coverage ()');
      const url = new URL(db.url);
      [url.username, url.password] = [role, 'let-me-look'];
      const settings = { ...desk, DATABASE_URL: url.href };
      const report = await look(settings, all);
      const said = report.results.filter(one => one.name === 'rights');
      expect(said.map(({ state, remedy }) => [state, remedy])).toEqual([
        ['fail', expect.stringContaining(`grant create on database ${name} to ${role}`)],
        ['fail', expect.stringContaining(`grant all on schema sync to ${role}`)],
        ['fail', expect.stringContaining(`reassign owned by <old role> to ${role}`)],
      ]);
      expect(report.of('btree_gist')).toEqual(fail('create extension'));
      // With the rights, but few connections.
      await db.pool.query(`drop schema sync cascade; grant create on database ${name} to ${role}`);
      const granted = await look(settings, all, { fix: true });
      expect(granted.of('rights').state).toBe('ok');
      expect(granted.of('tables')).toMatchObject({
        state: 'ok',
        fixed: expect.stringMatching(/^applied \d+ migrations$/),
      });
      expect(granted.of('connections')).toEqual(fail('max_connections'));
    } finally {
      await db.pool.query(`drop owned by ${role} cascade; drop role ${role}`);
    }
  });

  test('no tables, and tables of a newer version', async () => {
    await using db = await emptyDatabase();
    const settings = { ...desk, DATABASE_URL: db.url };
    const empty = await examined(settings, { checks: only('runs', 'help desk', ...all) });
    expect(empty.of('tables')).toMatchObject({
      state: 'fail',
      remedy: 'Run `npx shelfdesk migrate`.',
      fix: 'make them',
    });
    expect([empty.of('runs').because, empty.of('help desk').because]).toEqual(['tables', 'tables']);
    const mended = await look(settings, all, { fix: true });
    expect(mended.states()).toMatchObject({ ok: expect.arrayContaining(all) });
    await db.pool.query(`insert into sync.migrations (name, run_on) values ('9999_from_tomorrow', now())`);
    const newer = await look(settings, all, { fix: true });
    expect(newer.of('tables')).toMatchObject({ state: 'fail', remedy: expect.stringContaining('Upgrade'), fix: null });
  });

  test('one that only takes questions', async () => {
    await using db = await freshDatabase();
    const name = new URL(db.url).pathname.slice(1);
    await db.pool.query(`alter database ${name} set default_transaction_read_only = on`);
    await finds({ ...desk, DATABASE_URL: db.url }, { writable: fail('primary'), tables: skipped('writable') });
  });

  test('one for no letters', async () => {
    await using db = await emptyDatabase();
    const name = `${new URL(db.url).pathname.slice(1)}_ascii`;
    await db.pool.query(
      `create database ${name} encoding 'SQL_ASCII' locale_provider libc locale 'C' template template0`,
    );
    try {
      const url = new URL(db.url);
      url.pathname = name;
      await finds({ ...desk, DATABASE_URL: url.href }, { encoding: fail('UTF8') });
    } finally {
      await db.pool.query(`drop database ${name} with (force)`);
    }
  });

  test("a clock that is off, on either side, and a server that is told to be careless: the tests' own", async () => {
    await using db = await emptyDatabase();
    const settings = { ...desk, DATABASE_URL: db.url };
    for (const [byMs, state, word] of [
      [0, 'ok', 'goes as'],
      [10_000, 'warn', 'ahead of'],
      [-10_000, 'warn', 'behind'],
      [600_000, 'fail', 'ahead of'],
    ] as const) {
      const clock = { ...systemClock, now: () => systemClock.now() + byMs };
      const says = { state, says: expect.stringContaining(word) };
      const remedy = byMs === 0 ? {} : { remedy: expect.stringContaining('NTP') };
      await finds(settings, { 'clock of the database': expect.objectContaining({ ...says, ...remedy }) }, { clock });
    }
    const { of } = await look(settings, ['safe writing', 'disk', 'database version']);
    const { rows } = await db.pool.query(`select current_setting('fsync') = 'on' as careful`);
    expect(of('safe writing').state).toBe(rows[0].careful ? 'ok' : 'warn');
    expect([of('disk').state, of('database version').state]).toEqual(['ok', 'ok']);
  });

  test('questions that are compiled', async () => {
    await using db = await freshDatabase();
    const name = new URL(db.url).pathname.slice(1);
    const settings = { ...desk, DATABASE_URL: db.url };
    await finds(settings, { jit: good });
    await db.pool.query(`alter database ${name} reset jit`);
    await finds(settings, { jit: warn(`alter database ${name} set jit = off`) });
  });

  test('a disk that fills', () => {
    const states = [
      [100e6, 1e6],
      [900e6, 1e6],
      [20e9, 100e9],
    ].map(([free, all]) => judgeDisk(free!, all!, '/data').state);
    expect(states).toEqual(['fail', 'warn', 'ok']);
    expect(judgeDisk(9e9, 100e9, '/data')).toEqual(warn('DATABASE_URL'));
  });
});

describeOnRedis('Redis', () => {
  const names = ['Redis', 'Redis version', 'Redis eviction', 'Redis persistence'];

  test('one of each kind', async () => {
    let port: number;
    {
      await using server = await startOwnRedis({ requirepass: 'a-password', 'maxmemory-policy': 'allkeys-lru' });
      ({ port } = server);
      const client = new Redis(`redis://:a-password@127.0.0.1:${port}`);
      const settings = { ...desk, REDIS_URL: `redis://:a-password@127.0.0.1:${port}`, DATABASE_URL: nobody };
      const wrong = {
        ...{ Redis: good, 'Redis version': good },
        'Redis eviction': fail('noeviction'),
        'Redis persistence': warn('appendonly'),
      };
      // Told, not done: others may use it too.
      for (const fix of [false, true]) await finds(settings, wrong, { fix });
      expect(await client.config('GET', 'maxmemory-policy')).toEqual(['maxmemory-policy', 'allkeys-lru']);
      await client.config('SET', 'maxmemory-policy', 'noeviction');
      await client.config('SET', 'appendonly', 'yes');
      expect((await look(settings, names)).states()).toEqual({ ok: expect.arrayContaining(names) });
      await finds(
        { ...settings, REDIS_URL: `redis://:wrong@127.0.0.1:${port}` },
        { Redis: fail('password'), 'Redis eviction': skipped('Redis') },
      );
      client.disconnect();
    }
    const away = { ...desk, REDIS_URL: `redis://127.0.0.1:${port}`, DATABASE_URL: nobody };
    await finds(away, { Redis: fail('REDIS_URL') });
  });

  test('versions', () => {
    const states = ['4.0.9', '5.0.14', '6.2.0', '6.10.1', '10.0.0'].map(version => judgeVersion(version).state);
    expect(states).toEqual(['fail', 'warn', 'ok', 'ok', 'ok']);
  });
});

describe('the help desk', () => {
  const names = ['help desk', 'clock of the help desk', 'limits', 'use by others'];
  let db: TestDatabase;
  beforeAll(async () => {
    db = await freshDatabase();
  });
  afterAll(() => db.drop());
  const forget = () => db.pool.query('truncate sync.budget, sync.credit_minutes');

  test('away, a wrong token, a token without access, and all well', async () => {
    await using sandbox = await sandboxOf();
    const settings = settingsFor(db.url, sandbox);
    for (const [changes, says, remedy] of [
      [{ HELPDESK_BASE_URL: desk.HELPDESK_BASE_URL }, 'nobody listens at 127.0.0.1:', 'HELPDESK_BASE_URL'],
      [{ HELPDESK_TOKEN: 'a-wrong-token' }, 'does not accept the token', 'HELPDESK_TOKEN'],
      [{ HELPDESK_TOKEN: BLOCKED_TOKEN }, 'may not read this', 'access to all data'],
    ] as const) {
      await finds({ ...settings, ...changes }, { 'help desk': fail(remedy, says), limits: skipped('help desk') });
      await forget();
    }
    expect((await look(settings, names)).states()).toEqual({
      ok: expect.arrayContaining(names),
    });
    await forget();
  });

  test('a clock that is off', async () => {
    await using sandbox = await sandboxOf({ begin: systemClock.now() - 3_600_000 });
    const report = await look(settingsFor(db.url, sandbox), names);
    expect(report.of('clock of the help desk')).toMatchObject({
      state: 'fail',
      says: expect.stringMatching(/3\d{3} s ahead/),
    });
    await forget();
  });

  test('lower limits than set, and another client that uses more than is left to it', async () => {
    await using sandbox = await sandboxOf({ credits: 60, periodSeconds: 3600 });
    sandbox.takeCredits(30);
    const settings = {
      ...settingsFor(db.url, sandbox),
      HELPDESK_CREDITS: '100',
      HELPDESK_RESERVE: '10',
      HELPDESK_REQUESTS_PER_SECOND: '6',
    };
    await finds(settings, { limits: warn('Set HELPDESK_CREDITS=60.'), 'use by others': warn('HELPDESK_RESERVE=30') });
    // What is left is taken as well: the next request is refused, and then nobody asks for a while.
    await forget();
    sandbox.takeCredits(60);
    await finds(settings, { 'help desk': fail('', '429') });
    // Who looks at sync.problems reads it, and so does the doctor.
    await db.pool.query(`insert into sync.accounts (account_id) values ('default')`);
    const told = (await look(settings, ['open problems'])).results.filter(({ name }) => name === 'open problems');
    expect(told).toMatchObject([{ state: 'warn', says: expect.stringContaining('(429): by the help desk 1') }]);
    const asked = sandbox.requests.length;
    await finds(settings, { 'help desk': fail('', 'nothing was asked') });
    expect(sandbox.requests).toHaveLength(asked);
    await forget();
  });
});

test('two accounts: each is examined for itself, and one that was read from elsewhere, or that nobody names, is told', async () => {
  await using db = await freshDatabase();
  await using north = await sandboxOf();
  await using south = await sandboxOf();
  await using folder = await someFolder();
  await writeFile(
    join(folder.path, 'fleet.yml'),
    `accounts:
  north:
    HELPDESK_BASE_URL: { env: NORTH }
    HELPDESK_TOKEN: { env: NORTH_TOKEN }
  south:
    HELPDESK_BASE_URL: { env: SOUTH }
    HELPDESK_TOKEN: { env: SOUTH_TOKEN }
`,
  );
  await db.pool.query(`insert into sync.accounts (account_id) values ('south'), ('west')`);
  await db.pool.query(`insert into sync.sources (account_id, source, address) values
    ('south', 'helpdesk', 'https://desk.example/api/v1'), ('west', 'helpdesk', 'https://west.example/api/v1')`);
  await db.pool.query(`insert into sync.stored_runs (account_id, kind, state, started_at, finished_at)
    values ('west', 'nightly', 'completed', now(), now())`);
  const settings = {
    ...{ DATABASE_URL: db.url, SHELFDESK_CONFIG: 'fleet.yml' },
    ...{ NORTH: north.url, NORTH_TOKEN: north.token, SOUTH: south.url, SOUTH_TOKEN: south.token },
  };
  const report = await look(settings, ['accounts', 'sources of the account', 'limits'], { folder: folder.path });
  expect([report.of('help desk', 'north').state, report.of('help desk', 'south').state]).toEqual(['ok', 'skipped']);
  expect([report.of('limits', 'north').state, report.of('limits', 'south').because]).toEqual([
    'ok',
    'sources of the account',
  ]);
  expect(report.of('accounts')).toEqual(warn('', 'west'));
  expect(report.of('sources of the account', 'north').state).toBe('ok');
  expect(report.of('sources of the account', 'south')).toEqual(fail('another database'));
  // Of another desk nothing is asked.
  expect([north.totals.credits, south.totals.credits, report.credits]).toEqual([1, 0, 1]);
});

test('the catalog: away, a wrong key, a quota that is used up, a country that is missing', async () => {
  await using db = await freshDatabase();
  await using sandbox = await sandboxOf({ books: { volumes: 5, countryNeeded: true } });
  const { url, key, world } = sandbox.books;
  const [user] = world.users.keys();
  const settings = { DATABASE_URL: db.url, BOOKS_BASE_URL: url, BOOKS_API_KEY: key, BOOKS_USERS: user! };
  const country = 'country of the catalog';
  const well = await finds(settings, {
    ...{ catalog: good, 'quota of the catalog': good },
    [country]: expect.objectContaining({ state: 'skipped' }),
  });
  expect(well.requests).toBe(1);
  const [volume] = world.volumes.keys();
  await db.pool.query(
    `insert into books.volumes (account_id, id, _first_seen_at, _synced_at, _observed_at, _payload)
     values ('default', $1, now(), now(), now(), '{}')`,
    [volume],
  );
  for (const [more, expected] of [
    [{}, { [country]: fail('DE') }],
    [{ BOOKS_COUNTRY: 'DE' }, { [country]: good }],
    [{ BOOKS_API_KEY: 'no-such-key-at-all' }, { catalog: fail('BOOKS_API_KEY') }],
    [{ BOOKS_BASE_URL: 'http://127.0.0.1:1/books/v1' }, { catalog: fail('BOOKS_BASE_URL') }],
    [{ BOOKS_REQUESTS_PER_DAY: '3' }, { 'quota of the catalog': warn('larger quota') }],
  ] as const)
    await finds({ ...settings, ...more }, expected);
});

describe('the work', () => {
  test('jobs that failed', async () => {
    await using db = await freshDatabase();
    await db.pool.query(`insert into sync.accounts (account_id) values ('default')`);
    const settings = { ...desk, DATABASE_URL: db.url };
    const { rows } = await db.pool.query('select queue from sync.accounts');
    await using queue = await openQueue({ name: rows[0].queue, redisUrl: undefined, databaseUrl: db.url });
    await queue.add('sync-stream', 'a-job', {});
    expect((await look(settings, ['jobs'])).of('jobs')).toMatchObject({ state: 'ok', says: '1 waiting, 0 running' });
    const fails = () => Promise.reject(new Error('it fails'));
    const taking = queue.work(fails, () => {});
    await eventually(async () => expect(await queue.bull.getJobCounts('failed')).toEqual({ failed: 1 }));
    await taking.close(Promise.resolve());
    await finds(settings, { jobs: warn('npx shelfdesk runs list') });
  });

  test('stuck runs, lost jobs, replayable rejects, and every row of sync.problems', async () => {
    await using db = await freshDatabase();
    await using sandbox = await sandboxOf();
    const settings = settingsFor(db.url, sandbox);
    const run = (sql: string, ...values: unknown[]) => db.pool.query(sql, values);
    await run(`insert into sync.accounts (account_id, mirrored_since) values ('default', now() - interval '30 days')`);
    const names = ['runs', 'jobs', 'drift', 'versions', 'replayable rejects', 'open problems'];
    expect((await look(settings, names)).states()).toEqual({ ok: expect.arrayContaining(names) });

    expect((await look(settings, ['open problems'])).of('open problems').says).toContain('ALARM_WEBHOOK_URL');
    const withWebhook = { ...settings, ALARM_WEBHOOK_URL: 'https://hooks.example/a-secret-path' };
    expect((await look(withWebhook, ['open problems'])).of('open problems').says).toBe('none');

    await run(`insert into sync.workers (account_id, works, host, pid, version, started_at)
      values ('default', false, 'old-host', 7, '0.0.9', now())`);
    await using holder = await db.pool
      .connect()
      .then(client => Object.assign(client, { [Symbol.asyncDispose]: async () => client.release(true) }));
    const alive = (await run('select id from sync.workers')).rows[0].id;
    await run(
      `insert into sync.stored_runs (account_id, kind, started_at, opened_by)
      values ('default', 'sync', now(), 0), ('default', 'backfill', now() - interval '5 days', $1)`,
      alive,
    );
    await holder.query('select pg_advisory_lock(1397248855, $1)', [alive]);
    await run(`insert into sync.stored_run_streams (run_id, account_id, source, stream)
      select id, 'default', 'helpdesk', 'tickets' from sync.stored_runs`);
    await run(
      `insert into sync.coverage (account_id, source, stream, list) values ('default', 'helpdesk', 'tickets', 'default'), ('default', 'helpdesk', 'users', 'default')`,
    );
    await run(`insert into sync.rejects (account_id, source, stream, key, record_id, ask_id, first_seen_at, last_seen_at, reason, payload, replayable, as_of, place)
      values ('default', 'helpdesk', 'users', 'u1', 'u1', 'u1', now(), now(), 'it was unreadable then', '{"id":"u1","first_name":"Ada"}', true, now(), 1)`);
    await run(
      `insert into sync.paused (account_id, source, stream, paused_at, paused_by) values ('default', 'helpdesk', 'customers', now(), 'somebody')`,
    );
    await run(`insert into sync.drift (account_id, source, stream, kind, path, value, seen, first_seen_at, last_seen_at)
      values ('default', 'helpdesk', 'tickets', 'unknown_field', 'mood', '', 1, now(), now())`);
    await run(`insert into sync.targets values ('default', 'helpdesk.users', interval '1 minute')`);
    await run(
      `update sync.coverage set covered = tstzmultirange(tstzrange('2020-01-01', now() - interval '1 hour')) where stream = 'users'`,
    );

    const broken = await look(settings, names);
    const runs = broken.results.filter(({ name }) => name === 'runs');
    expect(runs.map(({ remedy, fix }) => [remedy, fix])).toEqual([
      [expect.stringContaining('runs cancel 2'), null],
      [expect.stringContaining('npx shelfdesk start'), 'write down that it was interrupted'],
    ]);
    expect(broken.of('jobs')).toMatchObject({ state: 'warn', fix: 'add them again' });
    expect(broken.of('replayable rejects')).toMatchObject({
      state: 'warn',
      fix: 'replay 1 rejected record without a request',
    });
    expect([broken.of('drift'), broken.of('versions')]).toEqual([warn('', 'mood'), warn('', '0.0.9 on old-host')]);
    const problems = (report: Examined) =>
      report.results
        .filter(({ name }) => name === 'open problems')
        .map(({ state, says, remedy }) => ({ state, says, remedy }));
    expect(problems(broken)).toEqual([
      {
        state: 'fail',
        says: expect.stringMatching(/^No worker runs since \S+Z$/),
        remedy: expect.stringContaining('npx shelfdesk start'),
      },
      {
        state: 'warn',
        says: expect.stringMatching(/^users: 1 × it was unreadable then, since \S+Z$/),
        remedy: expect.stringContaining('npx shelfdesk rejects list'),
      },
      {
        state: 'warn',
        says: 'customers was told to wait by somebody',
        remedy: 'Run `npx shelfdesk resume customers`.',
      },
    ]);

    const mended = await look(settings, names, { fix: true });
    expect(mended.of('replayable rejects')).toMatchObject({ state: 'ok', fixed: 'stored 1 of 1 rejected record' });
    expect(problems(mended)).toHaveLength(2);
    expect((await run('select first_name from helpdesk.users')).rows).toEqual([{ first_name: 'Ada' }]);
    expect(mended.of('jobs').fixed).toBe('added the jobs of 1 stream');
    expect(mended.results.filter(({ name }) => name === 'runs').map(({ fixed }) => fixed)).toEqual([
      expect.stringContaining('run 1 ended as interrupted'),
    ]);
    expect((await run('select state from sync.stored_runs order by id')).rows).toEqual([
      { state: 'interrupted' },
      { state: 'running' },
    ]);
  });
});

describe('the schedule', () => {
  const at = (time: string) => ({ ...systemClock, now: () => Date.parse(time) });

  test('a night that daylight saving takes away, and one that it does not', async () => {
    const settings = { ...desk, SCHEDULE_NIGHTLY: '30 2 * * *', SCHEDULE_TIME_ZONE: 'Europe/Berlin' };
    const names = ['daylight saving', 'next runs'];
    const trap = await look(settings, names, { clock: at('2026-11-22T12:00:00Z') });
    const found = trap.results.filter(({ name }) => name === 'daylight saving');
    expect(found.map(({ state, says, remedy }) => [state, says, remedy])).toEqual([
      [
        'warn',
        'nightly is left out on 2027-03-28, when clocks change in Europe/Berlin',
        expect.stringContaining('SCHEDULE_NIGHTLY'),
      ],
    ]);
    for (const [hour, zone] of [
      ['4', 'Europe/Berlin'],
      ['2', 'UTC'],
      ['2', 'Asia/Tokyo'],
    ]) {
      const safe = { ...settings, SCHEDULE_NIGHTLY: `30 ${hour} * * *`, SCHEDULE_TIME_ZONE: zone! };
      const report = await look(safe, names, { clock: at('2026-11-22T12:00:00Z') });
      expect([zone, report.of('daylight saving').state, report.of('next runs').state]).toEqual([zone, 'ok', 'ok']);
    }
  });

  test('of a catalog alone nothing is read each minute, and nothing lacks', async () => {
    const catalog = {
      BOOKS_BASE_URL: 'https://books.example/books/v1',
      BOOKS_API_KEY: 'k'.repeat(20),
      BOOKS_USERS: '104345678901234567890',
    };
    const report = await look(catalog, ['next runs']);
    expect(report.of('next runs')).toMatchObject({ state: 'ok', says: expect.stringMatching(/^nightly \S+Z$/) });
    await finds({ ...catalog, SCHEDULE_NIGHTLY: '' }, { 'next runs': warn('', 'SCHEDULE_NIGHTLY is empty') });
  });

  test('no night at all', async () => {
    await finds({ ...desk, SCHEDULE_NIGHTLY: '' }, { 'next runs': warn('SCHEDULE_NIGHTLY') });
  });
});

describe('the examination itself', () => {
  test('a check that throws is a failed one, one that does not end is given up, and no secret gets out', async () => {
    const common = { area: 'settings', looks: '' } as const;
    const throws = () => Promise.reject<never>(new TypeError(`x is no y: ${desk.HELPDESK_TOKEN}`));
    const report = await examined(desk, {
      checks: [
        { ...common, name: 'throws', run: throws },
        { ...common, name: 'needs it', needs: ['throws'], run: () => ok('') },
        { ...common, name: 'tells', run: () => ok(`it is ${desk.HELPDESK_TOKEN}.`) },
      ],
    });
    expect(report.results.map(({ state, says, remedy }) => [state, says, remedy])).toEqual([
      ['fail', 'the check itself failed: x is no y: …', expect.stringContaining('report it')],
      ['skipped', "not looked at, because of 'throws'", null],
      ['ok', 'it is …', null],
    ]);
    const hangs = { ...common, name: 'hangs', run: () => new Promise<never>(() => {}) };
    const late = await examined(desk, { clock: { ...systemClock, sleep: async () => {} }, checks: [hangs] });
    expect(late.of('hangs')).toMatchObject({ state: 'fail', says: 'no answer within 75 s' });
  });

  test('at a terminal: exit code 1, what is wrong with its remedy, no secret, without colour', async () => {
    await using folder = await someFolder();
    const settings = { ...desk, DATABASE_URL: nobody };
    const [shown, all, told] = await Promise.all([
      ran(['doctor'], settings, folder.path),
      ran(['doctor', '--all'], settings, folder.path),
      ran(['doctor', '--json'], settings, folder.path),
    ]);
    const { results, ...counts } = JSON.parse(told.stdout);
    expect([told.code, told.stderr]).toEqual([1, '']);
    expect(counts).toEqual({
      ok: expect.any(Number),
      warn: 0,
      fail: 1,
      skipped: expect.any(Number),
      credits: 0,
      requests: 0,
    });
    expect(results.length).toBe(counts.ok + 1 + counts.skipped);
    expect(shown.code, shown.stderr).toBe(1);
    // The problem stands first, and its name once more at the end. What is good is counted.
    expect(shown.stdout).toMatch(/^✗ database: PostgreSQL does not answer/);
    expect(shown.stdout).toMatch(/^✓ Settings: \d+ checks are good/m);
    expect(shown.stdout).not.toMatch(/^✓ Node: /m);
    expect(all.stdout).toMatch(/^✗ database: PostgreSQL does not answer/);
    expect(all.stdout).toMatch(/^✓ Node: /m);
    expect(all.stdout).toContain("– not looked at, because of 'database': ");
    expect(shown.stdout).not.toContain('\x1b');
    expect(shown.stderr).toMatch(
      /^1 failed: database\n0 warnings\n\d+ ok, \d+ skipped \(--all shows them\); 0 credits used\.$/m,
    );
    for (const secret of [desk.HELPDESK_TOKEN, 'hidden-password'])
      expect(shown.stdout + shown.stderr + told.stdout).not.toContain(secret);
  });
});
