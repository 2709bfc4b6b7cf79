/** The machinery of the mutants: mistakes are planted together, and what a process did is called by its name. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type * as reading from '../../../src/engine/reading/reading.ts';
import { mutantsOf } from '../mutants/small-changes.ts';
import { examined } from './examined.ts';
import { tryProgram } from './mutants.ts';
import { isNamed, withMistake } from './planted.ts';

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

test('an error of a copy is known by its name', async () => {
  using copy = await withMistake<typeof import('../../../src/errors.ts')>('src/errors.ts', []);
  expect(isNamed(new copy.module.Fatal('a', 'b'), 'Fatal')).toBe(true);
  expect(isNamed(new copy.module.Busy('a', 1), 'Fatal')).toBe(false);
});

test('each part has small changes, and none is no change', () => {
  for (const { files } of Object.values(examined)) {
    const all = files.flatMap(mutantsOf);
    expect(all.length).toBeGreaterThan(100);
    expect(all.filter(({ before, after }) => before === after)).toEqual([]);
  }
});

test.each([
  ['survives', 'process.exit(0)'],
  ['found', 'console.log("as it should not be"); process.exit(3)'],
  ['does not run', 'process.exit(4)'],
  ['breaks off', 'throw new Error("broken")'],
  ['does not end', 'for (;;) {}'],
  ['does not end', 'process.abort()'],
])('%s: %s', async (verdict, code) => {
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-tried-'));
  try {
    writeFileSync(join(folder, 'code.mjs'), code);
    // The deadline is for the one that never ends.
    const one = await tryProgram(join(folder, 'code.mjs'), [], {}, code.startsWith('for') ? 1 : 300);
    expect(one.verdict).toBe(verdict);
    if (verdict === 'found') expect(one.says).toBe('as it should not be');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
