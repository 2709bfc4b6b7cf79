/** The jobs of a list stream: sync extends it to now, backfill fills its gaps. */
import type { ListStream, Row, StreamJobs } from '../../sources/source.ts';
import { backfillList, isLeftToOthers, syncList } from './list-loop.ts';

export const listJobs = (stream: ListStream<Row>): Pick<StreamJobs, 'sync' | 'backfill'> => ({
  sync: { read: (ctx, claim) => syncList(ctx, claim, stream), isDone: isLeftToOthers },
  backfill: { read: (ctx, claim) => backfillList(ctx, claim, stream) },
});
