/**
 * What a process of `start` costs that serves many accounts of which nothing changes, with the usual schedule: memory, CPU,
 * connections, and what it asks of the database and of Redis.
 *
 *   node bench/fleet-idle.ts [accounts,…] [seconds]      e.g. 1,10,50,200 60
 *
 * Needs redis-server in the PATH, and Linux, for the figures of the process.
 */
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { startSandbox } from '../src/sandbox/server.ts';
import { startRedis } from '../test/soak/servers.ts';
import { openDatabase } from './lab.ts';

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));
const sizes = (process.argv[2] ?? '1,10,50,200').split(',').map(Number);
const seconds = Number(process.argv[3] ?? 60);
/** A share of the processor: ticks of a hundredth of a second. */
const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

const table: Record<string, Record<string, number>> = {};
for (const accounts of sizes) table[`${accounts} accounts`] = await measure(accounts);
console.table(table);

async function measure(accounts: number): Promise<Record<string, number>> {
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-idle-'));
  stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const database = stack.use(await openDatabase());
  const redis = await startRedis(folder, stack);
  const asked = new Redis(redis.url);
  stack.defer(() => asked.disconnect());
  // One help desk of which each account has a token of its own: that it is the same one, nobody minds here.
  const tokens = Array.from({ length: accounts }, (_, i) => `token-${i}`);
  const sandbox = await startSandbox({
    ...{ tokens, tickets: 5, customers: 3, books: { volumes: 1 } },
    ...{ credits: 1_000_000_000, requestsPerSecond: 1_000_000 },
  });
  stack.defer(() => sandbox.close());
  const file = join(folder, 'fleet.json');
  const all = tokens.map((token, i) => {
    writeFileSync(join(folder, token), token);
    return [`account-${i}`, { HELPDESK_BASE_URL: sandbox.url, HELPDESK_TOKEN: { file: token } }] as const;
  });
  writeFileSync(file, JSON.stringify({ accounts: Object.fromEntries(all) }));
  const beganMs = performance.now();
  // By its first line, with the flags that keep the heap small.
  const child = spawn(main, ['start'], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: {
      ...{ PATH: `${dirname(process.execPath)}:${process.env.PATH}`, HOME: process.env.HOME },
      ...{ DATABASE_URL: database.url, REDIS_URL: redis.url, SHELFDESK_CONFIG: file },
    },
  });
  const ended = new Promise(resolve => child.once('close', resolve));
  stack.defer(async () => {
    child.kill('SIGTERM');
    await ended;
  });
  await new Promise<void>(resolve => child.stderr.on('data', text => /^At work/m.test(text) && resolve()));
  const startMs = performance.now() - beganMs;
  const read = `select count(*)::int as n from sync.accounts a where exists (
    select from sync.stored_runs r where r.account_id = a.account_id and r.kind = 'nightly' and r.state = 'completed')`;
  while ((await database.pool.query(read)).rows[0].n < accounts) await delay(1000);
  await delay(70_000); // What waits for its messages behind that, and the first look of the schedule.

  const used = async () => {
    const [, rest = ''] = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ');
    const [utime, stime] = rest.split(' ').slice(11, 13).map(Number);
    const { rows } = await database.pool.query(
      'select xact_commit + xact_rollback as n from pg_stat_database where datname = current_database()',
    );
    const commands = Number(/total_commands_processed:(\d+)/.exec(await asked.info('stats'))![1]);
    return { cpuSeconds: (utime! + stime!) / ticksPerSecond, transactions: Number(rows[0].n), commands };
  };
  const before = await used();
  const beforeMs = performance.now();
  await delay(seconds * 1000);
  const after = await used();
  const passed = (performance.now() - beforeMs) / 1000;
  const { rows } = await database.pool.query(
    `select count(*)::int as n from pg_stat_activity where datname = current_database() and application_name like 'shelfdesk%'`,
  );
  const memory = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))![1]) / 1024;
  const perSecond = (name: keyof typeof after) => Number(((after[name] - before[name]) / passed).toFixed(1));
  return {
    'start, s': Number((startMs / 1000).toFixed(1)),
    'memory, MB': Math.round(memory),
    'CPU, %': Number(((100 * (after.cpuSeconds - before.cpuSeconds)) / passed).toFixed(1)),
    'connections to PostgreSQL': rows[0].n,
    'connections to Redis': Number(/connected_clients:(\d+)/.exec(await asked.info('clients'))![1]) - 1,
    'transactions a second': perSecond('transactions'),
    'commands of Redis a second': perSecond('commands'),
  };
}
