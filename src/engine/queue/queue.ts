/**
 * The queue: BullMQ on Redis where there is one, else on BullMQ's own PostgreSQL backend. It holds jobs only, and losing
 * every job loses nothing: rows, positions and runs are in the warehouse.
 */
import { setTimeout as delay } from 'node:timers/promises';
import {
  assertSchemaCompatibility,
  createPostgresBackend,
  type Job as Delivery,
  LATEST_SCHEMA_VERSION,
  type PgPool,
  Queue,
  runMigrations,
  SchemaMigrationRequiredError,
  Worker,
  type WorkerOptions,
  withBackend,
} from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
import { Away, exitCodes, isAway, ShelfdeskError } from '../../errors.ts';
import { givesUp } from '../database/pool.ts';

/**
 * The job of a worker that was killed is free after this, and is taken up at one of the next looks: after 5 to 10 s. On
 * Redis BullMQ allows one look in an interval, by a key that lives exactly as long, and so leaves out one in four.
 */
const lockMs = 5000;
const lookMs = 2500;

/** Where neither Redis nor PostgreSQL answers, nobody can be told of the departure: the locks of the jobs expire by themselves. */
const closeMs = 5000;

const workerOptions = {
  // More than one account can have at work (the top of three lists, the holes of three, one hydrator), so that nothing
  // that is urgent waits for a place. Credits are what limits the work, not places.
  concurrency: 8,
  lockDuration: lockMs,
  stalledInterval: lookMs,
  // How often a job may be taken up is for the run's token to judge, not for the queue.
  maxStalledCount: 1_000_000,
  // A server that refuses connections is asked again after this; by default after 15 s.
  runRetryDelay: 1000,
} satisfies Partial<WorkerOptions>;

/** What failed stays to be looked at; what is done is in the run. */
const jobOptions = { attempts: 1, removeOnComplete: true, removeOnFail: { count: 1000 } };

export type { Delivery };

export interface JobQueue extends AsyncDisposable {
  /** Adds the job, unless one of this id waits or is at work. One that failed is done anew. */
  add(name: string, id: string, payload: object): Promise<void>;
  /** Takes jobs until it is closed, which waits for those at work. */
  work(process: (job: Delivery, token: string) => Promise<void>, onError: (error: Error) => void): Taking;
}

export interface OpenQueue extends JobQueue {
  /** BullMQ's own, for those who look at it: the queue's board, metrics. */
  readonly bull: Queue;
}

export interface Taking {
  /** Takes no more jobs from this moment on; resolves when those at work have ended, which `atWork` does before the queue knows. */
  close(atWork: Promise<unknown>): Promise<void>;
}

/** All queues of a process: they share what it is connected by. Of BullMQ's own, each that takes jobs has one connection besides. */
export interface Queues extends AsyncDisposable {
  /** One queue for each account of each warehouse: its jobs need its settings. */
  open(name: string): OpenQueue;
  /** Fails where the server that they live in is away. One that hangs is waited for. */
  ping(): Promise<void>;
}

/** Where queues live. */
interface QueueServer {
  redisUrl: string | undefined;
  databaseUrl: string;
}

export async function openQueues({ redisUrl, databaseUrl }: QueueServer): Promise<Queues> {
  return redisUrl === undefined ? onPostgres(databaseUrl) : onRedis(redisUrl);
}

/** One alone, with connections of its own. */
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
  const redis = new Redis(url, {
    maxRetriesPerRequest: null,
    lazyConnect: true,
    retryStrategy: tries => Math.min(2000, tries * 100),
  });
  // Each queue and each worker listens to it: so many are no leak.
  redis.setMaxListeners(0);
  let trouble: Error | undefined;
  redis.on('error', (error: Error) => {
    trouble = error;
  });
  try {
    await redis.connect();
    await redis.ping();
  } catch (error) {
    redis.disconnect();
    const why: unknown = trouble ?? error;
    const remedy = 'Check REDIS_URL, or leave it out: then the queue lives in PostgreSQL.';
    if (isAway(why)) throw new Away(why, 'Redis', remedy);
    throw new ShelfdeskError(`Redis does not answer: ${(why as Error).message}`, remedy, exitCodes.failed, error);
  }
  return {
    open(name) {
      const jobs = new Queue(nameOf(name), { connection: redis, defaultJobOptions: jobOptions });
      jobs.on('error', () => {}); // The command that needs it fails with the same error.
      return {
        bull: jobs,
        add: (name, id, payload) => addTo(jobs, name, id, payload),
        work: (process, onError) =>
          taking(
            new Worker(nameOf(name), (job, token) => process(job, token!), { ...workerOptions, connection: redis }),
            onError,
          ),
        [Symbol.asyncDispose]: () => inTime(jobs.close()),
      };
    },
    async ping() {
      // While it is away all that is asked waits until it is back, and would be asked then.
      if (redis.status !== 'ready') throw new Error(trouble?.message ?? redis.status);
      await redis.ping();
    },
    async [Symbol.asyncDispose]() {
      await inTime(redis.quit());
      redis.disconnect();
    },
  };
}

/** Beside those that wait for jobs, one for each queue. */
const poolMost = 5;
/** What the queues of a process take in PostgreSQL at most. */
export const queueConnections = (queues: number): number => queues + poolMost;

async function onPostgres(url: string): Promise<Queues> {
  const backed = withBackend(createPostgresBackend);
  const pool = new pg.Pool({
    connectionString: url,
    application_name: 'shelfdesk: queue',
    options: `-c search_path=bullmq ${givesUp}`,
    max: queueConnections(0),
  });
  pool.setMaxListeners(0);
  pool.on('error', () => {});
  pool.on('connect', client => client.on('error', () => {})); // While BullMQ has it: see warehouse/pool.ts.
  try {
    await makeTables(pool);
  } catch (error) {
    await pool.end();
    throw error;
  }
  // One pool for all of BullMQ's parts. It takes one of node-postgres; only its types describe the methods more narrowly.
  const connection = pool as unknown as PgPool;
  return {
    open(name) {
      pool.options.max += 1;
      const jobs = new backed.Queue(nameOf(name), { connection, defaultJobOptions: jobOptions });
      jobs.on('error', () => {});
      return {
        // The same class on another backend; only the types of its connections differ.
        bull: jobs as unknown as Queue,
        add: (name, id, payload) => addTo(jobs, name, id, payload),
        work: (process, onError) =>
          taking(
            new backed.Worker(nameOf(name), (job, token) => process(job, token!), { ...workerOptions, connection }),
            onError,
          ),
        async [Symbol.asyncDispose]() {
          await inTime(jobs.close());
          pool.options.max -= 1;
        },
      };
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

/** A worker that may not make tables finds them made: making what is there would be refused as well. */
async function isComplete(client: pg.PoolClient): Promise<boolean> {
  try {
    return (await assertSchemaCompatibility(client)) >= LATEST_SCHEMA_VERSION;
  } catch (error) {
    if (error instanceof SchemaMigrationRequiredError) return false;
    // Schema bullmq without tables, or without the right to use it: making them says what is wrong.
    if (error instanceof pg.DatabaseError && error.code === '42501') return false;
    throw error;
  }
}

/**
 * Whoever asks for a job that failed does so because its run was not told. Where two ask at a time one may remove the job
 * that the other has added, and add it again: never one that is at work.
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

function taking(
  worker: { on(event: 'error', listener: (error: Error) => void): unknown; close(): Promise<void> },
  onError: (error: Error) => void,
): Taking {
  worker.on('error', onError);
  return {
    async close(atWork) {
      const closed = worker.close();
      closed.catch(() => {});
      // They end by themselves, at their next page. Then the queue has to be told, if it answers.
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
