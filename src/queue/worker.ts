/**
 * From a class of failure to what BullMQ does with the job, in this one place. The run in the warehouse has the last word
 * about the work; the queue only has to know whether the job is to be delivered again, and when.
 */
import { DelayedError, UnrecoverableError, WaitingError } from 'bullmq';
import type { Context } from '../context.ts';
import { Busy, FencedOff, Interrupted, ShelfdeskError, StreamFailed } from '../errors.ts';
import { failUntaken } from '../warehouse/claims.ts';
import type { Job } from './job.ts';
import type { Delivery, JobQueue } from './queue.ts';

/** How long a job waits for its turn before it looks again. */
const busyMs = 1000;
/** A queue that is away says so several times a second. */
const quietMs = 60_000;

export interface Working extends AsyncDisposable {
  /** The ids of the jobs at work in this process. */
  readonly jobs: ReadonlySet<string>;
}

/**
 * Takes jobs until it is disposed of, or the signal of `ctx` aborts: then those at work are handed over at their next page.
 * `worker` is the number of this process in sync.workers; `afterEach` is called when a job has ended, however.
 */
export function work(
  ctx: Context,
  queue: JobQueue,
  definitions: readonly Job[],
  { worker, afterEach }: { worker: number; afterEach: () => void },
): Working {
  const byName = new Map(definitions.map(job => [job.name, job]));
  const jobs = new Set<string>();
  const leaving = new AbortController();
  const signal = AbortSignal.any([ctx.signal, leaving.signal]);

  async function run(job: Delivery, token: string): Promise<void> {
    const id = job.id!;
    jobs.add(id);
    try {
      const definition = byName.get(job.name);
      if (definition === undefined) throw new Error(`this version of Shelfdesk knows no job ${job.name}`);
      const helpdesk = { ...ctx.helpdesk, send: ctx.helpdesk.send.apart() };
      await definition.run({ ...ctx, signal, helpdesk, claimant: { worker, job: id } }, job.data);
    } catch (error) {
      await ended(job, token, error);
    } finally {
      jobs.delete(id);
      afterEach();
    }
  }

  /** Throws what BullMQ understands; where it returns, the job is done. */
  async function ended(job: Delivery, token: string, error: unknown): Promise<void> {
    // Somebody else goes on with it: nothing failed.
    if (error instanceof FencedOff) return;
    if (error instanceof Interrupted) {
      await job.moveToWait(token);
      throw new WaitingError();
    }
    if (error instanceof Busy) {
      await job.moveToDelayed(ctx.clock.now() + busyMs, token);
      throw new DelayedError();
    }
    if (!(error instanceof StreamFailed)) await failUntaken(ctx.pg, job, new Date(ctx.clock.now()), error);
    // What people can mend, the run tells in a sentence; a bug is told with its stack.
    const level = error instanceof StreamFailed && error.cause instanceof ShelfdeskError ? 'debug' : 'error';
    ctx.log[level]({ job: job.name, ...job.data, err: error }, 'a job failed');
    throw new UnrecoverableError(error instanceof Error ? error.message : String(error));
  }

  let toldMs = Number.NEGATIVE_INFINITY;
  const taking = queue.work(run, error => {
    const quiet = ctx.clock.monotonic() - toldMs < quietMs;
    ctx.log[quiet ? 'debug' : 'warn']({ error: error.message }, 'the queue is in trouble, it is tried again');
    if (!quiet) toldMs = ctx.clock.monotonic();
  });
  let closed: Promise<void> | undefined;
  const leave = () => {
    leaving.abort(new Interrupted());
    // Before a job that is handed over can be taken by this process again.
    closed ??= taking.close();
    return closed;
  };
  if (ctx.signal.aborted) void leave();
  else ctx.signal.addEventListener('abort', () => void leave(), { once: true });
  return { jobs, [Symbol.asyncDispose]: leave };
}
