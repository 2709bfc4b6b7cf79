/**
 * A PostgreSQL server for people who have none, shared by all Shelfdesk processes of a project: the first one to come
 * starts it, the last one to go stops it, and nobody is in charge, since each may be killed at any time.
 *
 * Who is still there is counted by PostgreSQL: everybody holds one connection with a shared advisory lock. Whoever leaves
 * gives that up and tries the exclusive lock; getting it means that nobody else is there. A killed process drops out of
 * the count with its connection. Whoever arrives while the last one is stopping the server waits for the shared lock, is
 * thrown out together with everybody else, and comes back to start it anew.
 */
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { ensureCluster, failed, look, maxLooks, pauseMs, readPassword, type Settings, start, stop } from './cluster.ts';
import { findPlace, type Place } from './place.ts';

export interface Embedded {
  /** postgres://shelfdesk:<password>@127.0.0.1:<port>/shelfdesk */
  url: string;
  /** Where data, password and log really are: not the folder asked for when root's server cannot enter that one. */
  dataFolder: string;
  /** True if this call has started the server, false if it has joined a running one. */
  started: boolean;
  /** Leaves; stops the server if nobody else is there. Further calls wait for the same end. */
  release(): Promise<void>;
}

/** 'SHLF': in database `postgres`, where the holders meet. */
const lockKey = 0x53_48_4c_46;
/** Failures that time alone does not mend, such as a disk that is full, are not repeated that often. */
const maxFailures = 8;

export async function joinEmbedded(options: {
  /** As a rule .shelfdesk/postgres in the project. Everybody who names the same one shares a server. */
  folder: string;
  signal?: AbortSignal;
  /** Further settings for the server, if it is this call that starts it. */
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
      // The backends of a server that was killed end by themselves, but not before their statement does.
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

/** What a server answers, or does not, while it starts, stops or recovers. */
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

/** A connection with the shared lock: as long as it lives, nobody stops the server. */
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
    // Not for ever: whoever has the exclusive lock is about to stop the server, or was stopped itself just then.
    options: '-c lock_timeout=30s -c statement_timeout=0 -c idle_session_timeout=0',
  });
  // A lost connection must not end the process: whoever uses the database will see the loss in its own connections.
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
 * Keeps the hold until `release`. When one backend crashes, PostgreSQL throws everybody out and goes on at the same port;
 * then nobody holds the server any more, and the first to leave would stop it for the others. So take hold again.
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
      } else if (server?.state !== 'busy') return undefined; // It is gone, or is another one by now.
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
    // Only now: the exclusive lock keeps those who arrive waiting until the server is gone.
    await client.end().catch(() => {});
  }
}

async function isLast(client: pg.Client): Promise<boolean> {
  try {
    await client.query('select pg_advisory_unlock_shared($1)', [lockKey]);
    const { rows } = await client.query('select pg_try_advisory_lock($1) as alone', [lockKey]);
    return rows[0].alone;
  } catch {
    return false; // The connection is lost, and with it our part in the count.
  }
}

/** Whoever comes first makes it, and may be killed before: so everybody looks. */
async function ensureDatabase(client: pg.Client): Promise<void> {
  const { rowCount } = await client.query("select from pg_database where datname = 'shelfdesk'");
  if (rowCount) return;
  await client.query('create database shelfdesk template template0').catch((error: { code?: string }) => {
    // Somebody else was faster: seen either by PostgreSQL itself or by its unique index.
    if (error.code !== '42P04' && error.code !== '23505') throw error;
  });
}
