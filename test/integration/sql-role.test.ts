/** `sql` and `query run` only read, whatever the role of DATABASE_URL may do: each way to take more back is tried. */
import pg from 'pg';
import { expect, test } from 'vitest';
import { migrateWarehouse } from '../../src/app/migrate.ts';
import { addQuery } from '../../src/cli/look/query.ts';
import { addSql } from '../../src/cli/look/sql.ts';
import { attempts } from '../support/attempts.ts';
import { settingsFor } from '../support/cli.ts';
import { command } from '../support/command.ts';
import { ran } from '../support/here.ts';
import { long } from '../support/long.ts';
import { configFor } from '../support/mirror.ts';
import { emptyDatabase, freshDatabase, type TestDatabase } from '../support/postgres.ts';
import { aName, letReaderIn } from '../support/readers.ts';
import { searchableDatabase } from '../support/searchable.ts';

const nowhere = { url: 'https://desk.example/api/v1', token: 'none' };
const sqlAt = (url: string) => (statement: string) =>
  command(addSql, configFor(url, nowhere), 'sql', statement, '--json');

/** What a statement might have left behind, in the database, in the server or in its files. */
async function traces({ pool }: TestDatabase) {
  const { rows } = await pool.query(`
    select (select jsonb_agg(to_jsonb(t) order by t.account_id) from sync.accounts t) as accounts,
      (select last_value from sync.marks) as sequence,
      (select count(*) from pg_class where relnamespace = 'public'::regnamespace) as tables,
      (select count(*) from pg_largeobject_metadata) as objects,
      (select count(*) from pg_proc where pronamespace = 'public'::regnamespace) as functions,
      (select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database()) and objid = 7) as locks,
      (select setconfig from pg_db_role_setting where setdatabase = (select oid from pg_database where datname = current_database()) and setrole = 0) as settings,
      (select rolname from pg_roles where rolname = 'taken_over') as role`);
  return rows[0];
}

/** Each tries to do what is no reading, as whoever was asked for by DATABASE_URL. */
const attacks = [
  ...attempts['writes, plainly'],
  ...attempts['files, programs and other servers'],
  'alter database current set work_mem = 1',
  'select pg_stat_reset()',
  `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
  // Two statements in one.
  `commit; insert into sync.accounts (account_id) values ('mine')`,
  // Back to who it was, within the statement, and then one of these.
  `select set_config('role', 'none', false), query_to_xml('select pg_read_file(''PG_VERSION'')', true, false, '')`,
  `select set_config('role', 'OWNER', false), query_to_xml('select pg_read_file(''PG_VERSION'')', true, false, '')`,
  `select set_config('session_authorization', 'OWNER', false)`,
  `select set_config('session_authorization', 'default', false), query_to_xml('select pg_read_file(''PG_VERSION'')', true, false, '')`,
  `select set_config('transaction_read_only', 'off', true), query_to_xml('insert into sync.accounts (account_id) values (''mine'')', true, false, '')`,
  `select query_to_xml('commit', true, false, ''), query_to_xml('create table public.mine (a int)', true, false, '')`,
  `do $$ begin execute 'reset role'; execute 'copy (select 1) to program ''touch /tmp/shelfdesk-agent-taken'''; end $$`,
  `do $$ begin execute 'reset session authorization'; perform pg_read_file('PG_VERSION'); end $$`,
  `do $$ begin commit; insert into sync.accounts (account_id) values ('mine'); commit; end $$`,
  `do $$ begin rollback; set transaction read write; insert into sync.accounts (account_id) values ('mine'); commit; end $$`,
  `do $$ begin perform set_config('transaction_read_only', 'off', false); insert into sync.accounts (account_id) values ('mine'); end $$`,
  // What has its owner's rights, or is called for.
  `select * from sync.secret_salt`,
  `select rolpassword from pg_authid`,
];

test('no statement of a superuser writes, locks or affects other sessions', long, async () => {
  await using db = await searchableDatabase();
  await db.pool.query(`
    insert into sync.accounts (account_id) values ('acme'), ('umbra');
    create sequence sync.marks;
    create function public.writes() returns int language plpgsql security definer as $$
      begin insert into sync.accounts (account_id) values ('mine'); return 1; end $$`);
  const { rows: me } = await db.pool.query(
    `select current_user as me, rolsuper as super from pg_roles where rolname = current_user`,
  );
  expect(me[0].super).toBe(true);
  const sql = sqlAt(db.url);
  const before = await traces(db);
  const bystander = new pg.Client({ connectionString: db.url });
  await bystander.connect();

  const who = await sql(
    `select session_user like 'shelfdesk_sql_%' as own, current_user = session_user as same, r.rolsuper or r.rolcreaterole or r.rolcreatedb or r.rolbypassrls or r.rolreplication as may
     from pg_roles r where r.rolname = session_user`,
  );
  expect([who.code, JSON.parse(who.stdout)]).toEqual([0, [{ own: true, same: true, may: false }]]);
  for (const attack of attacks) {
    const answer = await sql(attack.replaceAll('OWNER', me[0].me));
    const ended = attack.includes('pg_terminate_backend');
    // Those of others it may not end; of its own role there is none besides.
    expect([attack, answer]).toEqual([
      attack,
      expect.objectContaining(
        ended ? {} : { code: expect.toSatisfy((code: number) => code === 1 || code === 2), stdout: '' },
      ),
    ]);
  }
  expect(await traces(db)).toEqual(before);
  expect((await bystander.query('select 1 as here')).rows).toEqual([{ here: 1 }]);
  await bystander.end();
  await expect(db.pool.query(`select pg_stat_file('/tmp/shelfdesk-agent-taken')`)).rejects.toThrow('No such file');
  expect(await loginsOf(db)).toEqual([]);

  // It reads all there is, of every account.
  for (const relation of [
    'helpdesk.tickets',
    'safe.tickets',
    'analytics.ticket_metrics',
    'books.volumes',
    'sync.readers',
  ])
    expect([relation, (await sql(`select count(*)::int as n from ${relation}`)).stdout]).toEqual([
      relation,
      expect.stringContaining('"n": 0'),
    ]);
  expect(JSON.parse((await sql('select account_id from sync.accounts order by 1')).stdout)).toHaveLength(2);
  expect(JSON.parse((await sql('select account_id from sync.readable_accounts order by 1')).stdout)).toHaveLength(2);
  expect((await sql(`select * from helpdesk.search_messages('parcel')`)).code).toBe(0);
  expect(await command(addQuery, configFor(db.url, nowhere), 'query', 'run', 'how-complete', '--json')).toMatchObject({
    code: 0,
  });
});

/** Of other tests at the same time there may be some; none of this database. */
async function loginsOf(db: TestDatabase): Promise<string[]> {
  const { rows } = await db.pool.query<{ name: string }>(
    `select r.rolname::text as name from pg_roles r join pg_stat_activity a on a.usesysid = r.oid
     where r.rolname like 'shelfdesk\\_sql\\_%' and a.datname = current_database()`,
  );
  return rows.map(({ name }) => name);
}

test.each([
  ['select $1', 'a parameter without a value'],
  ['select $1::int + $2', 'a parameter without a value'],
  [`select 'a\0b'`, 'a NUL character'],
])('%j is an error of the statement, and not of the database', async (statement, says) => {
  await using db = await freshDatabase();
  const { code, stderr } = await sqlAt(db.url)(statement);
  expect(code).toBe(2);
  expect(stderr).toContain(says);
});

test('a statement that opens with a comment is no option', async () => {
  await using db = await freshDatabase();
  const statement = '-- How many?\nselect 41 + 1 as n';
  const { code, stdout } = await ran(['sql', statement], { DATABASE_URL: db.url });
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining('42') });
});

test('what asks nothing is wrong usage, with a reason', async () => {
  await using db = await freshDatabase();
  const sql = sqlAt(db.url);
  for (const statement of ['', '  ', ';', ' -- only a remark', '/* nor this */'])
    expect([statement, await sql(statement)]).toEqual([
      statement,
      {
        code: 2,
        stdout: '',
        stderr: expect.stringContaining('the statement is empty\nWrite a statement that returns rows'),
      },
    ]);
  for (const [statement, said] of [
    ['commit', 'COMMIT'],
    ['rollback', 'ROLLBACK'],
    ['begin', 'BEGIN'],
    ["set work_mem = '1MB'", 'SET'],
    ['set transaction read write', 'SET'],
    ['reset role', 'RESET'],
    ['reset all', 'RESET'],
    ['discard plans', 'DISCARD'],
    ['listen somebody', 'LISTEN'],
    ['do $$ begin null; end $$', 'DO'],
    ['declare c cursor for select 1', 'DECLARE'],
    ['copy sync.accounts to stdout', 'COPY'],
  ] as const)
    expect([statement, await sql(statement)]).toEqual([
      statement,
      {
        code: expect.any(Number),
        stdout: '',
        stderr: expect.stringMatching(new RegExp(`^(${said}|PostgreSQL says: )`)),
      },
    ]);
  expect((await sql('commit')).code).toBe(2);
  expect((await sql("set work_mem = '1MB'")).code).toBe(2);
  for (const statement of ['select', 'values (1)', 'table sync.accounts', 'show work_mem', 'explain select 1'])
    expect([statement, (await sql(statement)).code]).toEqual([statement, 0]);
});

test('an owner without more asks as itself, in a transaction that only reads, and is told what would be better; one that may make roles does not', async () => {
  await using db = await emptyDatabase();
  const owner = aName('owner');
  const database = new URL(db.url).pathname.slice(1);
  const at = new URL(db.url);
  [at.username, at.password] = [owner, 'x'];
  const sql = sqlAt(at.href);
  await db.pool.query(`create role ${owner} login password 'x'`);
  await db.pool.query(`alter database ${database} owner to ${owner}`);
  try {
    await migrateWarehouse(at.href);
    await db.pool.query(`set role ${owner}; insert into sync.accounts (account_id) values ('acme'); create sequence sync.marks;
      create function public.writes() returns int language plpgsql security definer as $$
        begin insert into sync.accounts (account_id) values ('mine'); return 1; end $$; reset role`);
    const before = await traces(db);
    expect(await sql('select session_user as who')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(owner),
      stderr: expect.stringMatching(
        new RegExp(`asks as role ${owner}, in a transaction that only reads.*alter role ${owner} createrole`),
      ),
    });
    // Its own keys it may read, and its own sessions it may end. Of the session's user it can be nobody else.
    const harmless = /secret_salt|pg_terminate_backend|'session_authorization', 'OWNER'/;
    for (const attack of attacks.filter(one => !harmless.test(one)))
      expect([attack, await sql(attack.replaceAll('OWNER', owner))]).toEqual([
        attack,
        expect.objectContaining({ code: expect.toSatisfy((code: number) => code > 0), stdout: '' }),
      ]);
    expect(await traces(db)).toEqual(before);

    await db.pool.query(`alter role ${owner} createrole; grant shelfdesk_sql to ${owner} with admin option`);
    const better = await sql('select session_user as who, (select count(*)::int from sync.accounts) as sees');
    expect(better).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(better.stdout)).toEqual([{ who: expect.stringMatching(/^shelfdesk_sql_/), sees: 1 }]);
    expect((await sql('select * from sync.secret_salt')).code).toBe(1);
  } finally {
    await db.pool.query(
      `alter database ${database} owner to current_user; drop owned by ${owner} cascade; drop role ${owner}`,
    );
  }
});

test('who can only read asks as itself; who may reach beyond the database never does', async () => {
  await using db = await freshDatabase();
  await db.pool.query(`insert into sync.accounts (account_id) values ('acme'), ('umbra')`);
  await using reader = await letReaderIn(db, { pii: true, accounts: ['acme'] });
  expect(
    await sqlAt(reader.url)(
      'select session_user::text as who, array(select account_id from sync.readable_accounts) as sees',
    ),
  ).toEqual({
    code: 0,
    stdout: `${JSON.stringify([{ who: reader.name, sees: ['acme'] }], null, 2)}\n`,
    stderr: '',
  });
  // A server that takes no writes makes no login either.
  const { pathname } = new URL(db.url);
  await db.pool.query(`alter database ${pathname.slice(1)} set default_transaction_read_only = on`);
  const refused = await sqlAt(db.url)('select 1');
  expect(refused).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(
      /may do more than use this database, and no login that can only read could be made: .*read-only/,
    ),
  });
  expect(await sqlAt(reader.url)('select 1')).toMatchObject({ code: 0 });
});

test('a login that a killed command has left behind is removed by the next one, not that of one at work', async () => {
  await using db = await freshDatabase();
  const [left, young] = ['shelfdesk_sql_left', 'shelfdesk_sql_young'].map(name => `${name}${aName('x').slice(2)}`);
  await db.pool.query(
    `create role ${left} login valid until '2026-01-01'; create role ${young} login valid until '2999-01-01'`,
  );
  try {
    expect((await sqlAt(db.url)('select 1')).code).toBe(0);
    const { rows } = await db.pool.query('select rolname::text as name from pg_roles where rolname = any ($1)', [
      [left, young],
    ]);
    expect(rows).toEqual([{ name: young }]);
  } finally {
    await db.pool.query(`drop role if exists ${left}; drop role if exists ${young}`);
  }
});

test('a database without tables can be asked', async () => {
  await using db = await freshDatabase();
  await db.pool.query(
    'drop schema sync cascade; drop schema helpdesk cascade; drop schema analytics cascade; drop schema safe cascade; drop schema books cascade; drop schema internal cascade',
  );
  const asked = await ran(['sql', 'select 1 as one', '--json'], settingsFor(db.url, nowhere));
  expect(asked).toMatchObject({ code: 0, stderr: '' });
  expect(await ran(['sql', 'commit'], settingsFor(db.url, nowhere))).toMatchObject({
    code: 2,
    stdout: '',
  });
});
