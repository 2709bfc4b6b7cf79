/**
 * What was measured stands in packages/proofs/bench/RESULTS.md, which `npm run bench` writes, and nowhere else: in docs/reference/figures.md only between the
 * marks where the bench puts its headlines; other documents link to it.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { anchorOf, tableOf, withHeadlines } from '../../packages/proofs/bench/report.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string): string => readFileSync(`${root}${path}`, 'utf8');
const results = read('packages/proofs/bench/RESULTS.md');
// tables.md is made of the comments of the tables, questions.md of answers of a world that is made up.
const documents = [
  'README.md',
  ...readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.md') && !['reference/tables.md', 'reference/questions.md'].includes(name))
    .map(name => `docs/${name}`),
];

/** Limits, pauses, settings, what follows from them by arithmetic, and a complaint of others: no outcomes. What is measured is not put here. */
const promised = new Set(
  '1 s|2 s|3.5 s|4 s|5 s|10 s|12 s|14 s|15 s|20 s|25 s|30 s|31 s|75 s|90 s|100 s|20 ms|300 ms|512 MB|0.04 %|0.3 %|5 %|10 %|60 %|95 %'.split(
    '|',
  ),
);

/** Numbers with a unit of time, size or rate; not in examples of what programs print, nor where the bench has written. */
function figuresOf(text: string): string[] {
  const prose = text.replaceAll(/^```[\s\S]*?^```$/gm, '').replace(/<!-- figures: [\s\S]*?<!-- \/figures -->/, '');
  const figure = /(?<![\w.,])(\d[\d,.]*)(?: ?(µs|ms|kB|KB|MB|GB|%|rows\/s)| (s))(?![\w/])/g;
  return [...prose.matchAll(figure)].map(([, number, unit, apart]) => `${number} ${unit ?? apart}`);
}

const unpromised = (text: string) => figuresOf(text).filter(figure => !promised.has(figure));

describe('figures', () => {
  test.for(documents)('%s has none that may have been measured', path => {
    expect(unpromised(read(path))).toEqual([]);
  });

  test('are found in prose and in tables, and nowhere else', () => {
    const text =
      'A page takes 3.1 ms, not 15 s.\n\n| memory | 1,090 MB |\n\n```\n27 s\n```\n0.5%, v1.2 sorts, two 404s, 40,000 rows/s';
    expect(unpromised(text)).toEqual(['3.1 ms', '1,090 MB', '0.5 %', '40,000 rows/s']);
    expect(unpromised('<!-- figures: here -->\n| a | 3.1 ms |\n<!-- /figures -->\n4.2 ms')).toEqual(['4.2 ms']);
  });

  test('of figures.md are those that RESULTS.md has in bold', () => {
    const page = read('docs/reference/figures.md');
    expect(page).toBe(withHeadlines(page, results));
  });

  test('reach the page with what was asked, from their section', () => {
    const rows = [
      { what: 'a page', unit: 'ms', rounds: [3, 1, 2], atMost: 5, headline: true },
      { what: 'another', unit: 'ms', rounds: [4] },
      { what: 'credits', unit: '', rounds: [1, 2], atLeast: 3, headline: true },
    ];
    const page = `# Measured\n\n## What it takes\n\n${tableOf(rows)}\n`;
    const readme = 'Before\n<!-- figures: written -->\nold\n<!-- /figures -->\nafter';
    expect(withHeadlines(readme, page).split('\n').slice(2, -2)).toEqual([
      '',
      '| what    | median | asked       | section                                                               |',
      '| ------- | -----: | ----------- | --------------------------------------------------------------------- |',
      '| a page  |   2 ms | ≤ 5         | [What it takes](../../packages/proofs/bench/RESULTS.md#what-it-takes) |',
      '| credits |   1.50 | ≥ 3: missed | [What it takes](../../packages/proofs/bench/RESULTS.md#what-it-takes) |',
      '',
    ]);
  });
});

describe('the bench', () => {
  const sections = readdirSync(`${root}packages/proofs/bench/sections`)
    .filter(name => name !== 'index.ts')
    .map(name => read(`packages/proofs/bench/sections/${name}`));
  const told = (what: string) =>
    sections.flatMap(text => [...text.matchAll(new RegExp(`^  ${what}: '(.+)',$`, 'gm'))].map(([, is]) => is!));

  test.for(documents)('%s names sections that there are, and no other way to measure', path => {
    const text = read(path);
    const anchors = [...text.matchAll(/RESULTS\.md#([\w-]+)/g)].map(([, anchor]) => anchor!);
    expect(anchors.filter(anchor => !told('title').map(anchorOf).includes(anchor))).toEqual([]);
    const names = [...text.matchAll(/npm run bench -- ([a-z-]+)/g)].map(([, name]) => name!);
    expect(names.filter(name => !told('name').includes(name))).toEqual([]);
    expect(text).not.toMatch(/node bench\//);
  });
});
