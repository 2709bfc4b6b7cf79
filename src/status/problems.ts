/** Reads sync.problems, for the commands that show them. */
import type pg from 'pg';

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

/** Problems of these accounts, by account, most severe first, then oldest first. */
export async function readProblems(db: pg.Pool, accounts: readonly string[]): Promise<readonly Problem[]> {
  const { rows } = await db.query<Problem>(
    `select account_id as account, stream, source, problem, severity, says, remedy, since from sync.problems
     where account_id = any ($1)
     order by account_id, array_position(array['critical', 'warning', 'info'], severity), since, problem, stream_key`,
    [accounts],
  );
  return rows;
}
