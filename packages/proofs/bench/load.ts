/**
 * Shared by the loads: a source in a process of its own, a run of ours from its first request to its last commit, and COPY
 * of the same rows into the same tables with their indexes and without triggers.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type pg from 'pg';
import { settingsFor } from '../../../test/support/cli.ts';
import { endedCpu, peakOf, serverCpu, sessionCpu } from './cpu.ts';
import type { openDatabase } from './lab.ts';

const main = fileURLToPath(new URL('../../../src/main.ts', import.meta.url));
/** For what is started by the first line of main.ts, with its flags. */
export const byFirstLine = {
  PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
  HOME: process.env.HOME ?? '',
};
export type Database = Omit<Awaited<ReturnType<typeof openDatabase>>, typeof Symbol.asyncDispose>;

export interface Source extends Disposable {
  readonly url: string;
  readonly token: string;
}

/** A program of ours that prints where it listens, as JSON. */
export async function startSource(program: string, args: readonly string[]): Promise<Source> {
  const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'ignore'] });
  let said = '';
  for await (const chunk of child.stdout) {
    said += chunk;
    if (said.includes('}')) break;
  }
  return { ...(JSON.parse(said) as { url: string; token: string }), [Symbol.dispose]: () => void child.kill() };
}

export const startSandbox = (tickets: number): Promise<Source> =>
  startSource(main, [
    'sandbox',
    ...['--port', '0', '--json', '--tickets', String(tickets)],
    ...['--credits', '1000000000', '--requests-per-second', '1000000'],
  ]);

/** All is read once more. */
export const forget = `update sync.coverage set covered = '{}'`;

export interface Cost {
  readonly seconds: number;
  /** Seconds of CPU: of our process with its children, and of all of PostgreSQL. */
  readonly node: number;
  readonly postgres: number;
  /** Megabytes; the most that our process held. */
  readonly memory: number;
  /** Megabytes. */
  readonly wal: number;
}

/** Runs the command line, and answers what its last stream cost: from the moment it was taken up to its end. */
export const runOurs = (db: Database, source: Source, args: readonly string[]): Promise<Cost> =>
  costOf(db, async () => {
    const used = await runCommand(settingsFor(db.url, source), args);
    const { rows } = await db.pool.query<{ seconds: number }>(
      `select extract(epoch from finished_at - started_at)::float8 as seconds
       from sync.stored_run_streams where state = 'completed' order by run_id desc, finished_at desc limit 1`,
    );
    return { ...used, seconds: rows[0]!.seconds };
  });

/** Runs the command line by the first line of the program. No other child may end meanwhile. */
export async function runCommand(
  settings: Readonly<Record<string, string>>,
  args: readonly string[],
  program = main,
): Promise<Pick<Cost, 'node' | 'memory'>> {
  const before = endedCpu();
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-bench-'));
  try {
    const env = { ...byFirstLine, ...settings };
    const child = spawn(program, args, { cwd: folder, env, stdio: ['ignore', 'ignore', 'pipe'] });
    let memory = 0;
    let errors = '';
    child.stderr.on('data', chunk => {
      errors += chunk;
    });
    const look = setInterval(() => {
      memory = Math.max(memory, peakOf(child.pid!));
    }, 20);
    const [code] = await once(child, 'close');
    clearInterval(look);
    if (code !== 0) throw new Error(`exit ${code}: ${errors}`);
    return { node: endedCpu() - before, memory };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Also what the one session has used that did the work, in seconds of CPU. */
export type CopyCost = Cost & { readonly session: number };

/** COPY into empty copies of these tables, from files of the server's. Answers its cost, and forgets the copies. */
export async function copyInto(db: Database, tables: readonly string[]): Promise<CopyCost> {
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-bench-'));
  // The server may be another user's.
  chmodSync(folder, 0o777);
  const client = await db.pool.connect();
  try {
    const copies = await Promise.all(
      tables.map(async (table, i) => {
        const { rows } = await db.pool.query<{ columns: string }>(
          `select string_agg(quote_ident(attname), ', ' order by attnum) as columns
           from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = ''`,
          [table],
        );
        const { columns } = rows[0]!;
        const file = join(folder, `${i}`);
        await db.pool.query(`create table public.copy_${i} (like ${table} including all)`);
        await db.pool.query(`copy ${table} (${columns}) to '${file}'`);
        return `copy public.copy_${i} (${columns}) from '${file}'`;
      }),
    );
    await db.pool.query('checkpoint');
    const session = await sessionCpu(client);
    const before = session();
    const cost = await costOf(db, async () => {
      const begun = performance.now();
      for (const copy of copies) await client.query(copy);
      return { node: 0, memory: 0, seconds: (performance.now() - begun) / 1000 };
    });
    return { ...cost, session: session() - before };
  } finally {
    client.release();
    for (const i of tables.keys()) await db.pool.query(`drop table public.copy_${i}`);
    rmSync(folder, { recursive: true });
  }
}

/** Work that answers the rest of its cost: and what PostgreSQL had of it. */
export async function costOf<Rest>(
  { pool }: Pick<Database, 'pool'>,
  work: () => Promise<Rest>,
): Promise<Rest & Pick<Cost, 'postgres' | 'wal'>> {
  const place = async () =>
    (await pool.query<{ mb: number }>(`select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 / 1e6 as mb`))
      .rows[0]!.mb;
  const server = await serverCpu(pool);
  const [wal, postgres] = [await place(), server()];
  const cost = await work();
  return { ...cost, postgres: server() - postgres, wal: (await place()) - wal };
}

/** Tables in which a run keeps its own position and spending, whatever it finds. */
const ofRuns = [
  ...['accounts', 'budget', 'coverage', 'credit_minutes', 'request_logs', 'run_lists', 'stored_run_streams'],
  ...['stored_runs', 'ties', 'walks', 'workers'],
];
/** For the text above the figures. */
export const besidesRuns = `Rows written counts inserts, updates and deletes in all tables, except the run's own: ${ofRuns.map(name => `sync.${name}`).join(', ')}, and the queue.`;

/** Waits for the counts of a run that has ended: a session counts at its end, or a second later. */
export async function countsAreIn(pool: pg.Pool): Promise<void> {
  const open = `select from pg_stat_activity where application_name = 'shelfdesk'`;
  while ((await pool.query(open)).rowCount! > 0) await delay(50);
}

/** Rows inserted, written over and removed so far, in all tables but those of runs. */
export async function rowsWritten({ pool }: Database): Promise<number> {
  await countsAreIn(pool);
  const { rows } = await pool.query<{ n: number }>(
    `select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::float8 as n from pg_stat_user_tables
     where schemaname <> 'bullmq' and not (schemaname = 'sync' and relname = any ($1))`,
    [ofRuns],
  );
  return rows[0]!.n;
}
