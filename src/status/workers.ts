/** Reads which processes live. */
import type pg from 'pg';

/** Processes that take the jobs of this account. */
export async function liveWorkers(db: pg.Pool, account: string): Promise<{ id: number; host: string; pid: number }[]> {
  const { rows } = await db.query<{ id: number; host: string; pid: number }>(
    'select id, host, pid from sync.workers where account_id = $1 and works and sync.is_alive(id) order by id',
    [account],
  );
  return rows;
}

/** The same for several accounts, by account. */
export async function workersOf(
  db: pg.Pool,
  accounts: readonly string[],
): Promise<{ account: string; id: number; host: string; pid: number }[]> {
  const { rows } = await db.query<{ account: string; id: number; host: string; pid: number }>(
    `select account_id as account, id, host, pid from sync.live_workers
     where account_id = any($1) and works order by account_id, id`,
    [accounts],
  );
  return rows;
}
