/** Processes that share the work: killed at random, asked to leave, and commands beside them. Real ones, on both queues. */
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { type SandboxOptions, type SeenRequest, startSandbox } from '../../packages/sandbox/src/server.ts';
import { settingsFor, shelfdesk } from '../support/cli.ts';
import { openDesk } from '../support/desk.ts';
import { killWorkers } from '../support/killing.ts';
import { long, proof } from '../support/long.ts';
import { configFor, differences, noSandboxLimits, syncOnce } from '../support/mirror.ts';
import { freshDatabase } from '../support/postgres.ts';
import { describeOnRedis } from '../support/redis.ts';
import { type Asked, askedAgain, askedOf, startWorker, type WorkerProcess } from '../support/workers.ts';

type Env = Record<string, string>;

async function given(
  options: SandboxOptions,
  queue: Env,
  act: (all: {
    pool: import('pg').Pool;
    env: Env;
    sandbox: Awaited<ReturnType<typeof startSandbox>>;
    asked: Asked[];
    /** Of tickets, by their id. */
    ids: () => string[];
    /** Calls this once, with the request of a ticket that makes so many. */
    at: (tickets: number, act: () => void) => void;
    start: (more?: Env) => WorkerProcess;
  }) => Promise<void>,
): Promise<void> {
  await using db = await freshDatabase();
  const asked: Asked[] = [];
  let due: { tickets: number; act: () => void } | undefined;
  const ids = () => asked.map(({ path }) => path).filter(path => path.startsWith('/tickets/'));
  const before = (request: SeenRequest, n: number) => {
    options.before?.(request, n);
    asked.push(askedOf(request, sandbox.world));
    if (due === undefined || ids().length < due.tickets) return;
    const { act: now } = due;
    due = undefined;
    now();
  };
  const sandbox = await startSandbox({ ...noSandboxLimits, tickets: 90, fault: slowly, ...options, before });
  const env = { ...settingsFor(db.url, sandbox), SCHEDULE_FRESH: '', SCHEDULE_NIGHTLY: '', ...queue };
  const workers: WorkerProcess[] = [];
  const start = (more: Env = {}) => {
    const worker = startWorker({ ...env, ...more });
    workers.push(worker);
    return worker;
  };
  const at = (tickets: number, act: () => void) => {
    due = { tickets, act };
  };
  try {
    await act({ pool: db.pool, env, sandbox, asked, ids, at, start });
  } finally {
    for (const { kill } of workers) kill('SIGKILL');
    await Promise.all(workers.map(({ finished }) => finished));
    await sandbox.close();
  }
}

/** So that what happens to a process happens in the midst of its work. */
const slowly: NonNullable<SandboxOptions['fault']> = ({ path }) =>
  path.startsWith('/tickets/') ? { kind: 'delay', ms: 15 } : undefined;

const nothingTwice = (paths: readonly string[]) =>
  expect(paths.filter((path, i) => paths.indexOf(path) < i)).toEqual([]);

/** Ends with the test at the latest. */
async function until(signal: AbortSignal, what: () => Promise<boolean>): Promise<void> {
  while (!(await what())) await delay(100, undefined, { signal });
}

/** It ends as soon as all is read: on a machine that is busy with others that takes minutes. */
const patient = (when = long) => ({ ...when, timeout: 900_000 });

function killing(queue: Env, takes = patient()): void {
  test(
    'kill -9 of a random one of three, again and again: equal tables, 0 × 429, at most what was in flight paid twice',
    takes,
    async () => {
      await using db = await freshDatabase();
      const { kills, again, ...found } = await killWorkers({
        database: db,
        env: queue,
        tickets: 400,
        limits: { credits: 3000, requestsPerSecond: 180 },
        reserve: 300,
        changesPerMinute: 60,
        everyMs: 1500,
        forMs: 9_000,
        seed: 5,
        pageMs: 200,
        patienceMs: 600_000,
      });
      expect(kills.length).toBeGreaterThanOrEqual(4);
      expect(found.differences).toEqual([]);
      expect(found.totals.refused).toBe(0);
      expect(found.codes).toEqual([0, 0, 0]);
      expect(found.open).toEqual([]);
      expect(found.failed).toEqual([]);
      // SPEC I8 lets ties, and the search for the end of the customers' list, begin anew. A ticket that changes between its
      // listing and its reading is read before a reply can be later than the change, and has to be read again, killed or not.
      const counted = again.filter(({ kind }) => kind === 'ticket' || kind === 'page');
      expect(counted.filter(({ afterKill }) => !afterKill)).toEqual([]);
      expect(counted.filter(({ kind }) => kind === 'page').length).toBeLessThanOrEqual(3 * kills.length);
      // One page is asked for while two are on their way to the tables; and two tickets, of each of two readers, are either.
      expect(counted.length).toBeLessThanOrEqual(7 * kills.length);
      expect(again.filter(({ kind }) => kind === 'search').length).toBeLessThanOrEqual(kills.length);
    },
  );
}

function leaving(): void {
  test(
    'SIGTERM at work: exit 0, another one goes on at the next page, nothing is paid twice',
    long,
    async ({ signal }) => {
      await given({}, {}, async ({ pool, sandbox, ids, at, start }) => {
        const workers = [start(), start()];
        const numbers = await Promise.all(workers.map(({ id }) => id));
        const asked = new Promise<void>(resolve => at(40, resolve));
        // The first night is caught up by a third one, which may be the one that works on it.
        workers.push(start({ SCHEDULE_NIGHTLY: '0 2 * * *' }));
        numbers.push(await workers[2]!.id);
        await asked;
        const holder = async () =>
          (await pool.query(`select worker from sync.run_streams where stream = 'messages' and state = 'running'`))
            .rows[0]?.worker;
        const leaving = numbers.indexOf(await holder());
        // There is no file to read again, and nobody ends for it.
        for (const worker of workers) worker.kill('SIGHUP');
        workers[leaving]!.kill('SIGTERM');
        const { code, stderr } = await workers[leaving]!.finished;
        expect(code, stderr).toBe(0);
        expect(ids().length).toBeLessThan(85);
        await until(signal, async () => (await differences(pool, sandbox.world)).length === 0);
        nothingTwice(ids());
        const { rows } = await pool.query(
          `select worker from sync.run_streams where stream = 'messages' order by run_id desc limit 1`,
        );
        expect(rows[0].worker).not.toBe(numbers[leaving]);
      });
    },
  );
}

function watching(): void {
  test(
    'sync beside a worker asks for nothing itself, and goes on by itself when the worker is killed',
    long,
    async () => {
      await using desk = await openDesk({ redisUrl: undefined, tickets: 60 });
      const worker = await desk.process();
      const { run, exitCode } = await syncOnce(desk.config);
      expect(exitCode).toBe(0);
      expect(await desk.rows('select distinct worker from sync.run_streams where run_id = $1', run)).toEqual([
        { worker: worker.id },
      ]);
      nothingTwice(desk.sandbox.requests.map(({ path }) => path).filter(path => path.startsWith('/tickets/')));
      desk.onRequest = () => worker.kill('SIGKILL');
      const alone = await syncOnce(desk.config);
      expect(await worker.finished).toMatchObject({ signal: 'SIGKILL' });
      expect([alone.state, alone.exitCode]).toEqual(['completed', 0]);
      const hands = await desk.rows('select worker from sync.run_streams where run_id = $1', alone.run);
      // It may have finished the page that it was at.
      expect(hands.filter(one => one.worker !== worker.id)).not.toEqual([]);
      expect(await differences(desk.pool, desk.sandbox.world)).toEqual([]);
    },
  );

  test('Ctrl-C of a command that follows leaves its run to the worker', long, async ({ signal }) => {
    await given({}, {}, async ({ pool, env, sandbox, ids, at, start }) => {
      const worker = await start().id;
      const sync = shelfdesk(['sync', '--json'], env);
      at(30, () => sync.process.kill('SIGINT'));
      const { code, stdout, stderr } = await sync.finished;
      expect(code, stderr).toBe(130);
      expect(stderr).toContain('The run continues in another process');
      const { run, state } = JSON.parse(stdout);
      expect(state).toBe('running');
      const stateNow = async () => (await pool.query('select state from sync.runs where id = $1', [run])).rows[0].state;
      await until(signal, async () => (await stateNow()) !== 'running');
      expect(await stateNow()).toBe('completed');
      const { rows } = await pool.query('select distinct worker from sync.run_streams where run_id = $1', [run]);
      expect(rows).toEqual([{ worker }]);
      expect(await differences(pool, sandbox.world)).toEqual([]);
      nothingTwice(ids());
    });
  });

  test('two commands at once without a worker share the work, and pay for no history twice', long, async () => {
    await given({}, {}, async ({ pool, env, sandbox, asked, ids }) => {
      const config = configFor(env.DATABASE_URL!, sandbox);
      for (const { exitCode } of await Promise.all([syncOnce(config), syncOnce(config)])) expect(exitCode).toBe(0);
      expect(await differences(pool, sandbox.world)).toEqual([]);
      nothingTwice(ids());
      // The team has no top that could be extended: each of the two reads it whole.
      expect(askedAgain(asked, []).filter(({ what }) => !what.startsWith('/users'))).toEqual([]);
    });
  });
}

describe.concurrent('workers, with the queue in PostgreSQL', () => {
  killing({}, patient(proof));
  leaving();
});

describeOnRedis('workers, with the queue in Redis', ({ url }) => killing({ REDIS_URL: url }), {
  concurrent: true,
  takesLong: true,
});

test(
  'a ticket of the backlog that changes before its turn is read once, as a fresh change',
  long,
  async ({ signal }) => {
    const delays: NonNullable<SandboxOptions['fault']> = ({ path }) =>
      path.startsWith('/tickets/') ? { kind: 'delay', ms: 100 } : undefined;
    await given({ tickets: 40, fault: delays }, {}, async ({ pool, sandbox, asked, at, start }) => {
      const last = sandbox.world.byUpdated.at(0)!.id;
      at(1, () => void sandbox.world.addMessage(last, { body: 'just now' }));
      start({ SCHEDULE_FRESH: '* * * * * *', SCHEDULE_NIGHTLY: '0 2 * * *' });
      await until(signal, async () => asked.some(({ path }) => path === `/tickets/${last}`));
      await until(signal, async () => (await differences(pool, sandbox.world)).length === 0);
      expect(askedAgain(asked, []).filter(({ kind }) => kind === 'ticket')).toEqual([]);
    });
  },
);

// What a command does beside them is the same on any queue.
describe.concurrent('a command beside workers, or without any', watching);
