/** The two clocks of a source, as a part of the ledger: the one of `Date`, and the one that stamps records. */
import { boundAt, hearStamps, type RecordClock, type Stamped, shiftRecordClock } from './record-clock.ts';
import { type ClockTold, hear, type SourceClock, shiftClock } from './source-clock.ts';

export interface Clocks {
  /** The clock of `Date`, to notice jumps; null before the first reply. */
  readonly clock: SourceClock | null;
  /** The clock of the records, bounded by all evidence; null before the first reply. */
  readonly records: RecordClock | null;
}

/** Facts about the clocks from one reply. Nothing that was stamped at `asOfMs` or later is proven. */
export interface ClocksTold {
  readonly clock?: ClockTold;
  readonly asOfMs?: number;
  /** By our clock the reply was written later than its `Date` says, and before this time: a half second, as no `Date` has. */
  readonly shownByMs?: number;
}

const grainMs = 1000;
/** A clock that is off by more was never set: it contradicts nothing. */
const longestOffMs = 24 * 3_600_000 - 60_000;

/** Undefined: `Date` may be right. It is written between grant and reply. */
function shownBy({ dateMs, grantedMs, repliedMs }: Stamped): number | undefined {
  const isEarly = dateMs + grainMs < grantedMs && repliedMs - dateMs < longestOffMs;
  return isEarly ? Math.ceil(repliedMs / grainMs + 1) * grainMs + grainMs / 2 : undefined;
}

/** `toleranceMs`: moves are watched, and this much is none. */
export function hearClocks(
  before: Clocks,
  reply: Omit<Stamped, 'dateMs'> & { dateMs?: number | undefined },
  toleranceMs: number | undefined,
): { clocks: Partial<Clocks>; told: ClocksTold } {
  const { dateMs } = reply;
  if (dateMs === undefined) return { clocks: {}, told: { asOfMs: boundAt(before.records, reply.grantedMs) } };
  const { clock: records, asOfMs } = hearStamps(before.records, { ...reply, dateMs });
  const shownByMs = shownBy({ ...reply, dateMs });
  const heard = toleranceMs === undefined ? undefined : hear(before.clock, { ...reply, dateMs }, toleranceMs);
  return {
    clocks: { records, ...(heard && { clock: heard.clock }) },
    told: { asOfMs, ...(shownByMs !== undefined && { shownByMs }), ...(heard && { clock: heard.told }) },
  };
}

/** Our clock was set. */
export const shiftClocks = ({ clock, records }: Clocks, byMs: number): Clocks => ({
  clock: clock && shiftClock(clock, byMs),
  records: records && shiftRecordClock(records, byMs),
});
