/** Reads again what is due of one list stream, for what nothing announces, and asks for what seems to be gone. */
import { z } from 'zod';
import { sweepStream as sweep } from '../src/engine/deletions/sweep.ts';
import { runStream } from '../src/engine/load/run-stream.ts';
import { defineJob } from '../src/engine/queue/job.ts';
import { listStream } from '../src/sources/index.ts';

export const sweepStream = defineJob({
  name: 'sweep-stream',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.string() }),
  run: (job, work) => runStream(job, work, { read: (ctx, claim) => sweep(ctx, claim, listStream(work.stream)) }),
});
