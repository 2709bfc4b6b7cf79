/** A PostgreSQL for the simulation, with a migrated database for each worker: nothing in it needs to survive. */
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { joinEmbedded } from '../../src/embedded/postgres.ts';
import { migrate } from '../../src/warehouse/migrate.ts';
import { removeServer } from '../support/global.ts';

export interface Server extends AsyncDisposable {
  /** One migrated database each. */
  readonly urls: readonly string[];
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

export async function startServer(databases: number): Promise<Server> {
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), `shelfdesk-sim-${process.pid}-`));
  chmodSync(folder, 0o755); // Root's PostgreSQL runs as another user, who has to get in here.
  const home = join(folder, 'postgres');
  stack.defer(() => removeServer(home));
  const embedded = await joinEmbedded({ folder: home, settings: fast });
  stack.defer(() => embedded.release());
  const urls: string[] = [];
  for (let n = 0; n < databases; n++) {
    const name = `sim_${randomBytes(4).toString('hex')}`;
    const admin = new pg.Client({ connectionString: embedded.url });
    await admin.connect();
    await admin.query(`create database ${name}${n > 0 ? ` template ${new URL(urls[0]!).pathname.slice(1)}` : ''}`);
    await admin.end();
    const url = new URL(embedded.url);
    url.pathname = name;
    if (n === 0) await migrate(url.href);
    urls.push(url.href);
  }
  const opened = stack.move();
  return { urls, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}
