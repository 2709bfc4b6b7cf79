/**
 * Real servers for the whole test run: one PostgreSQL with a migrated template database that every test clones, and one
 * Redis where there is one. Everything lives in one temporary folder whose name says whose it is, so that the next run can
 * clear up after a run that was killed (vitest tears down after failures, but not when a signal ends it).
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { accessSync, chmodSync, constants, lstatSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, delimiter, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { runMigrations } from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { openapiJson } from '../../packages/sandbox/src/openapi.ts';
import { migrateWarehouse } from '../../src/app/migrate.ts';
import { freePort, look, maxLooks, pauseMs, pidFile } from '../../src/embedded/cluster.ts';
import { isRunning, relocatedName, temporaryFolders, unless } from '../../src/embedded/place.ts';
import { joinEmbedded } from '../../src/embedded/postgres.ts';
import { shelfdesk } from './cli.ts';
import { dockerAnswers } from './docker.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Where databases can be made, the template to clone, and the prefix that the names of this run have. */
    postgres: { url: string; template: string; prefix: string };
    redisUrl: string | undefined;
    /** The same, if it ends with this run: nothing has to be cleared up in it. */
    ownRedisUrl: string | undefined;
    /** The program. */
    chromium: string | undefined;
    /** Whether a Docker engine and Docker Compose answer. */
    docker: boolean;
    /** packages/sandbox/src/openapi.yaml, read once: that takes as long as a test file. */
    openapi: object;
  }
}

type Undo = () => unknown;

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const undo: Undo[] = [];
  const tearDown = async () => {
    const errors: unknown[] = [];
    for (const step of undo.splice(0).reverse()) {
      try {
        await step();
      } catch (error) {
        errors.push(error); // What else there is has to go all the same.
      }
    }
    if (errors.length > 0) throw errors[0];
  };
  try {
    project.provide('docker', await dockerAnswers());
    project.provide('openapi', JSON.parse(openapiJson()) as object);
    project.provide('chromium', process.env.CHROMIUM || findInPath('chromium'));
    await sweepFolders();
    const folder = mkdtempSync(join(quickFolder(), `shelfdesk-tests-${process.pid}-`));
    chmodSync(folder, 0o755); // Root's PostgreSQL runs as another user, who has to get in here.
    undo.push(() => rmSync(folder, { recursive: true, force: true }));
    // For the workers of the test run, and every process that they start: half of what a start costs is compiling. The
    // first of them, which leaves what it has compiled to all others, starts while PostgreSQL does.
    process.env.NODE_COMPILE_CACHE = join(folder, 'compiled');
    undo.push(() => delete process.env.NODE_COMPILE_CACHE);
    const compiled = shelfdesk(['--help'], {}).finished;
    undo.push(() => compiled);
    const { TEST_DATABASE_URL, TEST_REDIS_URL } = process.env;
    project.provide('postgres', await setUpTemplate(TEST_DATABASE_URL ?? (await startPostgres(folder, undo)), undo));
    const ownRedisUrl = TEST_REDIS_URL ? undefined : await startRedis(folder, undo);
    project.provide('ownRedisUrl', ownRedisUrl);
    project.provide('redisUrl', TEST_REDIS_URL ?? ownRedisUrl);
    await compiled;
  } catch (error) {
    await tearDown();
    throw error;
  }
  return tearDown;
}

/** Linux keeps these files in memory. */
const inMemory = '/dev/shm';
/** Some dozens of databases at a time, and the log of what is written to them. */
const roomBytes = 4 * 2 ** 30;

/** Where hundreds of databases are made and removed: on a disk, that of their thousands of files is a sixth of the work. */
function quickFolder(): string {
  try {
    accessSync(inMemory, constants.W_OK);
    const { bavail, bsize } = statfsSync(inMemory);
    if (bavail * bsize > roomBytes) return inMemory;
  } catch {
    // Not on this system.
  }
  return tmpdir();
}

/**
 * Nothing survives a test run, so nothing needs to reach the disk. Hundreds of databases that live for seconds need no
 * cleaning, and thousands of connections no password that is slow to guess; nobody copies it, and its files are in memory.
 */
const fast = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  autovacuum: 'off',
  scram_iterations: '1',
  max_connections: '300',
  wal_level: 'minimal',
  max_wal_senders: '0',
  io_method: 'sync',
};

async function startPostgres(folder: string, undo: Undo[]): Promise<string> {
  const home = join(folder, 'postgres');
  undo.push(() => removeServer(home));
  const embedded = await joinEmbedded({ folder: home, settings: fast });
  undo.push(() => embedded.release());
  // The one that initdb has stored is hashed as often as ever.
  const { password } = new URL(embedded.url);
  await asked(embedded.url, `alter role current_user password ${pg.escapeLiteral(password)}`);
  return embedded.url;
}

/**
 * Ends the server of this folder, if one runs, and removes its data, in whatever state both are. They are looked for in
 * the folder and in the one that stands in for it: which it is depends on the clone as well, and a run that was killed
 * may have been in another.
 */
export async function removeServer(folder: string): Promise<void> {
  const home = join(await realpath(dirname(folder)), basename(folder));
  await removeData(home, home);
  for (const temporary of new Set(temporaryFolders())) {
    const base = join(temporary, relocatedName(home));
    await removeData(join(base, 'postgres'), base);
  }
}

/** Tests put files where folders should be, too. */
const isUp = (home: string): Promise<boolean> =>
  look({ home }).then(
    ({ state }) => state !== 'down',
    error => unless('ENOTDIR')(error) ?? false,
  );

async function removeData(home: string, all: string): Promise<void> {
  const told = new Set<number>();
  for (let attempt = 0; await isUp(home); attempt++) {
    if (attempt === maxLooks) throw new Error(`the PostgreSQL server in ${home} does not stop`);
    const { pid } = await pidFile({ home });
    // QUIT: at once, since its data is not needed any more.
    if (pid && !told.has(pid) && (await isUp(home)) && isRunning(pid)) process.kill(pid, 'SIGQUIT');
    if (pid) told.add(pid);
    await delay(pauseMs(attempt));
  }
  // Tried again, because programs that have outlived a killed process may still be writing there.
  await rm(all, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
}

async function asked(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement).finally(() => client.end());
}

/**
 * On a server of somebody else's, too, the databases of this run bear its name, and those of runs that are over go: a
 * run is alive as long as its connection with that name is there.
 */
async function setUpTemplate(url: string, undo: Undo[]): Promise<{ url: string; template: string; prefix: string }> {
  const prefix = `shelfdesk_test_${randomBytes(4).toString('hex')}_`;
  const admin = new pg.Client({ connectionString: url, application_name: prefix });
  admin.on('error', () => {});
  await admin.connect();
  undo.push(async () => {
    await dropDatabases(admin, 'starts_with(datname, $1)', prefix);
    await admin.end();
  });
  await dropDatabases(
    admin,
    `datname ~ $1 and not exists (select from pg_stat_activity where starts_with(datname, application_name)
       and application_name ~ $1)`,
    '^shelfdesk_test_[0-9a-f]{8}_',
  );
  const template = `${prefix}template`;
  await admin.query(`create database ${template}`);
  const templateUrl = new URL(url);
  templateUrl.pathname = template;
  await migrateWarehouse(templateUrl.href);
  // What the first process would make that opens a queue, which most tests do; commands.test.ts begins with nothing.
  const client = new pg.Client({ connectionString: templateUrl.href, options: '-c search_path=bullmq' });
  await client.connect();
  await runMigrations(client).finally(() => client.end());
  return { url, template, prefix };
}

async function dropDatabases(admin: pg.Client, which: string, argument: string): Promise<void> {
  const { rows } = await admin.query(`select datname from pg_database where ${which}`, [argument]);
  for (const { datname } of rows) await admin.query(`drop database if exists ${datname} with (force)`);
}

/** A Redis on a socket in the folder as well, through which a later run can end it. */
const socketIn = (folder: string): string => join(folder, 'redis.sock');

async function startRedis(folder: string, undo: Undo[]): Promise<string | undefined> {
  const program = findInPath('redis-server');
  if (!program) return undefined;
  const port = await freePort();
  const options = { port, bind: '127.0.0.1', unixsocket: socketIn(folder), dir: folder, save: '', appendonly: 'no' };
  const args = Object.entries({ ...options, 'maxmemory-policy': 'noeviction' }).flatMap(([k, v]) => [`--${k}`, `${v}`]);
  const server = spawn(program, args, { stdio: 'ignore' });
  const ended = new Promise(done => server.once('exit', done));
  undo.push(async () => {
    server.kill();
    await ended;
  });
  const url = `redis://127.0.0.1:${port}`;
  const client = new Redis(url, { retryStrategy: times => (times < 100 ? 50 : null), maxRetriesPerRequest: null });
  client.on('error', () => {}); // Until it listens.
  await client.ping();
  client.disconnect();
  return url;
}

function findInPath(program: string): string | undefined {
  return (process.env.PATH ?? '')
    .split(delimiter)
    .map(folder => join(folder, program))
    .find(path => {
      try {
        accessSync(path, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/** Ends the servers of killed runs and removes their folders. */
async function sweepFolders(): Promise<void> {
  const all = [...new Set([tmpdir(), quickFolder()])].flatMap(at => readdirSync(at).map(name => join(at, name)));
  for (const folder of all) {
    const pid = Number(/^shelfdesk-tests-(\d+)-/.exec(basename(folder))?.[1]);
    if (!pid || isRunning(pid) || lstatSync(folder, { throwIfNoEntry: false })?.uid !== process.geteuid?.()) continue;
    const redis = new Redis(socketIn(folder), { retryStrategy: null, lazyConnect: true });
    redis.on('error', () => {});
    await redis.shutdown('NOSAVE').catch(() => {});
    redis.disconnect();
    try {
      await removeServer(join(folder, 'postgres'));
      rmSync(folder, { recursive: true, force: true });
    } catch {
      // Being removed by another run that has started now.
    }
  }
}
