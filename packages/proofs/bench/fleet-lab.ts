/** What the measurements of many accounts start: their help desks, and a process of `start` that serves them. */
import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { DesksCounts, DesksOptions } from './desks.ts';
import { byFirstLine } from './load.ts';

const file = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export interface Desks {
  readonly url: string;
  readonly pid: number;
  counts(): Promise<DesksCounts>;
}

export async function startDesks(options: DesksOptions, stack: AsyncDisposableStack): Promise<Desks> {
  const child = fork(file('./desks.ts'), [JSON.stringify(options)], { execArgv: [] });
  stack.defer(() => void child.kill());
  const [url] = (await once(child, 'message')) as [string];
  const counts = async () => {
    child.send('counts');
    return ((await once(child, 'message')) as [DesksCounts])[0];
  };
  return { url, pid: child.pid!, counts };
}

export async function startWorker(
  folder: string,
  stack: AsyncDisposableStack,
  { accounts, env }: { accounts: { HELPDESK_BASE_URL: string; token: string }[]; env: Record<string, string> },
): Promise<{ pid: number }> {
  const all = accounts.map(({ token, HELPDESK_BASE_URL }) => {
    writeFileSync(join(folder, token), token);
    return [token, { HELPDESK_BASE_URL, HELPDESK_TOKEN: { file: token }, HELPDESK_RESERVE: 0 }];
  });
  const fleetFile = join(folder, 'fleet.json');
  writeFileSync(fleetFile, JSON.stringify({ accounts: Object.fromEntries(all) }));
  const child = spawn(file('../../../src/main.ts'), ['start'], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...byFirstLine, ...env, SHELFDESK_CONFIG: fleetFile },
  });
  const ended = once(child, 'close');
  stack.defer(async () => {
    child.kill('SIGTERM');
    await ended;
  });
  await new Promise<void>((resolve, reject) => {
    let told = '';
    child.stderr.on('data', text => {
      told += text;
      if (told.includes('Running for')) resolve();
    });
    void ended.then(() => reject(new Error(`the worker ended: ${told}`)));
  });
  return { pid: child.pid! };
}
