/**
 * What `npm test` runs where neither CI nor PROVE is set and no file is named: everything in process, the SQL of the warehouse, and
 * a file for each kind of work. The others show the same of other commands, sources, worlds and failures.
 */
import { globSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const { CI, PROVE } = process.env;

/** `vitest run FILE…` */
const isNamed = process.argv.slice(3).some(one => !one.startsWith('-'));
const runsAll = Boolean(CI || PROVE || isNamed);

const ofEachKind = [
  ...['sync', 'backfill', 'sweep', 'verify', 'audit', 'books', 'hydration', 'ties', 'queue', 'erase'],
  ...['why', 'doctor', 'probes', 'alarms', 'agents-over-http', 'control-commands', 'refusals', 'generated'],
].map(name => `test/integration/${name}.test.ts`);

/** Of these files, the ones that run here. */
export function chosen(patterns: readonly string[]): string[] {
  if (runsAll) return [...patterns];
  return globSync(patterns as string[], { cwd: root }).filter(
    file => ofEachKind.includes(file) || (/\/warehouse\//.test(file) && !/messages-together/.test(file)),
  );
}

/** How many of these files do not run here. */
export const leftOut = (patterns: readonly string[]): number =>
  runsAll ? 0 : globSync(patterns as string[], { cwd: root }).length - chosen(patterns).length;
