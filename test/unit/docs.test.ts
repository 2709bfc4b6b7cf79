/**
 * What the documents say is so: settings, commands, options, exit codes, files, scripts and invariants are compared with
 * the program itself.
 */
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { QUESTIONS } from '../../packages/sandbox/src/probe/probe.ts';
import { settings } from '../../src/app/settings.ts';
import { exitCodes } from '../../src/errors.ts';
import { freshDatabase } from '../support/postgres.ts';
import { leaves, program } from '../support/program.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

const documents = [
  'README.md',
  ...['CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md', 'AGENTS.md'],
  ...['packages/sandbox/README.md', 'packages/proofs/README.md', 'packages/moving-source/README.md'],
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).map(name => `docs/${name}`),
].filter(path => path.endsWith('.md'));
const readme = read('README.md');
const envExample = read('.env.example');

/** The cells of the rows of all tables, without backticks and without the lines below the heads. */
const cells = (text: string): string[][] =>
  [...text.matchAll(/^\| (.*) \|$/gm)]
    .map(([, row]) => row!.split(' | ').map(cell => cell.trim().replace(/^`(.*)`$/, '$1')))
    .filter(row => row.some(cell => !/^-+$/.test(cell)));

/** The commands of all groups of --help. */
const commandsIn = (help: string): string[] =>
  [...help.split('Options:')[1]!.matchAll(/^ {2}([a-z][\w-]*)/gm)].map(([, name]) => name!);

const documented = Object.entries(settings).map(([name, setting]) => ({
  name,
  says: setting.says,
  default: 'default' in setting ? setting.default : undefined,
}));

describe('settings', () => {
  test('.env.example has each, commented out, under its meaning and default, and no other', () => {
    const blocks = [...envExample.matchAll(/^# (.*?)(?: No default\.)?\n#([A-Z0-9_]+)=/gm)].map(([, says, name]) => [
      name,
      says,
    ]);
    const expected = documented.map(({ name, says, default: value }) => [
      name,
      value === undefined ? says : `${says} Default: ${value}`,
    ]);
    const byName = (a: unknown[], b: unknown[]) => String(a[0]).localeCompare(String(b[0]));
    expect(blocks.toSorted(byName)).toEqual(expected.toSorted(byName));
    expect(envExample.split('\n').filter(line => line !== '' && !line.startsWith('#'))).toEqual([]);
  });

  test('its examples are no wrong settings', async () => {
    const { readConfig } = await import('../../src/app/config.ts');
    const { parseEnv } = await import('node:util');
    const given = parseEnv(envExample.replaceAll(/^#([A-Z0-9_]+=)/gm, '$1')) as Record<string, string>;
    expect(Object.keys(given).sort()).toEqual(Object.keys(settings).sort());
    expect(readConfig(join(root, 'docs'), { ...given, HELPDESK_TOKEN: 'x' }).limits.credits).toBe(100);
  });

  // What columns hold looks like settings in some, NO_PAGES, FOR_SALE; the others declare settings of their own.
  const others = [
    ...['docs/reference/tables.md', 'schema/views/33-catalog.sql', 'schema/views/75-star.sql'],
    'packages/moving-source/README.md',
    ...['docs/how-to/add-a-source.md', 'docs/skills/shelfdesk-source/SKILL.md'],
  ];
  const views = readdirSync(join(root, 'schema/views')).map(name => `schema/views/${name}`);
  const telling = [...documents, ...views].filter(path => !others.includes(path));
  test.for([...telling, '.env.example', 'docker-compose.yml'])('%s names none that there is not', path => {
    const ours = new Set([
      ...Object.keys(settings),
      'TEST_REDIS_URL',
      'TEST_DATABASE_URL',
      'NO_COLOR',
      'REDISCLI_AUTH',
      'SHELFDESK_WORKERS', // of docker-compose.yml alone
      'COMPOSE_PROJECT_NAME', // of Compose
      'NODE_EXTRA_CA_CERTS', // of Node.js
      'ON_ERROR_STOP', // of psql
      'ACME_TOKEN', // of the examples
      'SHELFDESK_HAND_OFF', // what a command of HANDOFF_COMMAND gets
      'SHELFDESK_URL', // of the recipe for Dagster
    ]);
    const service = /^(POSTGRES|REDIS)_(USER|DB|PASSWORD)$/;
    const named = [...read(path).matchAll(/\b[A-Z]+(?:_[A-Z]+)+\b/g)].map(([name]) => name);
    expect(named.filter(name => !ours.has(name) && !(path !== '.env.example' && service.test(name)))).toEqual([]);
  });
});

describe('commands', () => {
  test('--help of the program names the same commands, and all exit codes', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [join(root, 'src/main.ts'), '--help', '--all']);
    const named = commandsIn(stdout);
    const there = (await program()).commands.map(command => command.name());
    expect(named.toSorted()).toEqual([...there, 'help'].toSorted());
    const words = stdout.slice(stdout.indexOf('Exit codes:'));
    for (const code of Object.values(exitCodes)) expect(words).toMatch(new RegExp(`\\b${code} [a-z]`));
  });

  test('every `npx shelfdesk …` in the documents is a command', async () => {
    const there = leaves(await program()).map(({ name }) => name);
    const used = documents.flatMap(path =>
      [...read(path).matchAll(/npx shelfdesk ([^`<\n]+)/g)].map(([, words]) => words!),
    );
    expect(used.length).toBeGreaterThan(5);
    expect(used.filter(words => !there.some(name => `${words} `.startsWith(`${name} `)))).toEqual([]);
  });

  test('README names the commands of a first --help, in its order', async () => {
    const [, list = ''] = /## Commands\n\n([\s\S]*?)\n\n/.exec(readme)!;
    const named = [...list.matchAll(/`([a-z][\w-]*)`/g)].map(([, name]) => name);
    const { stdout } = await promisify(execFile)(process.execPath, [join(root, 'src/main.ts'), '--help']);
    expect(named).toEqual(commandsIn(stdout).filter(name => name !== 'help'));
  });
});

test('README is short: 110 lines and 10 KB at most, no table wider than 100 characters', () => {
  expect(readme.split('\n').length - 1).toBeLessThanOrEqual(110);
  expect(Buffer.byteLength(readme)).toBeLessThanOrEqual(10_240);
  expect(readme.split('\n').filter(line => line.startsWith('|') && line.length > 100)).toEqual([]);
});

describe('files', () => {
  test.for(documents)('every link and every file named in %s is there', path => {
    const text = read(path);
    const links = [...text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)].map(([, to]) => to!);
    const missing = links
      .filter(to => !/^https?:/.test(to))
      .filter(to => !existsSync(join(root, dirname(path), to)) || to.startsWith('/'));
    expect(missing).toEqual([]);
    const named = [...text.matchAll(/`((?:\.ci|src|jobs|test|docs|migrations|bench)\/[\w./-]*)`/g)].map(
      ([, to]) => to!,
    );
    expect(named.filter(to => !existsSync(join(root, to)))).toEqual([]);
  });

  test('links say where they lead: a file by its own name', () => {
    const wrong = documents.flatMap(path =>
      [...read(path).matchAll(/\[([\w./-]+\.(?:ts|sql|md))\]\(([^)]+)\)/g)]
        .filter(([, name, to]) => !to!.replace(/#.*/, '').endsWith(name!.replace(/^.*\.\.\//, '')))
        .map(([link]) => `${path}: ${link}`),
    );
    expect(wrong).toEqual([]);
  });

  test('no link leads out of the project', () => {
    const texts = [...documents, '.env.example', 'docker-compose.yml', 'Dockerfile', '.ci/run', 'package.json'];
    for (const path of texts) {
      expect(read(path), path).not.toMatch(/(?:^|[\s("'`])\/(?:work|home|root|Users)\//);
    }
    const outside = documents.flatMap(path =>
      [...read(path).matchAll(/\]\(([^)#\s]+)/g)].filter(([, to]) =>
        relative(root, join(root, dirname(path), to!)).startsWith('..'),
      ),
    );
    expect(outside).toEqual([]);
  });

  test('every `npm run …` is a script, and those of the README install what they need', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const used = [...documents, '.ci/run'].flatMap(path =>
      [...read(path).matchAll(/npm run (?:--silent )?([\w:-]+)/g)].map(([, name]) => name!),
    );
    expect(used).toContain('demo');
    expect(used.filter(name => !(name in scripts))).toEqual([]);
    for (const name of ['demo', 'test']) expect(scripts[name]).toMatch(/^npm run --silent ready && /);
  });

  test('the tables that ask-in-sql.md names are there, and the SQL of all documents runs', async () => {
    await using db = await freshDatabase();
    const guide = read('docs/how-to/ask-in-sql.md');
    const named = cells(guide).flatMap(([tables]) => [...tables!.matchAll(/[a-z]+\.[a-z_]+/g)].map(([name]) => name));
    expect(named.length).toBeGreaterThan(12);
    const { rows } = await db.pool.query('select n from unnest($1::text[]) n where to_regclass(n) is null', [named]);
    expect(rows).toEqual([]);
    const examples = documents
      .filter(path => path !== 'docs/reference/questions.md' && path !== 'docs/how-to/add-a-source.md')
      .flatMap(path =>
        [...read(path).matchAll(/^```sql\n(--[\s\S]*?)^```$/gm)].map(([, sql]) => [path, sql!] as const),
      );
    expect(examples.length).toBeGreaterThanOrEqual(15);
    for (const [path, sql] of examples)
      await db.pool.query(sql).catch(error => expect.fail(`${path}: ${error.message}\n${sql}`));
  });
});

test('the documented restore drops all our schemas, with and without Compose', async () => {
  await using db = await freshDatabase();
  const { rows } = await db.pool.query(
    `select nspname from pg_namespace where nspname !~ '^pg_' and nspname not in ('information_schema', 'public')`,
  );
  const dropped = [...read('docs/how-to/back-up-and-restore.md').matchAll(/drop schema if exists ([a-z, ]+) cascade/g)];
  expect(dropped).toHaveLength(3);
  for (const [, names] of dropped)
    expect(names!.split(', ').toSorted()).toEqual(rows.map(row => row.nspname).toSorted());
});

test('the README of the package names what is in it: commands, files, and no script of a clone', async () => {
  const text = read('packages/README.md');
  const there = leaves(await program()).map(({ name }) => name);
  const used = [...text.matchAll(/npx shelfdesk (\w+)/g)].map(([, name]) => name!);
  expect(used).toContain('demo');
  expect(used.filter(name => !there.includes(name))).toEqual([]);
  const links = [...text.matchAll(/\]\(([^)]+)\)/g)].map(([, to]) => to!);
  expect(links.filter(to => !existsSync(join(root, to)))).toEqual([]);
  expect(text).not.toMatch(/npm (test|run|ci)\b/);
  expect(text).toContain(/^const NODE = '>=(.+)';$/m.exec(read('packages/build.ts'))![1]);
  expect(text).toContain(`shelfdesk-${JSON.parse(read('package.json')).version}.tgz`);
});

test('the page of the interfaces names requests that are made, checks of doctor, and questions of the probe', () => {
  const page = read('docs/reference/interfaces.md');
  const rows = page.split('\n').filter(line => /^\| .* \| .* \| .* \|$/.test(line) && !/^\| (-+|what) /.test(line));
  expect(rows.length).toBeGreaterThan(15);
  const checks = new Set(cells(read('docs/reference/doctor.md')).map(([name]) => name));
  const named = rows.flatMap(row => {
    const last = row.split('|').at(-2)!.trim();
    return last === '(none)' || last.startsWith('(none: ') ? [] : last.split('; ');
  });
  const probed = new Set(QUESTIONS.map(({ about }) => about));
  const unknown = named.flatMap(of =>
    of.startsWith('probe: ')
      ? of
          .slice('probe: '.length)
          .split(', ')
          .filter(name => !probed.has(name))
      : of.split(', ').filter(name => !checks.has(name)),
  );
  expect(unknown).toEqual([]);
  const sent = ['helpdesk', 'books'].map(name => read(`src/sources/${name}/endpoints.ts`)).join('');
  const parameters = [...page.matchAll(/`(?:[^`]*\?)?(\w+)=[^`]*`/g)].map(([, name]) => name!);
  expect(parameters).toContain('embed');
  expect(parameters.filter(name => !new RegExp(`\\b${name}\\b`).test(`${sent} key`))).toEqual([]);
});

describe('what is promised', () => {
  test('problems.md has a row for each problem of sync.problems, and for no other', () => {
    const view = read('schema/views/61-problems.sql');
    const [failing] = /case\n *-- The source has answered since.*? end as problem/s.exec(view)!;
    const codes = [
      ...view.matchAll(/'([a-z_]+)',\s+(?:'(?:critical|warning|info)'|case\b)/g),
      ...failing.matchAll(/(?:then|else) '([a-z_]+)'/g),
    ].map(([, code]) => code!);
    const [, ...rows] = cells(read('docs/reference/problems.md')).map(([code]) => code!);
    expect(rows.length).toBeGreaterThan(20);
    expect(rows.sort()).toEqual(codes.sort());
  });

  test('every guarantee names a test', () => {
    const rows = cells(read('docs/reference/guarantees.md')).slice(1);
    expect(rows.length).toBeGreaterThan(8);
    for (const [guarantee, proof] of rows) expect(proof, guarantee).toMatch(/\]\(\S*test\/\S+\.test\.ts\)/);
  });

  test('SPEC has its invariants in order, each with what enforces it, and a test, or says that there is none yet', () => {
    const spec = read('docs/SPEC.md');
    const parts = spec.split(/^## /m).slice(1);
    const numbers = parts.map(part => Number(/^I(\d+) /.exec(part)?.[1]));
    expect(numbers).toEqual(parts.map((_, i) => i + 1));
    for (const part of parts) {
      const [title] = part.split('\n');
      expect(part, title).toMatch(/^- Enforced by /m);
      const proof = /^- Proven by [\s\S]*?\]\(\.\.\/test\/\S+\.test\.ts\)/m.test(part);
      expect(proof || /not yet held by a test/.test(part), title).toBe(true);
    }
  });

  test('DECISIONS are numbered and have their four parts', () => {
    const parts = read('docs/DECISIONS.md').split(/^## /m).slice(1);
    const numbers = parts.map(part => Number.parseInt(part, 10));
    expect(numbers).toEqual(parts.map((_, i) => i + 1));
    for (const part of parts) {
      const said = [...part.matchAll(/^- \*\*(.+?)\*\*: /gm)].map(([, what]) => what);
      expect(said, part.split('\n')[0]).toEqual(['What', 'Why', 'Weighed', 'Follows']);
    }
  });
});

describe('CI', () => {
  test('.ci/run can be run', () => {
    expect(statSync(join(root, '.ci/run')).mode & 0o111).not.toBe(0);
    expect(read('.ci/run')).toMatch(/^#!\/usr\/bin\/env bash\n/);
  });
});

test('a first --help names twelve commands, in 80 columns, and says where the others are', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [join(root, 'src/main.ts'), '--help']);
  expect(commandsIn(stdout)).toHaveLength(12);
  expect(stdout).toContain('More commands: shelfdesk --help --all.');
  expect(stdout.split('\n').filter(line => line.length > 80)).toEqual([]);
});
