/**
 * What we ask of a queue, on either backend: who gets which job, how work is handed over, what waits, what fails, and
 * that nothing is lost when a worker dies, stalls, or loses the database or the queue. Real servers and processes.
 */
import { describe, expect, inject, test } from 'vitest';
import { z } from 'zod';
import { defineJob } from '../../src/engine/queue/job.ts';
import { liveWorkers } from '../../src/status/workers.ts';
import { type Desk, type DeskOptions, eventually, openDesk } from '../support/desk.ts';
import { long } from '../support/long.ts';
import { differences } from '../support/mirror.ts';
import { describeOnRedis } from '../support/redis.ts';
import { wayTo } from '../support/way.ts';

const nothing = { wait: 0, active: 0, delayed: 0, failed: 0, completed: 0 };

/** A killed worker's job is taken up within this. */
const takenUpMs = 15_000;

const details = ({ sandbox }: Desk) => sandbox.requests.filter(({ path }) => path.startsWith('/tickets/'));
const completed = (desk: Desk, run: number, timeout?: number) =>
  eventually(async () => {
    const progress = await desk.progress(run);
    expect(progress).toMatchObject({ state: 'completed' });
    return progress;
  }, timeout);
/** Work is under way: this many replies have been asked for since now. */
const goesOn = async (desk: Desk, requests = 3) => {
  const { totals } = desk.sandbox;
  const from = totals.requests;
  await eventually(() => expect(totals.requests).toBeGreaterThanOrEqual(from + requests));
};
const isAlive = async (desk: Desk, { id }: { id: number }) =>
  (await desk.rows('select sync.is_alive($1) as alive', id))[0]!.alive;
/** Of whoever works, and of the one that watches. */
const endConnections = async (desk: Desk) => {
  const ended = await desk.rows(
    `select application_name as name, pg_terminate_backend(pid, 10000) as ended from pg_stat_activity
     where datname = current_database() and application_name <> ''`,
  );
  expect(ended.filter(({ name }) => name === 'shelfdesk: presence')).toHaveLength(2);
};
const isEqual = async (desk: Desk) => expect(await differences(desk.pool, desk.sandbox.world)).toEqual([]);

/** What has nothing to do with where the jobs are is asked of the queue in PostgreSQL alone, which goes with its database. */
function conformance(redisUrl: string | undefined): void {
  /** What depends on no queue. */
  const onOneQueue = redisUrl === undefined ? test : undefined;
  const deskOf = (options: Omit<DeskOptions, 'redisUrl'> = {}) => openDesk({ redisUrl, tickets: 60, ...options });

  /** A job that says who has it, and ends when the test says so. */
  const meeting = (allHere: number) => {
    const met: string[] = [];
    const here = Promise.withResolvers<void>();
    const definition = defineJob({
      name: 'meet',
      payload: z.object({ name: z.string() }),
      async run(ctx, { name }) {
        met.push(`${name} at ${ctx.claimant.worker}`);
        if (met.length === allHere) here.resolve();
        await here.promise;
      },
    });
    return { met, definitions: [definition] };
  };

  describe.concurrent('jobs', () => {
    test('a job is added once by its id, and again when it is done, or in the failed set', async () => {
      await using desk = await deskOf();
      const ran: number[] = [];
      const definition = defineJob({
        name: 'count',
        payload: z.object({ n: z.int() }),
        async run(_ctx, { n }) {
          ran.push(n);
          if (n < 0) throw new Error('below zero');
        },
      });
      const { add } = desk.watcher.queue;
      await add('count', 'one', { n: 1 });
      await add('count', 'one', { n: 2 });
      await add('count', 'bad', { n: -1 });
      expect(await desk.counts()).toMatchObject({ wait: 2 });
      await desk.worker({ definitions: [definition] });
      await eventually(async () => expect(await desk.counts()).toEqual({ ...nothing, failed: 1 }));
      await add('count', 'bad', { n: -2 });
      await add('count', 'one', { n: 3 });
      await eventually(() => expect(ran.toSorted()).toEqual([-1, -2, 1, 3]));
      await eventually(async () => expect(await desk.counts()).toEqual({ ...nothing, failed: 1 }));
      expect(await desk.stand('bad')).toEqual({ state: 'failed', attemptsMade: 1, failedReason: 'below zero' });
    });

    onOneQueue?.(
      'a process has as many jobs at work at a time as one account can have, which is seven',
      long,
      async () => {
        await using desk = await deskOf();
        const { met, definitions } = meeting(7);
        await desk.worker({ definitions });
        for (let i = 1; i <= 7; i++) await desk.watcher.queue.add('meet', `job-${i}`, { name: `job ${i}` });
        // They end only when all of them are here.
        await eventually(async () => expect(await desk.counts()).toEqual(nothing));
        expect(met).toHaveLength(7);
      },
    );
  });

  test.concurrent('hand-over: the page in flight is committed, the job is queued again, and another worker resumes there', async () => {
    await using desk = await deskOf({ tickets: 450 });
    desk.slow = true;
    const first = await desk.worker();
    const run = await desk.open(['tickets']);
    const job = `run-${run}-helpdesk.tickets-0`;
    await desk.addJobs();
    // Asked to leave with the second page in flight.
    const left = Promise.withResolvers<void>();
    desk.onRequest = () => {
      if (desk.sandbox.totals.requests !== 1) return;
      left.resolve(first.leave());
    };
    await left.promise;
    expect(desk.sandbox.totals.requests).toBe(2);
    expect(await desk.stand(job)).toEqual({ state: 'waiting', attemptsMade: 0, failedReason: undefined });
    const { tickets } = (await desk.progress(run)).streams;
    expect(tickets).toMatchObject({
      state: 'waiting',
      token: 1,
      worker: null,
      job: null,
      seen: 200,
      credits: desk.sandbox.totals.credits,
    });
    expect(await liveWorkers(desk.pool, ['default'])).toEqual([]);

    const second = await desk.worker();
    desk.slow = false;
    const { streams } = await completed(desk, run);
    expect(streams.tickets).toMatchObject({ token: 2, worker: second.id, job });
    await eventually(async () => expect(await desk.counts()).toEqual(nothing));
    // Nothing that the first one had read.
    const asked = desk.sandbox.requests.map(({ query }) => String(query));
    expect(asked.slice(2)).not.toEqual(expect.arrayContaining([asked[0]]));
    expect(asked.slice(2)).not.toEqual(expect.arrayContaining([asked[1]]));
  });

  onOneQueue?.concurrent(
    'a reply that is long in coming is waited for, and written, before the worker is gone',
    long,
    async () => {
      await using desk = await deskOf({ tickets: 450 });
      const worker = await desk.worker();
      const run = await desk.open(['tickets']);
      const left = Promise.withResolvers<void>();
      desk.onRequest = () => {
        if (desk.sandbox.totals.requests !== 1) return;
        // Longer than a departure takes where nobody answers.
        desk.fault = () => ({ kind: 'delay', ms: 6000 });
        left.resolve(worker.leave());
      };
      await desk.addJobs();
      await left.promise;
      const { tickets } = (await desk.progress(run)).streams;
      expect(tickets).toMatchObject({ state: 'waiting', token: 1, worker: null, seen: 200 });
      expect(await desk.stand(`run-${run}-helpdesk.tickets-0`)).toMatchObject({ state: 'waiting', attemptsMade: 0 });
    },
  );

  test.concurrent('a job that is delivered again to the process that is at work on it is the same work, and paid once', async () => {
    await using desk = await deskOf({ tickets: 450 });
    desk.slow = true;
    await desk.worker({ reconciles: true });
    const run = await desk.open(['tickets']);
    await desk.addJobs();
    await goesOn(desk, 1);
    const before = desk.sandbox.totals.requests;
    await desk.deliverAgain(`run-${run}-helpdesk.tickets-0`);
    await eventually(async () => expect((await desk.counts()).active).toBe(1));
    desk.slow = false;
    const { streams } = await completed(desk, run);
    expect(streams.tickets).toMatchObject({ token: 1 });
    await eventually(async () => expect(await desk.counts()).toEqual(nothing));
    const asked = desk.sandbox.requests.map(({ query }) => String(query));
    expect(asked.slice(before)).not.toEqual(expect.arrayContaining([asked[0]]));
  });

  describe.concurrent('a stream that somebody else reads', () => {
    test('is waited for, and then read', async () => {
      await using desk = await deskOf({ tickets: 450 });
      desk.slow = true;
      const [one, other] = [await desk.worker({ reconciles: true }), await desk.worker()];
      const first = await desk.open(['tickets']);
      await desk.addJobs();
      await goesOn(desk, 1);
      const second = await desk.open(['tickets']);
      await desk.addJobs();
      await eventually(async () =>
        expect((await desk.progress(second)).streams.tickets).toMatchObject({
          state: 'waiting',
          waits_for: first,
          token: 0,
        }),
      );
      await eventually(async () =>
        expect(await desk.stand(`run-${second}-helpdesk.tickets-0`)).toEqual({
          state: 'delayed',
          attemptsMade: 0,
          failedReason: undefined,
        }),
      );
      expect((await desk.progress(first)).state).toBe('running');
      desk.slow = false;
      const end = async (run: number) => (await completed(desk, run)).streams.tickets!;
      const [a, b] = [await end(first), await end(second)];
      expect(b).toMatchObject({ carried_from: null, waits_for: null, token: 1 });
      expect([one.id, other.id]).toContain(b.worker);
      // It read for itself, from where the first one had come.
      expect(b.credits).toBeGreaterThan(0);
      expect(b.inserted + b.updated).toBe(0);
      const [times] = await desk.rows(
        `select b.started_at >= a.finished_at as after from sync.run_streams a, sync.run_streams b where a.run_id = $1 and b.run_id = $2`,
        first,
        second,
      );
      expect(times).toEqual({ after: true });
      expect(a.seen).toBeGreaterThanOrEqual(450);
    });

    if (redisUrl === undefined) {
      test('messages: a run for which nothing is left ends at once, and says who has read them', long, async () => {
        await using desk = await deskOf({ tickets: 40 });
        await desk.worker({ reconciles: true });
        await desk.worker();
        desk.onRequest = ({ path }) => {
          if (path.startsWith('/tickets/')) desk.slow = true;
        };
        const first = await desk.open();
        await desk.addJobs();
        await eventually(() => expect(details(desk)).not.toHaveLength(0));
        const hydration = await desk.open(['messages'], { kind: 'hydrate' });
        const longAgo = { since: null, until: new Date(0), again: false };
        const backfill = await desk.open(['messages'], { kind: 'backfill', range: longAgo });
        const later = await desk.open(['messages']);
        await desk.addJobs();
        for (const run of [hydration, backfill]) {
          expect((await completed(desk, run)).streams.messages).toMatchObject({
            carried_from: first,
            waits_for: null,
            seen: 0,
            credits: 0,
            token: 1,
            exit_code: 0,
          });
        }
        await eventually(async () =>
          expect((await desk.progress(later)).streams.messages).toMatchObject({ state: 'waiting', waits_for: first }),
        );
        expect((await desk.progress(first)).streams.messages!.state).toBe('running');
        desk.onRequest = () => {};
        desk.slow = false;
        await completed(desk, first);
        await completed(desk, later);
        const asked = details(desk).map(({ path }) => path);
        expect(new Set(asked).size).toBe(asked.length);
        await eventually(async () => expect(await desk.counts()).toEqual(nothing));
        await isEqual(desk);
      });
    }
  });

  describe.concurrent('failures', () => {
    test('a stream that fails is in the failed set and in its run; what waits again gets a job of a new name', async () => {
      await using desk = await deskOf();
      desk.fault = ({ path }) => (path === '/customers' ? { kind: 'status', status: 400 } : undefined);
      await desk.worker({ reconciles: true });
      const run = await desk.open();
      const { streams } = await eventually(async () => {
        const progress = await desk.progress(run);
        expect(progress.state).toBe('failed');
        return progress;
      });
      // The run says so before the queue does; the others were read all the same.
      expect(
        Object.values(streams)
          .map(({ stream, state }) => `${stream}: ${state}`)
          .toSorted(),
      ).toEqual(['customers: failed', 'messages: completed', 'tickets: completed', 'users: completed']);
      expect(streams.customers).toMatchObject({ error: expect.stringContaining('400'), exit_code: 1, token: 1 });
      await eventually(async () =>
        expect(await desk.stand(`run-${run}-helpdesk.customers-0`)).toEqual({
          state: 'failed',
          attemptsMade: 1,
          failedReason: expect.stringMatching(/^customers: .*400/),
        }),
      );
      await eventually(async () => expect(await desk.counts()).toEqual({ ...nothing, failed: 1 }));

      // As a backfill does that is asked for again.
      desk.fault = () => undefined;
      await desk.rows(
        `update sync.stored_run_streams set state = 'waiting' where run_id = $1 and stream = 'customers'`,
        run,
      );
      await desk.rows(`update sync.stored_runs set state = 'running' where id = $1`, run);
      await desk.addJobs();
      expect((await completed(desk, run)).streams.customers).toMatchObject({
        token: 2,
        job: `run-${run}-helpdesk.customers-1`,
      });
      await eventually(async () => expect(await desk.counts()).toEqual({ ...nothing, failed: 1 }));
      await isEqual(desk);
    });

    if (redisUrl === undefined) {
      const strangers = [
        {
          says: 'a payload that nobody can read',
          name: 'sync-stream',
          payload: { account: 7 },
          reason: /expected string/,
        },
        {
          says: 'a job that this version does not know',
          name: 'dance',
          payload: { account: 'default' },
          reason: /knows no job dance/,
        },
      ];
      for (const { says, name, payload, reason } of strangers) {
        test(`${says} fails, in the failed set and in its run`, async () => {
          await using desk = await deskOf();
          const run = await desk.open(['users']);
          await desk.watcher.queue.add(name, 'stranger', { ...payload, run, stream: 'users' });
          await desk.worker();
          await eventually(async () => expect((await desk.stand('stranger'))?.state).toBe('failed'));
          expect(await desk.stand('stranger')).toMatchObject({ failedReason: expect.stringMatching(reason) });
          expect(await desk.progress(run)).toMatchObject({
            state: 'failed',
            streams: { users: { state: 'failed', error: expect.stringMatching(reason), exit_code: 1, token: 1 } },
          });
          // What names no run fails in the queue alone.
          await desk.watcher.queue.add(name, 'nobody', { run: 'x' });
          await eventually(async () => expect((await desk.stand('nobody'))?.state).toBe('failed'));
          await eventually(async () => expect(await desk.counts()).toEqual({ ...nothing, failed: 2 }));
        });
      }

      test('what fails while the database is away is told to the run when it is back', long, async () => {
        await using desk = await deskOf();
        const run = await desk.open(['users']);
        const hold = await desk.pool.connect();
        try {
          await hold.query('begin');
          await hold.query('select from sync.stored_run_streams for update');
          await desk.watcher.queue.add('dance', 'stranger', { run, stream: 'users' });
          await desk.worker();
          // As it is about to say so.
          await eventually(async () =>
            expect(
              await desk.rows(`select pg_terminate_backend(pid, 10000) as ended from pg_stat_activity
              where datname = current_database() and wait_event_type = 'Lock'`),
            ).toEqual([{ ended: true }]),
          );
        } finally {
          await hold.query('rollback');
          hold.release();
        }
        await eventually(async () => expect((await desk.stand('stranger'))?.state).toBe('failed'));
        expect(await desk.stand('stranger')).toMatchObject({
          failedReason: expect.stringContaining('knows no job dance'),
        });
        expect(await desk.progress(run)).toMatchObject({ state: 'failed', streams: { users: { state: 'failed' } } });
      });

      test(
        'what can be told to nobody, since the database refuses it, is done again when it is asked for',
        long,
        async () => {
          await using desk = await deskOf();
          await desk.rows(`create function refuse() returns trigger language plpgsql
        as $$ begin raise exception 'canceled' using errcode = 'query_canceled'; end $$`);
          await desk.rows('create trigger refuse before update on sync.stored_run_streams execute function refuse()');
          const run = await desk.open(['users']);
          await desk.worker();
          await desk.addJobs();
          const job = `run-${run}-helpdesk.users-0`;
          await eventually(async () =>
            expect(await desk.stand(job)).toMatchObject({ state: 'failed', failedReason: 'canceled' }),
          );
          expect((await desk.progress(run)).streams.users).toMatchObject({ state: 'waiting', token: 0 });
          await desk.rows('drop trigger refuse on sync.stored_run_streams');
          await desk.addJobs();
          expect((await completed(desk, run)).streams.users).toMatchObject({ token: 1, job });
          await eventually(async () => expect(await desk.counts()).toEqual(nothing));
        },
      );
    }
  });

  describe.concurrent('workers that die or stall', () => {
    test('killed at work: another one takes the job up within 15 s, by the queue alone', long, async () => {
      await using desk = await deskOf({ tickets: 10, customers: 1500 });
      desk.slow = true;
      const victim = await desk.process();
      const run = await desk.open(['customers']);
      await desk.addJobs();
      await goesOn(desk, 6);
      // So slow that it is at work until it is killed, however long the heir takes to come.
      desk.fault = () => ({ kind: 'delay', ms: 2000 });
      const heir = await desk.worker();
      expect((await desk.progress(run)).streams.customers).toMatchObject({
        state: 'running',
        token: 1,
        worker: victim.id,
      });
      victim.kill('SIGKILL');
      await victim.finished;
      await eventually(
        async () =>
          expect((await desk.progress(run)).streams.customers).toMatchObject({
            state: 'running',
            token: 2,
            worker: heir.id,
          }),
        takenUpMs,
      );
      desk.slow = false;
      desk.fault = () => undefined;
      await completed(desk, run);
      await eventually(async () => expect(await desk.counts()).toEqual(nothing));
      expect(
        (await differences(desk.pool, desk.sandbox.world)).filter(one => /^(customers|contacts) /.test(one)),
      ).toEqual([]);
    });

    onOneQueue?.(
      'stopped with a page in flight, and continued when another one is at work: that page is not written',
      long,
      async () => {
        await using desk = await deskOf();
        const sleeper = await desk.process();
        desk.onRequest = () => {
          if (details(desk).length !== 10) return;
          sleeper.kill('SIGSTOP');
          desk.onRequest = () => {};
        };
        const run = await desk.open();
        await eventually(() => expect(details(desk).length).toBeGreaterThan(10));
        const inHand = details(desk)[10]!.path;
        desk.slow = true;
        const heir = await desk.worker({ reconciles: true });
        await eventually(
          async () =>
            expect((await desk.progress(run)).streams.messages).toMatchObject({
              state: 'running',
              token: 2,
              worker: heir.id,
            }),
          takenUpMs,
        );
        // It was never taken for dead: only its job was taken from it.
        expect((await liveWorkers(desk.pool, ['default'])).map(({ id }) => id)).toEqual([sleeper.id, heir.id]);
        await eventually(() => expect(details(desk).filter(({ path }) => path === inHand)).toHaveLength(2));
        sleeper.kill('SIGCONT');
        await goesOn(desk, 3);
        desk.slow = false;
        sleeper.kill('SIGTERM');
        expect(await sleeper.finished).toMatchObject({ code: 0, signal: null });
        const { streams } = await completed(desk, run);
        expect(streams.messages).toMatchObject({ token: 2, worker: heir.id });
        const messages = [...desk.sandbox.world.tickets.values()].flatMap(ticket => ticket.messages);
        // The page that it had in hand is counted once.
        expect(streams.messages!.seen).toBe(messages.length);
        await eventually(async () => expect(await desk.counts()).toEqual(nothing));
        await isEqual(desk);
      },
    );
  });

  onOneQueue?.(
    'a command that works itself is stopped: another worker takes its work up within 15 s',
    long,
    async () => {
      await using desk = await deskOf();
      const sleeper = await desk.process(['sync']);
      await eventually(() => expect(details(desk).length).toBeGreaterThan(10));
      sleeper.kill('SIGSTOP');
      const [run] = await desk.rows('select id from sync.stored_runs');
      const heir = await desk.worker({ reconciles: true });
      await eventually(
        async () =>
          expect((await desk.progress(run!.id as number)).streams.messages).toMatchObject({ worker: heir.id }),
        takenUpMs,
      );
      sleeper.kill('SIGCONT');
      await completed(desk, run!.id as number);
      expect(await sleeper.finished).toMatchObject({ code: 0, signal: null });
      await isEqual(desk);
    },
  );

  describe.concurrent('servers that go and come back', () => {
    test('a queue that is emptied in the middle: the run ends all the same', long, async () => {
      await using desk = await deskOf();
      desk.slow = true;
      await desk.worker({ reconciles: true });
      await desk.worker({ reconciles: true });
      const run = await desk.open();
      // At work on the users and the customers, and on the tickets and their messages.
      for (const requests of [1, 2, 3, 8]) {
        await goesOn(desk, requests);
        await desk.flush();
      }
      desk.slow = false;
      await completed(desk, run);
      await isEqual(desk);
    });

    if (redisUrl !== undefined) {
      test('a Redis that goes, and comes back empty: work in hand goes on meanwhile, and all of it afterwards', async () => {
        await using way = await wayTo(redisUrl);
        await using desk = await deskOf({ ways: { REDIS_URL: way.url } });
        desk.slow = true;
        const worker = await desk.process();
        const run = await desk.open();
        await eventually(() => expect(desk.sandbox.requests.some(({ path }) => path === '/customers')).toBe(true));
        await way.close();
        await desk.flush();
        // The stream that is at work ends without it; the next one needs it.
        await eventually(async () => expect((await desk.progress(run)).streams.customers!.state).toBe('completed'));
        desk.slow = false;
        await way.open();
        await completed(desk, run);
        await isEqual(desk);
        worker.kill('SIGTERM');
        expect(await worker.finished).toMatchObject({ code: 0, signal: null });
      });
    }

    onOneQueue?.(
      'a database that cannot be reached for a while: the process waits for it, and goes on by itself',
      long,
      async () => {
        const { url } = inject('postgres');
        await using way = await wayTo(url);
        await using desk = await deskOf({ ways: { DATABASE_URL: way.url } });
        desk.slow = true;
        const worker = await desk.process();
        const run = await desk.open();
        // So that what follows needs the queue as well.
        await eventually(() => expect(desk.sandbox.requests.some(({ path }) => path === '/customers')).toBe(true));
        await way.close();
        await eventually(() =>
          expect(worker.told()).toMatch(/customers: the database does not answer: .*; waiting for it/),
        );
        await eventually(async () => expect(await isAlive(desk, worker)).toBe(false));
        expect(await desk.rows(`select state from sync.run_streams where stream = 'customers'`)).toEqual([
          { state: 'interrupted' },
        ]);
        desk.slow = false;
        await way.open();
        await eventually(async () => expect(await isAlive(desk, worker)).toBe(true));
        await completed(desk, run);
        await isEqual(desk);
        worker.kill('SIGTERM');
        expect(await worker.finished).toMatchObject({ code: 0, signal: null });
      },
    );

    if (redisUrl === undefined) {
      test('a database that is read-only for a while is waited for, and the run ends by itself', long, async () => {
        await using desk = await deskOf();
        desk.slow = true;
        const worker = await desk.worker({ reconciles: true });
        const run = await desk.open();
        await eventually(() => expect(desk.sandbox.requests.some(({ path }) => path === '/customers')).toBe(true));
        const set = (mode: 'on' | 'off') =>
          desk.rows(`do $$ begin
            execute format('alter database %I set default_transaction_read_only = ${mode}', current_database()); end $$`);
        await set('on');
        await endConnections(desk);
        await eventually(async () => expect(await isAlive(desk, worker)).toBe(false));
        await set('off');
        desk.slow = false;
        await completed(desk, run);
        await isEqual(desk);
        await eventually(async () => expect(await isAlive(desk, worker)).toBe(true));
      });

      test('Ctrl-C of a command while the database is away: it says so, and ends', long, async () => {
        const { url } = inject('postgres');
        await using way = await wayTo(url);
        await using desk = await deskOf({ ways: { DATABASE_URL: way.url } });
        desk.slow = true;
        const command = await desk.process(['sync', '--json']);
        await goesOn(desk, 2);
        await way.close();
        await eventually(() => expect(command.told()).toMatch(/the warehouse does not answer: .*; waiting for it/));
        command.kill('SIGINT');
        const { code, stdout, stderr } = await command.finished;
        expect({ code, stdout }).toEqual({ code: 130, stdout: '' });
        expect(stderr).toMatch(/error: the warehouse does not answer: .*\nThe state of run 1 is unknown/);
        expect(stderr).not.toContain('    at ');
      });
    }
  });
}

describe('the queue in PostgreSQL', () => conformance(undefined));
describeOnRedis('the queue in Redis', ({ url }) => conformance(url), { takesLong: true });
