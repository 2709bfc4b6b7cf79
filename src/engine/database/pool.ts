/** Connections to the warehouse, and the one way to run a transaction. */
import pg from 'pg';
import { isAway } from '../../errors.ts';

// bigint as a number: nothing that we count or read back comes near 2^53.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);

export type Client = pg.ClientBase;

/**
 * What a session holds is free again when its process can no longer say so: after 25 s when the machine has vanished, and
 * after 10 s when it sleeps in a transaction. No transaction of ours waits for anything but the database; that of a page waits
 * for some seconds at most until the one before is committed.
 */
export const givesUp =
  '-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 -c idle_in_transaction_session_timeout=10s';

/**
 * Names without a schema are PostgreSQL's own, in the bodies of triggers too: what somebody may have made in schema public
 * is never called with our rights. pg_temp comes first unless it is named.
 */
export const ownNames = '-c search_path=pg_catalog,pg_temp';

/** A process has at most eight jobs of an account at work, and looks after its runs and its schedule beside them. */
const poolLeast = 10;
/** However many accounts there are: who finds none free waits for one, each in turn. */
const poolMost = 20;

/** What the pool of a process takes at most. */
export const connectionsOf = (accounts: number): number => Math.min(poolLeast - 1 + accounts, poolMost);

/** Of those who only look: many browsers at once, each for a moment. */
export const lookersMost = 4;
/** A server that is silent is as good as away. Longer than any look may take. */
const silentMs = 25_000;
const connectMs = 5000;

export const makePool = (url: string, accounts = 1): pg.Pool => poolOf(url, { max: connectionsOf(accounts) });

/** Beside the work: it takes no connection from it, nor waits for one of its. A server that says nothing is given up. */
export const makeLookingPool = (url: string): pg.Pool =>
  poolOf(url, { max: lookersMost, query_timeout: silentMs, connectionTimeoutMillis: connectMs });

// Plans are made for each execution: one that is frozen while the tables are empty reads whole tables from then on. Where
// that costs too much see withKeptPlans.
// Times without an offset are UTC wherever the server stands. A crash of the server may lose the last half second of
// commits: rows and the coverage they prove go together, so it is read again, and no position is ahead of its rows.
// Views of many parts look dear to the planner, who then has them compiled: sync.problems of an empty warehouse took 8.5 s
// so (PostgreSQL 15 of Debian, on a busy machine), and takes 24 ms without.
export const sessionOptions = `-c timezone=UTC -c synchronous_commit=off -c plan_cache_mode=force_custom_plan -c jit=off ${ownNames} ${givesUp}`;

function poolOf(url: string, more: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    application_name: 'shelfdesk',
    options: sessionOptions,
    ...more,
  });
  // An idle connection that breaks is replaced; the query that needs it next says what is wrong.
  pool.on('error', () => {});
  // One that breaks while a transaction has it fails that transaction, and not the whole process.
  pool.on('connect', client => client.on('error', () => {}));
  return pool;
}

/**
 * Two transactions that wait for each other's rows: PostgreSQL ends one. Or another one has stored the same new row first. The
 * transaction is simply made again.
 */
const again = new Set(['40P01', '23505']);
const mostTries = 10;

/**
 * Begins a transaction whose statements are prepared once and planned once in a session: planning a merge anew for each page can
 * cost nearly as much as the merge of what has not changed. Such a plan may have been made while the tables were empty. So nothing
 * may be read but by an index, and the statements see to it that only one index will do (merge.ts).
 */
export const withKeptPlans = [
  'begin',
  'set local plan_cache_mode = force_generic_plan',
  ...['seqscan', 'bitmapscan', 'sort', 'memoize'].map(way => `set local enable_${way} = off`),
].join('; ');

/** `work` may be done again from the beginning: it keeps nothing outside of the transaction. */
export async function transaction<T>(pool: pg.Pool, work: (client: Client) => Promise<T>, begin = 'begin'): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await once(pool, begin, work);
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || !again.has(error.code ?? '') || attempt === mostTries) throw error;
    }
  }
}

async function once<T>(pool: pg.Pool, begin: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    await client.query(begin);
    const result = await work(client);
    await client.query('commit');
    return result;
  } catch (error) {
    // Also one that lives, of a server that only reads: the next one may be of the server that has taken over.
    if (isAway(error)) broken = error;
    await client.query('rollback').catch((lost: Error) => {
      broken = lost;
    });
    throw error;
  } finally {
    client.release(broken);
  }
}

/**
 * PostgreSQL cannot store a value: SQLSTATE class 22 (it is no such value) and 54 (it is too long, for an index at least,
 * or too deep), a row twice in a statement, and rules of a table (23; but for keys, which others may have written). It concerns a
 * record, not the connection or the statement.
 */
const isDataException = (error: unknown): error is pg.DatabaseError =>
  error instanceof pg.DatabaseError &&
  error.code !== undefined &&
  /^(22...|54...|21000|23502|23514|23P01)$/.test(error.code);

/** One record cannot be stored or worked on: PostgreSQL refuses it, or it is too deep, too long or too odd for a function of ours. */
export const isOfRecord = (error: unknown): error is Error =>
  isDataException(error) || [RangeError, SyntaxError, TypeError, URIError].some(kind => error instanceof kind);
