/**
 * Builds the packages that are published, as JavaScript: `dist/shelfdesk`, bundled, with the types of what declares a source,
 * `dist/sandbox` with types, and `dist/lake`.
 * The worker's package carries the sandbox's, so that one file installs both. All have the version of the root.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fingerprintOf } from '../src/app/build.ts';
import { besides, bundle } from './bundle.ts';

/** The oldest Node that the packages run on: undici and commander demand it. A clone needs the Node that strips types. */
const NODE = '>=22.19';
const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
const worker = join(dist, 'shelfdesk');
const sandbox = join(dist, 'sandbox');
const lake = join(dist, 'lake');
const compiled = join(dist, 'compiled');
const program = join(dist, 'program');
const types = join(dist, 'types');

interface Manifest {
  version: string;
  bin: Record<string, string>;
  exports?: Record<string, string>;
  dependencies: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
  [name: string]: unknown;
}

const read = (path: string): Manifest => JSON.parse(readFileSync(join(root, path), 'utf8'));
const asJs = (paths: Record<string, string>) =>
  Object.fromEntries(Object.entries(paths).map(([name, path]) => [name, path.replace(/\.ts$/, '.js')]));
const keep = (from: string, to: string) => cpSync(from, to, { recursive: true });

rmSync(dist, { recursive: true, force: true });
compile('sandbox/tsconfig.json', '--outDir', compiled);
// A program needs no types.
compile('tsconfig.json', '--outDir', program, '--removeComments');
compile('types.tsconfig.json', '--outDir', types);
// The compiler leaves the names of the sources in the types.
for (const folder of [compiled, types])
  for (const name of globSync('**/*.d.ts', { cwd: folder })) {
    const path = join(folder, name);
    writeFileSync(
      path,
      readFileSync(path, 'utf8').replaceAll(/((?:from |import\()['"]\.[^'"]*)\.ts(['"])/g, '$1.js$2'),
    );
  }
const ours = read('package.json');
const theirs = read('packages/sandbox/package.json');
const both = { version: ours.version, license: ours.license, type: 'module', engines: { node: NODE } };

keep(join(compiled, 'packages/sandbox/src'), join(sandbox, 'src'));
assets('packages/sandbox/src', join(sandbox, 'src'));
keep(join(root, 'packages/sandbox/README.md'), join(sandbox, 'README.md'));
keep(join(root, 'packages/sandbox/page.png'), join(sandbox, 'page.png'));
keep(join(root, 'LICENSE'), join(sandbox, 'LICENSE'));
manifest(sandbox, {
  name: theirs.name,
  description: theirs.description,
  ...both,
  bin: asJs(theirs.bin),
  exports: asJs(theirs.exports!),
  dependencies: theirs.dependencies,
});

await bundle(root, join(worker, 'src'));
for (const path of reached(join(types, 'src/sources/declare.d.ts'))) keep(path, join(worker, relative(types, path)));
assets('src', join(worker, 'src'));
for (const name of [
  'migrations',
  'schema/views',
  'docs',
  'dbt',
  'examples',
  'CHANGELOG.md',
  'SECURITY.md',
  'LICENSE',
  '.env.example',
]) {
  keep(join(root, name), join(worker, name));
}
// What a clone has written about its own warehouse.
rmSync(join(worker, 'dbt/models/sources.yml'), { force: true });
// The README of a clone is about commands that the package lacks.
keep(join(root, 'packages/README.md'), join(worker, 'README.md'));
// Who changes the program has the repository, which also shows the larger picture.
for (const name of ['DECISIONS.md', 'DESIGN.md', 'SPEC.md', 'contributing', 'page.png'])
  rmSync(join(worker, 'docs', name), { recursive: true });
// What sets the services of the examples up and compares them runs in a clone.
const scripts = ['run.ts', 'work.ts', 'compare.ts', 'with-postgres.sh', '*/*.work.ts', '*/*.compare.ts'];
for (const path of globSync(scripts, { cwd: join(worker, 'examples') })) rmSync(join(worker, 'examples', path));
keep(sandbox, join(worker, 'node_modules', String(theirs.name)));
const libraries = Object.fromEntries(besides.map(name => [name, ours.dependencies[name]!]));
manifest(worker, {
  name: ours.name,
  description: ours.description,
  ...both,
  // Of the sources, so that a clone of the same commit has the same.
  build: fingerprintOf(root),
  bin: asJs(ours.bin),
  // A program, not a library: only what declares a source is promised to code.
  exports: asJs(ours.exports!),
  dependencies: {
    ...libraries,
    [String(theirs.name)]: ours.version,
  },
  // The user's own Node runs the package; a clone brings one.
  optionalDependencies: Object.fromEntries(
    Object.entries(ours.optionalDependencies!).filter(([name]) => !name.startsWith('node-')),
  ),
  bundleDependencies: [theirs.name],
});
// What an image installs: the package brings the sandbox, and no registry has it.
mkdirSync(join(dist, 'libraries'));
manifest(join(dist, 'libraries'), { dependencies: { ...libraries, ...theirs.dependencies } });

const ofLake = read('packages/lake/package.json');
keep(join(program, 'packages/lake/src'), join(lake, 'src'));
assets('packages/lake/src', join(lake, 'src'));
keep(join(root, 'packages/lake/README.md'), join(lake, 'README.md'));
keep(join(root, 'LICENSE'), join(lake, 'LICENSE'));
manifest(lake, {
  name: ofLake.name,
  description: ofLake.description,
  ...both,
  exports: asJs(ofLake.exports!),
  // In a clone they are of development, so that who leaves those out has no DuckDB either.
  dependencies: ofLake.devDependencies!,
  // The two speak to each other by no interface that is promised.
  peerDependencies: { [String(ours.name)]: ours.version },
});
for (const folder of [compiled, program, types]) rmSync(folder, { recursive: true });

function compile(config: string, ...flags: string[]): void {
  const args = [join(root, 'node_modules/typescript/bin/tsc'), '-p', join(root, 'packages', config), ...flags];
  execFileSync(process.execPath, args, { stdio: 'inherit' });
}

/** The types of a module, and all that they import of ours. */
function reached(path: string, met = new Set<string>()): Set<string> {
  if (met.has(path)) return met;
  met.add(path);
  for (const [, to] of readFileSync(path, 'utf8').matchAll(/(?:from |import\()['"](\.[^'"]*)\.js['"]/g))
    reached(join(dirname(path), `${to}.d.ts`), met);
  return met;
}

/** What lies beside the sources and is read at run time: a page's style, an OpenAPI document, views of the lake. */
function assets(folder: string, to: string): void {
  for (const name of globSync('**/*.{css,html,js,sql,yaml}', { cwd: join(root, folder) })) {
    mkdirSync(dirname(join(to, name)), { recursive: true });
    keep(join(root, folder, name), join(to, name));
  }
}

function manifest(folder: string, content: Pick<Manifest, 'dependencies'> & Record<string, unknown>): void {
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(content, null, 2)}\n`);
}
