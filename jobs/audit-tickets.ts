/** Reads random tickets again with their messages, and compares them with what is here. */
import { z } from 'zod';
import { runStream } from '../src/engine/load/run-stream.ts';
import { defineJob } from '../src/engine/queue/job.ts';
import { messages } from '../src/sources/helpdesk/messages/messages.ts';
import { audit } from '../src/sources/helpdesk/verify/audit.ts';
import { listStream } from '../src/sources/index.ts';

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
