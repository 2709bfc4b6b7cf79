/**
 * Many accounts, few workers: a sandbox for each account with the limits of the real service, two real processes that serve
 * them all over one Redis, and one of them is killed every minute. Every world changes all the time, and one of them is much
 * larger than the others. Then peace, and every account is compared with its world. Ends with 1 where an account differs, a
 * request was refused for a limit, or the slowest account's changes took more than twice as long as those of the median.
 *
 *   npm run soak -- --fleet [--accounts 50] [--minutes 10] [--workers 2] [--seed 1]
 */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type pg from 'pg';
import { migrateWarehouse } from '../../../src/app/migrate.ts';
import { percentile } from '../../../test/support/changes.ts';
import { type FleetProcess, openFleet } from '../../../test/support/fleet.ts';
import { differences } from '../../../test/support/mirror.ts';
import type { World } from '../../sandbox/src/helpdesk/world/world.ts';
import { makeRng, pick, type Rng } from '../../sandbox/src/random.ts';
import { startPostgres, startRedis } from './servers.ts';

const options = {
  fleet: { type: 'boolean' },
  accounts: { type: 'string' },
  minutes: { type: 'string' },
  workers: { type: 'string' },
  seed: { type: 'string' },
} as const;
const given = parseArgs({ options }).values;
const accounts = Number(given.accounts ?? 50);
const minutes = Number(given.minutes ?? 10);
const workers = Number(given.workers ?? 2);
const seed = Number(given.seed ?? 1);
if (!(accounts >= 2 && minutes > 0 && workers >= 1 && Number.isSafeInteger(seed))) {
  console.error('npm run soak -- --fleet [--accounts <n, 2 or more>] [--minutes <n>] [--workers <n>] [--seed <n>]');
  process.exit(2);
}

/** What the service allows, and what is left of it to others. */
const limits = { credits: 100, requestsPerSecond: 6 };
const reserve = 10;
const tickets = 30;
/** The noisy one: its first load is to take most of the time. */
const noisyTickets = Math.max(100, Math.round(minutes * 30));
const changesPerMinute = 4;
const killEveryMs = 60_000;
const mostUnfair = 2;
/** For the rest, once nothing goes wrong any more. */
const patienceMs = 900_000;
const lookMs = 500;

const beganMs = performance.now();
const say = (words: string) => {
  const seconds = Math.round((performance.now() - beganMs) / 1000);
  console.log(`${String(Math.floor(seconds / 60)).padStart(3)}:${String(seconds % 60).padStart(2, '0')}  ${words}`);
};
const inSeconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

interface Change {
  readonly account: string;
  readonly ticket: string;
  readonly atMs: number;
  readonly updatedMs: number;
}

const wrong: string[] = [];
{
  await using stack = new AsyncDisposableStack();
  await soak(stack).catch(error => {
    wrong.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
  });
}
for (const words of wrong) console.log(`WRONG: ${words}`);
console.log(wrong.length === 0 ? 'Every account equal, nothing refused, nobody starved.' : `${wrong.length} wrong.`);
process.exit(wrong.length === 0 ? 0 : 1);

async function soak(stack: AsyncDisposableStack): Promise<void> {
  const names = Array.from({ length: accounts }, (_, i) => `a${String(i + 1).padStart(3, '0')}`);
  const noisy = names[0]!;
  console.log(
    `seed ${seed}, ${accounts} accounts of ${tickets} tickets, ${noisy} of ${noisyTickets}; ${workers} workers, ${minutes} minutes`,
  );
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-fleet-soak-'));
  chmodSync(folder, 0o755); // Root's PostgreSQL runs as another user, who has to get in here.
  stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  process.env.NODE_COMPILE_CACHE = join(folder, 'compiled');
  const postgres = await startPostgres(folder, stack);
  const redis = await startRedis(folder, stack);
  await migrateWarehouse(postgres.url);
  const fleet = await openFleet(stack, names, {
    env: { DATABASE_URL: postgres.url, REDIS_URL: redis.url },
    world: name => ({ ...limits, seed: seed + names.indexOf(name), tickets: name === noisy ? noisyTickets : tickets }),
    // The night is caught up at once, and reads the users as well.
    defaults: { HELPDESK_RESERVE: String(reserve) },
  });
  const worlds = new Map([...fleet.sandboxes].map(([name, { world }]) => [name, world]));
  const crew: FleetProcess[] = Array.from({ length: workers }, () => fleet.start());
  await Promise.all(crew.map(({ begun }) => begun));
  say(`${workers} workers are running for ${accounts} accounts`);
  const watch = watchChanges(postgres.pool, worlds, makeRng(seed));
  const killing = makeRng(seed + 1);
  for (const untilMs = performance.now() + minutes * 60_000; performance.now() < untilMs; ) {
    await delay(Math.min(killEveryMs, untilMs - performance.now()));
    const at = Math.floor(killing() * crew.length);
    const loads = await loadsOf(postgres.pool);
    crew[at]!.kill('SIGKILL');
    await crew[at]!.finished;
    crew[at] = fleet.start();
    say(
      `kill -9 of worker ${at + 1}; streams that each ran in this minute: ${loads}; ${watch.arrived()} changes have arrived, ${watch.pending()} are on their way`,
    );
  }
  const left = await watch.end(patienceMs);
  if (left > 0) wrong.push(`${left} changes never arrived`);
  await quiet(postgres.pool, names);
  const memory = await Promise.all(crew.map(({ pid }) => memoryOf(pid)));
  say(`peace; the workers have ${memory.join(' and ')} MB`);
  for (const { kill } of crew) kill('SIGTERM');
  const codes = (await Promise.all(crew.map(({ finished }) => finished))).map(({ code, stderr }) => {
    for (const line of stderr
      .split('\n')
      .filter(line => /^! |"level":50/.test(line))
      .slice(0, 3))
      console.log(line);
    return code;
  });
  if (codes.some(code => code !== 0)) wrong.push(`on SIGTERM workers left with ${codes.join(', ')}`);

  for (const [name, world] of worlds) {
    const found = await differences(postgres.pool, world, name);
    if (found.length > 0) wrong.push(`${name}: ${found.length} differences, such as ${found.slice(0, 3).join(' | ')}`);
  }
  const refused = [...fleet.sandboxes].filter(([, { totals }]) => totals.refused > 0);
  for (const [name, { totals }] of refused) wrong.push(`${name}: ${totals.refused} requests were refused`);
  const requests = [...fleet.sandboxes.values()].reduce((sum, { totals }) => sum + totals.requests, 0);
  say(`everything compared; ${requests} requests, ${refused.length === 0 ? 'none' : 'some'} of them refused`);
  for (const [what, share] of [
    ['p50', 0.5],
    ['p95', 0.95],
  ] as const) {
    const ages = [...watch.ages].map(([name, ms]) => ({ name, ms: percentile(ms, share) })).sort((a, b) => a.ms - b.ms);
    const median = percentile(
      ages.map(({ ms }) => ms),
      0.5,
    );
    const [fastest, slowest] = [ages[0]!, ages.at(-1)!];
    const noisyOne = ages.find(({ name }) => name === noisy)!;
    console.log(
      `age of changes, ${what} of each account: fastest ${inSeconds(fastest.ms)} (${fastest.name}), median ${inSeconds(median)}, slowest ${inSeconds(slowest.ms)} (${slowest.name}): ${(slowest.ms / median).toFixed(2)} times the median; the noisy one ${inSeconds(noisyOne.ms)}`,
    );
    if (slowest.ms > mostUnfair * median)
      wrong.push(`${slowest.name} is ${(slowest.ms / median).toFixed(2)} times as slow as the median`);
  }
}

/** Changes in every world at moments of chance, and how long each takes until its ticket is here with its messages. */
function watchChanges(db: pg.Pool, worlds: ReadonlyMap<string, World>, rng: Rng) {
  const ages = new Map([...worlds.keys()].map(name => [name, [] as number[]]));
  const pending = new Map<string, Change>();
  const ended = new AbortController();
  const making = [...worlds].map(async ([account, world]) => {
    while (!ended.signal.aborted) {
      await delay((-Math.log(1 - rng()) * 60_000) / changesPerMinute, undefined, { signal: ended.signal }).catch(
        () => {},
      );
      if (ended.signal.aborted) return;
      const change = changeOne(world, rng, id => pending.has(`${account} ${id}`));
      pending.set(`${account} ${change.ticket}`, { account, ...change });
    }
  });
  const over = new AbortController();
  const watching = (async () => {
    while (!over.signal.aborted) {
      const changes = [...pending.values()];
      const { rows } = await db.query<{ account_id: string; id: string; updated_ms: number }>(
        `select t.account_id, t.id, extract(epoch from t.updated_at)::float8 * 1000 as updated_ms
         from unnest($1::text[], $2::text[]) one (account, ticket)
         join helpdesk.tickets t on (t.account_id, t.id) = (one.account, one.ticket)
         where t._messages_as_of >= t.updated_at`,
        [changes.map(({ account }) => account), changes.map(({ ticket }) => ticket)],
      );
      const nowMs = Date.now();
      for (const { account_id, id, updated_ms } of rows) {
        const change = pending.get(`${account_id} ${id}`)!;
        if (updated_ms < change.updatedMs) continue;
        pending.delete(`${account_id} ${id}`);
        ages.get(account_id)!.push(nowMs - change.atMs);
      }
      await delay(lookMs, undefined, { signal: over.signal }).catch(() => {});
    }
  })();
  return {
    ages,
    arrived: () => [...ages.values()].reduce((sum, one) => sum + one.length, 0),
    pending: () => pending.size,
    /** Makes no more changes; answers how many have not arrived when retryOutages is at its end. */
    async end(patienceMs: number): Promise<number> {
      ended.abort();
      await Promise.all(making);
      for (const untilMs = Date.now() + patienceMs; pending.size > 0 && Date.now() < untilMs; ) await delay(lookMs);
      over.abort();
      await watching;
      return pending.size;
    },
  };
}

function changeOne(world: World, rng: Rng, isPending: (id: string) => boolean): Omit<Change, 'account'> {
  const all = world.byUpdated;
  let ticket = all.at(Math.floor(rng() * all.length))!;
  while (isPending(ticket.id)) ticket = all.at(Math.floor(rng() * all.length))!;
  const kind = pick(rng, ['reply', 'reply', 'note', 'state', 'new ticket'] as const);
  if (kind === 'new ticket') ticket = world.addTicket({ customer_id: ticket.customer_id, subject: 'A fresh one' });
  const atMs = world.clock.now();
  if (kind === 'state') world.patchTicket(ticket.id, { state: ticket.state === 'open' ? 'closed' : 'open' });
  else if (kind === 'note') world.addNote(ticket.id, { body: 'A note just now' });
  else world.addMessage(ticket.id, { body: 'A reply just now' });
  return { ticket: ticket.id, atMs, updatedMs: Date.parse(ticket.updated_at) };
}

/** How the work was spread in the last minute. */
async function loadsOf(db: pg.Pool): Promise<string> {
  const { rows } = await db.query<{ streams: number }>(
    `select count(*)::int as streams from sync.stored_run_streams s join sync.workers w on w.id = s.worker
     where s.started_at > now() - interval '1 minute' group by w.pid order by w.pid`,
  );
  return rows.map(({ streams }) => streams).join(' and ');
}

/** Until each account has looked at its lists once more from beginning to end, and nothing waits. */
async function quiet(db: pg.Pool, names: readonly string[]): Promise<void> {
  const since = new Date();
  for (const untilMs = performance.now() + patienceMs; performance.now() < untilMs; await delay(1000)) {
    const { rows } = await db.query<{ account_id: string }>(
      `select a.account_id from sync.accounts a
       where exists (select from sync.stored_runs r where r.account_id = a.account_id and r.kind = 'fresh' and r.state = 'completed' and r.started_at > $1)
         and not exists (select from sync.stored_runs r where r.account_id = a.account_id and r.kind <> 'fresh' and r.state = 'running')
         and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and (t._messages_as_of is null or t._messages_as_of < t.updated_at))`,
      [since],
    );
    if (rows.length === names.length) return;
  }
  wrong.push('some accounts never came to rest');
}

/** In MB. */
async function memoryOf(pid: number): Promise<string> {
  const { readFile } = await import('node:fs/promises');
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return String(Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? Number.NaN) / 1024));
}
