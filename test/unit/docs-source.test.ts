/** What is written of the words of a declaration is so: in the guide, on the page of the words, and in the skill file for agents. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import * as makers from '../../src/sources/declare.ts';
import { wordsOf } from '../../src/sources/service/paginator.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string) => readFileSync(`${root}${path}`, 'utf8');
const skill = read('docs/skills/shelfdesk-source/SKILL.md');
const page = read('docs/reference/declaration.md');
const guide = read('docs/how-to/add-a-source.md');

/** The options that a refusal names. */
function optionsOf(declare: () => unknown): string[] {
  try {
    declare();
  } catch (error) {
    return /Take one of (.*)\.$/.exec((error as { remedy: string }).remedy)![1]!.split(', ');
  }
  throw new Error('nothing was refused');
}
const { created, defineService, details, feed, fullRefresh, id, incremental, record, time } = makers;
const one = record('items', 'Items.', { id: id(), at: time('When.').always() });
const service = (more: object) =>
  defineService({
    ...{ name: 'shop', label: 'the shop', says: 'The shop.', limits: [], paginator: { type: 'single_page' } },
    streams: [fullRefresh(one, '/items')],
    ...more,
  } as never);
const wrong = { nobody: 1 };
const deletes = { id: 'id', at: 'at', of: 'items', ...wrong };
const lists = [fullRefresh, incremental, created, feed].map(make => [make(one, '/items', wrong as never)]);
const parent = incremental(one, '/items', { cursor: 'at', startParam: 'since' });
const part = details(record('parts', 'Parts.', { id: id() }), '/items/:id/parts', { parent: 'items', ...wrong });
const paginators = (['offset', 'page_number', 'cursor', 'single_page'] as const).map(type => ({ type }) as never);
const options = [
  ...optionsOf(() => service(wrong)),
  ...[...lists, [parent, part]].flatMap(streams => optionsOf(() => service({ streams }))),
  ...optionsOf(() => service({ limits: [{ per: 'day', requests: 1, ...wrong }] })),
  ...optionsOf(() => service({ streams: [feed(one, '/items', { cursorParam: 'after', deletes } as never)] })),
  ...paginators.flatMap(wordsOf),
];
const words = new Set([...Object.keys(makers), ...options, 'offset', 'page_number', 'single_page']);

const named = (text: string) =>
  new Set([...text.matchAll(/`([^`]+)`/g)].flatMap(([, code]) => code!.match(/\w+/g) ?? []));

test('the page of the words has each of them, and at most 20 ideas', () => {
  const made = new Set(['per', 'requests', 'defineService']);
  expect([...words].filter(word => !made.has(word) && !named(page).has(word))).toEqual([]);
  const [ideas = ''] = page.split('## Each word');
  expect(ideas.split('\n').filter(line => line.startsWith('| ')).length - 2).toBeLessThanOrEqual(20);
});

test('the skill file has 4 KB at most, ends with the two commands that refute, and names words that are there', () => {
  expect(Buffer.byteLength(skill)).toBeLessThanOrEqual(4096);
  expect(skill).toMatch(/shelfdesk source try NAME\n.*shelfdesk source test NAME\n```\n$/);
  expect(skill).toMatch(/^---\nname: shelfdesk-source\ndescription: .+\n---\n/);
  const code = [...skill.matchAll(/`([^`\n]+)`/g)].map(([, text]) => text!);
  // Of a declaration, and no command, setting or example's own.
  const declared = code.filter(
    text => !/^npx |^NAME_|^SHELFDESK_|^--|^_payload$|^\/\/|^shelfdesk\/|^Authorization/.test(text),
  );
  const said = declared.flatMap(
    text => text.replaceAll(/'[^']*'/g, '').match(/(?<![\w.])[A-Za-z_]\w*(?=\s*[(:,} ]|$)|(?<=\.)\w+(?=\()/g) ?? [],
  );
  expect(said.length).toBeGreaterThan(50);
  const own = new Set(['order', 'item', 'line', 'comment', 'event', 'always', 'plain', 'personal']);
  expect(said.filter(word => !words.has(word) && !own.has(word))).toEqual([]);
});

test('each example is one declaration of at most 100 lines', () => {
  for (const name of ['redmine', 'request-tracker'])
    expect(read(`examples/${name}/${name}.ts`).split('\n').length - 1).toBeLessThanOrEqual(100);
});

test('what the guide quotes of the examples stands in them', () => {
  const quoted = [...guide.matchAll(/^```ts from=(\S+)\n([\s\S]*?)^```$/gm)].map(([, path, text]) => [path!, text!]);
  expect(new Set(quoted.map(([path]) => path)).size).toBe(2);
  for (const [path, text] of quoted) expect(read(path!), path).toContain(text);
});
