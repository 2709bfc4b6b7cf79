/** Opens the queue: on Redis if configured, else in PostgreSQL. */
import type { OpenQueue, Queues } from './job-queue.ts';

/** The server of the queues. */
interface QueueServer {
  redisUrl: string | undefined;
  databaseUrl: string;
}

/** A process that needs no queue does not load BullMQ. */
export async function openQueues({ redisUrl, databaseUrl }: QueueServer): Promise<Queues> {
  const { onPostgres, onRedis } = await import('./bull.ts');
  return redisUrl === undefined ? onPostgres(databaseUrl) : onRedis(redisUrl);
}

/** One queue with connections of its own. */
export async function openQueue({ name, ...at }: QueueServer & { name: string }): Promise<OpenQueue> {
  const queues = await openQueues(at);
  const queue = queues.open(name);
  return {
    ...queue,
    async [Symbol.asyncDispose]() {
      await queue[Symbol.asyncDispose]();
      await queues[Symbol.asyncDispose]();
    },
  };
}
