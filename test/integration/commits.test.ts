/** Replies are committed in order and together; a value that PostgreSQL refuses is alone in the end. */
import { expect, test } from 'vitest';
import { systemClock } from '../../src/clock.ts';
import type { Batch } from '../../src/engine/commit/page.ts';
import { writeBatch } from '../../src/engine/commit/rows.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import { Commits, type Entry, inOneMerge, mostTogether, type Rows } from '../../src/engine/load/commit-queue.ts';
import { tickets } from '../../src/sources/helpdesk/tickets.ts';
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
    ...{ pg, said, entry, groups },
    commits: (withinMs?: number) => new Commits({ pg, streams: [], clock: { ...systemClock, sleep } }, withinMs),
    async [Symbol.asyncDispose]() {
      await pg.end();
      await db.drop();
    },
  };
}

test('replies that arrive during a commit are committed together after it, in order', async () => {
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

  // What comes during a commit waits for others, too.
  commits.add(d.entry(6), true);
  commits.add(d.entry(7));
  await expect.poll(() => d.said).toContain('6 is committed');
  expect(await d.groups()).toEqual([ten, [1, 2], [3, 4], [5], [6]]);
  commits.add(d.entry(8), true);
  await commits.done();
  expect((await d.groups()).at(-1)).toEqual([7, 8]);
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

const second = Date.parse('2026-03-01T00:00:00Z');

/** A page of tickets: their ids, each with its version. */
function page(records: Readonly<Record<string, string>>, { asOfMs = second, merge = tickets.merge, more = {} } = {}) {
  const rows = Object.entries(records).map(([id, updated_at]) => ({ id, updated_at, state: 'open', ...more }));
  const batch: Batch = {
    ...{ merge, filter: tickets.personal, parameters: () => [] },
    records: rows.map(({ id }, place) => ({ place, id })),
    text: () => ` ${JSON.stringify(rows)}\n`,
    record: place => JSON.stringify(rows[place]),
  };
  const at = () => ({ nowMs: asOfMs + 1000, asOfMs, trueByMs: asOfMs + 1000 });
  const versions = new Map<string, unknown>(Object.entries(records));
  return { batch, writer: { account: 'acme', run: null }, at, versions } satisfies Rows;
}

test('replies of one moment share a merge, if each shows a record in one version', () => {
  const [early, late] = ['2026-02-01T00:00:00Z', '2026-02-02T00:00:00Z'];
  const entry = (rows?: Rows) => ({ write: async () => {}, rows });
  const sizes = (...all: (Rows | undefined)[]) => inOneMerge(all.map(entry)).map(group => group.length);
  expect(sizes(page({ a: early }), page({ b: early }), page({ c: late }))).toEqual([3]);
  expect(sizes(page({ a: early, b: early }), page({ b: early, c: late }))).toEqual([2]);
  expect(sizes(page({ a: early }), page({ b: early }), page({ a: late }), page({ b: early }))).toEqual([2, 2]);
  expect(sizes(page({ a: early }), page({ b: early }, { asOfMs: second + 1000 }))).toEqual([1, 1]);
  expect(sizes(page({ a: early }), undefined, page({ b: early }))).toEqual([1, 1, 1]);
  const withSets = { ...tickets.merge, removal: 'select' };
  expect(sizes(page({ a: early }, { merge: withSets }), page({ b: early }, { merge: withSets }))).toEqual([1, 1]);
  // Without a version nothing tells which of two is later.
  const unversioned = { ...page({ a: early }), versions: new Map([['a', undefined]]) };
  expect(sizes(unversioned, unversioned)).toEqual([1, 1]);
});

test('a shared merge writes and counts what single ones do, and a refused value costs no other record', async () => {
  const old = '2026-02-01T00:00:00Z';
  const stored = async (withinMs: number, ...pages: Rows[]) => {
    await using d = await desk();
    await d.pg.query("insert into sync.accounts (account_id) values ('acme')");
    const counted = { inserted: 0, updated: 0, unchanged: 0 };
    const refused: string[] = [];
    const clears: boolean[] = [];
    const commits = d.commits(withinMs);
    for (const rows of pages) {
      const { batch, writer, at } = rows;
      const write: Entry['write'] = async (client, care, before) => {
        if (before) clears.push(before.mayClear.rejects);
        const { counts, rejects } = before ?? (await writeBatch({ client, claim: writer, at: at(), care }, batch));
        counted.inserted += counts.inserted;
        counted.updated += counts.updated;
        counted.unchanged += counts.unchanged;
        refused.push(...rejects.map(({ recordId }) => recordId!));
      };
      commits.add({ write, rows: async () => rows, size: 10 });
      if (withinMs === 0) await commits.done();
    }
    await commits.done();
    const { rows } = await d.pg.query(
      'select id, updated_at, _observed_at, _true_by, _synced_at, state from helpdesk.tickets order by id',
    );
    return { rows, counted, refused, clears };
  };
  const pages = [page({ a: old, b: old }), page({ b: old, c: old }), page({ d: old })];
  const together = await stored(60_000, ...pages);
  // What the first page rejects, a later one may store.
  const clears = [false, true, true];
  expect(together).toMatchObject({ clears, counted: { inserted: 4, updated: 0, unchanged: 1 } });
  expect(together).toEqual({ ...(await stored(0, ...pages)), clears });
  const { batch, ...more } = page({ a: old });
  const records = [0, 1].map(place => ({ place, id: 'a' }));
  const twice = { ...more, batch: { ...batch, records, text: () => `[${batch.record(0)},${batch.record(0)}]` } };
  const { counted } = await stored(60_000, twice, page({ b: old }));
  expect(counted).toEqual((await stored(0, twice, page({ b: old }))).counted);
  const bad = page({ x: old }, { more: { snoozed_until: 'no time' } });
  expect(await stored(60_000, pages[0]!, bad, pages[2]!)).toMatchObject({
    rows: [{ id: 'a' }, { id: 'b' }, { id: 'd' }],
    refused: ['x'],
  });
});
