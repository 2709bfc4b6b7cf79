import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readByCursor } from '../../../src/engine/reading/by-cursor.ts';
import { type Answer, inFewer } from '../../../src/engine/reading/fewer.ts';
import { readMovingList } from '../../../src/engine/reading/moving-list.ts';
import { PageSize } from '../../../src/engine/reading/page-size.ts';
import { walkList } from '../../../src/engine/reading/page-walk.ts';
import type { Ask, Page, Proof, Reader } from '../../../src/engine/reading/reading.ts';
import { readWhole } from '../../../src/engine/reading/whole-list.ts';
import { drive, Mirror } from './drive.ts';
import { ModelList } from './model.ts';
import { holdsWhileMoving } from './properties.ts';
import { depth, perPage, runs } from './scenario.ts';

const fewer = (read: Reader): Reader => ((begin, options) => inFewer(read, begin, options)) as Reader;

/** More than `most` records are too large together, and a few records are alone. */
const large = (most: number, alone: (id: string) => boolean) => (page: Page) =>
  page.rows.length > most || page.rows.some(({ id }) => alone(id));
const tenth = (id: string) => id.endsWith('7');
const nobody = () => false;

describe('properties', () => {
  for (const most of [1, 2, 3])
    test(`a moving list of which only ${most} records fit is read whole, and nothing is claimed that is not there`, () => {
      fc.assert(holdsWhileMoving(fewer(readMovingList), { large: large(most, nobody) }), {
        ...runs(60),
        endOnFailure: true,
      });
    });

  test('records that are too large alone leave gaps, and all other records are read', () => {
    fc.assert(holdsWhileMoving(fewer(readMovingList), { large: large(perPage, tenth) }), {
      ...runs(100),
      endOnFailure: true,
    });
    fc.assert(holdsWhileMoving(fewer(readMovingList), { large: large(2, tenth) }), { ...runs(60), endOnFailure: true });
  });

  test('a walk by pages whose pages are too large loses nothing, wherever it dies', () => {
    for (const most of [1, 2, 3])
      fc.assert(holdsWhileMoving(fewer(walkList), { freely: true, large: large(most, nobody) }), {
        ...runs(100),
        endOnFailure: true,
      });
  });
});

test('the gap of a record that is too large ends where the part does that is wanted', () => {
  const one = { gap: 5, count: 1 };
  const list = new ModelList({ inclusive: false, ties: 'id', depth, layout: [one, one, one, one], ageMs: 400_000 });
  const [from, , third] = list.truth().map(({ time }) => time);
  const options = { lookbackMs: 1000, perPage, depth, until: third! + 1000 };
  const mirror = new Mirror();
  const isLarge = (page: Page) => page.rows.some(({ id }) => id === 'r3');
  drive({ list, mirror, read: fewer(readMovingList), from: from!, options, large: isLarge });
  expect(mirror.gaps).toMatchObject([{ to: options.until }]);
});

/** Reads a list that stands still; `large` tells which requests have a reply that is too large. */
function readAll(read: Reader, ids: readonly string[], large: (shown: readonly string[]) => boolean) {
  const reading = inFewer(read, 0, { lookbackMs: 0, perPage: 8, depth: 80 });
  const asked: Ask[] = [];
  const shown = new Set<string>();
  let last: Proof = {};
  for (let step = reading.next(); !step.done; ) {
    const { ask } = step.value;
    asked.push(ask);
    const first = ask.cursor === undefined ? (ask.page - 1) * ask.perPage : Number(ask.cursor);
    const part = ids.slice(first, first + ask.perPage);
    const next = first + ask.perPage < ids.length ? { next: String(first + ask.perPage) } : {};
    const rows = part.map(id => ({ id, time: Number.NaN }));
    const page: Page = { arrived: part.length, rows, asOf: 5000, trueBy: 6000, ...next };
    const isLarge = large(part);
    if (!isLarge) for (const id of part) shown.add(id);
    const answer: Answer = isLarge ? { tooLarge: 'b is too large', asOf: 5000 } : page;
    step = reading.next(answer);
    if (step.done) last = step.value;
    if (asked.length > 200) throw new Error('it has asked 200 times');
  }
  return { shown: [...shown].sort(), sizes: asked.map(({ perPage: size }) => size), last };
}

const letters = [...'abcdefghij'];

test('a whole list whose pages are too large is read whole in smaller ones', () => {
  const { shown, sizes, last } = readAll(readWhole, letters, part => part.length > 2);
  expect(shown).toEqual(letters);
  expect(sizes.slice(0, 3)).toEqual([8, 4, 2]);
  expect(last).toEqual({ covered: { from: 0, to: 5000 } });
});

test('of a whole list all records but the one that is too large are read, and nothing is claimed', () => {
  const { shown, last } = readAll(readWhole, letters, part => part.includes('b'));
  expect(shown).toEqual(letters.filter(id => id !== 'b'));
  expect(last).toEqual({ gap: { from: 0, to: 5000, reason: 'b is too large' } });
});

test('a list by cursors ends with a gap at the record that is too large: only the reply says what follows it', () => {
  const whole = readAll(readByCursor, letters, part => part.length > 3);
  expect(whole).toMatchObject({ shown: letters, last: { covered: { from: 0, to: 5000 } } });
  expect(readAll(readByCursor, letters, part => part.includes('c'))).toMatchObject({
    shown: ['a', 'b'],
    last: { gap: { from: 0, to: 5000, reason: 'b is too large' } },
  });
});

test('pages are halved down to one, in sizes that divide the depth of paging, and grow later after each try that failed', () => {
  const size = new PageSize(100, 10_000);
  const halved = [size.present];
  for (; size.present > 1; halved.push(size.present)) size.failed(size.present);
  expect(halved).toEqual([100, 50, 25, 10, 5, 2, 1]);
  size.came(1);
  expect(size.mayGrow).toBe(true);
  size.grow();
  size.failed(2);
  size.came(3);
  expect(size.mayGrow).toBe(false);
  size.came(1);
  expect(size.mayGrow).toBe(true);
});
