/** Where the demo counts instead of real settings, and which state file is that of a running demo. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { demoInstead, isDemo, readFleet } from '../../src/app/config.ts';
import { announceDemo, demoPlace } from '../../src/embedded/demo-place.ts';

async function announced(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'shelfdesk-demo-'));
  const server = createServer((asked, reply) => {
    reply.writeHead(asked.headers.authorization === 'Bearer of-this-demo' ? 200 : 401).end();
  });
  await new Promise<void>(ready => server.listen(0, '127.0.0.1', ready));
  onTestFinished(async () => {
    server.close();
    await rm(folder, { recursive: true });
  });
  await announce(folder, server.address() as AddressInfo, 'of-this-demo');
  return folder;
}

async function announce(folder: string, { port }: Pick<AddressInfo, 'port'>, token: string): Promise<void> {
  const url = `http://127.0.0.1:${port}/api/v1`;
  const settings = { HELPDESK_BASE_URL: url, HELPDESK_TOKEN: token };
  await announceDemo(demoPlace(folder), { pid: process.pid, url, token, settings });
}

test('the demo counts where nothing real is set up, and else where it is named', async () => {
  const folder = await announced();
  const counts = async (environment: Record<string, string>, named?: string) =>
    (await demoInstead(named, folder, environment)) !== undefined;
  expect(await counts({ LOG_LEVEL: 'info' })).toBe(true);
  for (const name of ['DATABASE_URL', 'HELPDESK_BASE_URL', 'BOOKS_BASE_URL', 'SHELFDESK_CONFIG'])
    expect([await counts({ [name]: 'x' }), await counts({ [name]: 'x' }, 'demo')], name).toEqual([false, true]);
  // An older server's, which ours cannot ask.
  await mkdir(join(folder, '.shelfdesk/postgres/data'), { recursive: true });
  await writeFile(join(folder, '.shelfdesk/postgres/data/PG_VERSION'), '17');
  expect(await counts({})).toBe(false);
  await rm(join(folder, '.shelfdesk/postgres'), { recursive: true });
  await writeFile(join(folder, '.env'), '');
  expect(await counts({})).toBe(false);
  await rm(join(folder, '.shelfdesk'), { recursive: true });
  expect(await counts({}, 'demo')).toBe(false);
});

test('the settings of a demo are its own: no database, queue or source of the environment', async () => {
  const folder = await announced();
  const environment = { DATABASE_URL: 'postgres://real', REDIS_URL: 'redis://real', FIELD_RULES: 'messages.body' };
  const demo = await demoInstead('demo', folder, environment);
  const fleet = readFleet(folder, environment, demo);
  expect(isDemo(fleet)).toBe(true);
  expect(fleet).toMatchObject({ databaseUrl: undefined, redisUrl: undefined });
  expect(fleet.accounts).toMatchObject([{ account: 'demo', databaseUrl: undefined, fieldRules: undefined }]);
  expect(fleet.accounts[0]!.helpdesk).toMatchObject({ token: 'of-this-demo' });
});

test('another server on the port of a dead demo does not count as the demo', async () => {
  const folder = await announced();
  const running = (await demoInstead(undefined, folder, {}))!.running!;
  await announce(folder, { port: Number(new URL(running.url).port) }, 'of-another-demo');
  const demo = await demoInstead(undefined, folder, {});
  expect(demo).toMatchObject({ running: undefined });
  expect(readFleet(folder, {}, demo).accounts[0]!.helpdesk).toBeUndefined();
  await writeFile(join(folder, '.shelfdesk/demo/state.json'), '{"pid": 1');
  expect(await demoInstead(undefined, folder, {})).toMatchObject({ running: undefined });
});
