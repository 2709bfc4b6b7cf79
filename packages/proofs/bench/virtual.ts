/**
 * A worker on a virtual clock, so that hours of the source's limits pass in minutes: the program's own code from the queue's
 * jobs to SQL, the sandbox in process, a real PostgreSQL; only time, network and queue are simulated, as in packages/proofs/sim.
 */

import type pg from 'pg';
import { backfillStream } from '../../../jobs/backfill-stream.ts';
import { sweepStream } from '../../../jobs/sweep-stream.ts';
import { syncStream } from '../../../jobs/sync-stream.ts';
import type { Limits } from '../../../src/engine/budget/budget.ts';
import type { Context } from '../../../src/engine/context.ts';
import { register } from '../../../src/engine/coverage/coverage.ts';
import type { Fetch } from '../../../src/engine/http/fetch.ts';
import type { Job } from '../../../src/engine/queue/job.ts';
import { nameAccount } from '../../../src/engine/runs/accounts/accounts.ts';
import { streams } from '../../../src/sources/index.ts';
import { boundTo } from '../../../test/support/sources.ts';
import { makeRng, type Rng } from '../../sandbox/src/random.ts';
import { openServices, type Services, type ServicesOptions } from '../../sandbox/src/services.ts';
import { Database } from '../sim/database.ts';
import { planOf } from '../sim/plan.ts';
import { account, Process } from '../sim/process.ts';
import { Queue } from '../sim/queue.ts';
import { type Actor, actor, Scheduler } from '../sim/scheduler.ts';

export interface Virtual extends AsyncDisposable {
  readonly scheduler: Scheduler;
  readonly services: Services;
  readonly database: Database;
  readonly worker: Process;
  /** Of the worker, as the source counts it. */
  readonly counted: { credits: number; refused: number };
  /** Whose effects those are that are not the worker's. */
  readonly director: Actor;
  /** The director's. */
  readonly pg: pg.Pool;
  /** Lets time pass until then, in ms of the virtual clock. */
  until(ms: number): Promise<void>;
  /** Carries out what a command or the schedule would, at this moment. */
  direct<T>(act: (pg: pg.Pool) => Promise<T>): Promise<T>;
  /** Goes on while time passes, and may never end; a failure ends all. */
  background(work: Promise<unknown>): void;
}

/** Enough for any section; a run that never ends is found out. */
const mostEffects = 1e8;

export async function openVirtual({
  url,
  limits,
  latencyMs,
  seed = 1,
  jobs = [],
  sweep,
  ...sandbox
}: Omit<ServicesOptions, 'now' | 'books' | 'credits' | 'requestsPerSecond' | 'periodSeconds'> & {
  url: string;
  /** Of the source, and the reserve of ours. */
  limits: Limits;
  /** From sending to reply, from a number of chance. */
  latencyMs: (chance: number) => number;
  /** Beside those that read lists and details, and sweep. */
  jobs?: readonly Job[];
  /** Lists are read again for a share of the credits. */
  sweep?: Context['sweep'];
}): Promise<Virtual> {
  const scheduler = new Scheduler({ nowMs: Date.UTC(2026, 5, 1, 12), rng: makeRng(seed + 4), traced: false });
  const now = () => scheduler.nowMs;
  const { credits, periodMs, requestsPerSecond } = limits;
  const services = openServices({
    ...{ credits, requestsPerSecond, periodSeconds: periodMs / 1000, books: {} },
    ...sandbox,
    seed,
    now,
  });
  await using stack = new AsyncDisposableStack();
  const database = await Database.open(url);
  stack.defer(() => database.close());
  // Tables are large here, other than those of the simulation.
  await database.client.query('set plan_cache_mode = auto');
  const queue = new Queue(scheduler, makeRng(seed + 7));
  const counted = { credits: 0, refused: 0 };
  const failed: unknown[] = [];
  const worker = new Process('w1', {
    ...{
      plan: { ...planOf(1), limits, volumes: 0 },
      catalog: services.books,
      scheduler,
      database,
      defect: {},
      rules: undefined,
      rng: makeRng(seed + 8),
      databaseNow: now,
    },
    jobs: [syncStream, backfillStream, sweepStream, ...jobs],
    fetchOf: network({ scheduler, services, latencyMs, rng: makeRng(seed + 9), counted }),
    queueOf: by => queue.of(by),
    trouble: () => undefined,
    lateMs: () => 0,
    failed: why => failed.push(why),
  });
  // Before it starts, because its jobs have a copy.
  if (sweep !== undefined)
    Object.assign(worker.ctx, {
      sweep,
      sources: new Map([...worker.ctx.sources].map(([name, one]) => [name, { ...one, limits }])),
    });
  const director = actor('director');
  const pg = database.poolFor({ by: director, scheduler, now, trouble: () => undefined, lateMs: () => 0 });

  async function run(isSo: () => boolean): Promise<void> {
    await scheduler.run(() => isSo() || failed.length > 0, mostEffects);
    if (failed.length > 0) throw failed[0];
  }
  async function direct<T>(act: (db: pg.Pool) => Promise<T>): Promise<T> {
    let over = false;
    const done = act(pg).finally(() => {
      over = true;
    });
    done.catch(() => {});
    await run(() => over);
    return done;
  }

  await direct(async () => {
    await nameAccount(pg, account, boundTo({ helpdesk: new URL('https://desk.example/api/v1') }));
    const lists = streams.flatMap(one =>
      one.source === 'helpdesk' && one.kind === 'list'
        ? one.lists.map(({ name }) => ({ stream: one.key, list: name }))
        : [],
    );
    await register(pg, { account, sinceMs: 0 }, lists, new Date(now()));
    await worker.start();
  });
  stack.defer(async () => {
    await worker.kill();
    await database.empty();
  });
  const opened = stack.move();
  return {
    ...{ scheduler, services, database, worker, director, counted, direct, pg },
    background(work) {
      work.catch(why => failed.push(why));
    },
    async until(ms) {
      scheduler.at(ms, director, 'the time has come', () => {});
      await run(() => now() >= ms);
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** The source counts a request, and answers it, at some moment between sending and reply. */
function network({
  scheduler,
  services,
  latencyMs,
  rng,
  counted,
}: Pick<Virtual, 'scheduler' | 'services' | 'counted'> & {
  latencyMs: (chance: number) => number;
  rng: Rng;
}): (by: Actor) => Fetch {
  const net = actor('net');
  return by => (url, headers) =>
    new Promise(resolve => {
      const takesMs = Math.round(latencyMs(rng()));
      const sentMs = scheduler.nowMs;
      const asked = { method: 'GET', url: url.pathname + url.search, headers: { ...headers, host: url.host } };
      scheduler.at(sentMs + Math.round(takesMs * rng()), net, 'arrives', () => {
        const { status, text, headers: said } = services.handle(asked);
        const lower = Object.fromEntries(Object.entries(said).map(([name, value]) => [name.toLowerCase(), value]));
        if (status === 429) counted.refused++;
        counted.credits += Number(lower['rate-limit-used']);
        scheduler.at(sentMs + takesMs, by, 'replied', () => resolve({ status, headers: lower, text }));
      });
    });
}
