/** Reads the shelves of the catalog, and which volumes are on those that have changed. */
import { z } from 'zod';
import { defineJob } from '../src/queue/job.ts';
import { shelves } from '../src/streams/shelves.ts';
import { runStream } from '../src/sync/run-stream.ts';
import { readShelves as read } from '../src/sync/shelves.ts';
import { isLeftToOthers } from '../src/sync/sync.ts';

export const readShelves = defineJob({
  name: 'read-shelves',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.literal('shelves') }),
  run: (job, work) => runStream(job, work, { read: (ctx, claim) => read(ctx, claim, shelves), isDone: isLeftToOthers }),
});
