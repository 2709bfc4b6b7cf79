/** Removes the demo, or an embedded server: its folder, and what root's server keeps of it in the temporary directory. */
import { realpathSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { ShelfdeskError } from '../errors.ts';
import { look } from './cluster.ts';
import { type Demo, databaseOf, hasEmbedded } from './demo-place.ts';
import { findPlace, type Place, stagingName, unless } from './place.ts';
import { joinEmbedded } from './postgres.ts';

/** Deletes the demo with its database. Throws ShelfdeskError while a process uses it. */
export async function removeDemo(demo: Demo): Promise<void> {
  if (demo.running) throw inUse(`process ${demo.running.pid} runs it`, 'Stop it with Ctrl-C first.');
  if (hasEmbedded(databaseOf(demo))) {
    const place = await findPlace(databaseOf(demo));
    if ((await look(place)).state !== 'down') {
      const server = await joinEmbedded({ folder: databaseOf(demo) });
      await server.release();
      // The last process has stopped the server.
      if ((await look(place)).state !== 'down')
        throw inUse('another command uses its database', 'Let it end, and run the same command again.');
    }
    await removeData(place, demo.folder);
  }
  await rm(demo.folder, { recursive: true, force: true });
}

/** Deletes the data of a server that is down, which was asked for in this folder. */
export async function removeData({ home }: Pick<Place, 'home'>, folder: string): Promise<void> {
  // The data is renamed first, so that the remains of a killed removal are recognized.
  const away = stagingName(home);
  await rename(home, away).catch(unless('ENOENT'));
  await rm(away, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  // The copy of the binaries beside data in the temporary directory.
  if (dirname(home) !== realpathSync(folder)) await rm(dirname(home), { recursive: true, force: true });
}

const inUse = (why: string, remedy: string): ShelfdeskError =>
  new ShelfdeskError(`the demo is not removed: ${why}`, remedy);
