/** Re-reads one stream where the last sweep is too old, to find deletions and silent changes. */

import { z } from 'zod';
import { readsOf, runStream } from '../src/engine/load/run-stream.ts';
import { defineJob } from '../src/engine/queue/job.ts';
import { jobStream, streamOf } from '../src/sources/index.ts';

export const sweepStream = defineJob({
  name: 'sweep-stream',
  payload: z.object({ account: z.string(), run: z.int(), stream: jobStream }),
  run: (job, work) => runStream(job, work, readsOf(streamOf(work.stream), 'sweep')),
});
