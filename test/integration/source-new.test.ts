/** `source new` writes a draft that loads as it stands, and takes no file away. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { shelfdesk } from '../support/cli.ts';
import { root } from '../support/docker.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';

let db: TestDatabase;
let folder: string;
beforeAll(async () => {
  db = await freshDatabase();
  folder = mkdtempSync(join(tmpdir(), 'shelfdesk-new-'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await db.drop();
});

/** A service that answers each request with this. */
async function answering(body: unknown): Promise<AsyncDisposable & { url: string }> {
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(body));
  });
  await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.closeAllConnections();
    await new Promise(closed => server.close(closed));
  };
  return { url: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: close };
}

/** A command in this folder, where no address is set. */
const run = (home: string, args: readonly string[], env: Record<string, string> = {}) =>
  shelfdesk(args, { DATABASE_URL: db.url, ...env }, home).finished;
const homeOf = (name: string) => {
  const home = join(folder, name);
  mkdirSync(home);
  return home;
};

test('without a document the draft has a list, and asks what decides how it is read; a second one is refused', async () => {
  const home = homeOf('small');
  const made = await run(home, ['source', 'new', 'shop']);
  expect([made.code, made.stdout]).toEqual([0, 'sources/shop.ts\n']);
  expect(made.stderr).toContain('Set SHELFDESK_SOURCES=sources in .env');
  const [, skill] = /For an agent that fills it in: (.+)/.exec(made.stderr)!;
  expect(readFileSync(join(home, skill!), 'utf8')).toContain('source test NAME');
  const text = readFileSync(join(home, 'sources/shop.ts'), 'utf8');
  for (const question of ['order', 'largest page', 'How many requests', 'tell of a person'])
    expect(text).toMatch(new RegExp(`// \\?.*${question}`));
  await using service = await answering({ data: [] });
  const env = { SHELFDESK_SOURCES: 'sources', SHOP_BASE_URL: service.url, SHOP_KEY: 'a-key' };
  expect((await run(home, ['migrate'], env)).code).toBe(0);
  const planned = await run(home, ['plan', '--json'], env);
  expect([planned.code, planned.stderr]).toEqual([0, '']);
  const again = await run(home, ['source', 'new', 'shop'], env);
  expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('shop.ts is there already')]);
  expect(readFileSync(join(home, 'sources/shop.ts'), 'utf8')).toBe(text);
});

test('an empty folder and an unfinished source are no obstacle; a name that cannot be is', async () => {
  const home = homeOf('unfinished');
  const env = { SHELFDESK_SOURCES: 'mine' };
  expect((await run(home, ['source', 'new', 'shop'], env)).stdout).toBe('mine/shop.ts\n');
  writeFileSync(join(home, 'mine/shop.ts'), 'export const');
  expect((await run(home, ['source', 'new', 'desk'], env)).stdout).toBe('mine/desk.ts\n');
  for (const name of ['Shop', 'order', 'sync', 'a-b', 'helpdesk']) {
    const { code, stderr } = await run(home, ['source', 'new', name], env);
    expect([name, code, stderr]).toEqual([name, 2, expect.stringContaining('error: ')]);
  }
});

/** Three documents in different styles. `empty`: the body of an empty list. */
const documents = {
  shop: { file: 'shop.json', empty: { data: [], meta: { next_cursor: null } } },
  desk: { file: 'desk.yaml', empty: [] },
  bookkeeping: { file: 'books.yaml', empty: { total: 0, accounts: [] } },
} as const;
const written = (home: string, name: string) => readFileSync(join(home, `sources/${name}.ts`), 'utf8');
/** The lines of one record or stream, without what is before them. */
const block = (text: string, begins: string) => {
  const from = text.indexOf(begins);
  return text.slice(from, text.indexOf('}),', from) + 1 || text.indexOf('});', from));
};

describe('from a document', () => {
  let home: string;
  beforeAll(async () => {
    home = homeOf('documents');
    for (const [name, { file }] of Object.entries(documents)) {
      const made = await run(home, ['source', 'new', name, '--openapi', join(root, 'test/support/openapi', file)]);
      expect([made.code, made.stdout]).toEqual([0, `sources/${name}.ts\n`]);
    }
  });

  test('a draft compiles, and is a source that a plan counts', async () => {
    const compiled = {
      extends: join(root, 'tsconfig.json'),
      compilerOptions: {
        typeRoots: [join(root, 'node_modules/@types')],
        paths: { 'shelfdesk/source': [join(root, 'src/sources/declare.ts')] },
      },
      include: ['sources/*.ts', join(root, 'src/engine/http/undici.d.ts')],
    };
    writeFileSync(join(home, 'package.json'), '{"type": "module"}');
    writeFileSync(join(home, 'tsconfig.json'), JSON.stringify(compiled));
    await promisify(execFile)(join(root, 'node_modules/.bin/tsc'), ['-p', home]);
    for (const [name, { empty }] of Object.entries(documents)) {
      await using service = await answering(empty);
      const env = {
        SHELFDESK_SOURCES: 'sources',
        [`${name.toUpperCase()}_BASE_URL`]: service.url,
        [`${name.toUpperCase()}_KEY`]: 'a-key',
      };
      expect((await run(home, ['migrate'], env)).stderr).toBe('');
      const planned = await run(home, ['plan', '--json'], env);
      expect([name, planned.code, planned.stderr]).toEqual([name, 0, '']);
      expect(Object.keys(JSON.parse(planned.stdout).streams)).not.toEqual([]);
    }
  });

  test('a list with a time is one of changes, in the order that its parameters name, with one record, parts and details', () => {
    const text = written(home, 'shop');
    expect(block(text, 'incremental(order')).toContain(`incremental(order, '/orders', {
      cursor: 'updated_at',
      startParam: 'updated_since',
      params: { sort: 'updated_at', direction: 'asc' },
      get: '/orders/:id',
      getSelector: 'data',
    }`);
    expect(text).toContain('// ? Is the list then in the order of updated_at, oldest first');
    expect(text).toContain("fullRefresh(customer, '/customers', { updatedAt: 'updated_at' }),");
    expect(block(text, 'details(note')).toContain("details(note, '/orders/:id/notes', {\n      parent: 'orders',");
    expect(text).toContain('// ? GET /countries is left out: its records have no id.');
    expect(text).toContain("keyHeader: 'X-Shop-Key',");
    expect(text).toContain(
      "limits: [perMinute(60, { remaining: 'X-RateLimit-Remaining', resets: 'X-RateLimit-Reset' })],",
    );
    expect(text).toContain(
      "{ type: 'cursor', cursorParam: 'cursor', cursorPath: 'meta.next_cursor', limitParam: 'limit', limit: 250 }",
    );
    expect(text).toContain('https://eu.shop.example/v2');
  });

  test('fields have their types, what they tell of people is a guess, and what no column can hold is named', () => {
    const text = written(home, 'shop');
    expect(block(text, "record('orders'")).toBe(`record('orders', 'Orders, one row for each.', {
  id: id(),
  updated_at: time('When it last changed.').always(),
  customer_id: reference('customers', 'The customer’s id.'),
  status: oneOf(['open', 'paid']),
  total: number('Total.'),
  account_id: text('Account id.').plain({ column: 'orders_account_id' }`);
    expect(text).toContain('  order: integer(');
    expect(text).toContain('  lines: children(line),');
    expect(text).toContain('// ? No column can hold order_id: left out, and drift.');
    expect(text).toContain("displayName: text('Display name.').personal('name'), // ? a guess by its name");
    expect(text).toContain("mail: text('Mail.').personal('contact'),\n  birthday: date('Birthday.').personal('text'),");
    expect(written(home, 'desk')).toContain(
      "'first-name': text('The agent’s first name.').personal('name'), // ? a guess by its name",
    );
  });

  test('pages by number from 0, a body that is the list, offsets, a total, and Swagger 2 are understood', () => {
    const [desk, books] = [written(home, 'desk'), written(home, 'bookkeeping')];
    expect(desk).toContain(
      "{ type: 'page_number', pageParam: 'page', basePage: 0, limitParam: 'per_page', limit: 30 }",
    );
    expect(desk).toContain('// ? What is the largest page that the service gives?');
    expect(desk).not.toContain('dataSelector');
    expect(desk).toContain(
      "created(ticket, '/v1/tickets.json', { cursor: 'created_at', startParam: 'created_after' }),",
    );
    expect(desk).toContain('// ? The service needs brand');
    expect(books).toContain(
      "{ type: 'offset', offsetParam: 'offset', limitParam: 'limit', limit: 500, totalPath: 'total' }",
    );
    expect(books).toContain(
      "incremental(account, '/accounts', { cursor: 'lastModified', startParam: 'modifiedSince', get: '/accounts/:id' }),",
    );
    expect(books).toContain("dataSelector: 'accounts',");
    expect(books).toContain('https://books.example/rest');
  });

  test('a document comes from an address too; what is none is refused', async () => {
    await using service = await answering(
      JSON.parse(readFileSync(join(root, 'test/support/openapi/shop.json'), 'utf8')),
    );
    expect((await run(home, ['source', 'new', 'shop_2', '--openapi', `${service.url}/openapi.json`])).stdout).toBe(
      'sources/shop_2.ts\n',
    );
    await using other = await answering({ data: [] });
    const refused = await run(home, ['source', 'new', 'shop_3', '--openapi', other.url]);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('is no OpenAPI document')]);
    const absent = await run(home, ['source', 'new', 'shop_3', '--openapi', 'nowhere.yaml']);
    expect([absent.code, absent.stderr]).toEqual([2, expect.stringContaining('nowhere.yaml cannot be read')]);
  });
});
