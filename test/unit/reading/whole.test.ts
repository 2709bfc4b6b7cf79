import { expect, test } from 'vitest';
import type { Ask, Page } from '../../../src/engine/reading/reading.ts';
import { readWhole } from '../../../src/engine/reading/whole-list.ts';
import { drive, Mirror } from './drive.ts';
import type { ModelList } from './model.ts';

const asOf = Date.parse('2026-03-01T12:00:00Z');
const covered = { from: 0, to: asOf };

/** How a source treats `page` and `per_page` of a list whose paging is not specified. */
const manners = {
  'pages as asked': ({ page, perPage }: Ask, ids: string[]) => ids.slice((page - 1) * perPage, page * perPage),
  'pages of ten': ({ page }: Ask, ids: string[]) => ids.slice((page - 1) * 10, page * 10),
  'everything, always': (_: Ask, ids: string[]) => ids,
};

function read(
  select: (ask: Ask, ids: string[]) => string[],
  count: number,
  readable = (_: string) => true,
  until?: number,
) {
  const ids = Array.from({ length: count }, (_, i) => `u${i}`);
  const mirror = new Mirror();
  const answer = (ask: Ask): Page => {
    const arrived = select(ask, ids);
    const rows = arrived.filter(readable).map(id => ({ id, time: Number.NaN, version: 1, trueTime: 0 }));
    return { arrived: arrived.length, rows, asOf: asOf + 1000 * ask.page - 1000, trueBy: asOf };
  };
  // Nothing of this list moves: of the model only its answers are needed.
  const list = { answer, truth: () => [], now: asOf } as unknown as ModelList;
  const options = { lookbackMs: 0, perPage: 100, depth: 10_000, until };
  const { requests, proofs } = drive({ list, mirror, read: readWhole, from: 0, options, most: 100 });
  return { requests, proof: proofs.at(-1), ids, read: [...mirror.rows.keys()] };
}

test.each(Object.keys(manners) as (keyof typeof manners)[])(
  '%s: every record is read once, whatever their number',
  how => {
    for (const count of [0, 1, 9, 10, 11, 20, 25, 99, 100, 101, 200, 250]) {
      const result = read(manners[how], count);
      expect(result.read).toEqual(result.ids);
      expect(result.proof).toEqual({ covered });
    }
  },
);

test('a small team costs one request', () => {
  for (const select of Object.values(manners)) expect(read(select, 7).requests).toBe(1);
});

test('paging that is ignored costs one request more, when the list is as long as a page', () => {
  expect(read(manners['everything, always'], 250).requests).toBe(2);
  expect(read(manners['everything, always'], 50).requests).toBe(1);
});

test('a full page of unreadable records proves nothing: more records may follow it', () => {
  const result = read(manners['pages as asked'], 150, id => Number(id.slice(1)) >= 100);
  expect(result.proof).toEqual({});
});
