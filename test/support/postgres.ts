/** A database for each test, cloned from the migrated template in some 30 ms, so that no test sees another one's rows. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';

export interface TestDatabase extends AsyncDisposable {
  url: string;
  pool: pg.Pool;
  drop(): Promise<void>;
}

/** All migrations applied, no rows. Write `await using db = await freshDatabase()`, or call `drop` at the end. */
export const freshDatabase = (): Promise<TestDatabase> => make(inject('postgres').template);

/** Nothing in it at all. */
export const emptyDatabase = (): Promise<TestDatabase> => make('template0');

async function make(template: string): Promise<TestDatabase> {
  const { url, prefix } = inject('postgres');
  const name = `${prefix}${randomBytes(6).toString('hex')}`;
  await administer(url, `create database ${name} template ${template} strategy file_copy`);
  // A clone has no settings of its template.
  if (template !== 'template0') await administer(url, `alter database ${name} set jit = off`);
  const own = new URL(url);
  own.pathname = name;
  const pool = new pg.Pool({ connectionString: own.href });
  // `drop` throws out whoever is still connected: our own idle connections, and those a test has left behind.
  pool.on('error', () => {});
  let dropped: Promise<void> | undefined;
  const drop = () => {
    dropped ??= pool.end().then(() => administer(url, `drop database if exists ${name} with (force)`));
    return dropped;
  };
  return { url: own.href, pool, drop, [Symbol.asyncDispose]: drop };
}

async function administer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement).finally(() => client.end());
}
