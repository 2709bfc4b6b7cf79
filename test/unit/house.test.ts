/**
 * The house rules that no compiler knows: who may import whom, where time, chance, network and environment come in, and
 * how big a file may be. Who may import whom stands in docs/DESIGN.md, and is read from there: it cannot say anything else.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import type { AddCommand } from '../../src/cli/command.ts';
import { sources, streams } from '../../src/sources/index.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

interface File {
  /** From the project's root: `src/engine/http/send.ts`. */
  readonly path: string;
  readonly text: string;
  /** Without comments. */
  readonly code: string;
}

interface Import {
  readonly from: string;
  /** A file of ours from the root, or a package's name. */
  readonly to: string;
  readonly ours: boolean;
  readonly typeOnly: boolean;
}

const filesIn = (folder: string): File[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .map(path => join(folder, path))
    .filter(path => path.endsWith('.ts'))
    .sort()
    .map(path => {
      const text = readFileSync(join(root, path), 'utf8');
      return { path, text, code: withoutComments(text) };
    });
const files: File[] = ['jobs', 'src'].flatMap(filesIn);

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/(^|\s)\/\/.*$/gm, '$1');
}

function importsOf({ path, code }: File): Import[] {
  const statements = code.matchAll(/^(?:import|export)\s+(type\s)?([^'";]*?\bfrom\s+)?'([^']+)'/gm);
  const dynamic = code.matchAll(/\bimport\(\s*(?:\/\*.*?\*\/\s*)?'([^']+)'\s*\)/g);
  const found = [
    ...[...statements].map(([, type, names = '', what]) => ({
      what: what!,
      typeOnly: Boolean(type) || onlyTypes(names),
    })),
    ...[...dynamic].map(([, what]) => ({ what: what!, typeOnly: false })),
  ];
  return found.map(({ what, typeOnly }) => {
    const ours = what.startsWith('.');
    return { from: path, to: ours ? relative(root, resolve(root, dirname(path), what)) : what, ours, typeOnly };
  });
}
const imports: Import[] = files.flatMap(importsOf);

/** `{ type A, type B } from` */
function onlyTypes(names: string): boolean {
  const list = /\{([^}]*)\}/
    .exec(names)?.[1]
    ?.split(',')
    .map(name => name.trim())
    .filter(Boolean);
  return list !== undefined && list.length > 0 && list.every(name => name.startsWith('type '));
}

/** The table in docs/DESIGN.md, by room: `streams`, or narrower `streams/index`, `streams/stream (types)`. */
const mayImport: Record<string, string[]> = (() => {
  const [, section = ''] = readFileSync(join(root, 'docs/DESIGN.md'), 'utf8').split('### Who may import whom');
  const lines = section.split(/^#/m)[0]!.matchAll(/^\| `([\w/-]+)` +\| (.+) \|$/gm);
  return Object.fromEntries(
    [...lines].map(([, room, rules]) => [
      room!,
      [...rules!.matchAll(/`([\w/-]+)`( \(types\))?/g)].map(([, where, types = '']) => where + types),
    ]),
  );
})();

/** The room of a file: `src/engine/http/send.ts` → `engine/http`, `src/app/config.ts` → `app`, `src/errors.ts` → `errors`. */
function roomOf(path: string): string {
  const [top, second = '', third = '', ...rest] = path.split('/');
  if (top !== 'src') return top!;
  if (second === 'engine' && rest.length > 0) return `engine/${third}`;
  return third !== '' ? second : basename(second, '.ts');
}

/** `http`, `http/request` and `http/request (types)` in the table, for an import of `src/engine/http/request.ts`. */
function allowed(one: Import): boolean {
  const room = roomOf(one.to);
  const exact = one.to.replace(/^src\//, '').replace(/\.ts$/, '');
  return (mayImport[roomOf(one.from)] ?? []).some(rule => {
    const [, where, types] = /^(\S+?)(?: (\(types\)))?$/.exec(rule)!;
    return (where === room || where === exact) && (!types || one.typeOnly);
  });
}

const matching = (pattern: RegExp, except: (path: string) => boolean = () => false): string[] =>
  files.filter(({ path, code }) => pattern.test(code) && !except(path)).map(({ path }) => path);
const among =
  (...paths: string[]) =>
  (path: string): boolean =>
    paths.includes(path);

test('JSON is read in one place, where no number is rounded', () => {
  // Files of the package, a copy of values, and the names of fields hold no numbers of a source.
  const others = among(
    'src/program.ts',
    'src/app/build.ts',
    'src/embedded/place.ts',
    'src/embedded/demo-place.ts',
    'src/cli/look/mcp.ts',
    'src/node-version.ts',
    'src/cli/work/forecast.ts',
    'src/agents/reads.ts',
    'src/engine/json-text.ts',
  );
  expect(matching(/\bJSON\.parse\b/, others)).toEqual(['src/engine/exact-json.ts']);
});

test('there is a house to look at', () => {
  expect(files.length).toBeGreaterThan(50);
  expect(imports.length).toBeGreaterThan(200);
  expect(imports).toContainEqual({ from: 'src/program.ts', to: 'jobs/sync-stream.ts', ours: true, typeOnly: false });
  expect(imports).toContainEqual({
    from: 'src/engine/load/list-loop.ts',
    to: 'src/sources/source.ts',
    ours: true,
    typeOnly: true,
  });
});

describe('who may import whom', () => {
  test('every import of ours is in the table', () => {
    const strangers = imports.filter(one => one.ours && roomOf(one.from) !== roomOf(one.to) && !allowed(one));
    expect(strangers.map(({ from, to, typeOnly }) => `${from} → ${to}${typeOnly ? ' (types)' : ''}`)).toEqual([]);
  });

  test('the table has exactly the rooms that there are, and no rule that nobody needs', () => {
    expect(Object.keys(mayImport).sort()).toEqual([...new Set(files.map(({ path }) => roomOf(path)))].sort());
    const unused = Object.entries(mayImport).flatMap(([room, rules]) =>
      rules
        .filter(rule => {
          const where = rule.replace(' (types)', '');
          const used = imports.filter(
            one =>
              one.ours &&
              roomOf(one.from) === room &&
              (roomOf(one.to) === where || one.to.replace(/^src\//, '').replace(/\.ts$/, '') === where),
          );
          // A rule that says more than is used says too much: types, where only types are imported.
          return used.length === 0 || (!rule.endsWith(' (types)') && used.every(one => one.typeOnly));
        })
        .map(rule => `${room} → ${rule}`),
    );
    expect(unused).toEqual([]);
  });

  test('every import names its file, and the file is there', () => {
    const paths = new Set(files.map(({ path }) => path));
    expect(imports.filter(one => one.ours && !paths.has(one.to)).map(({ from, to }) => `${from} → ${to}`)).toEqual([]);
  });

  /** The files that import each other in a circle, by circle. */
  function circles(of: (one: Import) => boolean): string[][] {
    const to = new Map(files.map(({ path }) => [path, new Set<string>()]));
    for (const one of imports) if (one.ours && of(one)) to.get(one.from)?.add(one.to);
    const reaches = (from: string, seen = new Set<string>()): Set<string> => {
      for (const next of to.get(from) ?? []) if (!seen.has(next)) reaches(next, seen.add(next));
      return seen;
    };
    const reached = new Map([...to.keys()].map(path => [path, reaches(path)]));
    const met = new Set<string>();
    return [...to.keys()].flatMap(path => {
      if (met.has(path) || !reached.get(path)!.has(path)) return [];
      const circle = [...reached.get(path)!].filter(other => reached.get(other)!.has(path));
      for (const other of circle) met.add(other);
      return [circle.sort()];
    });
  }

  test('no file imports itself through others; with types, no more than a handful do', () => {
    expect(circles(({ typeOnly }) => !typeOnly)).toEqual([]);
    // A source and the context of its work know each other.
    expect(circles(() => true).filter(({ length }) => length > 4)).toEqual([]);
  });

  /** Files outside `sources/` that name a source or a stream, and why. A file that stops naming one leaves this list. */
  const namesSources: Readonly<Record<string, string>> = {
    'src/analytics/calendars.ts': 'calendars belong to inboxes of the help desk',
    'src/analytics/search.ts': 'the indexes of search are on tables of the help desk',
    'src/analytics/service-targets.ts': 'service targets belong to inboxes and labels of the help desk',
    'src/cli/look/why.ts': 'the command is about one ticket',
    'src/cli/setup/demo.ts': 'the demo asks both services of the sandbox',
    'src/cli/work/plan.ts': 'keys of --json',
    'src/engine/database/views.ts': 'the schemas of our columns',
    'src/ops/page/targets.ts': 'service targets are of tickets',
    'src/privacy/redact.ts': 'keys of --json',
  };

  test('a source or a stream is named in sources/ only', () => {
    const [ofSource, ofStream] = [sources, streams].map(list => [...new Set(list.map(({ name }) => name))].join('|'));
    const literal = `(['"\`])(?:(?:${ofSource})(?:\\.\\w+)?|${ofStream})\\1`;
    const table = `(?<![\\w.])(?:${ofSource})\\.(?:${ofStream}|inboxes|labels|contacts|shelf_\\w+|ticket_\\w+)\\b`;
    const named = new RegExp(`${literal}|${table}|sources/(?:${ofSource})/`);
    const found = files.filter(({ path, code }) => !path.startsWith('src/sources/') && named.test(code));
    expect(found.map(({ path }) => path)).toEqual(Object.keys(namesSources).sort());
  });

  test('only the program imports jobs', () => {
    expect(new Set(imports.filter(({ to }) => to.startsWith('jobs/')).map(({ from }) => from))).toEqual(
      new Set(['src/program.ts']),
    );
  });

  test('only demo and sandbox know the package of the sandbox', () => {
    const known = imports.filter(({ to }) => /sandbox\/?/.test(to) && !to.startsWith('src/'));
    expect(known.map(({ from, to }) => `${from} → ${to}`)).toEqual([
      'src/cli/setup/demo.ts → @shelfdesk/sandbox',
      'src/cli/setup/sandbox.ts → @shelfdesk/sandbox/command',
    ]);
  });

  test('only one file knows the package of the lake, which imports types of ours and nothing else', () => {
    const known = imports.filter(({ to }) => to === 'shelfdesk-lake');
    expect([...new Set(known.map(({ from }) => from))]).toEqual(['src/lake/package.ts']);
    const theirs = filesIn('packages/lake/src').flatMap(importsOf);
    const values = theirs.filter(
      ({ to, ours, typeOnly }) => !typeOnly && !(ours && to.startsWith('packages/lake/src/')),
    );
    expect([...new Set(values.map(({ to }) => to).filter(to => !to.startsWith('node:')))]).toEqual([
      '@duckdb/node-api',
    ]);
  });

  test('packages stay where they belong', () => {
    const rooms = (name: string, values = true): string[] => [
      ...new Set(imports.filter(one => one.to === name && (!values || !one.typeOnly)).map(({ from }) => roomOf(from))),
    ];
    // The webhooks of alarms and hand-offs are no source.
    expect([...new Set(imports.filter(({ to }) => to.startsWith('undici')).map(({ from }) => from))]).toEqual([
      'src/engine/http/fetch.ts',
      'src/engine/http/token.ts',
      'src/engine/http/ways.ts',
      'src/ops/webhook.ts',
    ]);
    expect(rooms('commander').sort()).toEqual(['cli', 'program']);
    expect(rooms('bullmq')).toEqual(['engine/queue']);
    expect(rooms('ioredis')).toEqual(['engine/queue']);
    expect(rooms('pino')).toEqual(['app']);
    for (const name of ['@modelcontextprotocol/server', '@modelcontextprotocol/server/stdio'])
      expect(rooms(name)).toEqual(['agents']);
    expect(rooms('google-auth-library')).toEqual(['engine/http']);
    expect(rooms('htmlparser2')).toEqual(['sources']);
    expect(rooms('libpg-query')).toEqual(['privacy']);
    expect(rooms('node-pg-migrate')).toEqual(['engine/database']);
    expect(rooms('pg').sort()).toEqual([
      'cli',
      'embedded',
      'engine/database',
      'engine/queue',
      'engine/runs',
      'lake',
      'privacy',
    ]);
  });

  test('BullMQ takes long to load: only what opens a queue loads it', () => {
    expect(matching(/import\('\.\/bull\.ts'\)/)).toEqual(['src/engine/queue/queue.ts']);
    expect(matching(/\bfrom '[^']*\/bull\.ts'/)).toEqual([]);
  });

  test('readers are pure: they import no package', () => {
    expect(imports.filter(one => !one.ours && roomOf(one.from) === 'engine/reading')).toEqual([]);
  });

  test('sources bring no client of their own: no package but zod and htmlparser2, of node only hashes', () => {
    const packages = imports.filter(one => !one.ours && !one.typeOnly && roomOf(one.from) === 'sources');
    expect([...new Set(packages.map(({ to }) => to))].sort()).toEqual(['htmlparser2', 'node:crypto', 'zod']);
  });

  test('the embedded server uses what node brings, and pg', () => {
    const packages = (room: string) => [
      ...new Set(
        imports
          .filter(one => !one.ours && roomOf(one.from) === room && !one.to.startsWith('node:'))
          .map(({ to }) => to),
      ),
    ];
    expect(packages('embedded')).toEqual(['pg']);
  });
});

describe('what varies comes in as an argument', () => {
  test('only environment.ts reads the environment', () => {
    expect(matching(/\bprocess\.env\b/)).toEqual(['src/app/environment.ts']);
  });

  test('only clock.ts reads the clocks', () => {
    expect(matching(/\bDate\.now\b|\bnew Date\(\)|\bperformance\.now\b|\bhrtime\b/)).toEqual(['src/clock.ts']);
  });

  test('only open-context.ts provides random numbers, and cryptographic ones are for names, passwords and sessions', () => {
    expect(matching(/\bMath\.random\b/)).toEqual(['src/app/open-context.ts']);
    const named = (path: string) =>
      path.startsWith('src/embedded/') || ['src/ops/page/auth.ts', 'src/privacy/readers.ts'].includes(path);
    expect(matching(/\brandomBytes\b|\brandomUUID\b/, named)).toEqual([]);
  });

  test('only http/send.ts talks to a source', () => {
    expect(matching(/\bfetch\(/, among('src/engine/http/send.ts'))).toEqual([]);
    expect(matching(/\bsendRequest\b/)).toEqual(['src/engine/http/fetch.ts']);
    // The server of a source's test is the source.
    const servers = (path: string) =>
      path.startsWith('src/embedded/') ||
      path === 'src/source-test/server.ts' ||
      /^src\/engine\/database\/session\/(prefer-)?tls\.ts$/.test(path);
    const wired = imports.filter(({ from, to }) => /^node:(https?|net|tls|http2)$/.test(to) && !servers(from));
    // It asks about addresses, and opens no connection.
    expect(wired.map(({ from, to }) => `${from} → ${to}`)).toEqual(['src/engine/http/proxies.ts → node:net']);
    expect(matching(/import \{ BlockList, isIPv4 \} from 'node:net'/)).toEqual(['src/engine/http/proxies.ts']);
  });

  test('SQL gets times as parameters, except for the budget and for views of people', () => {
    const rooms = (path: string) =>
      !/^src\/(engine|sources|privacy|analytics)\//.test(path) || path.startsWith('src/engine/budget/');
    expect(matching(/(?<![.\w])now\(\)|\bcurrent_timestamp\b|\bclock_timestamp\(\)/i, rooms)).toEqual([]);
  });

  test('output goes through cli/output/terminal.ts; progress alone rewrites its line', () => {
    expect(matching(/\bconsole\./)).toEqual([]);
    expect(matching(/\bprocess\.stdout\.write\b/)).toEqual(['src/cli/output/terminal.ts']);
    expect(matching(/\bprocess\.stderr\.write\b/)).toEqual([
      'src/cli/output/progress.ts',
      'src/cli/output/terminal.ts',
      'src/node-version.ts',
    ]);
    expect(matching(/\bprocess\.exit\(/)).toEqual(['src/node-version.ts', 'src/program.ts']);
  });
});

describe('shape', () => {
  test('no rooms for whatever has no place, and no barrels', () => {
    const folders = new Set(files.flatMap(({ path }) => dirname(path).split('/')));
    expect(
      ['utils', 'util', 'helpers', 'common', 'shared', 'lib', 'services', 'types'].filter(f => folders.has(f)),
    ).toEqual([]);
    // What sources of one's own import has one name.
    const others = files.filter(({ path }) => path !== 'src/sources/declare.ts');
    const forwards = others.flatMap(({ path, code }) =>
      [...code.matchAll(/^export\s+(\*|\{[^}]*\})\s+from\b/gm)].map(([, what]) => `${path}: ${what}`),
    );
    expect(forwards).toEqual([]);
    expect(files.filter(({ path }) => basename(path) === 'index.ts').map(({ path }) => path)).toEqual([
      'src/ops/doctor/checks/index.ts',
      'src/sources/index.ts',
    ]);
  });

  test('a folder has at most 15 files side by side, here and in other packages', () => {
    const all = [...files, ...['packages/lake/src', 'packages/sandbox/src'].flatMap(filesIn)].map(({ path }) => path);
    const many = [...Map.groupBy(all, path => dirname(path))].filter(([, some]) => some.length > 15);
    expect(many.map(([folder, some]) => `${folder}: ${some.length}`)).toEqual([]);
  });

  test('files are kebab-case, open with what they are about, and have fewer than 400 lines', () => {
    expect(
      files.filter(({ path }) => !/^[a-z0-9]+(-[a-z0-9]+)*(\.d)?\.ts$/.test(basename(path))).map(({ path }) => path),
    ).toEqual([]);
    const silent = files.filter(({ text }) => !/^(#!.*\n)?\/\*\*/.test(text));
    expect(silent.map(({ path }) => path)).toEqual([]);
    const long = [...files, ...filesIn('packages/lake/src')].filter(
      ({ code }) => code.split('\n').filter(line => line.trim() !== '').length >= 400,
    );
    expect(long.map(({ path }) => path)).toEqual([]);
  });

  test('a command that people are told to run names its account: `command` of engine/runs/pauses.ts does', () => {
    const ofAccounts = /npx shelfdesk (runs|rejects|drift|backfill|sweep|verify|pause|resume|why|plan)\b/;
    expect(files.filter(({ code }) => ofAccounts.test(code)).map(({ path }) => path)).toEqual([]);
  });

  test('an export for tests alone says what they need it for; knip finds those that say nothing', () => {
    const said = files.flatMap(({ path, text }) =>
      [...text.matchAll(/@internal\b(.*)/g)].map(([, why]) => [path, why!.trim()] as const),
    );
    expect(said.length).toBeGreaterThan(0);
    expect(said.filter(([, why]) => !/^[A-Z].* .*\.$/.test(why))).toEqual([]);
  });

  test('no class extends another one, but for errors', () => {
    const extending = files.flatMap(({ path, code }) =>
      [...code.matchAll(/\bclass (\w+) extends (\w+)/g)].map(([, name, parent]) => [path, name, parent] as const),
    );
    expect(extending.filter(([, , parent]) => !/^((Shelfdesk|Usage)?Error|Retry)$/.test(parent!))).toEqual([]);
  });

  test('every option and argument of every command says what it is', async () => {
    const program = new Command('shelfdesk');
    for (const { path } of files.filter(({ path }) => path.startsWith('src/cli/'))) {
      const exported = (await import(join(root, path))) as Record<string, unknown>;
      for (const [name, add] of Object.entries(exported)) {
        if (/^add[A-Z]/.test(name)) (add as AddCommand)(program, {} as never, (() => () => {}) as never);
      }
    }
    expect(program.commands.map(command => command.name()).sort()).toContain('sync');
    for (const command of program.commands.flatMap(one => [one, ...one.commands])) {
      expect(command.description(), command.name()).not.toBe('');
      for (const one of [...command.options, ...command.registeredArguments]) {
        expect(one.description, `${command.name()} ${'flags' in one ? one.flags : one.name()}`).not.toBe('');
      }
    }
  });
});
