/** Fills the holes of one list stream, in the range that its run names. */
import { z } from 'zod';
import { backfillList } from '../src/engine/load/list-loop.ts';
import { runStream } from '../src/engine/load/run-stream.ts';
import { defineJob } from '../src/engine/queue/job.ts';
import { listStream } from '../src/sources/index.ts';

export const backfillStream = defineJob({
  name: 'backfill-stream',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.string() }),
  run: (job, work) => runStream(job, work, { read: (ctx, claim) => backfillList(ctx, claim, listStream(work.stream)) }),
});
