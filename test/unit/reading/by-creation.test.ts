/** Reading by creation: what it claims, and as of when; and the ties that only this reading reaches. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readByCreation } from '../../../src/engine/reading/by-creation.ts';
import { holdsWithoutOrder, sweep } from './creation.ts';
import { union } from './drive.ts';
import { ModelList, type ModelOptions, start } from './model.ts';
import { depth, perPage, runs } from './scenario.ts';

test('an order that is not kept within a second leads to a gap, never to a loss', () => {
  fc.assert(holdsWithoutOrder(['request', 'page']), runs(200));
});

const quiet: ModelOptions = { inclusive: false, ties: 'change', depth, layout: [], ageMs: 400_000 };
const few = { gap: 5, count: 2 };
const upTo = (n: number) => Array.from({ length: n }, (_, i) => String(i));
const cuts = { types: upTo(2), users: upTo(3), inboxes: upTo(2) };
const values = { types: 2, users: 3, inboxes: 2 };
const options = { lookbackMs: 120_000, perPage, depth };

describe.each([{ inclusive: false }, { inclusive: true }])('since_created_at, inclusive: $inclusive', how => {
  test('each proof covers what its page has shown, as of then, from the very beginning', () => {
    const list = new ModelList({ ...quiet, ...how, layout: Array.from({ length: 8 }, () => ({ gap: 10, count: 1 })) });
    const proofs = [];
    const reading = readByCreation(0, options);
    for (let step = reading.next(); !step.done; ) {
      step = reading.next(list.answer(step.value.ask));
      proofs.push(step.done ? step.value : step.value.proof);
    }
    const fifth = list.truth()[4]!.created;
    expect(list.asked).toEqual([
      { page: 1, perPage, order: 'created', updatedSince: undefined },
      { since: fifth - 1000, page: 1, perPage, order: 'created', updatedSince: undefined },
    ]);
    const asOf = start - 1000;
    expect(proofs).toEqual([
      { covered: { from: 0, to: fifth }, asOf },
      { covered: { from: fifth, to: start - 121_000 }, asOf },
    ]);
  });

  test('a tie beyond paging is taken apart, and what is beside it is read on', () => {
    const layout = [few, { gap: 1, count: 4 * depth }, { gap: 1, count: 7 }, few];
    const list = new ModelList({ ...quiet, ...how, ...values, layout });
    const { gaps, covered } = sweep(list, { ...options, cuts });
    expect(gaps).toEqual([]);
    expect(union(covered)).toEqual([{ from: 0, to: start - 121_000 }]);
  });

  test.each([
    { what: 'a count that stops at the depth', model: { capped: true }, reason: /does not tell how many$/ },
    {
      what: 'a user that is not known',
      model: { users: 4 },
      reason: /of \d+ only \d+ have a type, user and inbox we know$/,
    },
    { what: 'a part beyond paging', model: { types: 1, users: 1, inboxes: 1 }, reason: /of one type, user and inbox$/ },
  ])('$what leaves exactly this second as a gap', ({ model, reason }) => {
    const layout = [few, { gap: 1, count: 4 * depth }, { gap: 1, count: 7 }, few];
    const list = new ModelList({ ...quiet, ...how, ...values, ...model, layout });
    const tie = list.truth()[2]!.created;
    const { gaps, covered } = sweep(list, { ...options, cuts });
    expect(gaps).toEqual([{ from: tie, to: tie + 1000, reason: expect.stringMatching(reason) }]);
    expect(union([...covered, ...gaps])).toEqual([{ from: 0, to: start - 121_000 }]);
  });

  test('a count that differs each time is taken ten times, and leaves exactly this second as a gap', () => {
    const layout = [few, { gap: 1, count: 4 * depth }, few];
    const list = new ModelList({ ...quiet, ...how, ...values, layout });
    const answer = list.answer.bind(list);
    list.answer = ask => {
      const page = answer(ask);
      return ask.perPage === 0 ? { ...page, total: 1000 + list.asked.length } : page;
    };
    const tie = list.truth()[2]!.created;
    const { gaps } = sweep(list, { ...options, cuts });
    expect(gaps).toEqual([{ from: tie, to: tie + 1000, reason: expect.stringMatching(/does not tell how many$/) }]);
    const counted = list.asked.filter(ask => ask.perPage === 0);
    expect(counted.filter(({ since }) => since === counted.at(-1)!.since)).toHaveLength(10);
  });

  test("records that do not say when they were created stand in nobody's way", () => {
    const layout = [few, { gap: 3, count: 30 }, few];
    const list = new ModelList({ ...quiet, ...how, layout, unmade: id => Number(id.slice(1)) % 3 === 0 });
    const { covered } = sweep(list, options);
    expect(union(covered)).toEqual([{ from: 0, to: start - 121_000 }]);
  });

  test('a first page of records without a creation time hides none from before 1970', () => {
    const many = { gap: 1, count: 2 * perPage + 2 };
    const list = new ModelList({
      ...quiet,
      ...how,
      layout: [many, few],
      unmade: id => Number(id.slice(1)) <= many.count,
    });
    const old = list.add(start, 0, -5000);
    const seen = new Set<string>();
    const answer = list.answer.bind(list);
    list.answer = ask => {
      const page = answer(ask);
      for (const { id } of page.rows) seen.add(id);
      return page;
    };
    const { covered, gaps } = sweep(list, options);
    expect(seen).toContain(old);
    expect(gaps).toEqual([]);
    expect(union(covered)).toEqual([{ from: 0, to: start - 121_000 }]);
  });

  test('what was created in the future is read, and not claimed', () => {
    const list = new ModelList({ ...quiet, ...how, layout: [few] });
    const ids = Array.from({ length: 14 }, (_, i) => list.add(start, 0, start + 3_600_000 * (i + 24)));
    const seen = new Set<string>();
    const answer = list.answer.bind(list);
    list.answer = ask => {
      const page = answer(ask);
      for (const { id } of page.rows) seen.add(id);
      return page;
    };
    const { covered } = sweep(list, options);
    expect(ids.every(id => seen.has(id))).toBe(true);
    expect(union(covered)).toEqual([{ from: 0, to: start - 121_000 }]);
  });
});

test.for([
  // Page 1, a look at the last page, page 2, for which d has left and f is on page 1; then back: i has come in.
  ['what comes in on the way back may push away', ['abcde', '', 'ghXXX', 'iabce']],
  // For page 2 a has left and h is on page 1; then h changes, and stands behind g.
  ['what changes on the way back may move away', ['abcde', '', 'fgXXX', 'bcdef']],
] as const)('of a tie, %s what one that left hid on the way there: it is read again', ([, pages]) => {
  const time = start - 400_000;
  const page = (ids: string) => {
    const rows = ids.split('').map(id => ({ id, time: id === 'X' ? time + 9000 : time }));
    return { arrived: rows.length, rows, asOf: start, trueBy: start };
  };
  const reading = readByCreation(time, { lookbackMs: 0, perPage, depth });
  const asked = [reading.next(), ...pages.map(ids => reading.next(page(ids)))];
  expect(asked.map(({ value }) => 'ask' in value! && value.ask.page)).toEqual([1, 10, 2, 1, 1]);
  expect(asked.at(-1)!.value).toMatchObject({ ask: { since: time - 1000 }, proof: {} });
  expect(asked.at(-1)!.value).not.toHaveProperty('proof.covered');
});
