/**
 * The main job against the sandbox, end to end: real HTTP, real PostgreSQL, real BullMQ. The world changes while it is
 * read; after a quiet second sync the mirror equals it, row by row.
 */
import { describe, expect, test } from 'vitest';
import { makeRng } from '../../packages/sandbox/src/random.ts';
import type { Fault, SeenRequest } from '../../packages/sandbox/src/server.ts';
import { Interrupted } from '../../src/errors.ts';
import { syncAlone } from '../support/alone.ts';
import { long } from '../support/long.ts';
import { configFor, differences, syncOnce, unannounced } from '../support/mirror.ts';
import { openSandbox } from '../support/open-sandbox.ts';
import { freshDatabase } from '../support/postgres.ts';

/** Some pages of tickets in one second, and in two neighbouring ones, a while ago. */
function tie(sandbox: { world: import('../../packages/sandbox/src/helpdesk/world/world.ts').World }): void {
  const ids = [...sandbox.world.tickets.keys()];
  const at = Math.floor(sandbox.world.clock.now() / 1000) * 1000 - 600_000;
  for (const [second, count] of [
    [0, 130],
    [60, 40],
    [61, 40],
    [120, 99],
    [121, 5],
  ] as const) {
    for (const id of ids.splice(0, count)) sandbox.world.touch(id, at + second * 1000);
  }
}

/** What lists hide has to be read from lists of its own. The simulation draws the other ways to read a list. */
test('a world that changes with every second request is equal after a quiet second sync', async () => {
  await using db = await freshDatabase();
  let lively = true;
  const rng = makeRng(7);
  await using sandbox = await openSandbox({
    sinceInclusive: false,
    spamListed: false,
    trashListed: false,
    tickets: 330,
    seed: 3,
    // A server whose clock is 90 s ahead: only its own clock may count.
    now: () => Date.now() + 90_000,
    before: (request, n) => {
      if (!lively || n % 2 !== 0) return;
      sandbox.world.mutate(rng, unannounced);
      // And in the very second in which it is read.
      const [, id] = /^\/tickets\/(.+)$/.exec(request.path) ?? [];
      if (id && n % 10 === 0) sandbox.world.addMessage(id, { body: 'in the same second' });
    },
  });
  tie(sandbox);
  const config = configFor(db.url, sandbox);
  await syncOnce(config);
  lively = false;
  const second = await syncOnce(config);
  expect(await differences(db.pool, sandbox.world)).toEqual([]);
  expect(second).toMatchObject({ state: 'completed', exitCode: 0 });
  // A third one finds nothing to write.
  const third = await syncOnce(config);
  expect(third.streams.map(s => [s.stream, s.inserted, s.updated])).toEqual([
    ['users', 0, 0],
    ['customers', 0, 0],
    ['tickets', 0, 0],
    ['messages', 0, 0],
  ]);
});

test('a first load costs hardly more than the least possible', async () => {
  await using db = await freshDatabase();
  await using sandbox = await openSandbox({ tickets: 120, seed: 5 });
  const result = await syncAlone(configFor(db.url, sandbox));
  const { tickets, customers, labels, inboxes } = sandbox.world;
  const least = tickets.size / 100 + customers.size / 100 + 2 * tickets.size + 1;
  expect(sandbox.totals.credits).toBeLessThanOrEqual(least * 1.02 + 10 + labels.size + inboxes.size);
  expect(result.streams.reduce((sum, stream) => sum + stream.credits, 0)).toBe(sandbox.totals.credits);
  expect(await differences(db.pool, sandbox.world)).toEqual([]);
  // Nothing new: a credit for each list that is read, and no more.
  const before = sandbox.totals.credits;
  await syncAlone(configFor(db.url, sandbox, { lookbackMs: 0 }));
  expect(sandbox.totals.credits - before).toBe(3);
});

describe.concurrent('a source in trouble', () => {
  /** Each of them on its own request, again and again. */
  const troubles: Fault[] = [
    { kind: 'status', status: 500 },
    { kind: 'status', status: 503 },
    { kind: 'reset', after: 'before' },
    { kind: 'reset', after: 'headers' },
    { kind: 'reset', after: 'half' },
    { kind: 'truncate' },
    { kind: 'html' },
    { kind: 'headers', drop: ['Date'] },
    { kind: 'body', edit: () => ({ status: 'ok' }) },
  ];

  test('5xx, resets, truncated and foreign replies end in an equal mirror', async () => {
    await using db = await freshDatabase();
    const fault = (_request: SeenRequest, n: number) => (n % 7 === 0 ? troubles[(n / 7) % troubles.length] : undefined);
    await using sandbox = await openSandbox({ tickets: 70, fault });
    const result = await syncOnce(configFor(db.url, sandbox));
    expect(await differences(db.pool, sandbox.world)).toEqual([]);
    expect(result.exitCode).toBe(0);
  });

  test('a ticket that is gone when its messages are asked for gets a tombstone, and its row stays', async () => {
    await using db = await freshDatabase();
    await using sandbox = await openSandbox({
      tickets: 20,
      before: request => {
        if (request.path.startsWith('/tickets/') && sandbox.world.tickets.has(doomed))
          sandbox.world.deleteTicket(doomed);
      },
    });
    // Its inbox stays in the mirror, so another ticket has it, too.
    const all = [...sandbox.world.tickets.values()];
    const doomed = all.find(one => all.some(({ id, inbox_id }) => id !== one.id && inbox_id === one.inbox_id))!.id;
    const result = await syncAlone(configFor(db.url, sandbox));
    expect(result.exitCode).toBe(0);
    const { rows } = await db.pool.query('select id from helpdesk.tickets where _deleted_at is not null');
    expect(rows).toEqual([{ id: doomed }]);
    expect(await differences(db.pool, sandbox.world)).toEqual([]);
  });
});

test('a label that its ticket lost before it was read gets its name from another ticket', long, async () => {
  await using db = await freshDatabase();
  await using sandbox = await openSandbox({
    tickets: 12,
    before: request => {
      if (request.path === `/tickets/${first.id}`) sandbox.world.removeLabels(first.id, [label.id]);
    },
  });
  const { world } = sandbox;
  const label = world.addLabel({ name: 'rare' });
  const [last, first] = [world.byUpdated.at(0)!, world.byUpdated.at(11)!];
  for (const { id } of [last, first]) world.addLabels(id, [label.id], { quiet: true });
  const result = await syncAlone(configFor(db.url, sandbox));
  expect(result.exitCode).toBe(0);
  const { rows } = await db.pool.query('select name from helpdesk.labels where id = $1', [label.id]);
  expect(rows).toEqual([{ name: 'rare' }]);
});

test('Ctrl-C finishes the page in flight, exits 130, and the next sync goes on and pays nothing twice', async () => {
  await using db = await freshDatabase();
  const controller = new AbortController();
  await using sandbox = await openSandbox({
    tickets: 60,
    before: (_request, n) => {
      if (n === 30) controller.abort(new Interrupted());
    },
  });
  const first = await syncOnce(configFor(db.url, sandbox), undefined, controller.signal);
  expect(first).toMatchObject({ state: 'interrupted', exitCode: 130 });
  const second = await syncOnce(configFor(db.url, sandbox));
  expect(second.exitCode).toBe(0);
  expect(await differences(db.pool, sandbox.world)).toEqual([]);
  const asked = sandbox.requests.map(r => r.path).filter(path => path.startsWith('/tickets/'));
  expect(new Set(asked).size).toBe(asked.length);
});
