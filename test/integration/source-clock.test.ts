/** The source's clock is set, by much more than the lookback: nothing is lost, and nothing is claimed that is not so. */
import { expect, test } from 'vitest';
import { type InProcess, inProcess } from '../support/in-process.ts';
import { long } from '../support/long.ts';
import { differences } from '../support/mirror.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const lists = ['users', 'customers', 'tickets'];

const claimedMs = async (s: InProcess, claim: 'complete_through' | 'deletes_checked_at') =>
  ((await s.rows(`select sync.${claim}('default', 'tickets') as at`))[0]!.at as Date | null)?.getTime() ?? 0;

/** What is claimed is so: no ticket of an earlier time is otherwise at the source. */
async function holds(s: InProcess): Promise<void> {
  const through = await claimedMs(s, 'complete_through');
  const now = s.world.clock.now();
  expect(through).toBeLessThan(now);
  const mirrored = new Map((await s.rows('select id, updated_at, subject from helpdesk.tickets')).map(t => [t.id, t]));
  for (const { id, updated_at, subject } of s.world.tickets.values()) {
    if (Date.parse(updated_at) >= through) continue;
    expect(mirrored.get(id), id).toEqual({ id, updated_at: new Date(updated_at), subject });
  }
  expect(await claimedMs(s, 'deletes_checked_at')).toBeLessThan(now);
}

/** A sync, list by list; what it said of each. Then time passes. */
async function sync(s: InProcess, passes = minuteMs) {
  const run = await s.open('sync', lists);
  const said = [];
  for (const stream of lists) {
    const { state, error } = await s.goOn(run, stream);
    said.push(error === null ? state : `${state}: ${error}`);
  }
  await s.run('hydrate', ['messages']);
  await holds(s);
  s.nowMs += passes;
  return said;
}
const done = lists.map(() => 'completed');
const moved = (by: string) =>
  `partial: the source's clock jumped by ${by}: coverage is not recorded until the clock is steady for 5 minutes`;

async function story(until: 'one sync' | 'the end') {
  let oursMs = 0;
  await using s = await inProcess({ tickets: 40, customers: 20, seed: 5, ours: () => oursMs });
  const { world } = s;
  const ids = [...world.tickets.keys()];
  const change = (...which: number[]) => {
    for (const n of which) {
      world.patchTicket(ids[n]!, { subject: `${ids[n]} at ${s.nowMs}` });
      world.addMessage(ids[n]!, { body: `at ${s.nowMs}` });
    }
    world.users.values().next().value!.first_name = `at ${s.nowMs}`;
  };
  const jump = (ms: number) => world.clock.jump(ms);
  const drift = async () =>
    (await s.rows(`select distinct value from sync.drift where kind = 'clock' order by 1`)).map(({ value }) => value);
  /** Until nothing is said of the clock any more; then all is here, and is said to be. */
  const settle = async () => {
    await sync(s, 5 * minuteMs);
    await sync(s);
    expect(await sync(s, 2 * hourMs)).toEqual(done);
    await sync(s);
    expect(await differences(s.pool, world)).toEqual([]);
    expect(await claimedMs(s, 'complete_through')).toBeGreaterThan(world.clock.now() - 10 * minuteMs);
  };

  // Ahead for one sync.
  change(0, 1);
  expect(await sync(s)).toEqual(done);
  jump(hourMs);
  change(0, 2, 3);
  const claimed = await claimedMs(s, 'complete_through');
  expect(await sync(s)).toEqual(lists.map(() => moved('+1 h')));
  expect(await claimedMs(s, 'complete_through')).toBe(claimed);
  jump(-hourMs);
  change(0, 2, 4);
  expect((await sync(s))[0]).toBe(moved('+1 h'));
  change(0, 5);
  expect(await sync(s)).toEqual(done);
  change(6);
  expect(await drift()).toEqual(['+1 h']);
  await settle();

  // Behind for one sync.
  change(7, 8);
  await sync(s);
  jump(-hourMs);
  change(7, 9);
  expect(await sync(s)).toEqual(lists.map(() => moved('−1 h')));
  change(10);
  jump(hourMs);
  change(11);
  await sync(s);
  expect(await sync(s)).toEqual(done);
  expect(await drift()).toEqual(['+1 h', '−1 h']);
  await settle();

  if (until === 'one sync') return;

  // Ahead for so long that it is believed; also by a sweep, and by a walk of customers.
  jump(hourMs);
  await sync(s, 5 * minuteMs);
  await sync(s);
  change(12, 13);
  expect(await sync(s, 4 * minuteMs)).toEqual(done);
  expect(await s.run('sweep', ['tickets'])).toMatchObject({ state: 'completed' });
  await sync(s);
  for (const claim of ['complete_through', 'deletes_checked_at'] as const)
    expect(await claimedMs(s, claim)).toBeGreaterThan(s.nowMs + hourMs - 10 * minuteMs);
  jump(-hourMs);
  change(12, 14);
  const again = { range: { since: null, until: null, again: true } };
  expect(await s.run('sweep', ['tickets'], again)).toMatchObject({
    state: 'partial',
    error: moved('−1 h').slice('partial: '.length),
  });
  for (let n = 15; n < 24; n += 2) {
    change(n, 12);
    await sync(s, 2 * minuteMs);
  }
  await settle();

  // Behind for so long that it is believed.
  jump(-hourMs);
  for (let n = 24; n < 33; n += 2) {
    change(n, 12);
    await sync(s, 2 * minuteMs);
  }
  jump(hourMs);
  change(33, 12);
  await settle();

  // Ours is set by an hour: that costs five minutes.
  for (const byMs of [hourMs, -hourMs]) {
    oursMs += byMs;
    change(34, 35);
    await sync(s);
    change(34, 36);
    await settle();
  }
}

test('a source whose clock is an hour ahead or behind for one sync, and for so long that it is believed; and ours is set', () =>
  // Where people work, for one sync.
  story(long.skip ? 'one sync' : 'the end'));
