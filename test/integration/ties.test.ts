/**
 * More tickets in one second than paging reaches: of one update, made at other times; and of one import, which gave them
 * one time of creation as well. A sync has them all, through an interruption, and a backfill what is only such a second. And
 * a tie whose pages copies of different age have answered, and one that is read once and left by many afterwards.
 */
import { expect, test } from 'vitest';
import { Interrupted } from '../../src/errors.ts';
import { inProcess } from '../support/in-process.ts';

/** Paging reaches a hundred. */
const size = 103;
const paging = { perPage: 10, depth: 100 };
const at = (ms: number) => `${new Date(ms).toISOString().slice(0, 19)}Z`;

test('more of one second of update than paging reaches, and as many of one second of creation too', async () => {
  await using s = await inProcess({ tickets: 30, customers: 10, seed: 21, paging });
  const { world, ctx } = s;
  const users = [null, ...world.users.keys()];
  const inboxes = [...world.inboxes.keys()];
  const updated = s.nowMs - 3 * 86_400_000;
  const imported = updated + 60_000;
  const add = (i: number, created: number, moved: number) =>
    world.addTicket({
      type: i % 3 ? 'email' : 'chat',
      user_id: users[i % users.length]!,
      inbox_id: inboxes[i % inboxes.length]!,
      created_at: at(created),
      updated_at: at(moved),
    });
  for (let i = 0; i < size; i++) add(i, updated - 50 * 86_400_000 + i * 20_000, updated);
  for (let i = 0; i < size; i++) add(i, imported, imported);
  await s.run('sync', ['users']);

  // The pages of the tie that paging reaches, and some of the walk; then it is stopped.
  const stopped = new AbortController();
  let walked = 0;
  s.before = (_path, query) => {
    if (query.get('sort') === 'created_at' && ++walked === 5) stopped.abort(new Interrupted());
    return undefined;
  };
  s.ctx = { ...ctx, signal: stopped.signal };
  const run = await s.open('sync', ['tickets']);
  expect((await s.goOn(run, 'tickets')).state).toBe('waiting');
  const [walk] = await s.rows('select since, updated_since from sync.walks');
  expect(walk).toEqual({ since: expect.any(Date), updated_since: new Date(updated - 1000) });

  s.ctx = ctx;
  const begun = s.asked.length;
  expect(await s.goOn(run, 'tickets')).toMatchObject({ state: 'completed', error: null });
  const again = s.asked[begun]!.query;
  expect(again.get('since_created_at')).toBe(at((walk!.since as Date).getTime() - 1000));
  expect(again.get('since_updated_at')).toBe(at(updated - 1000));
  expect(await s.rows('select count(*)::int as rows from helpdesk.tickets')).toEqual([{ rows: world.tickets.size }]);
  expect(await s.rows('select gap from sync.gap_reasons union all select null from sync.walks')).toEqual([]);

  // One of them is all that is missing.
  await s.rows('delete from helpdesk.tickets where created_at = $1', new Date(imported));
  await s.rows(
    `update sync.coverage set covered = covered - tstzmultirange(tstzrange($1, $2))
     where stream = 'tickets' and list = 'default'`,
    new Date(imported),
    new Date(imported + 1000),
  );
  expect(await s.run('backfill', ['tickets'])).toMatchObject({ state: 'completed', error: null, inserted: size });
  const [covers] = await s.rows(
    `select covered @> tstzrange($1, $2) as whole from sync.coverage where stream = 'tickets' and list = 'default'`,
    new Date(updated - 1000),
    new Date(imported + 3_600_000),
  );
  expect(covers).toEqual({ whole: true });
});

test('what copies of different age lost between two pages is told and found, once a ticket shows that it had left', async () => {
  await using s = await inProcess({ tickets: 0, customers: 3, seed: 22, paging: { perPage: 3, depth: 30 } });
  const { world } = s;
  const tie = s.nowMs - 3_600_000;
  const add = (id: string, moved: number) =>
    world.addTicket({ id, created_at: at(tie - 86_400_000), updated_at: at(moved) });
  for (const id of ['a', 'b', 'c', 'd', 'e', 'f']) add(id, tie);
  for (let i = 1; i <= 8; i++) add(`z${i}`, tie + i * 60_000);
  const have = async () =>
    (await s.rows('select id from helpdesk.tickets where id < $1 order by id', 'z')).map(r => r.id);
  const ties = () => s.rows('select members from sync.ties');
  const gaps = () => s.rows('select gap_from, gap_to, reason from sync.gaps');
  const sync = () => s.run('sync', ['tickets']);
  const lag = { kind: 'lag', seconds: 60 } as const;

  // A ticket of page 1 moves away before page 2 is read; page 1 comes once more, from a copy that does not know it yet.
  s.rules.set([{ path: '/nowhere', fault: lag }]);
  let moved = false;
  s.before = (_path, query) => {
    const isCrowd = query.get('since_updated_at') === at(tie - 1000);
    s.rules.set([{ path: isCrowd && moved ? '/tickets' : '/nowhere', fault: lag }]);
    if (!isCrowd || moved || query.get('page') !== '2') return undefined;
    s.rules.set([{ path: '/nowhere', fault: lag }]);
    s.nowMs += 2000;
    world.touch('a');
    moved = true;
    return undefined;
  };
  expect(await sync()).toMatchObject({ state: 'completed', error: null });
  expect(await have()).toEqual(['a', 'b', 'c', 'e', 'f']);
  expect(await ties()).toEqual([{ members: expect.arrayContaining(['a', 'b', 'c', 'e', 'f']) }]);

  // The next sync knows that it had left, and is stopped before it can read the second again: that is told.
  s.nowMs += 600_000;
  s.before = (_path, query) => (query.get('since_updated_at') === at(tie - 2000) ? 401 : undefined);
  expect((await sync()).state).toBe('failed');
  expect(await ties()).toEqual([]);
  const reason = expect.stringMatching(/a record left this second/);
  expect(await gaps()).toEqual([{ gap_from: new Date(tie - 1000), gap_to: expect.any(Date), reason }]);

  s.before = () => undefined;
  expect(await sync()).toMatchObject({ state: 'completed', error: null, inserted: 1 });
  expect(await have()).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
  expect(await gaps()).toEqual([]);
  expect(await ties()).toHaveLength(1);

  // Nobody has left since: from now on it is certain, and not read again.
  s.nowMs += 600_000;
  const asked = s.asked.length;
  expect(await sync()).toMatchObject({ state: 'completed', error: null });
  expect(await ties()).toEqual([]);
  expect(s.asked.slice(asked).map(({ query }) => query.get('since_updated_at')! > at(tie + 600_000))).not.toContain(
    false,
  );
});

test('a second that one bulk edit filled is read once, whatever leaves it before the syncs that follow', async () => {
  await using s = await inProcess({ tickets: 200, customers: 3, seed: 23 });
  const { world } = s;
  const ids = Array.from({ length: 1000 }, (_, i) => {
    const created_at = at(s.nowMs - 20 * 86_400_000 + i * 60_000);
    return world.addTicket({ created_at, updated_at: created_at }).id;
  });
  const costs = async () => {
    const from = s.asked.length;
    expect(await s.run('sync', ['tickets'])).toMatchObject({ state: 'completed', error: null });
    return s.asked.slice(from).reduce((sum, { query }) => sum + (query.has('count') ? 2 : 1), 0);
  };
  await costs();
  s.nowMs += 300_000;
  for (const id of ids) world.touch(id);
  s.nowMs += 300_000;
  expect(await costs()).toBeLessThanOrEqual(25);
  expect(await s.rows('select seconds from sync.ties')).toEqual([]);
  for (let sync = 0; sync < 6; sync++) {
    for (let i = 0; i < 25 + 3 * sync; i++) {
      world.touch(ids[(i * 37 + sync * 101) % ids.length]!);
      s.nowMs += 500;
    }
    s.nowMs += sync % 2 === 0 ? 5_000 : 300_000;
    expect(await costs()).toBeLessThanOrEqual(3);
  }
  const [{ rows }] = (await s.rows('select count(*)::int as rows from helpdesk.tickets')) as [{ rows: number }];
  expect(rows).toBe(world.tickets.size);
});
