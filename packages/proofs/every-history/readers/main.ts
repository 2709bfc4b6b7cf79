/**
 * Plays every history of the small worlds, on as many threads as there are cores, and says how far it is.
 *
 *   npm run every-history                       all worlds
 *   npm run every-history -- --slice            those of a minute
 *   npm run every-history -- --only "walk by"   worlds whose title has this text
 *   npm run every-history -- --again            small ones with and without the saving, to compare
 *   npm run every-history -- --planted          planted mistakes, and the smallest world that finds each
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { type Explored, explore } from './explore.ts';
import { planted, withPlanted } from './planted.ts';
import { readers, type SmallWorld } from './small-worlds.ts';
import { nameOf, slice, worlds } from './worlds.ts';

interface Asked {
  readonly slice: boolean;
  readonly only: string | undefined;
}
type Told = { readonly at: number; readonly explored: Explored };

const chosen = ({ slice: isSlice, only }: Asked): SmallWorld[] =>
  [...(isSlice ? slice() : worlds())].filter(world => only === undefined || nameOf(world).includes(only));

if (!isMainThread) serve();

/** A thread plays the worlds that it is told, one after the other. */
function serve(): void {
  const games = chosen(workerData as Asked);
  parentPort!.on('message', (at: number) => {
    parentPort!.postMessage({ at, explored: explore(games[at]!.game(readers)) } satisfies Told);
  });
}

export async function playReaders(): Promise<void> {
  const { values } = parseArgs({
    options: {
      slice: { type: 'boolean', default: false },
      only: { type: 'string' },
      again: { type: 'boolean', default: false },
      planted: { type: 'boolean', default: false },
      workers: { type: 'string', default: String(availableParallelism()) },
    },
  });
  if (values.planted) return findPlanted();
  const asked: Asked = { slice: values.slice || values.again, only: values.only };
  const games = chosen(asked);
  if (games.length === 0) {
    console.error(`No world has "${values.only}" in its title.`);
    process.exitCode = 2;
    return;
  }
  if (values.again) return compare(games);
  const begun = performance.now();
  const sums = new Map<string, { worlds: number; histories: number; states: number }>();
  const wrong: string[] = [];
  // Large worlds stand together in the list. Spread out, what is left takes as long as what is done.
  const order = spread(games.length);
  let next = 0;
  let done = 0;
  const said = () => {
    const all = [...sums.values()];
    const histories = all.reduce((sum, one) => sum + one.histories, 0);
    const seconds = (performance.now() - begun) / 1000;
    const left = (seconds / done) * (games.length - done);
    return `${done} of ${games.length} worlds, ${count(histories)} histories, ${wrong.length} wrong, ${duration(seconds)}, about ${duration(left)} left`;
  };
  const every = setInterval(() => console.log(said()), process.stdout.isTTY ? 5000 : 60_000);
  const threads = Array.from(
    { length: Number(values.workers) },
    () => new Worker(new URL(import.meta.url), { workerData: asked }),
  );
  await Promise.all(
    threads.map(
      thread =>
        new Promise<void>((resolve, reject) => {
          const give = () => (next < games.length ? thread.postMessage(order[next++]) : resolve());
          thread.on('error', reject);
          thread.on('message', ({ at, explored }: Told) => {
            done++;
            const world = games[at]!;
            const sum = sums.get(world.reader) ?? { worlds: 0, histories: 0, states: 0 };
            sum.worlds++;
            sum.histories += explored.histories;
            sum.states += explored.states;
            sums.set(world.reader, sum);
            if (explored.found) {
              const story = explored.found.story.map((line, i) => `  ${i + 1}. ${line}`);
              wrong.push([`WRONG: ${explored.found.wrong}`, `in ${nameOf(world)}`, ...story].join('\n'));
              console.error(wrong.at(-1));
            }
            give();
          });
          give();
        }),
    ),
  );
  clearInterval(every);
  await Promise.all(threads.map(thread => thread.terminate()));
  for (const [reader, sum] of sums)
    console.log(`${reader}: ${sum.worlds} worlds, ${count(sum.histories)} histories in ${count(sum.states)} states`);
  const all = [...sums.values()].reduce((sum, { histories }) => sum + histories, 0);
  console.log(`${count(all)} histories, ${wrong.length} worlds wrong, ${duration((performance.now() - begun) / 1000)}`);
  process.exitCode = wrong.length > 0 ? 1 : 0;
}

/** All numbers below `count`, in an order in which neighbours are far from each other. */
function spread(count: number): number[] {
  const placeOf = (n: number) => (n * 0.618034) % 1;
  return Array.from({ length: count }, (_, n) => n).sort((a, b) => placeOf(a) - placeOf(b));
}

/** The saving loses nothing: without it the same histories are counted, one by one. */
function compare(games: readonly SmallWorld[]): void {
  let differ = 0;
  let [saved, played] = [0, 0];
  for (const world of games) {
    const once = explore(world.game(readers));
    if (once.histories > 20_000) continue;
    const again = explore(world.game(readers), { again: true });
    saved += once.states;
    played += again.states;
    if (again.histories === once.histories && !again.found === !once.found) continue;
    differ++;
    console.error(`${nameOf(world)}: ${once.histories} histories, ${again.histories} without the saving`);
  }
  console.log(`${count(saved)} states instead of ${count(played)}; ${differ} worlds differ`);
  process.exitCode = differ > 0 ? 1 : 0;
}

/** A table in Markdown, for docs/contributing/every-history.md. */
async function findPlanted(): Promise<void> {
  const bySize = [...slice()].sort((a, b) => a.size - b.size);
  console.log('| reader | mistake | the smallest world that finds it |\n| --- | --- | --- |');
  for (const mistake of planted) {
    const world = await withPlanted(mistake, mistaken =>
      bySize.find(
        ({ reader, game }) => reader === mistake.reader && explore(game(mistaken), { mostStates: 500_000 }).found,
      ),
    );
    console.log(`| ${mistake.reader} | ${mistake.what} | ${world?.title ?? 'NOT FOUND'} |`);
    if (world === undefined) process.exitCode = 1;
  }
}

function count(n: number): string {
  return n.toLocaleString('en-US', { maximumFractionDigits: 0 });
}

function duration(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  return minutes > 0 ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${Math.floor(seconds)} s`;
}
