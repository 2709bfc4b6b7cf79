/** Reads the shelves of the catalog, and which volumes are on those that have changed. */
import { z } from 'zod';
import { isLeftToOthers } from '../src/engine/load/list-loop.ts';
import { runStream } from '../src/engine/load/run-stream.ts';
import { defineJob } from '../src/engine/queue/job.ts';
import { readShelves as read } from '../src/sources/books/shelf-loop.ts';
import { shelves } from '../src/sources/books/shelves.ts';

export const readShelves = defineJob({
  name: 'read-shelves',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.literal('shelves') }),
  run: (job, work) => runStream(job, work, { read: (ctx, claim) => read(ctx, claim, shelves), isDone: isLeftToOthers }),
});
