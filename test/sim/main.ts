/**
 * `npm run sim -- --seeds 1000 [--from n] [--workers n]`: many seeds, on as many servers as there are workers.
 * `SEED=n npm run sim`: one of them, with all that happens in it.
 * `npm run sim -- --defects`: mistakes that were planted on purpose, and the seed that catches each of them.
 * `npm run sim -- --crash [--workers n]`: one short script, whose process dies before and after each write.
 */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type Crashes, tryCrashes } from './crash.ts';
import { Database } from './database.ts';
import { defects, type Planted } from './defects/index.ts';
import { planOf } from './plan.ts';
import { startServer } from './server.ts';
import { simulate, type Told } from './simulate.ts';

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
    url: { type: 'string' },
    step: { type: 'string', default: '1' },
  },
});
const [seeds, from, workers, step] = [asked.seeds, asked.from, asked.workers, asked.step].map(Number) as [
  number,
  number,
  number,
  number,
];

/** A worker: every so manieth seed, or place to die at, told to whoever has started it. */
async function workOff(url: string): Promise<void> {
  const database = await Database.open(url);
  const tell = (told: object) =>
    new Promise<void>(resolve => process.send!(told, undefined, undefined, () => resolve()));
  if (asked.crash) await tryCrashes(database, { every: step, from, tell });
  else
    for (let seed = from; seed < from + seeds; seed += step) {
      const { trace: _, ...told } = await simulate(seed, { database });
      await tell(told);
    }
  await database.close();
  process.disconnect();
}

/** Each with a server of its own. */
async function inWorkers<T>(
  argsOf: (n: number) => readonly string[],
  told: (one: T, n: number) => void,
): Promise<void> {
  const beginOne = async (n: number) => {
    await using server = await startServer();
    const args = ['--url', server.url, '--step', String(workers), ...argsOf(n)];
    await new Promise<void>((resolve, reject) => {
      const child = fork(fileURLToPath(import.meta.url), args);
      child.on('message', one => told(one as T, n));
      child.on('exit', code => (code === 0 ? resolve() : reject(new Error(`a worker ended with ${code}`))));
    });
  };
  // One that fails leaves no server of another one behind.
  const ends = await Promise.allSettled(Array.from({ length: workers }, (_, n) => beginOne(n)));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

async function many(): Promise<void> {
  const beganMs = performance.now();
  const total = { seeds: 0, steps: 0, checks: 0, changes: 0, requests: 0, deaths: 0 };
  const failed: Told[] = [];
  const told = (one: Told) => {
    total.seeds++;
    for (const key of ['steps', 'checks', 'changes', 'requests', 'deaths'] as const) total[key] += one[key];
    if (one.complaints.length > 0) {
      failed.push(one);
      console.log(`seed ${one.seed}: ${one.complaints.join('\n  ')}`);
    }
    if (total.seeds % 500 === 0) console.log(`${total.seeds} seeds, ${failed.length} failed, ${seconds(beganMs)} s`);
  };
  await inWorkers(n => ['--from', String(from + n), '--seeds', String(seeds - n)], told);
  const { steps, checks, changes, requests, deaths } = total;
  console.log(
    `${total.seeds} seeds from ${from}: ${failed.length} failed. ${number(steps)} effects, ${number(requests)} requests, ` +
      `${number(changes)} changes at the source, ${number(deaths)} processes killed, ${number(checks)} looks at the tables, ` +
      `${seconds(beganMs)} s.`,
  );
  if (failed.length > 0) {
    console.log(
      `Failed: ${failed.map(({ seed }) => seed).join(', ')}. To see one: SEED=${failed[0]!.seed} npm run sim`,
    );
    process.exitCode = 1;
  }
}

async function replay(seed: number): Promise<void> {
  await using server = await startServer();
  const database = await Database.open(server.url);
  const { trace = [], complaints, hash } = await simulate(seed, { database, traced: true });
  for (const line of trace) console.log(line);
  console.log(`seed ${seed}, trace ${hash.toString(16)}: ${complaints.length === 0 ? 'all is well' : ''}`);
  for (const complaint of complaints) console.log(`  ${complaint}`);
  await database.close();
  if (complaints.length > 0) process.exitCode = 1;
}

async function plant(): Promise<void> {
  await using server = await startServer();
  const database = await Database.open(server.url);
  for (const [name, planted] of Object.entries(defects)) {
    if (!name.includes(asked.only)) continue;
    const caught = await firstCaught(database, planted);
    if (caught === undefined) process.exitCode = 1;
    console.log(
      `${name}: ${caught ? `caught by seed ${caught.seed}: ${caught.complaint}` : 'NOT CAUGHT by 200 seeds'}`,
    );
  }
  await database.close();
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
async function crash(): Promise<void> {
  const beganMs = performance.now();
  const soFar = new Map<number, Crashes>();
  const failed = new Set<string>();
  let saidMs = beganMs;
  const sum = (key: 'points' | 'of') => [...soFar.values()].reduce((all, one) => all + one[key], 0);
  console.log('One script. Its process dies before and after each write. All runs must end with the same tables.');
  await inWorkers<Crashes>(
    n => ['--crash', '--from', String(1 + n)],
    (told, n) => {
      soFar.set(n, told);
      for (const what of told.failed.filter(what => !failed.has(what))) {
        failed.add(what);
        console.log(`  ${what}`);
      }
      if (performance.now() - saidMs < 30_000 || soFar.size < workers) return;
      saidMs = performance.now();
      const left = Math.round((seconds(beganMs) * (sum('of') - sum('points'))) / sum('points'));
      console.log(
        `${sum('points')} of ${sum('of')} deaths, ${failed.size} failed, ${seconds(beganMs)} s, about ${left} s left`,
      );
    },
  );
  console.log(`${sum('points')} deaths: ${failed.size} failed, ${seconds(beganMs)} s.`);
  if (failed.size > 0) process.exitCode = 1;
}

const seconds = (beganMs: number) => Math.round((performance.now() - beganMs) / 1000);
const number = (n: number) => n.toLocaleString('en-US');

if (asked.url !== undefined) await workOff(asked.url);
else if (process.env.SEED) await replay(Number(process.env.SEED));
else if (asked.defects) await plant();
else if (asked.crash) await crash();
else await many();
