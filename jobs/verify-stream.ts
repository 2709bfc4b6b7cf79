/** Re-reads one stream, all of it or a sample, and compares it with the mirror. */

import { z } from 'zod';
import { readsOf, runStream } from '../src/engine/load/run-stream.ts';
import { defineJob } from '../src/engine/queue/job.ts';
import { jobStream, streamOf } from '../src/sources/index.ts';

export const verifyStream = defineJob({
  name: 'verify-stream',
  payload: z.object({ account: z.string(), run: z.int(), stream: jobStream }),
  run: (job, work) => runStream(job, work, readsOf(streamOf(work.stream), 'verify')),
});
