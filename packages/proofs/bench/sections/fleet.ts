/** Many accounts in one process, at their full budget and at rest; and what the parts can do by themselves. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { openQueue } from '../../../../src/engine/queue/queue.ts';
import { startRedis } from '../../soak/servers.ts';
import type { AcquirerOptions } from '../acquirer.ts';
import { cpuOf, memoryOf, serverCpu } from '../cpu.ts';
import { startDesks, startWorker } from '../fleet-lab.ts';
import { openDatabase } from '../lab.ts';
import type { Report, Section } from '../report.ts';

const LIMITS = { credits: 100, requestsPerSecond: 6 };
const ROUNDS = 3;

export const fleet: Section = {
  name: 'fleet',
  title: 'Many accounts',
  about: `All accounts are served by one process of \`start\`, with Redis and the usual schedule, and have real limits: ${LIMITS.credits} credits a minute and
${LIMITS.requestsPerSecond} requests a second, half of them in fixed minutes and half in sliding ones, without a reserve. At their full budget each has more tickets that wait for
their messages than it has credits for (2 credits a ticket, 5 messages of 1 to 3 KB, half of them HTML), while one changes a minute; at rest
nothing changes, over whole minutes, because the schedule looks once a minute. CPU is in seconds of a processor for each second: the machine has as many of them as it has processors. The source is a
process of its own, on the same machine, and is counted apart.`,
  run: async report => {
    await acquiring(report);
    await queueing(report);
    await atRest(report);
    await atFullBudget(report);
  },
};

const fleetSize = ({ quick }: Report) => (quick ? 25 : 250);

async function atFullBudget(report: Report): Promise<void> {
  const accounts = fleetSize(report);
  await using stack = new AsyncDisposableStack();
  const served = await serveMany({ accounts, tickets: 400, changes: 1 }, stack);
  // Where the machine is too small for so many, they are never all at work at one moment.
  await served.until(`select distinct account_id from sync.stored_run_streams where stream = 'messages'`);
  // What was spent at once in the first minute is back, and is spent evenly from now on.
  await delay(report.quick ? 10_000 : 40_000);
  // A fixed minute may be spent at its beginning: a shorter span has more than its share, or less.
  const looks = await looksAt(served, report.quick ? 10_000 : 60_000);
  const spans = spansOf(looks);
  const whole = between(looks[0]!, looks.at(-1)!);
  const what = `${accounts} accounts at full budget`;
  const mean = (shares: readonly number[]) => shares.reduce((all, one) => all + one, 0) / shares.length;
  const shares = spans.map(span => mean(span.shares));
  report.figure({ what: `${what}: used of what is allowed`, unit: '×', rounds: shares, atLeast: 0.98, headline: true });
  const kept = whole.shares.filter(share => share >= 0.95).length;
  report.figure({ what: `${what}: accounts that used 95 % and more`, unit: '', rounds: [kept], atLeast: accounts });
  report.figure({ what: `${what}: refused for a limit (429)`, unit: '', rounds: [whole.refused], atMost: 0 });
  costFigures(report, what, spans);
  report.figure({ what: `${what}: CPU of the source`, unit: 's/s', rounds: spans.map(({ source }) => source) });
  const ages = await served.pool.query(
    `select percentile_cont(array[0.5, 0.95]) within group (order by latency_seconds)::float8[] as age
     from sync.change_latencies, generate_series(1, changes) where stream = 'messages'`,
  );
  const [half, most] = (ages.rows[0].age ?? []) as number[];
  if (half === undefined || most === undefined) return;
  report.figure({ what: `${what}: age of a change with its messages, p50`, unit: 's', rounds: [half] });
  report.figure({ what: `${what}: age of a change with its messages, p95`, unit: 's', rounds: [most] });
}

async function atRest(report: Report): Promise<void> {
  const accounts = fleetSize(report);
  await using stack = new AsyncDisposableStack();
  const served = await serveMany({ accounts, tickets: 5, changes: 0 }, stack);
  await served.until(
    `select from sync.accounts a where exists (
       select from sync.stored_runs r where r.account_id = a.account_id and r.kind = 'nightly' and r.state = 'completed')`,
  );
  await delay(10_000); // What is looked at again behind it.
  const what = `${accounts} accounts at rest`;
  // The schedule looks for changes once a minute: a shorter span has a whole look, or none.
  const spans = spansOf(await looksAt(served, 60_000));
  const both = spans.map(({ worker, server }) => worker + server);
  report.figure({
    what: `${what}: CPU of the worker and of PostgreSQL`,
    unit: 's/s',
    rounds: both,
    ...{ atMost: 0.15, headline: true },
  });
  costFigures(report, what, spans);
}

interface Look {
  readonly atMs: number;
  readonly worker: number;
  readonly server: number;
  readonly source: number;
  readonly memory: number;
  readonly credits: readonly number[];
  readonly refused: number;
}

async function serveMany(world: { accounts: number; tickets: number; changes: number }, stack: AsyncDisposableStack) {
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-fleet-'));
  stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const { url, pool } = stack.use(await openDatabase());
  const redis = await startRedis(folder, stack);
  const desks = await startDesks({ ...world, ...LIMITS }, stack);
  const accounts = Array.from({ length: world.accounts }, (_, i) => ({
    HELPDESK_BASE_URL: desks.url,
    token: `token-${i}`,
  }));
  const worker = await startWorker(folder, stack, { accounts, env: { DATABASE_URL: url, REDIS_URL: redis.url } });
  const serverSeconds = await serverCpu(pool);
  return {
    pool,
    /** Until there is a row for each account. */
    async until(query: string): Promise<void> {
      while ((await pool.query(query)).rows.length < world.accounts) await delay(1000);
    },
    async look(): Promise<Look> {
      const { credits, refused } = await desks.counts();
      const used = { worker: cpuOf(worker.pid), server: serverSeconds(), source: cpuOf(desks.pid) };
      return { atMs: performance.now(), ...used, memory: memoryOf(worker.pid), credits, refused };
    },
  };
}

function between(before: Look, after: Look) {
  const seconds = (after.atMs - before.atMs) / 1000;
  const each = (name: 'worker' | 'server' | 'source') => (after[name] - before[name]) / seconds;
  const allowed = (LIMITS.credits * seconds) / 60;
  return {
    worker: each('worker'),
    server: each('server'),
    source: each('source'),
    memory: after.memory,
    refused: after.refused - before.refused,
    shares: after.credits.map((credits, i) => (credits - before.credits[i]!) / allowed),
  };
}

async function looksAt(served: { look(): Promise<Look> }, everyMs: number): Promise<Look[]> {
  const looks = [await served.look()];
  for (let round = 0; round < ROUNDS; round++) {
    await delay(everyMs);
    looks.push(await served.look());
  }
  return looks;
}

const spansOf = (looks: readonly Look[]) => looks.slice(1).map((after, i) => between(looks[i]!, after));

function costFigures({ figure }: Report, what: string, spans: readonly ReturnType<typeof between>[]): void {
  figure({ what: `${what}: CPU of the worker`, unit: 's/s', rounds: spans.map(({ worker }) => worker) });
  figure({ what: `${what}: CPU of PostgreSQL`, unit: 's/s', rounds: spans.map(({ server }) => server) });
  figure({ what: `${what}: memory of the worker`, unit: 'MB', rounds: spans.map(({ memory }) => memory) });
}

/** Credits are taken and settled in turn: two changes of the ledger each. */
async function acquiring(report: Report): Promise<void> {
  await using database = await openDatabase();
  const seconds = report.quick ? 1 : 2;
  const kinds = [
    { what: 'one account, one process', processes: 1, accounts: 1 },
    { what: 'one account, two processes', processes: 2, accounts: 1 },
    { what: '50 accounts, one process', processes: 1, accounts: 50 },
  ];
  const rounds = kinds.map((): number[] => []);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, { processes, accounts }] of kinds.entries()) {
      const options: AcquirerOptions = { url: database.url, accounts, seconds };
      const file = fileURLToPath(new URL('../acquirer.ts', import.meta.url));
      const all = Array.from({ length: processes }, () => fork(file, [JSON.stringify(options)], { execArgv: [] }));
      await Promise.all(all.map(child => once(child, 'message')));
      for (const child of all) child.send('go');
      const said = await Promise.all(all.map(child => once(child, 'message')));
      rounds[i]!.push(said.reduce((sum, [grants]) => sum + (grants as number), 0));
    }
  }
  for (const [i, { what }] of kinds.entries())
    report.figure({ what: `credits taken and settled: ${what}`, unit: '/s', rounds: rounds[i]! });
}

/** Jobs that do nothing: what the queue takes for each. */
async function queueing(report: Report): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-fleet-'));
  stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const redis = await startRedis(folder, stack);
  const { url } = stack.use(await openDatabase());
  const jobs = report.quick ? 200 : 2000;
  const backends = [
    { what: 'Redis', redisUrl: redis.url },
    { what: 'PostgreSQL', redisUrl: undefined },
  ];
  const rounds = backends.map((): number[] => []);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, { redisUrl }] of backends.entries()) {
      await using queue = await openQueue({ name: `round-${round}`, redisUrl, databaseUrl: url });
      for (let n = 0; n < jobs; n++) await queue.add('nothing', `job-${n}`, {});
      const { promise: done, resolve } = Promise.withResolvers<void>();
      let left = jobs;
      const beganMs = performance.now();
      const taking = queue.work(
        async () => {
          if (--left === 0) resolve();
        },
        error => console.error(error),
      );
      await done;
      rounds[i]!.push((1000 * jobs) / (performance.now() - beganMs));
      await taking.close(Promise.resolve());
    }
  }
  for (const [i, { what }] of backends.entries())
    report.figure({ what: `jobs that do nothing, one account, on ${what}`, unit: '/s', rounds: rounds[i]! });
}
