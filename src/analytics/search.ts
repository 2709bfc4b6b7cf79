/** The three indexes of search. They cost more than the rest of storing a message, so they are made on demand. */
import type pg from 'pg';
import { makePool } from '../engine/database/pool.ts';
import { sql } from '../engine/database/sql.ts';
import { ShelfdeskError } from '../errors.ts';

/** The indexes: what each one finds, its name and its definition. schema/views/74-search.sql looks them up by name. */
const indexes = [
  {
    name: 'messages_words',
    of: 'words of messages',
    sql: `internal.messages using gin (account_id, date_trunc('hour', (created_at at time zone 'UTC')), helpdesk.search_words(coalesce(body_text, body))) with (gin_pending_list_limit = 4096)`,
  },
  {
    name: 'tickets_subject_alike',
    of: 'similar subjects',
    sql: 'helpdesk.tickets using gin (account_id, lower(subject) sync.gin_trgm_ops) with (gin_pending_list_limit = 512)',
  },
  {
    name: 'contacts_value_alike',
    of: 'similar addresses',
    sql: 'helpdesk.contacts using gin (account_id, lower(value_normalized) sync.gin_trgm_ops) with (gin_pending_list_limit = 512)',
  },
];

export interface IndexState {
  readonly name: string;
  readonly of: string;
  /** broken: its making was interrupted. It costs writes and finds nothing. */
  readonly state: 'on' | 'off' | 'broken';
  readonly bytes: number;
}

export async function readSearch(db: Pick<pg.ClientBase, 'query'>): Promise<IndexState[]> {
  const { rows } = await db.query<{ name: string; valid: boolean; bytes: number }>(sql`
    select c.relname as name, i.indisvalid as valid, pg_relation_size(c.oid)::bigint as bytes
    from pg_index i join pg_class c on c.oid = i.indexrelid
    where c.relnamespace in ('helpdesk'::regnamespace, 'internal'::regnamespace) and c.relname = any (${indexes.map(({ name }) => name)})`);
  return indexes.map(({ name, of }) => {
    const row = rows.find(one => one.name === name);
    return { name, of, state: row === undefined ? 'off' : row.valid ? 'on' : 'broken', bytes: Number(row?.bytes ?? 0) };
  });
}

export interface Making {
  readonly of: string;
  /** The phase in which PostgreSQL is. `share`: the completed part of it, from 0 to 1; undefined if unknown. */
  readonly phase: string;
  readonly share: number | undefined;
}

/**
 * Makes what is missing while others read and write. An abort cancels the statement and drops the broken index, so
 * that no write pays for it. `db` asks for the progress every `lookMs`.
 */
export async function searchOn(
  { url, db }: { url: string; db: pg.Pool },
  { show, signal, lookMs = 1000 }: { show: (making: Making) => void; signal: AbortSignal; lookMs?: number },
): Promise<void> {
  await oneAtATime(url, async client => {
    const missing = (await readSearch(client)).filter(({ state }) => state !== 'on');
    const { pid } = (await client.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]!;
    const cancel = () => void db.query(sql`select pg_cancel_backend(${pid})`).catch(() => {});
    signal.addEventListener('abort', cancel);
    try {
      for (const { name, of } of missing) {
        signal.throwIfAborted();
        const looks = setInterval(async () => {
          const progress = await progressOf(db, pid).catch(() => undefined);
          if (progress) show({ of, ...progress });
        }, lookMs);
        try {
          await drop(client, name);
          await client.query(`create index concurrently ${name} on ${indexes.find(one => one.name === name)!.sql}`);
          await client.query(`analyze ${tableOf(name)}`);
        } catch (error) {
          // Dropping an index also waits for older transactions. An index that remains is shown as broken.
          await client.query(`set statement_timeout = '500ms'`).catch(() => {});
          await drop(client, name).catch(() => {});
          signal.throwIfAborted();
          throw error;
        } finally {
          clearInterval(looks);
        }
      }
    } finally {
      signal.removeEventListener('abort', cancel);
    }
  });
}

export async function searchOff({ url }: { url: string }): Promise<void> {
  await oneAtATime(url, async client => {
    for (const { name } of indexes) await drop(client, name);
  });
}

const tableOf = (name: string) => indexes.find(one => one.name === name)!.sql.split(' ')[0]!;
const schemaOf = (name: string) => tableOf(name).split('.')[0]!;
const drop = (client: pg.ClientBase, name: string) =>
  client.query(`drop index concurrently if exists ${schemaOf(name)}.${name}`);

const lock = `hashtextextended('shelfdesk search', 0)`;

/** A connection of its own: the making may take hours, and a statement that cannot be in a transaction needs no pool. */
async function oneAtATime(url: string, work: (client: pg.ClientBase) => Promise<void>): Promise<void> {
  const pool = makePool(url);
  const client = await pool.connect();
  try {
    // Without waiting for the lock: a waiting session holds a snapshot, and the creation of an index waits for that.
    const { rows } = await client.query<{ free: boolean }>(`select pg_try_advisory_lock(${lock}) as free`);
    if (!rows[0]!.free)
      throw new ShelfdeskError(
        'another `warehouse search on` or `warehouse search off` is running',
        'Run `npx shelfdesk warehouse search status` to see what it has made.',
      );
    try {
      await work(client);
    } finally {
      // The server notices a closed connection later, and would refuse the next command until then.
      await client.query(`select pg_advisory_unlock(${lock})`).catch(() => {});
    }
  } finally {
    client.release(true);
    await pool.end();
  }
}

async function progressOf(db: pg.Pool, pid: number): Promise<Omit<Making, 'of'> | undefined> {
  const { rows } = await db.query<{ phase: string; share: number | null }>(sql`
    select p.phase, (coalesce(p.blocks_done::float8 / nullif(p.blocks_total, 0), p.tuples_done::float8 / nullif(p.tuples_total, 0))) as share
    from pg_stat_progress_create_index p where p.pid = ${pid}`);
  return rows[0] && { phase: rows[0].phase, share: rows[0].share ?? undefined };
}
