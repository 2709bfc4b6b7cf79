/**
 * `npm run mutants -- FILE… [--tests FILE…] [--servers] [--all] [--every n] [--workers n] [--seconds n] [--json]`: makes each small
 * change of these files, in a copy, and says which test file notices it. A change is over with the first that does; --all runs all
 * that reach it, and so says what only one of them kills.
 */
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { byTest, report } from './report.ts';
import { tryChanges } from './try-changes.ts';

const { values, tokens } = parseArgs({
  options: {
    tests: { type: 'boolean' },
    servers: { type: 'boolean', default: false },
    all: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    every: { type: 'string', default: '1' },
    workers: { type: 'string', default: String(availableParallelism()) },
    seconds: { type: 'string', default: '20' },
  },
  allowPositionals: true,
  tokens: true,
});
const [files, tests]: [string[], string[]] = [[], []];
let list = files;
for (const token of tokens)
  if (token.kind === 'positional') list.push(token.value);
  else if (token.kind === 'option') list = token.name === 'tests' ? tests : files;

if (files.length === 0) throw new Error('Name the files to change: npm run mutants -- src/engine/budget/ledger.ts');
// The first Ctrl-C ends it with what is known by then, a second at once. The copies go either way.
const stop = new AbortController();
process.on('SIGINT', () => (stop.signal.aborted ? process.exit(130) : stop.abort()));
process.once('SIGTERM', () => process.exit(143));
const outcome = await tryChanges({
  ...{ project: fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, ''), files, tests },
  ...{ servers: values.servers, all: values.all, every: Number(values.every), workers: Number(values.workers) },
  leastSeconds: Number(values.seconds),
  say: progress => console.error(progress),
  stop: stop.signal,
});
console.log(
  values.json ? JSON.stringify({ ...outcome, tests: byTest(outcome) }, null, 1) : report(outcome, values.all),
);
