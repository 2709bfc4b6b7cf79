/**
 * Poolers between this process and PostgreSQL, such as PgBouncer. One that gives a session of its own to each connection is fine. One
 * that shares sessions after each transaction or statement would share settings, temporary tables and the locks of living workers.
 */
import pg from 'pg';
import { UsageError } from '../../../errors.ts';
import { addressOf } from './connection-url.ts';

/** A pooler that has no session left keeps a connection waiting. */
const patienceMs = 5000;

/** The findings of this process, by address. A login for one question may have one connection only, and is not looked at again. */
const looks = new Map<string, Promise<void>>();

function keyOf(url: string): string {
  const { host = '', port = '', database, user } = addressOf(url);
  return [host, port, database ?? user].join(' ');
}

/** Whether the connections opened so far to this address go through a pooler. */
export const isPooled = (url: string): boolean => looks.has(keyOf(url));

/** Throws UsageError if the pooler at this address shares sessions, or hands them on as they are. Looks once. */
export function refuseTransactionPooling(url: string, configOf: () => pg.ClientConfig): Promise<void> {
  const key = keyOf(url);
  let look = looks.get(key);
  if (look === undefined) {
    look = lookAt(configOf);
    looks.set(key, look);
    look.catch(() => looks.delete(key));
  }
  return look;
}

async function lookAt(configOf: () => pg.ClientConfig): Promise<void> {
  const open: pg.Client[] = [];
  const connect = async () => {
    const client = new pg.Client({
      ...configOf(),
      application_name: 'shelfdesk: looks',
      connectionTimeoutMillis: patienceMs,
      query_timeout: patienceMs,
    });
    client.on('error', () => {});
    open.push(client);
    await client.connect();
    return client;
  };
  try {
    await refuseTransactions(await connect(), await connect());
    await refuseLeftovers([...open], connect);
  } catch (error) {
    if (!/timeout|no more connections/i.test((error as Error).message)) throw error;
    throw new UsageError(
      'the pooler at DATABASE_URL has no session left for a second connection',
      'Raise default_pool_size and max_client_conn of PgBouncer: `npx shelfdesk doctor` says how many connections a process takes up to.',
    );
  } finally {
    await Promise.all(open.map(client => client.end().catch(() => {})));
  }
}

/**
 * While another connection is in a transaction, a connection of its own session keeps its backend. A pooler that shares sessions gives
 * both the same one, or the first one a second one.
 */
async function refuseTransactions(one: pg.Client, other: pg.Client): Promise<void> {
  const before = [await backendOf(one), await backendOf(one)];
  let during: number[];
  try {
    await other.query('begin');
    during = [await backendOf(other)];
  } catch (error) {
    if (/statement pooling|transaction blocks not allowed/i.test((error as Error).message)) throw shares('statement');
    throw error;
  }
  const after = await backendOf(one);
  await other.query('commit');
  if (during.includes(before[0]!) || new Set([...before, after]).size > 1) throw shares('transaction');
}

const backendOf = async (client: pg.Client): Promise<number> =>
  (await client.query<{ pid: number }>('select pg_catalog.pg_backend_pid() as pid')).rows[0]!.pid;

/** A session that was handed on with its settings was handed on with its locks. */
async function refuseLeftovers(first: readonly pg.Client[], connect: () => Promise<pg.Client>): Promise<void> {
  for (const client of first) {
    await client.query(`select pg_catalog.set_config('shelfdesk.left', 'yes', false)`);
    await client.end();
  }
  for (const _ of first) {
    const next = await connect();
    const { rows } = await next.query(`select pg_catalog.current_setting('shelfdesk.left', true) as left`);
    if (rows[0].left !== 'yes') continue;
    await next.query(`select pg_catalog.set_config('shelfdesk.left', '', false)`);
    throw new UsageError(
      'the pooler at DATABASE_URL hands sessions on without resetting them: the lock of a worker that was killed would stay',
      'Set `server_reset_query = DISCARD ALL` in PgBouncer, or name the address of PostgreSQL itself in DATABASE_URL.',
    );
  }
}

const shares = (after: 'transaction' | 'statement') =>
  new UsageError(
    `the pooler at DATABASE_URL shares sessions after each ${after}: settings and locks of a session would reach other clients`,
    'Set `pool_mode = session` for this database in PgBouncer, or name the address of PostgreSQL itself in DATABASE_URL (with hosted services often another port or host, “direct” or “session”).',
  );
