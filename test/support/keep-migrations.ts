/**
 * The checksums of all migrations that have landed: test/unit/migrations.txt, a line for each. Run as a program it adds
 * those that are missing, and refuses where one that is there has changed.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checksumOf } from '../../src/engine/database/checksums.ts';

const list = fileURLToPath(new URL('../unit/migrations.txt', import.meta.url));
const folder = fileURLToPath(new URL('../../migrations/', import.meta.url));

/** By name, without `.sql`. */
export const readKept = (): Map<string, string> =>
  new Map(
    readFileSync(list, 'utf8')
      .split('\n')
      .filter(line => line !== '')
      .map(line => line.split(' ') as [string, string]),
  );

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const kept = readKept();
  for (const file of readdirSync(folder).filter(name => name.endsWith('.sql'))) {
    const name = file.replace(/\.sql$/, '');
    const checksum = checksumOf(readFileSync(join(folder, file), 'utf8'));
    if (!kept.has(name)) kept.set(name, checksum);
    else if (kept.get(name) !== checksum) {
      console.error(`${name} has landed with another text: put it back, and write a migration of its own`);
      process.exitCode = 1;
    }
  }
  const lines = [...kept].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, checksum]) => `${name} ${checksum}\n`);
  writeFileSync(list, lines.join(''));
}
