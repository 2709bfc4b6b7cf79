/** How far the replies of a source may be behind its changes. Pure. */
import type { OpenSource } from '../context.ts';
import type { Ms } from '../reading/reading.ts';

/** Upper bound of the lag of a replica of a source, for any lookback. */
const longestBehindMs = 10 * 60_000;

/** How far a copy of the source may be behind. */
export const behindMs = ({ lookbackMs }: Pick<OpenSource, 'lookbackMs'>): Ms => Math.min(lookbackMs, longestBehindMs);

/** The time by which a record was gone, by the clock of `Date`, to compare with other replies. It has a grain of one second. */
export const goneBy = ({ send }: Pick<OpenSource, 'send'>, asOfMs: Ms): Ms =>
  Math.max(send.sourceNow() ?? 0, asOfMs) + 1000;

/** Upper bound of `lateMs`. A record that comes back before the time of its tombstone counts as an old reply. */
const longestLateMs = 15 * 60_000;

export const lateMs = ({ send }: Pick<OpenSource, 'send'>): Ms => Math.min(send.dateBehindMs(), longestLateMs);

/** The time of a tombstone: `goneBy` plus `lateMs`. */
export const buriedBy = (source: Pick<OpenSource, 'send'>, asOfMs: Ms): Ms => goneBy(source, asOfMs) + lateMs(source);
