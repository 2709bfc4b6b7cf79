/**
 * `npm run source-test -- --seeds 20 [--from n]`: the sources of the guide and of the examples, in so many worlds each. All of them are right,
 * so what is refuted is a false alarm, or a mistake of the engine: its story is printed.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { testSource } from '../../../src/source-test/test-source.ts';
import type { Source } from '../../../src/sources/source.ts';
import { blocks, root } from '../../../test/conformance/tree.ts';
import { startOwnServer } from '../../../test/support/own-server.ts';

const { values } = parseArgs({
  options: { seeds: { type: 'string', default: '5' }, from: { type: 'string', default: '2' } },
});
const folder = mkdtempSync(join(tmpdir(), `shelfdesk-source-test-${process.pid}-`));
const ofGuide = blocks.filter(({ file }) => /\/(crm|billing)\.ts$/.test(file));
for (const [n, { text }] of ofGuide.entries())
  writeFileSync(join(folder, `${n}.ts`), text.replaceAll("'shelfdesk/source'", `'${root}src/sources/declare.ts'`));
const files = [
  ...ofGuide.map((_, n) => join(folder, `${n}.ts`)),
  ...['redmine', 'request-tracker'].map(name => join(root, 'examples', name, `${name}.ts`)),
];
try {
  for (const file of files) {
    const [source] = Object.values((await import(file)) as Record<string, Source>);
    await using server = await startOwnServer({ empty: true, settings: { fsync: 'off', full_page_writes: 'off' } });
    const [begunMs, seed, seeds] = [performance.now(), Number(values.from), Number(values.seeds)];
    const tested = await testSource(source!, { url: server.url, seed, seeds });
    const { isRight, plays, refutations, limits } = tested;
    const took = `${plays} plays, ${Math.round((performance.now() - begunMs) / 1000)} s`;
    console.log(`${source!.name}, seeds ${seed} to ${seed + seeds - 1}: ${isRight ? 'right' : 'refuted'}, ${took}`);
    if (isRight) continue;
    process.exitCode = 1;
    console.log(JSON.stringify({ refutations, limits: limits.wrong }, null, 2));
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
