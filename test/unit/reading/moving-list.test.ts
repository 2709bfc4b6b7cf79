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
const one = (gap: number) => ({ gap, count: 1 });
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
  test('a list of one page costs one request, and proves everything up to the lookback', () => {
    const run = given({ ...how, layout: [few, few] });
    expect(drive(run)).toMatchObject({ requests: 1, credits: 1 });
    expect(run.mirror.rows.size).toBe(4);
    expect(run.mirror.covered).toEqual([{ from, to: start - 120_000 - 1000 }]);
  });

  test('a page proves what is before its last second, and that second is asked for again', () => {
    const run = given({ ...how, layout: Array.from({ length: 8 }, () => ({ gap: 10, count: 1 })) });
    const { proofs } = drive(run);
    const fifth = second(run, 4);
    expect(proofs[0]).toEqual({ covered: { from, to: fifth } });
    expect(run.list.asked[1]).toEqual({ since: fifth - 1000, page: 1, perPage, count: true });
    expect(run.mirror.rows.size).toBe(8);
  });

  test('a bulk action on more records than a page holds is read by pages, there and back', () => {
    const run = given({ ...how, layout: [few, { gap: 5, count: 18 }, few] });
    drive(run);
    checkComplete(run);
    expect(run.mirror.gaps).toEqual([]);
    expect(run.list.asked.map(({ page }) => page).join(' ')).toMatch(/1 2 3 4 (5 )?.*3 2 1/);
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

  test.each([
    { now: few, pages: [1, 2, 3, 4] },
    { now: { gap: 5, count: 8 }, pages: [1, 1, 2, 2, 1, 3, 4, 5] },
  ])('more than a page of the future is read by pages, and proves nothing: behind $now.count', ({ now, pages }) => {
    const run = given({ ...how, layout: [now] });
    for (let i = 0; i < 14; i++) run.list.add(start + 3_600_000 * (i + 24));
    const { proofs } = drive(run);
    expect(run.list.asked.map(({ page }) => page)).toEqual(pages);
    expect(run.mirror.rows.size).toBe(now.count + 14);
    expect(run.mirror.covered).toEqual([{ from, to: start - 121_000 }]);
    expect(proofs.slice(-3)).toEqual([{}, {}, {}]);
  });

  describe('a tie that paging does not reach, made at other times', () => {
    const layout = [few, { gap: 5, count: 4 * depth, made: 3 }, { gap: 1, count: 7 }, few];
    const walked = ({ list }: Drive) => list.asked.filter(({ order }) => order === 'created');

    test('is read by creation, and claimed; what is behind it is read on', () => {
      const run = given({ ...how, layout });
      drive(run);
      checkComplete(run);
      expect(run.mirror.gaps).toEqual([]);
      expect(run.mirror.covered).toEqual([{ from, to: start - 121_000 }]);
      expect(run.mirror.walk).toBeUndefined();
      const tie = second(run, 2);
      expect(walked(run)[0]).toEqual({ page: 1, perPage, order: 'created', updatedSince: tie - 1000 });
      expect(run.list.asked.findLast(({ order }) => order === undefined)!.since).toBe(start - 122_000);
    });

    test('a run that dies in it goes on where it was', () => {
      const whole = given({ ...how, layout });
      const { requests } = drive(whole);
      for (const dieAt of [15, 40, requests - 3]) {
        const run = given({ ...how, layout });
        drive({ ...run, dieAt });
        const { since, updatedSince } = run.mirror.walk!;
        const begun = run.list.asked.length;
        const again = drive(run);
        expect(run.list.asked[begun]).toMatchObject({ order: 'created', updatedSince, since: since - 1000 });
        expect(dieAt + again.requests).toBeLessThanOrEqual(requests + 5);
        checkComplete(run);
        expect(run.mirror.covered).toEqual([{ from, to: start - 121_000 }]);
      }
    });

    test('of a walk through less than is wanted, or with another end, no use is made', () => {
      for (const less of [
        { from: from - 5000 },
        { from: second(given({ ...how, layout }), 2) - 1000 },
        { options: { lookbackMs: 120_000, perPage, depth, until: start } },
      ]) {
        const run = given({ ...how, layout });
        const tie = second(run, 2);
        drive({ ...run, from: tie, dieAt: 30 });
        expect(run.mirror.walk).toMatchObject({ updatedSince: tie - 1000 });
        run.list.asked.length = 0;
        drive({ ...run, from: tie, ...less });
        expect(run.list.asked[0]!.order).toBeUndefined();
        checkComplete(run, tie);
      }
    });

    test('a walk that proves nothing beyond the synced range is not resumed', () => {
      const walk = { since: 0, asOf: from + 120_000, page: 1, deep: true, updatedSince: from - 1000 };
      const asks = (asOf: Ms) =>
        readMovingList(from, { lookbackMs: 120_000, perPage, depth, walk: { ...walk, asOf } }).next().value;
      expect(asks(walk.asOf)).toMatchObject({ ask: { since: from - 1000, page: 1 } });
      expect(asks(walk.asOf)).not.toHaveProperty('ask.order');
      expect(asks(walk.asOf + 1000)).toHaveProperty('ask.order', 'created');
    });

    test('a walk that fails leaves the second as a gap, and its error is the reason', () => {
      const run = given({ ...how, layout });
      const answer = run.list.answer.bind(run.list);
      run.list.answer = ask => {
        const page = answer(ask);
        return ask.order === 'created' ? { ...page, rows: page.rows.toReversed() } : page;
      };
      drive(run);
      const tie = second(run, 2);
      expect(run.mirror.gaps).toEqual([
        {
          from: tie,
          to: tie + 1000,
          reason: expect.stringMatching(/; by creation: the list of .* came out of order, 5 times$/),
        },
      ]);
    });
  });

  /** From the n-th record to before the m-th. */
  const part = (run: Drive, n: number, m: number): Drive => ({
    ...run,
    from: second(run, n),
    options: { ...run.options, until: second(run, m) },
  });

  test('a part of one page costs one credit, and what the page brings beyond it is not claimed', () => {
    const run = part(given({ ...how, layout: Array.from({ length: 30 }, () => ({ gap: 10, count: 1 })) }), 10, 13);
    expect(drive(run)).toMatchObject({ requests: 1, credits: 1 });
    expect(run.mirror.covered).toEqual([{ from: second(run, 10), to: second(run, 13) }]);
    expect([...run.mirror.rows.keys()]).toEqual(expect.arrayContaining(['r11', 'r12', 'r13', 'r14']));
  });

  test('a longer part ends with the page that reaches its end, and asks for no count', () => {
    const run = part(given({ ...how, layout: Array.from({ length: 40 }, () => ({ gap: 10, count: 1 })) }), 10, 20);
    expect(drive(run)).toMatchObject({ requests: 3, credits: 3 });
    expect(run.mirror.covered).toEqual([{ from: second(run, 10), to: second(run, 20) }]);
    expect(drive(run).requests).toBe(0);
  });

  test('an end within a second is the end of that second', () => {
    const run = given({ ...how, layout: [one(5), one(5), one(5)] });
    const until = second(run, 1) + 1;
    drive({ ...run, from: second(run, 0), options: { ...run.options, until } });
    expect(run.mirror.covered).toEqual([{ from: second(run, 0), to: second(run, 1) + 1000 }]);
  });

  test('of nothing, nothing is asked', () => {
    const run = part(given({ ...how, layout: [few, few] }), 2, 2);
    expect(drive(run).requests).toBe(0);
  });
});

test('a reply that takes long, and is therefore dated early, claims no version that its rows cannot replace', () => {
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
    expect(error.message).toMatch(/came out of order, 5 times$/);
    expect(run.list.asked).toHaveLength(1 + 5);
    expect(run.mirror.covered).toEqual([{ from, to: second(run, 4) }]);
  });

  test('once out of order, then right: nothing is lost', () => {
    const run = given({ layout });
    const answer = run.list.answer.bind(run.list);
    run.list.answer = ask => {
      const page = answer(ask);
      return run.list.asked.length % 2 ? { ...page, rows: page.rows.toReversed() } : page;
    };
    drive(run);
    checkComplete(run);
  });

  test('a full page of records that cannot be read: it fails and says so, since nothing tells where to go on', () => {
    const run = given({ layout, unreadable: id => Number(id.slice(1)) > 9 && Number(id.slice(1)) < 20 });
    const error = readSpoilt(run, page => page);
    expect(error.message).toMatch(/came 5 times with a full page of records that cannot be read$/);
    expect(run.mirror.rows.size).toBe(9);
  });

  test('pages with single records that cannot be read go on by those that can', () => {
    const run = given({ layout, unreadable: id => Number(id.slice(1)) % 5 !== 0 });
    drive(run);
    expect([...run.mirror.rows.keys()]).toEqual(['r5', 'r10', 'r15', 'r20', 'r25', 'r30']);
    expect(run.mirror.covered).toHaveLength(1);
  });

  test.each(['request', 'page'] as const)('an order within a second that is another for each %s is a gap', ties => {
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
