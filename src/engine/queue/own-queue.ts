/**
 * The queue of a command that works itself, within its process. Other processes find its work in the rows, so no server has to
 * know of its jobs.
 */
import type { Context } from '../context.ts';
import { type Delivery, type JobQueue, Moved } from './job-queue.ts';

/** `worker`: a part of each id, because a stream is taken from a live process by a job of the same id. */
export function ownQueue({ clock }: Pick<Context, 'clock'>, worker: number): JobQueue {
  const known = new Set<string>();
  let take = async (_job: Delivery, _dueMs: () => number): Promise<void> => {};
  return {
    async add(name, given, data) {
      const id = `${given}-by-${worker}`;
      if (known.has(id)) return;
      let dueMs = 0;
      const moveToDelayed = async (untilMs: number) => {
        dueMs = untilMs;
      };
      known.add(id);
      const job = { id, name, data, moveToDelayed, moveToWait: () => moveToDelayed(0) };
      void take(job, () => dueMs).finally(() => known.delete(id));
    },
    work(process) {
      const leaving = new AbortController();
      take = async (job, dueMs) => {
        while (!leaving.signal.aborted) {
          try {
            return await process(job, '');
          } catch (error) {
            // The worker has told of a failure. The next look at the runs adds the job again.
            if (!(error instanceof Moved)) return;
            await clock.sleep(Math.max(0, dueMs() - clock.now()), leaving.signal).catch(() => {});
          }
        }
      };
      return {
        async close(atWork) {
          leaving.abort();
          await atWork;
        },
      };
    },
    [Symbol.asyncDispose]: async () => {},
  };
}
