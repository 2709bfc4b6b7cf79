/** The jobs of a list stream: sync extends it to now, backfill fills its gaps, verify compares it. With facts about its rows it is swept. */
import type { ListStream, Row, StreamJobs } from '../../sources/source.ts';
import type { Context, Outcome } from '../context.ts';
import type { Work } from '../runs/claims.ts';
import { rangeOf } from '../runs/ranges.ts';

const loop = () => import('./list-loop.ts');

export const listJobs = (stream: ListStream<Row>): StreamJobs => ({
  sync: { read: async (ctx, claim) => (await loop()).syncList(ctx, claim, stream), isDone: isLeftToOthers },
  backfill: { read: async (ctx, claim) => (await loop()).backfillList(ctx, claim, stream) },
  ...(stream.rowFacts && {
    sweep: { read: async (ctx, claim) => (await import('../deletions/sweep.ts')).sweepStream(ctx, claim, stream) },
  }),
  verify: {
    read: async (ctx, claim) => (await import('../verify/details/verify-stream.ts')).verify(ctx, claim, stream),
  },
});

/** A fresh run that finds another run at the high-water mark of the stream leaves the stream to that run. */
export async function isLeftToOthers(ctx: Context, work: Work): Promise<Outcome | undefined> {
  return (await rangeOf(ctx.pg, work.run)).kind === 'fresh' ? { partial: undefined } : undefined;
}
