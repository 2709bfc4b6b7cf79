/** What no mirror can be made in is found before anything is made: by `migrate`, `sync`, `start` and `init`, as by `doctor`. */
import { mkdtempSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { expect, inject, onTestFinished, test } from 'vitest';
import { migrateWarehouse } from '../../src/app/migrate.ts';
import { refusalsOf, tooOld } from '../../src/engine/database/refusals.ts';
import { sources } from '../../src/sources/index.ts';
import { ran } from '../support/here.ts';
import { emptyDatabase, freshDatabase } from '../support/postgres.ts';
import { aName, letReaderIn } from '../support/readers.ts';

function aFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-refusals-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Each command that makes tables. The source does not exist: nothing may be asked of it. */
async function eachRefuses(url: string, message: string, remedy: string): Promise<void> {
  const folder = aFolder();
  const env = { DATABASE_URL: url, HELPDESK_BASE_URL: 'https://desk.example/api/v1', HELPDESK_TOKEN: 'none' };
  const all = ['migrate', 'sync', 'start', 'init', 'status', 'backfill'].map(async name => {
    const { code, stderr } = await ran([name], env, folder);
    const said = name === 'init' ? `${message}; nothing was written` : message;
    expect({ name, code, stderr }).toEqual({ name, code: 1, stderr: `error: ${said}\n${remedy}\n` });
  });
  await Promise.all(all);
  const { stdout } = await ran(['doctor', '--json'], env, folder);
  const { results } = JSON.parse(stdout) as {
    results: { area: string; state: string; says: string; remedy: string }[];
  };
  const found = results.filter(({ area, state }) => area === 'database' && state === 'fail');
  expect(found).toEqual([expect.objectContaining({ says: message, remedy })]);
}

const objects = async (pool: pg.Pool) =>
  (
    await pool.query(
      `select n.nspname, c.relname from pg_namespace n left join pg_class c on c.relnamespace = n.oid
       where n.nspname !~ '^(pg_|information_schema)' order by 1, 2`,
    )
  ).rows;

test('schemas of another program are all named, and nothing is made', async () => {
  await using db = await emptyDatabase();
  const name = new URL(db.url).pathname.slice(1);
  await db.pool.query(
    `create schema sync create table migrations (version text); insert into sync.migrations values ('1');
     create schema analytics create view orders as select 1 as id;
     create schema safe; create function safe.lock() returns int language sql return 1;
     create schema books create table shelves (); create schema bullmq create table job ();
     create schema internal; alter default privileges in schema internal grant select on tables to public;
     create schema staging create table orders ()`,
  );
  const before = await objects(db.pool);
  await eachRefuses(
    db.url,
    `database ${name} has schemas of another program, with names that Shelfdesk needs: sync, books, analytics, safe, bullmq`,
    'Nothing was changed. Give Shelfdesk a database of its own in the same server, `create database shelfdesk`, and name it in DATABASE_URL. docs/how-to/let-readers-in.md shows how to ask both in one query.',
  );
  expect(await objects(db.pool)).toEqual(before);
});

test('an empty schema is used, unless another role owns it; after that all are ours', async () => {
  await using db = await emptyDatabase();
  await db.pool.query('create schema sync; create schema analytics; create schema safe; create schema books');
  await db.pool.query('grant usage on schema analytics to public');
  expect(await refusalsOf(db.pool, sources)).toEqual([]);
  await migrateWarehouse(db.url);
  await db.pool.query('create view analytics.of_dbt as select 1 as id');
  expect(await refusalsOf(db.pool, sources)).toEqual([]);
});

test('an empty schema of another role is named, with the statement that makes it ours', async () => {
  await using db = await emptyDatabase();
  const database = new URL(db.url).pathname.slice(1);
  const [me, other] = [aName('me'), aName('other')];
  await db.pool.query(
    `create role ${me}; create role ${other}; grant create on database ${database} to ${me}; create schema safe authorization ${other}`,
  );
  onTestFinished(async () => {
    const client = new pg.Client({ connectionString: inject('postgres').url });
    await client.connect();
    await client.query(`drop role if exists ${me}, ${other}`);
    await client.end();
  });
  const client = await db.pool.connect();
  await client.query(`set role ${me}`);
  expect(await refusalsOf(client, sources)).toEqual([
    {
      message: `schema safe of database ${database} belongs to role ${other}, and Shelfdesk makes its tables there`,
      remedy: `Nothing was changed. As a superuser: \`alter schema safe owner to ${me}\`.`,
    },
  ]);
  client.release(true);
  await db.drop();
});

test('a migration of another program in sync.migrations is none of ours', async () => {
  await using db = await emptyDatabase();
  await db.pool.query(
    `create schema sync; create table sync.migrations (id int, name text, run_on timestamp);
     create schema helpdesk create table tickets ()`,
  );
  const named = async () => (await refusalsOf(db.pool, sources)).map(({ message }) => message.split(': ')[1]);
  // As a kill before the first migration leaves it.
  expect(await named()).toEqual(['helpdesk']);
  await db.pool.query(`insert into sync.migrations values (1, '1_users', now())`);
  expect(await named()).toEqual(['sync, helpdesk']);
});

test.each(['LATIN1', 'SQL_ASCII'])('a database in %s is refused', async encoding => {
  await using beside = await emptyDatabase();
  const name = `${new URL(beside.url).pathname.slice(1)}_${encoding.toLowerCase()}`;
  await beside.pool.query(
    `create database ${name} encoding '${encoding}' locale_provider libc locale 'C' template template0`,
  );
  onTestFinished(async () => {
    const client = new pg.Client({ connectionString: inject('postgres').url });
    await client.connect();
    await client.query(`drop database ${name} with (force)`);
    await client.end();
  });
  const url = new URL(beside.url);
  url.pathname = name;
  await eachRefuses(
    url.href,
    `database ${name} stores ${encoding}, which has no place for most letters`,
    `Make another one, \`create database shelfdesk encoding 'UTF8' template template0\`, and name it in DATABASE_URL.`,
  );
});

test('where a backslash is no letter, tables are made and read as elsewhere', async () => {
  await using db = await emptyDatabase();
  await db.pool.query(`alter database ${new URL(db.url).pathname.slice(1)} set standard_conforming_strings = off`);
  await migrateWarehouse(db.url);
  await using same = await freshDatabase();
  const bodies = `select md5(string_agg(pg_get_functiondef(p.oid), '' order by p.oid::regprocedure::text)) as sum
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname in ('sync', 'analytics') and p.prokind = 'f' and not exists (
      select from pg_depend d where d.objid = p.oid and d.deptype = 'e')`;
  expect((await db.pool.query(bodies)).rows).toEqual((await same.pool.query(bodies)).rows);
  await using reader = await letReaderIn(db);
  expect(await reader.rows('show standard_conforming_strings')).toEqual([{ standard_conforming_strings: 'on' }]);
});

test('the guide names the schemas that must be free', async () => {
  await using db = await freshDatabase();
  const guide = readFileSync(new URL('../../docs/how-to/let-readers-in.md', import.meta.url), 'utf8');
  const named = /needs the schemas ([^,]+(?:, `\w+`)+ and `\w+`)/.exec(guide)![1]!.match(/\w+(?=`)/g);
  const { rows } = await db.pool.query(
    `select nspname::text as name from pg_namespace where nspname !~ '^(pg_|information_schema|public$)'`,
  );
  expect(new Set(named)).toEqual(new Set(['bullmq', ...rows.map(({ name }) => name)]));
});

test('a warehouse in use is not refused, and PostgreSQL 14 is', async () => {
  await using db = await freshDatabase();
  expect(await refusalsOf(db.pool, sources)).toEqual([]);
  expect(tooOld(150_000, '15.0')).toBeUndefined();
  expect(tooOld(149_999, '14.99')).toMatchObject({ message: 'PostgreSQL 14.99 is too old' });
});
