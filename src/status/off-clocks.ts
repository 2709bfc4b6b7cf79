/** Reads which clocks are off: for the examination, the commands and the page that name them. */
import type pg from 'pg';
import type { Clock } from '../clock.ts';
import { type ClockOff, clockOff } from '../engine/budget/clock-off.ts';
import type { RecordClock } from '../engine/budget/record-clock.ts';
import { sql } from '../engine/database/sql.ts';

export interface OffClock extends ClockOff {
  readonly account: string;
  readonly source: string;
}

interface Row {
  account: string;
  source: string;
  records: RecordClock;
  now_ms: number;
}

/**
 * Compares the clocks in the last reply of each source of these accounts and the clock of this machine. `labelOf`: the
 * name of a source for people.
 */
export async function readClocks(
  db: Pick<pg.ClientBase, 'query'>,
  accounts: readonly string[],
  clock: Pick<Clock, 'now'>,
  labelOf: (source: string) => string,
): Promise<readonly OffClock[]> {
  const sentMs = clock.now();
  const { rows } = await db.query<Row>(sql`
    select account_id as account, source, state -> 'records' as records, extract(epoch from clock_timestamp())::float8 * 1000 as now_ms
    from sync.budget where account_id = any (${accounts}) and json_typeof(state -> 'records') = 'object' order by account_id, source`);
  const answeredMs = clock.now();
  return rows.flatMap(({ account, source, records, now_ms }) => {
    // The source was asked between the two times.
    const machineMs = now_ms > answeredMs ? answeredMs - now_ms : Math.max(0, sentMs - now_ms);
    const off = clockOff(records, machineMs, labelOf(source));
    return off ? [{ account, source, ...off }] : [];
  });
}
