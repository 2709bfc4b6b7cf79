/**
 * Sources of one's own: files in a folder outside of the program. Node runs TypeScript as it is, without checking it, so what the
 * compiler would refuse is refused by `defineService` too.
 */
import { readdirSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { UsageError } from '../../errors.ts';
import type { Source } from '../../sources/source.ts';
import { folderOfSources, writesSource } from '../environment.ts';

/** A source, and the file that declares it. */
interface Found {
  readonly source: Source;
  readonly file: string;
}

/** A file whose name has a further dot is none of these: a test, or types. */
const named = /^[^.]+\.(?:ts|mts|js|mjs)$/;
/** A path within the folder. A package that a source imports says itself what its files are. */
const isModule = (path: string) => /\.m?[jt]s$/.test(path) && !/(?:^|\/)node_modules\//.test(path);

/** None without a folder. Throws UsageError if the folder, or a file in it, cannot be read or has no source. */
export async function ownSources(): Promise<readonly Found[]> {
  const named = folderOfSources();
  if (named === undefined || writesSource()) return [];
  const { folder, place } = named;
  const files = filesIn(folder, place);
  if (files.length === 0)
    throw new UsageError(
      `${folder} holds no source: no file that ends in .ts or .js`,
      `Write one (docs/how-to/add-a-source.md), or take SHELFDESK_SOURCES out of ${place}.`,
    );
  const inside = pathToFileURL(join(folder, '/')).href;
  const kit = import.meta.resolve('shelfdesk/source');
  registerHooks({
    resolve: (name, context, next) => (name === 'shelfdesk/source' ? next(kit, context) : next(name, context)),
    // Where no package.json says so, Node would read each file twice to find that it is a module, and warn of it.
    load: (url, context, next) =>
      url.startsWith(inside) && isModule(url.slice(inside.length))
        ? next(url, { ...context, format: url.endsWith('ts') ? 'module-typescript' : 'module' })
        : next(url, context),
  });
  const found: Found[] = [];
  for (const file of files) for (const source of await sourcesOf(file)) found.push({ source, file });
  return found;
}

function filesIn(folder: string, place: string): string[] {
  try {
    const names = readdirSync(folder).filter(name => named.test(name));
    return names.sort().map(name => join(folder, name));
  } catch (error) {
    throw new UsageError(
      `the folder of SHELFDESK_SOURCES cannot be read: ${(error as Error).message}`,
      `Make it, or correct SHELFDESK_SOURCES in ${place}.`,
    );
  }
}

async function sourcesOf(file: string): Promise<Source[]> {
  const { href } = pathToFileURL(file);
  let exported: Readonly<Record<string, unknown>>;
  try {
    exported = await import(/* @vite-ignore */ href);
  } catch (error) {
    const { message, stack = '', remedy } = error as Error & { remedy?: string };
    const [, line] = stack.split(href)[1]?.match(/^:(\d+)/) ?? [];
    throw new UsageError(
      `the source ${line === undefined ? file : `${file}:${line}`} cannot be used: ${message.split('\n')[0]}`,
      remedy ?? 'Correct the file, or take it out of the folder of SHELFDESK_SOURCES.',
    );
  }
  const sources = [...new Set(Object.values(exported))].filter(isSource);
  if (sources.length > 0) return sources;
  throw new UsageError(
    `${file} exports no source`,
    'Export what defineService makes. What sources share stands in a folder within the folder.',
  );
}

const isSource = (value: unknown): value is Source =>
  typeof value === 'object' && value !== null && 'streams' in value && 'connect' in value;
