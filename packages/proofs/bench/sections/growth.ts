/** Whether what a page takes, and the memory of the process, grow with the history. */
import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { settingsFor } from '../../../../test/support/cli.ts';
import { memoryOf, peakOf } from '../cpu.ts';
import type { Order, Page, Told } from '../growing-desk.ts';
import { openDatabase } from '../lab.ts';
import { byFirstLine } from '../load.ts';
import type { Report, Section } from '../report.ts';

const sizes = [10_000, 100_000, 1_000_000];
const details = 2000;
/** Beyond Node's own start. */
const mostMb = 120;
const shown = (n: number) => n.toLocaleString('en-US');

export const growth: Section = {
  name: 'growth',
  title: 'Growth',
  about: `A help desk that grows to ${sizes.map(shown).join(', ')} tickets, one for each second, over HTTP at no limit; after each step \`sync tickets\`, with history and metrics, into tables that are never analysed nor vacuumed, and then the messages of ${shown(details)} tickets while all others wait for theirs. At the end all is read again, unchanged. Memory: the most that a process had resident, less than what \`node -e\` takes.`,
  run: measure,
};

async function measure({ quick, figure }: Report): Promise<void> {
  const scale = quick ? 0.1 : 1;
  await using stack = new AsyncDisposableStack();
  const { url, pool } = stack.use(await openDatabase());
  await pool.query('alter system set autovacuum = off');
  await pool.query('select pg_reload_conf()');
  const desk = fork(fileURLToPath(new URL('../growing-desk.ts', import.meta.url)), { execArgv: [] });
  stack.defer(() => void desk.kill());
  const tell = (order: Order) => desk.send(order);
  const hear = async () => ((await once(desk, 'message')) as [Told])[0];
  const served = (await hear()) as { url: string };
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-bench-'));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  const settings = settingsFor(url, { url: served.url, token: 'any' });
  const startMb = await idleMb();

  const sync = (stream: string) => watched(folder, settings, ['sync', stream]);
  const readTickets = async (): Promise<{ pages: Page[]; peakMb: number }> => {
    const { ended } = sync('tickets');
    const peakMb = await ended;
    tell({ tell: 'pages' });
    return { ...((await hear()) as { pages: Page[] }), peakMb };
  };

  const first: Page[][] = [];
  for (const size of sizes.map(one => one * scale)) {
    tell({ grow: size });
    // What grows here is dated before the last reading: the mirror is told that it has not read it.
    await pool.query(
      `update sync.coverage set covered = tstzmultirange(tstzrange('1970-01-01', (select max(updated_at) from helpdesk.tickets)))`,
    );
    const { pages, peakMb } = await readTickets();
    first.push(pages);
    const headline = size === sizes.at(-1);
    figure({ what: `${shown(size)} tickets: a page`, unit: 'ms', rounds: [msOf([pages], size / 2, size)] });
    figure({
      what: `${shown(size)} tickets: memory beyond Node's own start`,
      unit: 'MB',
      rounds: [peakMb - startMb],
      ...{ atMost: mostMb, headline },
    });
    tell({ tellAfterDetails: details * scale });
    const messages = sync('messages');
    const { detailMs } = (await hear()) as { detailMs: number };
    messages.child.kill('SIGINT');
    const messagesMb = await messages.ended;
    figure({
      what: `${shown(size)} tickets wait: the messages of one`,
      unit: 'ms',
      rounds: [detailMs],
    });
    figure({
      what: `${shown(size)} tickets wait: memory beyond Node's own start`,
      unit: 'MB',
      rounds: [messagesMb - startMb],
      atMost: mostMb,
    });
  }
  const [part, all] = [100_000 * scale, 1_000_000 * scale];
  figure({
    what: 'first load: the rate at the millionth ticket, of that of the first 100,000',
    unit: '×',
    rounds: [msOf(first, 0, part) / msOf(first, all - part, all)],
    ...{ atLeast: 0.9, headline: true },
  });

  await pool.query(`update sync.coverage set covered = '{}'`);
  const again = await readTickets();
  figure({
    what: 'read again, unchanged: the rate at the millionth ticket, of that of the first 100,000',
    unit: '×',
    rounds: [msOf([again.pages], 0, part) / msOf([again.pages], all - part, all)],
    ...{ atLeast: 0.9, headline: true },
  });
  figure({
    what: `${shown(all)} tickets, unchanged: memory beyond Node's own start`,
    unit: 'MB',
    rounds: [again.peakMb - startMb],
    atMost: mostMb,
  });
}

/** From one page to the next, on average, where a run has read these tickets. */
function msOf(runs: readonly (readonly Page[])[], from: number, to: number): number {
  const gaps = runs.flatMap(pages =>
    pages.slice(1).flatMap((page, i) => {
      const before = pages[i]!;
      return before.first >= from && page.first > before.first && page.first < to ? [page.atMs - before.atMs] : [];
    }),
  );
  return gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
}

/** By its first line, with the flags that keep the heap small. Ends with the most that was resident, in MB. */
function watched(folder: string, settings: Record<string, string>, args: readonly string[]) {
  const main = fileURLToPath(new URL('../../../../src/main.ts', import.meta.url));
  const child = spawn(main, args, {
    cwd: folder,
    stdio: 'ignore',
    env: { ...byFirstLine, ...settings },
  });
  let peak = 0;
  const watch = setInterval(() => {
    peak = Math.max(peak, peakOf(child.pid!));
  }, 50);
  const ended = once(child, 'close').then(() => {
    clearInterval(watch);
    return peak;
  });
  return { child, ended };
}

async function idleMb(): Promise<number> {
  const child = spawn(process.execPath, ['-e', `process.stdout.write('up'); setInterval(() => {}, 1000)`], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  await once(child.stdout!, 'data');
  const mb = memoryOf(child.pid!);
  child.kill();
  return mb;
}
