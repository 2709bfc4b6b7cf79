/**
 * Every shell block of the README and of docs/, run line by line as people would, in a folder that looks like a checkout:
 * beside a sandbox, on a database of its own, as the role that install.md recommends. What serves until somebody ends it is
 * ended as soon as it says that it serves. A block that has commands of Shelfdesk alone runs in this process, and a line that has run is
 * not run again; bash reads the others.
 *
 * Those of docs/ run where CI is set, and blocks with Docker where an engine answers: in a project of their own, so that a
 * Shelfdesk of this machine keeps its containers and its data. test/unit/docs.test.ts looks up the scripts of `npm`.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { findExtensions } from '../../packages/lake/test/support/extensions.ts';
import { startSandbox } from '../../packages/sandbox/src/server.ts';
import { migrateWarehouse } from '../../src/app/migrate.ts';
import { settingsFor } from '../support/cli.ts';
import { composeApart } from '../support/compose.ts';
import { retryOutages, root } from '../support/docker.ts';
import { here } from '../support/here.ts';
import { long } from '../support/long.ts';
import { configFor, syncOnce } from '../support/mirror.ts';
import { pgTool, pgToolsAreThere } from '../support/pg-tools.ts';

const inDocs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).map(name => `docs/${name}`);
// The guides of a source are run by the conformance suite, on a copy of the program that has the source.
const apart = ['add-a-source', 'test-a-source', 'keep-less'].map(name => `docs/how-to/${name}.md`);
const others = ['README.md', ...inDocs].filter(path => path.endsWith('.md') && !apart.includes(path));
// The guide that takes fields out of the warehouse is last: the others compare records with the source.
const documents = [...others, 'docs/how-to/keep-less.md'];
const blocks = documents
  .flatMap(path =>
    [...readFileSync(join(root, path), 'utf8').matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, text], n) => ({
      name: `${path}, block ${n + 1}: ${text!.split('\n')[0]!.replace(/ +#.*/, '')}`,
      text: text!,
    })),
  )
  .filter(({ text }) => commandsIn(text)?.length !== 0);

/** What a command needs that this machine may lack. */
const needs = {
  docker: { lacks: { lacksDocker: !inject('docker') }, there: inject('docker') },
  pgTools: {
    lacks: { lacksPgTools: !pgToolsAreThere() && !inject('docker') },
    there: pgToolsAreThere() || inject('docker'),
  },
  lake: { lacks: { lacksLake: true }, there: process.env.CI ? await findExtensions() : true },
} as const;

const needOf = (text: string) =>
  /\bdocker\b/.test(text)
    ? needs.docker
    : /\b(pg_dump|pg_restore|psql)\b/.test(text)
      ? needs.pgTools
      : /\bshelfdesk lake\b/.test(text)
        ? needs.lake
        : undefined;

/** The words of each command of a block that has nothing else than commands of Shelfdesk, and `npm`. */
function commandsIn(text: string): string[][] | undefined {
  const lines = text
    .split('\n')
    .map(line => line.replace(/(^| +)#.*/, ''))
    .filter(line => line !== '' && !line.startsWith('npm '));
  // Files of `db` are those of the folder in which a process runs.
  const words = lines.map(line => /^npx shelfdesk((?! db )(?: (?:"[^"$`]*"|[\w./:=-]+))+)$/.exec(line)?.[1]);
  return words.some(one => one === undefined)
    ? undefined
    : words.map(one => one!.match(/"[^"]*"|\S+/g)!.map(word => word.replaceAll('"', '')));
}

const proven = new Set<string>();

async function runHere(words: readonly string[], env: Record<string, string>): Promise<void> {
  const line = [...words, env.FIELD_RULES].join(' ');
  if (proven.has(line)) return;
  const serves = ['start', 'web'].includes(words[0]!);
  const running = here(words[0] === 'web' ? [...words, '--port', '0'] : words, env, folder);
  if (serves) await running.says(/is running|https?:\/\//);
  expect(await (serves ? running.interrupt() : running.finished), line).toMatchObject({ code: 0 });
  proven.add(line);
}

/** What bash finds under these names. */
const stubs = {
  npx: '#!/bin/sh\n[ "$1" = shelfdesk ] || exit 127\nshift\nexec node src/main.ts "$@"\n',
  npm: '#!/bin/sh\n[ "$1" = ci ]\n',
};

/** Runs in the folder in which it is called. */
const script = (tool: readonly string[]) => `#!/bin/sh\nexec ${tool.join(' ')} "$@"\n`;

const run = promisify(execFile);
const opened = new AsyncDisposableStack();
const project = `shelfdesk-blocks-${randomBytes(4).toString('hex')}`;
let folder: string;
let environment: Record<string, string>;
let placeholders: [string, string][];

beforeAll(async () => {
  const url = await documentedDatabase();
  await migrateWarehouse(url);
  const sandbox = await startSandbox({ credits: 1e9, requestsPerSecond: 1e6, tickets: 12, adminPort: 0 });
  opened.defer(() => sandbox.close());
  const { run: first } = await syncOnce(configFor(url, sandbox));
  const rows = await ask(url, 'select number from helpdesk.tickets limit 1');
  placeholders = [
    ['http://127.0.0.1:4011', sandbox.adminUrl!],
    ['shelfdesk-trial', `${project}-trial`],
    ['why 4711', `why ${rows[0]!.number}`],
    ['--ticket 4711', `--ticket ${rows[0]!.number}`],
    ['runs show 1', `runs show ${first}`],
  ];
  folder = mkdtempSync(join(tmpdir(), 'shelfdesk-blocks-'));
  opened.defer(() => rmSync(folder, { recursive: true, force: true }));
  for (const name of readdirSync(root))
    if (!['.git', '.env', '.shelfdesk'].includes(name)) symlinkSync(join(root, name), join(folder, name));
  mkdirSync(join(folder, '.bin'));
  const tools = pgToolsAreThere()
    ? []
    : (['pg_dump', 'pg_restore', 'psql'] as const).map((name): [string, string] => [
        name,
        script(pgTool(name, '"$PWD"') ?? ['false']),
      ]);
  for (const [name, text] of [...Object.entries(stubs), ...tools]) {
    writeFileSync(join(folder, '.bin', name), text);
    chmodSync(join(folder, '.bin', name), 0o755);
  }
  environment = {
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith('DOCKER_'))),
    ...composeApart(join(folder, '.bin'), project),
    ...settingsFor(url, sandbox),
    PATH: `${join(folder, '.bin')}:${process.env.PATH}`,
    HOME: folder,
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? '',
    LANG: 'C.UTF-8',
    LAKE_EXTENSIONS: process.env.LAKE_EXTENSIONS ?? '',
    SCHEDULE_FRESH: '',
    SCHEDULE_NIGHTLY: '',
  };
});
afterAll(async () => {
  try {
    if (!inject('docker')) return;
    for (const one of [project, `${project}-trial`])
      await run('docker', ['compose', '--project-name', one, '--profile', '*', 'down', '--volumes'], {
        env: environment,
      });
    await run('docker', ['image', 'rm', '--force', project], { env: environment });
  } finally {
    await opened.disposeAsync();
  }
}, retryOutages.timeout);

/** Made by a superuser as install.md says. Answers with its DATABASE_URL. */
async function documentedDatabase(): Promise<string> {
  const { url: superusers, prefix } = inject('postgres');
  const name = `${prefix}blocks`;
  const install = readFileSync(join(root, 'docs/how-to/install.md'), 'utf8');
  const [, told] = /^```sql\n(create role shelfdesk [\s\S]*?)^```$/m.exec(install)!;
  const statements = told!
    .replaceAll(/\bshelfdesk\b/g, name)
    .replace('…', 'x')
    .trim()
    .split('\n');
  opened.defer(async () => {
    await ask(superusers, `drop database if exists ${name} with (force)`);
    await ask(superusers, `drop owned by ${name} cascade; drop role ${name}`);
  });
  for (const statement of statements) await ask(superusers, statement);
  // The roles of the server were made for all tests by another role. In a server of its own this one makes them itself.
  await ask(superusers, `grant shelfdesk_reader, shelfdesk_reader_pii, shelfdesk_sql to ${name} with admin option`);
  const url = new URL(superusers);
  [url.username, url.password, url.pathname] = [name, 'x', name];
  return url.href;
}

async function ask(url: string, statement: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return await client
    .query(statement)
    .then(({ rows }) => rows)
    .finally(() => client.end());
}

/** What a guide has its reader write into `.env`: with the rule that its last command takes back, it leaves none behind. */
const settingsOf = (name: string): Record<string, string> =>
  name.startsWith('docs/how-to/keep-less.md') ? { FIELD_RULES: 'messages.body' } : {};

test('there are blocks to run', () => {
  expect(blocks.length).toBeGreaterThan(15);
  expect(documents).toContain('docs/how-to/install.md');
});

describe('runs as it stands:', () => {
  for (const { name, text } of blocks) {
    const need = needOf(text);
    const takes = name.startsWith('README.md') ? {} : long;
    const lacks = need !== undefined && !need.there ? { skip: true, meta: need.lacks } : takes;
    test(name, { ...lacks, ...(need === needs.docker && retryOutages) }, async () => {
      // Those of the README begin with nothing.
      let script =
        need === needs.docker && name.startsWith('docs/') ? `docker compose up --detach --wait\n${text}` : text;
      for (const [from, to] of placeholders) script = script.replaceAll(from, to);
      const env = { ...environment, ...settingsOf(name) };
      const commands = commandsIn(script);
      if (commands !== undefined) {
        for (const words of commands) await runHere(words, env);
        return;
      }
      const ran = run('bash', ['--norc', '-eu', '-c', script], { cwd: folder, env });
      ran.child.stdin?.end();
      await ran.catch((error: Error & { stdout: string; stderr: string }) => {
        throw new Error(`${error.message}\n${error.stdout}\n${error.stderr}`);
      });
    });
  }
});
