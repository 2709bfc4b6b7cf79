/** A login that reads a test's database, made as `reader create` makes it, and removed with its sessions at the end. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { letIn, revoke } from '../../src/privacy/readers.ts';
import type { TestDatabase } from './postgres.ts';

export interface TestReader extends AsyncDisposable {
  readonly name: string;
  readonly url: string;
  /** A session of its own; has a listener for notices. */
  readonly client: pg.Client;
  readonly notices: string[];
  rows<T extends pg.QueryResultRow = Record<string, unknown>>(sql: string, ...values: unknown[]): Promise<T[]>;
  /** What PostgreSQL says to it; undefined where it does as it is told. */
  refused(sql: string): Promise<string | undefined>;
}

/** Write `await using reader = await letReaderIn(db)` after the database: it has to go before that does. */
export async function letReaderIn(
  db: Pick<TestDatabase, 'pool' | 'url'>,
  { pii = false, accounts = null }: { pii?: boolean; accounts?: readonly string[] | null } = {},
): Promise<TestReader> {
  const name = aName('reader');
  const at = new Date('2026-01-01T00:00:00Z');
  const password = await letIn(db.pool, { name, pii, accounts, who: 'a test' }, at);
  const url = new URL(db.url);
  [url.username, url.password] = [name, password];
  const session = await sessionOf(url.href);
  return {
    ...session,
    name,
    url: url.href,
    async [Symbol.asyncDispose]() {
      await session.client.end();
      const { rowCount } = await db.pool.query('select from sync.readers where role_name = $1', [name]);
      if (rowCount !== 0) await revoke(db.pool, name, 'a test', at);
    },
  };
}

/** Roles belong to the whole server, which other tests use at the same time. */
export const aName = (kind: string): string => `${kind}_${randomBytes(5).toString('hex')}`;

export async function sessionOf(url: string): Promise<Pick<TestReader, 'client' | 'notices' | 'rows' | 'refused'>> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  const notices: string[] = [];
  client.on('notice', ({ message }) => notices.push(message ?? ''));
  await client.connect();
  return {
    client,
    notices,
    rows: async (sql, ...values) => (await client.query(sql, values)).rows,
    refused: sql =>
      client.query(sql).then(
        () => undefined,
        (error: Error) => error.message,
      ),
  };
}
