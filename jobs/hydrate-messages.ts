/** Reads the messages of the tickets that wait for them, and for a backfill also those that it reads again. */
import { z } from 'zod';
import { defineJob } from '../src/queue/job.ts';
import { messages } from '../src/streams/messages.ts';
import { hydrate, isDone } from '../src/sync/hydrate.ts';
import { runStream } from '../src/sync/run-stream.ts';

export const hydrateMessages = defineJob({
  name: 'hydrate-messages',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.literal('messages') }),
  run: (job, work) => runStream(job, work, { read: (ctx, claim) => hydrate(ctx, claim, messages), isDone }),
});
