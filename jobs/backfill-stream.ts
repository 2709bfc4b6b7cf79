/** Fills the gaps of one list stream, in the range of its run. */

import { z } from 'zod';
import { defineJob } from '../src/engine/queue/job.ts';
import { jobStream, streamOf } from '../src/sources/index.ts';

export const backfillStream = defineJob({
  name: 'backfill-stream',
  payload: z.object({ account: z.string(), run: z.int(), stream: jobStream }),
  run: async (job, work) => {
    const { readsOf, runStream } = await import('../src/engine/load/run-stream.ts');
    return runStream(job, work, readsOf(streamOf(work.stream), 'backfill'));
  },
});
