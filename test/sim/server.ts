/**
 * A PostgreSQL of its own for each simulation: which dead rows are cleared away while others come hangs on the oldest transaction
 * of the whole server, and with it the order of rows of one rank, and the story that a seed tells. Nothing in it needs to survive.
 */
import { chmodSync, mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { joinEmbedded } from '../../src/embedded/postgres.ts';
import { migrate } from '../../src/warehouse/migrate.ts';
import { removeServer } from '../support/global.ts';

export interface Server extends AsyncDisposable {
  /** Of its migrated database. */
  readonly url: string;
}

const fast = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  autovacuum: 'off',
  shared_buffers: '64MB',
  track_counts: 'off',
  update_process_title: 'off',
  checkpoint_timeout: '1d',
};

export async function startServer(): Promise<Server> {
  await using stack = new AsyncDisposableStack();
  // By this name the next run of the tests finds it after a kill (support/global.ts).
  const folder = mkdtempSync(join(tmpdir(), `shelfdesk-tests-${process.pid}-`));
  chmodSync(folder, 0o755); // Root's PostgreSQL runs as another user, who has to get in here.
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const home = join(folder, 'postgres');
  stack.defer(() => removeServer(home));
  const { url, release } = await joinEmbedded({ folder: home, settings: fast });
  stack.defer(release);
  await migrate(url);
  const opened = stack.move();
  return { url, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}
