/** What the measurements share: a PostgreSQL of their own, in a folder that goes with them. */
import pg from 'pg';
import { startOwnServer } from '../../../test/support/own-server.ts';

/** With all tables, or with nothing in it. */
export async function openDatabase({ empty = false } = {}): Promise<{ url: string; pool: pg.Pool } & AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const { url } = stack.use(await startOwnServer({ empty }));
  const pool = new pg.Pool({ connectionString: url });
  stack.defer(() => pool.end());
  const opened = stack.move();
  return { url, pool, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

/** Settings of the command line for these limits, where the sandbox keeps to the same ones. */
export const limitsOf = (limits: { credits: number; requestsPerSecond: number }, reserve: number) => ({
  HELPDESK_CREDITS: String(limits.credits),
  HELPDESK_REQUESTS_PER_SECOND: String(limits.requestsPerSecond),
  HELPDESK_RESERVE: String(reserve),
});

export const secondsOf = (ms: number): number => Number((ms / 1000).toFixed(2));
