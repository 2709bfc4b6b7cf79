/** The limits that a source has reported, and their use in the last day. */
import type pg from 'pg';
import { query, raw } from '../database/sql.ts';
import type { SourceName } from '../http/request.ts';
import { lanes } from './ledger.ts';

interface LimitsTold {
  /** Rate-Limit-Limit as last seen. */
  readonly limit: number | null;
  /** Requests are stopped until this time, by the database's clock. */
  readonly frozen_until: Date;
  /** Highest use of other clients in one period of the last day. */
  readonly others: number;
  /** Our requests of the last day. */
  readonly used: number;
}

/** Undefined before the first request. `since` by the database's clock. */
export const limitsTold = (
  db: pg.Pool,
  account: string,
  source: SourceName,
  since: Date,
): Promise<LimitsTold | undefined> =>
  query(db).first`
    select (b.state ->> 'limit')::float8 as limit,
      to_timestamp(coalesce((b.state ->> 'frozenUntilMs')::float8, 0) / 1000) as frozen_until,
      coalesce(m.others, 0)::int as others, coalesce(m.used, 0)::int as used
    from sync.budget b cross join lateral (
      select max(c.others) as others, sum(${raw(lanes.map(lane => `c.${lane}`).join(' + '))}) as used
      from sync.credit_minutes c
      where (c.account_id, c.source) = (b.account_id, b.source) and c.minute > ${since}) m
    where b.account_id = ${account} and b.source = ${source}`;
