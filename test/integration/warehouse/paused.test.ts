/** What is paused is read by nobody: no slot, no run that begins by itself, no job, no hand that takes it up (SPEC I20). Slots: every history of the claims. */

import { expect, test } from 'vitest';
import type { Context } from '../../../src/engine/context.ts';
import { transaction } from '../../../src/engine/database/pool.ts';
import { openWaiting } from '../../../src/engine/queue/reconcile.ts';
import { finish } from '../../../src/engine/runs/claims.ts';
import { pause, resume } from '../../../src/engine/runs/operations.ts';
import { wakeBackfills } from '../../../src/engine/runs/ranges.ts';
import { isNext, waitingWork, wokenStreams } from '../../../src/engine/runs/runs.ts';
import { Spent } from '../../../src/errors.ts';
import { at, message, open, type Scripted, scripted, take, ticket } from '../../support/scripted.ts';
import { withAudit } from '../../support/sources.ts';

const me = { account: 'default', who: 'ada@desk' };
const stop = (s: Scripted, ...streams: string[]) =>
  Promise.all(streams.map(stream => pause(s.pool, { ...me, stream }, at(0))));
const goOn = (s: Scripted, ...streams: string[]) =>
  Promise.all(streams.map(stream => resume(s.pool, { ...me, stream }, at(0))));

const runs = (s: Scripted) =>
  s.rows(`select r.kind, array_agg(stream order by stream) as streams
          from sync.stored_runs r join sync.stored_run_streams t on t.run_id = r.id group by r.id order by r.id`);

test('nothing of it is opened by itself: not for what waits, not for what slept, and no audit', async () => {
  await using s = await scripted();
  const ctx: Context = withAudit(s.ctx, { perHour: 5 });
  s.lists.tickets = [ticket('t1', { updated_at: '2026-01-01T00:00:00Z' })];
  s.details['/tickets/t1'] = { ...ticket('t1'), messages: [message('m1')] };
  s.goTo(1000);
  await s.sync('tickets');
  const opened = async () => {
    const before = (await runs(s)).length;
    await openWaiting(ctx, 0);
    return (await runs(s)).slice(before);
  };
  await stop(s, 'messages');
  expect(await opened()).toEqual([]);
  await goOn(s, 'messages');
  expect(await opened()).toEqual([{ kind: 'hydrate', streams: ['messages'] }]);
  await s.rows(`update sync.stored_runs set state = 'completed', finished_at = started_at`);
  await s.rows(`update sync.stored_run_streams set state = 'completed', finished_at = $1`, at(1000));
  await s.rows('update helpdesk.tickets set _messages_as_of = $1', at(1000));
  for (const stream of ['tickets', 'messages']) {
    await stop(s, stream);
    expect(await opened()).toEqual([]);
    await goOn(s, stream);
  }
  // What waits only because it is paused is no reason to wait.
  await open(s.pool, ['users'], at(0));
  expect(await opened()).toEqual([]);
  await stop(s, 'users');
  expect(await opened()).toEqual([{ kind: 'audit', streams: ['tickets'] }]);

  const run = await open(s.pool, ['customers'], at(0), { kind: 'backfill' });
  const slept = await take(s.pool, { account: 'default', run, stream: 'helpdesk.customers' }, at(0));
  await finish(s.pool, slept, at(1), { error: new Spent(at(2)), credits: 0 });
  const woken = () =>
    transaction(s.pool, async client => {
      await wakeBackfills(client, 'default', 0, at(3));
      return [
        await wokenStreams(client, 'default', at(3)),
        (await client.query('select state from sync.stored_runs where id = $1', [run])).rows[0].state,
      ];
    });
  await stop(s, 'customers');
  expect(await woken()).toEqual([[], 'partial']);
  await goOn(s, 'customers');
  expect(await woken()).toEqual([[], 'running']);
});

/** Who takes up, continues and hears of what is paused is played whole: packages/proofs/every-history/claims. */
test('what lies behind what is paused is not held up', async () => {
  await using s = await scripted();
  await open(s.pool, ['customers', 'tickets', 'messages'], at(0));
  const next = async () => (await waitingWork(s.pool, [{ account: 'default', worker: 0 }])).map(one => one.stream);
  expect(await next()).toEqual(['helpdesk.customers']);
  await stop(s, 'customers', 'tickets');
  expect(await next()).toEqual(['helpdesk.messages']);
  expect(await transaction(s.pool, client => isNext(client, 'default', 'helpdesk.messages'))).toBe(true);
  await pause(s.pool, me, at(3));
  expect(await next()).toEqual([]);
});
