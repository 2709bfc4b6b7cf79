/**
 * Detects moves of the source's clock against ours. Pure, a part of the ledger. Coverage is in the time of the source,
 * so a clock that is set back makes claims untrue: later updates get times that are synced already.
 *
 * A reply bounds the difference of the two clocks: its Date was written between grant and reply, with a grain of one
 * second. Within the tolerance the known bounds follow, and so a slow drift is followed too. Beyond the tolerance the
 * clock has moved. Then nothing is claimed until it is back, or has stood still for five minutes. If our own clock is
 * set, it looks like a move of the source: that costs five minutes, or a second reading.
 */

export interface SourceClock {
  /** The source's time less ours. */
  offsetMs: number;
  /** Our time of the last grant whose reply gave evidence. */
  atMs: number;
  /** The last move that was more than the tolerance. */
  byMs: number;
  /** How often it moved, came back, or was believed. */
  moves: number;
  /**
   * A new offset that is not believed yet, since when it was seen, and the earliest time that the clock was set back
   * to.
   */
  moved: { offsetMs: number; sinceMs: number; backToMs?: number } | null;
}
/** A Date, and between which times of ours it was written. */
export interface Told {
  dateMs: number;
  grantedMs: number;
  repliedMs: number;
}
export interface ClockTold {
  moves: number;
  byMs: number;
  /** The clock has the believed offset, and had it before this reply. */
  steady: boolean;
  /** Claims from this time of the source on are void, because the clock may have shown the same time before. */
  voidFromMs?: number;
}

const steadyMs = 300_000;
const grainMs = 1000;

export function hear(
  clock: SourceClock | null,
  { dateMs, grantedMs, repliedMs }: Told,
  toleranceMs: number,
): { clock: SourceClock; told: ClockTold } {
  const least = dateMs - repliedMs;
  const most = dateMs + grainMs - grantedMs;
  if (clock === null) {
    const first = { offsetMs: Math.round((least + most) / 2), atMs: grantedMs, byMs: 0, moves: 0, moved: null };
    return { clock: first, told: { moves: 0, byMs: 0, steady: true } };
  }
  const { moved } = clock;
  const nearest = (offsetMs: number) => Math.min(Math.max(offsetMs, least), most);
  const isNear = (offsetMs: number) => Math.abs(nearest(offsetMs) - offsetMs) <= toleranceMs;
  const answer = (next: Partial<SourceClock>, changed = false, voidFromMs?: number) => {
    const now = { ...clock, ...next, atMs: Math.max(clock.atMs, grantedMs), moves: clock.moves + (changed ? 1 : 0) };
    const told = { moves: now.moves, byMs: now.byMs, steady: now.moved === null && !changed };
    return { clock: now, told: voidFromMs === undefined ? told : { ...told, voidFromMs } };
  };
  const was = moved?.offsetMs ?? clock.offsetMs;
  // It may have been set back right after the last reply, and has shown this again since.
  const backToMs = most - was < -toleranceMs ? clock.atMs + least - toleranceMs : undefined;
  const voidFromMs = earliest(backToMs, moved?.backToMs);
  // When it ends, all is said once more: a page may have been on its way to the tables when it began.
  if (isNear(clock.offsetMs)) {
    return answer({ offsetMs: nearest(clock.offsetMs), moved: null }, moved !== null, voidFromMs);
  }
  const offsetMs = nearest(was);
  if (moved === null || !isNear(moved.offsetMs)) {
    const next = { offsetMs, sinceMs: repliedMs, ...(voidFromMs !== undefined && { backToMs: voidFromMs }) };
    return answer({ moved: next, byMs: offsetMs - clock.offsetMs }, true, backToMs);
  }
  if (repliedMs - moved.sinceMs >= steadyMs) return answer({ offsetMs, moved: null }, true, voidFromMs);
  return answer({ moved: { ...moved, offsetMs } });
}

/** Our clock was set: what was a minute away stays a minute away. */
export function shiftClock(clock: SourceClock, byMs: number): SourceClock {
  const { offsetMs, atMs, moved } = clock;
  return {
    ...clock,
    offsetMs: offsetMs - byMs,
    atMs: atMs + byMs,
    moved: moved && { ...moved, offsetMs: moved.offsetMs - byMs, sinceMs: moved.sinceMs + byMs },
  };
}

const earliest = (...times: (number | undefined)[]): number | undefined => {
  const known = times.filter(time => time !== undefined);
  return known.length > 0 ? Math.min(...known) : undefined;
};
