/** `source new` writes a draft that loads as it stands, and takes no file away. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { shelfdesk } from '../support/cli.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';

let db: TestDatabase;
let folder: string;
beforeAll(async () => {
  db = await freshDatabase();
  folder = mkdtempSync(join(tmpdir(), 'shelfdesk-new-'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await db.drop();
});

/** A service whose lists are empty. */
async function empty(body: unknown): Promise<AsyncDisposable & { url: string }> {
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(body));
  });
  await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.closeAllConnections();
    await new Promise(closed => server.close(closed));
  };
  return { url: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: close };
}

/** A command in this folder, where no address is set. */
const run = (home: string, args: readonly string[], env: Record<string, string> = {}) =>
  shelfdesk(args, { DATABASE_URL: db.url, ...env }, home).finished;
const homeOf = (name: string) => {
  const home = join(folder, name);
  mkdirSync(home);
  return home;
};

test('without a document the draft has a list, and asks what decides how it is read; a second one is refused', async () => {
  const home = homeOf('small');
  const made = await run(home, ['source', 'new', 'shop']);
  expect([made.code, made.stdout]).toEqual([0, 'sources/shop.ts\n']);
  expect(made.stderr).toContain('Set SHELFDESK_SOURCES=sources in .env');
  const text = readFileSync(join(home, 'sources/shop.ts'), 'utf8');
  for (const question of ['order', 'largest page', 'How many requests', 'tell of a person'])
    expect(text).toMatch(new RegExp(`// \\?.*${question}`));
  await using service = await empty({ data: [] });
  const env = { SHELFDESK_SOURCES: 'sources', SHOP_BASE_URL: service.url, SHOP_KEY: 'a-key' };
  expect((await run(home, ['migrate'], env)).code).toBe(0);
  const planned = await run(home, ['plan', '--json'], env);
  expect([planned.code, planned.stderr]).toEqual([0, '']);
  const again = await run(home, ['source', 'new', 'shop'], env);
  expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('shop.ts is there already')]);
  expect(readFileSync(join(home, 'sources/shop.ts'), 'utf8')).toBe(text);
});

test('an empty folder and an unfinished source are no obstacle; a name that cannot be is', async () => {
  const home = homeOf('unfinished');
  const env = { SHELFDESK_SOURCES: 'mine' };
  expect((await run(home, ['source', 'new', 'shop'], env)).stdout).toBe('mine/shop.ts\n');
  writeFileSync(join(home, 'mine/shop.ts'), 'export const');
  expect((await run(home, ['source', 'new', 'desk'], env)).stdout).toBe('mine/desk.ts\n');
  for (const name of ['Shop', 'order', 'sync', 'a-b', 'helpdesk']) {
    const { code, stderr } = await run(home, ['source', 'new', name], env);
    expect([name, code, stderr]).toEqual([name, 2, expect.stringContaining('error: ')]);
  }
});
