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

const windows = (from: string, to: string): readonly Replacement[] => [
  { file: 'src/engine/budget/windows.ts', from, to },
];

const setBack = (from: string, to: string): readonly Replacement[] => [
  { file: 'src/engine/budget/set-back.ts', from, to },
];

export const plantedInLedger: Readonly<Record<string, Planted>> = {
  'a reply does not end its flight': {
    mistakes: ledger('flights: state.flights.filter(one => one !== flight),', 'flights: state.flights,'),
    foundIn: 'two processes',
  },
  'a credit is free a period after the request': {
    mistakes: ledger(
      'addSpent(state.spent, freedAtMs(repliedMs, rules)',
      'addSpent(state.spent, freedAtMs(flight.grantedMs, rules)',
    ),
    foundIn: 'a lower limit than ours',
  },
  'a reply counts from its booking': {
    mistakes: ledger('< flight.grantedMs ? now : heard;', '< flight.grantedMs ? now : now;'),
    foundIn: 'replies that are booked later, a sliding window',
  },
  'a reply counts from a time to come': {
    mistakes: ledger('heard.latestMs > now.latestMs || heard', 'heard'),
    foundIn: 'replies that are booked later, clocks that are off, and one that is set back',
  },
  'a reply counts from before its grant': {
    mistakes: ledger(' || heard.latestMs < flight.grantedMs', ''),
    foundIn: 'replies that are booked later, clocks that are off, and one that is set back',
  },
  'nobody waits for a reply that tells of others': {
    mistakes: ledger('othersOf(after) > 0 || !isAlone', '!isAlone'),
    foundIn: 'replies that are booked later, and another client',
  },
  'nobody waits for the first reply': {
    mistakes: ledger('|| !isAlone(state, at.earliestMs, rules);', ';'),
    foundIn: 'two processes',
  },
  'a credit is free a millisecond early': {
    mistakes: ledger('Math.floor(at.latestMs) + 1;', 'Math.floor(at.latestMs);'),
    foundIn: 'requests a second',
  },
  'a reply is stamped with the earliest time that it may be': {
    mistakes: ledger('Math.floor(at.latestMs) + 1;', 'Math.floor(at.earliestMs) + 1;'),
    foundIn: 'a reserve, and clocks that are off',
  },
  'what has expired is judged by the latest time that it may be': {
    mistakes: ledger(
      'const state = advance(before, now, rules);\n  const nowMs = Math.floor(now.earliestMs);',
      'const state = advance(before, now, rules);\n  const nowMs = Math.floor(now.latestMs);',
    ),
    foundIn: 'a reserve, and clocks that are off',
  },
  'a request in flight holds nothing': {
    mistakes: ledger('for (const flight of state.flights) held[lanes', 'for (const flight of []) held[lanes'),
    foundIn: 'no headers',
  },
  'what a dead process held comes back at its deadline': {
    mistakes: ledger('freedAtMs(flight.deadlineMs, rules) > nowMs', 'flight.deadlineMs > nowMs'),
    foundIn: 'late replies',
  },
  'what a dead process held never comes back': {
    mistakes: ledger(
      'flights: state.flights.filter(flight => freedAtMs(flight.deadlineMs, rules) > nowMs),',
      'flights: state.flights,',
    ),
    foundIn: 'two processes',
  },
  'the reply to a request of a dead process is awaited': {
    mistakes: ledger('flight.deadlineMs > nowMs && flight.orphaned === undefined', 'flight.deadlineMs > nowMs'),
    foundIn: 'another client, and processes that die or are cut off, a fixed window',
  },
  'a request of a dead process holds nothing': {
    mistakes: ledger(
      'state.flights.map(one => (isDead(one) ? { ...one, orphaned: true } : one))',
      'state.flights.filter(one => !isDead(one))',
    ),
    foundIn: 'two processes, a fixed window',
  },
  'a request of a dead process is in what the source says is left': {
    mistakes: ledger(
      'need + sum(state.flights.map(flight => flight.cost))',
      'need + sum(state.flights.filter(one => !one.orphaned).map(flight => flight.cost))',
    ),
    foundIn: 'a process that died, and another client whom nobody has seen',
  },
  'a request of a dead process holds its slot of the second no longer': {
    mistakes: ledger(
      'flight.orphaned ? flight.deadlineMs : Math.min(flight.deadlineMs, nowMs)',
      'flight.orphaned ? nowMs - secondMs : nowMs',
    ),
    foundIn: 'requests a second',
  },
  'the mark of a dead process stays': {
    mistakes: ledger('waits: state.waits.filter(wait => wait.untilMs > nowMs),', 'waits: state.waits,'),
    foundIn: 'a lower limit than ours',
  },
  'a grant that is given back stays granted': {
    mistakes: ledger('flights: state.flights.filter(flight => flight.id !== id)', 'flights: state.flights'),
    foundIn: 'no headers',
  },
  'a limit in a header raises ours': {
    mistakes: ledger('Math.min(rules.credits, state.limit ?? rules.credits)', 'state.limit ?? rules.credits'),
    foundIn: 'lies',
  },
  'a header that says less was used is believed': {
    mistakes: ledger('Math.max(flight.cost, headers.used ?? 0)', 'headers.used ?? flight.cost'),
    foundIn: 'lies',
  },
  'the reserve is spent': {
    mistakes: ledger('limitOf(state, rules) - rules.reserve - othersOf', 'limitOf(state, rules) - othersOf'),
    foundIn: 'a reserve, and clocks that are off',
  },
  'a later and higher Remaining is believed within a window': {
    mistakes: limits('Math.min(said.remaining, source.remaining)', 'said.remaining'),
    foundIn: 'another client, and a reply of the window before',
  },
  'a late reply of the window before is believed': {
    mistakes: limits('if (said.resetToMs < source.resetFromMs) return state;', ''),
    foundIn: 'another client, and a reply of the window before',
  },
  'a negative number in a header is believed': {
    mistakes: limits('Number.isFinite(value) && value >= 0', 'Number.isFinite(value)'),
    foundIn: 'lies',
  },
  'after a refusal the silence lacks its second': {
    mistakes: limits('longestFreezeMs) + secondMs;', 'longestFreezeMs);'),
    foundIn: 'after a refusal, a sliding window',
  },
  'requests fly together where others may be': {
    mistakes: ledger('othersOf(state) === 0 && nowMs', 'othersOf(state) === 0 || nowMs'),
    foundIn: 'two processes',
  },
  'our own use is taken for that of others': {
    mistakes: ledger('const isLate = flight.deadlineMs <= Math.floor(now.earliestMs);', 'const isLate = false;'),
    foundIn: 'late replies',
  },
  'one request more a second': {
    mistakes: windows(
      '{ ms: secondMs, requests: requestsPerSecond }',
      '{ ms: secondMs, requests: requestsPerSecond + 1 }',
    ),
    foundIn: 'requests a second',
  },
  'a further limit is forgotten with the reply': {
    mistakes: windows('[ms, counted(ms, sumsPerWindow)]', '[ms, added([], repliedMs + ms, ms)]'),
    foundIn: 'requests in two times',
  },
  'when our clock is set back, spent credits are forgotten there': {
    mistakes: setBack(
      'spent: state.spent.map(([freeMs, ...amounts]): Spent => [freeMs + by, ...amounts]),',
      'spent: state.spent,',
    ),
    foundIn: 'a clock that is set back',
  },
  'when our clock is set back, the silence lasts an hour more': {
    mistakes: setBack('frozenUntilMs: state.frozenUntilMs + by,', 'frozenUntilMs: state.frozenUntilMs,'),
    foundIn: 'after a refusal, a fixed window',
  },
  'the last to come is the first to go': {
    mistakes: ledger('a.sinceMs - b.sinceMs || (a.id', 'b.sinceMs - a.sinceMs || (a.id'),
    foundIn: 'a lower limit than ours',
  },
  'backfill goes as fast as it can': {
    mistakes: ledger('} else if (isSlow(me.lane) && slowHeld(held) >= allowed / 10)', '} else if (false)'),
    foundIn: 'lanes',
  },
  'a person lifts a brief pause, too': {
    mistakes: ledger('state.frozenUntilMs <= now.earliestMs + briefMs', 'state.frozenUntilMs <= now.earliestMs'),
    foundIn: 'a pause that the source asks for',
  },
};
