/** The packages that are published: built, packed, installed in an empty folder, and run on the oldest Node and on this one. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { root } from '../support/docker.ts';
import { long, proof } from '../support/long.ts';

const execute = promisify(execFile);
const OLDEST = '22.19.0';
const MB = 1_000_000;

interface Packed {
  filename: string;
  size: number;
  unpackedSize: number;
  version: string;
  files: { path: string; size: number }[];
}

describe('the packages', long, () => {
  let folder: string;
  let worker: Packed;
  let sandbox: Packed;
  let lake: Packed;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'shelfdesk-package-'));
    await npm(root, 'run', 'build');
    [worker, sandbox, lake] = [await pack('shelfdesk'), await pack('sandbox'), await pack('lake')];
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const pack = async (name: string): Promise<Packed> =>
    JSON.parse(await npm(join(root, 'dist', name), 'pack', '--json', '--pack-destination', folder))[0];

  /** A folder with the tarball installed in it, and what runs a program of it on the Node of `bin`. */
  async function installed(packed: Packed, bin = dirname(process.execPath)) {
    const at = mkdtempSync(join(folder, 'empty-'));
    writeFileSync(join(at, 'package.json'), '{ "private": true, "type": "module" }');
    await npm(at, 'install', join(folder, packed.filename));
    const run = async (...command: string[]): Promise<string> =>
      (await execute('npx', ['--no-install', ...command], { cwd: at, env: envOf(bin) })).stdout;
    const bytes = Number((await execute('du', ['-sk', at])).stdout.split('\t')[0]) * 1024;
    return { at, run, bytes };
  }

  test('have one version, and no sources', () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    expect([worker.version, sandbox.version, lake.version]).toEqual([version, version, version]);
    const sources = [...worker.files, ...sandbox.files, ...lake.files].filter(({ path }) => /(?<!\.d)\.ts$/.test(path));
    // The declarations of the examples are for a folder of one's own.
    expect(sources.filter(({ path }) => !/^examples\/([a-z-]+)\/\1\.ts$/.test(path))).toEqual([]);
    // Nor what this clone has written about a warehouse of its own.
    expect(worker.files.map(({ path }) => path)).not.toContain('dbt/models/sources.yml');
    expect(sandbox.files.map(({ path }) => path)).toContain('src/server.d.ts');
  });

  test('have a README of their own, whose links lead to files of the package', () => {
    const text = readFileSync(join(root, 'dist/shelfdesk/README.md'), 'utf8');
    expect(text).toContain('This is the package.');
    const files = worker.files.map(({ path }) => path);
    const links = [...text.matchAll(/\]\(([^)]+)\)/g)].map(([, to]) => to!);
    expect(links.filter(to => !files.some(path => path.startsWith(to)))).toEqual([]);
  });

  test('say whose code is in them', () => {
    const text = readFileSync(join(root, 'dist/shelfdesk/src/LICENSES'), 'utf8');
    for (const [, license] of text.matchAll(/^\S+ \d+\.\d+\.\d+\n\n(.*)/gm))
      expect(license).toMatch(/licen[sc]e|copyright/i);
    for (const name of ['bullmq', 'pg', 'pg-protocol', 'undici', 'zod'])
      expect(text).toMatch(new RegExp(`^${name} \\d`, 'm'));
  });

  test('are small', () => {
    const carried = worker.files.filter(({ path }) => path.startsWith('node_modules/'));
    expect(carried.every(({ path }) => path.startsWith('node_modules/@shelfdesk/sandbox/'))).toBe(true);
    const own = worker.unpackedSize - carried.reduce((sum, { size }) => sum + size, 0);
    expect(own).toBeLessThan(7 * MB);
    expect(worker.size).toBeLessThan(2 * MB);
  });

  test(`the worker runs its demo and answers, on ${OLDEST}`, async () => runsOn(await oldestNode()));
  test('the worker runs its demo and answers, on this Node', proof, () => runsOn(dirname(process.execPath)));

  test('a source in a folder of its own is checked by the compiler, with the types of the package', async () => {
    const at = mkdtempSync(join(folder, 'typed-'));
    const compile = async (file: string) => {
      const tsc = ['--noEmit', '--strict', '--target', 'es2024', '--module', 'nodenext', '--skipLibCheck'];
      const { stdout } = await execute(join(root, 'node_modules/.bin/tsc'), [...tsc, file], { cwd: at }).catch(
        one => one,
      );
      return stdout as string;
    };
    const checks = (text: string) => {
      writeFileSync(join(at, 'crm.ts'), text);
      return compile('crm.ts');
    };
    const crm = crmOfGuide();
    expect(await checks(crm)).toContain("Cannot find module 'shelfdesk/source'");
    writeFileSync(join(at, 'package.json'), '{ "private": true, "type": "module" }');
    await npm(at, 'install', '--omit=optional', join(folder, worker.filename));
    expect(await checks(crm)).toBe('');
    expect(await checks(crm.replace(".personal('name')", ''))).toContain('Unsaid<string');
    expect(await checks(crm.replace("updatedAt: 'updated_at'", "updatedAt: 'name'"))).toContain('crm.ts(');
    // So are the drafts that it writes.
    const document = join(root, 'test/support/openapi/shop.json');
    for (const draft of [['small'], ['shop', '--openapi', document]]) {
      await execute('npx', ['--no-install', 'shelfdesk', 'source', 'new', ...draft], {
        cwd: at,
        env: envOf(dirname(process.execPath)),
      });
      expect(await compile(`sources/${draft[0]}.ts`)).toBe('');
    }
    const tried = execute('npx', ['--no-install', 'shelfdesk', 'source', 'try', 'small'], {
      cwd: at,
      env: {
        ...envOf(dirname(process.execPath)),
        SHELFDESK_SOURCES: 'sources',
        SMALL_BASE_URL: 'http://127.0.0.1:9',
        SMALL_KEY: 'a-key',
      },
    });
    await expect(tried).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining('nobody listens at 127.0.0.1:9'),
    });
  });

  async function runsOn(bin: string): Promise<void> {
    const { at, run, bytes } = await installed(worker, bin);
    expect(bytes).toBeLessThan(170 * MB);
    mkdirSync(join(at, 'sources'));
    writeFileSync(join(at, 'sources/crm.ts'), crmOfGuide());
    const withCrm = { cwd: at, env: { ...envOf(bin), SHELFDESK_SOURCES: 'sources' } };
    await expect(execute('npx', ['--no-install', 'shelfdesk', 'sync', 'contacts'], withCrm)).rejects.toMatchObject({
      ...{ code: 2, stderr: expect.stringContaining('CRM_BASE_URL and CRM_KEY') },
    });
    expect(await run('shelfdesk', 'demo')).toContain('How far is the mirror complete?');
    const counted = await run('shelfdesk', 'sql', '--csv', 'select count(*) as tickets from helpdesk.tickets');
    expect(counted.trim().split('\n')).toEqual(['tickets', '2000']);
    expect(await run('shelfdesk', 'query', 'run', 'backlog-by-inbox')).toContain('Support');
    expect(await run('shelfdesk', 'status')).toContain('tickets');
    // The extensions of DuckDB are no packages of npm.
    const env = { ...envOf(bin), LAKE_EXTENSIONS: '/nowhere' };
    const on = () => execute('npx', ['--no-install', 'shelfdesk', 'lake', 'on'], { cwd: at, env });
    await expect(on()).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining('npm install shelfdesk-lake'),
    });
    await npm(at, 'install', join(folder, lake.filename));
    const loaded = expect.stringContaining('DuckDB cannot load its extension');
    await expect(on()).rejects.toMatchObject({ code: 1, stderr: loaded });
  }

  async function oldestNode(): Promise<string> {
    const at = mkdtempSync(join(folder, 'node-'));
    writeFileSync(join(at, 'package.json'), '{ "private": true }');
    const name = `node-${process.platform}-${process.arch}`;
    await npm(at, 'install', `${name}@${OLDEST}`);
    return join(at, 'node_modules', name, 'bin');
  }

  test('the sandbox is small where it is installed, serves, and has types', async () => {
    const { at, run, bytes } = await installed(sandbox);
    expect(bytes).toBeLessThan(50 * MB);
    expect(await run('shelfdesk-sandbox', '--help')).toContain('--tickets');
    const use = `import { startSandbox, type Sandbox } from '@shelfdesk/sandbox';
      const sandbox: Sandbox = await startSandbox({ tickets: 3 });
      const answer: Response = await fetch(\`\${sandbox.url}/tickets\`, { headers: { authorization: \`Bearer \${sandbox.token}\` } });
      console.log(answer.status);
      await sandbox.close();`;
    writeFileSync(join(at, 'use.ts'), use);
    const tsc = ['--noEmit', '--strict', '--target', 'es2024', '--module', 'nodenext', '--types', 'node'];
    const types = ['--typeRoots', join(root, 'node_modules/@types')];
    await execute(join(root, 'node_modules/.bin/tsc'), [...tsc, ...types, 'use.ts'], { cwd: at });
    expect((await execute(process.execPath, ['use.ts'], { cwd: at })).stdout.trim()).toBe('200');
  });
});

function crmOfGuide(): string {
  const guide = readFileSync(join(root, 'docs/how-to/add-a-source.md'), 'utf8');
  return /^```ts file=sources\/crm.ts\n([\s\S]*?)^```$/m.exec(guide)![1]!;
}

/** As a user's shell has it: without what `npm test` adds, on the Node in `bin`. */
const envOf = (bin: string) => ({
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_(package|lifecycle|command)/.test(name))),
  PATH: bin + delimiter + process.env.PATH,
  CI: '',
  NO_COLOR: '1',
});

async function npm(cwd: string, ...args: string[]): Promise<string> {
  const env = envOf(dirname(process.execPath));
  return (await execute('npm', args, { cwd, env, maxBuffer: 64 * MB })).stdout;
}
