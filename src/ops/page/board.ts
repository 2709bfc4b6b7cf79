/** BullMQ's board of the queues, read-only. People act on the page, which records operations. */
import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { FastifyAdapter } from '@bull-board/fastify';
import type { Queue } from 'bullmq';
import type { FastifyPluginCallback } from 'fastify';

interface Board {
  readonly plugin: FastifyPluginCallback<{ prefix: string }>;
  /** Adds queues of new accounts. */
  show(): void;
}

/** `queues`: by account. */
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

/** The board's script sets inline styles. */
export const boardPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; " +
  "connect-src 'self'; manifest-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'";
