/** `reader create | list | revoke` at a terminal, and a worker that may write and change no table. */
import type pg from 'pg';
import { expect, test } from 'vitest';
import { addReader } from '../../src/cli/setup/warehouse/reader.ts';
import { lineFor } from '../../src/engine/database/session/connection-url.ts';
import { stoppedDumpers } from '../../src/privacy/readers.ts';
import { settingsFor } from '../support/cli.ts';
import { command } from '../support/command.ts';
import { ran } from '../support/here.ts';
import { long } from '../support/long.ts';
import { configFor, differences } from '../support/mirror.ts';
import { openSandbox } from '../support/open-sandbox.ts';
import { emptyDatabase, freshDatabase } from '../support/postgres.ts';
import { aName, sessionOf } from '../support/readers.ts';

const nowhere = { url: 'https://desk.example/api/v1', token: 'none' };

/** A session of somebody else, whose roles are removed at the end. */
async function withRoles(pool: pg.Pool, names: readonly string[], work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } finally {
    for (const name of names)
      if ((await pool.query('select from pg_roles where rolname = $1', [name])).rowCount)
        await pool.query(`drop owned by ${name} cascade; drop role ${name}`);
  }
}

test('a reader is let in, is told how to connect once, and is revoked with its sessions', async () => {
  await using db = await freshDatabase();
  const [name, other] = [aName('ada'), aName('bob')];
  await db.pool.query(`insert into sync.accounts (account_id) values ('acme'), ('umbra')`);
  const reader = (...args: string[]) => command(addReader, configFor(db.url, nowhere), 'reader', ...args);
  await withRoles(db.pool, [name, other], async () => {
    expect(await reader('list')).toMatchObject({
      code: 0,
      stdout: '',
      stderr: expect.stringContaining('reader create'),
    });
    const made = await reader('create', name, '--accounts', 'acme');
    expect(made.stderr).toContain('The login sees masked data of acme.');
    const [line, ...more] = made.stdout.split('\n');
    expect(more).toEqual(['']);
    const { password, username, pathname } = new URL(line!);
    expect({ username, pathname }).toEqual({ username: name, pathname: new URL(db.url).pathname });
    expect(password).toHaveLength(32);

    const session = await sessionOf(line!);
    expect(await session.rows('select account_id from analytics.account_zones')).toEqual([{ account_id: 'acme' }]);
    expect(await session.rows('show search_path')).toEqual([{ search_path: 'safe, analytics, books' }]);
    expect(await session.rows('select id, subject from tickets')).toEqual([]);
    const pii = JSON.parse((await reader('create', other, '--pii', '--json')).stdout);
    expect(pii).toEqual({ reader: other, pii: true, accounts: null, url: expect.stringContaining(`//${other}:`) });

    const listed = JSON.parse((await reader('list', '--json')).stdout);
    expect(listed).toMatchObject([
      { reader: name, pii: false, accounts: ['acme'], state: 'let in', sessions: 1 },
      { reader: other, pii: true, accounts: null, state: 'let in', sessions: 0 },
    ]);
    expect((await reader('list')).stdout).toMatch(/reader +state +sees +accounts/);
    // Nobody has the password, nor what a log of statements would show of it.
    const told = JSON.stringify([
      listed,
      (await db.pool.query('select * from sync.operations')).rows,
      (await db.pool.query('select * from sync.readers')).rows,
    ]);
    expect(told).not.toContain(password);
    const { rows: stored } = await db.pool.query('select rolpassword from pg_authid where rolname = $1', [name]);
    expect(stored[0].rolpassword).toMatch(/^SCRAM-SHA-256\$4096:/);

    expect(await reader('revoke', name)).toMatchObject({
      code: 0,
      stderr: `Login ${name} was revoked; 1 session ended.\n`,
    });
    await expect(session.rows('select 1')).rejects.toThrow();
    await expect(sessionOf(line!)).rejects.toThrow(/password authentication failed|does not exist/);
    expect((await db.pool.query('select from pg_roles where rolname = $1', [name])).rowCount).toBe(0);
    expect(await reader('revoke', name)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`this warehouse has no reader ${name}`),
    });
    expect(await reader('revoke', other)).toMatchObject({ code: 0 });
    const { rows: operations } = await db.pool.query(
      `select account_id, action, subject from sync.operations order by id`,
    );
    expect(operations).toEqual([
      { account_id: 'acme', action: 'let a reader in', subject: name },
      { account_id: 'acme', action: 'let a reader in', subject: other },
      { account_id: 'umbra', action: 'let a reader in', subject: other },
      { account_id: 'acme', action: 'revoke a reader', subject: name },
      { account_id: 'acme', action: 'revoke a reader', subject: other },
      { account_id: 'umbra', action: 'revoke a reader', subject: other },
    ]);
  });
});

test('the line of a reader has nothing of its owner, whichever way that one connects', () => {
  const rows: [string, string][] = [
    ['postgres://owner:secret@h:5433/db?sslmode=require', 'postgres://ada:pw@h:5433/db?sslmode=require'],
    ['postgres://h/db?user=owner&password=secret', 'postgres://ada:pw@h/db'],
    ['postgres://owner@h/db?password=secret&application_name=x', 'postgres://ada:pw@h/db'],
    ['postgres://owner:secret@h/db?options=-c%20role%3Downer', 'postgres://ada:pw@h/db'],
    ['postgres://owner:secret@h/db?options=endpoint%3Dcool', 'postgres://ada:pw@h/db?options=endpoint%3Dcool'],
    ['postgresql://owner@%2Frun%2Fpostgresql/db', 'postgresql://ada:pw@%2Frun%2Fpostgresql/db'],
    ['postgres:///db?host=/run/postgresql', 'postgres:///db?host=%2Frun%2Fpostgresql&user=ada&password=pw'],
    ['postgres://u:p@/db?host=/run/pg', 'postgres:///db?host=%2Frun%2Fpg&user=ada&password=pw'],
  ];
  for (const [owners, line] of rows) expect(lineFor(owners, 'ada', 'pw')).toBe(line);
});

test('nobody is let in where everybody may make tables, and large objects of a reader go with it', async () => {
  await using db = await freshDatabase();
  const ada = aName('ada');
  const reader = (...args: string[]) => command(addReader, configFor(db.url, nowhere), 'reader', ...args);
  await withRoles(db.pool, [ada], async () => {
    await db.pool.query('grant create on schema public to public');
    expect(await reader('create', ada)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('revoke create on schema public from public'),
    });
    await db.pool.query('revoke create on schema public from public');
    const session = await sessionOf((await reader('create', ada)).stdout.trim());
    await session.rows(`select lo_from_bytea(0, 'kept')`);
    expect(await reader('revoke', ada)).toMatchObject({ code: 0 });
    expect((await db.pool.query('select from pg_largeobject_metadata')).rowCount).toBe(0);
    expect((await db.pool.query('select from pg_roles where rolname = $1', [ada])).rowCount).toBe(0);
  });
});

test('what cannot be a reader is refused with what to do instead, and nothing is left of it', async () => {
  await using db = await freshDatabase();
  await db.pool.query(`insert into sync.accounts (account_id) values ('acme')`);
  const reader = (...args: string[]) => command(addReader, configFor(db.url, nowhere), 'reader', ...args);
  const refused = async (words: string[], says: string) =>
    expect(await reader(...words)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(says) });
  for (const name of ['Ada', 'a-b', '1a', 'a b', 'pg_ada', 'shelfdesk_ada', 'public', 'a"; drop', 'a'.repeat(64)])
    await refused(['create', name], 'cannot be the name of a reader');
  const { rows } = await db.pool.query('select current_user as me');
  await refused(['create', rows[0].me], 'in this server already');
  await refused(['create', aName('ada'), '--accounts', 'acme,umbra'], `there is no account 'umbra'`);
  await refused(['create', aName('ada'), '--accounts', ' , '], '--accounts names no account');
  expect((await db.pool.query('select from sync.readers')).rowCount).toBe(0);
});

test('a role that somebody has dropped, shut out or given more to is told, and revoked as far as that goes', async () => {
  await using db = await freshDatabase();
  const [gone, shut, rich] = [aName('gone'), aName('shut'), aName('rich')];
  const reader = (...args: string[]) => command(addReader, configFor(db.url, nowhere), 'reader', ...args);
  await withRoles(db.pool, [gone, shut, rich], async () => {
    for (const name of [gone, shut, rich]) expect((await reader('create', name)).code).toBe(0);
    await db.pool.query(
      `drop role ${gone}; alter role ${shut} nologin; create table public.given (a int); grant select on public.given to ${rich}`,
    );
    const listed: { reader: string; state: string }[] = JSON.parse((await reader('list', '--json')).stdout);
    expect(listed.map(one => [one.reader, one.state])).toEqual(
      [
        [gone, 'gone'],
        [rich, 'let in'],
        [shut, 'shut out'],
      ].sort(),
    );
    await db.pool.query('grant create on schema public to public');
    const doctor = async () => {
      const { stdout } = await ran(['doctor', '--json'], settingsFor(db.url, nowhere));
      const { results } = JSON.parse(stdout) as { results: { name: string; state: string; says: string }[] };
      return results.filter(one => one.name === 'readers').map(({ state, says }) => `${state}: ${says}`);
    };
    expect((await doctor()).sort()).toEqual([
      'warn: everybody who may log in can make tables in schema public of this database, readers as well',
      `warn: reader ${shut} may not log in, or has lost its rights`,
      `warn: the role of reader ${gone} is gone from the server`,
    ]);
    await db.pool.query('revoke create on schema public from public');
    expect((await reader('revoke', gone)).code).toBe(0);
    expect((await reader('revoke', shut)).code).toBe(0);
    expect(await doctor()).toEqual(['ok: 1 reader let in']);
    const kept = await reader('revoke', rich);
    expect(kept).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/can log in no more, but its role cannot be removed.*table public.given/),
    });
    expect((await db.pool.query('select rolcanlogin from pg_roles where rolname = $1', [rich])).rows).toEqual([
      { rolcanlogin: false },
    ]);
    await db.pool.query(`revoke select on public.given from ${rich}`);
    expect((await reader('revoke', rich)).code).toBe(0);
    expect(JSON.parse((await reader('list', '--json')).stdout)).toEqual([]);
  });
});

test('roles for backups that row-level security would stop are named', async () => {
  await using db = await freshDatabase();
  const [stopped, other] = [aName('dumper'), aName('dumper')];
  const client = await db.pool.connect();
  try {
    // In a transaction that comes to nothing: doctors of other tests look at the same server.
    await client.query(
      `begin; create role ${stopped} login in role pg_read_all_data; create role ${other} login bypassrls in role pg_read_all_data`,
    );
    expect((await stoppedDumpers(client)).filter(name => name === stopped || name === other)).toEqual([stopped]);
  } finally {
    await client.query('rollback');
    client.release();
  }
});

test(
  'an owner that may make roles but is no superuser migrates, lets in and revokes; one that may not is told what it lacks',
  long,
  async () => {
    await using db = await emptyDatabase();
    const [owner, ada] = [aName('owner'), aName('ada')];
    const at = new URL(db.url);
    const database = at.pathname.slice(1);
    [at.username, at.password] = [owner, 'x'];
    await withRoles(db.pool, [ada, owner], async () => {
      await db.pool.query(`create role ${owner} login password 'x'; alter database ${database} owner to ${owner}`);
      const env = { ...settingsFor(at.href, nowhere), SCHEDULE_FRESH: '', SCHEDULE_NIGHTLY: '' };
      expect(await ran(['migrate'], env)).toMatchObject({ code: 0 });
      const refused = await ran(['warehouse', 'reader', 'create', ada], env);
      expect(refused).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringContaining(`alter role ${owner} createrole`),
      });
      await db.pool.query(`alter role ${owner} createrole; grant shelfdesk_reader to ${owner} with admin option`);
      const made = await ran(['warehouse', 'reader', 'create', ada], env);
      expect(made).toMatchObject({ code: 0, stderr: expect.stringContaining('all accounts') });
      const session = await sessionOf(made.stdout.trim());
      expect(await session.rows('select * from tickets')).toEqual([]);
      const revoked = await ran(['warehouse', 'reader', 'revoke', ada], env);
      expect(revoked).toMatchObject({ code: 0, stderr: expect.stringContaining('1 session ended') });
      await expect(session.rows('select 1')).rejects.toThrow();
      await db.pool.query(`alter database ${database} owner to current_user; revoke shelfdesk_reader from ${owner}`);
    });
  },
);

test(
  'a worker of shelfdesk_writer mirrors a help desk, on the queue of PostgreSQL, and can make, change and drop no table',
  long,
  async () => {
    await using db = await freshDatabase();
    const writer = aName('worker');
    const at = new URL(db.url);
    [at.username, at.password] = [writer, 'x'];
    await using sandbox = await openSandbox({ tickets: 20 });
    await withRoles(db.pool, [writer], async () => {
      // The owner makes the tables of the queue as well.
      const owner = { ...settingsFor(db.url, sandbox) };
      expect(await ran(['migrate'], owner)).toMatchObject({ code: 0 });
      await db.pool.query(`create role ${writer} login password 'x'; grant shelfdesk_writer to ${writer}`);
      const env = { ...settingsFor(at.href, sandbox), SCHEDULE_FRESH: '', SCHEDULE_NIGHTLY: '' };
      const synced = await ran(['sync'], env);
      expect([synced.code, synced.stderr]).toEqual([0, expect.any(String)]);
      expect(await differences(db.pool, sandbox.world)).toEqual([]);
      for (const words of [
        ['sweep'],
        ['sync'],
        ['verify', '--sample', '5'],
        ['status'],
        ['doctor'],
        ['pause', 'users'],
        ['resume', 'users'],
      ])
        expect([words, await ran(words, env)]).toEqual([words, expect.objectContaining({ code: 0 })]);
      const { rows } = await db.pool.query(
        'select (select count(*) from analytics.ticket_metrics) as metrics, (select count(*) from safe.tickets) as tickets',
      );
      expect(rows).toEqual([{ metrics: 20, tickets: 20 }]);
      const told = await ran(['doctor', '--json'], env);
      const results: { name: string; state: string; says: string }[] =
        JSON.parse(told.stdout).results ?? JSON.parse(told.stdout).checks;
      expect(
        results
          .filter(({ name }) => ['rights', 'tables', 'readers', 'queue backend'].includes(name))
          .map(({ name, state }) => [name, state]),
      ).toEqual([
        ['rights', 'ok'],
        ['tables', 'ok'],
        ['readers', 'ok'],
        ['queue backend', expect.stringMatching(/ok|warn/)],
      ]);

      const session = await sessionOf(at.href);
      for (const statement of [
        'create table helpdesk.mine (a int)',
        'create table bullmq.mine (a int)',
        'create schema mine',
        'drop table helpdesk.users',
        'alter table helpdesk.users add column mine text',
        'truncate helpdesk.users',
        'create policy mine on helpdesk.users using (true)',
        'select * from sync.secret_salt',
        `insert into sync.readers values ('me', null, true, now(), 'me')`,
        `delete from sync.migrations`,
        'select sync.settle_roles()',
      ])
        expect([statement, await session.refused(statement)]).toEqual([
          statement,
          expect.stringMatching(/denied|must be owner/),
        ]);
      await session.client.end();
    });
  },
);

test('a worker that may change no table says so where tables are missing', async () => {
  await using db = await emptyDatabase();
  const writer = aName('worker');
  const at = new URL(db.url);
  [at.username, at.password] = [writer, 'x'];
  await withRoles(db.pool, [writer], async () => {
    await db.pool.query(`create role ${writer} login password 'x'; grant shelfdesk_writer to ${writer}`);
    const { code, stderr } = await ran(['sync'], settingsFor(at.href, nowhere));
    expect(code).toBe(1);
    expect(stderr).toContain('npx shelfdesk migrate');
  });
});
