/**
 * Bounds the clock that stamps the records. `Date` may be the time of another clock: an edge or a proxy writes it. So a
 * reply proves no more than the most careful witness says. Pure, a part of the ledger.
 *
 * Witnesses, as differences to our clock, the database's:
 * - `Date`, from above: nothing beyond it is claimed.
 * - Our clock, at the grant: the records' clock is taken to be no further behind than a second.
 * - Fresh stamps: a record stamped at T says that the records' clock showed T by the reply. They alone raise the bound
 *   above our clock. One record may be dated ahead of its change, so the second newest stamp of a page counts, and only
 *   if it is close below `Date`: two clocks of the source then agree against ours.
 *
 * If our clock is set back, the bound moves along. All processes share it, so the order of their replies holds.
 */

export interface RecordClock {
  /** Our time of the last grant whose reply gave evidence. */
  atMs: number;
  /** The records' clock is at least this far ahead of ours. */
  leastMs: number;
  /** `Date` less our time. */
  dateMs: number;
  /** The second newest stamp of the last page with fresh ones, less our time; null: no page has told. */
  stampMs: number | null;
}

/** A reply, and between which times of ours it was written. `stampMs`: the second newest stamp of its records. */
export interface Stamped {
  dateMs: number;
  stampMs?: number | undefined;
  grantedMs: number;
  repliedMs: number;
}

/** A stamp that is older than `Date` by more than this is no evidence about the clock. */
const freshMs = 120_000;
const grainMs = 1000;
/** Clocks that differ by less agree. */
export const fewMs = 5000;
/** A clock that is slower than ours loses this part of the time. */
const slower = 1 / 1000;

/** `asOfMs`: the reply shows everything that was stamped before this time of the records' clock. */
export function hearStamps(
  clock: RecordClock | null,
  { dateMs, stampMs, grantedMs, repliedMs }: Stamped,
): { clock: RecordClock; asOfMs: number } {
  const [dateLeast, dateMost] = [dateMs - repliedMs, dateMs + grainMs - grantedMs];
  const isFresh = stampMs !== undefined && stampMs >= dateMs - freshMs;
  const told = isFresh && stampMs <= dateMs + grainMs ? stampMs - repliedMs : 0;
  // Both clocks of the source may have been set back by what `Date` has fallen.
  const fallenMs = clock !== null && clock.dateMs - dateMost > fewMs ? clock.dateMs - dateMost : 0;
  const kept = keptAt(clock, grantedMs) - fallenMs;
  const leastMs = Math.min(Math.floor(Math.max(0, told, kept)), dateMost);
  const next: RecordClock = {
    atMs: Math.max(grantedMs, clock?.atMs ?? grantedMs),
    leastMs,
    dateMs: Math.min(Math.max(clock?.dateMs ?? Math.round((dateLeast + dateMost) / 2), dateLeast), dateMost),
    stampMs: isFresh ? stampMs - repliedMs : (clock?.stampMs ?? null),
  };
  return { clock: next, asOfMs: grantedMs + leastMs - grainMs };
}

/** The rest of the bound at this time. */
const keptAt = (clock: RecordClock | null, grantedMs: number): number =>
  clock === null ? 0 : clock.leastMs - Math.max(0, grantedMs - clock.atMs) * slower;

/** The bound of a reply without evidence about the clocks, such as an error. */
export const boundAt = (clock: RecordClock | null, grantedMs: number): number =>
  grantedMs + Math.floor(Math.max(0, keptAt(clock, grantedMs))) - grainMs;

/** Our clock was set: what was a minute away stays a minute away. */
export function shiftRecordClock({ atMs, leastMs, dateMs, stampMs }: RecordClock, byMs: number): RecordClock {
  return {
    atMs: atMs + byMs,
    leastMs: leastMs - byMs,
    dateMs: dateMs - byMs,
    stampMs: stampMs === null ? null : stampMs - byMs,
  };
}
