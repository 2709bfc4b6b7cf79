/** What people have told to wait: nothing of it is read until they say that it may go on. */
import type pg from 'pg';

type Queryable = Pick<pg.ClientBase, 'query'>;

export interface Paused {
  /** Null: the whole account. */
  readonly stream: string | null;
  readonly paused_at: Date;
  readonly paused_by: string;
  readonly reason: string | null;
}

/** The whole account first, then streams in the order of a full sync. */
export async function pausedOf(db: Queryable, account: string): Promise<Paused[]> {
  const { rows } = await db.query<Paused>(
    `select nullif(p.stream, '') as stream, p.paused_at, p.paused_by, p.reason
     from sync.paused p left join sync.streams k using (stream)
     where p.account_id = $1 order by k.place nulls first`,
    [account],
  );
  return rows;
}

export const isPaused = (paused: readonly Paused[], name: string): boolean =>
  paused.some(({ stream }) => stream === null || stream === name);

/** Those of the streams that may be read. */
export async function notPaused(db: Queryable, account: string, streams: readonly string[]): Promise<string[]> {
  const paused = await pausedOf(db, account);
  return streams.filter(name => !isPaused(paused, name));
}
