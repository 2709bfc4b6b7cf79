/** When a run that reads messages is opened of its own accord, and when not. */
import { expect, test } from 'vitest';
import { openWaiting } from '../../src/queue/tend.ts';
import { open, type Scripted, scripted, ticket } from '../support/scripted.ts';

async function withWaitingTicket(): Promise<Scripted> {
  const source = await scripted({ lookbackMs: 1000 });
  source.goTo(10);
  source.lists.tickets = [ticket('t1')];
  await source.sync('tickets');
  source.goTo(100);
  return source;
}

const hydrations = async (source: Scripted) =>
  (await source.rows(`select id from sync.stored_runs where kind = 'hydrate'`)).length;

test('where a ticket waits and nobody reads messages; once', async () => {
  await using source = await withWaitingTicket();
  await openWaiting(source.ctx, 0);
  await openWaiting(source.ctx, 0);
  expect(await hydrations(source)).toBe(1);
});

test('not where no ticket waits', async () => {
  await using source = await scripted();
  await openWaiting(source.ctx, 0);
  expect(await hydrations(source)).toBe(0);
});

test('beside a run that has lists to read before its messages, and not once it comes to them', async () => {
  await using source = await withWaitingTicket();
  await open(source.pool, ['tickets', 'messages'], new Date(), { kind: 'backfill' });
  await openWaiting(source.ctx, 0);
  expect(await hydrations(source)).toBe(1);
  await source.rows(`delete from sync.stored_runs where kind = 'hydrate'`);
  await source.rows(`update sync.stored_run_streams set state = 'completed' where stream = 'tickets'`);
  await openWaiting(source.ctx, 0);
  expect(await hydrations(source)).toBe(0);
});

test('after one that failed not before a minute is over', async () => {
  await using source = await withWaitingTicket();
  const run = await open(source.pool, ['messages'], new Date(), { kind: 'hydrate' });
  const ended = async (second: number) =>
    source.rows(
      `with s as (update sync.stored_run_streams set state = 'failed' where run_id = $1)
       update sync.stored_runs set state = 'failed', finished_at = $2 where id = $1`,
      run,
      new Date(source.ctx.clock.now() - second * 1000),
    );
  await ended(59);
  await openWaiting(source.ctx, 0);
  expect(await hydrations(source)).toBe(1);
  await ended(61);
  await openWaiting(source.ctx, 0);
  expect(await hydrations(source)).toBe(2);
});
