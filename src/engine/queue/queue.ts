/**
 * The queue: BullMQ on Redis if configured, else on its PostgreSQL backend. It holds only jobs. Losing every job loses
 * nothing, because rows, positions and runs are in the warehouse.
 */
import { setTimeout as delay } from 'node:timers/promises';
import {
  assertSchemaCompatibility,
  createPostgresBackend,
  DelayedError,
  type Job as Delivery,
  LATEST_SCHEMA_VERSION,
  type PgPool,
  Queue,
  runMigrations,
  SchemaMigrationRequiredError,
  UnrecoverableError,
  WaitingError,
  Worker,
  type WorkerOptions,
  withBackend,
} from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
import { exitCodes, messageOf, ShelfdeskError } from '../../errors.ts';
import { givesUp } from '../database/pool.ts';
import { poolConfig } from '../database/session/session.ts';
import { redisFailure, redisOptions, requireRedis } from './redis.ts';

/**
 * The job of a killed worker is free after this time, and taken up at a following look, after 5 to 10 s. On Redis,
 * BullMQ allows one look in an interval, by a key that lives exactly as long, so it skips one look in four.
 */
const lockMs = 5000;
const lookMs = 2500;

/**
 * If neither Redis nor PostgreSQL answers, the queue cannot learn that the worker leaves. The locks of its jobs expire.
 */
const closeMs = 5000;

const workerOptions = {
  // More than one account can use (three high-water marks, three gaps, one detail run), so urgent work never waits for
  // a place. Credits limit the work, not places.
  concurrency: 8,
  lockDuration: lockMs,
  stalledInterval: lookMs,
  // The token of the run judges how often a job may be taken up, not the queue.
  maxStalledCount: 1_000_000,
  // How long a queue without jobs waits for one before it asks again. A new job ends the wait.
  drainDelay: 10,
  // Pause before a server that refuses connections is asked again; the default is 15 s.
  runRetryDelay: 1000,
} satisfies Partial<WorkerOptions>;

/** Failed jobs stay visible for two weeks. Completed work is in the run. */
const failedSeconds = 14 * 24 * 3600;
const jobOptions = { attempts: 1, removeOnComplete: true, removeOnFail: { age: failedSeconds, count: 1000 } };
/** Further than any clock is ahead. */
const anyTimeMs = 24 * 3_600_000;

export type { Delivery };

export interface JobQueue extends AsyncDisposable {
  /** Adds the job, unless a job with this id waits or runs. A failed job is replaced. */
  add(name: string, id: string, payload: object): Promise<void>;
  /** Takes jobs until closed. Closing waits for running jobs. */
  work(process: (job: Delivery, token: string) => Promise<void>, onError: (error: Error) => void): Taking;
}

export interface OpenQueue extends JobQueue {
  /** BullMQ's own object, for metrics. */
  readonly bull: Queue;
  /**
   * Removes all failed jobs and events, because older versions stored texts of the source in them. No work needs them.
   */
  forget(): Promise<void>;
  /** Removes all jobs, and all that the server keeps of the queue. */
  remove(): Promise<void>;
}

export interface Taking {
  /**
   * Takes no more jobs from this moment on. Resolves when the running jobs have ended, which `atWork` does before the
   * queue knows.
   */
  close(atWork: Promise<unknown>): Promise<void>;
}

/** All queues of a process. They share connections. Each queue that takes jobs has one more connection. */
export interface Queues extends AsyncDisposable {
  /** One queue for each account of each warehouse, because jobs need the settings of the account. */
  open(name: string): OpenQueue;
  /** Fails if the server of the queue is away. Waits for one that hangs. */
  ping(): Promise<void>;
}

/** The server of the queues. */
interface QueueServer {
  redisUrl: string | undefined;
  databaseUrl: string;
}

export async function openQueues({ redisUrl, databaseUrl }: QueueServer): Promise<Queues> {
  return redisUrl === undefined ? onPostgres(databaseUrl) : onRedis(redisUrl);
}

/** One queue with connections of its own. */
export async function openQueue({ name, ...at }: QueueServer & { name: string }): Promise<OpenQueue> {
  const queues = await openQueues(at);
  const queue = queues.open(name);
  return {
    ...queue,
    async [Symbol.asyncDispose]() {
      await queue[Symbol.asyncDispose]();
      await queues[Symbol.asyncDispose]();
    },
  };
}

const nameOf = (name: string) => `shelfdesk-${name}`;

async function onRedis(url: string): Promise<Queues> {
  await requireRedis(url);
  const redis = new Redis(
    redisOptions(url, {
      maxRetriesPerRequest: null,
      lazyConnect: true,
      retryStrategy: tries => Math.min(2000, tries * 100),
    }),
  );
  // Each queue and each worker adds a listener. Many listeners are no leak.
  redis.setMaxListeners(0);
  let trouble: Error | undefined;
  redis.on('error', (error: Error) => {
    trouble = error;
  });
  try {
    await redis.connect();
  } catch (error) {
    redis.disconnect();
    throw redisFailure(trouble ?? (error as Error));
  }
  return {
    open(name) {
      const jobs = new Queue(nameOf(name), { connection: redis, defaultJobOptions: jobOptions });
      return queueOf(jobs, {
        makeWorker: process => new Worker(nameOf(name), process, { ...workerOptions, connection: redis }),
        // BullMQ would leave the newest hundred.
        forgetEvents: () => redis.xtrim(jobs.toKey('events'), 'MAXLEN', 0),
      });
    },
    async ping() {
      // ioredis would hold the ping back until the server is up again.
      if (redis.status !== 'ready') throw new Error(trouble?.message ?? redis.status);
      await redis.ping();
    },
    async [Symbol.asyncDispose]() {
      await inTime(redis.quit());
      redis.disconnect();
    },
  };
}

type Process = (job: Delivery, token?: string) => Promise<void>;

/** What the backends of BullMQ do in different ways. */
interface OnBackend {
  makeWorker(process: Process): BullWorker;
  forgetEvents(): Promise<unknown>;
  closed?(): void;
}

function queueOf(jobs: Queue, { makeWorker, forgetEvents, closed = () => {} }: OnBackend): OpenQueue {
  jobs.on('error', () => {}); // The command that needs the queue fails with the same error.
  return {
    bull: jobs,
    async forget() {
      await jobs.clean(-anyTimeMs, 0, 'failed');
      await forgetEvents();
    },
    async remove() {
      await jobs.obliterate({ force: true });
      await forgetEvents();
    },
    add: (name, id, payload) => addTo(jobs, name, id, payload),
    work(process, onError) {
      removeOld(jobs);
      return taking(() => makeWorker(wordless(process)), onError);
    },
    async [Symbol.asyncDispose]() {
      await inTime(jobs.close());
      closed();
    },
  };
}

/** Connections apart from those that wait for jobs, one for each queue. */
const poolMost = 5;
/** The most connections that the queues of a process use in PostgreSQL. */
export const queueConnections = (queues: number): number => queues + poolMost;

async function onPostgres(url: string): Promise<Queues> {
  const backed = withBackend(createPostgresBackend);
  const pool = new pg.Pool({
    ...poolConfig(url, { search_path: 'bullmq', ...givesUp }),
    application_name: 'shelfdesk: queue',
    max: queueConnections(0),
  });
  pool.setMaxListeners(0);
  pool.on('error', () => {});
  pool.on('connect', client => client.on('error', () => {})); // Set for BullMQ's queries: see database/pool.ts.
  try {
    await makeTables(pool);
  } catch (error) {
    await pool.end();
    throw error;
  }
  // One pool for all parts of BullMQ. BullMQ accepts a pool of node-postgres, though its types describe the methods
  // more narrowly.
  const connection = pool as unknown as PgPool;
  return {
    open(name) {
      pool.options.max += 1;
      const jobs = new backed.Queue(nameOf(name), { connection, defaultJobOptions: jobOptions });
      // The same class on another backend; only the types of its connections differ.
      return queueOf(jobs as unknown as Queue, {
        makeWorker: process => new backed.Worker(nameOf(name), process, { ...workerOptions, connection }),
        forgetEvents: () => pool.query('delete from event where queue = $1', [nameOf(name)]),
        closed: () => {
          pool.options.max -= 1;
        },
      });
    },
    async ping() {
      await pool.query('select');
    },
    [Symbol.asyncDispose]: () => inTime(pool.end()),
  };
}

async function makeTables(pool: pg.Pool): Promise<void> {
  const client = await pool.connect();
  try {
    if (!(await isComplete(client))) await runMigrations(client);
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || error.code !== '42501') throw error;
    throw new ShelfdeskError(
      `the tables of the queue are missing, or this role may not use them: ${error.message}`,
      'Run `npx shelfdesk migrate` as the role that owns the tables.',
      exitCodes.failed,
      error,
    );
  } finally {
    client.release();
  }
}

/**
 * A worker without the right to create tables finds them created. BullMQ would try to create them again, and be
 * refused.
 */
async function isComplete(client: pg.PoolClient): Promise<boolean> {
  try {
    return (await assertSchemaCompatibility(client)) >= LATEST_SCHEMA_VERSION;
  } catch (error) {
    if (error instanceof SchemaMigrationRequiredError) return false;
    // The schema bullmq lacks tables, or this role lacks usage. Creating them reports the error.
    if (error instanceof pg.DatabaseError && error.code === '42501') return false;
    throw error;
  }
}

/**
 * A failed job is added again, because its run does not know of the failure. If two processes ask concurrently, one may
 * remove and re-add the job of the other, but never a running one.
 */
async function addTo(
  jobs: Pick<Queue, 'getJobState' | 'remove' | 'add'>,
  name: string,
  id: string,
  payload: object,
): Promise<void> {
  if ((await jobs.getJobState(id)) === 'failed') await jobs.remove(id);
  await jobs.add(name, payload, { jobId: id });
}

/**
 * A failed job stores its error. So BullMQ gets an error whose message has no values of records, instead of one of a
 * library, whose stack repeats its message.
 */
function wordless(process: (job: Delivery, token: string) => Promise<void>): Process {
  return async (job, token) => {
    try {
      await process(job, token!);
    } catch (error) {
      if (error instanceof DelayedError || error instanceof WaitingError) throw error;
      throw new UnrecoverableError(messageOf(error));
    }
  };
}

/** BullMQ looks at the age of failed jobs only when another one fails. */
const removeOld = (jobs: Pick<Queue, 'clean'>): void =>
  void jobs.clean(failedSeconds * 1000, 0, 'failed').catch(() => {});

/** From this many errors in one turn of the event loop on, a worker of BullMQ blocks everything else. */
const mostAtOnce = 100;
const renewMs = 1000;

interface BullWorker {
  on(event: 'error', listener: (error: Error) => void): unknown;
  close(force?: boolean): Promise<void>;
}

/**
 * A worker of BullMQ retries a permanently refused connection in a loop without pause, which blocks timers and signals.
 * So it is replaced after a second.
 */
function taking(make: () => BullWorker, onError: (error: Error) => void): Taking {
  const leaving = new AbortController();
  let worker = start();

  function start(): BullWorker {
    const made = make();
    let atOnce = 0;
    made.on('error', error => {
      if (atOnce === 0)
        setImmediate(() => {
          atOnce = 0;
        });
      atOnce++;
      if (atOnce <= mostAtOnce) onError(error);
      if (atOnce === mostAtOnce) void replace(made);
    });
    return made;
  }

  async function replace(made: BullWorker): Promise<void> {
    await inTime(made.close(true));
    await delay(renewMs, undefined, { signal: leaving.signal }).catch(() => {});
    if (!leaving.signal.aborted) worker = start();
  }

  return {
    async close(atWork) {
      leaving.abort();
      const closed = worker.close();
      closed.catch(() => {});
      // Running jobs end at their next page. Then BullMQ gets their results, if the queue answers.
      await atWork;
      await inTime(closed);
    },
  };
}

async function inTime(work: Promise<unknown>): Promise<void> {
  const late = new AbortController();
  const tooLate = delay(closeMs, undefined, { signal: late.signal }).catch(() => {});
  await Promise.race([work.catch(() => {}), tooLate]);
  late.abort();
}
