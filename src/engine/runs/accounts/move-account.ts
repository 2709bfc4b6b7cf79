/** Moves an account to another address of its source, and finds stored records by which the two can be compared. */
import type pg from 'pg';
import { query, raw, sql } from '../../database/sql.ts';
import { noteOperation } from '../operations.ts';
import { withAccount } from '../runs.ts';

export interface Known {
  readonly id: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** Some records of a table, as the former address sent them. */
export const knownRecords = (db: pg.Pool, table: string, account: string, most: number): Promise<Known[]> =>
  query(db).rows`
    select id, _payload as payload from ${raw(table)}
    where account_id = ${account} and _deleted_at is null and _payload <> '{}' order by id limit ${most}`;

/**
 * Binds the account to another address of the same source. Running streams are taken from their processes: they may read from the former
 * address.
 */
export async function moveSource(
  db: pg.Pool,
  { account, who, source, to }: { account: string; who: string; source: string; to: URL },
  now: Date,
): Promise<void> {
  await withAccount(db, account, async client => {
    await client.query(sql`
      update sync.sources set address = ${to.href} where (account_id, source) = (${account}, ${source})`);
    await client.query(sql`
      update sync.stored_run_streams set token = token + 1, state = 'waiting', worker = null, job = null
      where account_id = ${account} and source = ${source} and state = 'running'`);
    await noteOperation(client, { account, who, action: 'move', subject: source, outcome: `done: to ${to.host}` }, now);
  });
}
