/**
 * Three workers on a world that changes, one of them killed now and then; what has become of it when they were left in
 * peace to finish.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { makeRng } from '../../packages/sandbox/src/random.ts';
import { type Sandbox, type SeenRequest, startSandbox } from '../../packages/sandbox/src/server.ts';
import { settingsFor } from './cli.ts';
import { differences, unannounced } from './mirror.ts';
import { type Again, type Asked, askedAgain, askedOf, type Kill, killAtRandom, startWorker } from './workers.ts';

export interface Killing {
  readonly database: { readonly url: string; readonly pool: pg.Pool };
  /** Of the queue. */
  readonly env: Record<string, string>;
  readonly tickets: number;
  readonly limits: { readonly credits: number; readonly requestsPerSecond: number };
  readonly reserve: number;
  readonly changesPerMinute: number;
  readonly everyMs: number;
  readonly forMs: number;
  readonly seed: number;
  /** A page of the lists' history takes so long that a kill may come in its midst. */
  readonly pageMs: number;
  /** For the rest, once nobody is killed any more. */
  readonly patienceMs: number;
}

export interface Killed {
  readonly kills: readonly Kill[];
  readonly again: readonly Again[];
  readonly totals: Sandbox['totals'];
  readonly differences: readonly string[];
  /** Tickets that still waited for their messages when the killing ended. */
  readonly waitingAfterKills: number;
  /** From the end of the killing until all was equal. */
  readonly finishedAfterMs: number;
  /** The longest time in which no ticket was asked for, while some waited. */
  readonly longestPauseMs: number;
  /** Of the workers that were asked to leave, at the end. */
  readonly codes: readonly (number | null)[];
  /** Runs that are not over, when all had left. */
  readonly open: readonly Record<string, unknown>[];
  readonly failed: readonly Record<string, unknown>[];
}

export async function killWorkers(options: Killing): Promise<Killed> {
  const { database, tickets, limits, reserve, seed } = options;
  const { pool } = database;
  const asked: Asked[] = [];
  const sandbox = await startSandbox({
    ...limits,
    tickets,
    seed,
    before: request => void asked.push(askedOf(request, sandbox.world)),
    fault: request => (isHistory(request) ? { kind: 'delay', ms: options.pageMs } : undefined),
  });
  const env = {
    ...settingsFor(database.url, sandbox),
    HELPDESK_CREDITS: String(limits.credits),
    HELPDESK_REQUESTS_PER_SECOND: String(limits.requestsPerSecond),
    HELPDESK_RESERVE: String(reserve),
    SCHEDULE_FRESH: '* * * * * *',
    ...options.env,
  };
  const start = () => startWorker(env);
  const workers = [start(), start(), start()];
  try {
    const rng = makeRng(seed);
    const change = () => sandbox.world.mutate(rng, unannounced);
    const lively = setInterval(change, 60_000 / options.changesPerMinute);
    let kills: Kill[];
    try {
      await Promise.all(workers.map(({ id }) => id));
      kills = await killAtRandom(workers, start, { ...options, rng: makeRng(seed + 1) });
    } finally {
      clearInterval(lively);
    }
    const killedMs = Date.now();
    const waitingAfterKills = await waiting(pool);
    await allRead(pool, new Date(killedMs), killedMs + options.patienceMs);
    const finishedAfterMs = Date.now() - killedMs;
    for (const { kill } of workers) kill('SIGTERM');
    const codes = (await Promise.all(workers.map(({ finished }) => finished))).map(({ code }) => code);
    return {
      kills,
      again: askedAgain(asked, kills),
      totals: sandbox.totals,
      differences: await differences(pool, sandbox.world),
      waitingAfterKills,
      finishedAfterMs,
      longestPauseMs: longestPause(asked),
      codes,
      open: (await pool.query(`select * from sync.stored_runs where state = 'running' and kind <> 'fresh'`)).rows,
      failed: (
        await pool.query(
          `select run_id, stream, error from sync.run_streams where state = 'failed' or error is not null`,
        )
      ).rows,
    };
  } finally {
    for (const { kill } of workers) kill('SIGKILL');
    await Promise.all(workers.map(({ finished }) => finished));
    await sandbox.close();
  }
}

function isHistory({ path, query, at }: SeenRequest): boolean {
  if (path.startsWith('/tickets/')) return false;
  const since = query.get('since_updated_at') ?? query.get('since_created_at');
  return since === null || Date.parse(since) < at - 180_000;
}

/** A look at the lists that began after `quiet` is over, and no ticket waits for its messages. */
async function allRead(db: pg.Pool, quiet: Date, untilMs: number): Promise<void> {
  for (;;) {
    const { rows } = await db.query(
      `select from sync.runs r where r.kind in ('fresh', 'nightly') and r.started_at > $1 and r.state = 'completed'
         and not exists (select from sync.stored_runs o where o.state = 'running' and o.kind <> 'fresh')
         and not exists (select from sync.status where stream = 'messages' and waiting > 0)
       limit 1`,
      [quiet],
    );
    if (rows.length > 0) return;
    if (Date.now() > untilMs) return; // The differences tell what is missing.
    await delay(200);
  }
}

async function waiting(db: pg.Pool): Promise<number> {
  const { rows } = await db.query<{ waiting: string }>(`select waiting from sync.status where stream = 'messages'`);
  return Number(rows[0]?.waiting ?? 0);
}

function longestPause(asked: readonly Asked[]): number {
  const times = asked.filter(({ path }) => path.startsWith('/tickets/')).map(({ atMs }) => atMs);
  return Math.max(0, ...times.slice(1).map((at, i) => at - times[i]!));
}
