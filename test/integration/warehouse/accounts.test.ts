/** Where an account is read from: each source is bound once, by itself. */

import { expect, test } from 'vitest';
import { bindAccount, forgetAccount } from '../../../src/engine/runs/accounts.ts';
import { UsageError } from '../../../src/errors.ts';
import { freshDatabase } from '../../support/postgres.ts';
import { boundTo } from '../../support/sources.ts';

const desk = new URL('https://desk.example/api/v1');
const catalog = new URL('https://books.example/books/v1');

test('each source is bound when it first comes, and stays bound while it is not configured', async () => {
  await using db = await freshDatabase();
  const bound = async () => (await db.pool.query('select source, address from sync.sources order by source desc')).rows;
  const { queue } = await bindAccount(db.pool, 'acme', boundTo({ books: catalog }));
  expect(await bound()).toEqual([{ source: 'books', address: catalog.href }]);
  expect(await bindAccount(db.pool, 'acme', boundTo({ helpdesk: desk }))).toEqual({ queue });
  expect(await bindAccount(db.pool, 'acme', boundTo({ helpdesk: desk, books: catalog }))).toEqual({ queue });
  expect(await bound()).toEqual([
    { source: 'helpdesk', address: desk.href },
    { source: 'books', address: catalog.href },
  ]);

  const other = new URL('https://other.example/books/v1');
  const refused = await bindAccount(db.pool, 'acme', boundTo({ helpdesk: desk, books: other })).catch(
    (error: unknown) => error,
  );
  expect(refused).toBeInstanceOf(UsageError);
  expect(refused).toMatchObject({
    message: "this warehouse holds account 'acme' of books.example, and BOOKS_BASE_URL names other.example",
    remedy: expect.stringContaining(`update sync.sources set address = '${other.href}'`),
  });
  expect(await bound()).toEqual([
    { source: 'helpdesk', address: desk.href },
    { source: 'books', address: catalog.href },
  ]);
});

test('what is forgotten is forgotten in both mirrors, and of no other account', async () => {
  await using db = await freshDatabase();
  const now = new Date();
  for (const account of ['acme', 'other']) {
    await bindAccount(db.pool, account, boundTo({ books: catalog }));
    await db.pool.query(
      `insert into books.shelves (account_id, owner_id, id, _first_seen_at, _synced_at, _observed_at, _payload)
       values ($1, 'ada', '3', $2, $2, $2, '{}')`,
      [account, now],
    );
  }
  await forgetAccount(db.pool, 'acme');
  const { rows } = await db.pool.query(
    'select account_id from books.shelves union all select account_id from sync.accounts',
  );
  expect(rows).toEqual([{ account_id: 'other' }, { account_id: 'other' }]);
});
