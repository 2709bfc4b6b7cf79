/** PgBouncer in front of a database of the tests. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { describe } from 'vitest';
import { freePort } from '../../src/embedded/cluster.ts';

declare module 'vitest' {
  interface TaskMeta {
    /** Not run, because there is no PgBouncer. */
    lacksPgBouncer?: boolean;
  }
}

const program = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin']
  .map(folder => join(folder, 'pgbouncer'))
  .find(existsSync);

export function describeWithPgBouncer(name: string, register: () => void): void {
  describe(name, program ? {} : { skip: true, meta: { lacksPgBouncer: true } }, register);
}

export interface PgBouncer extends AsyncDisposable {
  /** Of the same database, through it. */
  readonly url: string;
}

/** `settings` as in pgbouncer.ini. It asks nobody for a password. */
export async function startPgBouncer(url: string, settings: Readonly<Record<string, string>>): Promise<PgBouncer> {
  await using stack = new AsyncDisposableStack();
  const { hostname, port, username, password, pathname } = new URL(url);
  const folder = await mkdtemp(join(tmpdir(), 'shelfdesk-pgbouncer-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  await chmod(folder, 0o755);
  const own = await freePort();
  const all = {
    listen_addr: '127.0.0.1',
    listen_port: String(own),
    unix_socket_dir: '',
    auth_type: 'any',
    ...settings,
  };
  const file = join(folder, 'pgbouncer.ini');
  const secret = password === '' ? '' : ` password='${decodeURIComponent(password)}'`;
  await writeFile(
    file,
    [
      '[databases]',
      `* = host=${hostname} port=${port} user='${decodeURIComponent(username)}'${secret}`,
      '[pgbouncer]',
      ...Object.entries(all).map(([key, value]) => `${key} = ${value}`),
      '',
    ].join('\n'),
  );
  // It refuses to run as root.
  const asUser = process.geteuid?.() === 0 ? ['-u', 'nobody'] : [];
  const child = spawn(program!, [...asUser, file], { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = new Promise(resolve => child.once('close', resolve));
  stack.defer(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  let said = '';
  await new Promise<void>((resolve, reject) => {
    child.stderr.on('data', chunk => {
      said += chunk;
      if (said.includes('process up')) resolve();
    });
    child.once('close', () => reject(new Error(`PgBouncer ended: ${said}`)));
  });
  const opened = stack.move();
  return {
    url: `postgres://shelfdesk@127.0.0.1:${own}${pathname}`,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}
