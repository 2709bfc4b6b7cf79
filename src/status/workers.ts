/** Reads which processes live. */
import type pg from 'pg';
import { query } from '../engine/database/sql.ts';

export interface Worker {
  readonly account: string;
  readonly id: number;
  /** True if it takes jobs; false if it only watches a run. */
  readonly works: boolean;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly started_at: Date;
}

/** Live processes of these accounts, by account; null: of all. */
export const liveProcesses = (
  db: Pick<pg.ClientBase, 'query'>,
  accounts: readonly string[] | null,
): Promise<readonly Worker[]> =>
  query(db).rows`
    select account_id as account, id, works, host, pid, version, started_at from sync.live_workers
    where ${accounts}::text[] is null or account_id = any (${accounts}) order by account_id, id`;

/** The live processes that take jobs. */
export const liveWorkers = async (...of: Parameters<typeof liveProcesses>): Promise<readonly Worker[]> =>
  (await liveProcesses(...of)).filter(({ works }) => works);

/** A worker in the form that commands print. */
export const workerLine = ({ account, id, host, pid }: Worker) => ({ account, id, host, pid });
