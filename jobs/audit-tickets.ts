/** Reads random tickets again with their messages, and compares them with what is here. */
import { z } from 'zod';
import { defineJob } from '../src/queue/job.ts';
import { listStream } from '../src/streams/index.ts';
import { messages } from '../src/streams/messages.ts';
import { audit } from '../src/sync/audit.ts';
import { runStream } from '../src/sync/run-stream.ts';

export const auditTickets = defineJob({
  name: 'audit-tickets',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.literal('tickets') }),
  run: (job, work) => {
    const compared = {
      tickets: listStream('tickets'),
      customers: listStream('customers'),
      users: listStream('users'),
      messages,
    };
    return runStream(job, work, { read: (ctx, claim) => audit(ctx, claim, compared) });
  },
});
