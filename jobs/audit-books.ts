/** Reads random shelves, or volumes, again while nobody wants the requests, and compares them with what is here. */
import { z } from 'zod';
import { defineJob } from '../src/queue/job.ts';
import { shelves } from '../src/streams/shelves.ts';
import { volumes } from '../src/streams/volumes.ts';
import { auditBooks as audit } from '../src/sync/audit.ts';
import { runStream } from '../src/sync/run-stream.ts';

export const auditBooks = defineJob({
  name: 'audit-books',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.enum(['shelves', 'volumes']) }),
  run: (job, work) => runStream(job, work, { read: (ctx, claim) => audit(ctx, claim, { shelves, volumes }) }),
});
