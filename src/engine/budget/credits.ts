/** Folds the record of spent credits: by minute for five weeks, then by hour, after a year by day. */
import type pg from 'pg';
import { transaction } from '../database/pool.ts';
import { query } from '../database/sql.ts';
import { sums } from './minutes.ts';

const dayMs = 24 * 3_600_000;
const byMinuteDays = 35;
const byHourDays = 366;

/** Columns to add up. For a limit, the last value counts. */
const added = [...sums, 'others'];

const stepOf = {
  hour: (time: string) => `date_trunc('hour', ${time}, 'UTC')`,
  // An hour belongs to the day in which it begins, as in analytics.fact_credits.
  day: (time: string) => `date_trunc('day', date_trunc('hour', ${time}, 'UTC'), $5)`,
};

/**
 * Folds all rows that begin in a step into the first one of them. $2 and $3: the first day, and the end; $4: the length
 * of a step in minutes; $5: the time zone of days. Rows are joined by their key alone: other joins are quadratic
 * without statistics.
 */
const foldSql = (unit: keyof typeof stepOf) => `
  with rows as materialized (
    select r.source, r.minute, r.minute = min(r.minute) over step as is_first, min(r.minutes) over step as least,
      ${added.map(name => `(sum(r.${name}) over step)::bigint as ${name}`).join(', ')},
      first_value(r.credit_limit) over (partition by r.source, r.step order by r.minute desc) as last_limit
    from (
      select c.*, ${stepOf[unit]('c.minute')} as step
      from sync.credit_minutes c
      where c.account_id = $1 and c.minutes <= $4 and c.minute < $3) r
    where r.step >= date_trunc('day', $2::timestamptz, $5) and r.step < ${stepOf[unit]('$3::timestamptz')}
    window step as (partition by r.source, r.step)),
  gone as (
    delete from sync.credit_minutes c using rows r
    where not r.is_first and r.least < $4 and (c.account_id, c.source, c.minute) = ($1, r.source, r.minute))
  update sync.credit_minutes c set minute = date_trunc('hour', r.minute, 'UTC'), minutes = $4, credit_limit = r.last_limit,
    ${added.map(name => `${name} = r.${name}`).join(', ')}
  from rows r
  where r.is_first and r.least < $4 and (c.account_id, c.source, c.minute) = ($1, r.source, r.minute)`;

/** Days come first, so that hours never conflict with the row of a day. */
export async function foldCredits(db: pg.Pool, account: string, now: Date): Promise<void> {
  const before = (days: number) => new Date(now.getTime() - days * dayMs);
  const found = await query(db)
    .values<string>`select time_zone from analytics.account_zones where account_id = ${account}`;
  const zone = found[0] ?? 'UTC';
  await transaction(
    db,
    async client => {
      await client.query(foldSql('day'), [account, '-infinity', before(byHourDays), 1440, zone]);
      await client.query(foldSql('hour'), [account, before(byHourDays), before(byMinuteDays), 60, zone]);
    },
    'begin; set local enable_mergejoin = off; set local enable_hashjoin = off',
  );
}
