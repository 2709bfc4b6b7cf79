/** Compares random records of one stream with the source, with spare credits. */

import { z } from 'zod';
import { readsOf, runStream } from '../src/engine/load/run-stream.ts';
import { defineJob } from '../src/engine/queue/job.ts';
import { jobStream, streamOf } from '../src/sources/index.ts';

export const auditStream = defineJob({
  name: 'audit-stream',
  payload: z.object({ account: z.string(), run: z.int(), stream: jobStream }),
  run: (job, work) => runStream(job, work, readsOf(streamOf(work.stream), 'audit')),
});
