/** Sources in a folder of one's own: what is wrong with them is said before any command runs, with its place. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { shelfdesk } from '../support/cli.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'shelfdesk-own-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const shop = (
  name: string,
  title = "text('Title.').plain()",
) => `import { defineService, fullRefresh, id, record, text } from 'shelfdesk/source';
const order = record('orders', 'Orders.', { id: id(), title: ${title} });
export const shop = defineService({
  name: '${name}', label: 'the shop', says: 'The shop.', limits: [], paginator: { type: 'single_page' },
  streams: [fullRefresh(order, '/orders')],
});
`;
let homes = 0;
/** A command in a folder with these sources. */
async function run(files: Readonly<Record<string, string>>, args: readonly string[] = ['status']) {
  const home = mkdtempSync(join(folder, `${homes++}-`));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(home, name)), { recursive: true });
    writeFileSync(join(home, name), text);
  }
  const { code, stdout, stderr } = await shelfdesk(args, { SHELFDESK_SOURCES: home }).finished;
  return { code, stdout, stderr: stderr.replaceAll(home, 'HOME') };
}

test('a source in TypeScript or JavaScript is one, without a package beside it; tests and types are none', async () => {
  const script = shop('bazaar').replace("'shelfdesk/source';", "'shelfdesk/source'; // a script");
  const found = await run({ 'shop.ts': shop('shop'), 'bazaar.js': script, 'shop.test.ts': 'throw 1', 'notes.md': '' }, [
    ...['sync', 'orders'],
  ]);
  // Both are known, and the settings of neither are there.
  expect([found.code, found.stdout]).toEqual([2, '']);
  expect(found.stderr).toContain('shop.orders');
  expect(found.stderr).toContain('bazaar.orders');
  expect(found.stderr).not.toMatch(/warning/i);
});

test('a package within the folder is read as what it is', async () => {
  const { code, stderr } = await run(
    {
      'shop.ts': `import title from 'title';\n${shop('shop', 'text(title).plain()')}`,
      'node_modules/title/package.json': '{"name": "title", "version": "1.0.0"}',
      'node_modules/title/index.js': `module.exports = require('./words.cjs');`,
      'node_modules/title/words.cjs': `module.exports = 'Title.';`,
    },
    ['sync', 'orders'],
  );
  expect([code, stderr]).toEqual([2, expect.stringContaining('SHOP_BASE_URL')]);
});

test.each([
  [{}, 'HOME holds no source: no file that ends in .ts or .js', 'Write one'],
  [{ 'shop.ts': 'export const\n  a = ;' }, 'the source HOME/shop.ts:2 cannot be used: ', 'Correct the file'],
  [
    { 'shop.js': 'export const a = b;' },
    'the source HOME/shop.js:1 cannot be used: b is not defined',
    'Correct the file',
  ],
  [{ 'shop.ts': 'export const a = 1;' }, 'HOME/shop.ts exports no source', 'Export what defineService makes'],
  [
    { 'shop.ts': shop('shop', "text('Title.')") },
    'the source HOME/shop.ts:3 cannot be used: source shop: the field title of orders does not say what it tells of people',
    "Say .personal('name'",
  ],
  [
    { 'shop.ts': shop('books') },
    'the source of HOME/shop.ts has the name books, as the one of the program',
    'another name',
  ],
  [
    { 'a.ts': shop('shop'), 'b.ts': shop('shop') },
    'the source of HOME/b.ts has the name shop, as the one of HOME/a.ts',
    'another name',
  ],
  [{ 'shop.ts': shop('lake') }, 'a schema of this name is there already', 'another name'],
])('a mistake says what, where and what to do: %o', async (files, says, remedy) => {
  const { code, stdout, stderr } = await run(files as Readonly<Record<string, string>>);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain(`error: ${says.startsWith('a schema') ? '' : says}`);
  expect(stderr).toContain(says);
  expect(stderr).toContain(remedy);
});

test('a folder that is not there is named, and where it is set', async () => {
  const { code, stderr } = await shelfdesk(['status'], { SHELFDESK_SOURCES: join(folder, 'nowhere') }).finished;
  expect([code, stderr]).toEqual([
    2,
    expect.stringContaining('Make it, or correct SHELFDESK_SOURCES in the environment.'),
  ]);
});
