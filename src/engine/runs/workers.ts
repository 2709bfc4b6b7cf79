/**
 * Presence: each process holds an advisory lock in a database session while it lives. The lock ends with the process,
 * so no one has to record a death, and no clock is compared.
 */
import type pg from 'pg';
import type { Clock } from '../../clock.ts';
import { isAway } from '../../errors.ts';
import { connectSession, type SessionSettings, sessionTo } from '../database/session/session.ts';
import { query, raw, sql } from '../database/sql.ts';

/** 'SHSW': the class of these locks. sync.is_alive() in 12-runs.sql and sync.live_workers in 12-runs.sql use it too. */
const lockClass = 0x53_48_53_57;
const againMs = 1000;

/**
 * A machine that was suspended or cut off does not learn that its session has ended, so it asks. No answer in time
 * counts as lost.
 */
const beatMs = 5000;
const patienceMs = 5000;
/** After the database comes back, every process has re-acquired its lock within this time. */
const gatheringMs = 10_000;

/**
 * The server gives up the connection of a vanished machine after 25 s, and its runs with it. If only our side lost the
 * connection, the server holds the lock until then. So a reconnect waits for the lock, a little less than it waits for
 * an answer.
 */
const settings = {
  tcp_keepalives_idle: 10,
  tcp_keepalives_interval: 5,
  tcp_keepalives_count: 3,
  lock_timeout: 4000,
};

/**
 * No queue notices that a command which works itself has stalled. So its session ends when it says nothing for this long,
 * although its machine still answers.
 */
const silence = { idle_session_timeout: 10_000 };

export interface Process {
  readonly account: string;
  /** True if it takes jobs; false if it only watches a run. */
  readonly works: boolean;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  /** Where the process serves the page, or why it cannot. Undefined if it does not have to. */
  readonly page?: { readonly url: string } | { readonly error: string };
}

export interface Presence extends AsyncDisposable {
  /** The number of this process in `sync.workers`, for this account. */
  readonly id: number;
  /** Notes that this process takes jobs now, without a queue. */
  works(): Promise<void>;
  /**
   * Whether an unseen process is really gone. A restarted database has lost all locks, and sees no process until each
   * has re-acquired its lock.
   */
  seesAll(): boolean;
}

/** One session for all accounts of a process: it is up for all of them, or for none. */
export interface Attendance extends AsyncDisposable {
  /** Registers this process for an account, and holds its lock until disposed of. Fails while the connection is down. */
  enter(me: Process): Promise<Presence>;
}

interface Entry {
  readonly id: number;
  readonly me: Process;
  readonly startedAt: Date;
  works: boolean;
}

/** Keeps the session: a broken connection is made again, because the database may have been away. */
export async function attend(url: string, clock: Clock): Promise<Attendance> {
  const gone = new AbortController();
  const entries = new Set<Entry>();
  let own: SessionSettings = settings;
  const first = presenceTo(url, own);
  await first.connect();
  let session: Session | undefined = first;
  let heldMs = Number.NEGATIVE_INFINITY;

  const watching = (async () => {
    while (!gone.signal.aborted) {
      if (session === undefined) await clock.sleep(againMs, gone.signal).catch(() => {});
      else await lossOf(session, clock, gone.signal);
      if (gone.signal.aborted) return;
      session = undefined; // No process enters in between: it would have no lock.
      const held = [...entries];
      const again = await holdAgain(presenceTo(url, own), held, clock).catch(() => undefined);
      heldMs = clock.monotonic();
      if (again === undefined) continue;
      const left = held.filter(entry => !entries.has(entry));
      await inTime(again, clock, leave(again.client, left)).catch(() => {});
      await inTime(again, clock, sayWorks(again.client, held)).catch(() => {});
      session = again;
      // An entry that left during these queries had no session that could remove it.
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
          own = { ...settings, ...silence };
          // While the connection is down, the change is written after the reconnect.
          if (session)
            await sayWorks(session.client, [entry], `set idle_session_timeout = ${silence.idle_session_timeout}`);
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
  connect(): Promise<void>;
  /** Aborts when the connection has ended. */
  readonly lost: AbortSignal;
  /** Ends the connection without notice to the server, which may be gone. Pending queries fail. */
  destroy(): void;
}

function presenceTo(url: string, settings: SessionSettings): Session {
  const client = sessionTo(url, { application_name: 'shelfdesk: presence', keepAlive: true });
  const lost = new AbortController();
  client.once('end', () => lost.abort()); // It follows each error, and callers wait for it.
  const connect = () => connectSession(client, url, settings);
  return { client, connect, lost: lost.signal, destroy: () => void client.connection.stream.destroy() };
}

/** A query that fails or gets no answer in time ends the session. */
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

/** One statement: otherwise another process could see the row before its lock, and remove it as dead. */
async function enter(client: pg.Client, me: Process, now: Date): Promise<number> {
  const { rows } = await client.query<{ id: number }>(
    `with dead as (
       delete from sync.workers w where w.account_id = $1 and not sync.is_alive(w.id)),
     entered as (
       insert into sync.workers (account_id, works, host, pid, version, started_at, page_url, page_error)
       values ($1, $2, $3, $4, $5, $6, $7, $8)
       returning id)
     select id, pg_advisory_lock(${lockClass}, id) from entered`,
    [me.account, me.works, me.host, me.pid, me.version, now, pageOf(me).page_url, pageOf(me).page_error],
  );
  return rows[0]!.id;
}

const pageOf = ({ page }: Process) => ({
  page_url: page && 'url' in page ? page.url : null,
  page_error: page && 'error' in page ? page.error : null,
});

/**
 * Registers the entries again under their old numbers: processes that came meanwhile took them for dead. Fails while
 * the server still has the old session, in which this process is alive.
 */
async function holdAgain(session: Session, entries: readonly Entry[], clock: Clock): Promise<Session> {
  await inTime(session, clock, session.connect());
  const rows = entries.map(({ id, me, startedAt }) => {
    const { account, works, host, pid, version } = me;
    return { id, account_id: account, works, host, pid, version, started_at: startedAt, ...pageOf(me) };
  });
  const held = session.client.query(sql`
    with entry as materialized (
      select * from json_populate_recordset(null::sync.workers, ${JSON.stringify(rows)})),
    back as (
      insert into sync.workers (id, account_id, works, host, pid, version, started_at, page_url, page_error)
        overriding system value
      select id, account_id, works, host, pid, version, started_at, page_url, page_error from entry
      on conflict (id) do nothing)
    select pg_advisory_lock(${raw(lockClass)}, id) from entry`);
  await inTime(session, clock, held);
  return session;
}

async function sayWorks(client: pg.Client, entries: readonly Entry[], first?: string): Promise<void> {
  const ids = entries.filter(({ works }) => works).map(({ id }) => id);
  if (ids.length === 0) return;
  try {
    if (first !== undefined) await client.query(first);
    await client.query(sql`update sync.workers set works = true where id = any(${ids})`);
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

/** Whether this is the only live process: no other one takes jobs, or watches a run that it would then work on. */
export const isAlone = (db: pg.Pool, account: string, me: number): Promise<boolean> =>
  query(db).value`
    select not exists (
    select from sync.workers where account_id = ${account} and id <> ${me} and sync.is_alive(id)) as alone`;
