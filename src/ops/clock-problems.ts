/** Clocks that are off, as problems: for the commands and the page that show them. */
import type pg from 'pg';
import { type Clock, systemClock } from '../clock.ts';
import { type ClockOff, clockOff, clockRemedies } from '../engine/budget/clock-off.ts';
import type { RecordClock } from '../engine/budget/record-clock.ts';
import { sources } from '../sources/index.ts';
import type { Problem } from './problems.ts';

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

/** By the last reply of each source of these accounts, and this machine's clock. */
export async function readClocks(
  db: Pick<pg.ClientBase, 'query'>,
  accounts: readonly string[],
  clock: Pick<Clock, 'now'> = systemClock,
): Promise<readonly OffClock[]> {
  const sentMs = clock.now();
  const { rows } = await db.query<Row>(
    `select account_id as account, source, state -> 'records' as records, extract(epoch from clock_timestamp())::float8 * 1000 as now_ms
     from sync.budget where account_id = any ($1) and json_typeof(state -> 'records') = 'object' order by account_id, source`,
    [accounts],
  );
  const answeredMs = clock.now();
  return rows.flatMap(({ account, source, records, now_ms }) => {
    // It was asked between the two.
    const machineMs = now_ms > answeredMs ? answeredMs - now_ms : Math.max(0, sentMs - now_ms);
    const off = clockOff(records, machineMs, sources.find(({ name }) => name === source)?.label ?? source);
    return off ? [{ account, source, ...off }] : [];
  });
}

/** A clock of ours is one problem, whatever the number of sources. */
export async function readClockProblems(...asked: Parameters<typeof readClocks>): Promise<readonly Problem[]> {
  const found = await readClocks(...asked);
  const problems = found.map(({ account, whose, says }): Problem => {
    const problem = whose === 'ours' ? 'our_clock_off' : `${whose}_clock_off`;
    return { account, stream: null, problem, severity: 'warning', says, remedy: clockRemedies[whose], since: null };
  });
  return [...new Map(problems.map(one => [`${one.account} ${one.says}`, one])).values()];
}
