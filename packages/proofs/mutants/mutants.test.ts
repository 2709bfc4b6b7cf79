/** The command on a small project, whose changes are known one by one. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { byTest, report } from './report.ts';
import { type Outcome, tryChanges } from './try-changes.ts';

const source = `export function half(of: number): number {
  let steps = 0;
  for (let n = of; n > 0; n -= 2) steps++;
  return steps;
}
export const never = (n: number) => n + n;
`;
const halfOf = (of: number, is: number) => `import { expect, test } from 'vitest';
import { half } from '../../src/half.ts';
test('half of ${of}', () => expect(half(of)).toBe(${is}));
const of = ${of};
`;
const files = {
  'package.json': '{ "type": "module" }',
  'src/half.ts': source,
  'test/support/properties.ts': '',
  'test/support/quiet.ts': '',
  'test/unit/four.test.ts': halfOf(4, 2),
  'test/unit/none.test.ts': halfOf(0, 0),
};
const project = mkdtempSync(join(tmpdir(), 'shelfdesk-small-project-'));
afterAll(() => rmSync(project, { recursive: true }));
const write = (file: string, text: string) => {
  mkdirSync(dirname(join(project, file)), { recursive: true });
  writeFileSync(join(project, file), text);
};
for (const [file, text] of Object.entries(files)) write(file, text);
symlinkSync(fileURLToPath(new URL('../../../node_modules', import.meta.url)), join(project, 'node_modules'));

const asked = {
  project,
  files: ['src'],
  tests: [],
  servers: false,
  every: 1,
  workers: 1,
  say: () => {},
  stop: new AbortController().signal,
};
const leastSeconds = 10;
/** Each change by the part of its line that is another, and what says so. */
const told = ({ changes }: Outcome) =>
  Object.fromEntries(
    changes.map(({ what, reachedBy, killedBy }) => [
      what.split('  →  ')[1],
      reachedBy.length === 0 ? 'not reached' : killedBy.flatMap(({ failed }) => failed).sort(),
    ]),
  );
const neverEnds = expect.stringContaining('does not end');

test('each change is told with all that notice it, and a change that never ends is noticed', async () => {
  const outcome = await tryChanges({ ...asked, all: true, leastSeconds });
  const both = ['half of 0', 'half of 4'];
  expect(told(outcome)).toEqual({
    'let steps = 1;': both,
    'for (let n = of; n >= 0; n -= 2) steps++;': both,
    'for (let n = of; n <= 0; n -= 2) steps++;': [neverEnds, 'half of 4'],
    'for (let n = of; n > 1; n -= 2) steps++;': [],
    'for (let n = of; n > 0; n -= 1) steps++;': ['half of 4'],
    'for (let n = of; n > 0; n -= 3) steps++;': [],
    '(left out)': ['half of 4'],
    'export const never = (n: number) => n - n;': 'not reached',
    'export const never = (n: number) => n;': 'not reached',
  });
  expect(byTest(outcome).map(({ test, reached, kills, alone }) => ({ test, reached, kills, alone }))).toEqual([
    { test: 'test/unit/four.test.ts', reached: 7, kills: 5, alone: 2 },
    { test: 'test/unit/none.test.ts', reached: 7, kills: 3, alone: 0 },
  ]);
  expect(report(outcome, true).split('\n').slice(-3)).toEqual([
    expect.stringMatching(/^survives {2}src\/half\.ts:3 {2}.* n > 1;/),
    expect.stringMatching(/^survives {2}src\/half\.ts:3 {2}.* n -= 3\)/),
    '9 changes: 5 killed, 2 not reached, 2 survive',
  ]);
});

test('a change is over with the first that notices it, what is kept of another text does not count, and nothing stays', async () => {
  write('test/unit/none.test.ts', halfOf(0, 0).replace('half(of)', '0'));
  const outcome = await tryChanges({ ...asked, all: false, leastSeconds });
  expect(byTest(outcome).map(({ reached, kills }) => [reached, kills])).toEqual([
    [7, 5],
    [0, 0],
  ]);
  write('test/unit/none.test.ts', halfOf(1, 1));
  const { changes } = await tryChanges({ ...asked, all: false, leastSeconds });
  const most = Math.max(...changes.map(({ killedBy }) => killedBy.length));
  expect(most).toBe(1);
  expect(readFileSync(join(project, 'src/half.ts'), 'utf8')).toBe(source);
  expect(readdirSync(tmpdir()).filter(name => name.startsWith(`shelfdesk-mutants-${process.pid}-`))).toEqual([]);
});

test('a test that fails where nothing is changed ends all, by its name', async () => {
  write('test/unit/none.test.ts', halfOf(1, 2));
  await expect(tryChanges({ ...asked, all: false, leastSeconds })).rejects.toThrow(
    'test/unit/none.test.ts fails where nothing is changed: half of 1',
  );
});

test('what is stopped tells what it has tried', async () => {
  const { changes } = await tryChanges({ ...asked, all: false, leastSeconds, stop: AbortSignal.abort() });
  expect(changes).toEqual([]);
});
