/**
 * `npm run power-cuts -- [--cuts 100] [--each 20] [--seed 1] [--tickets 300]`: power cuts, one after the other. A life of the
 * warehouse has `each` of them and a seed of its own. Ends with 1 if anything was wrong, or if too few cuts lost anything.
 * `npm run power-cuts -- --defects`: mistakes that were planted on purpose, and the cut that finds each of them.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { defects, plant } from './defects.ts';
import { type Life, live, type Told } from './life.ts';
import { startMachine } from './machine.ts';

const { values } = parseArgs({
  options: {
    cuts: { type: 'string', default: '100' },
    each: { type: 'string', default: '20' },
    seed: { type: 'string', default: '1' },
    tickets: { type: 'string', default: '300' },
    // How long PostgreSQL waits before it flushes on its own account. Longer, a cut loses more.
    'writer-delay': { type: 'string', default: '200ms' },
    defects: { type: 'boolean', default: false },
    // Of the defects only those whose name holds this.
    only: { type: 'string', default: '' },
  },
});
const [cuts, each, seed, tickets] = [values.cuts, values.each, values.seed, values.tickets].map(Number) as [
  number,
  number,
  number,
  number,
];
if (!(cuts >= 1 && each >= 1 && tickets >= 1 && Number.isSafeInteger(seed)) || process.platform !== 'linux') {
  console.error('npm run power-cuts -- [--cuts <n>] [--each <n>] [--seed <n>] [--tickets <n>], on Linux');
  process.exit(2);
}

const begunMs = performance.now();
const secondsSince = () => Math.round((performance.now() - begunMs) / 1000);
const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-power-cuts-'));
process.env.NODE_COMPILE_CACHE = join(folder, 'compiled');
process.exitCode = (await (values.defects ? findDefects() : cutPower())) ? 0 : 1;
rmSync(folder, { recursive: true, force: true });

function say(one: Told, life: number, of: string): void {
  const lost = `lost ${one.lostTransactions} transactions, ${one.lostBytes} bytes, replies of ${one.lostCredits} credits`;
  console.log(
    `${String(secondsSince()).padStart(4)} s  ${of}, seed ${life}: workers ${one.died ? 'die' : 'live'}; ${lost}`,
  );
  for (const words of one.wrong.slice(0, 5)) console.log(`  WRONG: ${words}`);
}

async function cutPower(): Promise<boolean> {
  await using machine = await startMachine({ wal_writer_delay: values['writer-delay'] });
  const lives: Life[] = [];
  for (let done = 0, life = seed; done < cuts; done += each, life++) {
    const lived = await live({
      machine,
      seed: life,
      cuts: Math.min(each, cuts - done),
      tickets,
      told: one => say(one, life, `cut ${done + one.cut} of ${cuts}`),
    });
    lives.push(lived);
    const { requests, ofCatalog, refused, busiest } = lived.totals;
    const repeated = lived.cuts.map(one => `${one.repeated} of ${one.said}`).join(', ');
    console.log(
      `${secondsSince()} s  seed ${life}: ${requests} requests and ${ofCatalog} of the catalog, ${refused} refused; ${Math.round(100 * busiest)} % of the credits in the busiest period; repeated of those said: ${repeated}`,
    );
    for (const words of lived.wrong) console.log(`WRONG with seed ${life}: ${words}`);
  }
  return sumUp(lives);
}

function sumUp(lives: readonly Life[]): boolean {
  const all = lives.flatMap(life => life.cuts);
  const most = (of: (one: (typeof all)[number]) => number) => Math.max(...all.map(of));
  const sum = (of: (one: (typeof all)[number]) => number) => all.reduce((total, one) => total + of(one), 0);
  const total = (of: (life: Life) => number) => lives.reduce((so, life) => so + of(life), 0);
  const lossy = all.filter(({ lostTransactions }) => lostTransactions > 0);
  const wrong = total(life => life.wrong.length);
  console.log(
    [
      `${all.length} cuts in ${secondsSince()} s, ${all.filter(({ died }) => died).length} of them with the workers`,
      `${lossy.length} lost what was committed: ${sum(one => one.lostTransactions)} transactions, at most ${most(one => one.lostTransactions)}; replies of ${sum(one => one.lostCredits)} credits, at most ${most(one => one.lostCredits)}`,
      `repeated requests: ${sum(one => one.repeated)}, at most ${most(one => one.repeated)} after a cut, where at most ${most(one => one.said)} may be; for ties, searches and the like ${total(life => life.others)}`,
      `refused: ${total(life => life.totals.refused)} of ${total(life => life.totals.requests)} requests, and ${total(life => life.totals.ofCatalog)} of the catalog`,
      wrong === 0 ? 'Nothing wrong.' : `${wrong} wrong.`,
    ].join('\n'),
  );
  const shows = lossy.length * 2 > all.length;
  if (!shows) console.log('At most half of the cuts lost anything, so this run shows nothing.');
  return wrong === 0 && shows;
}

async function findDefects(): Promise<boolean> {
  let missed = 0;
  for (const defect of defects.filter(({ name }) => name.includes(values.only))) {
    await using stack = new AsyncDisposableStack();
    const program = await plant(defect, stack);
    const machine = stack.use(await startMachine({ wal_writer_delay: '10s' }));
    const told = (one: Told) => say(one, seed, `cut ${one.cut}`);
    const { wrong, cuts: made } = await live({ machine, seed, cuts: each, tickets, told, program, untilWrong: true });
    if (wrong.length === 0) missed++;
    console.log(`${defect.name}: ${wrong[0] === undefined ? 'MISSED' : `found at cut ${made.length}: ${wrong[0]}`}`);
  }
  return missed === 0;
}
