/** Syncs one stream: reads a list up to now, or fetches pending records by id. */

import { z } from 'zod';
import { defineJob } from '../src/engine/queue/job.ts';
import { jobStream, streamOf } from '../src/sources/index.ts';

export const syncStream = defineJob({
  name: 'sync-stream',
  payload: z.object({ account: z.string(), run: z.int(), stream: jobStream }),
  run: async (job, work) => {
    const { readsOf, runStream } = await import('../src/engine/load/run-stream.ts');
    return runStream(job, work, readsOf(streamOf(work.stream), 'sync'));
  },
});
