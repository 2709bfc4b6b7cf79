/** Removes failed jobs and their events from the queues: those of older versions quote the source. */
import { openQueue } from '../engine/queue/queue.ts';
import type { Fleet } from './config.ts';
import type { Warehouse } from './context.ts';

/** Throws ShelfdeskError if a queue cannot be reached. A queue that has moved to Redis may have left jobs in PostgreSQL. */
export async function forgetJobs(
  { redisUrl }: Pick<Fleet, 'redisUrl'>,
  { pg, url }: Pick<Warehouse, 'pg' | 'url'>,
  account: string,
): Promise<void> {
  const { rows } = await pg.query<{ queue: string; in_pg: boolean }>(
    `select q.queue, to_regclass('bullmq.job') is not null as in_pg from (
       select queue::text from sync.accounts where account_id = $1 union select queue::text from sync.lake) q`,
    [account],
  );
  for (const { queue: name, in_pg } of rows)
    for (const at of [...(in_pg ? [undefined] : []), ...(redisUrl === undefined ? [] : [redisUrl])]) {
      await using queue = await openQueue({ name, redisUrl: at, databaseUrl: url });
      await queue.forget();
    }
}
