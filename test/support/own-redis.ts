/** A Redis for one purpose, where others beside it would disturb. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../src/embedded/cluster.ts';

export interface OwnRedis extends AsyncDisposable {
  readonly port: number;
}

/** `options` as in redis.conf. `tls`: it listens for TLS alone. */
export async function startOwnRedis(
  options: Readonly<Record<string, string>> = {},
  { tls = false } = {},
): Promise<OwnRedis> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'shelfdesk-redis-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const port = await freePort();
  const at: Record<string, string> = tls ? { port: '0', 'tls-port': String(port) } : { port: String(port) };
  const all = { ...at, bind: '127.0.0.1', dir: folder, save: '', ...options };
  const args = Object.entries(all).flatMap(([key, value]) => [`--${key}`, value]);
  const child = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const ended = new Promise<void>(resolve => child.once('close', () => resolve()));
  stack.defer(() => {
    child.kill('SIGKILL');
    return ended;
  });
  let said = '';
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', chunk => {
      said += chunk;
      if (said.includes('Ready to accept')) resolve();
    });
    void ended.then(() => reject(new Error(`Redis ended: ${said}`)));
  });
  const opened = stack.move();
  return { port, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}
