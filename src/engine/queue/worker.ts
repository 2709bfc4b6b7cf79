/**
 * Maps classes of failure to the queue, in this one place. The run in the warehouse is the truth about the work. The queue
 * only needs to know whether to deliver the job again, and when.
 */

import {
  Busy,
  describeOutage,
  exitCodes,
  Fatal,
  FencedOff,
  Interrupted,
  isAway,
  orReason,
  Paused,
  ShelfdeskError,
  StreamFailed,
} from '../../errors.ts';
import { apart, type Context, type JobContext } from '../context.ts';
import { nameOfKey } from '../database/stream-key.ts';
import type { SourceName } from '../http/request.ts';
import { untilBack } from '../outage.ts';
import { type Claim, failUntaken } from '../runs/claims.ts';
import { keepRequestLog } from '../runs/request-log.ts';
import type { Job } from './job.ts';
import { type Delivery, type JobQueue, Moved } from './job-queue.ts';
import { redisRefusal } from './redis-refusals.ts';

/** Interval at which a queued job checks for its turn. */
const busyMs = 1000;
/** How often a job checks for the database while it is away. */
const awayMs = 1000;
/** Interval of log lines about a queue that is away, which emits several errors a second. */
const quietMs = 60_000;

/** The jobs that run in this process, by id. */
export interface Jobs {
  has(id: string): boolean;
  claims(): { job: string; claim: Claim }[];
  /** Stops a job with this reason, at its next page or while it waits for a credit. */
  stop(id: string, why: Error): void;
}

export const noJobs: Jobs = { has: () => false, claims: () => [], stop: () => {} };

export interface Working extends AsyncDisposable {
  readonly jobs: Jobs;
}

interface AtWork {
  readonly done: Promise<void>;
  readonly stopping: AbortController;
  claim?: Claim;
}

interface Around {
  /** The number of this process in sync.workers. */
  readonly worker: number;
  /** Called with the stream of each job that has ended. */
  readonly afterEach: (stream: string) => void;
  /** Called before that for a job that has failed. */
  readonly onFailure?: (stream: string, error: unknown) => void;
}

/** Takes jobs until it is disposed of or the signal of `ctx` aborts. Then running jobs are handed over at their next page. */
export function work(
  ctx: Context,
  queue: JobQueue,
  definitions: readonly Job[],
  { worker, afterEach, onFailure = () => {} }: Around,
): Working {
  const atWork = new Map<string, AtWork>();
  const leaving = new AbortController();
  const here: Context = { ...ctx, signal: AbortSignal.any([ctx.signal, leaving.signal]) };

  async function run(job: Delivery, token: string): Promise<void> {
    const id = job.id!;
    // A job that the queue delivers again while it still runs here, because the queue was away, is the same work.
    const begun = atWork.get(id) ?? begin(job, id);
    try {
      await begun.done;
    } catch (error) {
      await ended(here, job, token, orReason(error, here.signal), onFailure);
    } finally {
      if (atWork.get(id) === begun) atWork.delete(id);
      afterEach(job.data.stream);
    }
  }

  function begin(job: Delivery, id: string): AtWork {
    const stopping = new AbortController();
    const onClaim = (claim: Claim) => {
      begun.claim = claim;
    };
    const signal = AbortSignal.any([here.signal, stopping.signal]);
    const done = perform({ ...here, signal, onClaim }, definitions, job, worker);
    const begun: AtWork = { done, stopping };
    atWork.set(id, begun);
    return begun;
  }

  const taking = queue.work(run, tellTrouble(ctx));
  let closed: Promise<void> | undefined;
  const leave = () => {
    leaving.abort(new Interrupted());
    // The worker must close before this process could take the handed-over job again.
    closed ??= taking.close(Promise.allSettled([...atWork.values()].map(({ done }) => done)));
    return closed;
  };
  if (ctx.signal.aborted) void leave();
  else ctx.signal.addEventListener('abort', () => void leave(), { once: true });
  const jobs: Jobs = {
    has: id => atWork.has(id),
    claims: () => [...atWork].flatMap(([job, { claim }]) => (claim ? [{ job, claim }] : [])),
    stop: (id, why) => atWork.get(id)?.stopping.abort(why),
  };
  return { jobs, [Symbol.asyncDispose]: leave };
}

async function perform(
  ctx: Context & Pick<JobContext, 'onClaim'>,
  definitions: readonly Job[],
  job: Delivery,
  worker: number,
): Promise<void> {
  const definition = definitions.find(({ name }) => name === job.name);
  if (definition === undefined) throw new Error(`this version of Shelfdesk knows no job ${job.name}`);
  // Jobs of older versions carry a short name.
  const { stream } = job.data;
  const [named, ...others] = ctx.streams.filter(one => one.key === stream || one.name === stream);
  if (named && others.length === 0 && !ctx.sources.has(named.source)) throw notConfigured(named.source);
  const log = keepRequestLog(ctx, { run: job.data.run, stream: named?.key ?? stream });
  try {
    const sources = apart(ctx.sources, log.heard);
    const claimant = { worker, job: job.id!, rules: ctx.rules ?? '', bound: ctx.bound ?? [] };
    await definition.run({ ...ctx, sources, claimant }, job.data);
  } finally {
    await log.end();
  }
}

/** Tells the queue what becomes of a job that threw `error`: it throws `Moved`, or why it failed. If it returns, the job is done. */
async function ended(
  ctx: Context,
  job: Delivery,
  token: string,
  error: unknown,
  onFailure: (stream: string, error: unknown) => void,
): Promise<void> {
  // No failure: another worker continues, the run was canceled, or a resume adds the job again.
  if (error instanceof FencedOff || error instanceof Paused) return;
  if (error instanceof Interrupted) {
    await whenBack(ctx, () => job.moveToWait(token));
    throw new Moved();
  }
  if (error instanceof Busy) {
    await whenBack(ctx, () => job.moveToDelayed(ctx.clock.now() + busyMs, token));
    throw new Moved();
  }
  onFailure(job.data.stream, error);
  // The run shows a failure that people can fix as one sentence. A bug is logged with its stack.
  const why = error instanceof StreamFailed ? error.cause : error;
  const level = why instanceof ShelfdeskError ? 'debug' : 'error';
  const { run } = job.data;
  const stream = nameOfKey(String(job.data.stream));
  ctx.log[level]({ job: job.name, run, stream, err: error }, 'a job failed');
  if (!(error instanceof StreamFailed))
    await whenBack(ctx, () => failUntaken(ctx.pg, job, new Date(ctx.clock.now()), error));
  throw error;
}

/**
 * Waits until the database answers. If the end cannot be told for another reason, the job fails, and is added again
 * later.
 */
function whenBack<T>({ clock, signal }: Context, tell: () => Promise<T>): Promise<T> {
  const rest = () => clock.sleep(awayMs, signal).catch(() => {});
  const pause = async (error: Error) => {
    if (signal.aborted) throw error;
    await rest();
  };
  return untilBack(tell, pause).catch(async error => {
    if (!signal.aborted) await rest();
    throw error;
  });
}

/** Logs errors of the queue: a warning once in `quietMs`, the others for debugging. */
function tellTrouble({ clock, log }: Context): (error: Error) => void {
  let toldMs = Number.NEGATIVE_INFINITY;
  return error => {
    const quiet = clock.monotonic() - toldMs < quietMs;
    const refused = error.name === 'ReplyError' ? redisRefusal(error)?.says : undefined;
    const what = isAway(error) ? describeOutage(error, 'the queue') : (refused ?? 'the queue is in trouble');
    log[quiet ? 'debug' : 'warn']({ error: error.message }, `${what}; it is tried again`);
    if (!quiet) toldMs = clock.monotonic();
  };
}

/** The job belongs to a run that another process opened, or this process with other settings. */
const notConfigured = (source: SourceName) =>
  new Fatal(
    `the process that was to read it is not configured for ${source}`,
    `Give all processes of this account the same settings: see ${source.toUpperCase()}_BASE_URL.`,
    exitCodes.usage,
  );
