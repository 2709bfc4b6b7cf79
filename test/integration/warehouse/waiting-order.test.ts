/** Which ticket is asked for next: what was active recently, then what is open or held, then the rest; and who is told so. And which volume. */
import { expect, test } from 'vitest';
import { Listed } from '../../../src/engine/details/listed.ts';
import { Pending } from '../../../src/engine/details/pending.ts';
import { farFuture } from '../../../src/engine/reading/reading.ts';
import { volumes } from '../../../src/sources/books/volumes/volumes.ts';
import { messages } from '../../../src/sources/helpdesk/messages/messages.ts';
import { at, iso, type Scripted, scripted, second, ticket } from '../../support/scripted.ts';

const dayS = 86_400;
const pendingOf = ({ pool }: Scripted) => new Pending(pool, 'default', messages);

test('of what has just changed the oldest comes first, and then the newest of what is late already', async () => {
  await using s = await scripted();
  const of = (n: number) => ticket(`at ${n}`, { updated_at: iso(n) });
  s.lists.tickets = [100, 200, 205, 211, 250, 300].map(of);
  s.goTo(300);
  await s.sync('tickets');
  const when = { ripeMs: second(300), futureMs: farFuture, startedMs: second(300), namesMs: 0, nowMs: second(300) };
  const next = async (limit: number) => (await pendingOf(s).next(when, limit)).map(({ id }) => id);
  const order = ['at 211', 'at 250', 'at 300', 'at 205', 'at 200', 'at 100'];
  for (const limit of [1, 2, 4, 9]) expect(await next(limit)).toEqual(order.slice(0, limit));
});

test('what was active recently comes first, then what is open or held, then the rest: the newest change first in each', async () => {
  await using s = await scripted();
  const of = (id: string, updated: number, state: string | null) => ticket(id, { updated_at: iso(updated), state });
  s.lists.tickets = [
    of('old', -9 * dayS, 'closed'),
    of('old and held', -8 * dayS, 'hold'),
    of('without a state', -7 * dayS, null),
    of('old and open', -6 * dayS, 'open'),
    of('not so old', -2 * dayS, 'closed'),
    of('of the last day', -dayS + 1, 'closed'),
    of('open, of the last day', -dayS + 2, 'open'),
    of('new', 5, 'closed'),
  ];
  s.goTo(10);
  await s.sync('tickets');
  const order = [
    'new',
    'open, of the last day',
    'of the last day',
    'old and open',
    'old and held',
    'not so old',
    'without a state',
    'old',
  ];
  const when = { ripeMs: second(10), futureMs: farFuture, startedMs: second(10), namesMs: 0, nowMs: second(10) };
  const next = async (limit: number, scope = {}) => (await pendingOf(s).next(when, limit, scope)).map(({ id }) => id);
  for (const limit of [1, 4, 7, 100]) expect(await next(limit)).toEqual(order.slice(0, limit));
  expect(await next(3, { toMs: second(-dayS) })).toEqual(order.slice(3, 6));
  expect(await next(9, { fromMs: second(-7 * dayS) })).toEqual(
    order.filter(id => !id.startsWith('old and held') && id !== 'old'),
  );
  const places = await Promise.all(order.map(id => pendingOf(s).place(id)));
  expect(places).toEqual(order.map((_, i) => ({ place: i + 1, of: order.length })));
  await s.rows(`update helpdesk.tickets set _messages_as_of = $1 where id = 'new'`, at(10));
  expect(await next(1)).toEqual(['open, of the last day']);
  expect(await pendingOf(s).place('new')).toBeUndefined();
});

test('a ticket that failed is passed over until its next try, unless a clock far ahead put that off', async () => {
  await using s = await scripted();
  s.lists.tickets = [ticket('t1', { updated_at: iso(1) })];
  s.goTo(10);
  await s.sync('tickets');
  const when = { ripeMs: second(10), futureMs: farFuture, startedMs: second(10), namesMs: 0, nowMs: second(10) };
  const isSeen = async () => [
    (await pendingOf(s).next(when, 9)).length > 0,
    await pendingOf(s).any(when, {}),
    (await pendingOf(s).first(when)) !== undefined,
  ];
  const failed = async (seen: number, next: number) => {
    await s.pool.query('delete from sync.rejects');
    await s.pool.query(
      `insert into sync.rejects
         (account_id, source, stream, key, ask_id, reason, replayable, first_seen_at, last_seen_at, next_try_at)
       values ('default', 'helpdesk', 'messages', 't1', 't1', 'why', false, $1, $1, $2)`,
      [at(seen), at(next)],
    );
  };
  await failed(10, 70);
  expect(await isSeen()).toEqual([false, false, false]);
  await failed(2 * dayS, 2 * dayS + 60);
  expect(await isSeen()).toEqual([true, true, true]);
  // That clock wrote the row as well. What fails now is passed over all the same.
  await s.pool.query('update helpdesk.tickets set _synced_at = $1', [at(2 * dayS)]);
  expect(await isSeen()).toEqual([true, true, true]);
  await failed(10, 70);
  expect(await isSeen()).toEqual([false, false, false]);
});

test('of the volumes that wait, those on the most recently changed shelf come first, by their place; then the longest unread', async () => {
  await using s = await scripted();
  await s.rows(`
    insert into sync.accounts (account_id, since) values ('default', '2020-01-01') on conflict do nothing;
    insert into sync.coverage (account_id, source, stream, list) values ('default', 'books', 'shelves', 'me');
    insert into books.shelves (account_id, owner_id, id, volumes_last_updated_at, _first_seen_at, _synced_at, _observed_at, _payload)
      select 'default', owner, id, changed::timestamptz, '2026-01-01', '2026-01-01', '2026-01-01', '{}'
      from (values ('me', 'old', '2026-01-01'), ('me', 'new', '2026-01-02'), ('gone', 'newest', '2026-01-03')) s (owner, id, changed);
    insert into books.volumes (account_id, id, _waits_since, _checked_at, _first_seen_at, _synced_at, _observed_at, _payload)
      select 'default', id, waits::timestamptz, checked::timestamptz, '2026-01-01', '2026-01-01', '2026-01-01', '{}'
      from (values ('a', '2026-01-05', null), ('b', '2026-01-05', null), ('c', '2026-01-05', null), ('of another', '2026-01-05', null),
        ('read', null, '2026-01-04'), ('long read', null, '2026-01-03'), ('just read', null, '2026-01-09')) v (id, waits, checked);
    insert into books.shelf_volumes (account_id, owner_id, shelf_id, volume_id, position, _first_seen_at, _synced_at, _observed_at, _payload)
      select 'default', owner, shelf, volume, position, '2026-01-01', '2026-01-01', '2026-01-01', '{}'
      from (values ('me', 'old', 'a', 0), ('me', 'new', 'b', 2), ('me', 'new', 'c', 1), ('me', 'old', 'b', 1), ('gone', 'newest', 'of another', 0),
        ('me', 'old', 'read', 2), ('me', 'old', 'long read', 3), ('me', 'old', 'just read', 4)) m (owner, shelf, volume, position)`);
  const listed = new Listed(s.pool, 'default', volumes);
  const which = { beforeMs: Date.parse('2026-01-08'), startedMs: Date.parse('2026-01-10') };
  const next = async (limit: number, except: string[] = []) =>
    (await listed.next({ ...which, except }, limit)).map(({ id }) => id);
  const order = ['c', 'b', 'a', 'long read', 'read'];
  expect(await next(9)).toEqual(order);
  expect(await next(2, ['c'])).toEqual(['b', 'a']);
  expect(await listed.count()).toBe(3);
});
