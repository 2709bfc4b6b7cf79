/** Rules of this package: no imports from outside, and time and randomness come from arguments. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const src = fileURLToPath(new URL('../src/', import.meta.url));
const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter(path => path.endsWith('.ts'))
  .sort()
  .map(path => ({ path, code: readFileSync(join(src, path), 'utf8').replaceAll(/\/\*[\s\S]*?\*\//g, '') }));
const imports = files.flatMap(({ path, code }) =>
  [...code.matchAll(/\bfrom '([^']+)'|\bimport\('([^']+)'\)/g)].map(([, a, b]) => ({ from: path, to: (a ?? b)! })),
);
const matching = (pattern: RegExp) => files.filter(({ code }) => pattern.test(code)).map(({ path }) => path);

test('nothing outside of the package is imported', () => {
  expect(imports.length).toBeGreaterThan(200);
  const strangers = imports.filter(
    ({ from, to }) => to.startsWith('.') && relative(src, resolve(src, dirname(from), to)).startsWith('..'),
  );
  expect(strangers).toEqual([]);
  const packages = imports.map(({ to }) => to).filter(to => !to.startsWith('.') && !to.startsWith('node:'));
  expect([...new Set(packages)].sort()).toEqual(['commander', 'yaml', 'zod']);
});

test('only clock.ts reads the clock of the machine, as a default', () => {
  expect(matching(/\bDate\.now\b|\bnew Date\(\)|\bperformance\.now\b|\bhrtime\b/)).toEqual(['clock.ts']);
  const { code } = files.find(({ path }) => path === 'clock.ts')!;
  expect(code.replaceAll('given: () => number = Date.now)', '')).not.toContain('Date.now');
});

test('chance comes from a seed', () => {
  expect(matching(/\bMath\.random\b/)).toEqual([]);
});
