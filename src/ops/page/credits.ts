/**
 * Credit use by minute for the graph. A minute without a row had no request and appears with zero. Longer ranges have
 * longer steps, with the mean of their minutes.
 */

import { type Lane, lanes } from '../../engine/budget/ledger.ts';
import type { Client } from '../../engine/database/pool.ts';
import type { SourceName } from '../../engine/http/request.ts';
import { sources } from '../../sources/index.ts';

/** The source with the graph: its limit counts credits. The page sums up the requests of a day of every other source. */
export const graphed = sources.find(({ unit }) => unit === 'credit')!;
export const summed = sources.filter(source => source !== graphed);

/** `requests`: the last 24 hours by hour, up to the next minute, for sources without a graph. */
export const ranges = {
  hour: { stepMinutes: 1, steps: 60 },
  day: { stepMinutes: 10, steps: 144 },
  week: { stepMinutes: 60, steps: 168 },
  requests: { stepMinutes: 60, steps: 24 },
} as const;
export type Range = 'hour' | 'day' | 'week';

/** Credits per minute, as the mean of the step's elapsed minutes. */
export interface Bucket extends Readonly<Record<Lane, number>> {
  readonly begins: Date;
  /** Elapsed minutes of the step. */
  readonly minutes: number;
  /** Mean of the highest use of other clients per minute. */
  readonly others: number;
  /** Refused requests (429), as a sum over the step. */
  readonly refused: number;
  /** Credits per period that the source last announced; null if unknown. */
  readonly credit_limit: number | null;
}

export const used = (bucket: Bucket): number => lanes.reduce((sum, lane) => sum + bucket[lane], 0);

/** Reads the buckets in order of time. The last one contains the current minute. */
export async function creditBuckets(
  db: Client,
  account: string,
  source: SourceName,
  range: keyof typeof ranges,
): Promise<Bucket[]> {
  const { stepMinutes, steps } = ranges[range];
  const from = range === 'requests' ? `date_trunc('minute', now()) + interval '1 minute'` : `'epoch'`;
  const mean = (column: string) => `coalesce(sum(m.${column}) / b.minutes, 0)::float8 as ${column}`;
  const { rows } = await db.query<Bucket>(
    `with steps as (
       select begins, begins + $3::interval as ends,
         greatest(1, least(${stepMinutes}, ceil(extract(epoch from now() - begins) / 60)))::int as minutes
       from generate_series(
         date_bin($3::interval, now(), ${from}) - ${steps - 1} * $3::interval, now(), $3::interval) begins)
     select b.begins, b.minutes, ${[...lanes, 'others'].map(mean).join(', ')},
       coalesce(sum(m.refused), 0)::int8 as refused,
       coalesce(max(m.credit_limit), (
         select l.credit_limit from sync.credit_minutes l
         where l.account_id = $1 and l.source = $2 and l.minute < b.begins order by l.minute desc limit 1)) as credit_limit
     from steps b left join sync.credit_minutes m
       on m.account_id = $1 and m.source = $2 and m.minute >= b.begins and m.minute < b.ends
     group by b.begins, b.ends, b.minutes order by b.begins`,
    [account, source, `${stepMinutes} minutes`],
  );
  return rows;
}
