/** Fills the holes of one list stream, in the range that its run names. */
import { z } from 'zod';
import { defineJob } from '../src/queue/job.ts';
import { listStream } from '../src/streams/index.ts';
import { runStream } from '../src/sync/run-stream.ts';
import { backfillList } from '../src/sync/sync.ts';

export const backfillStream = defineJob({
  name: 'backfill-stream',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.string() }),
  run: (job, work) => runStream(job, work, { read: (ctx, claim) => backfillList(ctx, claim, listStream(work.stream)) }),
});
