/** Everything that the warehouse holds of one account. */
import type pg from 'pg';
import { transaction } from './pool.ts';

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
