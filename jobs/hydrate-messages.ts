/** Reads the messages of every ticket that waits for them. */
import { z } from 'zod';
import { defineJob } from '../src/queue/job.ts';
import { messages } from '../src/streams/messages.ts';
import { hydrate } from '../src/sync/hydrate.ts';
import { runStream } from '../src/sync/run-stream.ts';

export const hydrateMessages = defineJob({
  name: 'hydrate-messages',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.literal('messages') }),
  run: (ctx, work) => runStream(ctx, work, claim => hydrate(ctx, claim, messages)),
});
