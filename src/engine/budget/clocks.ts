/** The two clocks of a source, as a part of the ledger: the one of `Date`, and the one that stamps records. */
import { boundAt, hearStamps, latestAt, type RecordClock, type Stamped, shiftRecordClock } from './record-clock.ts';
import { type ClockTold, hear, type SourceClock, shiftClock } from './source-clock.ts';

export interface Clocks {
  /** By `Date`, for its moves; null until a reply has told. */
  readonly clock: SourceClock | null;
  /** By all witnesses; null until a reply has told. */
  readonly records: RecordClock | null;
}

/**
 * What a reply tells. Nothing that was stamped at `asOfMs` or later is proven. The reply shows nothing that was stamped at
 * `trueByMs` or later, unless its `Date` is later.
 */
export interface ClocksTold {
  readonly clock?: ClockTold;
  readonly asOfMs?: number;
  readonly trueByMs?: number;
}

/** `toleranceMs`: moves are watched, and this much is none. */
export function hearClocks(
  before: Clocks,
  reply: Omit<Stamped, 'dateMs'> & { dateMs?: number | undefined },
  toleranceMs: number | undefined,
): { clocks: Partial<Clocks>; told: ClocksTold } {
  const { dateMs } = reply;
  const { grantedMs, repliedMs } = reply;
  if (dateMs === undefined) {
    const { records } = before;
    return { clocks: {}, told: { asOfMs: boundAt(records, grantedMs), trueByMs: latestAt(records, repliedMs) } };
  }
  const { clock: records, asOfMs } = hearStamps(before.records, { ...reply, dateMs });
  const heard = toleranceMs === undefined ? undefined : hear(before.clock, { ...reply, dateMs }, toleranceMs);
  return {
    clocks: { records, ...(heard && { clock: heard.clock }) },
    told: { asOfMs, trueByMs: latestAt(records, repliedMs), ...(heard && { clock: heard.told }) },
  };
}

/** Our clock was set. */
export const shiftClocks = ({ clock, records }: Clocks, byMs: number): Clocks => ({
  clock: clock && shiftClock(clock, byMs),
  records: records && shiftRecordClock(records, byMs),
});
