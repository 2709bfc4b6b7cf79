/** What the measurements share: a PostgreSQL of their own, in a folder that goes with them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { joinEmbedded } from '../src/embedded/postgres.ts';
import { migrate } from '../src/warehouse/migrate.ts';
import { removeServer } from '../test/support/global.ts';

/** With all tables, or with nothing in it. */
export async function openDatabase({ empty = false } = {}): Promise<{ url: string; pool: pg.Pool } & AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-bench-'));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  const home = join(folder, 'postgres');
  // Root's server keeps its data elsewhere, where its own user can enter.
  stack.defer(() => removeServer(home));
  const { url, release } = await joinEmbedded({ folder: home });
  stack.defer(release);
  if (!empty) await migrate(url);
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
