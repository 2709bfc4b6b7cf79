/** The tables of the claims, as a value that can be read and put back; and which workers live, as sync.is_alive sees it. */
import pg from 'pg';
import { makePool } from '../../../../src/engine/database/pool.ts';

/** The class of the presence locks: see src/engine/runs/workers.ts. */
const lockClass = 0x53_48_53_57;

/** All that an act may change, as text, row by row. */
export interface Tables {
  readonly [table: string]: string;
}

/** A column that the database makes itself cannot be put back. */
const columns: Readonly<Record<string, string>> = {
  'sync.stored_runs': 'id, account_id, kind, state, started_at, finished_at, opened_by, retries, beside, again',
  'sync.stored_run_streams':
    'run_id, account_id, source, stream, token, state, seen, inserted, updated, unchanged, deleted, rejected, cleaned, credits, expected, carried_from, started_at, finished_at, error, remedy, exit_code, worker, job, waits_for, deferred_until',
  'sync.coverage': 'account_id, source, stream, list, covered, redundant',
  'sync.schedule_slots': 'account_id, schedule, slot, claimed_at, claimed_by, run_id, skipped',
  'sync.paused': 'account_id, source, stream, paused_at, paused_by',
  'public.pages': 'page',
};

export interface ClaimsDatabase extends AsyncDisposable {
  readonly url: string;
  readonly pool: pg.Pool;
  read(): Promise<Tables>;
  put(tables: Tables): Promise<void>;
  /** From now on exactly these workers live. */
  live(workers: readonly number[]): Promise<void>;
}

export async function openClaims(url: string): Promise<ClaimsDatabase> {
  const pool = makePool(url);
  // One connection is the presence of all: only whether a lock is held counts.
  const presence = new pg.Client({ connectionString: url });
  await presence.connect();
  let alive: readonly number[] = [];
  await pool.query('create table if not exists public.pages (page int)');
  const names = Object.keys(columns);
  const readSql = `select ${names
    .map(
      (name, n) =>
        `(select coalesce(jsonb_agg(to_jsonb(t) order by to_jsonb(t)::text), '[]')::text from (select ${columns[name]} from ${name}) t) as "${n}"`,
    )
    .join(', ')}`;
  return {
    url,
    pool,
    async read() {
      const { rows } = await pool.query(readSql);
      return Object.fromEntries(names.map((name, n) => [name, rows[0]![n]]));
    },
    async put(tables) {
      const literal = (name: string) => pg.escapeLiteral(tables[name] ?? '[]');
      const statements = names.map(
        name =>
          `insert into ${name} (${columns[name]}) overriding system value select ${columns[name]} from jsonb_populate_recordset(null::${name}, ${literal(name)}::jsonb)`,
      );
      const empty = names.toReversed().map(name => `delete from ${name}`);
      // A run has the same number whatever else was played before.
      const number = `select setval('sync.runs_id_seq', (select count(*) + 1 from sync.stored_runs), false)`;
      await pool.query(['begin', ...empty, ...statements, number, 'commit'].join('; '));
    },
    async live(workers) {
      const text = [
        ...alive.filter(one => !workers.includes(one)).map(one => `select pg_advisory_unlock(${lockClass}, ${one})`),
        ...workers.filter(one => !alive.includes(one)).map(one => `select pg_advisory_lock(${lockClass}, ${one})`),
      ];
      alive = [...workers];
      if (text.length > 0) await presence.query(text.join('; '));
    },
    async [Symbol.asyncDispose]() {
      await presence.end();
      await pool.end();
    },
  };
}
