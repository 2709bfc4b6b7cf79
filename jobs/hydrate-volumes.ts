/** Asks for the volumes that wait, or are due again, by their id. */
import { z } from 'zod';
import { defineJob } from '../src/queue/job.ts';
import { volumes } from '../src/streams/volumes.ts';
import { runStream } from '../src/sync/run-stream.ts';
import { hydrateVolumes as hydrate } from '../src/sync/volumes.ts';

export const hydrateVolumes = defineJob({
  name: 'hydrate-volumes',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.literal('volumes') }),
  run: (job, work) => runStream(job, work, { read: (ctx, claim) => hydrate(ctx, claim, volumes) }),
});
