/**
 * Who is alive: each process holds a lock of a database session as long as it lives. The lock ends with the process,
 * however that ends, so nobody has to write down that he has died, and no clock is asked.
 */
import pg from 'pg';
import type { Clock } from '../clock.ts';
import { isAway } from '../errors.ts';

/** 'SHSW': the class of these locks; sync.is_alive() in 0005_around_the_clock.sql knows it as well. */
const lockClass = 0x53_48_53_57;
const againMs = 1000;

/** The connection of a machine that has vanished is given up after 25 s: then its runs are nobody's any more. */
const sessionOptions = '-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3';

export interface Process {
  readonly account: string;
  /** Whether it takes jobs, or only watches a run. */
  readonly works: boolean;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
}

export interface Presence extends AsyncDisposable {
  /** The number of this process in `sync.workers`. */
  readonly id: number;
  /** From now on this process takes jobs. */
  works(): Promise<void>;
}

/**
 * Writes this process down and holds its lock until it is disposed of. A connection that breaks is made again: the
 * database may have been away.
 */
export async function bePresent(url: string, me: Process, clock: Clock): Promise<Presence> {
  const gone = new AbortController();
  const startedAt = new Date(clock.now());
  let { works } = me;
  let client: pg.Client | undefined = await connect(url);
  const id = await enter(client, me, startedAt).catch(async error => {
    await client?.end();
    throw error;
  });

  const watching = (async () => {
    while (!gone.signal.aborted) {
      if (client === undefined) await clock.sleep(againMs, gone.signal).catch(() => {});
      else await lossOf(client, gone.signal);
      if (gone.signal.aborted) return;
      client = await holdAgain(url, id, me, startedAt).catch(() => undefined);
      if (client && works) await sayWorks(client, id);
    }
  })();

  return {
    id,
    async works() {
      works = true;
      // While the connection is away it is said when it is back.
      if (client) await sayWorks(client, id);
    },
    async [Symbol.asyncDispose]() {
      gone.abort();
      await watching;
      await client?.query('delete from sync.workers where id = $1', [id]).catch(() => {});
      await client?.end().catch(() => {});
    },
  };
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'shelfdesk: presence',
    keepAlive: true,
    options: sessionOptions,
  });
  client.on('error', () => {}); // `end` follows, and is what is waited for.
  await client.connect();
  return client;
}

/** One statement: nobody sees the row before the lock is held, and takes it for one of the dead, which it removes. */
async function enter(client: pg.Client, me: Process, now: Date): Promise<number> {
  const { rows } = await client.query<{ id: number }>(
    `with dead as (
       delete from sync.workers w where w.account_id = $1 and not sync.is_alive(w.id)),
     entered as (
       insert into sync.workers (account_id, works, host, pid, version, started_at) values ($1, $2, $3, $4, $5, $6)
       returning id)
     select id, pg_advisory_lock(${lockClass}, id) from entered`,
    [me.account, me.works, me.host, me.pid, me.version, now],
  );
  return rows[0]!.id;
}

/** Under its old number, and in the list again: whoever came meanwhile took it for dead. */
async function holdAgain(url: string, id: number, me: Process, startedAt: Date): Promise<pg.Client> {
  const client = await connect(url);
  try {
    await client.query(
      `with back as (
         insert into sync.workers (id, account_id, works, host, pid, version, started_at) overriding system value
         values ($1, $2, $3, $4, $5, $6, $7) on conflict (id) do nothing)
       select pg_advisory_lock(${lockClass}, $1)`,
      [id, me.account, me.works, me.host, me.pid, me.version, startedAt],
    );
    return client;
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
}

async function sayWorks(client: pg.Client, id: number): Promise<void> {
  try {
    await client.query('update sync.workers set works = true where id = $1', [id]);
  } catch (error) {
    if (!isAway(error)) throw error;
  }
}

/** Resolves when the connection has ended, or `signal` aborts. */
function lossOf(client: pg.Client, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    client.once('end', () => resolve());
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Processes that take the jobs of this account, but for `except`. */
export async function liveWorkers(
  db: pg.Pool,
  account: string,
  except?: number,
): Promise<{ id: number; host: string; pid: number }[]> {
  const { rows } = await db.query<{ id: number; host: string; pid: number }>(
    `select id, host, pid from sync.workers
     where account_id = $1 and works and id <> coalesce($2, 0) and sync.is_alive(id) order by id`,
    [account, except ?? null],
  );
  return rows;
}

/** Whether this process is the only one that lives: nobody takes jobs, and nobody watches a run and would begin to. */
export async function isAlone(db: pg.Pool, account: string, me: number): Promise<boolean> {
  const { rows } = await db.query<{ alone: boolean }>(
    `select not exists (
       select from sync.workers where account_id = $1 and id <> $2 and sync.is_alive(id)) as alone`,
    [account, me],
  );
  return rows[0]!.alone;
}
