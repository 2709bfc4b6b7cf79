/** Ends the program with a clear error on a Node that it does not run on. main.ts imports this file before all others. */
import { readFileSync } from 'node:fs';

const needed = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).engines.node.slice(2);
const [major, minor] = process.versions.node.split('.').map(Number) as [number, number];
const [oldestMajor, oldestMinor] = needed.split('.').map(Number);
if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
  process.stderr.write(
    `error: Shelfdesk runs on Node ${needed} and later; this is ${process.versions.node}\n` +
      'Install a newer Node (https://nodejs.org), and run the command again.\n',
  );
  process.exit(2);
}
