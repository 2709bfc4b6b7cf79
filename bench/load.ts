/**
 * What the loads share: a source in a process of its own, a run of ours from its first request to its last commit, and the
 * protocol's COPY of the same rows into the same tables with their indexes and without triggers.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { settingsFor } from '../test/support/cli.ts';
import { cpuOf, peakOf, serverCpu } from './cpu.ts';
import type { openDatabase } from './lab.ts';

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));
/** For what is started by the first line of main.ts, with its flags. */
export const byFirstLine = {
  PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
  HOME: process.env.HOME ?? '',
};
export type Database = Awaited<ReturnType<typeof openDatabase>>;

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
  /** Seconds of CPU: of our process, and of all of PostgreSQL. */
  readonly node: number;
  readonly postgres: number;
  /** Megabytes; the most that our process held. */
  readonly memory: number;
  /** Megabytes. */
  readonly wal: number;
}

/** Runs the command line, and answers what its last stream cost: from the moment it was taken up to its end. */
export async function runOurs(db: Database, source: Source, args: readonly string[]): Promise<Cost> {
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-bench-'));
  try {
    return await costOf(db, async () => {
      const child = spawn(main, args, {
        cwd: folder,
        env: { ...byFirstLine, ...settingsFor(db.url, source) },
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      const used = await usedUntilExit(child);
      const { rows } = await db.pool.query<{ seconds: number }>(
        `select extract(epoch from finished_at - started_at)::float8 as seconds
         from sync.stored_run_streams where state = 'completed' order by run_id desc, finished_at desc limit 1`,
      );
      return { ...used, seconds: rows[0]!.seconds };
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function usedUntilExit(child: ChildProcess): Promise<Pick<Cost, 'node' | 'memory'>> {
  const used = { node: 0, memory: 0 };
  let errors = '';
  child.stderr!.on('data', chunk => {
    errors += chunk;
  });
  const look = setInterval(() => {
    used.node = Math.max(used.node, cpuOf(child.pid!));
    used.memory = Math.max(used.memory, peakOf(child.pid!));
  }, 20);
  const [code] = await once(child, 'close');
  clearInterval(look);
  if (code !== 0) throw new Error(`exit ${code}: ${errors}`);
  return used;
}

/** COPY into empty copies of these tables, from files of the server's. Answers its cost, and forgets the copies. */
export async function copyInto(db: Database, tables: readonly string[]): Promise<Cost> {
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-bench-'));
  // The server may be another user's.
  chmodSync(folder, 0o777);
  try {
    const copies = await Promise.all(
      tables.map(async (table, i) => {
        const copy = `public.copy_${i}`;
        const file = join(folder, `${i}`);
        const { rows } = await db.pool.query<{ columns: string }>(
          `select string_agg(quote_ident(attname), ', ' order by attnum) as columns
           from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = ''`,
          [table],
        );
        await db.pool.query(`create table ${copy} (like ${table} including all)`);
        await db.pool.query(`copy ${table} (${rows[0]!.columns}) to '${file}'`);
        return { copy, file, columns: rows[0]!.columns };
      }),
    );
    const cost = await costOf(db, async () => {
      const begun = performance.now();
      for (const { copy, file, columns } of copies) await db.pool.query(`copy ${copy} (${columns}) from '${file}'`);
      return { node: 0, memory: 0, seconds: (performance.now() - begun) / 1000 };
    });
    for (const { copy } of copies) await db.pool.query(`drop table ${copy}`);
    return cost;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function costOf(db: Database, work: () => Promise<Pick<Cost, 'node' | 'memory' | 'seconds'>>): Promise<Cost> {
  const place = async () =>
    (
      await db.pool.query<{ mb: number }>(
        `select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 / 1e6 as mb`,
      )
    ).rows[0]!.mb;
  const server = await serverCpu(db.pool);
  const [wal, postgres] = [await place(), server()];
  const cost = await work();
  return { ...cost, postgres: server() - postgres, wal: (await place()) - wal };
}

/** Rows that were written over or removed: each leaves a dead one. Of sessions that have ended. */
export async function deadIn(db: Database, tables: readonly string[]): Promise<number> {
  const { rows } = await db.pool.query<{ dead: number }>(
    `select coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 as dead from pg_stat_all_tables
     where relid = any ($1::text[]::regclass[])`,
    [tables],
  );
  return rows[0]!.dead;
}
