/** No column that analysts use goes, or changes its type, without a new major version that names it in CHANGELOG.md. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const page = 'docs/reference/tables.md';

/** Type of each column of the page, by its whole name. Columns with `_` in front are the worker's own. */
function columnsOf(text: string): Map<string, string> {
  const relations = text.split(/^### /m).slice(1);
  return new Map(
    relations.flatMap(relation => {
      const name = relation.slice(0, relation.indexOf('\n'));
      const columns = relation.matchAll(/^\| `([a-z]\w*)` \| `([^`]+)` \|/gm);
      return [...columns].map(([, column, type]) => [`${name}.${column}`, type!] as const);
    }),
  );
}

/** A first version, 0.x, may change columns too, under its own heading. */
function broken(before: ReadonlyMap<string, string>, now: ReadonlyMap<string, string>, changelog: string): string[] {
  const majors = changelog.split(/^## /m).filter(section => /^(\d+\.0\.0|0\.\d+\.0)\b/.test(section));
  return [...before]
    .filter(([name, type]) => now.get(name) !== type)
    .filter(([name]) => !majors.some(section => section.includes(`\`${name}\``)))
    .map(([name, type]) => `${name} ${type} → ${now.get(name) ?? 'gone'}`);
}

const changelog = readFileSync(`${root}/CHANGELOG.md`, 'utf8');
const now = columnsOf(readFileSync(`${root}/${page}`, 'utf8'));

test('the columns of the last release stay', () => {
  expect(now.size).toBeGreaterThan(1000);
  const released = /^## (\d+\.\d+\.\d+)$/m.exec(changelog)?.[1];
  if (released === undefined) return expect(changelog).toMatch(/^## 0\.1\.0, not released yet$/m);
  // A clone without the tag does not know what was released: `git fetch --tags`.
  const before = execFileSync('git', ['show', `v${released}:${page}`], { cwd: root, encoding: 'utf8' });
  expect(broken(columnsOf(before), now, changelog), 'name each in CHANGELOG.md, under a new major version').toEqual([]);
});

test('a column that goes, or changes its type, is found, unless a major version names it', () => {
  const row = (name: string, type: string) => `| \`${name}\` | \`${type}\` |  | Meaning. |\n`;
  const before = columnsOf(
    `### a.t\n\n${row('one', 'text')}${row('two', 'bigint')}${row('id', 'text')}${row('_own', 'text')}`,
  );
  const after = columnsOf(`### a.t\n\n${row('two', 'text')}${row('id', 'text')}${row('more', 'text')}`);
  expect(broken(before, after, '# Changelog\n')).toEqual(['a.t.one text → gone', 'a.t.two bigint → text']);
  const named = '- gone: `a.t.one`, `a.t.two`\n';
  expect(broken(before, after, `## 1.2.3\n\n${named}`)).toHaveLength(2);
  expect(broken(before, after, `## 2.0.0\n\n${named}`)).toEqual([]);
});
