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

/**
 * A machine that was asleep, or cut off, gets no word of it that its session has ended: it has to ask. What is not answered
 * in time is as good as lost.
 */
const beatMs = 5000;
const patienceMs = 5000;
/** When the database comes back, everybody has taken his lock again after this. */
const gatheringMs = 10_000;

/**
 * The connection of a machine that has vanished is given up after 25 s: then its runs are nobody's any more. Where only our
 * side has lost it, the lock is still held until then: it is waited for, a little less than we wait for an answer.
 */
const sessionOptions =
  '-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 -c lock_timeout=4000';

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
  /**
   * Whether those who are not seen are not there. A database that comes back has forgotten all locks, and sees nobody, not
   * even this process, until each has taken his own again.
   */
  seesAll(): boolean;
}

/**
 * Writes this process down and holds its lock until it is disposed of. A connection that breaks is made again: the
 * database may have been away.
 */
export async function bePresent(url: string, me: Process, clock: Clock): Promise<Presence> {
  const gone = new AbortController();
  const startedAt = new Date(clock.now());
  let { works } = me;
  const first = sessionTo(url);
  await first.client.connect();
  const id = await enter(first.client, me, startedAt).catch(error => {
    first.destroy();
    throw error;
  });
  let session: Session | undefined = first;
  let heldMs = Number.NEGATIVE_INFINITY;

  const watching = (async () => {
    while (!gone.signal.aborted) {
      if (session === undefined) await clock.sleep(againMs, gone.signal).catch(() => {});
      else await lossOf(session, clock, gone.signal);
      if (gone.signal.aborted) return;
      session = await holdAgain(url, id, me, startedAt, clock).catch(() => undefined);
      heldMs = clock.monotonic();
      if (session && works) await inTime(session, clock, sayWorks(session.client, id));
    }
  })();

  return {
    id,
    async works() {
      works = true;
      // While the connection is away it is said when it is back.
      if (session) await sayWorks(session.client, id);
    },
    seesAll: () => session !== undefined && !session.lost.aborted && clock.monotonic() - heldMs >= gatheringMs,
    async [Symbol.asyncDispose]() {
      gone.abort();
      await watching;
      if (session) await inTime(session, clock, leave(session.client, id)).catch(() => {});
    },
  };
}

interface Session {
  readonly client: pg.Client;
  /** Aborts when the connection has ended. */
  readonly lost: AbortSignal;
  /** Ends it without a word to the other side, which may not be there: whatever was asked fails. */
  destroy(): void;
}

function sessionTo(url: string): Session {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'shelfdesk: presence',
    keepAlive: true,
    options: sessionOptions,
  });
  const lost = new AbortController();
  client.on('error', () => {}); // `end` follows, and is what is waited for.
  client.once('end', () => lost.abort());
  return { client, lost: lost.signal, destroy: () => void client.connection.stream.destroy() };
}

/** What has failed, or is not answered in time, was the last thing that is asked in this session. */
async function inTime<T>(session: Session, clock: Clock, work: Promise<T>): Promise<T> {
  const done = new AbortController();
  clock.sleep(patienceMs, done.signal).then(session.destroy, () => {});
  try {
    return await work;
  } catch (error) {
    session.destroy();
    throw error;
  } finally {
    done.abort();
  }
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

/**
 * Under its old number, and in the list again: whoever came meanwhile took it for dead. Fails while the old session lives on
 * at the server, and this process is alive there.
 */
async function holdAgain(url: string, id: number, me: Process, startedAt: Date, clock: Clock): Promise<Session> {
  const session = sessionTo(url);
  await inTime(session, clock, session.client.connect());
  const held = session.client.query(
    `with back as (
       insert into sync.workers (id, account_id, works, host, pid, version, started_at) overriding system value
       values ($1, $2, $3, $4, $5, $6, $7) on conflict (id) do nothing)
     select pg_advisory_lock(${lockClass}, $1)`,
    [id, me.account, me.works, me.host, me.pid, me.version, startedAt],
  );
  await inTime(session, clock, held);
  return session;
}

async function sayWorks(client: pg.Client, id: number): Promise<void> {
  try {
    await client.query('update sync.workers set works = true where id = $1', [id]);
  } catch (error) {
    if (!isAway(error)) throw error;
  }
}

async function leave(client: pg.Client, id: number): Promise<void> {
  await client.query('delete from sync.workers where id = $1', [id]);
  await client.end();
}

/** Resolves when the connection has ended, or `gone` aborts. */
async function lossOf(session: Session, clock: Clock, gone: AbortSignal): Promise<void> {
  const over = AbortSignal.any([gone, session.lost]);
  while (!over.aborted) {
    await clock.sleep(beatMs, over).catch(() => {});
    if (!over.aborted) await inTime(session, clock, session.client.query('select')).catch(() => {});
  }
}

/** Processes that take the jobs of this account. */
export async function liveWorkers(db: pg.Pool, account: string): Promise<{ id: number; host: string; pid: number }[]> {
  const { rows } = await db.query<{ id: number; host: string; pid: number }>(
    'select id, host, pid from sync.workers where account_id = $1 and works and sync.is_alive(id) order by id',
    [account],
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
