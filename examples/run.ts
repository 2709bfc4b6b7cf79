/**
 * A real service from nothing: `npm run examples -- redmine [SECONDS] [FOLDER]`, as root on Debian 12. Starts it, mirrors it while a script
 * works on it and the worker is killed once, and compares the mirror with the service's own database. The exit code is 1 if they differ.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as after } from 'node:timers/promises';
import { parseEnv } from 'node:util';
import pg from 'pg';
import type { Source } from '../src/sources/source.ts';

const [name = '', seconds = '120', folder = mkdtempSync(join(tmpdir(), 'shelfdesk-example-'))] = process.argv.slice(2);
const here = join(import.meta.dirname, name);
if (name === '' || !existsSync(join(here, 'start.sh'))) {
  console.error('Name an example: redmine or request-tracker.');
  process.exit(2);
}
const began = Date.now();
const say = (what: string) => console.log(`\n[${Math.round((Date.now() - began) / 1000)} s] ${what}`);

const running = new Set<ChildProcess>();
function start(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
  quiet = false,
): ChildProcess {
  const child = spawn(command, args, {
    cwd: folder,
    env,
    stdio: ['ignore', quiet ? 'ignore' : 'inherit', quiet ? 'ignore' : 'inherit'],
  });
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}
const ended = (child: ChildProcess) => new Promise<number>(resolve => child.once('exit', code => resolve(code ?? 1)));
async function stopAll() {
  const left = [...running].map(child => [child, ended(child)] as const);
  for (const [child] of left) child.kill();
  await Promise.all(left.map(([, end]) => end));
}
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  process.once(signal, () => void stopAll().then(() => process.exit(code)));

try {
  say(`${name} starts in ${folder}`);
  rmSync(join(folder, 'env'), { force: true });
  const service = start('sh', [join(here, 'start.sh'), folder]);
  while (!existsSync(join(folder, 'env'))) {
    if (service.exitCode !== null || service.signalCode !== null) throw new Error(`${name} did not start`);
    await after(500);
  }
  await after(500);
  const told = parseEnv(readFileSync(join(folder, 'env'), 'utf8'));
  const [, database] = Object.entries(told).find(([key]) => key.endsWith('_DATABASE'))!;
  const db = new pg.Client({ connectionString: database });
  await db.connect();
  await db.query('create database warehouse').catch(error => {
    if (error.code !== '42P04') throw error;
  });
  await db.end();

  const DATABASE_URL = new URL('/warehouse', database).href;
  const env = { ...process.env, ...told, DATABASE_URL, SHELFDESK_SOURCES: here };
  const node = (...args: string[]) => start(process.execPath, args, env);
  const main = join(import.meta.dirname, '../src/main.ts');
  const shelfdesk = async (...args: string[]) => {
    console.log(`$ npx shelfdesk ${args.join(' ')}`);
    return ended(node(main, ...args));
  };
  const work = (length: string) => ended(node(join(here, `${name}.work.ts`), length));
  const compare = () => ended(node(join(here, `${name}.compare.ts`)));

  say('people work on it; then the first load');
  if ((await work(seconds)) !== 0) throw new Error('the work has failed');
  for (const command of ['migrate', 'plan', 'sync'])
    if ((await shelfdesk(command)) !== 0) throw new Error(`${command} has failed`);

  say('people go on, while a worker mirrors it; after half of the time the worker is killed, and another one starts');
  const working = work(seconds);
  const killed = start(process.execPath, [main, 'start'], env, true);
  await after(Number(seconds) * 500);
  killed.kill('SIGKILL');
  const worker = start(process.execPath, [main, 'start'], env, true);
  if ((await working) !== 0) throw new Error('the work has failed');
  worker.kill();
  await ended(worker);

  say('what the lists of changes tell');
  // As long as a change may need to appear in a list.
  await after(11_000);
  await shelfdesk('sync');
  await compare();

  say('what no list of changes tells: deletions, and silent edits');
  await shelfdesk('sweep');
  await compare();
  const [source] = Object.values((await import(join(here, `${name}.ts`))) as Record<string, Source>);
  for (const stream of source!.streams.filter(({ kind }) => kind === 'detail'))
    await shelfdesk('backfill', stream.key, '--again');
  process.exitCode = await compare();
  await shelfdesk('rejects', 'drift');
  await shelfdesk('status');
  say(process.exitCode === 0 ? 'the mirror is exact' : 'the mirror is not exact');
} finally {
  await stopAll();
}
