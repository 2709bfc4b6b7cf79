/** When a run that reads messages is opened of its own accord, and when not. */
import { expect, test } from 'vitest';
import { openWaiting } from '../../src/engine/queue/reconcile.ts';
import { FencedOff } from '../../src/errors.ts';
import { counted, counts, message, open, type Scripted, scripted, ticket } from '../support/scripted.ts';

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

/** Messages of five tickets are about to be read; the rows of the first one that is asked for are in other hands. */
async function withOneHeld() {
  const source = await scripted({ lookbackMs: 1000 });
  const ids = ['t1', 't2', 't3', 't4', 't5'];
  source.goTo(10);
  source.lists.tickets = ids.map(id => ticket(id, { inbox_id: null }));
  await source.sync('tickets');
  source.goTo(100);
  const asked: string[] = [];
  const allAsked = Promise.withResolvers<void>();
  const holder = await source.pool.connect();
  await holder.query('begin');
  for (const id of ids)
    source.details[`/tickets/${id}`] = () => {
      asked.push(id);
      if (asked.length === ids.length) allAsked.resolve();
      return { ...ticket(id, { inbox_id: null }), messages: [message(`m of ${id}`)] };
    };
  // All changed in the same second: which one comes first, nobody has said.
  await holder.query(`select from helpdesk.tickets where id = 't1' for update`);
  const letGo = async () => {
    await holder.query('commit');
    holder.release();
  };
  const stored = () => source.rows('select ticket_id from helpdesk.messages order by 1');
  return { source, allAsked: allAsked.promise, letGo, stored };
}

test('a ticket whose rows must wait holds no other one up', async () => {
  const { source, allAsked, letGo, stored } = await withOneHeld();
  await using _ = source;
  const reading = source.sync('messages');
  await allAsked;
  await letGo();
  expect(counts(await reading)).toEqual(counted({ seen: 5, inserted: 5 }));
  expect(await stored()).toEqual(['t1', 't2', 't3', 't4', 't5'].map(ticket_id => ({ ticket_id })));
});

test('a reader that is taken for dead stores nothing of what was under way', async () => {
  const { source, allAsked, letGo, stored } = await withOneHeld();
  await using _ = source;
  const reading = source.sync('messages').then(
    () => undefined,
    (error: unknown) => error,
  );
  await allAsked;
  await source.rows(`update sync.stored_run_streams set token = token + 1 where stream = 'messages'`);
  await letGo();
  expect(await reading).toBeInstanceOf(FencedOff);
  expect(await stored()).not.toContainEqual({ ticket_id: 't1' });
});
