/** The oldest Node that the program runs on. Importing this file before all others ends the program on an older one. */
import { readFileSync } from 'node:fs';

const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
export const version: string = manifest.version;
/** `22.19`, as package.json says. */
export const leastNode: string = manifest.engines.node.replace('>=', '');

/** `node`: such as `22.19.0`. */
export function isTooOld(node: string): boolean {
  const [major = 0, minor = 0] = node.split('.').map(Number);
  const [leastMajor = 0, leastMinor = 0] = leastNode.split('.').map(Number);
  return major < leastMajor || (major === leastMajor && minor < leastMinor);
}

if (isTooOld(process.versions.node)) {
  process.stderr.write(
    `error: Shelfdesk runs on Node ${leastNode} and later; this is ${process.versions.node}\n` +
      'Install a newer Node (https://nodejs.org), and run the command again.\n',
  );
  process.exit(2);
}
