/** Who may write: tokens, locks, and how a run and its streams end. */
import { describe, expect, test } from 'vitest';
import { Fatal, FencedOff, Interrupted, Retry } from '../../../src/errors.ts';
import { messages } from '../../../src/streams/messages.ts';
import { tickets } from '../../../src/streams/tickets.ts';
import { hydrate } from '../../../src/sync/hydrate.ts';
import { noteFailure, syncList } from '../../../src/sync/sync.ts';
import { makePool } from '../../../src/warehouse/pool.ts';
import {
  accountLock,
  buryRuns,
  deadRuns,
  endRun,
  finish,
  hold,
  openRun,
  readProgress,
  takeUp,
} from '../../../src/warehouse/runs.ts';
import { at, message, type Scripted, scripted, ticket } from '../../support/scripted.ts';

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
  takeUp(s.pool, { account: 'default', run, stream }, at(0)).then(claim => claim!);

describe('a commit under an old token fails and leaves nothing behind', () => {
  const acts: Record<string, (s: Scripted, old: Awaited<ReturnType<Scripted['claim']>>) => Promise<unknown>> = {
    'a page of a list': (s, old) => syncList(s.ctx, old, tickets),
    'a ticket in detail': (s, old) => hydrate(s.ctx, old, messages),
    'a failure': (s, old) => noteFailure(s.ctx, old, { askId: 't1', reason: 'why' }),
    'the end of the stream': (s, old) => finish(s.pool, old, at(20), { credits: 7 }),
  };
  const takers: Record<string, (s: Scripted, old: Awaited<ReturnType<Scripted['claim']>>) => Promise<unknown>> = {
    'another worker': (s, old) => takeUp(s.pool, old, at(15)),
    'its own end': (s, old) => finish(s.pool, old, at(15), { credits: 0 }),
    'whoever buried the run': s => buryRuns(s.pool, 'default', at(15)),
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

test('whoever takes a stream up raises its token, until the stream is over', async () => {
  await using s = await scripted();
  const run = await openRun(s.pool, 'default', ['tickets', 'users'], at(0), 0);
  const key = { account: 'default', run, stream: 'tickets' };
  expect(await takeUp(s.pool, key, at(1))).toEqual({ ...key, token: 1 });
  expect(await takeUp(s.pool, key, at(2))).toEqual({ ...key, token: 2 });
  expect(await s.rows('select stream, token, state, started_at from sync.run_streams order by 1')).toEqual([
    { stream: 'tickets', token: 2, state: 'running', started_at: at(1) },
    { stream: 'users', token: 0, state: 'waiting', started_at: null },
  ]);
  await finish(s.pool, { ...key, token: 2 }, at(3), { credits: 4 });
  expect(await takeUp(s.pool, key, at(4))).toBeUndefined();
  expect(await takeUp(s.pool, { ...key, stream: 'customers' }, at(4))).toBeUndefined();
  expect(await takeUp(s.pool, { ...key, run: run + 1 }, at(4))).toBeUndefined();
});

const ends = [
  { says: 'well', end: {}, state: 'completed', exit_code: 0, error: null, remedy: null },
  {
    says: 'partly',
    end: { partly: 'two are missing' },
    state: 'partly',
    exit_code: 3,
    error: 'two are missing',
    remedy: /sync\.rejects/,
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
    remedy: /by itself/,
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
  {
    says: 'without a database',
    end: { error: new Error('Connection terminated unexpectedly') },
    state: 'failed',
    exit_code: 1,
    error: 'Connection terminated unexpectedly',
    remedy: /Look at the database/,
  },
];
test.for(ends)(
  'a stream ends $says: its state, exit code, error and remedy, and the run with it',
  async ({ end, state, exit_code, error, remedy }) => {
    await using s = await scripted();
    const run = await openRun(s.pool, 'default', ['tickets'], at(0), 0);
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
    { ends: [{}, { partly: 'x' }], state: 'partly' },
    { ends: [{ partly: 'x' }, { error: new Retry('x') }], state: 'failed' },
    { ends: [{ error: new Retry('x') }, { error: new Interrupted() }], state: 'failed' },
    { ends: [{ partly: 'x' }, { error: new Interrupted() }], state: 'interrupted' },
  ];
  for (const { ends, state } of endings) {
    const run = await openRun(s.pool, 'default', ['users', 'tickets'], at(0), 0);
    const [users, ticketsClaim] = [await claimOf(s, run, 'users'), await claimOf(s, run, 'tickets')];
    await finish(s.pool, users, at(1), { ...ends[0], credits: 0 });
    expect((await states(s, run)).state).toBe('running');
    await finish(s.pool, ticketsClaim, at(2), { ...ends[1], credits: 0 });
    expect((await states(s, run)).state).toBe(state);
  }
});

test('after a refusal or an interruption nothing new is begun; other failures stop nobody', async () => {
  await using s = await scripted();
  const after = async (error: unknown) => {
    const run = await openRun(s.pool, 'default', ['customers', 'tickets', 'users'], at(50), 0);
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
  const run = await openRun(s.pool, 'default', ['customers', 'tickets', 'users'], at(0), 0);
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
  await buryRuns(s.pool, 'default', at(3));
  expect(await everything(s)).toEqual(before);
});

test('a lock is held by one process, connection by connection, and ends with it', async () => {
  await using s = await scripted();
  const other = makePool(s.url);
  const lock = accountLock('default');
  const mine = await hold(s.pool, lock);
  expect(mine).toBeDefined();
  expect(await hold(other, lock)).toBeUndefined();
  expect(await hold(s.pool, lock)).toBeUndefined();
  const neighbour = await hold(other, accountLock('other'));
  expect(neighbour).toBeDefined();
  await neighbour![Symbol.asyncDispose]();

  await mine![Symbol.asyncDispose]();
  const theirs = await hold(other, lock);
  expect(theirs).toBeDefined();
  expect(await hold(s.pool, lock)).toBeUndefined();

  // The connection that holds it dies: the lock is free, and letting go of it is no error.
  await s.rows(`select pg_terminate_backend(pid, 5000) from pg_locks where locktype = 'advisory' and granted
    and database = (select oid from pg_database where datname = current_database())`);
  const next = await hold(s.pool, lock);
  expect(next).toBeDefined();
  await theirs![Symbol.asyncDispose]();
  await next![Symbol.asyncDispose]();
  expect(other.idleCount + s.pool.idleCount).toBe(other.totalCount + s.pool.totalCount);
  await other.end();
});

test('a run that says it is running while nobody holds its account is dead, and is buried with its account alone', async () => {
  await using s = await scripted();
  const open = async (account: string) => {
    const run = await openRun(s.pool, account, ['tickets', 'users'], at(0), 0);
    await takeUp(s.pool, { account, run, stream: 'users' }, at(1));
    return run;
  };
  const [dead, alive] = [await open('default'), await open('busy')];
  const over = await openRun(s.pool, 'default', ['users'], at(0), 0);
  await finish(s.pool, await claimOf(s, over, 'users'), at(2), { credits: 0 });
  await using _busy = await hold(s.pool, accountLock('busy'));
  expect(await deadRuns(s.pool)).toEqual([dead]);

  await buryRuns(s.pool, 'default', at(9));
  expect(
    await s.rows(`select r.account_id, r.id, r.state as run, r.finished_at, s.stream, s.state, s.token, s.exit_code, s.error
    from sync.runs r join sync.run_streams s on s.run_id = r.id order by r.id, s.stream`),
  ).toEqual([
    ...['tickets', 'users'].map((stream, i) => ({
      account_id: 'default',
      id: dead,
      run: 'interrupted',
      finished_at: at(9),
      stream,
      state: 'interrupted',
      token: i + 1,
      exit_code: 1,
      error: 'the process died',
    })),
    {
      account_id: 'busy',
      id: alive,
      run: 'running',
      finished_at: null,
      stream: 'tickets',
      state: 'waiting',
      token: 0,
      exit_code: null,
      error: null,
    },
    {
      account_id: 'busy',
      id: alive,
      run: 'running',
      finished_at: null,
      stream: 'users',
      state: 'running',
      token: 1,
      exit_code: null,
      error: null,
    },
    {
      account_id: 'default',
      id: over,
      run: 'completed',
      finished_at: at(2),
      stream: 'users',
      state: 'completed',
      token: 1,
      exit_code: 0,
      error: null,
    },
  ]);
  expect(await deadRuns(s.pool)).toEqual([]);
});
