/**
 * Shelfdesk in real processes, and everything around it breaks: two workers, Redis, PostgreSQL and a sandbox that changes
 * and fails; kill -9 of a random worker every 30 s, and by the seed another trouble every 20 s. Then peace, and the full
 * difference. Ends with 1 where anything is lost, refused for our own fault, or left open.
 *
 *   npm run soak -- --minutes 5 [--seed 1] [--tickets 2000]
 */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { migrateWarehouse } from '../../../src/app/migrate.ts';
import { settingsFor } from '../../../test/support/cli.ts';
import { makeRng, pick, type Rng } from '../../sandbox/src/random.ts';
import { commandsWith } from './commands.ts';
import { hire } from './crew.ts';
import { hydrated, judge, settle, waiting } from './judge.ts';
import { patiently, startPostgres, startRedis, startSandbox } from './servers.ts';
import { faults, flushRedis, type Going, goesOn, type House, killOne, type Trouble, troubles } from './troubles.ts';
import { wronglyDeleted } from './truth.ts';

const options = { minutes: { type: 'string' }, seed: { type: 'string' }, tickets: { type: 'string' } } as const;
const given = parseArgs({ options }).values;
const minutes = Number(given.minutes ?? 5);
const seed = Number(given.seed ?? 1);
const tickets = Number(given.tickets ?? 2000);
if (!(minutes > 0 && Number.isSafeInteger(seed) && tickets >= 100)) {
  console.error('npm run soak -- --minutes <n> [--seed <n>] [--tickets <n, 100 or more>]');
  process.exit(2);
}

const killEveryMs = 30_000;
const troubleEveryMs = 20_000;
/** So soon the work has to go on after whatever happened. */
const mostPauseMs = 60_000;
const changesPerSecond = 2;
/** What the schedule looks at comes beside it. */
const shareOfFirstLoad = 0.4;
const credits = Math.min(12_000, Math.max(600, Math.round((2.25 * tickets) / (shareOfFirstLoad * minutes))));
const requestsPerSecond = Math.max(6, Math.round((credits * 6) / 100));
/** For the rest, once nothing goes wrong any more. */
const patienceMs = 600_000;
const aYearAgo = new Date(Date.now() - 365 * 86_400_000).toISOString();
const meanwhile = [['backfill', '--again', '--since', aYearAgo, 'tickets', 'messages'], ['sync'], ['sweep']] as const;

const beganMs = performance.now();
const say = (words: string) => {
  const seconds = Math.round((performance.now() - beganMs) / 1000);
  console.log(`${String(Math.floor(seconds / 60)).padStart(3)}:${String(seconds % 60).padStart(2, '0')}  ${words}`);
};
const inSeconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

/** What must not be: the soak fails for whatever is in it at the end. */
const wrong: string[] = [];
const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort(new Error(signal)));

{
  await using stack = new AsyncDisposableStack();
  await soak(stack).catch(error => {
    wrong.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
  });
}
for (const words of wrong) console.log(`WRONG: ${words}`);
console.log(wrong.length === 0 ? 'Nothing lost, nothing refused, nothing left open.' : `${wrong.length} wrong.`);
process.exitCode = wrong.length === 0 ? 0 : 1;

async function soak(stack: AsyncDisposableStack): Promise<void> {
  const rng = makeRng(seed);
  const open = openPoints(rng);
  console.log(`seed ${seed}, ${minutes} minutes, ${tickets} tickets, ${credits} credits a minute; ${open.join(' ')}`);
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-soak-'));
  chmodSync(folder, 0o755); // Root's PostgreSQL runs as another user, who has to get in here.
  stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  process.env.NODE_COMPILE_CACHE = join(folder, 'compiled');
  const limits = ['--credits', String(credits), '--requests-per-second', String(requestsPerSecond)];
  const worlds = ['--seed', String(seed), '--tickets', String(tickets)];
  const sandbox = await startSandbox([...worlds, ...limits, ...open], stack);
  await sandbox.ask('PUT', '/faults', faults(seed));
  const redis = await startRedis(folder, stack);
  const postgres = await startPostgres(folder, stack);
  await migrateWarehouse(postgres.url);
  const env = {
    ...settingsFor(postgres.url, sandbox),
    REDIS_URL: redis.url,
    HELPDESK_CREDITS: String(credits),
    HELPDESK_REQUESTS_PER_SECOND: String(requestsPerSecond),
    HELPDESK_RESERVE: String(Math.round(credits / 10)),
    SCHEDULE_FRESH: '*/5 * * * * *',
    SCHEDULE_NIGHTLY: '30 */2 * * * *',
  };
  const commands = commandsWith(env, stack, (command, { code, signal, stderr }) => {
    say(`${command}: exit code ${code ?? signal}`);
    // A help desk that is away for long is no fault of ours; what was missed then is read later.
    if (code !== 0 && !stderr.includes('gave up after'))
      wrong.push(`${command} ended with ${code ?? signal}: ${lastOf(stderr)}`);
  });
  const crew = await hire(2, env, stack);
  const house: House = { postgres, redis, sandbox, crew, credits };
  say('two workers are running');

  const figures = await disturb(house, commands, rng);
  await sandbox.ask('DELETE', '/faults');
  wrong.push(...(await settle(house, commands, patienceMs)), ...(await wronglyDeleted(sandbox, postgres.pool)));
  const codes = await crew.leave();
  if (codes.some(code => code !== 0)) wrong.push(`on SIGTERM workers left with ${codes.join(', ')}`);
  wrong.push(...crew.strays);
  const verdict = await judge(house);
  wrong.push(...verdict.wrong);
  say('everything compared');
  for (const words of crew.notBegun) console.log(`begun while a server was away: ${words}`);
  for (const words of [...figures, ...verdict.figures]) console.log(words);
}

async function disturb(house: House, commands: ReturnType<typeof commandsWith>, rng: Rng): Promise<string[]> {
  const { crew, sandbox, postgres } = house;
  const pauses: (Going & { flushed: boolean })[] = [];
  const happens = async (trouble: Trouble, chance: Rng) => {
    const what = await trouble(house, chance);
    const pause = await goesOn(house, mostPauseMs);
    pauses.push({ ...pause, flushed: what.startsWith('Redis flushed') });
    say(`${what}: next credit after ${inSeconds(pause.creditMs)}, next rows after ${inSeconds(pause.commitMs)}`);
    if (pause.creditMs >= mostPauseMs || pause.commitMs >= mostPauseMs) wrong.push(`${what}: the work did not go on`);
  };
  const endMs = performance.now() + minutes * 60_000;
  const failed = new AbortController();
  const over = AbortSignal.any([AbortSignal.timeout(minutes * 60_000), interrupted.signal, failed.signal]);
  const killing = makeRng(seed + 1);
  const next = cards(makeRng(seed + 2));
  const going = [
    every(1000, over, () => sandbox.ask('POST', '/changes', { count: changesPerSecond })),
    every(killEveryMs, over, () => happens(killOne, killing)),
    every(10_000, over, async () => {
      const deleted = await patiently(() => wronglyDeleted(sandbox, postgres.pool));
      wrong.push(...deleted.map(id => `ticket ${id} has a tombstone, and is there`));
    }),
    (async () => {
      const first = commands.run('backfill');
      while ((await hydrated(postgres.pool)) < tickets / 5 && !over.aborted) await delay(200);
      say(`in the middle of a backfill: ${await waiting(postgres.pool)} tickets wait for their messages`);
      await happens(flushRedis, rng);
      await every(troubleEveryMs, over, () => happens(next(), rng));
      await first;
    })(),
    every(2000, over, async () => {
      // What takes long is not begun any more when the end is near.
      if (!commands.running && endMs - performance.now() > minutes * 20_000)
        await commands.run(...pick(rng, meanwhile));
    }),
  ];
  try {
    await Promise.all(going);
  } finally {
    failed.abort();
    await Promise.allSettled(going);
  }
  interrupted.signal.throwIfAborted();
  const flushes = pauses.filter(({ flushed }) => flushed);
  const { SIGKILL: kills, SIGTERM: terms } = crew.ended;
  say(`peace; ${await waiting(postgres.pool)} tickets wait for their messages`);
  const most = (which: readonly Going[]) =>
    `${inSeconds(Math.max(...which.map(({ creditMs }) => creditMs)))} to the next credit, ${inSeconds(Math.max(...which.map(({ commitMs }) => commitMs)))} to the next rows`;
  return [
    `${kills} workers killed and ${terms} asked to leave; ${pauses.length} times something went wrong; at most ${most(pauses)}`,
    `Redis flushed ${flushes.length} times: at most ${most(flushes)}`,
  ];
}

/** What the specification leaves open, by the seed. */
function openPoints(rng: Rng): string[] {
  const points = {
    '--window': ['fixed', 'sliding'],
    '--since': ['inclusive', 'exclusive'],
    '--spam': ['listed', 'hidden'],
    '--trash': ['listed', 'hidden'],
    '--refused': ['free', 'charged'],
    '--errors': ['charged', 'free'],
  };
  return Object.entries(points).flatMap(([name, words]) => [name, pick(rng, words)]);
}

/** All troubles in an order of chance, and then again in another one. */
function cards(rng: Rng): () => Trouble {
  let left: Trouble[] = [];
  return () => {
    if (left.length === 0) {
      const shuffled = troubles.map(one => ({ one, at: rng() })).sort((a, b) => a.at - b.at);
      left = shuffled.map(({ one }) => one);
    }
    return left.pop()!;
  };
}

/** One after the other, until it is over. */
async function every(everyMs: number, over: AbortSignal, act: () => Promise<unknown>): Promise<void> {
  for (let dueMs = performance.now() + everyMs; ; dueMs = Math.max(dueMs + everyMs, performance.now())) {
    await delay(Math.max(0, dueMs - performance.now()), undefined, { signal: over }).catch(() => {});
    if (over.aborted) return;
    await act();
  }
}

function lastOf(text: string): string {
  return text.trim().split('\n').slice(-3).join(' | ');
}
