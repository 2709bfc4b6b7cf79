/** Re-reads one stream, all of it or a sample, and compares it with the mirror. */

import { z } from 'zod';
import { defineJob } from '../src/engine/queue/job.ts';
import { jobStream, streamOf } from '../src/sources/index.ts';

export const verifyStream = defineJob({
  name: 'verify-stream',
  payload: z.object({ account: z.string(), run: z.int(), stream: jobStream }),
  run: async (job, work) => {
    const { readsOf, runStream } = await import('../src/engine/load/run-stream.ts');
    return runStream(job, work, readsOf(streamOf(work.stream), 'verify'));
  },
});
