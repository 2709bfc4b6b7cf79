/** Reads one stream again, all of it or a sample, and compares it with what is here. */
import { z } from 'zod';
import { defineJob } from '../src/queue/job.ts';
import { listStream } from '../src/streams/index.ts';
import { messages } from '../src/streams/messages.ts';
import { shelves } from '../src/streams/shelves.ts';
import { volumes } from '../src/streams/volumes.ts';
import { runStream } from '../src/sync/run-stream.ts';
import { verifyStream as verify } from '../src/sync/verify.ts';
import { verifyBooks } from '../src/sync/verify-books.ts';

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
