/** Many seeds, and how far they are. */
import type { Database } from './database.ts';
import { simulate, type Told } from './simulate.ts';
import { inWorkers } from './workers.ts';

const sums = [
  ...(['steps', 'checks', 'changes', 'requests', 'deaths', 'erased', 'ruled', 'catalog', 'ahead', 'batches'] as const),
  ...(['exports', 'exportsDied'] as const),
];
type Total = Record<(typeof sums)[number], number>;

/** How often it says how far it is. */
const everyMs = 30_000;

/** Answers whether all went well, and to the end. */
export async function many({ seeds, from, workers }: { seeds: number; from: number; workers: number }) {
  const beganMs = performance.now();
  const seconds = () => (performance.now() - beganMs) / 1000;
  const total = Object.fromEntries(sums.map(key => [key, 0])) as Total;
  const failed: number[] = [];
  let done = 0;
  let memory = 0;
  let saidMs = beganMs;
  const stopped = await inWorkers<Told & { rss: number }>(workers, {
    args: n => ['--from', String(from + n), '--seeds', String(seeds - n)],
    told(one) {
      done++;
      memory = Math.max(memory, one.rss);
      for (const key of sums) total[key] += one[key];
      if (one.complaints.length > 0) {
        failed.push(one.seed);
        console.log(`seed ${one.seed}: ${one.complaints.join('\n  ')}\n  to see it: ${replayOf(one.seed)}`);
      }
      if (performance.now() - saidMs < everyMs || done === seeds) return;
      saidMs = performance.now();
      const rate = done / seconds();
      console.log(
        `${number(done)} of ${number(seeds)} seeds, ${failed.length} failed, ${rate.toFixed(1)} a second, ` +
          `${number(memory / 1e6)} MB a worker, about ${span((seeds - done) / rate)} left`,
      );
    },
  });
  console.log(
    `${stopped ? `Stopped after ${number(done)} of ${number(seeds)}` : number(done)} seeds from ${from}: ${failed.length} failed. ` +
      `${number(total.steps)} effects, ${number(total.requests)} requests, ${number(total.changes)} changes at the help desk, ` +
      `${number(total.ahead)} tickets dated ahead, ${number(total.catalog)} changes in the catalog, ${number(total.erased)} people erased, ` +
      `${number(total.ruled)} times field rules during runs, ` +
      `${number(total.exports)} exports to a lake and ${number(total.exportsDied)} that died, ` +
      `${number(total.batches)} transactions of several pages, ${number(total.deaths)} processes killed, ` +
      `${number(total.checks)} looks at the tables, ${span(seconds())}.`,
  );
  if (total.exports === 0 && !process.env.LAKE_EXTENSIONS)
    console.log('Not run: the lake. Its export needs extensions of DuckDB, and they are not to be had here.');
  if (failed.length > 0)
    console.log(
      `Failed:\n${failed
        .sort((a, b) => a - b)
        .map(replayOf)
        .join('\n')}`,
    );
  return failed.length === 0 && !stopped;
}

/** The share of one worker. */
export async function someSeeds(
  database: Database,
  { from, seeds, step }: { from: number; seeds: number; step: number },
  tell: (told: object) => Promise<void>,
  isStopped: () => boolean,
): Promise<void> {
  for (let seed = from; seed < from + seeds && !isStopped(); seed += step) {
    const { trace: _, effects: __, writes: ___, ...told } = await simulate(seed, { database });
    await tell({ ...told, rss: process.memoryUsage.rss() });
  }
}

const replayOf = (seed: number) => `SEED=${seed} npm run sim`;
export const number = (n: number) => Math.round(n).toLocaleString('en-US');

/** `12 s`, `3 min`, `2 h 5 min`. */
export function span(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
