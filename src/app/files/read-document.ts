/** Reads a JSON or YAML document of a file or an address. */
import { createRequire } from 'node:module';
import { parseJson } from '../../engine/exact-json.ts';
import { fetchOver } from '../../engine/http/fetch.ts';
import type { Proxies } from '../../engine/http/proxies.ts';
import { openWays } from '../../engine/http/ways.ts';
import { UsageError } from '../../errors.ts';
import { readText } from './read-text.ts';

/** The largest documents of services have ten million characters. */
const mostBytes = 50_000_000;

/** Without what follows a question mark, which may hold a key. */
export const shownPlace = (place: string): string => {
  if (!/^https?:\/\//.test(place)) return place;
  const { origin, pathname } = new URL(place);
  return origin + pathname;
};

/** `place`: a path, or an address. Throws UsageError if it cannot be read. */
export async function readDocument(place: string, proxies: () => Proxies): Promise<unknown> {
  const text = /^https?:\/\//.test(place) ? await download(new URL(place), proxies()) : readText(place);
  try {
    if (text.trimStart().startsWith('{')) return parseJson(text);
    // The package has many files, so only who needs it loads it.
    const yaml: typeof import('yaml') = createRequire(import.meta.url)('yaml');
    return yaml.parse(text, { logLevel: 'error' });
  } catch {
    // The error of the parser quotes the text.
    throw new UsageError(
      `${shownPlace(place)} is neither JSON nor YAML`,
      'Name a document of the interface, such as openapi.json.',
    );
  }
}

async function download(address: URL, proxies: Proxies): Promise<string> {
  await using ways = openWays(proxies);
  const get = fetchOver(ways, mostBytes);
  const remedy = 'Download the document, and name its file.';
  const reply = await get(address, { accept: 'application/json, application/yaml, */*' }).catch(error => {
    throw new UsageError(`${address.host} does not answer: ${(error as Error).message}`, remedy);
  });
  if (reply.status !== 200 || reply.text === '')
    throw new UsageError(`${address.origin}${address.pathname} answers ${reply.status}, and no document`, remedy);
  return reply.text;
}
