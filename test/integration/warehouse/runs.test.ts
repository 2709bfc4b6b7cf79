/**
 * Who may write, by examples of whole pages. How streams are taken up and given back, and how runs end, every history of the claims
 * compares with a model, in PostgreSQL: packages/proofs/every-history/claims.
 */

import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { systemClock } from '../../../src/clock.ts';
import { makePool, transaction } from '../../../src/engine/database/pool.ts';
import { readDetails } from '../../../src/engine/details/read-details.ts';
import { noteFailure } from '../../../src/engine/load/failures.ts';
import { syncList } from '../../../src/engine/load/list-loop.ts';
import { runStream } from '../../../src/engine/load/run-stream.ts';
import type { JobQueue } from '../../../src/engine/queue/job-queue.ts';
import { reconcile } from '../../../src/engine/queue/reconcile.ts';
import { noJobs } from '../../../src/engine/queue/worker.ts';
import { type Claimant, finish, release, takeUp } from '../../../src/engine/runs/claims.ts';
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
import { messages } from '../../../src/sources/helpdesk/messages/messages.ts';
import { tickets } from '../../../src/sources/helpdesk/tickets.ts';
import { keyOf, keysOf } from '../../support/keys.ts';
import { bePresent } from '../../support/present.ts';
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

const claimOf = (s: Scripted, run: number, stream: string) =>
  take(s.pool, { account: 'default', run, stream: keyOf(stream) }, at(0));

describe('a commit under an old token fails and leaves nothing behind', () => {
  const acts: Record<string, (s: Scripted, old: Awaited<ReturnType<Scripted['claim']>>) => Promise<unknown>> = {
    'a page of a list': (s, old) => syncList(s.ctx, old, tickets),
    'an empty page': (s, old) => {
      s.lists.tickets = [];
      return syncList(s.ctx, old, tickets);
    },
    'a ticket in detail': (s, old) => readDetails(s.ctx, old, messages),
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
  // Each act after one taker, and one act after each: every history of the claims has the rest.
  const cases = [
    ...Object.keys(acts).map(act => ({ act, taker: 'another worker' })),
    ...Object.keys(takers).map(taker => ({ act: 'a page of a list', taker })),
  ].slice(1);
  test.for(cases)('$act, after $taker', async ({ act, taker }) => {
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
    await expect(acts[act]!(s, old)).rejects.toThrow(FencedOff);
    expect(await everything(s)).toEqual(before);
  });
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

test('the same page under a valid fencing token is written whole', async () => {
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

const ends: [says: string, end: object, state: string, code: number, error: string | null, remedy: RegExp | null][] = [
  ['well', {}, 'completed', 0, null, null],
  ['partial', { partial: 'two are missing' }, 'partial', 3, 'two are missing', /shelfdesk status/],
  ['interrupted', { error: new Interrupted() }, 'interrupted', 130, null, /same command/],
  ['with Retry', { error: new Retry('no reply') }, 'failed', 1, 'no reply', /retried automatically/],
  ['refused', { error: new Fatal('401', 'Set it.', 4) }, 'failed', 4, '401', /^Set it\.$/],
  ['with a bug', { error: new TypeError('oops') }, 'failed', 1, 'oops', /bug in Shelfdesk/],
  ['with no error at all', { error: 'text' }, 'failed', 1, 'text', /bug in Shelfdesk/],
];
describe('a stream ends, and the run with it', () => {
  let s: Scripted;
  beforeAll(async () => {
    s = await scripted();
  });
  afterAll(() => s[Symbol.asyncDispose]());

  test.for(ends)('%s: its state, exit code, error and remedy', async ([, end, state, exit_code, error, remedy]) => {
    const run = await open(s.pool, ['tickets'], at(0));
    await finish(s.pool, await claimOf(s, run, 'tickets'), at(9), { ...end, credits: 5 });
    const row = 'select state, exit_code, error, remedy, credits, finished_at from sync.run_streams where run_id = $1';
    expect(await s.rows(row, run)).toEqual([
      { state, exit_code, error, remedy: remedy && expect.stringMatching(remedy), credits: 5, finished_at: at(9) },
    ]);
    const ended = await s.rows('select state, finished_at from sync.runs where id = $1', run);
    expect(ended).toEqual([{ state, finished_at: at(9) }]);
  });
});

test('a sync reuses streams that an interrupted sync has just completed, unless only a wrong clock makes them recent', async () => {
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

const isAlive = async (s: Scripted, id: number) => (await s.rows('select sync.is_alive($1) as alive', id))[0]!.alive;

/** What may happen to a connection is played whole: packages/proofs/every-history/claims/presence.ts. */
test('a process is alive in its own database alone', async () => {
  await using s = await scripted();
  await using neighbour = await scripted();
  await using one = await present(s);
  expect([await isAlive(s, one.id), await isAlive(neighbour, one.id)]).toEqual([true, false]);
});

describe('who takes up what', () => {
  const work = (run: number, stream = 'tickets') => ({ account: 'default', run, stream: keyOf(stream) });
  const up = async (s: Scripted, run: number, by: Claimant, stream?: string) => {
    const got = await takeUp(s.pool, work(run, stream), by, () => at(1));
    return 'taken' in got ? got.taken.token : got;
  };
  const held = { over: true };

  test('others wait for whoever reads what they want', async () => {
    await using s = await scripted();
    const one = await present(s);
    const by = (job: string) => ({ worker: one.id, job });
    const first = await open(s.pool, ['tickets', 'messages'], at(0));
    const second = await open(s.pool, ['tickets', 'messages'], at(0));
    for (const stream of ['tickets', 'messages']) {
      expect(await up(s, first, by('a'), stream)).toBe(1);
      expect(await up(s, second, by('b'), stream)).toEqual({ busy: first });
      const wait = (run: number) => othersWait(s.pool, { account: 'default', run, stream: keyOf(stream) });
      expect(await Promise.all([first, second].map(wait))).toEqual([true, false]);
    }
    await one[Symbol.asyncDispose]();
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
