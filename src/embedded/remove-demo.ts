/** Removes the demo: its folder, and what root's server keeps of it in the temporary directory. */
import { realpathSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { ShelfdeskError } from '../errors.ts';
import { look } from './cluster.ts';
import { type Demo, databaseOf, hasEmbedded } from './demo-place.ts';
import { findPlace, stagingName } from './place.ts';
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
    // The folder is renamed first, so that the remains of a killed removal are recognized.
    const away = stagingName(place.home);
    await rename(place.home, away);
    await rm(away, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
    // The copy of the binaries beside data in the temporary directory.
    if (dirname(place.home) !== realpathSync(demo.folder))
      await rm(dirname(place.home), { recursive: true, force: true });
  }
  await rm(demo.folder, { recursive: true, force: true });
}

const inUse = (why: string, remedy: string): ShelfdeskError =>
  new ShelfdeskError(`the demo is not removed: ${why}`, remedy);
