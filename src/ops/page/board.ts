/** BullMQ's own board of the queues, to be looked at: what people do is done on the page, where it is written down. */
import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { FastifyAdapter } from '@bull-board/fastify';
import type { Queue } from 'bullmq';
import type { FastifyPluginCallback } from 'fastify';

interface Board {
  readonly plugin: FastifyPluginCallback<{ prefix: string }>;
  /** Also those that have come since. */
  show(): void;
}

/** `queues` by the names of their accounts. */
export function boardOf(queues: ReadonlyMap<string, Queue>, path: string): Board {
  const serverAdapter = new FastifyAdapter();
  serverAdapter.setBasePath(path);
  const all = () =>
    [...queues].map(([account, queue]) => new BullMQAdapter(queue, { readOnlyMode: true, displayName: account }));
  let shown = queues.size;
  const board = createBullBoard({
    queues: all(),
    serverAdapter,
    options: { uiConfig: { boardTitle: 'Shelfdesk: queues', hideRedisDetails: true } },
  });
  return {
    plugin: serverAdapter.registerPlugin() as FastifyPluginCallback<{ prefix: string }>,
    show() {
      if (queues.size === shown) return;
      shown = queues.size;
      board.replaceQueues(all());
    },
  };
}

/** Its own program writes styles into its elements. */
export const boardPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; " +
  "connect-src 'self'; manifest-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'";
