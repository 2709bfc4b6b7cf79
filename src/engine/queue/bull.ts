/** The queue by BullMQ: on Redis if configured, else on its PostgreSQL backend. */
import { setTimeout as delay } from 'node:timers/promises';
import {
  assertSchemaCompatibility,
  createPostgresBackend,
  type Job,
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
import pg from 'pg';
import { messageOf, ShelfdeskError } from '../../errors.ts';
import { givesUp } from '../database/pool.ts';
import { poolConfig } from '../database/session/session.ts';
import {
  type Delivery,
  failedDays,
  Moved,
  type OpenQueue,
  type Queues,
  queueConnections,
  type Taking,
} from './job-queue.ts';
import { redisFailure, redisOptions, requireRedis } from './redis.ts';

/**
 * The job of a killed worker is free after this time, and taken up at a following look, after 5 to 10 s. On Redis,
 * BullMQ allows one look in an interval, by a key that lives exactly as long, so it skips one look in four.
 */
const lockMs = 5000;
const lookMs = 2500;
/**
 * Each account has a queue, and each queue is looked at. For each 20 of them the next ones look less often, because a look is a
 * request, whether a worker was killed or not. Those wait up to half a minute for the jobs of a killed worker.
 */
const lookMsOf = (queues: number) => lookMs * Math.min(4, 1 + Math.floor(queues / 20));

/**
 * If neither Redis nor PostgreSQL answers, the queue cannot learn that the worker leaves. The locks of its jobs expire.
 */
const closeMs = 5000;

const workerOptions = {
  // More than one account can use (three high-water marks, three gaps, one detail run), so urgent work never waits for
  // a place. Credits limit the work, not places.
  concurrency: 8,
  lockDuration: lockMs,
  // The token of the run judges how often a job may be taken up, not the queue.
  maxStalledCount: 1_000_000,
  // How long a queue without jobs waits for one before it asks again. A new job ends the wait.
  drainDelay: 10,
  // Pause before a server that refuses connections is asked again; the default is 15 s.
  runRetryDelay: 1000,
} satisfies Partial<WorkerOptions>;

/** Completed work is in the run. */
const jobOptions = { attempts: 1, removeOnComplete: true, removeOnFail: { age: failedDays * 24 * 3600, count: 1000 } };

const nameOf = (name: string) => `shelfdesk-${name}`;

export async function onRedis(url: string): Promise<Queues> {
  await requireRedis(url);
  const { Redis } = await import('ioredis');
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
  let opened = 0;
  return {
    open(name) {
      const stalledInterval = lookMsOf(opened++);
      const jobs = new Queue(nameOf(name), { connection: redis, defaultJobOptions: jobOptions });
      return queueOf(jobs, {
        makeWorker: process =>
          new Worker(nameOf(name), process, { ...workerOptions, stalledInterval, connection: redis }),
        // BullMQ would leave the newest hundred.
        forgetEvents: () => redis.xtrim(jobs.toKey('events'), 'MAXLEN', 0),
        closed: () => {
          opened -= 1;
        },
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

export async function onPostgres(url: string): Promise<Queues> {
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
      const stalledInterval = lookMsOf(pool.options.max - queueConnections(0));
      pool.options.max += 1;
      const jobs = new backed.Queue(nameOf(name), { connection, defaultJobOptions: jobOptions });
      // The same class on another backend; only the types of its connections differ.
      return queueOf(jobs as unknown as Queue, {
        makeWorker: process =>
          new backed.Worker(nameOf(name), process, { ...workerOptions, stalledInterval, connection }),
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

type Process = (job: Job, token?: string) => Promise<void>;

/** What the backends of BullMQ do in different ways. */
interface OnBackend {
  makeWorker(process: Process): BullWorker;
  forgetEvents(): Promise<unknown>;
  closed(): void;
}

function queueOf(jobs: Queue, { makeWorker, forgetEvents, closed }: OnBackend): OpenQueue {
  jobs.on('error', () => {}); // The command that needs the queue fails with the same error.
  return {
    bull: jobs,
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

async function makeTables(pool: pg.Pool): Promise<void> {
  const client = await pool.connect();
  try {
    if (!(await isComplete(client))) await runMigrations(client);
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || error.code !== '42501') throw error;
    throw new ShelfdeskError(
      `the tables of the queue are missing, or this role may not use them: ${error.message}`,
      'Run `npx shelfdesk migrate` as the role that owns the tables.',
      { cause: error },
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
      if (error instanceof Moved) throw new WaitingError();
      throw new UnrecoverableError(messageOf(error));
    }
  };
}

/** BullMQ looks at the age of failed jobs only when another one fails. */
const removeOld = (jobs: Pick<Queue, 'clean'>): void =>
  void jobs.clean(failedDays * 24 * 3_600_000, 0, 'failed').catch(() => {});

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
