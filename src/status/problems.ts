/** Reads the problems that hold now. */
import type pg from 'pg';
import { query } from '../engine/database/sql.ts';
import { readClockProblems } from './clock-problems.ts';

export interface Problem {
  readonly account: string;
  /** Null for the whole account or a whole source. */
  readonly stream: string | null;
  /** Null for the whole account. */
  readonly source: string | null;
  readonly problem: string;
  readonly severity: 'critical' | 'warning' | 'info';
  readonly says: string;
  readonly remedy: string;
  readonly since: Date | null;
}

/** Problems of these accounts (null: of all), by account, most severe first, then oldest first. */
export const readProblems = (
  db: Pick<pg.ClientBase, 'query'>,
  accounts: readonly string[] | null,
): Promise<readonly Problem[]> =>
  query(db).rows`
    select account_id as account, stream, source, problem, severity, says, remedy, since from sync.problems
    where ${accounts}::text[] is null or account_id = any (${accounts})
    order by account_id, array_position(array['critical', 'warning', 'info'], severity), since, problem, stream_key`;

/** Reads all problems, including wrong clocks, which only a process with a clock of its own can detect. */
export const readAllProblems = async (
  db: Pick<pg.ClientBase, 'query'>,
  accounts: readonly string[],
): Promise<readonly Problem[]> => [...(await readProblems(db, accounts)), ...(await readClockProblems(db, accounts))];
