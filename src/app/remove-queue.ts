/** Removes the queue of an account, with all of its jobs. */

import { sql } from '../engine/database/sql.ts';
import { openQueue } from '../engine/queue/queue.ts';
import type { Fleet } from './config.ts';
import type { Warehouse } from './context.ts';

/** Throws ShelfdeskError if a queue cannot be reached. A queue that has moved to Redis may have left jobs in PostgreSQL. */
export async function removeQueue(
  { redisUrl }: Pick<Fleet, 'redisUrl'>,
  { pg, url }: Pick<Warehouse, 'pg' | 'url'>,
  account: string,
): Promise<void> {
  const { rows } = await pg.query<{ queue: string; made: boolean }>(sql`
    select queue, to_regclass('bullmq.job') is not null as made from sync.accounts where account_id = ${account}`);
  for (const { queue: name, made } of rows)
    for (const at of [...(made ? [undefined] : []), ...(redisUrl === undefined ? [] : [redisUrl])]) {
      await using queue = await openQueue({ name, redisUrl: at, databaseUrl: url });
      await queue.remove();
    }
}
