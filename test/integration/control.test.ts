/**
 * Pause, resume, cancel and retry beside real workers, a real queue and a real help desk: who is at work stops within
 * seconds, also where it waits for a credit, and the queue is clean afterwards (SPEC I20).
 */
import { describe, expect, test } from 'vitest';
import { cancelRun, pause, resume } from '../../src/engine/runs/operations.ts';
import { type Desk, eventually, openDesk } from '../support/desk.ts';
import { long } from '../support/long.ts';
import { differences, noLimits } from '../support/mirror.ts';
import { describeOnRedis } from '../support/redis.ts';

const nothing = { wait: 0, active: 0, delayed: 0, failed: 0, completed: 0 };
const me = { account: 'default', who: 'ada@desk' };
const now = () => new Date();

/** So few that whatever is left waits for minutes. */
const poor = { limits: { ...noLimits, credits: 40, periodMs: 3_600_000 } };

const details = ({ sandbox }: Desk) => sandbox.requests.filter(({ path }) => path.startsWith('/tickets/'));
const isClean = (desk: Desk) => eventually(async () => expect(await desk.counts()).toEqual(nothing));
const ended = (desk: Desk, run: number, state: string) =>
  eventually(async () => {
    const progress = await desk.progress(run);
    expect(progress).toMatchObject({ state });
    return progress.streams;
  });
const isEqual = async (desk: Desk) => expect(await differences(desk.pool, desk.sandbox.world)).toEqual([]);

/** Until it has spent what it may, and waits. */
async function waitsForCredits(desk: Desk, run: number) {
  await eventually(async () => {
    expect((await desk.progress(run)).streams.messages).toMatchObject({ state: 'running' });
    expect(details(desk).length).toBeGreaterThan(0);
    const { rows } = await desk.pool.query(
      `select json_array_length(state -> 'waits') as waits, state from sync.budget where source = 'helpdesk'`,
    );
    expect(rows[0].waits, JSON.stringify(rows[0].state)).toBeGreaterThan(0);
  });
}

function conformance(redisUrl: string | undefined): void {
  const deskOf = (tickets = 30) => openDesk({ redisUrl, tickets });

  test(
    'paused while it waits for credits: it stops, asks for nothing more, and goes on there when it is resumed',
    long,
    async () => {
      await using desk = await deskOf();
      const worker = await desk.worker({ reconciles: true, settings: poor });
      const run = await desk.open();
      await waitsForCredits(desk, run);
      await pause(desk.pool, me, now());
      await eventually(async () =>
        expect((await desk.progress(run)).streams.messages).toMatchObject({
          state: 'waiting',
          worker: null,
          job: null,
        }),
      );
      await isClean(desk);
      const asked = desk.sandbox.totals.requests;
      // Neither what is looked after nor what a job asks for all the same.
      const other = await desk.open(['users']);
      await desk.addJobs();
      await desk.watcher.queue.add('sync-stream', 'by hand', { account: 'default', run: other, stream: 'users' });
      await isClean(desk);
      expect((await desk.progress(other)).streams.users).toMatchObject({ state: 'waiting', token: 0 });
      expect(desk.sandbox.totals.requests).toBe(asked);

      await worker.leave();
      await resume(desk.pool, me, now());
      await desk.worker({ reconciles: true });
      const streams = await ended(desk, run, 'completed');
      await ended(desk, other, 'completed');
      expect(streams.messages).toMatchObject({ token: 2 });
      const paths = details(desk).map(({ path }) => path);
      expect(new Set(paths).size).toBe(paths.length);
      await isClean(desk);
      await isEqual(desk);
    },
  );

  test('a run whose jobs wait is canceled: they vanish as soon as a worker sees them', async () => {
    await using desk = await deskOf();
    const run = await desk.open();
    await desk.addJobs();
    expect(await desk.counts()).toMatchObject({ wait: 1 });
    await cancelRun(desk.pool, { ...me, run }, now());
    await desk.worker({ reconciles: true });
    await isClean(desk);
    expect(desk.sandbox.totals.requests).toBe(0);
  });
}

describe.concurrent('with the queue in PostgreSQL', () => {
  conformance(undefined);

  test('canceled while it waits for credits: it stops, and writes no further page', long, async () => {
    await using desk = await openDesk({ redisUrl: undefined, tickets: 30 });
    await desk.worker({ reconciles: true, settings: poor });
    const run = await desk.open();
    await waitsForCredits(desk, run);
    expect(await cancelRun(desk.pool, { ...me, run }, now())).toEqual({ kind: 'sync', streams: ['messages'] });
    const { messages } = await ended(desk, run, 'interrupted');
    expect(messages).toMatchObject({ state: 'interrupted', error: 'canceled by ada@desk', exit_code: 130, token: 2 });
    const asked = desk.sandbox.totals.requests;
    await isClean(desk);
    expect(desk.sandbox.totals.requests).toBe(asked);
    expect((await desk.progress(run)).streams.messages).toEqual(messages);
  });

  test('a stream that is paused holds up no other one of its run, which ends when it is resumed', long, async () => {
    await using desk = await openDesk({ redisUrl: undefined, tickets: 30 });
    await desk.worker({ reconciles: true });
    await pause(desk.pool, { ...me, stream: 'customers' }, now());
    const run = await desk.open();
    await eventually(async () => expect((await desk.progress(run)).streams.messages!.state).toBe('completed'));
    expect(await desk.progress(run)).toMatchObject({
      state: 'running',
      streams: { customers: { state: 'waiting', token: 0 }, tickets: { state: 'completed' } },
    });
    expect(desk.sandbox.requests.some(({ path }) => path === '/customers')).toBe(false);
    await isClean(desk);
    await resume(desk.pool, { ...me, stream: 'customers' }, now());
    await ended(desk, run, 'completed');
    await isEqual(desk);
  });

  test('pages that are in flight when their run is canceled are not written', long, async () => {
    await using desk = await openDesk({ redisUrl: undefined, tickets: 450 });
    await desk.worker({ reconciles: true });
    const run = await desk.open(['tickets']);
    const canceled = Promise.withResolvers<unknown>();
    desk.onRequest = () => {
      if (desk.sandbox.totals.requests !== 3) return;
      desk.slow = true;
      desk.onRequest = () => {};
      canceled.resolve(cancelRun(desk.pool, { ...me, run }, now()));
    };
    await canceled.promise;
    const counted = async () => [
      (await desk.progress(run)).streams.tickets!.seen,
      (await desk.rows('select count(*) as n from helpdesk.tickets'))[0]!.n,
    ];
    const before = await counted();
    expect(before[0]).toBeLessThan(400);
    await isClean(desk);
    expect(await counted()).toEqual(before);
    expect((await desk.progress(run)).state).toBe('interrupted');
  });
});

describeOnRedis('with the queue in Redis', ({ url }) => conformance(url), { concurrent: true, takesLong: true });
