/**
 * The source's clock runs ahead, is read, and is right again; its edge writes another `Date`; or it dates single tickets ahead. No
 * change stays away, whatever copy of the source answers, and none is claimed that is not here.
 */
import { expect, test } from 'vitest';
import { type InProcess, inProcess } from '../support/in-process.ts';
import { long } from '../support/long.ts';
import { differences } from '../support/mirror.ts';

const secondMs = 1000;
const minuteMs = 60 * secondMs;

/** No ticket of before `complete_through` differs from the source. */
async function holds(s: InProcess): Promise<void> {
  const [{ at } = { at: null }] = await s.rows(`select sync.complete_through('default', 'tickets') as at`);
  const through = (at as Date | null)?.getTime() ?? 0;
  const mirrored = new Map((await s.rows('select id, updated_at, subject from helpdesk.tickets')).map(t => [t.id, t]));
  for (const { id, updated_at, subject } of s.world.tickets.values()) {
    if (Date.parse(updated_at) >= through) continue;
    expect(mirrored.get(id), `${id}, complete through ${new Date(through).toISOString()}`).toEqual({
      ...{ id, updated_at: new Date(updated_at), subject },
    });
  }
}

async function tell(lookbackMs: number, aheadMs: number): Promise<void> {
  await using s = await inProcess({ tickets: 12, customers: 4, seed: 5, lookbackMs, ours: () => 0 });
  await s.pool.query(`update sync.accounts set lookback = $1 * interval '1 millisecond'`, [lookbackMs]);
  const ids = [...s.world.tickets.keys()];
  const change = (...which: number[]) => {
    for (const n of which) {
      s.world.patchTicket(ids[n]!, { subject: `${n} at ${s.nowMs}` });
      s.world.addMessage(ids[n]!, { body: `at ${s.nowMs}` });
    }
  };
  const read = async () => {
    await s.run('sync', ['tickets', 'messages']);
    await holds(s);
  };
  await s.sync();
  s.nowMs += 10 * minuteMs;
  await read();
  s.world.clock.jump(aheadMs);
  change(0, 1, 2);
  await read();
  s.nowMs += 2 * secondMs;
  s.world.clock.jump(-aheadMs);
  change(0, 1, 3);
  await read();
  s.nowMs += 3 * secondMs;
  change(2);
  for (let n = 0; n < 8; n++) {
    await read();
    s.nowMs += minuteMs;
  }
  await read();
  expect(await differences(s.pool, s.world)).toEqual([]);
  s.nowMs += aheadMs + 2 * lookbackMs;
  await read();
  expect(await differences(s.pool, s.world)).toEqual([]);
}

const clockTest = 'a lookback of %d s, a clock %d s ahead';
const tellClock = ([lookback, ahead]: readonly [number, number]) => tell(lookback * secondMs, ahead * secondMs);

test.for([[5, 30]] as const)(clockTest, tellClock);
test.for([
  [5, 1],
  [120, 90],
  [120, 3660],
] as const)(clockTest, long, tellClock);

/** An edge writes `Date` by a clock of its own: how far it is ahead at the n-th of twelve changes, in ms. */
const edges: Readonly<Record<string, (n: number) => number>> = {
  'three minutes ahead': () => 3 * minuteMs,
  'three minutes behind': () => -3 * minuteMs,
};
const movingEdges: typeof edges = {
  'drifting away, half a minute a minute': n => n * 30 * secondMs,
  'jumping between right and ten minutes ahead': n => (n % 4 < 2 ? 0 : 10 * minuteMs),
};

const tellEdge = async ([, aheadMs]: readonly [string, (n: number) => number]) => {
  await using s = await inProcess({ tickets: 12, customers: 4, seed: 5, ours: () => 0 });
  const ids = [...s.world.tickets.keys()];
  let isMs = 0;
  const setEdge = (n: number) => {
    s.world.clock.jumpDate(aheadMs(n) - isMs);
    isMs = aheadMs(n);
  };
  setEdge(0);
  await s.sync();
  for (let n = 0; n < 12; n++) {
    s.nowMs += 20 * secondMs;
    s.world.patchTicket(ids[n]!, { subject: `${n} at ${s.nowMs}` });
    s.world.addMessage(ids[n]!, { body: `at ${s.nowMs}` });
    s.nowMs += 40 * secondMs;
    setEdge(n);
    await s.run('sync', ['tickets', 'messages']);
    await holds(s);
  }
  // Where Date is behind, messages wait until it has caught up.
  if (isMs < 0) s.nowMs += 10 * minuteMs;
  for (let n = 0; n < 2; n++) await s.run('sync', ['tickets', 'messages']);
  expect(await differences(s.pool, s.world)).toEqual([]);
  s.nowMs += 10 * minuteMs;
  // The first one believes a clock that has jumped.
  for (let n = 0; n < 2; n++) await s.run('sync', ['tickets', 'messages']);
  await holds(s);
  const [{ at } = { at: null }] = await s.rows(`select sync.complete_through('default', 'tickets') as at`);
  expect((at as Date).getTime()).toBeGreaterThan(s.nowMs - 6 * minuteMs);
};

test.for(Object.entries(edges))('Date alone is %s', tellEdge);
test.for(Object.entries(movingEdges))('Date alone is %s', long, tellEdge);

test('where Date is behind, no deletion is dated before it happened', async () => {
  await using s = await inProcess({ tickets: 12, customers: 4, seed: 5, ours: () => 0 });
  await s.sync();
  s.world.clock.jumpDate(-10 * minuteMs);
  // The move is seen, and believed. Then the tickets are seen so long ago that one 404 is enough.
  for (const minutes of [180, 10, 180]) {
    await s.sync();
    s.nowMs += minutes * minuteMs;
  }
  const [id] = s.world.tickets.keys();
  s.world.deleteTicket(id!);
  const deletedMs = s.nowMs;
  s.nowMs += 5 * secondMs;
  expect(await s.run('sweep', ['tickets'])).toMatchObject({ state: 'completed' });
  const [row] = await s.rows('select _deleted_at, _deleted_after from helpdesk.tickets where id = $1', id);
  expect((row!._deleted_after as Date).getTime()).toBeLessThan(deletedMs);
  expect((row!._deleted_at as Date).getTime()).toBeGreaterThanOrEqual(deletedMs);
  expect((row!._deleted_at as Date).getTime()).toBeLessThan(s.nowMs + minuteMs);
});

// --- tickets that are dated ahead: which version is the later one, in-sql compares for all small cases, and the simulation draws old copies

/** Changes a ticket; the source dates the change `aheadMs` ahead. Nobody reads the source meanwhile. */
function changeDated(s: InProcess, id: string, aheadMs = 0): void {
  s.world.clock.jump(aheadMs);
  s.world.patchTicket(id, { subject: `${id} at ${s.nowMs}` });
  s.world.addMessage(id, { body: `at ${s.nowMs}` });
  s.world.clock.jump(-aheadMs);
}

async function readOnce(s: InProcess, kinds = ['tickets']): Promise<void> {
  await s.run('sync', kinds);
  await holds(s);
}

test('a ticket that is dated ahead: its next change comes in the same second', async () => {
  const [lookbackMs, aheadMs] = [120 * secondMs, 30 * secondMs];
  await using s = await inProcess({ tickets: 12, customers: 4, seed: 5, lookbackMs });
  await s.sync();
  s.nowMs += 10 * minuteMs;
  await readOnce(s);
  const [id, other] = [...s.world.tickets.keys()] as [string, string];
  changeDated(s, id, aheadMs);
  await readOnce(s, ['tickets', 'messages']);
  changeDated(s, id);
  changeDated(s, other);
  // Often, as a schedule would: coverage passes the change in small steps.
  for (let ms = 0; ms < 2 * lookbackMs + 10 * secondMs; ms += lookbackMs / 3) {
    await readOnce(s, ['tickets', 'messages']);
    s.nowMs += lookbackMs / 3;
  }
  // While the date of the ticket that was dated ahead is still to come, and when it is over.
  await readOnce(s, ['tickets', 'messages']);
  expect(await differences(s.pool, s.world)).toEqual([]);
  s.nowMs += aheadMs + 3 * lookbackMs;
  await readOnce(s, ['tickets', 'messages']);
  expect(await differences(s.pool, s.world)).toEqual([]);
  expect(await s.rows('select * from sync.ties where held')).toEqual([]);
});
