/** The doctor's list of checks, and the manual that goes with it. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { checks } from '../../src/ops/doctor/checks/index.ts';

test('each has a name of its own, and needs only what is looked at before it', () => {
  expect(checks.length).toBeGreaterThan(20);
  expect(new Set(checks.map(({ name }) => name)).size).toBe(checks.length);
  checks.forEach(({ name, needs = [], of }, i) => {
    for (const need of needs) {
      const found = checks.slice(0, i).find(one => one.name === need);
      expect(found, `${name} needs ${need}`).toBeDefined();
      // What is looked at once for all cannot wait for one of many.
      if (of === undefined) expect(found!.of, `${name} needs ${need}`).toBeUndefined();
    }
  });
});

test('they come area by area, so that each has one heading', () => {
  const headings = checks.map(({ area }) => area).filter((area, i, all) => area !== all[i - 1]);
  expect(headings).toEqual([...new Set(headings)]);
});

test('docs/reference/doctor.md has a row for each, and for no other', () => {
  const text = readFileSync(new URL('../../docs/reference/doctor.md', import.meta.url), 'utf8');
  const cells = [...text.matchAll(/^\| (.*) \|$/gm)].map(([, row]) => row!.split(' | ').map(cell => cell.trim()));
  const rows = cells.filter(row => row.length === 3 && row[0] !== 'check' && !/^-+$/.test(row[0]!));
  expect(rows).toEqual(checks.map(({ name, looks, needs = [] }) => [name, looks, needs.join(', ') || 'nothing']));
  for (const { area } of checks) expect(text).toContain(`\n### ${area.charAt(0).toUpperCase()}${area.slice(1)}\n`);
});
