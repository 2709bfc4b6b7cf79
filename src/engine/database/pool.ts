/** Connections to the warehouse, and the one way to run a transaction. */
import type { Duplex } from 'node:stream';
import pg from 'pg';
import { isAway, unlessMoved } from '../../errors.ts';
import { integerOf, parseEachDigit, parseJson } from '../exact-json.ts';
import { poolConfig, type SessionSettings } from './session/session.ts';
import { query } from './sql.ts';

type Parser = (text: string) => unknown;
/** node-postgres has `create`, which its types leave out. */
const arrays = pg.types.arrayParser as unknown as {
  create(text: string, of: (one: string | null) => unknown): { parse(): unknown };
};
const arrayOf =
  (parser: Parser): Parser =>
  text =>
    arrays.create(text, one => (one === null ? null : parser(one))).parse();
const jsonTypes = (parser: Parser): [type: number, parser: Parser][] => [
  [pg.types.builtins.JSON, parser],
  [pg.types.builtins.JSONB, parser],
  [199, arrayOf(parser)],
  [3807, arrayOf(parser)],
];

// A count is a number. Digits of a source that a number cannot hold stay exact.
pg.types.setTypeParser(pg.types.builtins.INT8, integerOf);
for (const [type, parser] of jsonTypes(parseJson)) pg.types.setTypeParser(type, parser);

const exact = new Map([...jsonTypes(parseEachDigit), [1231, arrayOf(String)]]);
/** For a statement whose values are shown or stored again: JSON and arrays of numeric keep each digit. */
export const eachDigit: pg.CustomTypesConfig = {
  getTypeParser: (type, format) => exact.get(type) ?? pg.types.getTypeParser(type, format),
};

export type Client = pg.ClientBase;
/** A pool, or a session of it. */
export type Queryable = Pick<Client, 'query'>;

/** The socket of a session. The types of node-postgres leave it out. */
export const streamOf = ({ connection }: pg.Client): Duplex => (connection as unknown as { stream: Duplex }).stream;

/**
 * Frees what a session holds when its process cannot: after 25 s if the machine has vanished, after 10 s if the process
 * sleeps in a transaction. Our transactions wait for nothing but the database. The transaction of a page waits a few
 * seconds at most for the page before.
 */
export const givesUp = {
  tcp_keepalives_idle: 10,
  tcp_keepalives_interval: 5,
  tcp_keepalives_count: 3,
  idle_in_transaction_session_timeout: '10s',
} satisfies SessionSettings;

/**
 * Names without a schema are PostgreSQL's own, in the bodies of triggers too. So an object that someone created in
 * schema public never runs with our rights. pg_temp would come first unless it is named.
 */
export const ownNames = { search_path: 'pg_catalog, pg_temp' } satisfies SessionSettings;

/** Least size of the pool: a process runs at most eight jobs of an account, its reconciler and its schedule. */
const poolLeast = 10;
/** The limit for any number of accounts. A query without a free connection waits for one. */
const poolMost = 18;
/**
 * Connections of the budget, for any number of accounts. Its statements are short, and more connections would not grant
 * more requests per second.
 */
const ledgerMost = 2;

/** The most connections of a process for its work, apart from the budget. */
export const workConnections = (accounts: number): number => Math.min(poolLeast - 1 + accounts, poolMost);
/** The most connections of a process, for its work and the budget. */
export const connectionsOf = (accounts: number): number => workConnections(accounts) + ledgerMost;

/** Most connections for pages and probes: many browsers, each for a moment. */
export const lookersMost = 4;
/** A silent server counts as away. Longer than any look may take. */
const silentMs = 25_000;
const connectMs = 5000;

/** A connection is kept for later work: a new one plans each statement anew, which takes longer than running most of them. */
const idleMs = 600_000;

/**
 * PostgreSQL 18 plans the functions that a statement calls for each row anew, too, where it plans each execution. For a statement
 * about many accounts that takes most of its time. In this mode it plans them a few times.
 */
const plansOfFunctions = { plan_cache_mode: 'auto' };

export const makePool = (url: string, accounts = 1): pg.Pool => poolOf(url, { max: workConnections(accounts) });

/** A pool apart from the work: neither takes connections from the other. A silent server is given up. */
export const makeLookingPool = (url: string): pg.Pool =>
  poolOf(
    url,
    {
      max: lookersMost,
      query_timeout: silentMs,
      connectionTimeoutMillis: connectMs,
    },
    { ...sessionSettings, ...plansOfFunctions },
  );

// Plans are made for each execution: a plan that was frozen while the tables were empty would read whole tables from
// then on. withKeptPlans is for statements where planning costs too much. A crash of the server may lose the last half second of commits: rows and the coverage that they prove
// go together, so they are read again, and no position is ahead of its rows. What must not be lost is committed
// `durably`. JIT is off: the planner overestimates views with many parts, and sync.problems of an empty warehouse took
// 8.5 s to compile (PostgreSQL 15 of Debian, on a busy machine), against 24 ms without.
export const sessionSettings: SessionSettings = {
  synchronous_commit: 'off',
  plan_cache_mode: 'force_custom_plan',
  jit: 'off',
  ...ownNames,
  ...givesUp,
};

/** Each of these statements finds its rows by a key, also where its plan was made while the table was empty. */
const plansByKey = { plan_cache_mode: 'force_generic_plan', enable_seqscan: 'off' };

/**
 * A pool for the statements of the budget, which each request needs twice, and of `byKey`. Their plans are kept, because planning
 * costs more than their work.
 */
export const makeLedgerPool = (url: string): pg.Pool =>
  poolOf(url, { max: ledgerMost }, { ...sessionSettings, ...plansByKey });

const ledgerOf = new WeakMap<object, pg.Pool>();

/** From now on the ledger's sessions run the statements of `byKey`. */
export const keepPlansIn = (ledger: pg.Pool, pool: pg.Pool): void => void ledgerOf.set(pool, ledger);

/**
 * Asks by a statement by key, which each stream of each run needs. In a transaction it keeps its plan if that is one
 * `withPlansByKey`.
 */
export const byKey = (db: Queryable, name: string) => query(ledgerOf.get(db) ?? db, name);

function poolOf(url: string, more: pg.PoolConfig, settings: SessionSettings = sessionSettings): pg.Pool {
  const pool = new pg.Pool({
    ...poolConfig(url, settings),
    application_name: 'shelfdesk',
    idleTimeoutMillis: idleMs,
    // A server that vanished while nothing was asked is noticed, and its connections are replaced.
    ...{ keepAlive: true, keepAliveInitialDelayMillis: 10_000 },
    ...more,
  });
  // A broken idle connection is replaced. The next query that needs one reports the error.
  pool.on('error', () => {});
  // A connection that breaks within a transaction fails that transaction, not the whole process.
  pool.on('connect', client => client.on('error', () => {}));
  return pool;
}

/**
 * A deadlock, which PostgreSQL ends for one of the two; or another transaction has inserted the same new row. The
 * transaction is repeated.
 */
const again = new Set(['40P01', '23505']);
const mostTries = 10;

/**
 * Begins a transaction whose statements are prepared and planned once in a session: planning a merge for each page can
 * cost nearly as much as a merge without changes. The plan may have been made while the tables were empty. So only
 * index scans are allowed, and the statements are written so that only one index fits (merge.ts).
 */
export const withKeptPlans = [
  'begin',
  'set local plan_cache_mode = force_generic_plan',
  ...['seqscan', 'bitmapscan', 'sort', 'memoize'].map(way => `set local enable_${way} = off`),
].join('; ');

/**
 * Begins a transaction that is on disk when its commit returns, together with everything committed before. For the few
 * facts that may never be lost: a taken slot, a fencing token, a pause, an erasure.
 */
export const durably = 'begin; set local synchronous_commit = on';

/** For a transaction whose statements are by key, and for the rest of it, if that is not. */
export const withPlansByKey = 'set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off';
export const withPlansForValues = 'set local plan_cache_mode = force_custom_plan; set local enable_seqscan = on';

/** Begins a transaction that asks for the state of many accounts. */
export const withPlansOfFunctions = `begin; set local plan_cache_mode = ${plansOfFunctions.plan_cache_mode}`;

const onCommit = new WeakMap<Client, (() => void)[]>();

/** Within `transaction`: called when the commit has answered, and never after a rollback. */
export function whenCommitted(client: Client, act: () => void): void {
  onCommit.get(client)?.push(act);
}

/**
 * `work` may run again from the beginning, so it must keep nothing outside the transaction. `begin` and `commit` may have
 * further statements, which then cost no round trip of their own.
 */
export async function transaction<T>(
  pool: pg.Pool,
  work: (client: Client) => Promise<T>,
  begin = 'begin',
  commit = 'commit',
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await once(pool, work, begin, commit);
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || !again.has(error.code ?? '') || attempt === mostTries) throw error;
    }
  }
}

async function once<T>(pool: pg.Pool, work: (client: Client) => Promise<T>, begin: string, commit: string): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  const acts: (() => void)[] = [];
  onCommit.set(client, acts);
  try {
    await client.query(begin);
    const result = await work(client);
    await client.query(commit);
    for (const act of acts) act();
    return result;
  } catch (error) {
    // Also for a live connection to a server that is read-only now: the next connection may reach the new primary.
    if (isAway(error)) broken = error;
    await client.query('rollback').catch((lost: Error) => {
      broken = lost;
    });
    throw unlessMoved(error);
  } finally {
    onCommit.delete(client);
    client.release(broken);
  }
}

/**
 * PostgreSQL cannot store a value: SQLSTATE class 22 (invalid value), 54 (too long, at least for an index, or too
 * deep), a row twice in one statement, or a rule of a table (23; except for keys, which another transaction may have
 * written). The cause is a record, not the connection or the statement.
 */
const isDataException = (error: unknown): error is pg.DatabaseError =>
  error instanceof pg.DatabaseError &&
  error.code !== undefined &&
  /^(22...|54...|21000|23502|23514|23P01)$/.test(error.code);

/**
 * One record cannot be stored or processed: PostgreSQL refuses it, or it is too deep, too long or too odd for one of
 * our functions.
 */
export const isOfRecord = (error: unknown): error is Error =>
  isDataException(error) || [RangeError, SyntaxError, TypeError, URIError].some(kind => error instanceof kind);
