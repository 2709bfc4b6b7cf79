/** What tests fetch from a registry: into a folder of the user's cache, once. */
import { access, mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'shelfdesk-tests');

/** A folder of the cache. Of two that make it at once, the first one stays. Undefined if it cannot be made. */
export async function cached(name: string, make: (folder: string) => Promise<void>): Promise<string | undefined> {
  const folder = join(cache, name);
  const there = () =>
    access(folder).then(
      () => folder,
      () => undefined,
    );
  if (await there()) return folder;
  await mkdir(cache, { recursive: true });
  const begun = await mkdtemp(join(cache, 'begun-'));
  try {
    await make(begun);
    await rename(begun, folder);
  } catch {
    await rm(begun, { recursive: true, force: true });
  }
  return await there();
}
