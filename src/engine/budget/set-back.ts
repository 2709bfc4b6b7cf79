/** The clock of the database was set back: all times of the ledger move with it. Pure, a part of the ledger. */
import { shiftClocks } from './clocks.ts';
import type { Spent, State } from './ledger.ts';
import type { Burst } from './windows.ts';

const moved = (burst: Burst, by: number): Burst => burst.map(([freeMs, requests]) => [freeMs + by, requests]);

/** Moves all times of the state: a time that was a minute away stays a minute away. */
export function shift(state: State, byMs: number): State {
  const by = Math.ceil(byMs);
  return {
    ...state,
    atMs: state.atMs + by,
    flights: state.flights.map(one => ({ ...one, grantedMs: one.grantedMs + by, deadlineMs: one.deadlineMs + by })),
    spent: state.spent.map(([freeMs, ...amounts]): Spent => [freeMs + by, ...amounts]),
    burst: moved(state.burst, by),
    further: state.further.map(([ms, burst]) => [ms, moved(burst, by)]),
    waits: state.waits.map(one => ({ ...one, sinceMs: one.sinceMs + by, untilMs: one.untilMs + by })),
    source: state.source && {
      ...state.source,
      untilMs: state.source.untilMs + by,
      sinceMs: state.source.sinceMs + by,
      resetFromMs: state.source.resetFromMs + by,
      resetToMs: state.source.resetToMs + by,
    },
    slidingUntilMs: state.slidingUntilMs + by,
    others: state.others.map(([untilMs, credits]) => [untilMs + by, credits]),
    frozenUntilMs: state.frozenUntilMs + by,
    lastReplyMs: state.lastReplyMs + by,
    answeredMs: state.answeredMs + by,
    lastGrantMs: state.lastGrantMs + by,
    evenMs: state.evenMs + by,
    ...shiftClocks(state, by),
  };
}
