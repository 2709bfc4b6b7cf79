/**
 * A help desk, its warehouse and its queue on either backend, with as many workers as a test wants: in this process, or
 * as processes of their own that can be killed. The test may slow the help desk down, so that work lasts until it has
 * seen what it waits for.
 */
import { createPostgresBackend, type PgPool, Queue, withBackend } from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
import { expect, vi } from 'vitest';
import {
  type Fault,
  type Sandbox,
  type SandboxOptions,
  type SeenRequest,
  startSandbox,
} from '../../packages/sandbox/src/server.ts';
import { type Account, openAccount } from '../../src/app/account.ts';
import type { Config } from '../../src/app/config.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import type { Job } from '../../src/engine/queue/job.ts';
import type { OpenQueue } from '../../src/engine/queue/job-queue.ts';
import { openQueue } from '../../src/engine/queue/queue.ts';
import { keepReconciling, reconcile } from '../../src/engine/queue/reconcile.ts';
import { noJobs, work } from '../../src/engine/queue/worker.ts';
import { type NewRun, type RunState, readProgress, type StreamProgress } from '../../src/engine/runs/runs.ts';
import { Interrupted } from '../../src/errors.ts';
import { streams as allStreams } from '../../src/sources/index.ts';
import { type Finished, settingsFor, shelfdesk } from './cli.ts';
import { configFor, jobs, noSandboxLimits } from './mirror.ts';
import { freshDatabase } from './postgres.ts';
import { open } from './scripted.ts';

const deskStreams = allStreams.filter(({ source }) => source === 'helpdesk').map(({ name }) => name);

/** Looks until what is asserted holds; fails with what it saw last. */
export const eventually = <T>(look: () => T | Promise<T>, timeout = 45_000): Promise<T> =>
  vi.waitFor(look, { timeout, interval: 30 });

/** How long a reply lies about while the help desk is slow: a load of some pages then lasts until the test lets it go. */
const slowMs = 150;

export interface DeskOptions extends Omit<SandboxOptions, 'before' | 'fault'> {
  redisUrl: string | undefined;
  /** Beside what reaches the help desk: the settings of the catalog, or of the help desk alone. */
  settings?: (sandbox: Sandbox) => Partial<Config>;
  /** Where processes find their servers, if it is not the way that everybody else takes; the database is put in. */
  ways?: { DATABASE_URL?: string; REDIS_URL?: string };
}

/** What BullMQ says of a job of ours. */
interface Stand {
  state: string;
  attemptsMade: number;
  failedReason: string | undefined;
}

interface Worker extends AsyncDisposable {
  /** Its number in sync.workers. */
  readonly id: number;
  readonly account: DeskAccount;
  /** As SIGTERM does: hands over, and ends. */
  leave(): Promise<void>;
}

/** With the queue of the account. */
type DeskAccount = Omit<Account, 'queue'> & { readonly queue: OpenQueue };

export interface Desk extends AsyncDisposable {
  readonly url: string;
  readonly pool: pg.Pool;
  readonly config: Config;
  readonly sandbox: Sandbox;
  /** A process that watches, and takes no jobs. */
  readonly watcher: DeskAccount;
  /** Every reply is late while this is true. */
  slow: boolean;
  /** Called for each request, before it is answered. */
  onRequest: (request: SeenRequest) => void;
  /** What goes wrong with its reply. */
  fault: (request: SeenRequest) => Fault | undefined;
  rows(sql: string, ...values: unknown[]): Promise<Record<string, unknown>[]>;
  /** Opens a run of the watcher. */
  open(streams?: readonly string[], more?: Partial<NewRun>): Promise<number>;
  /** Adds the jobs that are missing, once. */
  addJobs(): Promise<void>;
  progress(run: number): Promise<{ state: RunState; streams: Record<string, StreamProgress & Hands> }>;
  /** A worker in this process. `reconciles`: it looks after the runs, as `start` does. `settings`: others than those of the desk. */
  worker(options?: { reconciles?: boolean; definitions?: readonly Job[]; settings?: Partial<Config> }): Promise<Worker>;
  /** `start`, or another command that works, as a process of its own. */
  process(args?: readonly string[], settings?: Record<string, string>): Promise<Process>;
  /** The job as the queue has it; undefined if it has none. */
  stand(job: string): Promise<Stand | undefined>;
  counts(): Promise<Record<string, number>>;
  /** The queue loses sight of who has the job, and delivers it anew. */
  deliverAgain(job: string): Promise<void>;
  /** Everything in the queue is gone, as if it had been flushed. */
  flush(): Promise<void>;
}

/** Who is, or was, at work on a stream. */
interface Hands {
  token: number;
  worker: number | null;
  job: string | null;
}

interface Process {
  readonly id: number;
  /** What it wrote to stderr so far. */
  told(): string;
  kill(signal: NodeJS.Signals): void;
  readonly finished: Promise<Finished>;
}

export async function openDesk({ redisUrl, settings, ways = {}, ...options }: DeskOptions): Promise<Desk> {
  await using stack = new AsyncDisposableStack();
  const db = stack.use(await freshDatabase());
  const sandbox = await startSandbox({
    ...noSandboxLimits,
    ...options,
    before: request => desk.onRequest(request),
    fault: request => desk.fault(request) ?? (desk.slow ? { kind: 'delay', ms: slowMs } : undefined),
  });
  stack.defer(() => sandbox.close());
  const config = configFor(db.url, sandbox, { redisUrl, ...settings?.(sandbox) });
  const join = async (works: boolean, signal: AbortSignal, others?: Partial<Config>): Promise<DeskAccount> => {
    await using own = new AsyncDisposableStack();
    const pool = makePool(db.url);
    own.defer(() => pool.end());
    const warehouse = { url: db.url, pg: pool, ledger: pool, folder: undefined, [Symbol.asyncDispose]: async () => {} };
    const account = own.use(await openAccount({ ...config, ...others }, warehouse, { signal, works }));
    const queue = own.use(await openQueue({ name: account.queue, redisUrl, databaseUrl: db.url }));
    const opened = own.move();
    return { ...account, queue, [Symbol.asyncDispose]: () => opened.disposeAsync() };
  };
  const watcher = stack.use(await join(false, new AbortController().signal));
  const rows = async (sql: string, ...values: unknown[]) =>
    (await db.pool.query<Record<string, unknown>>(sql, values)).rows;
  const [account] = await rows('select queue from sync.accounts');
  const queue = stack.use(lookInto(`shelfdesk-${account!.queue}`, db.url, redisUrl));

  const desk: Desk = {
    url: db.url,
    pool: db.pool,
    config,
    sandbox,
    watcher,
    slow: false,
    onRequest: () => {},
    fault: () => undefined,
    rows,
    open: (streams = deskStreams, more = {}) =>
      open(db.pool, streams, new Date(), { opener: watcher.presence.id, ...more }),
    addJobs: () => reconcile(db.pool, [{ ...watcher, worker: watcher.presence.id, jobs: noJobs }]),
    async progress(run) {
      const { state, streams } = await readProgress(db.pool, run);
      const hands = await rows('select stream, token, worker, job from sync.stored_run_streams where run_id = $1', run);
      const merged = streams.map(one => [one.stream, { ...one, ...hands.find(h => h.stream === one.stream) }]);
      return { state, streams: Object.fromEntries(merged) };
    },
    async worker({ reconciles = false, definitions = jobs, settings } = {}) {
      const leaving = new AbortController();
      const own = new AsyncDisposableStack();
      const account = own.use(await join(true, leaving.signal, settings));
      const { ctx, presence } = account;
      const reconciling = reconciles
        ? keepReconciling(ctx, () => reconcile(ctx.pg, [{ ...account, worker: presence.id, jobs: working.jobs }]))
        : undefined;
      const working = own.use(
        work(ctx, account.queue, definitions, { worker: presence.id, afterEach: () => reconciling?.ring() }),
      );
      own.defer(() => reconciling?.stop());
      opened.defer(() => own.disposeAsync());
      return {
        id: presence.id,
        account,
        async leave() {
          leaving.abort(new Interrupted());
          await own.disposeAsync();
        },
        [Symbol.asyncDispose]: () => own.disposeAsync(),
      };
    },
    async process(args = ['start'], settings = {}) {
      const env = {
        ...settingsFor(db.url, sandbox),
        SCHEDULE_FRESH: '',
        SCHEDULE_NIGHTLY: '',
        ...(redisUrl !== undefined && { REDIS_URL: redisUrl }),
        ...ways,
        ...settings,
      };
      if (ways.DATABASE_URL !== undefined) {
        const way = new URL(ways.DATABASE_URL);
        way.pathname = new URL(db.url).pathname;
        env.DATABASE_URL = way.href;
      }
      const { process: child, finished } = shelfdesk(args, env);
      let told = '';
      child.stderr!.on('data', text => {
        told += text;
      });
      // Why it ended, where the test did not mean it to.
      void finished.then(({ code, stderr }) => code === 1 && console.error(`a process ended with 1: ${stderr}`));
      opened.defer(async () => {
        child.kill('SIGKILL');
        await finished;
      });
      const id = await eventually(async () => {
        const found = await rows('select id from sync.workers where pid = $1 and works', child.pid);
        expect(found, 'the process that was started').toHaveLength(1);
        return found[0]!.id as number;
      });
      return { id, finished, told: () => told, kill: signal => void child.kill(signal) };
    },
    stand: async id => {
      const job = await queue.jobs.getJob(id);
      if (!job) return undefined;
      const { attemptsMade, failedReason } = job;
      return { state: await job.getState(), attemptsMade, failedReason };
    },
    counts: () => queue.jobs.getJobCounts('wait', 'active', 'delayed', 'failed', 'completed'),
    // Without the token of whoever has it.
    deliverAgain: async id => void (await (await queue.jobs.getJob(id))!.moveToWait('0')),
    flush: () => queue.jobs.obliterate({ force: true }),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
  const opened = stack.move();
  return desk;
}

/** The same queue, seen from outside. Its connections bear no name of ours. */
function lookInto(name: string, url: string, redisUrl: string | undefined) {
  const stack = new AsyncDisposableStack();
  let jobs: Pick<Queue, 'getJob' | 'getJobCounts' | 'obliterate'>;
  if (redisUrl === undefined) {
    const pool = new pg.Pool({ connectionString: url, options: '-c search_path=bullmq' });
    pool.on('error', () => {});
    stack.defer(() => pool.end());
    const backed = withBackend(createPostgresBackend);
    jobs = new backed.Queue(name, { connection: pool as unknown as PgPool }).on('error', () => {});
  } else {
    const connection = new Redis(redisUrl, { maxRetriesPerRequest: null });
    connection.on('error', () => {});
    stack.defer(() => connection.disconnect());
    jobs = new Queue(name, { connection }).on('error', () => {});
    stack.defer(() => jobs.obliterate({ force: true }));
  }
  return { jobs, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}
