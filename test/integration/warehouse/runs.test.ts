/** Who may write: tokens, locks, and how a run and its streams end. */

import type pg from 'pg';
import { describe, expect, test, vi } from 'vitest';
import { type Clock, systemClock } from '../../../src/clock.ts';
import { keepBooks, noCounts } from '../../../src/engine/commit/commit.ts';
import { makePool, transaction } from '../../../src/engine/database/pool.ts';
import { noteFailure } from '../../../src/engine/load/failures.ts';
import { syncList } from '../../../src/engine/load/list-loop.ts';
import { runStream } from '../../../src/engine/load/run-stream.ts';
import type { JobQueue } from '../../../src/engine/queue/queue.ts';
import { reconcile } from '../../../src/engine/queue/reconcile.ts';
import { noJobs } from '../../../src/engine/queue/worker.ts';
import {
  type Claimant,
  failUntaken,
  finish,
  finishUntaken,
  heldBy,
  release,
  takeUp,
} from '../../../src/engine/runs/claims.ts';
import {
  endAbandonedRuns,
  endRun,
  isNext,
  isResting,
  openSync,
  othersWait,
  readProgress,
} from '../../../src/engine/runs/runs.ts';
import type { Presence } from '../../../src/engine/runs/workers.ts';
import { Fatal, FencedOff, Interrupted, isAway, Retry } from '../../../src/errors.ts';
import { hydrate } from '../../../src/sources/helpdesk/messages/detail-loop.ts';
import { messages } from '../../../src/sources/helpdesk/messages/messages.ts';
import { tickets } from '../../../src/sources/helpdesk/tickets.ts';
import { liveWorkers } from '../../../src/status/workers.ts';
import { keyOf, keysOf } from '../../support/keys.ts';
import { bePresent } from '../../support/present.ts';
import { at, message, open, type Scripted, scripted, second, take, ticket } from '../../support/scripted.ts';
import { wayTo } from '../../support/way.ts';

/** All rows of all tables, as text. */
async function everything(s: Scripted): Promise<Record<string, unknown[]>> {
  const names = await s.rows(`select format('%I.%I', schemaname, tablename) as name from pg_tables
    where schemaname in ('helpdesk', 'sync') order by 1`);
  const all: Record<string, unknown[]> = {};
  for (const { name } of names) {
    all[name as string] = (await s.rows(`select t::text as row from ${name} t order by 1`)).map(({ row }) => row);
  }
  return all;
}

const states = async (s: Scripted, run: number) => {
  const { state, streams } = await readProgress(s.pool, run);
  return { state, streams: streams.map(one => `${one.stream}: ${one.state}, ${one.exit_code}`).sort() };
};
const claimOf = (s: Scripted, run: number, stream: string) =>
  take(s.pool, { account: 'default', run, stream: keyOf(stream) }, at(0));

describe('a commit under an old token fails and leaves nothing behind', () => {
  const acts: Record<string, (s: Scripted, old: Awaited<ReturnType<Scripted['claim']>>) => Promise<unknown>> = {
    'a page of a list': (s, old) => syncList(s.ctx, old, tickets),
    'an empty page': (s, old) => {
      s.lists.tickets = [];
      return syncList(s.ctx, old, tickets);
    },
    'a ticket in detail': (s, old) => hydrate(s.ctx, old, messages),
    'a failure': (s, old) => noteFailure(s.ctx, old, { askId: 't1', reason: 'why' }),
    'the end of the stream': (s, old) => finish(s.pool, old, at(20), { credits: 7 }),
  };
  const takers: Record<string, (s: Scripted, old: Awaited<ReturnType<Scripted['claim']>>) => Promise<unknown>> = {
    'another worker': (s, old) => take(s.pool, old, at(15)),
    'its own departure': (s, old) => release(s.pool, old, 0),
    'its own end': (s, old) => finish(s.pool, old, at(15), { credits: 0 }),
    'whoever ended abandoned runs': s => endAbandonedRuns(s.pool, 'default', at(15)),
    'whoever ended the run': (s, old) => endRun(s.pool, old.run, at(15), new Interrupted()),
  };
  for (const [act, write] of Object.entries(acts)) {
    test.for(Object.keys(takers))(`${act}, after %s`, async taker => {
      await using s = await scripted({ lookbackMs: 1000 });
      // One page with all there is: a change, a label, a reject, drift, a proof, a list that is redundant.
      s.lists.tickets = [ticket('t1')];
      s.goTo(10);
      await s.sync('tickets');
      const changed = ticket('t1', { subject: 'changed', label_ids: ['l1'], odd: 1 });
      s.lists.tickets = [changed, ticket('t2', { spam: true }), ticket('bad', { user_id: 5 })];
      s.details['/tickets/t1'] = { ...changed, messages: [message('m1'), message('m2', { user_id: 5 })] };
      const old = await s.claim(act === 'a ticket in detail' ? 'messages' : 'tickets');
      await takers[taker]!(s, old);
      const before = await everything(s);
      s.goTo(20);
      await expect(write(s, old)).rejects.toThrow(FencedOff);
      expect(await everything(s)).toEqual(before);
    });
  }
});

describe('a database that has lost what a claim had committed takes nothing more under it', () => {
  const acts: Record<string, (s: Scripted, claim: Awaited<ReturnType<Scripted['claim']>>) => Promise<unknown>> = {
    'a page of a list': (s, claim) => syncList(s.ctx, claim, tickets),
    'an empty page': (s, claim) => {
      s.lists.tickets = [];
      return syncList(s.ctx, claim, tickets);
    },
    'a failure': (s, claim) => noteFailure(s.ctx, claim, { askId: 't1', reason: 'why' }),
    'the end of the stream': (s, claim) => finish(s.pool, claim, at(20), { credits: 7 }),
  };
  test.for(Object.keys(acts))('%s', async act => {
    await using s = await scripted({ lookbackMs: 1000 });
    const claim = await s.claim('tickets');
    const kept = 'select * from sync.stored_run_streams where run_id = $1';
    const [{ seen, credits }] = (await s.rows(kept, claim.run)) as [{ seen: number; credits: number }];
    s.lists.tickets = [ticket('t1')];
    s.goTo(10);
    await syncList(s.ctx, claim, tickets);
    // As a power cut of the database leaves it: the claim itself was on the disk, its page was not.
    await s.pool.query('delete from helpdesk.tickets');
    await s.pool.query(`update sync.coverage set covered = '{}'`);
    await s.pool.query('update sync.stored_run_streams set seen = $2, credits = $3, inserted = 0 where run_id = $1', [
      ...[claim.run, seen, credits],
    ]);
    const before = await everything(s);
    s.goTo(20);
    await expect(acts[act]!(s, claim)).rejects.toThrow(FencedOff);
    expect(await everything(s)).toEqual(before);
    // The next claim reads all of it.
    await release(s.pool, claim, 0);
    s.lists.tickets = [ticket('t1')];
    await syncList(s.ctx, await take(s.pool, claim, at(20)), tickets);
    expect(await s.rows('select id from helpdesk.tickets')).toEqual([{ id: 't1' }]);
  });
});

test('a transaction that was rolled back counts as nothing that a claim had committed', async () => {
  await using s = await scripted({ lookbackMs: 1000 });
  const claim = await s.claim('tickets');
  const books = { counts: { ...noCounts(), seen: 5, credits: 3 }, rejects: [], stored: [], drift: [] } as const;
  const moment = { nowMs: second(10), asOfMs: second(9) };
  const fails = transaction(s.pool, async client => {
    await keepBooks(client, claim, moment, books);
    throw new Error('no');
  });
  await expect(fails).rejects.toThrow('no');
  await transaction(s.pool, client => keepBooks(client, claim, moment, books));
  await finish(s.pool, claim, at(20), { credits: 0 });
  expect(await s.rows('select seen, credits, state from sync.stored_run_streams')).toEqual([
    { seen: 5, credits: 3, state: 'completed' },
  ]);
});

test('an empty page under a good token proves as much as any, and its credits are counted', async () => {
  await using s = await scripted({ lookbackMs: 1000 });
  s.goTo(10);
  const claim = await s.claim('tickets');
  await syncList(s.ctx, claim, tickets);
  expect(
    await s.rows(
      `select list, upper(covered) as until from sync.coverage where stream = 'tickets' and not isempty(covered) order by list`,
    ),
  ).toEqual(['default', 'spam', 'trash'].map(list => ({ list, until: at(8) })));
  expect(
    await s.rows('select seen, credits, expected from sync.stored_run_streams where run_id = $1', claim.run),
  ).toEqual([{ seen: 0, credits: 6, expected: 0 }]);
});

test('the same page under a good token writes all of it', async () => {
  await using s = await scripted({ lookbackMs: 1000 });
  s.lists.tickets = [ticket('t1', { label_ids: ['l1'], odd: 1, spam: true }), ticket('bad', { user_id: 5 })];
  s.goTo(10);
  const claim = await s.claim('tickets');
  await syncList(s.ctx, claim, tickets);
  expect(
    await s.rows(`select list, covered::text, redundant from sync.coverage where stream = 'tickets' order by list`),
  ).toEqual([
    { list: 'default', covered: '{["1970-01-01 00:00:00+00","2026-01-01 00:00:08+00")}', redundant: false },
    { list: 'spam', covered: '{}', redundant: true },
    { list: 'trash', covered: '{["1970-01-01 00:00:00+00","2026-01-01 00:00:08+00")}', redundant: false },
  ]);
  expect(await s.rows('select id from helpdesk.tickets')).toEqual([{ id: 't1' }]);
  expect(await s.rows('select label_id from helpdesk.ticket_labels')).toEqual([{ label_id: 'l1' }]);
  expect(await s.rows('select key from sync.rejects')).toEqual([{ key: 'bad' }]);
  expect((await readProgress(s.pool, claim.run)).streams).toMatchObject([{ seen: 2, inserted: 1, rejected: 1 }]);
});

test('a stream that ends while it is being taken up stays ended', async () => {
  await using s = await scripted();
  const run = await open(s.pool, ['tickets'], at(0));
  const ending = await s.pool.connect();
  await ending.query('begin');
  await ending.query(`update sync.stored_run_streams set state = 'interrupted', token = token + 1 where run_id = $1`, [
    run,
  ]);
  const up = takeUp(s.pool, { account: 'default', run, stream: 'helpdesk.tickets' }, { worker: 0, job: 'job' }, () =>
    at(1),
  );
  await expect.poll(() => s.rows('select from pg_locks where not granted')).toHaveLength(1);
  await ending.query('commit');
  ending.release();
  expect(await up).toEqual({ over: true });
  expect(await s.rows('select state, token, worker from sync.stored_run_streams')).toEqual([
    { state: 'interrupted', token: 1, worker: null },
  ]);
});

test('whoever takes a stream up raises its token, until the stream is over', async () => {
  await using s = await scripted();
  const run = await open(s.pool, ['tickets', 'users'], at(0));
  const key = { account: 'default', run, stream: 'helpdesk.tickets' } as const;
  const me = { worker: 0, job: 'job' };
  const claim = (token: number) => ({ ...key, kind: 'sync', again: false, token });
  expect(await takeUp(s.pool, key, me, () => at(1))).toEqual({ taken: claim(1) });
  expect(await takeUp(s.pool, key, me, () => at(2))).toEqual({ taken: claim(2) });
  expect(await s.rows('select stream, token, state, started_at from sync.stored_run_streams order by 1')).toEqual([
    { stream: 'tickets', token: 2, state: 'running', started_at: at(1) },
    { stream: 'users', token: 0, state: 'waiting', started_at: null },
  ]);
  await finish(s.pool, { ...key, kind: 'sync', again: false, token: 2 }, at(3), { credits: 4 });
  expect(await takeUp(s.pool, key, me, () => at(4))).toEqual({ over: true });
  expect(await takeUp(s.pool, { ...key, stream: 'helpdesk.customers' }, me, () => at(4))).toEqual({ over: true });
  expect(await takeUp(s.pool, { ...key, run: run + 1 }, me, () => at(4))).toEqual({ over: true });
});

const ends = [
  { says: 'well', end: {}, state: 'completed', exit_code: 0, error: null, remedy: null },
  {
    says: 'partial',
    end: { partial: 'two are missing' },
    state: 'partial',
    exit_code: 3,
    error: 'two are missing',
    remedy: /shelfdesk status/,
  },
  {
    says: 'interrupted',
    end: { error: new Interrupted() },
    state: 'interrupted',
    exit_code: 130,
    error: null,
    remedy: /same command/,
  },
  {
    says: 'with Retry',
    end: { error: new Retry('no reply') },
    state: 'failed',
    exit_code: 1,
    error: 'no reply',
    remedy: /retried automatically/,
  },
  {
    says: 'refused',
    end: { error: new Fatal('401', 'Set it.', 4) },
    state: 'failed',
    exit_code: 4,
    error: '401',
    remedy: /^Set it\.$/,
  },
  {
    says: 'with a bug',
    end: { error: new TypeError('oops') },
    state: 'failed',
    exit_code: 1,
    error: 'oops',
    remedy: /bug in Shelfdesk/,
  },
  {
    says: 'with no error at all',
    end: { error: 'text' },
    state: 'failed',
    exit_code: 1,
    error: 'text',
    remedy: /bug in Shelfdesk/,
  },
];
test.for(ends)(
  'a stream ends $says: its state, exit code, error and remedy, and the run with it',
  async ({ end, state, exit_code, error, remedy }) => {
    await using s = await scripted();
    const run = await open(s.pool, ['tickets'], at(0));
    await finish(s.pool, await claimOf(s, run, 'tickets'), at(9), { ...end, credits: 5 });
    expect(await s.rows('select state, exit_code, error, remedy, credits, finished_at from sync.run_streams')).toEqual([
      { state, exit_code, error, remedy: remedy && expect.stringMatching(remedy), credits: 5, finished_at: at(9) },
    ]);
    expect(await s.rows('select state, finished_at from sync.runs')).toEqual([{ state, finished_at: at(9) }]);
  },
);

test('a run ends with its last stream, as the gravest of them', async () => {
  await using s = await scripted();
  const endings = [
    { ends: [{}, {}], state: 'completed' },
    { ends: [{}, { partial: 'x' }], state: 'partial' },
    { ends: [{ partial: 'x' }, { error: new Retry('x') }], state: 'failed' },
    { ends: [{ error: new Retry('x') }, { error: new Interrupted() }], state: 'failed' },
    { ends: [{ partial: 'x' }, { error: new Interrupted() }], state: 'interrupted' },
  ];
  for (const { ends, state } of endings) {
    const run = await open(s.pool, ['users', 'tickets'], at(0));
    const [users, ticketsClaim] = [await claimOf(s, run, 'users'), await claimOf(s, run, 'tickets')];
    await finish(s.pool, users, at(1), { ...ends[0], credits: 0 });
    expect((await states(s, run)).state).toBe('running');
    await finish(s.pool, ticketsClaim, at(2), { ...ends[1], credits: 0 });
    expect((await states(s, run)).state).toBe(state);
  }
});

/** A pool whose transactions commit when `ready` says so. */
const committingLate = (pool: pg.Pool, ready: () => Promise<void>): pg.Pool =>
  ({
    async connect() {
      const client = await pool.connect();
      const query = async (statement: string, values?: unknown[]) => {
        if (statement === 'commit') await ready();
        return client.query(statement, values);
      };
      return { query, release: (broken?: Error) => client.release(broken) };
    },
  }) as unknown as pg.Pool;

test('a run ends also when two of its streams end at once, as those of two sources do', async () => {
  await using s = await scripted();
  const run = await open(s.pool, ['messages', 'volumes'], at(0));
  const [first, second] = [await claimOf(s, run, 'messages'), await claimOf(s, run, 'volumes')];
  const isBlocked = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  let other = Promise.resolve();
  const late = committingLate(s.pool, async () => {
    let isOver = false;
    other = finish(s.pool, second, at(2), { credits: 0 }).finally(() => {
      isOver = true;
    });
    // It either ends without the first one, or waits for its commit.
    while (!isOver && (await s.rows(isBlocked)).length === 0);
  });
  await finish(late, first, at(1), { partial: 'x', credits: 0 });
  await other;
  expect(await states(s, run)).toEqual({
    state: 'partial',
    streams: ['messages: partial, 3', 'volumes: completed, 0'],
  });
  expect(await s.rows('select finished_at from sync.runs')).toEqual([{ finished_at: at(2) }]);
});

test('after a refusal or an interruption nothing new is begun; other failures stop nobody', async () => {
  await using s = await scripted();
  const after = async (error: unknown) => {
    const run = await open(s.pool, ['customers', 'tickets', 'users'], at(50));
    const [first, second] = [await claimOf(s, run, 'users'), await claimOf(s, run, 'tickets')];
    await finish(s.pool, first, at(1), { error, credits: 0 });
    const between = await states(s, run);
    // The one that is at work finishes in its own words.
    await finish(s.pool, second, at(2), { credits: 0 });
    return [between, await states(s, run)];
  };
  expect(await after(new Fatal('401', 'Set it.', 4))).toEqual([
    { state: 'running', streams: ['customers: failed, 4', 'tickets: running, null', 'users: failed, 4'] },
    { state: 'failed', streams: ['customers: failed, 4', 'tickets: completed, 0', 'users: failed, 4'] },
  ]);
  expect(await after(new Interrupted())).toEqual([
    { state: 'running', streams: ['customers: interrupted, 130', 'tickets: running, null', 'users: interrupted, 130'] },
    {
      state: 'interrupted',
      streams: ['customers: interrupted, 130', 'tickets: completed, 0', 'users: interrupted, 130'],
    },
  ]);
  expect(await after(new Retry('no reply'))).toEqual([
    { state: 'running', streams: ['customers: waiting, null', 'tickets: running, null', 'users: failed, 1'] },
    { state: 'running', streams: ['customers: waiting, null', 'tickets: completed, 0', 'users: failed, 1'] },
  ]);
});

test('whoever leaves a run ends what is left of it, and nothing that is over', async () => {
  await using s = await scripted();
  const run = await open(s.pool, ['customers', 'tickets', 'users'], at(0));
  await finish(s.pool, await claimOf(s, run, 'users'), at(1), { credits: 0 });
  await claimOf(s, run, 'tickets');
  await endRun(s.pool, run, at(2), new Interrupted());
  expect(await states(s, run)).toEqual({
    state: 'interrupted',
    streams: ['customers: interrupted, 130', 'tickets: interrupted, 130', 'users: completed, 0'],
  });
  expect(await s.rows('select stream, token from sync.run_streams order by 1')).toEqual([
    { stream: 'customers', token: 1 },
    { stream: 'tickets', token: 2 },
    { stream: 'users', token: 1 },
  ]);
  const before = await everything(s);
  await endAbandonedRuns(s.pool, 'default', at(3));
  await endRun(s.pool, run, at(4), new Retry('no reply'));
  expect(await everything(s)).toEqual(before);
});

test('a sync takes over what an interrupted one has just completed, and nothing that only a clock calls young', async () => {
  await using s = await scripted();
  const carry = 60_000;
  const sync = { account: 'default', streams: keysOf(['users', 'customers', 'tickets']), opener: 0 };
  const carried = async (finishedAt: Date, coveredTo: Record<string, Date>, now: Date) => {
    await s.rows(`update sync.coverage set covered = '{}'`);
    for (const [stream, to] of Object.entries(coveredTo))
      await s.rows(
        `update sync.coverage set covered = tstzmultirange(tstzrange('1970-01-01', $2)) where stream = $1`,
        ...[stream, to],
      );
    const first = await openSync(s.pool, sync, at(0), carry);
    for (const stream of ['users', 'customers'])
      await finish(s.pool, await claimOf(s, first, stream), finishedAt, { credits: 0 });
    await endRun(s.pool, first, at(2), new Interrupted());
    const second = await openSync(s.pool, sync, now, carry);
    await endRun(s.pool, second, now, new Retry('x'));
    const found = await s.rows(
      'select stream from sync.run_streams where run_id = $1 and carried_from = $2 order by 1',
      ...[second, first],
    );
    return found.map(({ stream }) => stream);
  };
  const read = { users: at(1001), customers: at(1000 - 120) };
  expect(await carried(at(1002), read, at(1030))).toEqual(['customers', 'users']);
  expect(await carried(at(1002), read, at(1063))).toEqual([]);
  // Said by a clock that was ahead, of which the source knew nothing; or by one that is ahead still.
  expect(await carried(at(5002), read, at(5030))).toEqual([]);
  expect(await carried(at(5002), read, at(1030))).toEqual([]);
  // Not read to the end.
  expect(await carried(at(1002), { users: at(1001) }, at(1030))).toEqual(['users']);
});

/** A process that lives until it is disposed of. */
const present = (s: Scripted, more: { account?: string; works?: boolean; pid?: number } = {}): Promise<Presence> =>
  bePresent(s.url, { account: 'default', works: true, host: 'here', pid: 1, version: '0', ...more }, systemClock);

/** Whoever waits on it waits a twentieth of the time. */
const hasty: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(ms / 20, signal) };

/** The same, by a way of its own. */
const far = (url: string, works = true) =>
  bePresent(url, { account: 'default', works, host: 'far', pid: 2, version: '0' }, hasty);

const isAlive = async (s: Scripted, id: number) => (await s.rows('select sync.is_alive($1) as alive', id))[0]!.alive;
const eventually = (look: () => Promise<unknown>) => vi.waitFor(look, { timeout: 30_000 });

/** Ends the connections of all that are present, and waits until they are gone. */
const endPresences = (s: Scripted) =>
  s.rows(`select pg_terminate_backend(pid, 10000) as ended from pg_stat_activity
    where datname = current_database() and application_name = 'shelfdesk: presence'`);

describe('who is alive', () => {
  test('a process is from when it says so until it leaves, and then leaves nothing behind', async () => {
    await using s = await scripted();
    expect(await isAlive(s, 1)).toBe(false);
    await using one = await present(s);
    await using other = await present(s, { account: 'other' });
    expect([await isAlive(s, one.id), await isAlive(s, other.id)]).toEqual([true, true]);
    expect(await s.rows('select account_id, works, host, pid, version from sync.workers order by id')).toEqual([
      { account_id: 'default', works: true, host: 'here', pid: 1, version: '0' },
      { account_id: 'other', works: true, host: 'here', pid: 1, version: '0' },
    ]);
    await one[Symbol.asyncDispose]();
    expect([await isAlive(s, one.id), await isAlive(s, other.id)]).toEqual([false, true]);
    expect(await s.rows('select id from sync.workers')).toEqual([{ id: other.id }]);
  });

  test('it is alive in its own database alone', async () => {
    await using s = await scripted();
    await using neighbour = await scripted();
    await using one = await present(s);
    expect([await isAlive(s, one.id), await isAlive(neighbour, one.id)]).toEqual([true, false]);
  });

  test('a connection that breaks is made again, as often as it breaks', async () => {
    await using s = await scripted();
    await using one = await present(s);
    for (let i = 0; i < 3; i++) {
      expect(await endPresences(s)).toEqual([{ ended: true }]);
      await eventually(async () => expect(await isAlive(s, one.id)).toBe(true));
    }
    expect(await liveWorkers(s.pool, ['default'])).toMatchObject([{ id: one.id, host: 'here', pid: 1 }]);
    await one[Symbol.asyncDispose]();
    expect(await isAlive(s, one.id)).toBe(false);
    expect(await s.rows('select id from sync.workers')).toEqual([]);
  });

  test('when its connection was made again it sees all only after a while: others may not be back yet', async () => {
    await using s = await scripted();
    let passedMs = 0;
    const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + passedMs };
    const me = { account: 'default', works: true, host: 'here', pid: 1, version: '0' };
    await using one = await bePresent(s.url, me, clock);
    expect(one.seesAll()).toBe(true);
    await endPresences(s);
    await eventually(async () => expect(one.seesAll()).toBe(false));
    await eventually(async () => expect(await isAlive(s, one.id)).toBe(true));
    expect(one.seesAll()).toBe(false);
    passedMs = 15_000;
    await eventually(async () => expect(one.seesAll()).toBe(true));
  });

  test('who comes while it is gone takes it for dead; when it is back it is in the list again', async () => {
    await using s = await scripted();
    await using way = await wayTo(s.url);
    await using one = await far(way.url);
    await way.close();
    await eventually(async () => expect(await isAlive(s, one.id)).toBe(false));
    await using other = await present(s);
    expect(await s.rows('select id from sync.workers')).toEqual([{ id: other.id }]);
    await way.open();
    await eventually(async () => expect(await isAlive(s, one.id)).toBe(true));
    // It locks, and then it enters itself.
    await eventually(async () =>
      expect(await liveWorkers(s.pool, ['default'])).toMatchObject([
        { id: one.id, host: 'far', pid: 2 },
        { id: other.id, host: 'here', pid: 1 },
      ]),
    );
  });

  test('that it takes jobs is not forgotten while the database is away', async () => {
    await using s = await scripted();
    await using way = await wayTo(s.url);
    await using one = await far(way.url, false);
    await way.close();
    await eventually(async () => expect(await isAlive(s, one.id)).toBe(false));
    await one.works();
    await way.open();
    await eventually(async () => expect(await liveWorkers(s.pool, ['default'])).toHaveLength(1));
  });

  test('a process that was not told that its session ended asks, and is back', async () => {
    await using s = await scripted();
    await using way = await wayTo(s.url);
    await using one = await far(way.url);
    way.halve('theirs');
    await eventually(async () => expect(await isAlive(s, one.id)).toBe(false));
    await eventually(async () => expect(await isAlive(s, one.id)).toBe(true));
    expect(await liveWorkers(s.pool, ['default'])).toMatchObject([{ id: one.id, host: 'far', pid: 2 }]);
  });

  test('it waits for its own session that lives on at the server, and neither forgets it nor hangs on it', async () => {
    await using s = await scripted();
    await using way = await wayTo(s.url);
    await using one = await far(way.url);
    await using other = await far(way.url);
    const sessions = (granted: boolean) =>
      s.rows(
        `select objid as id, pid from pg_locks where locktype = 'advisory' and granted = $1
        and database = (select oid from pg_database where datname = current_database()) order by 1`,
        granted,
      );
    const old = await sessions(true);
    expect(old).toMatchObject([{ id: one.id }, { id: other.id }]);
    way.halve('ours');
    const waiting = async () => (await sessions(false)).map(({ id, pid }) => `${id} ${pid}`);
    const seen = new Set<string>();
    // They give up, and come again.
    await eventually(async () => {
      for (const session of await waiting()) seen.add(session);
      expect(seen.size).toBeGreaterThanOrEqual(4);
    });
    await one[Symbol.asyncDispose]();
    expect(await sessions(true)).toEqual(old);
    for (const { pid } of old) await s.rows('select pg_terminate_backend($1, 10000)', pid);
    await eventually(async () => {
      const now = await sessions(true);
      expect(now).toMatchObject([{ id: other.id }]);
      expect(old.map(({ pid }) => pid)).not.toContain(now[0]!.pid);
    });
  });

  test('workers are those of an account that take jobs and live', async () => {
    await using s = await scripted();
    await using watcher = await present(s, { works: false, pid: 1 });
    await using _one = await present(s, { pid: 2 });
    await using other = await present(s, { pid: 3 });
    await using _stranger = await present(s, { account: 'other', pid: 4 });
    await s.rows(`insert into sync.workers (account_id, works, host, pid, version, started_at)
      values ('default', true, 'here', 5, '0', now())`);
    const pids = async () => (await liveWorkers(s.pool, ['default'])).map(({ pid }) => pid);
    expect(await pids()).toEqual([2, 3]);
    await watcher.works();
    expect(await pids()).toEqual([1, 2, 3]);
    await other[Symbol.asyncDispose]();
    expect(await pids()).toEqual([1, 2]);
  });
});

describe('who takes up what', () => {
  const work = (run: number, stream = 'tickets') => ({ account: 'default', run, stream: keyOf(stream) });
  const up = async (s: Scripted, run: number, by: Claimant, stream?: string) => {
    const got = await takeUp(s.pool, work(run, stream), by, () => at(1));
    return 'taken' in got ? got.taken.token : got;
  };
  const held = { over: true };

  test('what a living process has under another job is in other hands; under the same job it is taken from it', async () => {
    await using s = await scripted();
    await using one = await present(s);
    await using other = await present(s);
    const run = await open(s.pool, ['tickets'], at(0));
    expect(await up(s, run, { worker: one.id, job: 'a' })).toBe(1);
    expect(await up(s, run, { worker: other.id, job: 'b' })).toEqual(held);
    expect(await up(s, run, { worker: one.id, job: 'b' })).toEqual(held);
    // The queue delivers a job again when its worker has stalled.
    expect(await up(s, run, { worker: other.id, job: 'a' })).toBe(2);
    expect(await up(s, run, { worker: one.id, job: 'b' })).toEqual(held);
    await other[Symbol.asyncDispose]();
    expect(await up(s, run, { worker: one.id, job: 'b' })).toBe(3);
    expect(await s.rows('select worker, job, state from sync.stored_run_streams')).toEqual([
      { worker: one.id, job: 'b', state: 'running' },
    ]);
  });

  test('one reader of a top, one of gaps, one of messages; a dead one is in nobody’s way', async () => {
    await using s = await scripted();
    const dead = { worker: 0, job: 'dead' };
    const one = await present(s);
    const by = (job: string) => ({ worker: one.id, job });
    const first = await open(s.pool, ['tickets', 'users', 'messages'], at(0));
    const second = await open(s.pool, ['tickets', 'users', 'messages'], at(0));
    const backfill = await open(s.pool, ['tickets', 'messages'], at(0), { kind: 'backfill' });
    const another = await open(s.pool, ['tickets', 'messages'], at(0), { kind: 'backfill' });
    const waits = async (run: number, stream: string) =>
      (
        await s.rows(
          'select state, token, waits_for from sync.stored_run_streams where run_id = $1 and stream = $2',
          run,
          stream,
        )
      )[0];

    for (const stream of ['tickets', 'messages']) {
      expect(await up(s, first, by('a'), stream)).toBe(1);
      expect(await up(s, second, by('b'), stream)).toEqual({ busy: first });
      expect(await waits(second, stream)).toEqual({ state: 'waiting', token: 0, waits_for: first });
      const wait = (run: number) => othersWait(s.pool, { account: 'default', run, stream: keyOf(stream) });
      expect(await Promise.all([first, second].map(wait))).toEqual([true, false]);
    }
    // Gaps are read beside the top, but not by two.
    expect(await up(s, backfill, by('c'))).toBe(1);
    expect(await up(s, another, by('d'))).toEqual({ busy: backfill });
    expect(await up(s, backfill, by('c'), 'messages')).toEqual({ busy: first });
    // Another stream is another matter, and so is another account.
    expect(await up(s, second, by('b'), 'users')).toBe(1);
    await s.rows(`insert into sync.accounts (account_id) values ('other') on conflict do nothing`);
    const elsewhere = await open(s.pool, ['tickets'], at(0), { account: 'other' });
    const theirs = await takeUp(s.pool, { ...work(elsewhere), account: 'other' }, by('e'), () => at(1));
    expect(theirs).toMatchObject({ taken: { token: 1 } });

    // Who has waited takes it up when the reader has ended, or died.
    const claim = (run: number, token: number, stream = 'tickets') => ({
      ...work(run, stream),
      kind: 'sync' as const,
      again: false,
      token,
    });
    await finish(s.pool, claim(first, 1), at(2), { credits: 0 });
    expect(await up(s, second, dead)).toBe(1);
    expect(await waits(second, 'tickets')).toEqual({ state: 'running', token: 1, waits_for: null });
    const third = await open(s.pool, ['tickets'], at(0));
    expect(await up(s, third, by('f'))).toBe(1);
    await one[Symbol.asyncDispose]();
    expect(await up(s, second, { worker: 0, job: 'g' }, 'messages')).toBe(1);
  });

  test('a stream is next when its run has nothing else of the source to read, and rests after it failed', async () => {
    await using s = await scripted();
    await s.rows(`insert into sync.accounts (account_id) values ('other') on conflict do nothing`);
    const ask = async (account = 'default') => [
      await transaction(s.pool, c => isNext(c, account, 'helpdesk.tickets')),
      await transaction(s.pool, c => isNext(c, account, 'helpdesk.messages')),
    ];
    const rests = (stream: 'tickets' | 'messages', now: number, account = 'default') =>
      transaction(s.pool, c => isResting(c, { account, stream: keyOf(stream) }, at(now), 10_000));
    const run = await open(s.pool, ['tickets', 'messages'], at(0), { kind: 'hydrate' });
    expect(await ask()).toEqual([false, false]);
    const reader = await claimOf(s, run, 'tickets');
    expect(await ask()).toEqual([true, false]);
    await finish(s.pool, reader, at(1), { credits: 0 });
    expect(await ask()).toEqual([false, true]);
    expect(await ask('other')).toEqual([false, false]);
    expect(await rests('messages', 2)).toBe(false);
    await finish(s.pool, await claimOf(s, run, 'messages'), at(5), { credits: 0, error: new Retry('no reply') });
    await open(s.pool, ['messages'], at(6));
    expect(await rests('messages', 14)).toBe(true);
    expect(await rests('messages', 15)).toBe(false);
    expect(await rests('messages', 14, 'other')).toBe(false);
    const another = await open(s.pool, ['tickets'], at(7), { kind: 'hydrate' });
    await finish(s.pool, await claimOf(s, another, 'tickets'), at(8), { credits: 0 });
    expect(await rests('messages', 14)).toBe(true);
  });

  test('a process takes nothing from itself while nobody sees that it lives, and adds no job for it; others do', async () => {
    await using s = await scripted();
    await using other = await present(s);
    const unseen = 1000;
    const by = (job: string) => ({ worker: unseen, job });
    const run = await open(s.pool, ['tickets'], at(0));
    const second = await open(s.pool, ['tickets'], at(0));
    const looks = async (worker: number, ...jobs: string[]) => {
      const added: string[] = [];
      const add = async (_name: string, id: string) => void added.push(id);
      const queue = { add } as unknown as JobQueue;
      const has = (id: string) => jobs.includes(id);
      await reconcile(s.pool, [{ ctx: s.ctx, queue, worker, jobs: { ...noJobs, has } }]);
      return added;
    };
    expect(await up(s, run, by('a'))).toBe(1);
    expect(await up(s, run, by('b'))).toEqual(held);
    expect(await up(s, second, by('b'))).toEqual({ busy: run });
    expect(await looks(unseen, 'a')).toEqual([`run-${second}-helpdesk.tickets-0`]);
    expect(await looks(other.id)).toEqual([`run-${run}-helpdesk.tickets-1`, `run-${second}-helpdesk.tickets-0`]);
    // What it no longer works on it gives back.
    expect(await looks(unseen)).toEqual([`run-${run}-helpdesk.tickets-1`, `run-${second}-helpdesk.tickets-0`]);
    expect(await up(s, run, by('a'))).toBe(2);
    expect(await up(s, run, { worker: other.id, job: 'c' })).toBe(3);
  });

  test('one look is for all accounts: each gets its own jobs, with as many statements for three as for one', async () => {
    await using s = await scripted();
    await s.rows(`insert into sync.accounts (account_id) values ('other'), ('third')`);
    const queries = vi.spyOn(s.pool, 'query');
    const [stopping, added] = [vi.fn(), vi.fn()];
    const first = await open(s.pool, ['tickets'], at(0));
    const second = await open(s.pool, ['tickets'], at(0), { account: 'other' });
    const lost = [{ job: 'a', claim: { ...(await claimOf(s, first, 'tickets')), token: 0 } }];
    await s.rows('update sync.stored_run_streams set worker = 1001 where run_id = $1', first);
    const members = ['default', 'other', 'third'].map((account, n) => ({
      ctx: { ...s.ctx, account },
      queue: { add: async (_name: string, id: string) => added(account, id) } as unknown as JobQueue,
      worker: 1001 + n,
      jobs: {
        has: () => true,
        claims: () => (n === 0 ? lost : []),
        stop: (job: string) => stopping(account, job),
      },
    }));
    const looks = async (of: typeof members) => {
      queries.mockClear();
      await reconcile(s.pool, of);
      return queries.mock.calls.length;
    };
    expect(await looks(members.slice(0, 1))).toBe(3);
    expect(added.mock.calls).toEqual([]);
    expect(stopping.mock.calls).toEqual([['default', 'a']]);
    expect(await looks(members)).toBe(3);
    expect(added.mock.calls).toEqual([['other', `run-${second}-helpdesk.tickets-0`]]);
    expect(stopping.mock.calls).toEqual([
      ['default', 'a'],
      ['default', 'a'],
    ]);
  });

  test('what a dead one held waits again when another run has its turn', async () => {
    await using s = await scripted();
    await using one = await present(s);
    const run = await open(s.pool, ['tickets'], at(0));
    const reader = await open(s.pool, ['tickets'], at(0));
    expect(await up(s, run, { worker: 0, job: 'dead' })).toBe(1);
    expect(await up(s, reader, { worker: one.id, job: 'a' })).toBe(1);
    expect(await up(s, run, { worker: one.id, job: 'b' })).toEqual({ busy: reader });
    const row = 'select state, token, worker, job, waits_for from sync.stored_run_streams where run_id = $1';
    expect(await s.rows(row, run)).toEqual([
      { state: 'waiting', token: 1, worker: null, job: null, waits_for: reader },
    ]);
    // So it can be left to that one.
    await finishUntaken(s.pool, work(run), reader, at(2), {});
    expect(await states(s, run)).toEqual({ state: 'completed', streams: ['tickets: completed, 0'] });
  });

  test('what a process holds is in its name until it is put back, and a stale hand puts nothing back', async () => {
    await using s = await scripted();
    await using one = await present(s);
    const by = { worker: one.id, job: 'a' };
    const run = await open(s.pool, ['tickets', 'users'], at(0));
    expect(await up(s, run, by)).toBe(1);
    expect(await up(s, run, { ...by, job: 'b' }, 'users')).toBe(1);
    const holds = async (worker: number) =>
      (await heldBy(s.pool, [worker])).toSorted((a, b) => a.job.localeCompare(b.job));
    expect(await holds(one.id)).toEqual([
      { worker: one.id, run, stream: 'helpdesk.tickets', token: 1, job: 'a' },
      { worker: one.id, run, stream: 'helpdesk.users', token: 1, job: 'b' },
    ]);
    expect(await holds(0)).toEqual([]);
    await release(s.pool, { run, stream: 'helpdesk.tickets', token: 0 }, 9);
    expect(await holds(one.id)).toHaveLength(2);
    await release(s.pool, { run, stream: 'helpdesk.tickets', token: 1 }, 3);
    await release(s.pool, { run, stream: 'helpdesk.tickets', token: 1 }, 3);
    expect(await holds(one.id)).toEqual([{ worker: one.id, run, stream: 'helpdesk.users', token: 1, job: 'b' }]);
    expect(
      await s.rows(
        'select state, token, worker, job, credits, finished_at from sync.stored_run_streams where stream = $1',
        'tickets',
      ),
    ).toEqual([{ state: 'waiting', token: 1, worker: null, job: null, credits: 3, finished_at: null }]);
    expect(await up(s, run, { worker: 0, job: 'c' })).toBe(2);
  });

  test('a job that failed before it could say so ends what waits, and what it had, and nothing of anybody else', async () => {
    await using s = await scripted();
    await using one = await present(s);
    const fail = (run: unknown, stream: unknown, job: string) =>
      failUntaken(s.pool, { id: job, data: { run, stream } as never }, at(9), new Error('no reply'));
    const run = await open(s.pool, ['tickets', 'users', 'customers'], at(0));
    await up(s, run, { worker: one.id, job: 'a' });
    await up(s, run, { worker: one.id, job: 'b' }, 'users');
    await fail(run, 'tickets', 'b');
    await fail(run, 'users', 'b');
    await fail(run, 'customers', 'c');
    // What nobody can read names nothing.
    for (const [r, stream] of [
      [undefined, 'tickets'],
      ['1', 'tickets'],
      [run, undefined],
      [run + 1, 'tickets'],
    ])
      await fail(r, stream, 'a');
    expect(await states(s, run)).toEqual({
      state: 'running',
      streams: ['customers: failed, 1', 'tickets: running, null', 'users: failed, 1'],
    });
    await fail(run, 'tickets', 'a');
    expect((await states(s, run)).state).toBe('failed');
    expect(await s.rows('select stream, token, error, remedy from sync.run_streams order by 1')).toEqual([
      { stream: 'customers', token: 1, error: 'no reply', remedy: expect.stringContaining('bug') },
      { stream: 'tickets', token: 2, error: 'no reply', remedy: expect.stringContaining('bug') },
      { stream: 'users', token: 2, error: 'no reply', remedy: expect.stringContaining('bug') },
    ]);
  });
});

describe('runs whose processes died', () => {
  const shown = (s: Scripted) =>
    s.rows(`select r.id, r.state as run, s.stream, s.state from sync.runs r join sync.run_streams s on s.run_id = r.id
      order by r.id, s.stream`);

  test('are shown as interrupted while nobody is alive to go on with them, and as running when somebody is', async () => {
    await using s = await scripted();
    const opener = await present(s, { works: false });
    const worker = await present(s, { works: false });
    const id = await open(s.pool, ['tickets', 'users'], at(0), { opener: opener.id });
    await takeUp(
      s.pool,
      { account: 'default', run: id, stream: 'helpdesk.tickets' },
      { worker: worker.id, job: 'a' },
      () => at(1),
    );
    const now = (run: string, tickets: string) => [
      { id, run, stream: 'tickets', state: tickets },
      { id, run, stream: 'users', state: 'waiting' },
    ];
    expect(await shown(s)).toEqual(now('running', 'running'));
    await opener[Symbol.asyncDispose]();
    await worker[Symbol.asyncDispose]();
    expect(await shown(s)).toEqual(now('interrupted', 'interrupted'));
    // One that watches goes on with nothing, and neither does one that works on another account.
    await using watcher = await present(s, { works: false });
    await using _stranger = await present(s, { account: 'other' });
    expect(await shown(s)).toEqual(now('interrupted', 'interrupted'));
    await watcher.works();
    expect(await shown(s)).toEqual(now('running', 'interrupted'));
    await watcher[Symbol.asyncDispose]();
    expect(await s.rows('select state from sync.stored_runs')).toEqual([{ state: 'running' }]);
  });

  test('are ended, unless who opened them or who is at work on them lives; others’ are left alone', async () => {
    await using s = await scripted();
    await using one = await present(s);
    const begin = async (more: Parameters<typeof open>[3], worker: number, account = 'default') => {
      const run = await open(s.pool, ['tickets', 'users'], at(0), { account, ...more });
      await takeUp(s.pool, { account, run, stream: 'helpdesk.users' }, { worker, job: `job ${run}` }, () => at(1));
      return run;
    };
    await s.rows(`insert into sync.accounts (account_id) values ('other') on conflict do nothing`);
    // In this order: a living reader of the same keeps others out.
    const dead = await begin({}, 0);
    const opened = await begin({ opener: one.id }, 1000);
    const elsewhere = await begin({}, 0, 'other');
    const over = await open(s.pool, ['customers'], at(0));
    await finish(s.pool, await claimOf(s, over, 'customers'), at(2), { credits: 0 });
    const worked = await begin({}, one.id);

    await endAbandonedRuns(s.pool, 'default', at(9));
    const row = (id: number, run: string, stream: string, state: string, token: number, end: unknown = null) => ({
      ...{ id, run, stream, state, token, end },
    });
    expect(
      await s.rows(`select r.id, r.state as run, s.stream, s.state, s.token, s.finished_at as end
        from sync.stored_runs r join sync.stored_run_streams s on s.run_id = r.id order by r.id, s.stream`),
    ).toEqual([
      row(dead, 'interrupted', 'tickets', 'interrupted', 1, at(9)),
      row(dead, 'interrupted', 'users', 'interrupted', 2, at(9)),
      row(opened, 'running', 'tickets', 'waiting', 0),
      row(opened, 'running', 'users', 'running', 1),
      row(elsewhere, 'running', 'tickets', 'waiting', 0),
      row(elsewhere, 'running', 'users', 'running', 1),
      row(over, 'completed', 'customers', 'completed', 1, at(2)),
      row(worked, 'running', 'tickets', 'waiting', 0),
      row(worked, 'running', 'users', 'running', 1),
    ]);
    expect(
      await s.rows('select exit_code, error from sync.run_streams where run_id = $1 and stream = $2', dead, 'users'),
    ).toEqual([{ exit_code: 1, error: 'the process died' }]);
  });
});

test('a connection that ends between two statements of a transaction fails the transaction, not the process', async () => {
  await using s = await scripted();
  const pool = makePool(s.url);
  const lost = transaction(pool, async client => {
    const { rows } = await client.query('select pg_backend_pid() as pid');
    const ended = new Promise(resolve => client.once('end', resolve));
    await s.rows('select pg_terminate_backend($1, 10000)', rows[0].pid);
    await ended;
    await client.query('select');
  });
  await expect(lost).rejects.toSatisfy(isAway);
  expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  await pool.end();
});

test('a database that answers, and takes no page, is asked less and less often: each try pays for a page', async () => {
  await using s = await scripted();
  const run = await open(s.pool, ['tickets'], at(0));
  const begun = s.ctx.clock.now();
  const pauses: number[] = [];
  const full = Object.assign(new Error('could not extend file'), { code: '53100' });
  await runStream(
    s.ctx,
    { account: 'default', run, stream: 'helpdesk.tickets' },
    {
      read: async () => {
        pauses.push((s.ctx.clock.now() - begun) / 1000);
        if (pauses.length < 9) throw full;
        return { partial: undefined };
      },
    },
  );
  expect(pauses).toEqual([0, 1, 3, 7, 15, 31, 63, 123, 183]);
  expect((await readProgress(s.pool, run)).state).toBe('completed');
});
