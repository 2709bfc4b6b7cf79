/** The servers of a soak, each a process of its own on a port that stays: PostgreSQL, Redis and the sandbox. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import pg from 'pg';
import { ensureCluster, freePort, readPassword } from '../../../src/embedded/cluster.ts';
import { findPlace, run } from '../../../src/embedded/place.ts';
import { shelfdesk } from '../../../test/support/cli.ts';
import { removeServer } from '../../../test/support/global.ts';

export interface Postgres {
  readonly url: string;
  /** Its connections end with the server. */
  readonly pool: pg.Pool;
  restart(mode: 'fast' | 'immediate'): Promise<void>;
}

/** The embedded binaries. Undone by what is deferred on `stack`, as are the others. */
export async function startPostgres(folder: string, stack: AsyncDisposableStack): Promise<Postgres> {
  const home = join(folder, 'postgres');
  stack.defer(() => removeServer(home));
  const place = await findPlace(home);
  await ensureCluster(place, {});
  const port = await freePort();
  const settings = ['listen_addresses=127.0.0.1', `port=${port}`, "unix_socket_directories=''", 'max_connections=200'];
  const control = async (...args: string[]) => {
    const data = join(place.home, 'data');
    const all = [...args, '-w', '-s', '-D', data, '-l', join(place.home, 'log')];
    const { code, output } = await run(join(place.bin, 'pg_ctl'), all, place.account);
    if (code !== 0) throw new Error(`pg_ctl ${args[0]} ended with ${code}: ${output}`);
  };
  await control('start', '-o', settings.map(setting => `-c ${setting}`).join(' '));
  const base = `postgres://shelfdesk:${await readPassword(place)}@127.0.0.1:${port}`;
  const admin = new pg.Client({ connectionString: `${base}/postgres` });
  await admin.connect();
  await admin.query('create database soak template template0').finally(() => admin.end());
  const url = `${base}/soak`;
  const pool = new pg.Pool({ connectionString: url, application_name: 'soak' });
  pool.on('error', () => {}); // Of idle connections, whenever the server is restarted.
  stack.defer(() => pool.end());
  return { url, pool, restart: mode => control('restart', '-m', mode) };
}

export interface RedisServer {
  readonly url: string;
  start(): Promise<void>;
  /** SIGTERM lets it write down what it has; after SIGKILL at most the last second of its file is missing. */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  flush(): Promise<void>;
}

/** With a file to which it writes, as in docker-compose.yml: what is stopped comes back full, what is flushed does not. */
export async function startRedis(folder: string, stack: AsyncDisposableStack): Promise<RedisServer> {
  const home = join(folder, 'redis');
  mkdirSync(home);
  const port = await freePort();
  const url = `redis://127.0.0.1:${port}`;
  const options = { port, bind: '127.0.0.1', dir: home, save: '', appendonly: 'yes', 'maxmemory-policy': 'noeviction' };
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
  let server: ChildProcess | undefined;
  const asked = async (ask: (client: Redis) => Promise<unknown>) => {
    const client = new Redis(url, { retryStrategy: times => (times < 200 ? 50 : null), maxRetriesPerRequest: null });
    client.on('error', () => {}); // Until it listens.
    await ask(client).finally(() => client.disconnect());
  };
  const start = async () => {
    const one = spawn('redis-server', args, { stdio: 'ignore' });
    await new Promise((done, fail) => one.once('spawn', done).once('error', fail)).catch(error => {
      throw new Error(`redis-server does not start: ${error.message}. Install Redis, so that it is found in PATH.`);
    });
    server = one;
    await asked(client => client.ping());
  };
  const end = async (signal: 'SIGTERM' | 'SIGKILL') => {
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const ended = new Promise(done => server!.once('exit', done));
    server.kill(signal);
    await ended;
  };
  stack.defer(() => end('SIGKILL'));
  await start();
  return { url, start, end, flush: () => asked(client => client.flushall()) };
}

export interface Served {
  readonly url: string;
  readonly token: string;
  /** Of the admin port: the JSON of an answer, or a list of its lines. */
  ask<T>(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown): Promise<T>;
}

export async function startSandbox(args: readonly string[], stack: AsyncDisposableStack): Promise<Served> {
  const { process, finished } = shelfdesk(
    ['sandbox', '--port', '0', '--admin-port', '0', '--volumes', '1', '--json', ...args],
    {},
  );
  stack.defer(async () => {
    process.kill('SIGTERM');
    await finished;
  });
  const said = await new Promise<{ url: string; token: string; admin_url: string }>((resolve, reject) => {
    let text = '';
    process.stdout!.on('data', chunk => {
      text += chunk;
      if (text.endsWith('}\n')) resolve(JSON.parse(text));
    });
    finished.then(({ code, stderr }) => reject(new Error(`the sandbox ended with ${code}: ${stderr}`)), reject);
  });
  const ask = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const reply = await fetch(new URL(path, said.admin_url), {
      method,
      ...(body !== undefined && { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }),
    });
    const text = await reply.text();
    if (!reply.ok) throw new Error(`${method} ${path} of the admin port: ${reply.status} ${text}`);
    if (reply.headers.get('content-type') !== 'application/x-ndjson') return (text && JSON.parse(text)) as T;
    return text.split('\n').flatMap(line => (line === '' ? [] : [JSON.parse(line)])) as T;
  };
  return { url: said.url, token: said.token, ask };
}

/** Asked again while the server is away, for a minute at most. */
export async function patiently<T>(ask: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await ask();
    } catch (error) {
      if (tries === 300) throw error;
      await delay(200);
    }
  }
}
