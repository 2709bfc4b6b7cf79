/** The reader of whole lists by a cursor, against lists that a test makes. */
import { expect, test } from 'vitest';
import { readByCursor } from '../../../src/engine/reading/by-cursor.ts';
import type { Page, Proof } from '../../../src/engine/reading/reading.ts';

const asOf = 1_000_000;
const options = { lookbackMs: 0, perPage: 2, depth: Number.POSITIVE_INFINITY };
const page = (ids: readonly string[], next?: string, at = asOf): Page => ({
  ...{ arrived: ids.length, asOf: at, trueBy: at, next },
  rows: ids.map(id => ({ id, time: Number.NaN })),
});

/** Reads pages by their cursors, `` for the first one. Answers the cursors that were asked for, and the proof. */
function read(answer: (cursor: string, n: number) => Page, overlap = false): { cursors: string[]; proof: Proof } {
  const reading = readByCursor(0, options, overlap);
  const cursors: string[] = [];
  let step = reading.next();
  while (!step.done) {
    const cursor = step.value.ask.cursor ?? '';
    cursors.push(cursor);
    step = reading.next(answer(cursor, cursors.length));
  }
  return { cursors, proof: step.value };
}

test('a list is complete as of its first page', () => {
  const pages: Record<string, Page> = {
    '': page(['a', 'b'], 'b'),
    b: page(['c', 'd'], 'd', asOf + 60_000),
    d: page(['e'], undefined, asOf + 120_000),
  };
  const { cursors, proof } = read(cursor => pages[cursor]!);
  expect(cursors).toEqual(['', 'b', 'd']);
  expect(proof).toEqual({ covered: { from: 0, to: asOf } });
});

test('an empty page with a next cursor continues the list; only a page without one ends it', () => {
  const pages: Record<string, Page> = { '': page([], '1'), 1: page(['a', 'b'], '2'), 2: page(['c']) };
  const { cursors, proof } = read(cursor => pages[cursor]!);
  expect(cursors).toEqual(['', '1', '2']);
  expect(proof).toEqual({ covered: { from: 0, to: asOf } });
});

test('a page that shows nothing new and promises more proves nothing', () => {
  const { cursors, proof } = read(() => page(['a', 'b'], 'again'));
  expect(cursors).toEqual(['', 'again']);
  expect(proof.covered).toBeUndefined();
  expect(proof.gap?.reason).toContain('no record that was not shown before');
});

test('a record that cannot be read, at the border of two pages, moves nothing', () => {
  const pages: Record<string, Page> = {
    '': { ...page(['a'], '1'), arrived: 2, borders: ['a', 'bad'] },
    1: { ...page(['c'], '2'), arrived: 2, borders: ['bad', 'c'] },
    2: page(['c', 'd']),
  };
  const { cursors, proof } = read(cursor => pages[cursor]!, true);
  expect(cursors).toEqual(['', '1', '2']);
  expect(proof).toEqual({ covered: { from: 0, to: asOf } });
});

test('a list that moves in each of five readings is a gap', () => {
  const { cursors, proof } = read(cursor => (cursor === '' ? page(['a', 'b'], '1') : page(['x', 'y'])), true);
  expect(cursors).toHaveLength(10);
  expect(proof.covered).toBeUndefined();
  expect(proof.gap?.reason).toBe('the list moved in each of 5 readings');
});
