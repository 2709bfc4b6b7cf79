/** How a list that moves is read, by examples: every-history/readers plays all histories of small ones. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readMovingList } from '../../../src/engine/reading/moving-list.ts';
import type { Ms, Page, ReadingOptions } from '../../../src/engine/reading/reading.ts';
import { Fatal } from '../../../src/errors.ts';
import { checkComplete, type Drive, drive, Mirror } from './drive.ts';
import { type Change, ModelList, type ModelOptions, start } from './model.ts';
import { from, holdsWithoutOrder } from './properties.ts';
import { depth, perPage, runs } from './scenario.ts';

test('an order that is not kept within a second leads to a gap, never to a loss', () => {
  fc.assert(holdsWithoutOrder(readMovingList, ['request', 'page']), runs(600));
});

const few = { gap: 5, count: 2 };
const quiet: ModelOptions = { inclusive: false, ties: 'change', depth, layout: [], ageMs: 400_000 };

function given(model: Partial<ModelOptions>, options: Partial<ReadingOptions> = {}): Drive {
  return {
    list: new ModelList({ ...quiet, ...model }),
    mirror: new Mirror(),
    read: readMovingList,
    from,
    options: { lookbackMs: 120_000, perPage, depth, ...options },
  };
}

const update = (pick: number, more: Partial<Change> = {}): Change => ({
  skip: 0,
  kind: 'update',
  pick,
  count: 1,
  lateMs: 0,
  ...more,
});

/** The second of the n-th record. */
const second = ({ list }: Drive, n: number): Ms => list.truth()[n]!.time;

describe.each([{ inclusive: false }, { inclusive: true }])('since_updated_at, inclusive: $inclusive', how => {
  test('a page proves what is before its last second, and that second is asked for again', () => {
    const run = given({ ...how, layout: Array.from({ length: 8 }, () => ({ gap: 10, count: 1 })) });
    const { proofs } = drive(run);
    const fifth = second(run, 4);
    expect(proofs[0]).toEqual({ covered: { from, to: fifth } });
    expect(run.list.asked[1]).toEqual({ since: fifth - 1000, page: 1, perPage, count: true });
    expect(run.mirror.rows.size).toBe(8);
  });

  test('a second with more records than paging reaches is a gap, and nothing beside it', () => {
    const run = given({ ...how, layout: [few, { gap: 1, count: depth + 1 }, { gap: 1, count: 20 }, few] });
    drive(run);
    checkComplete(run);
    const tie = second(run, 2);
    expect(run.mirror.gaps).toEqual([
      {
        from: tie,
        to: tie + 1000,
        reason: expect.stringMatching(
          /^more records with this update time than paging reaches \(50\); by creation, .*: more records with this creation time than paging reaches \(50\)$/,
        ),
      },
    ]);
    expect(run.mirror.covered).toEqual([
      { from, to: tie },
      { from: tie + 1000, to: expect.any(Number) },
    ]);
  });

  test.each([
    [60, 60],
    [99, 5],
    [50, 350],
    [100, 1],
    [1, 100],
    [900, 900],
  ])('two neighbouring seconds of %i and %i are read, with pages of 100', (one, other) => {
    const layout = [few, { gap: 5, count: one }, { gap: 1, count: other }, { gap: 1, count: 70 }, few];
    const run = given({ ...how, layout, depth: 10_000 }, { perPage: 100, depth: 10_000 });
    const { requests } = drive(run);
    checkComplete(run);
    expect(run.mirror.gaps).toEqual([]);
    expect(requests).toBeLessThanOrEqual((4 * (one + other)) / 100 + 10);
  });

  test('a time in the future moves nothing: what happens now is read and claimed as ever', () => {
    const run = given({ ...how, layout: [few], changes: [update(0, { kind: 'future', count: 86_400 })] });
    for (let i = 0; i < 7; i++) run.list.add(start + 3_600_000 * (i + 24));
    drive(run);
    expect(run.list.asked.every(({ since }) => since! < start)).toBe(true);
    expect(run.mirror.covered[0]!.to).toBeLessThanOrEqual(start - 120_000);
    run.list.settle(120_000);
    run.list.update('r1');
    run.list.now += 300_000;
    drive(run);
    expect(run.mirror.rows.get('r1')!.time).toBeGreaterThan(start);
    expect(run.mirror.covered[0]!.to).toBeLessThan(run.list.now - 120_000);
  });

  test('a tie that paging does not reach, made at other times, is read by creation, and claimed; what is behind it is read on', () => {
    const layout = [few, { gap: 5, count: 4 * depth, made: 3 }, { gap: 1, count: 7 }, few];
    const run = given({ ...how, layout });
    drive(run);
    checkComplete(run);
    expect(run.mirror.gaps).toEqual([]);
    expect(run.mirror.covered).toEqual([{ from, to: start - 121_000 }]);
    expect(run.mirror.walk).toBeUndefined();
    const tie = second(run, 2);
    expect(run.list.asked.find(({ order }) => order === 'created')).toEqual({
      page: 1,
      perPage,
      order: 'created',
      updatedSince: tie - 1000,
    });
    expect(run.list.asked.findLast(({ order }) => order === undefined)!.since).toBe(start - 122_000);
  });
});

test('a slow reply, which is dated early, claims no version that its rows cannot replace', () => {
  // r8 changes twice in the second in which it is read. The page that shows the later change takes a minute.
  const pace = Array.from({ length: 40 }, (_, moment) => (moment === 27 ? 60_000 : 0));
  const run = given({ layout: [{ gap: 5, count: 8 }], ageMs: 0, pace }, { lookbackMs: 0 });
  run.list.now += 100;
  drive(run);
  run.list.update('r8');
  run.list.now += 2400;
  drive(run); // Throws where the second is claimed, and r8 is stale.
  expect(run.mirror.covers(start)).toBe(false);
  run.list.settle(0);
  drive(run);
  checkComplete(run);
});

test.each([
  [100, 1000],
  [100, 10_000],
  [50, 1000],
  [25, 1000],
  [20, 1000],
  [10, 333],
])('pages of %i that show one second of %i records overlap, so that it is certain at once', (each, count) => {
  const layout = [few, { gap: 5, count }, { gap: 5, count: 1 }, few];
  const paging = { perPage: each, depth: 2 * count };
  const run = given({ layout, depth: paging.depth, inclusive: true, ties: 'id' }, paging);
  const { proofs, requests } = drive(run);
  expect(proofs.filter(({ tie }) => tie)).toEqual([]);
  expect(run.mirror.covered).toHaveLength(1);
  const pages = Math.ceil(count / each);
  expect(requests).toBeLessThanOrEqual(2 * pages + Math.ceil(pages / 4) + 5);
});

test.each([
  {
    // There, while d and e leave and the order is another for each request; then back: k shows up, l does not.
    what: 'two readings of a tie that contradict each other are not enough',
    pages: ['abcde', 'fghij', 'XXXXX', 'kXXX', 'afgh', 'bcij'],
    asked: [1, 2, 3, 3, 2, 1, 1],
  },
  {
    // The third reading shows page 1 as the second one did, and page 2 in another order.
    what: 'the last page of a tie is compared as well',
    pages: ['abcde', 'fghXX', 'dfgh', 'baec', 'baecd', 'hgfXX'],
    asked: [1, 2, 2, 1, 1, 2, 2],
  },
])('$what', ({ pages, asked }) => {
  const time = start - 400_000;
  const page = (ids: string): Page => {
    const rows = ids.split('').map(id => ({ id, time: id === 'X' ? time + 9000 : time }));
    return { arrived: rows.length, rows, asOf: start, trueBy: start };
  };
  const reading = readMovingList(time, { lookbackMs: 0, perPage, depth });
  const steps = [reading.next(), ...pages.map(ids => reading.next(page(ids)))];
  expect(steps.map(({ value }) => 'ask' in value! && value.ask.page)).toEqual(asked);
  expect(steps.at(-1)!.value).toMatchObject({ ask: { since: time - 1000 }, proof: {} });
});

describe('a source that does not keep to its word', () => {
  /** Every page, as the model answers it, spoilt. */
  function readSpoilt(run: Drive, spoil: (page: Page) => Page, spoiltFrom = 1): Fatal {
    const answer = run.list.answer.bind(run.list);
    run.list.answer = ask => (run.list.asked.length + 1 >= spoiltFrom ? spoil(answer(ask)) : answer(ask));
    try {
      drive(run);
    } catch (error) {
      if (error instanceof Fatal) return error;
      throw error;
    }
    throw new Error('nothing was thrown');
  }

  const layout = Array.from({ length: 30 }, () => ({ gap: 3, count: 1 }));

  test('out of order: five readings, then it fails, and nothing is claimed', () => {
    const run = given({ layout });
    const error = readSpoilt(run, page => ({ ...page, rows: page.rows.toReversed() }));
    expect(error.message).toMatch(/^the list of 2026-03-01T11:49:59.000Z and later came out of order, 5 times$/);
    expect(run.list.asked).toHaveLength(5);
    expect(run.mirror.covered).toEqual([]);
  });

  test('since_updated_at is ignored: five readings of the page that shows it, and no claim beyond the first', () => {
    const run = given({ layout });
    const oldest = new ModelList({ ...quiet, layout });
    const error = readSpoilt(run, page => ({ ...oldest.answer({ since: 0, page: 1, perPage }), total: page.total }));
    expect(error.message).toMatch(/ and later began 5 times with a record of 2026-03-01T11:/);
    expect(error.remedy).toContain('may not know the time in the request');
    expect(run.list.asked).toHaveLength(1 + 5);
    expect(run.mirror.covered).toEqual([{ from, to: second(run, 4) }]);
  });

  test('since_updated_at begins a second early: the error names the option for it', () => {
    const run = given({ layout });
    const early = (page: Page) => page.rows.map((row, i) => (i === 0 ? { ...row, time: row.time - 2000 } : row));
    const error = readSpoilt(run, page => ({ ...page, rows: early(page) }));
    expect(error.remedy).toContain('startSlackSeconds');
  });

  test('a full page of records that cannot be read: it fails and says so, since nothing tells where to go on', () => {
    const run = given({ layout, unreadable: id => Number(id.slice(1)) > 9 && Number(id.slice(1)) < 20 });
    const error = readSpoilt(run, page => page);
    expect(error.message).toMatch(/came 5 times with a full page of records that cannot be read$/);
    expect(run.mirror.rows.size).toBe(9);
  });

  test.each(['request', 'page'] as const)('a second whose order differs for each %s is a gap', ties => {
    const run = given({ ties, layout: [few, { gap: 5, count: 30 }, few, few, few] });
    drive(run);
    const tie = second(run, 2);
    expect(run.mirror.gaps).toEqual([
      { from: tie, to: expect.any(Number), reason: expect.stringContaining('different orders') },
    ]);
    expect(run.mirror.covers(tie)).toBe(false);
    expect(run.mirror.covered.at(-1)!.to).toBe(start - 121_000);
    expect(run.mirror.rows.has('r38')).toBe(true);
  });
});
