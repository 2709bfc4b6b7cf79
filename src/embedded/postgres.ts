/**
 * An embedded PostgreSQL server, shared by all Shelfdesk processes of a project. The first process starts it and the
 * last one stops it. No process is in charge, because each may be killed at any time.
 *
 * PostgreSQL counts the processes: each holds one connection with a shared advisory lock. A leaving process releases
 * its lock and tries the exclusive lock; if it gets that lock, no other process is left. A killed process leaves the
 * count with its connection. A process that arrives while the server is being stopped waits for the shared lock, loses
 * its connection like all others, and starts the server again.
 */
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { ensureCluster, failed, look, maxLooks, pauseMs, readPassword, type Settings, start, stop } from './cluster.ts';
import { findPlace, type Place } from './place.ts';

export interface Embedded {
  /** postgres://shelfdesk:<password>@127.0.0.1:<port>/shelfdesk */
  url: string;
  /**
   * The real folder of data, password and log. It differs from the requested folder if root's server cannot enter that
   * one.
   */
  dataFolder: string;
  /** True if this call started the server, false if the server was running. */
  started: boolean;
  /** Leaves the server, and stops it if no other process uses it. Further calls wait for the same end. */
  release(): Promise<void>;
}

/** 'SHLF', taken in the database `postgres`. */
const lockKey = 0x53_48_4c_46;
/** Most retries after failures that do not pass by themselves, such as a full disk. */
const maxFailures = 8;

export async function joinEmbedded(options: {
  /** Usually .shelfdesk/postgres in the project. Processes with the same folder share a server. */
  folder: string;
  signal?: AbortSignal;
  /** Further settings of the server, if this call starts it. */
  settings?: Settings;
}): Promise<Embedded> {
  const { folder, signal, settings = {} } = options;
  try {
    return await join(folder, settings, signal);
  } catch (error) {
    signal?.throwIfAborted();
    if (!(error as NodeJS.ErrnoException).syscall) throw error;
    const words = (error as Error).message;
    throw failed(`PostgreSQL cannot be set up in ${folder}`, { code: 1, output: words }, error);
  }
}

async function join(folder: string, settings: Settings, signal?: AbortSignal): Promise<Embedded> {
  signal?.throwIfAborted();
  const place = await findPlace(folder);
  let started = false;
  let failures = 0;
  let trouble = failed(`PostgreSQL in ${place.home}`, { code: 1, output: 'it neither starts nor stops' });
  for (let attempt = 0; attempt < maxLooks && failures < maxFailures; attempt++) {
    await ensureCluster(place, settings);
    let server = await look(place);
    if (server.state === 'down') {
      signal?.throwIfAborted();
      const outcome = await start(place, settings);
      if (outcome.code === 0) started = true;
      else trouble = failed(`PostgreSQL in ${place.home} does not start`, outcome);
      server = await look(place);
      // Backends of a killed server end by themselves, but only after their statement.
      if (server.state === 'down' && !outcome.output.includes('shared memory block')) failures++;
    }
    if (server.state === 'ready') {
      try {
        return await enter(place, server.port, started, signal);
      } catch (error) {
        signal?.throwIfAborted();
        if (!isPassing(error)) failures++;
        const output = error instanceof Error ? error.message : String(error);
        trouble = failed(`PostgreSQL in ${place.home} does not let us in`, { code: 1, output }, error);
      }
    }
    await delay(pauseMs(attempt), undefined, signal ? { signal } : {});
  }
  throw trouble;
}

/**
 * Whether something was read into the server's database. A command that only looks makes a server, too, and `init` its tables.
 * True if the server cannot be asked: what is in the folder may be somebody's warehouse.
 */
export async function holdsRows(folder: string): Promise<boolean> {
  try {
    const { url, release } = await joinEmbedded({ folder });
    const client = new pg.Client({ connectionString: url });
    try {
      await client.connect();
      const { rows } = await client.query("select to_regclass('sync.sources') is not null as there");
      return rows[0].there && (await client.query('select from sync.sources limit 1')).rows.length > 0;
    } finally {
      await client.end();
      await release();
    }
  } catch {
    return true;
  }
}

/** Whether the error is temporary: the server is starting, stopping or recovering. */
function isPassing(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string };
  const codes = ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', '57P01', '57P02', '57P03', '53300', '55P03'];
  return codes.includes(code ?? '') || /terminated|timeout/i.test(message ?? '');
}

async function enter(place: Place, port: number, started: boolean, signal?: AbortSignal): Promise<Embedded> {
  const password = await readPassword(place);
  const client = await hold(port, password);
  const release = keepHold(place, client, port, password);
  try {
    await ensureDatabase(client);
    signal?.throwIfAborted();
  } catch (error) {
    await release();
    throw error;
  }
  const url = `postgres://shelfdesk:${password}@127.0.0.1:${port}/shelfdesk`;
  return { url, dataFolder: place.home, started, release };
}

/** A connection with the shared lock. While it exists, no process stops the server. */
async function hold(port: number, password: string): Promise<pg.Client> {
  const client = new pg.Client({
    host: '127.0.0.1',
    port,
    user: 'shelfdesk',
    password,
    database: 'postgres',
    ssl: false,
    application_name: 'shelfdesk: holds the embedded server',
    connectionTimeoutMillis: 10_000,
    // With a time limit: the holder of the exclusive lock is about to stop the server, or was suspended.
    options: '-c lock_timeout=30s -c statement_timeout=0 -c idle_session_timeout=0',
  });
  // A lost connection must not end the process. Other connections report the loss.
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('select pg_advisory_lock_shared($1)', [lockKey]);
    return client;
  } catch (error) {
    client.end().catch(() => {});
    throw error;
  }
}

/**
 * Keeps the shared lock until `release`. If a backend crashes, PostgreSQL drops all connections and continues on the
 * same port. Then no process holds the lock, and the first to leave would stop the server for the others. So this
 * function takes the lock again.
 */
function keepHold(place: Place, first: pg.Client, port: number, password: string): () => Promise<void> {
  let leaving: Promise<void> | undefined;
  let holder: Promise<pg.Client | undefined> = Promise.resolve(first);
  const watch = (client: pg.Client) =>
    client.once('end', () => {
      if (!leaving) holder = holdAgain();
    });
  const holdAgain = async (): Promise<pg.Client | undefined> => {
    for (let attempt = 0; attempt < (leaving ? maxFailures : maxLooks); attempt++) {
      await delay(pauseMs(attempt));
      const server = await look(place).catch(() => undefined);
      if (server?.state === 'ready' && server.port === port) {
        const client = await hold(port, password).catch(() => undefined);
        if (client) watch(client);
        if (client) return client;
      } else if (server?.state !== 'busy') return undefined; // The server is gone or was replaced.
    }
    return undefined;
  };
  watch(first);
  return () => {
    leaving ??= holder.then(client => client && leave(place, client));
    return leaving;
  };
}

async function leave(place: Place, client: pg.Client): Promise<void> {
  try {
    if (await isLast(client)) await stop(place);
  } finally {
    // Ends the connection last: its exclusive lock makes arriving processes wait until the server is gone.
    await client.end().catch(() => {});
  }
}

async function isLast(client: pg.Client): Promise<boolean> {
  try {
    await client.query('select pg_advisory_unlock_shared($1)', [lockKey]);
    const { rows } = await client.query('select pg_try_advisory_lock($1) as alone', [lockKey]);
    return rows[0].alone;
  } catch {
    return false; // The connection is lost, and the lock with it.
  }
}

/** Every process checks for the database, because the one that creates it may be killed before. */
async function ensureDatabase(client: pg.Client): Promise<void> {
  const { rowCount } = await client.query("select from pg_database where datname = 'shelfdesk'");
  if (rowCount) return;
  await client.query('create database shelfdesk template template0').catch((error: { code?: string }) => {
    // Another process was faster; the error comes from PostgreSQL's check or from its unique index.
    if (error.code !== '42P04' && error.code !== '23505') throw error;
  });
}
