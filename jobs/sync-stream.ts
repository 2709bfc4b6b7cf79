/** Syncs one stream: reads a list up to now, or fetches pending records by id. */

import { z } from 'zod';
import { readsOf, runStream } from '../src/engine/load/run-stream.ts';
import { defineJob } from '../src/engine/queue/job.ts';
import { jobStream, streamOf } from '../src/sources/index.ts';

export const syncStream = defineJob({
  name: 'sync-stream',
  payload: z.object({ account: z.string(), run: z.int(), stream: jobStream }),
  run: (job, work) => runStream(job, work, readsOf(streamOf(work.stream), 'sync')),
});
