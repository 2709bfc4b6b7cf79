/** Who may write: tokens, locks, and how a run and its streams end. */
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../../src/clock.ts';
import { Fatal, FencedOff, Interrupted, Retry } from '../../../src/errors.ts';
import { messages } from '../../../src/streams/messages.ts';
import { tickets } from '../../../src/streams/tickets.ts';
import { hydrate } from '../../../src/sync/hydrate.ts';
import { noteFailure, syncList } from '../../../src/sync/sync.ts';
import { finish, heldBy, release, takeUp } from '../../../src/warehouse/claims.ts';
import { buryRuns, endRun, readProgress } from '../../../src/warehouse/runs.ts';
import { bePresent } from '../../../src/warehouse/workers.ts';
import { at, message, open, type Scripted, scripted, take, ticket } from '../../support/scripted.ts';

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
const claimOf = (s: Scripted, run: number, stream: string) => take(s.pool, { account: 'default', run, stream }, at(0));

describe('a commit under an old token fails and leaves nothing behind', () => {
  const acts: Record<string, (s: Scripted, old: Awaited<ReturnType<Scripted['claim']>>) => Promise<unknown>> = {
    'a page of a list': (s, old) => syncList(s.ctx, old, tickets),
    'a ticket in detail': (s, old) => hydrate(s.ctx, old, messages),
    'a failure': (s, old) => noteFailure(s.ctx, old, { askId: 't1', reason: 'why' }),
    'the end of the stream': (s, old) => finish(s.pool, old, at(20), { credits: 7 }),
  };
  const takers: Record<string, (s: Scripted, old: Awaited<ReturnType<Scripted['claim']>>) => Promise<unknown>> = {
    'another worker': (s, old) => take(s.pool, old, at(15)),
    'its own departure': (s, old) => release(s.pool, old, 0),
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
  const run = await open(s.pool, ['tickets', 'users'], at(0));
  const key = { account: 'default', run, stream: 'tickets' };
  const me = { worker: 0, job: 'job' };
  const claim = (token: number) => ({ ...key, kind: 'sync', again: false, token });
  expect(await takeUp(s.pool, key, me, at(1))).toEqual({ taken: claim(1) });
  expect(await takeUp(s.pool, key, me, at(2))).toEqual({ taken: claim(2) });
  expect(await s.rows('select stream, token, state, started_at from sync.stored_run_streams order by 1')).toEqual([
    { stream: 'tickets', token: 2, state: 'running', started_at: at(1) },
    { stream: 'users', token: 0, state: 'waiting', started_at: null },
  ]);
  await finish(s.pool, { ...key, kind: 'sync', again: false, token: 2 }, at(3), { credits: 4 });
  expect(await takeUp(s.pool, key, me, at(4))).toEqual({ over: true });
  expect(await takeUp(s.pool, { ...key, stream: 'customers' }, me, at(4))).toEqual({ over: true });
  expect(await takeUp(s.pool, { ...key, run: run + 1 }, me, at(4))).toEqual({ over: true });
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
    { ends: [{}, { partly: 'x' }], state: 'partly' },
    { ends: [{ partly: 'x' }, { error: new Retry('x') }], state: 'failed' },
    { ends: [{ error: new Retry('x') }, { error: new Interrupted() }], state: 'failed' },
    { ends: [{ partly: 'x' }, { error: new Interrupted() }], state: 'interrupted' },
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
  await buryRuns(s.pool, 'default', at(3));
  expect(await everything(s)).toEqual(before);
});
