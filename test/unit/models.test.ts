/** The page of the models names a function for each step, and both are there. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const read = (path: string) => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8');
const page = read('docs/contributing/models.md');
/** Steps of the world, and parts of sentences. */
const notOurs = [
  'init',
  'says',
  'higher',
  'stutter',
  'holds',
  'story',
  'sourceStays',
  'repliesStay',
  'onlyTheOwnerWrites',
];

test.for(['fencing', 'coverage'])('each step of %s is a function that is there', model => {
  const text = read(`test/models/${model}.als`);
  const section = page.split(`### ${model[0]!.toUpperCase()}${model.slice(1)}`)[1]!.split('\n### ')[0]!;
  const rows = [...section.matchAll(/^\| `(\w+)` +\| `([\w./-]+)` +\| `(\w+)` +\|$/gm)];
  expect(rows.length).toBeGreaterThan(4);
  for (const [, step, file, name] of rows) {
    expect(text).toMatch(new RegExp(`^(pred|fun) ${step}\\b`, 'm'));
    expect(read(file!)).toMatch(new RegExp(`\\b(function|const) ${name}\\b`));
  }
  const steps = [...text.matchAll(/^pred (\w+)/gm)].map(([, name]) => name!);
  const named = (step: string) => section.includes(`\`${step}\``) || notOurs.includes(step);
  expect(steps.filter(step => !named(step))).toEqual(['nobodyWhoLivesIsRobbed'].filter(step => steps.includes(step)));
});
