/**
 * Which Shelfdesk this process runs: its version, and a fingerprint of its sources. Two commits may have the same version, and a
 * worker of each may live.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

interface Manifest {
  readonly version: string;
  /** In the built package: the fingerprint of the sources that it was compiled from. */
  readonly build?: string;
}

let known: string | undefined;

/** `0.1.0+3f9a2c1b`, the same in a clone and in the package that was built from it. Reads the sources once, in about 10 ms. */
export function versionAndBuild(): string {
  if (known !== undefined) return known;
  const root = fileURLToPath(new URL('../../', import.meta.url));
  const { version, build }: Manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  known = `${version}+${build ?? fingerprintOf(root)}`;
  return known;
}

/** Eight hexadecimal digits that differ for any two states of the folders `src` and `jobs`. */
// @internal The build of the packages notes it in them.
export function fingerprintOf(root: string): string {
  const hash = createHash('sha256');
  for (const folder of ['src', 'jobs']) {
    const files = readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter(one => one.isFile())
      .map(one => join(one.parentPath, one.name))
      .sort();
    for (const file of files) hash.update(`${relative(root, file).split(sep).join('/')}\n`).update(readFileSync(file));
  }
  return hash.digest('hex').slice(0, 8);
}
