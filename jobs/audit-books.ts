/** Reads random shelves, or volumes, again while nobody wants the requests, and compares them with what is here. */
import { z } from 'zod';
import { runStream } from '../src/engine/load/run-stream.ts';
import { defineJob } from '../src/engine/queue/job.ts';
import { shelves } from '../src/sources/books/shelves.ts';
import { volumes } from '../src/sources/books/volumes.ts';
import { auditBooks as audit } from '../src/sources/helpdesk/verify/audit.ts';

export const auditBooks = defineJob({
  name: 'audit-books',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.enum(['shelves', 'volumes']) }),
  run: (job, work) => runStream(job, work, { read: (ctx, claim) => audit(ctx, claim, { shelves, volumes }) }),
});
