/**
 * Who is alive: each process holds a lock of a database session as long as it lives. The lock ends with the process,
 * however that ends, so nobody has to write down that he has died, and no clock is asked.
 */
import pg from 'pg';
import type { Clock } from '../../clock.ts';
import { isAway } from '../../errors.ts';

/** 'SHSW': the class of these locks; sync.is_alive() in 12-runs.sql and sync.live_workers in 61-problems.sql know it as well. */
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
  /** The number of this process in `sync.workers`, for this account. */
  readonly id: number;
  /** From now on this process takes jobs. */
  works(): Promise<void>;
  /**
   * Whether those who are not seen are not there. A database that comes back has forgotten all locks, and sees nobody, not
   * even this process, until each has taken his own again.
   */
  seesAll(): boolean;
}

/** One session for all accounts of a process: it is there for all of them, or for none. */
export interface Attendance extends AsyncDisposable {
  /**
   * Writes this process down for an account, and holds its lock until it is disposed of. Fails while the connection is
   * away, as one does that breaks.
   */
  enter(me: Process): Promise<Presence>;
}

/** This process alone, for one account. */
export async function bePresent(url: string, me: Process, clock: Clock): Promise<Presence> {
  const attendance = await attend(url, clock);
  const presence = await attendance.enter(me).catch(async error => {
    await attendance[Symbol.asyncDispose]();
    throw error;
  });
  return {
    ...presence,
    async [Symbol.asyncDispose]() {
      await presence[Symbol.asyncDispose]();
      await attendance[Symbol.asyncDispose]();
    },
  };
}

interface Entry {
  readonly id: number;
  readonly me: Process;
  readonly startedAt: Date;
  works: boolean;
}

/** Keeps the session: a connection that breaks is made again, since the database may have been away. */
export async function attend(url: string, clock: Clock): Promise<Attendance> {
  const gone = new AbortController();
  const entries = new Set<Entry>();
  const first = sessionTo(url);
  await first.client.connect();
  let session: Session | undefined = first;
  let heldMs = Number.NEGATIVE_INFINITY;

  const watching = (async () => {
    while (!gone.signal.aborted) {
      if (session === undefined) await clock.sleep(againMs, gone.signal).catch(() => {});
      else await lossOf(session, clock, gone.signal);
      if (gone.signal.aborted) return;
      session = undefined; // Nobody enters in between: who is not among these would have no lock.
      const held = [...entries];
      const again = await holdAgain(url, held, clock).catch(() => undefined);
      heldMs = clock.monotonic();
      if (again === undefined) continue;
      const left = held.filter(entry => !entries.has(entry));
      await inTime(again, clock, leave(again.client, left)).catch(() => {});
      await inTime(again, clock, sayWorks(again.client, held)).catch(() => {});
      session = again;
      // Who left while these were asked found no session to leave by.
      const late = held.filter(entry => !entries.has(entry) && !left.includes(entry));
      await inTime(again, clock, leave(again.client, late)).catch(() => {});
    }
  })();

  return {
    async enter(me) {
      if (session === undefined || session.lost.aborted) throw new Error('Connection terminated: it is made again');
      const startedAt = new Date(clock.now());
      const id = await inTime(session, clock, enter(session.client, me, startedAt));
      const entry: Entry = { id, me, startedAt, works: me.works };
      entries.add(entry);
      return {
        id,
        async works() {
          entry.works = true;
          // While the connection is away it is said when it is back.
          if (session) await sayWorks(session.client, [entry]);
        },
        seesAll: () => session !== undefined && !session.lost.aborted && clock.monotonic() - heldMs >= gatheringMs,
        async [Symbol.asyncDispose]() {
          entries.delete(entry);
          if (session && !session.lost.aborted)
            await inTime(session, clock, leave(session.client, [entry])).catch(() => {});
        },
      };
    },
    async [Symbol.asyncDispose]() {
      gone.abort();
      await watching;
      if (session) await inTime(session, clock, end(session.client, [...entries])).catch(() => {});
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
 * Under their old numbers, and in the list again: whoever came meanwhile took them for dead. Fails while the old session
 * lives on at the server, and this process is alive there.
 */
async function holdAgain(url: string, entries: readonly Entry[], clock: Clock): Promise<Session> {
  const session = sessionTo(url);
  await inTime(session, clock, session.client.connect());
  const rows = entries.map(({ id, me: { account, works, host, pid, version }, startedAt }) => ({
    ...{ id, account_id: account, works, host, pid, version, started_at: startedAt },
  }));
  const held = session.client.query(
    `with entry as materialized (
       select * from json_populate_recordset(null::sync.workers, $1)),
     back as (
       insert into sync.workers (id, account_id, works, host, pid, version, started_at) overriding system value
       select id, account_id, works, host, pid, version, started_at from entry on conflict (id) do nothing)
     select pg_advisory_lock(${lockClass}, id) from entry`,
    [JSON.stringify(rows)],
  );
  await inTime(session, clock, held);
  return session;
}

async function sayWorks(client: pg.Client, entries: readonly Entry[]): Promise<void> {
  const ids = entries.filter(({ works }) => works).map(({ id }) => id);
  if (ids.length === 0) return;
  try {
    await client.query('update sync.workers set works = true where id = any($1)', [ids]);
  } catch (error) {
    if (!isAway(error)) throw error;
  }
}

async function leave(client: pg.Client, entries: readonly Entry[]): Promise<void> {
  if (entries.length === 0) return;
  await client.query(
    `with gone as (delete from sync.workers where id = any($1))
     select pg_advisory_unlock(${lockClass}, id) from unnest($1::int[]) id`,
    [entries.map(({ id }) => id)],
  );
}

async function end(client: pg.Client, entries: readonly Entry[]): Promise<void> {
  await leave(client, entries);
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

/** The same for several accounts, by account. */
export async function workersOf(
  db: pg.Pool,
  accounts: readonly string[],
): Promise<{ account: string; id: number; host: string; pid: number }[]> {
  const { rows } = await db.query<{ account: string; id: number; host: string; pid: number }>(
    `select account_id as account, id, host, pid from sync.live_workers
     where account_id = any($1) and works order by account_id, id`,
    [accounts],
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
