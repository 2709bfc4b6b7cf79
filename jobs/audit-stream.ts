/** Compares random records of one stream with the source, with spare credits. */

import { z } from 'zod';
import { defineJob } from '../src/engine/queue/job.ts';
import { jobStream, streamOf } from '../src/sources/index.ts';

export const auditStream = defineJob({
  name: 'audit-stream',
  payload: z.object({ account: z.string(), run: z.int(), stream: jobStream }),
  run: async (job, work) => {
    const { runStream } = await import('../src/engine/load/run-stream.ts');
    const audit = await import('../src/engine/verify/audit/audit-stream.ts');
    return runStream(job, work, { read: (ctx, claim) => audit.auditStream(ctx, claim, streamOf(work.stream)) });
  },
});
