/** Reading by creation: what it claims, and as of when; and the ties that only this reading reaches. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
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
});
