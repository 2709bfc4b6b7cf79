/** Replies are committed in order and together; a value that PostgreSQL refuses is alone in the end. */
import { expect, test } from 'vitest';
import { systemClock } from '../../src/clock.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import { Commits, type Entry, mostTogether } from '../../src/engine/load/commit-queue.ts';
import { freshDatabase } from '../support/postgres.ts';

/** The rows of a table, each with the transaction that wrote it. */
async function desk(sleep = systemClock.sleep) {
  const db = await freshDatabase();
  const pg = makePool(db.url);
  await pg.query(
    'create table public.written (value int check (value <> 13), by xid8 default pg_current_xact_id(), at serial)',
  );
  const said: string[] = [];
  const entry = (value: number, more: Partial<Entry> = {}): Entry => ({
    write: async (client, care) => {
      if (care !== 'as it came') said.push(`${value} ${care}`);
      await client.query('insert into public.written (value) values ($1)', [value]);
    },
    committed: () => said.push(`${value} is committed`),
    size: 10,
    ...more,
  });
  const groups = async () => {
    const { rows } = await pg.query(
      'select array_agg(value order by at) as values from public.written group by by order by min(at)',
    );
    return rows.map(({ values }) => values);
  };
  return {
    ...{ said, entry, groups },
    commits: (withinMs?: number) => new Commits({ pg, streams: [], clock: { ...systemClock, sleep } }, withinMs),
    async [Symbol.asyncDispose]() {
      await pg.end();
      await db.drop();
    },
  };
}

test('what arrives during a commit is committed together after it, in order', async () => {
  await using d = await desk();
  const commits = d.commits();
  const first = Promise.withResolvers<void>();
  const { write } = d.entry(1);
  const slowly: Entry['write'] = async (...args) => {
    await first.promise;
    await write(...args);
  };
  commits.add(d.entry(1, { write: slowly }));
  for (const value of [2, 3, 4]) commits.add(d.entry(value));
  expect(d.said).toEqual([]);
  first.resolve();
  await commits.done();
  expect(await d.groups()).toEqual([[1], [2, 3, 4]]);
  expect(d.said).toEqual([1, 2, 3, 4].map(value => `${value} is committed`));
});

test('what may wait is committed when ten are there, when it has waited, when one is in a hurry, or at the end', async () => {
  const sleepers: (() => void)[] = [];
  await using d = await desk((_ms, signal) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    sleepers.push(resolve);
    signal?.addEventListener('abort', () => reject(signal.reason));
    return promise;
  });
  const commits = d.commits(5000);
  const ten = Array.from({ length: mostTogether }, (_, i) => 100 + i);
  for (const value of ten) commits.add(d.entry(value));
  await commits.done();
  commits.add(d.entry(1));
  commits.add(d.entry(2));
  expect(sleepers).toHaveLength(2);
  sleepers.at(-1)!();
  await expect.poll(() => d.said).toContain('2 is committed');
  commits.add(d.entry(3));
  commits.add(d.entry(4), true);
  await commits.done();
  commits.add(d.entry(5));
  await commits.done();
  expect(await d.groups()).toEqual([ten, [1, 2], [3, 4], [5]]);
});

test('a reader waits while many wait, and large replies go alone', async () => {
  await using d = await desk();
  const commits = d.commits();
  const first = Promise.withResolvers<void>();
  commits.add(d.entry(1, { write: () => first.promise }));
  for (let value = 20; value < 20 + mostTogether; value++) commits.add(d.entry(value));
  let free = false;
  const room = commits.room().then(() => {
    free = true;
  });
  await Promise.resolve();
  expect(free).toBe(false);
  first.resolve();
  await room;
  for (const value of [2, 3]) commits.add(d.entry(value, { size: 3_000_000 }));
  await commits.done();
  expect((await d.groups()).slice(-2)).toEqual([[2], [3]]);
});

test('a value that PostgreSQL refuses takes the batch apart until it is alone, and costs no other its row', async () => {
  await using d = await desk();
  const commits = d.commits(60_000);
  const refused = async (error: Error) => void d.said.push(`13 is refused: ${error.message.includes('check')}`);
  for (const value of [1, 13, 3]) commits.add(d.entry(value, { refused }));
  await commits.done();
  expect(await d.groups()).toEqual([[1], [3]]);
  expect(d.said).toEqual(['1 is committed', '13 cleaned', '13 one by one', '13 is refused: true', '3 is committed']);
});

test('a reply that comes while a commit ends is not forgotten', async () => {
  await using d = await desk();
  for (let steps = 0; steps < 12; steps++) {
    const commits = d.commits();
    const { promise: added, resolve } = Promise.withResolvers<void>();
    const soon = async () => {
      for (let step = 0; step < steps; step++) await undefined;
      commits.add(d.entry(20 + steps));
      resolve(commits.done());
    };
    commits.add(d.entry(100, { committed: () => void soon() }));
    await added;
    expect(d.said).toContain(`${20 + steps} is committed`);
  }
});

test('nothing is committed after a failure, which is told to who adds and who waits', async () => {
  await using d = await desk();
  const commits = d.commits(60_000);
  commits.add(d.entry(1), true);
  commits.add(
    d.entry(2, {
      committed: () => {
        throw new Error('the clock has moved');
      },
    }),
    true,
  );
  await expect(commits.done()).rejects.toThrow('the clock has moved');
  commits.add(d.entry(3));
  await expect(commits.room()).rejects.toThrow('the clock has moved');
  await expect(commits.done()).rejects.toThrow('the clock has moved');
  expect((await d.groups()).flat()).toEqual([1, 2]);

  const others = d.commits(60_000);
  others.add(d.entry(4));
  others.add(
    d.entry(5, {
      write: async () => {
        throw new Error('no room');
      },
    }),
  );
  await expect(others.done()).rejects.toThrow('no room');
  expect((await d.groups()).flat()).toEqual([1, 2]);
});
