/** Extends the top of one list stream to now. */
import { z } from 'zod';
import { defineJob } from '../src/queue/job.ts';
import { listStream } from '../src/streams/index.ts';
import { runStream } from '../src/sync/run-stream.ts';
import { isLeftToOthers, syncList } from '../src/sync/sync.ts';

export const syncStream = defineJob({
  name: 'sync-stream',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.string() }),
  run: (job, work) =>
    runStream(job, work, {
      read: (ctx, claim) => syncList(ctx, claim, listStream(work.stream)),
      isDone: isLeftToOthers,
    }),
});
