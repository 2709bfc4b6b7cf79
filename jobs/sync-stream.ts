/** Extends the top of one list stream to now. */
import { z } from 'zod';
import { defineJob } from '../src/queue/job.ts';
import { streams } from '../src/streams/index.ts';
import { runStream } from '../src/sync/run-stream.ts';
import { syncList } from '../src/sync/sync.ts';

const lists = streams.filter(stream => stream.kind === 'list');

export const syncStream = defineJob({
  name: 'sync-stream',
  payload: z.object({ account: z.string(), run: z.int(), stream: z.string() }),
  async run(ctx, work) {
    const stream = lists.find(({ name }) => name === work.stream);
    if (stream === undefined) throw new Error(`no list stream is called ${work.stream}`);
    await runStream(ctx, work, claim => syncList(ctx, claim, stream));
  },
});
