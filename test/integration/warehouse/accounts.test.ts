/** Where an account is read from: each source is bound once, by itself. */

import { expect, test } from 'vitest';
import { syncList } from '../../../src/engine/load/list-loop.ts';
import { runStream } from '../../../src/engine/load/run-stream.ts';
import { bindSource, nameAccount } from '../../../src/engine/runs/accounts/accounts.ts';
import { forgetAccount } from '../../../src/engine/runs/accounts/remove-account.ts';
import { takeUp } from '../../../src/engine/runs/claims.ts';
import { UsageError } from '../../../src/errors.ts';
import { customers } from '../../../src/sources/helpdesk/customers.ts';
import { users } from '../../../src/sources/helpdesk/users.ts';
import { inProcess } from '../../support/in-process.ts';
import { freshDatabase } from '../../support/postgres.ts';
import { boundTo } from '../../support/sources.ts';

const desk = new URL('https://desk.example/api/v1');
const typo = new URL('https://desc.example/api/v1');
const catalog = new URL('https://books.example/books/v1');

const bound = (address: URL) => boundTo({ helpdesk: address });

test('the first stored page binds the account; a process that began with another address stores nothing', async () => {
  await using s = await inProcess({ tickets: 2, customers: 2, seed: 5 });
  await nameAccount(s.pool, 'default', bound(typo));
  const run = await s.open('sync', ['users', 'customers']);
  const ctx = (address: URL) => ({ ...s.ctx, claimant: { ...s.ctx.claimant, bound: bound(address) } });
  const work = (stream: 'users' | 'customers') => ({ account: 'default', run, stream: `helpdesk.${stream}` }) as const;
  const late = runStream(ctx(typo), work('customers'), {
    read: async (job, claim) => {
      expect(await s.rows('select from sync.sources')).toEqual([]);
      await runStream(ctx(desk), work('users'), { read: (other, taken) => syncList(other, taken, users) });
      return syncList(job, claim, customers);
    },
  });
  await expect(late).rejects.toMatchObject({ cause: { message: expect.stringMatching(/^this warehouse holds/) } });
  expect(await s.rows('select account_id, source, address from sync.sources')).toEqual([
    { account_id: 'default', source: 'helpdesk', address: desk.href },
  ]);
  expect(await s.rows('select from helpdesk.customers')).toEqual([]);
  expect((await s.rows('select from helpdesk.users')).length).toBeGreaterThan(0);

  const next = await s.open('sync', ['users']);
  const claimed = takeUp(
    s.pool,
    { account: 'default', run: next, stream: 'helpdesk.users' },
    ctx(typo).claimant,
    () => new Date(s.nowMs),
  );
  await expect(claimed).rejects.toThrow(/^this warehouse holds account 'default' of desk.example/);
});

test('an account is held to each address that it is bound to, also while the source is not configured', async () => {
  await using db = await freshDatabase();
  const { queue } = await nameAccount(db.pool, 'acme', boundTo({ books: catalog }));
  await bindSource(db.pool, 'acme', boundTo({ books: catalog })[0]!);
  expect(await nameAccount(db.pool, 'acme', boundTo({ helpdesk: desk }))).toEqual({ queue });
  const other = new URL('https://other.example/books/v1');
  const refused = await nameAccount(db.pool, 'acme', boundTo({ helpdesk: desk, books: other })).catch(
    (error: unknown) => error,
  );
  expect(refused).toBeInstanceOf(UsageError);
  expect(refused).toMatchObject({
    message: "this warehouse holds account 'acme' of books.example, and BOOKS_BASE_URL names other.example",
    remedy: expect.stringContaining(`npx shelfdesk account move acme --to ${other.href}`),
  });
});

test('what is forgotten is forgotten in both mirrors, and of no other account', async () => {
  await using db = await freshDatabase();
  const now = new Date();
  for (const account of ['acme', 'other']) {
    await nameAccount(db.pool, account, boundTo({ books: catalog }));
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
