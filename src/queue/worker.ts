/**
 * From a class of failure to what BullMQ does with the job, in this one place. The run in the warehouse has the last
 * word about the work, `onUnsaid` hears of what could not even be written there; the queue only has to know whether to deliver it again: it never does.
 */
import { UnrecoverableError } from 'bullmq';
import type { Context } from '../context.ts';
import { FencedOff, Interrupted, StreamFailed } from '../errors.ts';
import type { Job } from './job.ts';
import type { JobQueue } from './queue.ts';

export function work(
  ctx: Context,
  queue: JobQueue,
  jobs: readonly Job[],
  onUnsaid: (error: unknown) => void,
): AsyncDisposable {
  const byName = new Map(jobs.map(job => [job.name, job]));
  return queue.work(
    async (name, payload) => {
      const job = byName.get(name);
      // A job of a newer version stays in the failed set.
      if (job === undefined) throw new UnrecoverableError(`this version of Shelfdesk knows no job ${name}`);
      try {
        await job.run(ctx, payload);
      } catch (error) {
        // Somebody else goes on with it, or the next run does: nothing failed.
        if (error instanceof FencedOff || error instanceof Interrupted) return;
        if (!(error instanceof StreamFailed)) onUnsaid(error);
        ctx.log.debug({ job: name, err: error }, 'job failed');
        throw new UnrecoverableError(error instanceof Error ? error.message : String(error));
      }
    },
    error => ctx.log.warn({ error: error.message }, 'the queue is in trouble'),
  );
}
