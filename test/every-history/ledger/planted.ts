/** Mistakes that are easily made in the budget, and the smallest world that finds each. */
import type { Replacement } from '../planted.ts';

export interface Planted {
  readonly mistakes: readonly Replacement[];
  /** The world that finds it after the fewest states. */
  readonly foundIn: string;
}

const ledger = (from: string, to: string): readonly Replacement[] => [
  { file: 'src/engine/budget/ledger.ts', from, to },
];
const limits = (from: string, to: string): readonly Replacement[] => [
  { file: 'src/engine/budget/source-limits.ts', from, to },
];

export const plantedInLedger: Readonly<Record<string, Planted>> = {
  'a reply does not end its flight': {
    mistakes: ledger('flights: state.flights.filter(one => one !== flight),', 'flights: state.flights,'),
    foundIn: '',
  },
  'a credit is free a period after the request': {
    mistakes: ledger(
      'addSpent(state.spent, repliedMs + rules.periodMs',
      'addSpent(state.spent, flight.grantedMs + rules.periodMs',
    ),
    foundIn: '',
  },
  'a credit is free a millisecond early': {
    mistakes: ledger('Math.floor(now.latestMs) + 1;', 'Math.floor(now.latestMs);'),
    foundIn: '',
  },
  'a reply is stamped with the earliest time that it may be': {
    mistakes: ledger('Math.floor(now.latestMs) + 1;', 'Math.floor(now.earliestMs) + 1;'),
    foundIn: '',
  },
  'what has expired is judged by the latest time that it may be': {
    mistakes: ledger(
      'const state = advance(before, now, rules);\n  const nowMs = Math.floor(now.earliestMs);',
      'const state = advance(before, now, rules);\n  const nowMs = Math.floor(now.latestMs);',
    ),
    foundIn: '',
  },
  'a request in flight holds nothing': {
    mistakes: ledger('for (const flight of state.flights) held[lanes', 'for (const flight of []) held[lanes'),
    foundIn: '',
  },
  'what a dead process held comes back at its deadline': {
    mistakes: ledger('flight.deadlineMs + rules.periodMs > nowMs', 'flight.deadlineMs > nowMs'),
    foundIn: '',
  },
  'what a dead process held never comes back': {
    mistakes: ledger(
      'flights: state.flights.filter(flight => flight.deadlineMs + rules.periodMs > nowMs),',
      'flights: state.flights,',
    ),
    foundIn: '',
  },
  'the mark of a dead process stays': {
    mistakes: ledger('waits: state.waits.filter(wait => wait.untilMs > nowMs),', 'waits: state.waits,'),
    foundIn: '',
  },
  'a grant that is given back stays granted': {
    mistakes: ledger('flights: state.flights.filter(flight => flight.id !== id)', 'flights: state.flights'),
    foundIn: '',
  },
  'a limit in a header raises ours': {
    mistakes: ledger('Math.min(rules.credits, state.limit ?? rules.credits)', 'state.limit ?? rules.credits'),
    foundIn: '',
  },
  'a header that says less was used is believed': {
    mistakes: ledger('Math.max(flight.cost, headers.used ?? 0)', 'headers.used ?? flight.cost'),
    foundIn: '',
  },
  'the reserve is spent': {
    mistakes: ledger('limitOf(state, rules) - rules.reserve - othersOf', 'limitOf(state, rules) - othersOf'),
    foundIn: '',
  },
  'Remaining is spent once more by each request in flight': {
    mistakes: ledger(
      'need + sum(state.flights.map(flight => flight.cost)) - source.remaining',
      'need - source.remaining',
    ),
    foundIn: '',
  },
  'a later and higher Remaining is believed within a window': {
    mistakes: limits('Math.min(said.remaining, source.remaining)', 'said.remaining'),
    foundIn: '',
  },
  'a late reply of the window before is believed': {
    mistakes: limits('if (said.resetToMs < source.resetFromMs) return state;', ''),
    foundIn: '',
  },
  'a window ends a second early': {
    mistakes: limits('untilMs: repliedMs + resetMs,', 'untilMs: repliedMs + resetMs - 2 * secondMs,'),
    foundIn: '',
  },
  'a negative Remaining is believed': {
    mistakes: limits('Number.isFinite(value) && value >= 0', 'Number.isFinite(value)'),
    foundIn: '',
  },
  'after a refusal the silence lacks its second': {
    mistakes: limits('longestFreezeMs) + secondMs;', 'longestFreezeMs);'),
    foundIn: '',
  },
  'a shorter refusal shortens the silence': {
    mistakes: ledger(
      '? Math.max(state.frozenUntilMs, repliedMs + freezeMs(state, repliedMs, { ...reply, headers }, rules))',
      '? repliedMs + freezeMs(state, repliedMs, { ...reply, headers }, rules)',
    ),
    foundIn: '',
  },
  'requests fly together where others may be': {
    mistakes: ledger('const alone = others === 0 &&', 'const alone = others === 0 ||'),
    foundIn: '',
  },
  'our own use is taken for that of others': {
    mistakes: ledger(
      'const headers: RateHeaders = isLate ? withoutRemaining : said;',
      'const headers: RateHeaders = said;',
    ),
    foundIn: '',
  },
  'one request more a second': {
    mistakes: ledger(
      'burstFreeAtMs(state, nowMs, requests - rules.requestsPerSecond)',
      'burstFreeAtMs(state, nowMs, requests - rules.requestsPerSecond - 1)',
    ),
    foundIn: '',
  },
  'when our clock is set back, spent credits are forgotten there': {
    mistakes: ledger(
      'spent: state.spent.map(([freeMs, ...amounts]): Spent => [freeMs + by, ...amounts]),',
      'spent: state.spent,',
    ),
    foundIn: '',
  },
  'when our clock is set back, the silence lasts an hour more': {
    mistakes: ledger('frozenUntilMs: state.frozenUntilMs + by,', 'frozenUntilMs: state.frozenUntilMs,'),
    foundIn: '',
  },
  'the last to come is the first to go': {
    mistakes: ledger('a.sinceMs - b.sinceMs || (a.id', 'b.sinceMs - a.sinceMs || (a.id'),
    foundIn: '',
  },
  'backfill goes as fast as it can': {
    mistakes: ledger('} else if (isSlow(me.lane) && slowHeld(held) >= allowed / 10)', '} else if (false)'),
    foundIn: '',
  },
  'a person lifts a brief pause, too': {
    mistakes: ledger('state.frozenUntilMs <= now.earliestMs + briefMs', 'state.frozenUntilMs <= now.earliestMs'),
    foundIn: '',
  },
};
