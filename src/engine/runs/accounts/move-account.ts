/** Moves an account to another address of its source, and finds stored records by which the two can be compared. */
import type pg from 'pg';
import { noteOperation } from '../operations.ts';
import { withAccount } from '../runs.ts';

export interface Known {
  readonly id: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** Some records of a table, as the former address sent them. */
export async function knownRecords(db: pg.Pool, table: string, account: string, most: number): Promise<Known[]> {
  const { rows } = await db.query<Known>(
    `select id, _payload as payload from ${table}
     where account_id = $1 and _deleted_at is null and _payload <> '{}' order by id limit $2`,
    [account, most],
  );
  return rows;
}

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
    await client.query('update sync.sources set address = $3 where (account_id, source) = ($1, $2)', [
      account,
      source,
      to.href,
    ]);
    await client.query(
      `update sync.stored_run_streams set token = token + 1, state = 'waiting', worker = null, job = null
       where account_id = $1 and source = $2 and state = 'running'`,
      [account, source],
    );
    await noteOperation(client, { account, who, action: 'move', subject: source, outcome: `done: to ${to.host}` }, now);
  });
}
