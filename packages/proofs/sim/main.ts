/**
 * `npm run sim -- --seeds 1000 [--from n] [--workers n]`: many seeds, on as many servers as there are workers.
 * `SEED=n npm run sim`: one of them, with all that happens in it.
 * `npm run sim -- --defects`: mistakes that were planted on purpose, and the seed that catches each of them.
 * `npm run sim -- --crash [--workers n]`: one script, whose process dies at each of its effects.
 */
import { parseArgs } from 'node:util';
import { findExtensions } from '../../lake/test/support/extensions.ts';
import { type Crashes, tryCrashes } from './crash.ts';
import { Database } from './database.ts';
import { defects, type Planted } from './defects/index.ts';
import { many, number, someSeeds, span } from './many.ts';
import { planOf } from './plan.ts';
import { startServer } from './server.ts';
import { simulate } from './simulate.ts';
import { asWorker, inWorkers } from './workers.ts';

const { values: asked } = parseArgs({
  options: {
    seeds: { type: 'string', default: '100' },
    from: { type: 'string', default: '1' },
    workers: { type: 'string', default: '2' },
    defects: { type: 'boolean', default: false },
    // Of the defects only those whose name holds this.
    only: { type: 'string', default: '' },
    crash: { type: 'boolean', default: false },
    // Of a worker, which is started by this program itself.
    worker: { type: 'boolean', default: false },
    step: { type: 'string', default: '1' },
  },
});
const [seeds, from, workers, step] = [asked.seeds, asked.from, asked.workers, asked.step].map(Number) as [
  number,
  number,
  number,
  number,
];

async function replay(seed: number): Promise<boolean> {
  await using server = await startServer();
  const database = await Database.open(server.url);
  const { trace = [], complaints, hash } = await simulate(seed, { database, traced: true });
  for (const line of trace) console.log(line);
  console.log(`seed ${seed}, trace ${hash.toString(16)}: ${complaints.length === 0 ? 'all is well' : ''}`);
  for (const complaint of complaints) console.log(`  ${complaint}`);
  database.close();
  return complaints.length === 0;
}

async function plant(): Promise<boolean> {
  await using server = await startServer();
  const database = await Database.open(server.url);
  let all = true;
  for (const [name, planted] of Object.entries(defects)) {
    if (!name.includes(asked.only)) continue;
    const caught = await firstCaught(database, planted);
    all &&= caught !== undefined;
    console.log(
      `${name}: ${caught ? `caught by seed ${caught.seed}: ${caught.complaint}` : 'NOT CAUGHT by 200 seeds'}`,
    );
  }
  database.close();
  return all;
}

/** Tries plans as drawn, then plans that make the defect likely. The seed has to be clean without the defect. */
async function firstCaught(database: Database, { defect, by, recorded }: Planted) {
  for (const sharpened of [undefined, ...(recorded.sharpened ? [recorded.sharpened] : [])])
    for (let seed = from; seed < from + 200; seed++) {
      const plan = sharpened?.(planOf(seed)) ?? {};
      const { complaints } = await simulate(seed, { database, defect, plan });
      const complaint = complaints.find(what => by.test(what));
      if (complaint !== undefined && (await simulate(seed, { database, plan })).complaints.length === 0)
        return { seed: `${seed}${sharpened ? ', sharpened' : ''}`, complaint };
    }
  return undefined;
}

/** Says each half minute how far it is. */
async function crash(): Promise<boolean> {
  const beganMs = performance.now();
  const seconds = () => (performance.now() - beganMs) / 1000;
  const soFar = new Map<number, Crashes>();
  const failed = new Set<string>();
  let saidMs = beganMs;
  const sum = (key: 'points' | 'of') => [...soFar.values()].reduce((all, one) => all + one[key], 0);
  console.log(
    'One script. Its process dies before each effect, and after each write. All runs must end with the same tables.',
  );
  const stopped = await inWorkers<Crashes>(workers, {
    args: n => ['--crash', '--from', String(1 + n)],
    told(told, n) {
      soFar.set(n, told);
      for (const what of told.failed.filter(what => !failed.has(what))) {
        failed.add(what);
        console.log(`  ${what}`);
      }
      if (performance.now() - saidMs < 30_000 || soFar.size < workers) return;
      saidMs = performance.now();
      const left = (seconds() * (sum('of') - sum('points'))) / sum('points');
      console.log(
        `${number(sum('points'))} of ${number(sum('of'))} deaths, ${failed.size} failed, ${span(seconds())}, about ${span(left)} left`,
      );
    },
  });
  const counts = new Set(
    [...soFar.values()].map(({ effects, writes }) => `${effects} effects, of which ${writes} write`),
  );
  const [{ effects, writes } = { effects: 0, writes: 0 }] = soFar.values();
  const isComplete = counts.size === 1 && sum('points') === effects + writes;
  console.log(
    `${[...counts].join(' or ')}: ${number(sum('points'))} deaths, ${isComplete ? 'complete' : 'NOT COMPLETE'}. ` +
      `${failed.size} failed, ${span(seconds())}.`,
  );
  return failed.size === 0 && isComplete && !stopped;
}

// Without them no seed has a lake.
await findExtensions();
if (asked.worker)
  await asWorker((database, tell, isStopped) =>
    asked.crash
      ? tryCrashes(database, { every: step, from, tell, isStopped }).then(() => {})
      : someSeeds(database, { from, seeds, step }, tell, isStopped),
  );
else {
  const isWell = process.env.SEED
    ? await replay(Number(process.env.SEED))
    : asked.defects
      ? await plant()
      : asked.crash
        ? await crash()
        : await many({ seeds, from, workers });
  if (!isWell) process.exitCode = 1;
}
