/** Extends the top of one list stream to now. */
import { z } from 'zod';
import { isLeftToOthers, syncList } from '../src/engine/load/list-loop.ts';
import { runStream } from '../src/engine/load/run-stream.ts';
import { defineJob } from '../src/engine/queue/job.ts';
import { listStream } from '../src/sources/index.ts';

export const syncStream = defineJob({
  name: 'sync-stream',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.string() }),
  run: (job, work) =>
    runStream(job, work, {
      read: (ctx, claim) => syncList(ctx, claim, listStream(work.stream)),
      isDone: isLeftToOthers,
    }),
});
