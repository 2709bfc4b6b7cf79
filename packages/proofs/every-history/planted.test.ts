/** Mistakes are planted together, and one that is not planted fails. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type * as reading from '../../../src/engine/reading/reading.ts';
import { plantedInClaims, plantedInPresence } from './claims/planted.ts';
import { plantedInLedger } from './ledger/planted.ts';
import { withMistake } from './planted.ts';
import { planted } from './readers/planted.ts';

const file = 'src/engine/reading/reading.ts';

test('two mistakes of one file are both planted', async () => {
  using copy = await withMistake<typeof reading>(file, [
    { file, from: 'Math.floor(ms / secondMs)', to: 'Math.ceil(ms / secondMs)' },
    { file, from: 'Math.ceil(until / secondMs)', to: 'Math.floor(until / secondMs)' },
  ]);
  expect(copy.module.floorSecond(1500)).toBe(2000);
  expect(copy.module.endOf({ until: 1500 })).toBe(1000);
});

test('a mistake whose text is not there fails, also where another mistake took it away', async () => {
  const mistake = { file, from: 'secondMs = 1000', to: 'secondMs = 2000' };
  await expect(withMistake(file, [mistake, mistake])).rejects.toThrow('has not exactly one');
});

test('each mistake stands where it is planted', () => {
  const inReaders = planted.map(({ file, line }) => ({ file: `src/engine/reading/${file}`, from: line }));
  const others = Object.values({ ...plantedInClaims, ...plantedInPresence, ...plantedInLedger });
  const mistakes = [...inReaders, ...others.flatMap(one => one.mistakes)];
  const files = new Map(mistakes.map(({ file }) => [file, readFileSync(file, 'utf8')]));
  expect(mistakes.filter(({ file, from }) => files.get(file)!.split(from).length !== 2)).toEqual([]);
});
