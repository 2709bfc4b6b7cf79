/**
 * What is known of the source's clock, as plainly as can be: the range in which its difference to ours may lie, and where it has
 * been.
 */
import type { ClockTold } from '../../../../src/engine/budget/source-clock.ts';

export interface HeardClock {
  /** Where it is believed to be: the source's time less ours. */
  readonly offset: number;
  readonly lastMs: number;
  readonly by: number;
  readonly moves: number;
  /** Where it is, and is not believed yet. */
  readonly elsewhere?: { readonly offset: number; readonly sinceMs: number } | undefined;
  /** The earliest time that it may have shown again since it was last believed. */
  readonly again?: number | undefined;
}

interface Range {
  readonly least: number;
  readonly most: number;
}

/** How far the range is from an offset: above it, or below it (then it is less than 0). */
const away = ({ least, most }: Range, offset: number) =>
  offset < least ? least - offset : offset > most ? most - offset : 0;

export function hearPlainly(
  before: HeardClock | undefined,
  dateMs: number,
  grantedMs: number,
  repliedMs: number,
  tolerance: number,
): { clock: HeardClock; told: ClockTold } {
  // It was written between grant and reply, and shows whole seconds.
  const range = { least: dateMs - repliedMs, most: dateMs + 1000 - grantedMs };
  if (!before) {
    const offset = Math.round((range.least + range.most) / 2);
    return { clock: { offset, lastMs: grantedMs, by: 0, moves: 0 }, told: { moves: 0, byMs: 0, steady: true } };
  }
  const { offset, elsewhere } = before;
  const lastMs = Math.max(before.lastMs, grantedMs);
  const where = elsewhere?.offset ?? offset;
  const step = away(range, where);
  // It may have been set back right after the last reply.
  const shown = step < -tolerance ? before.lastMs + range.least - tolerance : undefined;
  const again = shown === undefined ? before.again : Math.min(shown, before.again ?? shown);
  const isHome = Math.abs(away(range, offset)) <= tolerance;
  const isStill = elsewhere !== undefined && Math.abs(step) <= tolerance;
  const isBelieved = isStill && repliedMs - elsewhere.sinceMs >= 300_000;
  const end = (clock: HeardClock, voidFromMs?: number) => ({
    clock,
    told: {
      moves: clock.moves,
      byMs: clock.by,
      steady: !clock.elsewhere && clock.moves === before.moves,
      ...(voidFromMs !== undefined && { voidFromMs }),
    },
  });
  const moves = before.moves + 1;
  if (isHome) {
    const home = { ...before, offset: offset + away(range, offset), lastMs, elsewhere: undefined, again: undefined };
    return elsewhere ? end({ ...home, moves }, again) : end(home, again);
  }
  if (isBelieved)
    return end({ ...before, offset: where + step, lastMs, moves, elsewhere: undefined, again: undefined }, again);
  if (isStill) return end({ ...before, lastMs, elsewhere: { ...elsewhere, offset: where + step } });
  const moved = { offset: where + step, sinceMs: repliedMs };
  return end({ ...before, lastMs, moves, by: where + step - offset, elsewhere: moved, again }, shown);
}

/** How far the clock that stamps the records is ahead of ours, at least, and when that was known. */
export interface StampedClock {
  readonly ahead: number;
  /** Date less our time: between the bounds of the last reply, and next to where it was. */
  readonly date: number;
  readonly knownMs: number;
}

/** It is not behind ours; it is not ahead of Date; and it has shown each fresh time that it has stamped. */
export function stampsPlainly(
  before: StampedClock | undefined,
  dateMs: number,
  stampMs: number | undefined,
  grantedMs: number,
  repliedMs: number,
): { clock: StampedClock; asOfMs: number } {
  const most = dateMs + 1000 - grantedMs;
  const known = [0];
  const [oldest, newest] = [dateMs - 120_000, dateMs + 1000];
  if (stampMs !== undefined && oldest <= stampMs && stampMs <= newest) known.push(stampMs - repliedMs);
  if (before) {
    // It may lose a thousandth, and all that Date has lost. Five seconds are no loss.
    const lost = before.date > most + 5000 ? before.date - most : 0;
    known.push(before.ahead - lost - Math.max(0, grantedMs - before.knownMs) / 1000);
  }
  const ahead = Math.min(most, Math.floor(Math.max(...known)));
  const range = { least: dateMs - repliedMs, most };
  const date = before ? before.date + away(range, before.date) : Math.round((range.least + most) / 2);
  const clock = { ahead, date, knownMs: Math.max(grantedMs, before?.knownMs ?? 0) };
  return { clock, asOfMs: grantedMs - 1000 + ahead };
}

/** Where the whole second of Date was over at the grant, our clock says later when the reply was written. A day off, it does not. */
export function shownPlainly(dateMs: number | undefined, grantedMs: number, repliedMs: number): { shownByMs?: number } {
  const days = (repliedMs - (dateMs ?? repliedMs)) / 86_400_000;
  if (dateMs === undefined || grantedMs - dateMs <= 1000 || days >= 1439 / 1440) return {};
  return { shownByMs: 1500 + Math.ceil(repliedMs / 1000) * 1000 };
}

/** An error tells nothing new of the clock: what was known holds, less a thousandth. */
export function stillPlainly(before: StampedClock | undefined, grantedMs: number): number {
  const left = before ? before.ahead - Math.max(0, grantedMs - before.knownMs) / 1000 : 0;
  return grantedMs - 1000 + Math.floor(Math.max(0, left));
}

/** Our clock was set. */
export const setStamped = ({ ahead, date, knownMs }: StampedClock, ms: number): StampedClock => ({
  ahead: ahead - ms,
  date: date - ms,
  knownMs: knownMs + ms,
});

/** Our clock was set. */
export function setPlainly(clock: HeardClock, ms: number): HeardClock {
  const { elsewhere } = clock;
  return {
    ...{ ...clock, offset: clock.offset - ms, lastMs: clock.lastMs + ms },
    elsewhere: elsewhere && { offset: elsewhere.offset - ms, sinceMs: elsewhere.sinceMs + ms },
  };
}
