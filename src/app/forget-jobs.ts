/** Removes jobs: the failed ones with their events, because those of older versions quote the source, or all of an account. */
import type { OpenQueue } from '../engine/queue/job-queue.ts';
import { openQueue } from '../engine/queue/queue.ts';
import type { Fleet } from './config.ts';
import type { Warehouse } from './context.ts';

/** Throws ShelfdeskError if a queue cannot be reached. A queue that has moved to Redis may have left jobs in PostgreSQL. */
export async function forgetJobs(fleet: Reach, warehouse: In, account: string): Promise<void> {
  const queues = [...(await queueOf(warehouse, account)), ...(await queueOfLake(warehouse))];
  for (const name of queues) await onEach(fleet, warehouse, name, queue => queue.forget());
}

/** Removes the queue of the account. Throws ShelfdeskError if a queue cannot be reached. */
export async function removeQueue(fleet: Reach, warehouse: In, account: string): Promise<void> {
  for (const name of await queueOf(warehouse, account)) await onEach(fleet, warehouse, name, queue => queue.remove());
}

type Reach = Pick<Fleet, 'redisUrl'>;
type In = Pick<Warehouse, 'pg' | 'url'>;

const names = (rows: readonly { queue: string }[]): string[] => rows.map(({ queue }) => queue);
const queueOf = async ({ pg }: In, account: string) =>
  names((await pg.query('select queue from sync.accounts where account_id = $1', [account])).rows);
const queueOfLake = async ({ pg }: In) => names((await pg.query('select queue from sync.lake')).rows);

async function onEach(
  { redisUrl }: Reach,
  { pg, url }: In,
  name: string,
  act: (queue: OpenQueue) => Promise<void>,
): Promise<void> {
  const { rows } = await pg.query<{ made: boolean }>(`select to_regclass('bullmq.job') is not null as made`);
  for (const at of [...(rows[0]!.made ? [undefined] : []), ...(redisUrl === undefined ? [] : [redisUrl])]) {
    await using queue = await openQueue({ name, redisUrl: at, databaseUrl: url });
    await act(queue);
  }
}
