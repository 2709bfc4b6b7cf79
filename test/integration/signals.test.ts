/** A process ends at the second signal, whatever it waits for. */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { shelfdesk } from '../support/cli.ts';
import { eventually } from '../support/desk.ts';
import { long } from '../support/long.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';

describe('a server that takes connections and never answers', () => {
  let silent: Server;
  let port: number;
  let asked = 0;
  let db: TestDatabase;
  let folder: string;
  beforeAll(async () => {
    db = await freshDatabase();
    folder = await mkdtemp(join(tmpdir(), 'shelfdesk-silent-'));
    silent = createServer(socket => {
      asked++;
      socket.on('error', () => {});
    });
    await new Promise<void>(resolve => silent.listen(0, '127.0.0.1', resolve));
    port = (silent.address() as { port: number }).port;
  });
  afterAll(async () => {
    silent.close();
    await db.drop();
    await rm(folder, { recursive: true });
  });

  const endsAt = async (who: string) => {
    const before = asked;
    const { process, finished } = shelfdesk(
      // Only a process that works for others has a queue.
      [who === 'Redis' ? 'start' : 'sync'],
      {
        DATABASE_URL: who === 'the database' ? `postgres://u:p@127.0.0.1:${port}/db` : db.url,
        ...(who === 'Redis' && { REDIS_URL: `redis://127.0.0.1:${port}` }),
        HELPDESK_BASE_URL: `http://127.0.0.1:${who === 'the source' ? port : 1}/api/v1`,
        HELPDESK_TOKEN: 'token',
      },
      folder,
    );
    await eventually(() => expect(asked).toBeGreaterThan(before));
    // The first signal is heeded at some moment, and every later one is the second.
    await eventually(() => {
      process.kill('SIGTERM');
      expect(process.exitCode ?? process.signalCode).not.toBeNull();
    });
    const { stderr } = await finished;
    expect(stderr).not.toContain('    at ');
  };
  test('the database', () => endsAt('the database'));
  test.for(['Redis', 'the source'])('%s', long, endsAt);
});
