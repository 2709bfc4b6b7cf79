/**
 * A PostgreSQL whose power can be cut. PostgreSQL survives a kill with all that it has handed to the system; a power cut leaves
 * only what it has flushed. So a cut stops all its processes at one moment, asks how far the log was flushed, kills them, and
 * writes zeros over the log behind that place. Pages of tables are never ahead of the flushed log, so the folder is what the
 * disk of a machine without power may hold. Linux only: the processes of the server are found in /proc.
 */
import { chmodSync, mkdtempSync } from 'node:fs';
import { open, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { ensureCluster, freePort, pidFile, readPassword } from '../../../src/embedded/cluster.ts';
import { findPlace, run } from '../../../src/embedded/place.ts';
import { removeServer } from '../../../test/support/global.ts';

/** What the server had committed when it stood still, and could not say afterwards. */
interface Cut<T> {
  /** Committed before the cut, and unknown after it. */
  readonly lostTransactions: number;
  /** Bytes of the log that were written and not flushed. */
  readonly lostBytes: number;
  /** What `ask` saw while everything stood still, and what it sees after the recovery. */
  readonly before: T;
  readonly after: T;
}

/** On connections of their own. */
interface Looks<T> {
  /** Once while all other sessions stand still, once after the recovery. */
  readonly ask: (client: pg.Client) => Promise<T>;
  /** While they stand still: whether this moment would show anything. If not, another one is taken. */
  readonly isWorth?: (client: pg.Client) => Promise<boolean>;
  /** While there is no server. */
  readonly whileOff?: () => Promise<void>;
}

export interface Machine extends AsyncDisposable {
  /** Of the server; databases are made in it. */
  readonly admin: string;
  urlOf(database: string): string;
  /** Cuts the power, and brings the server back on the same port. */
  cut<T>(database: string, looks: Looks<T>): Promise<Cut<T>>;
}

const segmentBytes = 16n * 1024n * 1024n;
/** A transaction that was cut off is no older than this many transactions. */
const lookedAt = 500;
const patienceMs = 3000;
/** So many moments are looked at, for one at which something would be lost. */
const mostMoments = 40;

export async function startMachine(settings: Readonly<Record<string, string>> = {}): Promise<Machine> {
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), `shelfdesk-tests-${process.pid}-`));
  chmodSync(folder, 0o755); // Root's PostgreSQL runs as another user, who has to get in here.
  stack.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const home = join(folder, 'postgres');
  stack.defer(() => removeServer(home));
  const place = await findPlace(home);
  // Only the bookkeeping of PostgreSQL says what is flushed, so the disk itself need not be waited for.
  await ensureCluster(place, { fsync: 'off' });
  const data = join(place.home, 'data');
  const port = await freePort();
  const all = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: "''",
    max_connections: '200',
    fsync: 'off',
    // No process besides the sessions reads for them or writes on its own account.
    io_method: 'sync',
    autovacuum: 'off',
    ...settings,
  };
  const options = Object.entries(all).map(([name, value]) => `-c ${name}=${value}`);
  const start = async () => {
    const args = ['start', '-w', '-s', '-D', data, '-l', join(place.home, 'log'), '-o', options.join(' ')];
    const { code, output } = await run(join(place.bin, 'pg_ctl'), args, place.account);
    if (code !== 0) throw new Error(`pg_ctl start ended with ${code}: ${output}`);
  };
  await start();
  const base = `postgres://shelfdesk:${await readPassword(place)}@127.0.0.1:${port}`;
  const urlOf = (database: string) => `${base}/${database}`;
  const connect = async (database: string) => {
    const client = new pg.Client({ connectionString: urlOf(database), application_name: 'power cuts' });
    client.on('error', () => {}); // Its server is killed.
    await client.connect();
    return client;
  };

  async function cut<T>(
    database: string,
    { ask, isWorth = async () => true, whileOff = async () => {} }: Looks<T>,
  ): Promise<Cut<T>> {
    const { pid: postmaster } = await pidFile(place);
    if (postmaster === undefined) throw new Error('the server is down');
    const observer = await connect(database);
    // Its catalogs are read, and its statements planned, before everything stands still.
    await ask(observer);
    await isWorth(observer);
    await observer.query(stateSql);
    const mine: number = (await observer.query('select pg_backend_pid() as pid')).rows[0].pid;
    let silent = 0;
    for (let moment = 1; ; moment++) {
      const stopped = await stopAll(postmaster, mine);
      const seen = await within(patienceMs, async () => ({
        state: (await observer.query(stateSql)).rows[0] as Standing,
        isWorth: await isWorth(observer),
        before: await ask(observer),
      }));
      if (seen !== undefined && (seen.isWorth || moment >= mostMoments)) {
        for (const pid of [...stopped, mine]) signal(pid, 'SIGKILL');
        while (await anyAlive([...stopped, mine])) await delay(10);
        await observer.end().catch(() => {});
        await forget(data, BigInt(seen.state.flushed));
        await whileOff();
        await rm(join(data, 'postmaster.pid'), { force: true });
        await start();
        const again = await connect(database);
        try {
          const after = await ask(again);
          const lostTransactions = await lostOf(again, seen.state.committed);
          return { lostTransactions, lostBytes: Number(seen.state.unflushed), before: seen.before, after };
        } finally {
          await again.end();
        }
      }
      for (const pid of stopped) signal(pid, 'SIGCONT');
      // Without an answer, a session stood still with a lock that the observer needs.
      if (seen === undefined && ++silent === 5)
        throw new Error('the server cannot be asked while its sessions stand still');
      await delay(10 + Math.random() * 100);
    }
  }

  const opened = stack.move();
  return { admin: urlOf('postgres'), urlOf, cut, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

interface Standing {
  /** The place up to which the log was flushed, in bytes. */
  readonly flushed: string;
  readonly unflushed: string;
  /** Transactions that count as committed. */
  readonly committed: string[];
}

const stateSql = `
  with place as materialized (
    select pg_current_wal_flush_lsn() as flushed, pg_current_wal_insert_lsn() as inserted,
      pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next)
  select (flushed - '0/0'::pg_lsn)::text as flushed, (inserted - flushed)::text as unflushed,
    array(select x::text from generate_series(greatest(next - ${lookedAt}, 3), next - 1) x
      where pg_xact_status(x::text::xid8) = 'committed') as committed
  from place`;

async function lostOf(client: pg.Client, committed: readonly string[]): Promise<number> {
  const { rows } = await client.query<{ lost: number }>(
    `with next as materialized (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next)
     select count(*)::int as lost from unnest($1::bigint[]) x, next
     where case when x >= next then true else pg_xact_status(x::text::xid8) is distinct from 'committed' end`,
    [committed],
  );
  return rows[0]!.lost;
}

/** The postmaster first: it begins no further process then. */
async function stopAll(postmaster: number, except: number): Promise<number[]> {
  signal(postmaster, 'SIGSTOP');
  const children = await readFile(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8');
  const others = children
    .split(' ')
    .map(Number)
    .filter(pid => pid > 0 && pid !== except);
  for (const pid of others) signal(pid, 'SIGSTOP');
  return [postmaster, ...others];
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function anyAlive(pids: readonly number[]): Promise<boolean> {
  for (const pid of pids) {
    const state = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
    if (state !== '' && !/^\d+ \(.*\) [ZX]/s.test(state)) return true;
  }
  return false;
}

/** Undefined if it takes longer. */
async function within<T>(ms: number, work: () => Promise<T>): Promise<T | undefined> {
  const late = new AbortController();
  const tooLate = delay(ms, undefined, { signal: late.signal }).catch(() => undefined);
  try {
    return await Promise.race([work(), tooLate]);
  } finally {
    late.abort();
  }
}

/** Nothing of the log behind this place is on the disk. */
async function forget(data: string, flushed: bigint): Promise<void> {
  const folder = join(data, 'pg_wal');
  const files = (await readdir(folder)).filter(name => /^[0-9A-F]{24}$/.test(name));
  const perId = 0x1_0000_0000n / segmentBytes;
  for (const name of files) {
    const number = BigInt(`0x${name.slice(8, 16)}`) * perId + BigInt(`0x${name.slice(16)}`);
    const from = flushed - number * segmentBytes;
    if (from >= segmentBytes) continue;
    if (from <= 0n) await rm(join(folder, name));
    else {
      const file = await open(join(folder, name), 'r+');
      await file.write(Buffer.alloc(Number(segmentBytes - from)), 0, undefined, Number(from));
      await file.close();
    }
  }
}
