/** The program between other programs: behind a pipe whose reader has gone, and below `npx`, which is told to end. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { shelfdesk } from '../support/cli.ts';
import { long } from '../support/long.ts';
import { freshDatabase } from '../support/postgres.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** The reader closes its end before the program has written anything. */
async function unread(args: readonly string[], stream: 'stdout' | 'stderr', env: Record<string, string> = {}) {
  const { process: child, finished } = shelfdesk(args, env, '/');
  child[stream]!.destroy();
  const { code, stdout, stderr } = await finished;
  return { code, said: stdout + stderr };
}

describe('a reader that has gone', () => {
  test('of --help', async () => {
    expect(await unread(['--help'], 'stdout')).toEqual({ code: 0, said: '' });
  });

  test('errors that nobody reads keep their exit code', async () => {
    expect(await unread(['--no-such-option'], 'stderr')).toEqual({ code: 2, said: '' });
  });

  test('does not mind a long answer of the warehouse', long, async () => {
    await using database = await freshDatabase();
    const many = "select n, repeat('x', 60) as text from generate_series(1, 3000) as n";
    const { url: DATABASE_URL } = database;
    expect(await unread(['sql', many], 'stdout', { DATABASE_URL })).toEqual({ code: 0, said: '3,000 rows\n' });
    // One that reads a part of it.
    const head = spawn('bash', ['-c', `set -o pipefail; "$0" src/main.ts sql "$1" | head -3`, process.execPath, many], {
      cwd: root,
      env: { ...process.env, DATABASE_URL },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let said = '';
    for (const stream of [head.stdout, head.stderr]) stream.on('data', chunk => (said += chunk));
    expect(await once(head, 'close')).toEqual([0, null]);
    expect(said.split('\n')).toHaveLength(5);
    // The number of rows comes on stderr, before or after.
    expect(said).toMatch(/^ *n {2}text/m);
  });
});

describe('a machine that refuses', () => {
  test('to write the output: a sentence, and exit code 1', async () => {
    const full = spawn('bash', ['-c', '"$0" src/main.ts query list --json > /dev/full', process.execPath], {
      cwd: root,
    });
    let said = '';
    full.stderr.on('data', chunk => (said += chunk));
    expect(await once(full, 'close')).toEqual([1, null]);
    expect(said).toBe(
      'error: the output cannot be written: the disk is full (ENOSPC)\nFree some space, then run the same command again.\n',
    );
  });

  test('to name a folder that was deleted', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'deleted-'));
    const script = 'rmdir "$PWD" && "$0" "$1" status';
    const gone = spawn('bash', ['-c', script, process.execPath, join(root, 'src/main.ts')], { cwd: folder });
    let said = '';
    gone.stderr.on('data', chunk => (said += chunk));
    expect(await once(gone, 'close')).toEqual([1, null]);
    expect(said).toMatch(/^error: the folder in which the command runs was deleted \(ENOENT\)\nChange .*\n$/);
  });
});

test('SIGTERM to npx ends the program below its shell', async ({ signal }) => {
  // A group of their own, so that whatever is left of them can be ended.
  const npx = spawn('npx', ['--no-install', 'shelfdesk', 'sandbox', '--port', '0', '--tickets', '1', '--json'], {
    cwd: root,
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  try {
    const [first] = await once(npx.stdout, 'data', { signal });
    expect(String(first)).toContain('http://127.0.0.1:');
    npx.kill('SIGTERM');
    // The program has the other end of this pipe, whoever of its parents is there.
    await once(npx.stdout.resume(), 'end', { signal });
  } finally {
    try {
      process.kill(-npx.pid!, 'SIGKILL');
    } catch {
      // None is left.
    }
  }
});
