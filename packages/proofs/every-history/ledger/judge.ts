/**
 * The judge: it says what is wrong with one step or one state, by what SPEC.md promises of the budget (I4, I5, I7, I17). What
 * the server has counted and what is on its way it knows from the model. Of the ledger it reads one field, which tells how
 * long a quota that is used up stops us. All else it asks: the ledger is pure, so asking what it would grant, now or later,
 * changes nothing.
 */
import type { Acquired, Ask, Lane, Moment, RateHeaders, Settled, State } from '../../../../src/engine/budget/ledger.ts';
import { type Answer, inPeriod, leastWindow, sumOf, type Use, windowsOf } from './server.ts';
import { type Hold, isSlow, longestWaitMs, momentOf, type Now } from './state.ts';
import type { Ledger } from './steps.ts';
import type { Words, World } from './worlds.ts';

const order: readonly Lane[] = ['interactive', 'fresh', 'backfill', 'sweep'];
/** The longest time until a waiting process asks again, and for an even pace. */
const patienceMs = 5000;
const unmarkedMs = 3000;
/** What an even pace may make up for. */
const catchUpMs = 3500;
/** No answer, however wrong, stops us for longer. */
const longestFreezeMs = 3_600_000;
/** Others are remembered for so many periods. */
const memoryPeriods = 5;
/** Headers are whole seconds, and come late. */
const headersMs = 2000;

const isTruthful = ({ words }: World) => words.every(one => one === 'truth' || one === 'none');
const isAlone = (world: World) => !world.others;

// ---- what is true ----

/** Granted, and not yet counted: each of them may be counted at any moment. */
function onTheirWay(state: Now): number {
  const flying = state.processes.filter(({ doing }) => doing.is === 'flying' && !doing.answer);
  return sumOf(flying) + sumOf(state.orphans.filter(one => one.untilMs >= state.nowMs));
}

/** All credits that a period may give us. At least one request goes, however low the limit is said to be. */
function allowance(world: World, state: Now, cost = 1): number {
  return Math.max(Math.min(world.rules.credits, state.limit ?? world.rules.credits) - world.rules.reserve, cost);
}

/** The most that may be granted now, by what the server has counted and may still count. */
function mostNow(world: World, state: Now, cost = 1): number {
  const ours = inPeriod(state.uses, state.nowMs, world.rules.periodMs).filter(use => use.ours);
  const flying = state.processes.filter(({ doing }) => doing.is === 'flying' && !doing.answer).length;
  const counted = (ms: number) => ours.filter(use => use.atMs > state.nowMs - ms).length;
  const windows = windowsOf(world.rules).map(({ ms, requests }) => requests - counted(ms));
  const slots = Math.min(...windows) - flying - state.orphans.length;
  const credits = allowance(world, state, cost) - sumOf(ours) - onTheirWay(state);
  // A word of the source binds until its window ends.
  const word =
    state.word && state.nowMs < state.word.endsMs ? state.word.left - world.rules.reserve - onTheirWay(state) : credits;
  return Math.max(0, Math.min(slots, credits, word));
}

// ---- one step ----

/** A request was granted. `before`: as the ledger was asked. */
export function grantWrong(world: World, ledger: Ledger, before: Now, after: Now, n: number): string | undefined {
  const { lane, cost } = before.processes[n]!;
  if (before.nowMs < before.silentMs)
    return `a request goes ${Math.round(before.silentMs - before.nowMs)} ms before the silence after a refusal ends`;
  const most = mostNow(world, before, cost);
  if (cost > most) return `a request of ${cost} is granted, where ${most} may still be counted`;
  const { doing } = after.processes[n]!;
  if (doing.is !== 'flying' || !knowsAlone(world, before) || before.marksMs > 0) return undefined;
  const since = before.processes[n]!.doing;
  // Where more wait than the limit lets go at once, the first one to ask when all is free may be any of them.
  const waiting = before.processes.filter(one => one.doing.is === 'waiting');
  if (waiting.length > leastWindow(world.rules) || sumOf(waiting) > allowance(world, before)) return undefined;
  for (const [i, other] of before.processes.entries()) {
    if (i === n || other.doing.is !== 'waiting' || since.is !== 'waiting' || other.doing.unmarked !== undefined)
      continue;
    const isAbove = order.indexOf(other.lane) < order.indexOf(lane);
    const isEarlier = other.lane === lane && !isSlow(lane) && other.doing.sinceMs < since.sinceMs;
    const hadItsShare =
      isSlow(lane) && before.holds.some(one => one.lane === lane && one.untilMs > before.nowMs + headersMs);
    if (!(isEarlier || (isAbove && hadItsShare))) continue;
    const wanted = { id: other.doing.id, lane: other.lane, cost: other.cost };
    if (!ledger.acquire(after.ledger, momentOf(world, after, i), wanted, world.rules).granted)
      return `process ${n + 1} goes before process ${i + 1}, which waits ahead of it`;
  }
  return undefined;
}

/** Alone on the account, and a reply of the last period says so: requests may fly together. */
const knowsAlone = (world: World, state: Now) =>
  isAlone(world) &&
  state.othersMs === 0 &&
  state.repliedMs > 0 &&
  state.nowMs - state.repliedMs < world.rules.periodMs - headersMs;

/** A request was not granted. */
export function toldWrong(
  world: World,
  ledger: Ledger,
  before: Now,
  done: Acquired & { granted: false },
  now: Moment,
  wanted: Ask,
): string | undefined {
  const { waitUntilMs, expected, tooLong, unmarked } = done;
  const waitMs = waitUntilMs - now.earliestMs;
  if (!(waitMs > -1) || !Number.isFinite(waitMs)) return `a wait of ${waitMs} ms is told`;
  if (tooLong) {
    if (waitMs <= (world.rules.longestWaitMs ?? Number.POSITIVE_INFINITY) - 1)
      return 'a wait that may be waited is refused';
    if (waitMs > world.rules.periodMs + world.rules.timeoutMs + 1) return `a wait of ${waitMs} ms is told`;
  } else if (waitMs > (unmarked === undefined ? patienceMs : unmarkedMs) + 1) {
    return `a process is to sleep ${waitMs} ms, and may oversleep`;
  }
  if (!(expected.untilMs - now.earliestMs > -1) || !Number.isFinite(expected.untilMs))
    return `it is told to take until ${expected.untilMs}`;
  const mayReply = before.processes.some(({ doing }) => doing.is === 'flying') || before.unseen.length > 0;
  if (!mayReply) {
    if (expected.awaits === 'reply') return 'a process waits for a reply, and no living process hears one';
    const early = tooEarly(world, ledger, before, done, now, wanted);
    if (early) return early;
  }
  return unmarked === undefined && !tooLong ? unmarkedWrong(world, ledger, before, done, now, wanted) : undefined;
}

/** Nobody else waits, and nothing is in flight that somebody hears of: whoever is told a time goes at that time. */
function tooEarly(
  { rules }: World,
  ledger: Ledger,
  before: Now,
  { state, waitUntilMs }: Acquired & { granted: false },
  now: Moment,
  wanted: Ask,
): string | undefined {
  const waiting = before.processes.filter(({ doing }) => doing.is === 'waiting').length;
  const waitMs = waitUntilMs - now.earliestMs;
  if (waiting > 1 || before.marksMs > 0 || waitMs > patienceMs - 2) return undefined;
  const then = { earliestMs: waitUntilMs, latestMs: waitUntilMs + now.latestMs - now.earliestMs };
  return ledger.acquire(state, then, wanted, rules).granted
    ? undefined
    : `a process is told to wait ${Math.round(waitMs)} ms, and waits longer, though nothing happens`;
}

/**
 * Whoever waits has left a mark: at the time when it asks again and is served, nobody who comes later is served instead. Where
 * not all have room who wait, any of them may be the first when all is free.
 */
function unmarkedWrong(
  world: World,
  ledger: Ledger,
  before: Now,
  { state, waitUntilMs }: Acquired & { granted: false },
  now: Moment,
  wanted: Ask,
): string | undefined {
  const { rules } = world;
  const waiting = before.processes.filter(({ doing }) => doing.is === 'waiting');
  const isFull = sumOf(waiting) + 1 > allowance(world, before) || waiting.length + 1 > leastWindow(rules);
  if (isSlow(wanted.lane) || isFull || before.marksMs > 0 || before.othersMs > 0) return undefined;
  const then = { earliestMs: waitUntilMs, latestMs: waitUntilMs + now.latestMs - now.earliestMs };
  const later = ledger.acquire(state, then, { id: 'later', lane: wanted.lane, cost: 1 }, rules);
  if (!later.granted || !ledger.acquire(state, then, wanted, rules).granted) return undefined;
  const answered = ledger.settle(later.state, then, 'later', { headers: {}, refused: false }, rules).state;
  return ledger.acquire(answered, then, wanted, rules).granted
    ? undefined
    : 'a waiting process leaves no mark: one that comes later is served instead';
}

/** The server refused a request of ours: only others explain that. */
export function refusedWrong(world: World, state: Now, said: Answer, uses: readonly Use[]): string | undefined {
  const { periodMs, credits, reserve } = { ...world.rules };
  const ours = inPeriod(uses, state.nowMs, periodMs).filter(use => use.ours);
  const total = sumOf(ours);
  if (total > Math.max(credits - reserve, 2)) return `the server counts ${total} of ours in one period`;
  for (const { ms, requests } of windowsOf(world.rules)) {
    const counted = ours.filter(use => use.atMs > state.nowMs - ms).length;
    if (counted > requests) return `the server counts ${counted} of ours in ${ms} ms`;
  }
  // Before a reply has told a lower limit, nobody can know it.
  const isTold =
    world.serverCredits === undefined ||
    (state.toldMs > 0 && state.nowMs - state.toldMs > periodMs + world.rules.timeoutMs + 2000);
  if (said.refused && isAlone(world) && isTold) return 'a request is refused, and nobody else is there';
  return undefined;
}

interface SettledStep {
  readonly before: Now;
  readonly after: Now;
  readonly n: number;
  readonly done: { readonly state: State; readonly settled: Settled | null };
  readonly headers: RateHeaders;
  readonly refused: boolean;
  readonly said: Answer | undefined;
  readonly words: Words | undefined;
  /** It may be booked later. */
  readonly heardMs: number;
}

/** A reply was booked: what it adds to its minute is what happened, and it is booked once. */
export function settledWrong(world: World, ledger: Ledger, step: SettledStep): string | undefined {
  const { before, after, n, done, headers, refused } = step;
  const { lane, cost, doing } = before.processes[n]!;
  if (doing.is !== 'flying') return undefined;
  const { settled } = done;
  const isLate = before.nowMs >= doing.deadlineMs + world.rules.periodMs - 1;
  if (!settled) return isLate ? undefined : 'a reply is not booked';
  const errorMs = 2 * (world.clockErrorMs ?? 0) + 2;
  const used = Number.isFinite(headers.used) ? headers.used! : 0;
  const paid = refused ? used : Math.max(cost, used);
  if (settled.cost !== paid) return `${settled.cost} are booked for a request of ${paid}`;
  if (settled.lane !== lane || settled.refused !== refused) return 'the reply of another request is booked';
  if (world.setBacks === undefined) {
    if (!(Math.abs(settled.waitedMs - doing.waitedMs) <= errorMs))
      return `a wait of ${settled.waitedMs} ms is booked, not ${doing.waitedMs}`;
    const tookMs = step.heardMs - doing.grantedMs;
    if (!(Math.abs(settled.tookMs - tookMs) <= errorMs))
      return `a request is booked with ${settled.tookMs} ms, not ${Math.round(tookMs)}`;
    if (!(Math.abs(settled.atMs - step.heardMs + before.backMs) <= errorMs))
      return 'a request is booked in another minute';
  }
  const limit = Math.min(world.rules.credits, after.limit ?? world.rules.credits);
  if (settled.limit !== limit) return `a limit of ${settled.limit} is booked, not ${limit}`;
  const others = othersWrong(world, step, settled);
  if (others) return others;
  const now = momentOf(world, after);
  const frozen = world.refusal === 'spent' && refused ? spentWrong(world, before, done.state.frozenUntilMs) : undefined;
  if (frozen) return frozen;
  const again = ledger.settle(done.state, now, doing.id, { headers: { remaining: 0 }, refused: true }, world.rules);
  return again.settled ? 'one reply is booked twice' : undefined;
}

/** A quota is used up: an hour of silence, or until the oldest request that was answered is a period old; a period at most. */
function spentWrong(world: World, before: Now, untilMs: number): string | undefined {
  const { periodMs } = world.rules;
  const silentMs = untilMs + before.backMs - before.nowMs;
  const answered = before.holds.filter(one => !one.refused && one.untilMs > before.nowMs);
  const oldestMs = Math.min(...answered.map(one => one.untilMs)) - before.nowMs;
  const most = Math.min(Math.max(Number.isFinite(oldestMs) ? oldestMs : 0, longestFreezeMs), periodMs);
  if (Math.abs(silentMs - most) < 10 || world.deaths) return undefined;
  return `a quota that is used up stops us for ${Math.round(silentMs / 1000)} s, not ${Math.round(most / 1000)}`;
}

/** Others are never suspected of more than they used; and seen, where nothing of ours hides them. */
function othersWrong(
  world: World,
  { before, said, words, refused, n }: SettledStep,
  settled: Settled,
): string | undefined {
  if (words !== 'truth' && !(words === 'none' && refused)) return undefined;
  if (world.refusal || !said) return undefined;
  const most = Math.max(said.others, refused ? 1 : 0);
  if (settled.others > most) return `others are taken to use ${settled.others}, and use ${said.others}`;
  const isClean =
    said.clean &&
    before.holds.length === 0 &&
    before.processes.every(({ doing }, i) => i === n || doing.is !== 'flying');
  // What a refusal costs is unknown, and is held.
  if (words === 'truth' && !refused && isClean && before.orphans.length === 0 && settled.others < said.others)
    return `others use ${said.others}, and ${settled.others} are seen`;
  return undefined;
}

// ---- one state ----

/** Grants one credit after the other, as long as the ledger gives. `answered`: each is answered before the next. */
function drain(world: World, ledger: Ledger, state: State, now: Moment, lane: Lane, answered: boolean): number {
  for (let granted = 0, left = state; ; granted++) {
    const id = `drain ${granted}`;
    const done = ledger.acquire(left, now, { id, lane, cost: 1 }, world.rules);
    if (!done.granted || granted > 30) return granted;
    left = done.state;
    if (answered) left = ledger.settle(left, now, id, { headers: {}, refused: false }, world.rules).state;
  }
}

export function stateWrong(world: World, ledger: Ledger, state: Now): string | undefined {
  return (
    tooMuch(world, ledger, state) ??
    tooLittle(world, ledger, state) ??
    lostForEver(world, ledger, state) ??
    waitsTooLong(world, state)
  );
}

/** Not a credit more than may be counted, whoever asks. */
function tooMuch(world: World, ledger: Ledger, state: Now): string | undefined {
  const now = momentOf(world, state);
  const most = state.nowMs < state.silentMs ? 0 : mostNow(world, state);
  for (const answered of [false, true]) {
    const granted = drain(world, ledger, state.ledger, now, 'interactive', answered);
    if (granted > most) return `${granted} more would be granted now, where ${most} may still be counted`;
    // Where others are, or nothing is known of them, requests go one by one.
    if (!answered && granted > 1 && state.backMs === 0 && !knowsAloneAt(world, state))
      return `${granted} would fly together, and others may be there`;
    if (answered && state.othersMs > state.nowMs + 10 && granted > evenly(world))
      return `${granted} would go at once, and others are there`;
  }
  if (world.rules.evenly === false) {
    const slow =
      drain(world, ledger, state.ledger, now, 'backfill', true) +
      sumOf(state.holds.filter(one => isSlow(one.lane) && one.untilMs > state.nowMs + 2));
    const tenth = Math.floor(world.rules.credits / 10);
    if (slow > world.rules.credits - tenth) return 'backfill leaves no tenth';
  } else if (drain(world, ledger, state.ledger, now, 'backfill', true) > evenly(world) + 1)
    return 'backfill keeps no even pace';
  return undefined;
}

const evenly = ({ rules }: World) => 1 + Math.floor(catchUpMs / (rules.periodMs / (rules.credits - rules.reserve)));

const knowsAloneAt = (world: World, { othersMs, repliedMs, nowMs }: Now) =>
  othersMs <= nowMs + 10 && repliedMs > 0 && nowMs - repliedMs < world.rules.periodMs + 2 + (world.clockErrorMs ?? 0);

/** Alone, with headers that are true: a credit that is free is granted. */
function tooLittle(world: World, ledger: Ledger, state: Now): string | undefined {
  if (
    !isAlone(world) ||
    !isTruthful(world) ||
    world.setBacks ||
    state.processes.some(({ doing }) => doing.is !== 'idle')
  )
    return undefined;
  if (
    state.silentMs > 0 ||
    state.othersMs > 0 ||
    state.marksMs > 0 ||
    state.holds.some(one => one.untilMs - world.rules.periodMs > state.nowMs)
  )
    return undefined;
  // Of a request that was never answered, the words of others do not say whether it is in them.
  if (world.words.includes('truth') && state.holds.some(one => one.unsure)) return undefined;
  const slackMs =
    2 + 2 * (world.clockErrorMs ?? 0) + (world.words.includes('truth') ? world.rules.timeoutMs + headersMs : 0);
  const held = (one: Hold) => one.untilMs + slackMs > state.nowMs;
  const inWindow = (ms: number) =>
    state.holds.filter(one => one.burstMs - 1000 + ms + 2 > state.nowMs - 2 * (world.clockErrorMs ?? 0)).length;
  const least = Math.min(
    allowance(world, state) - sumOf(state.holds.filter(held)),
    ...windowsOf(world.rules).map(({ ms, requests }) => requests - inWindow(ms)),
  );
  const granted = drain(world, ledger, state.ledger, momentOf(world, state), 'interactive', true);
  if (granted < least) return `${granted} are granted now, where ${least} are free`;
  return undefined;
}

/** If nothing more happens, everything comes back, whatever was said or died. */
function lostForEver(world: World, ledger: Ledger, state: Now): string | undefined {
  const { periodMs, timeoutMs } = world.rules;
  const errorMs = 2 * (world.clockErrorMs ?? 0);
  const quietMs =
    isAlone(world) && isTruthful(world) && state.silentMs === 0 && state.othersMs === 0 && !world.setBacks;
  const bounded = quietMs
    ? periodMs + 2 * timeoutMs + headersMs + 3000 + errorMs + (world.late ? periodMs + world.tickMs : 0)
    : (memoryPeriods + 2) * periodMs +
      Math.max(periodMs, longestFreezeMs) * (world.words.includes('odd') || world.refusal ? 1 : 0) +
      2 * timeoutMs +
      10_000;
  // A process looks, so that the ledger knows of a clock that was set back.
  const looked = world.setBacks ? ledger.cancel(state.ledger, momentOf(world, state), '', world.rules) : state.ledger;
  const later = momentOf(world, { nowMs: state.nowMs + bounded, backMs: state.backMs });
  const most = Math.min(allowance(world, state), leastWindow(world.rules));
  const slow = world.processes.some(({ lane }) => isSlow(lane))
    ? slowLater(world, ledger, looked, later, most)
    : undefined;
  if (slow) return slow;
  const granted = drain(world, ledger, looked, later, 'interactive', true);
  if (granted !== most)
    return `${Math.round(bounded / 1000)} s after the last that happens ${granted} come back, of ${most}`;
  return undefined;
}

/** Backfill, when all is free: it uses what it may, and spreads it over a period. */
function slowLater(world: World, ledger: Ledger, state: State, later: Moment, most: number): string | undefined {
  const { periodMs } = world.rules;
  if (world.rules.evenly === false) {
    const granted = drain(world, ledger, state, later, 'backfill', true);
    const tenth = most - Math.floor(world.rules.credits / 10);
    return granted === tenth ? undefined : `backfill gets ${granted} of ${most} that are free, and not ${tenth}`;
  }
  let left = state;
  let atMs = 0;
  const times: number[] = [];
  for (let n = 0; times.length <= most && atMs < periodMs - 10; n++) {
    const now = { earliestMs: later.earliestMs + atMs, latestMs: later.latestMs + atMs };
    const id = `pace ${times.length}`;
    const done = ledger.acquire(left, now, { id, lane: 'backfill', cost: 1 }, world.rules);
    left = done.state;
    if (done.granted) {
      times.push(atMs);
      left = ledger.settle(left, now, id, { headers: {}, refused: false }, world.rules).state;
    } else atMs += Math.max(1, done.waitUntilMs - now.earliestMs);
    if (n > 1000) return 'backfill asks without end';
  }
  if (times.length !== most) return `backfill gets ${times.length} of ${most} in a period`;
  const gaps = times.slice(1).map((ms, n) => ms - times[n]!);
  // The first one is its tenth.
  const even = periodMs / most;
  const early =
    gaps.slice(1).some(ms => ms < even - catchUpMs - 1) || times.at(-1)! < periodMs - 2 * even - catchUpMs - 1;
  return early ? `backfill spends a period's credits at ${times.map(Math.round).join(', ')} ms` : undefined;
}

/** I7: alone, a request waits a bounded time, in any lane. */
function waitsTooLong(world: World, state: Now): string | undefined {
  if (!isAlone(world) || !isTruthful(world) || world.setBacks || world.serverCredits || state.silentMs > 0)
    return undefined;
  for (const [n, { lane, doing }] of state.processes.entries()) {
    if (doing.is !== 'waiting') continue;
    const waitedMs = state.nowMs - doing.sinceMs;
    if (waitedMs > longestWaitMs(world, lane))
      return `process ${n + 1} has waited ${Math.round(waitedMs)} ms in lane ${lane}`;
  }
  return undefined;
}
