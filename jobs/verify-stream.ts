/** Reads one stream again, all of it or a sample, and compares it with what is here. */
import { z } from 'zod';
import { runStream } from '../src/engine/load/run-stream.ts';
import { defineJob } from '../src/engine/queue/job.ts';
import { shelves } from '../src/sources/books/shelves.ts';
import { verifyBooks } from '../src/sources/books/verify.ts';
import { volumes } from '../src/sources/books/volumes.ts';
import { messages } from '../src/sources/helpdesk/messages/messages.ts';
import { verifyStream as verify } from '../src/sources/helpdesk/verify/verify.ts';
import { listStream } from '../src/sources/index.ts';

export const verifyStream = defineJob({
  name: 'verify-stream',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.string() }),
  run: (job, work) => {
    const compared = {
      tickets: listStream('tickets'),
      customers: listStream('customers'),
      users: listStream('users'),
      messages,
    };
    return runStream(job, work, {
      read: (ctx, claim) => {
        const isBooks = work.stream === 'shelves' || work.stream === 'volumes';
        return isBooks ? verifyBooks(ctx, claim, { shelves, volumes }) : verify(ctx, claim, compared);
      },
    });
  },
});
