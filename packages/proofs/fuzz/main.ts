/**
 * `npm run fuzz -- --cases 20000 [--from n]`: hostile records, one a seed, and what each of them has cost others.
 * `SEED=n npm run fuzz`: one of them, and its text.
 */
import { parseArgs } from 'node:util';
import { startOwnServer } from '../../../test/support/own-server.ts';
import { Fuzz, kindOf } from './commit.ts';

const { values } = parseArgs({
  options: { cases: { type: 'string', default: '2000' }, from: { type: 'string', default: '1' } },
});
const only = process.env.SEED === undefined ? undefined : Number(process.env.SEED);
const from = only ?? Number(values.from);
const cases = only === undefined ? Number(values.cases) : 1;

const begunMs = performance.now();
let failed = 0;
for (const erased of [false, true]) {
  await using server = await startOwnServer({ settings: { fsync: 'off', full_page_writes: 'off' } });
  await using fuzz = await Fuzz.open({ url: server.url, drop: async () => {} }, { erased });
  for (
    let seed = from + (only === undefined && erased ? 1 : 0);
    seed < from + cases;
    seed += only === undefined ? 2 : 1
  ) {
    const complaints = await fuzz.run(seed);
    if (only !== undefined && !erased) console.log(fuzz.text);
    if (complaints.length === 0) continue;
    failed++;
    console.log(
      `seed ${seed} (${kindOf(seed)}${erased ? ', somebody was erased' : ''}): ${complaints.join('\n  ').slice(0, 1500)}`,
    );
  }
  for (const complaint of await fuzz.readViews()) console.log(`${++failed} view ${complaint}`);
}
console.log(`${cases} cases from ${from}: ${failed} failed, ${Math.round((performance.now() - begunMs) / 1000)} s.`);
if (failed > 0) process.exitCode = 1;
