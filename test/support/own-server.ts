/** A PostgreSQL for one purpose, where others beside it would disturb: in a folder that goes with it. */
import { chmodSync, mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { migrateWarehouse } from '../../src/app/migrate.ts';
import { joinEmbedded } from '../../src/embedded/postgres.ts';
import { removeServer } from './global.ts';

export interface OwnServer extends AsyncDisposable {
  /** Of its one database. */
  readonly url: string;
}

/** With all tables, or with nothing in it; as it comes, but for these settings. */
export async function startOwnServer({
  empty = false,
  settings = {},
}: {
  empty?: boolean;
  settings?: Readonly<Record<string, string>>;
} = {}): Promise<OwnServer> {
  await using stack = new AsyncDisposableStack();
  // By this name the next run of the tests finds it after a kill (global.ts).
  const folder = mkdtempSync(join(tmpdir(), `shelfdesk-tests-${process.pid}-`));
  chmodSync(folder, 0o755); // Root's PostgreSQL runs as another user, who has to get in here.
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const home = join(folder, 'postgres');
  stack.defer(() => removeServer(home));
  const { url, release } = await joinEmbedded({ folder: home, settings });
  stack.defer(release);
  if (!empty) await migrateWarehouse(url);
  const opened = stack.move();
  return { url, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}
