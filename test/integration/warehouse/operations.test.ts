/** What people do by hand: what it changes, what is refused, and that both are written down (warehouse/operations.ts). */

import { expect, test } from 'vitest';
import { finish } from '../../../src/engine/runs/claims.ts';
import { cancelRun, pause, resume, retryRun, runNow } from '../../../src/engine/runs/operations.ts';
import { pausedOf } from '../../../src/engine/runs/pauses.ts';
import { readProgress } from '../../../src/engine/runs/runs.ts';
import { Retry, Spent } from '../../../src/errors.ts';
import { keyOf } from '../../support/keys.ts';
import { at, open, type Scripted, scripted, take } from '../../support/scripted.ts';

const me = { account: 'default', who: 'ada@desk' };
const opener = 0;

const done = (s: Scripted) => s.rows('select at, who, action, subject, outcome from sync.operations order by id');

/** A run of which these streams ended like this, and the others wait. */
async function runWith(s: Scripted, ends: Record<string, { error?: unknown; partial?: string }>, more = {}) {
  const run = await open(s.pool, Object.keys(ends), at(0), more);
  for (const [stream, end] of Object.entries(ends))
    if (Object.keys(end).length > 0)
      await finish(s.pool, await take(s.pool, { account: 'default', run, stream: keyOf(stream) }, at(1)), at(2), {
        ...end,
        credits: 0,
      });
  return run;
}
const well = { partial: undefined } as unknown as { partial: string };
const failed = { error: new Retry('no reply') };

const states = async (s: Scripted, run: number) => {
  const { state, streams } = await readProgress(s.pool, run);
  return { run: state, ...Object.fromEntries(streams.map(one => [one.stream, one.state])) };
};

test('pause and resume: a stream, the whole account, twice, and what is not there', async () => {
  await using s = await scripted();
  await pause(s.pool, { ...me, stream: 'tickets', reason: 'the desk moves' }, at(1));
  expect(await pausedOf(s.pool, 'default')).toEqual([
    { stream: 'helpdesk.tickets', paused_at: at(1), paused_by: 'ada@desk', reason: 'the desk moves' },
  ]);
  await expect(pause(s.pool, { ...me, stream: 'tickets' }, at(2))).rejects.toMatchObject({
    message: 'tickets is paused already, since 2026-01-01T00:00Z by ada@desk',
    remedy: 'To resume it, run `npx shelfdesk resume tickets`.',
  });
  await expect(resume(s.pool, me, at(3))).rejects.toThrow("account 'default' is not paused; paused are: tickets");
  await pause(s.pool, me, at(4));
  await expect(resume(s.pool, { ...me, stream: 'users' }, at(5))).rejects.toMatchObject({
    message: 'users is not paused; the whole account is',
    remedy: 'Run `npx shelfdesk resume`.',
    exitCode: 2,
  });
  await resume(s.pool, me, at(6));
  await resume(s.pool, { ...me, stream: 'tickets' }, at(7));
  expect(await pausedOf(s.pool, 'default')).toEqual([]);
  await expect(pause(s.pool, { ...me, stream: 'tikets' }, at(8))).rejects.toMatchObject({
    message: 'there is no stream tikets',
    remedy: 'Did you mean tickets? Choose from: users, customers, tickets, messages.',
  });
  await expect(pause(s.pool, { ...me, stream: 'shelves' }, at(8))).rejects.toThrow(
    "account 'default' mirrors no shelves",
  );
  await expect(pause(s.pool, { ...me, account: 'acme' }, at(9))).rejects.toThrow("nothing of an account 'acme'");
  expect((await done(s)).map(({ action, subject, outcome }) => [action, subject, outcome])).toEqual([
    ['pause', 'tickets', 'done'],
    ['pause', 'tickets', 'refused: tickets is paused already, since 2026-01-01T00:00Z by ada@desk'],
    ['resume', '', "refused: account 'default' is not paused; paused are: tickets"],
    ['pause', '', 'done'],
    ['resume', 'users', 'refused: users is not paused; the whole account is'],
    ['resume', '', 'done'],
    ['resume', 'tickets', 'done'],
    ['pause', 'tikets', 'refused: there is no stream tikets'],
    ['pause', 'shelves', "refused: account 'default' mirrors no shelves"],
    ['pause', '', "refused: this warehouse holds nothing of an account 'acme'"],
  ]);
  expect((await done(s))[0]).toMatchObject({ at: at(1), who: 'ada@desk' });
});

test('cancel ends what is left of a run, whatever is at work on it, and nothing that is done', async () => {
  await using s = await scripted();
  const run = await runWith(s, { users: well, customers: {}, tickets: {} });
  const claim = await take(s.pool, { account: 'default', run, stream: 'helpdesk.customers' }, at(3));
  expect(await cancelRun(s.pool, { ...me, run }, at(4))).toEqual({ kind: 'sync', streams: ['customers', 'tickets'] });
  expect(await states(s, run)).toEqual({
    run: 'interrupted',
    users: 'completed',
    customers: 'interrupted',
    tickets: 'interrupted',
  });
  expect((await readProgress(s.pool, run)).streams.find(one => one.stream === 'tickets')).toMatchObject({
    error: 'canceled by ada@desk',
    remedy: `To read it after all, run \`npx shelfdesk runs retry ${run}\`.`,
    exit_code: 130,
  });
  await expect(finish(s.pool, claim, at(5), { credits: 0 })).rejects.toThrow('taken over by another worker');
  await expect(cancelRun(s.pool, { ...me, run }, at(6))).rejects.toThrow(`run ${run} is over: interrupted`);
  await expect(cancelRun(s.pool, { ...me, run: 99 }, at(7))).rejects.toThrow("account 'default' has no run 99");
  expect((await done(s)).map(({ action, subject, outcome }) => [action, subject, outcome])).toEqual([
    ['cancel', String(run), 'done'],
    ['cancel', String(run), `refused: run ${run} is over: interrupted`],
    ['cancel', '99', "refused: account 'default' has no run 99"],
  ]);
});

test('cancel ends also a backfill that sleeps, which would wake up by itself', async () => {
  await using s = await scripted();
  const run = await runWith(s, { tickets: { error: new Spent(at(9999)) }, users: well }, { kind: 'backfill' });
  expect(await states(s, run)).toMatchObject({ run: 'partial', tickets: 'partial' });
  expect(await cancelRun(s.pool, { ...me, run }, at(4))).toEqual({ kind: 'backfill', streams: ['tickets'] });
  expect(await states(s, run)).toEqual({ run: 'interrupted', tickets: 'interrupted', users: 'completed' });
  expect(await s.rows('select run_id from sync.stored_run_streams where deferred_until is not null')).toEqual([]);
});

test('retry opens a run of the same kind and range for what was not read in full, and what was set aside is due', async () => {
  await using s = await scripted();
  const range = { since: at(-100), until: at(-50), again: true };
  const run = await runWith(
    s,
    { users: well, customers: { partial: 'some' }, tickets: failed },
    { kind: 'backfill', range },
  );
  await s.rows(
    `insert into sync.run_lists (run_id, account_id, source, stream, list, until, covered)
     values ($1, 'default', 'helpdesk', 'tickets', 'default', $2, '{}'), ($1, 'default', 'helpdesk', 'users', 'default', $2, '{}')`,
    ...[run, at(-50)],
  );
  await s.rows(
    `insert into sync.rejects (account_id, source, stream, key, ask_id, reason, replayable, first_seen_at, last_seen_at, next_try_at)
     select 'default', 'helpdesk', stream, 'x', ask, 'odd', false, $1, $1, case when ask is not null then $2::timestamptz end
     from (values ('tickets', 'x'), ('customers', null), ('users', 'x')) r (stream, ask)`,
    ...[at(0), at(500)],
  );
  const again = await retryRun(s.pool, { ...me, run, opener }, at(10));
  expect(again).toBe(run + 1);
  expect(await states(s, again)).toEqual({ run: 'running', customers: 'waiting', tickets: 'waiting' });
  expect(await s.rows('select kind, since, until, again, retries from sync.stored_runs where id = $1', again)).toEqual([
    { kind: 'backfill', ...range, retries: run },
  ]);
  expect(await s.rows('select stream from sync.run_lists where run_id = $1', again)).toEqual([{ stream: 'tickets' }]);
  expect(await s.rows('select stream, next_try_at from sync.rejects order by 1')).toEqual([
    { stream: 'customers', next_try_at: null },
    { stream: 'tickets', next_try_at: at(10) },
    { stream: 'users', next_try_at: at(500) },
  ]);
  await expect(retryRun(s.pool, { ...me, run, opener }, at(11))).rejects.toThrow(`run ${again} tries it again already`);
  await expect(retryRun(s.pool, { ...me, run: again, opener }, at(12))).rejects.toThrow(`run ${again} is not over yet`);
  const good = await runWith(s, { users: well });
  await expect(retryRun(s.pool, { ...me, run: good, opener }, at(13))).rejects.toThrow(`nothing failed in run ${good}`);
  expect((await done(s)).map(({ subject, outcome }) => [subject, outcome])).toEqual([
    [String(run), `done: run ${again}`],
    [String(run), `refused: run ${again} tries it again already`],
    [String(again), `refused: run ${again} is not over yet`],
    [String(good), `refused: nothing failed in run ${good}`],
  ]);
});

test('run now, and retry: only what is not paused, and not where nobody would take it', async () => {
  await using s = await scripted();
  await expect(runNow(s.pool, { ...me, kind: 'sync' }, at(0))).rejects.toThrow('no worker is running');
  await pause(s.pool, { ...me, stream: 'customers' }, at(1));
  const sync = await runNow(s.pool, { ...me, kind: 'sync', opener }, at(2));
  expect(await states(s, sync)).toEqual({ run: 'running', users: 'waiting', tickets: 'waiting', messages: 'waiting' });
  await expect(runNow(s.pool, { ...me, kind: 'sync', opener }, at(3))).rejects.toThrow(
    `run ${sync} reads the same already`,
  );
  const sweep = await runNow(s.pool, { ...me, kind: 'sweep', opener }, at(4));
  expect(await states(s, sweep)).toEqual({ run: 'running', tickets: 'waiting' });
  expect(await s.rows('select again from sync.stored_runs where id = $1', sweep)).toEqual([{ again: true }]);
  const bad = await runWith(s, { customers: {}, users: failed });
  await cancelRun(s.pool, { ...me, run: bad }, at(5));
  await pause(s.pool, { ...me, stream: 'users' }, at(5));
  await expect(retryRun(s.pool, { ...me, run: bad, opener }, at(6))).rejects.toMatchObject({
    message: 'users is paused, since 2026-01-01T00:00Z by ada@desk',
    remedy: 'Run `npx shelfdesk resume users` first.',
  });
  await resume(s.pool, { ...me, stream: 'customers' }, at(7));
  expect(await states(s, await retryRun(s.pool, { ...me, run: bad, opener }, at(8)))).toEqual({
    run: 'running',
    customers: 'waiting',
  });
});
