/** COPY, the fastest way of rows out of a table and into it. node-postgres hands its messages on and has no streams of its own. */
import { once } from 'node:events';
import { Readable } from 'node:stream';
import type pg from 'pg';
import { streamOf } from '../pool.ts';

/** The connection of node-postgres as a COPY statement uses it. Its types lack most of this. */
interface Connection {
  query(text: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(why: string): void;
}

const submitted = (client: pg.Client, statement: string, handlers: Record<string, unknown>): void => {
  client.query({
    submit: (connection: unknown) => (connection as Connection).query(statement),
    handleReadyForQuery: () => {},
    ...handlers,
  } as pg.Submittable);
};

/** The rows of `copy … to stdout`, each one chunk. The connection is paused while nobody reads them. */
export function copyOut(client: pg.Client, statement: string): Readable {
  const rows = new Readable({ objectMode: true, highWaterMark: 64, read: () => void streamOf(client).resume() });
  submitted(client, statement, {
    // The bytes are valid only within this call.
    handleCopyData: ({ chunk }: { chunk: Buffer }) => rows.push(Buffer.from(chunk)) || streamOf(client).pause(),
    // Nobody reads on after the last row: a connection that is paused then would stay so for every later statement.
    handleCommandComplete: () => rows.push(null) || streamOf(client).resume(),
    handleError: (error: Error) => rows.destroy(error),
  });
  return rows;
}

/** Feeds `copy … from stdin`. Returns the number of rows. Rejects with the error of `chunks`, or with that of the server. */
export async function copyIn(client: pg.Client, statement: string, chunks: AsyncIterable<Buffer>): Promise<number> {
  const { promise: ended, resolve, reject } = Promise.withResolvers<number>();
  const stopped = new AbortController();
  let broken: unknown;
  let rows = 0;
  const pump = async (connection: Connection): Promise<void> => {
    const socket = streamOf(client);
    try {
      for await (const chunk of chunks) {
        if (stopped.signal.aborted) return;
        connection.sendCopyFromChunk(chunk);
        if (socket.writableNeedDrain) await once(socket, 'drain', { signal: stopped.signal });
      }
      connection.endCopyFrom();
    } catch (error) {
      if (stopped.signal.aborted) return;
      broken = error;
      connection.sendCopyFail('the rows cannot be read');
    }
  };
  submitted(client, statement, {
    handleCopyInResponse: (connection: Connection) => void pump(connection),
    handleCommandComplete: ({ text }: { text: string }) => {
      rows = Number(text.split(' ')[1]);
    },
    handleReadyForQuery: () => resolve(rows),
    handleError: (error: Error) => {
      stopped.abort();
      reject(broken ?? error);
    },
  });
  return await ended;
}
