/** Asks for the volumes that wait, or are due again, by their id. */
import { z } from 'zod';
import { runStream } from '../src/engine/load/run-stream.ts';
import { defineJob } from '../src/engine/queue/job.ts';
import { hydrateVolumes as hydrate } from '../src/sources/books/volume-loop.ts';
import { volumes } from '../src/sources/books/volumes.ts';

export const hydrateVolumes = defineJob({
  name: 'hydrate-volumes',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.literal('volumes') }),
  run: (job, work) => runStream(job, work, { read: (ctx, claim) => hydrate(ctx, claim, volumes) }),
});
