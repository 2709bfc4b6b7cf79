/** Reads the messages of the tickets that wait for them, and for a backfill also those that it reads again. */
import { z } from 'zod';
import { runStream } from '../src/engine/load/run-stream.ts';
import { defineJob } from '../src/engine/queue/job.ts';
import { hydrate, isDone } from '../src/sources/helpdesk/messages/detail-loop.ts';
import { messages } from '../src/sources/helpdesk/messages/messages.ts';

export const hydrateMessages = defineJob({
  name: 'hydrate-messages',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.literal('messages') }),
  run: (job, work) => runStream(job, work, { read: (ctx, claim) => hydrate(ctx, claim, messages), isDone }),
});
