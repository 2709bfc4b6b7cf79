/** One account: where it is read from, and everything that the warehouse holds of it. */
import type pg from 'pg';
import { UsageError } from '../errors.ts';
import { transaction } from './pool.ts';

/**
 * Binds the account to its source: what was read from one help desk says nothing about another, and coverage of both in
 * one would claim what nobody read. Addresses of this machine are tests, and pass for one another. Answers the name of
 * the account's job queue.
 */
export async function bindAccount(db: pg.Pool, account: string, source: URL): Promise<{ queue: string }> {
  await db.query(
    `insert into sync.accounts (account_id, source) values ($1, $2)
     on conflict (account_id) do update set source = excluded.source where accounts.source = ''`,
    [account, source.href],
  );
  const { rows } = await db.query<{ source: string; queue: string }>(
    'select source, queue from sync.accounts where account_id = $1',
    [account],
  );
  const bound = new URL(rows[0]!.source);
  if (bound.href !== source.href && !(isLoopback(bound) && isLoopback(source))) {
    throw new UsageError(
      `this warehouse holds account '${account}' of ${bound.host}, and HELPDESK_BASE_URL names ${source.host}`,
      `Use another database. If it is the same help desk under a new address: update sync.accounts set source = '${source.href}' where account_id = '${account}'.`,
    );
  }
  return { queue: rows[0]!.queue };
}

const isLoopback = ({ hostname }: URL) => /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);

/** Removes all rows of the account, in every table that knows accounts. */
export async function forgetAccount(db: pg.Pool, account: string): Promise<void> {
  await transaction(db, async client => {
    const { rows } = await client.query<{ name: string }>(
      `select format('%I.%I', table_schema, table_name) as name
       from information_schema.columns join information_schema.tables using (table_schema, table_name)
       where table_schema in ('helpdesk', 'sync') and column_name = 'account_id' and table_type = 'BASE TABLE'`,
    );
    for (const { name } of rows) await client.query(`delete from ${name} where account_id = $1`, [account]);
  });
}
