/**
 * An account has a limit of credits a period and of requests a second, for all its clients together. The server counts
 * a request at an unknown moment between sending and reply, in windows of unknown kind and phase. So a slot is held
 * from the grant until a full period (or second) after the reply: then no window, fixed or sliding, can hold two of its
 * uses. (Freed after sending: 2,505 refusals in 20 modelled hours. Freed after the reply: none, at 99 % use.) The
 * headers of the source correct this downwards, never upwards.
 *
 * Pure: takes a state (small JSON, one per account), a moment and a request, and returns the next state. budget.ts does
 * the I/O. Times are whole milliseconds of the database's clock, known only as a range: `earliestMs` judges whether
 * something is free, `latestMs` stamps what happened. Every rounding is to our disadvantage.
 */

import { type Clocks, type ClocksTold, hearClocks } from './clocks.ts';
import { shift } from './set-back.ts';
import { addOthers, believe, countedFromMs, freezeMs, sane, secondMs } from './source-limits.ts';
import { type Burst, countIn, stillCounted, type Window, whenFreed, windowsFreeAtMs } from './windows.ts';

/** Most urgent first. */
export const lanes = ['interactive', 'fresh', 'backfill', 'sweep'] as const;
export type Lane = (typeof lanes)[number];

export interface Limits {
  credits: number;
  periodMs: number;
  /** Periods of the source begin at whole multiples of `periodMs` since 1970: days at midnight UTC. */
  aligned?: true;
  requestsPerSecond: number;
  /** Limits of requests in further times, each shorter than `periodMs`. */
  further?: readonly Window[];
  /** Credits of each period that are reserved for other tools of the account. */
  reserve: number;
  /**
   * Default true: backfills, and clients that share the account, spread their credits over the period. False for a
   * daily quota, over which no one could wait: a backfill then leaves a tenth to the other lanes, and a refusal says
   * nothing about other clients.
   */
  evenly?: boolean;
  /** Share of credits for sweeps while other work waits; default: a tenth. */
  sweepShare?: number;
}
export interface Rules extends Limits {
  timeoutMs: number;
  /** A request that would wait longer does not wait, and learns when the quota resets. */
  longestWaitMs?: number;
  /** A change of the source's clock beyond this counts as a move; undefined: not watched. */
  clockToleranceMs?: number;
}
export interface RateHeaders {
  limit?: number;
  remaining?: number;
  used?: number;
  resetSeconds?: number;
}
export interface Reply {
  headers: RateHeaders;
  refused: boolean;
  /** With a refusal: no request is sent for this time. */
  freezeMs?: number;
  /** With a refusal: the quota of the period is used up. */
  spent?: boolean;
  /** The `Date` of the reply, if the source itself answered. */
  dateMs?: number;
  /** With `dateMs`: the second newest stamp of the records. */
  stampMs?: number | undefined;
}
export interface Moment {
  earliestMs: number;
  latestMs: number;
}
interface Wanted {
  id: string;
  lane: Lane;
  cost: number;
}
export interface Ask extends Wanted {
  /** When the credits were first asked for, if no stored wait says so: see `Acquired`. */
  sinceMs?: number;
  /** The process that sends the request, if others can see whether it lives. */
  sender?: number;
}
/** A request in flight. Its sender may have died: at the deadline it counts as answered. */
interface Flight extends Wanted {
  grantedMs: number;
  deadlineMs: number;
  waitedMs: number;
  sender?: number;
  /** Its sender is dead: see `bury`. */
  orphaned?: true;
}
/** A waiting request. Each try renews the mark, and the mark expires by itself. */
interface Wait extends Wanted {
  sinceMs: number;
  untilMs: number;
}
/** Answered credits that are free again at `freeMs`, one number for each lane. */
export type Spent = [freeMs: number, interactive: number, fresh: number, backfill: number, sweep: number];
/** The last headers of the source. */
export interface Source {
  /**
   * The lowest Remaining in this period of the source. It falls with each counted request, so the lowest one is also
   * the newest.
   */
  remaining: number;
  /** `remaining` binds until then. */
  untilMs: number;
  /** When this reset was first reported. */
  sinceMs: number;
  /** The reset stood still for so long that the periods are fixed: a sliding one would have moved. */
  fixed: boolean;
  /** The count of the source resets between these two times. */
  resetFromMs: number;
  resetToMs: number;
}
export interface State extends Clocks {
  /** The earliest possible time of the last change. */
  atMs: number;
  flights: Flight[];
  spent: Spent[];
  burst: Burst;
  /** The same for each further window, by its length. */
  further: [windowMs: number, burst: Burst][];
  waits: Wait[];
  /** The last Rate-Limit-Limit. */
  limit: number | null;
  source: Source | null;
  /** Until then the source is taken to count in a sliding window, because its resets came less than a period apart. */
  slidingUntilMs: number;
  /** The most credits that other clients used, by period; forgotten at `untilMs`. */
  others: [untilMs: number, credits: number][];
  /** After a 429 no request is sent before this time. */
  frozenUntilMs: number;
  lastReplyMs: number;
  /** The last reply that was not a refusal. */
  answeredMs: number;
  lastGrantMs: number;
  lastGrantCost: number;
  /** At an even pace, the granted credits last until then. */
  evenMs: number;
}
/** What a settled request adds to its minute. */
export interface Settled extends ClocksTold {
  atMs: number;
  lane: Lane;
  cost: number;
  limit: number;
  others: number;
  waitedMs: number;
  tookMs: number;
  refused: boolean;
}

export const empty: State = {
  atMs: 0,
  flights: [],
  spent: [],
  burst: [],
  further: [],
  waits: [],
  limit: null,
  source: null,
  slidingUntilMs: 0,
  others: [],
  frozenUntilMs: 0,
  lastReplyMs: 0,
  answeredMs: 0,
  lastGrantMs: 0,
  lastGrantCost: 0,
  evenMs: 0,
  clock: null,
  records: null,
};

/**
 * Answered credits are kept in at most this many sums a period: at 60 s, 0.5 s each. A sum is free when its last part
 * is.
 */
const sumsPerPeriod = 120;
/** Waiting requests check again after this time at the latest, so the mark of a dead one blocks no one for long. */
const patienceMs = 5000;
const graceMs = 2000;
/** Polling interval while a reply may come at any moment. */
const pollMs = 200;
/** One statement lies between the decision and the sending. It delays the deadline of the request. */
const sendingMs = 1000;
/** Credits that were not granted for this long may be made up for immediately: replies and resets come late. */
const catchUpMs = 3500;

/**
 * Backfill and sweep wait this long before they store a mark: at an even pace each of their requests waits.
 */
const unmarkedMs = 3000;
/** A request may ask this early, because the time of the database is estimated: that is no second wait. */
const earlyMs = 20;

/** Credits that come back, or the reply to a request in flight. */
export type Awaited = 'credits' | 'reply';
/** `untilMs`: when it is expected; a reply comes by then. */
interface Expected {
  awaits: Awaited;
  untilMs: number;
}

/**
 * `tooLong`: the wait would be too long, and no mark is kept. `unmarked`: the state need not be written, and the next
 * call passes this as `sinceMs`.
 */
export type Acquired =
  | { state: State; granted: true }
  | { state: State; granted: false; waitUntilMs: number; expected: Expected; tooLong?: true; unmarked?: number };

/** Grants the credits, or says when to ask again (with the same id, which keeps the place in the queue). */
export function acquire(before: State, now: Moment, ask: Ask, rules: Rules): Acquired {
  const state = advance(before, now, rules);
  const nowMs = Math.floor(now.earliestMs);
  const sinceMs = state.waits.find(wait => wait.id === ask.id)?.sinceMs ?? ask.sinceMs ?? nowMs;
  const waits = state.waits.filter(wait => wait.id !== ask.id);
  const { freeMs, expected } = freeAtMs(state, nowMs, { ...ask, sinceMs, untilMs: 0 }, rules);
  if (freeMs <= nowMs) {
    const grantedMs = Math.ceil(now.latestMs);
    const deadlineMs = grantedMs + rules.timeoutMs + sendingMs;
    const { id, lane, cost, sender } = ask;
    const flight = { id, lane, cost, grantedMs: nowMs, deadlineMs, ...(sender !== undefined && { sender }) };
    const flights = [...state.flights, { ...flight, waitedMs: Math.max(0, nowMs - sinceMs) }];
    const lastsMs = (ask.cost * rules.periodMs) / allowedOf(state, ask.cost, rules);
    const evenMs = Math.max(state.evenMs, nowMs - catchUpMs) + lastsMs;
    const grant = { flights, waits, lastGrantMs: grantedMs, lastGrantCost: ask.cost, evenMs };
    return { state: { ...state, ...grant }, granted: true };
  }
  if (freeMs - nowMs > (rules.longestWaitMs ?? Number.POSITIVE_INFINITY)) {
    const waitUntilMs = Math.min(freeMs, nowMs + rules.periodMs + rules.timeoutMs);
    return { state: { ...state, waits }, granted: false, waitUntilMs, expected, tooLong: true };
  }
  // At an even pace nearly every request would write the state twice. Without a mark, a request that comes meanwhile
  // may go first.
  const isMarked = waits.length < state.waits.length;
  const isBrief =
    freeMs - nowMs <= (sinceMs === nowMs ? unmarkedMs : earlyMs) && freeMs - sinceMs <= unmarkedMs + earlyMs;
  if (isSlow(ask.lane) && !isMarked && isBrief)
    return { state: before, granted: false, waitUntilMs: freeMs, expected, unmarked: sinceMs };
  const waitUntilMs = Math.min(freeMs, nowMs + patienceMs);
  const mark = { id: ask.id, lane: ask.lane, cost: ask.cost, sinceMs, untilMs: waitUntilMs + graceMs };
  return { state: { ...state, waits: [...waits, mark] }, granted: false, waitUntilMs, expected };
}

/** `isAwaited`: another process may wait for this reply, or has to hear of it. */
export interface Landed {
  state: State;
  settled: Settled | null;
  isAwaited: boolean;
}

/**
 * Books the reply (or the time-out) of a granted request, now or after it was `heard`. An unknown id was settled before, and
 * changes nothing.
 */
export function settle(
  before: State,
  now: Moment,
  id: string,
  reply: Reply,
  rules: Rules,
  heard: Moment = now,
): Landed {
  const state = advance(before, now, rules);
  const flight = state.flights.find(one => one.id === id);
  if (!flight) return { state, settled: null, isAwaited: false };
  // Our clock was set back meanwhile: then a reply is heard in the future, or before its request was granted.
  const at = heard.latestMs > now.latestMs || heard.latestMs < flight.grantedMs ? now : heard;
  const said = sane(reply.headers);
  // Its process was suspended: what was held when the source counted is no longer known here, and the period may be over.
  const isLate = flight.deadlineMs <= Math.floor(now.earliestMs);
  const { remaining: _, ...withoutRemaining } = said;
  const headers: RateHeaders = isLate ? withoutRemaining : said;
  const cost = Math.max(flight.cost, headers.used ?? 0);
  const repliedMs = Math.floor(at.latestMs) + 1;
  const lastReplyMs = Math.max(state.lastReplyMs, repliedMs);
  const landed: State = {
    ...state,
    flights: state.flights.filter(one => one !== flight),
    spent: addSpent(state.spent, freedAtMs(repliedMs, rules), flight.lane, cost, rules.periodMs / sumsPerPeriod),
    ...countIn(state, repliedMs, rules),
    limit: headers.limit ?? state.limit,
    frozenUntilMs: reply.refused
      ? Math.max(state.frozenUntilMs, repliedMs + freezeMs(state, repliedMs, { ...reply, headers }, rules))
      : state.frozenUntilMs,
    lastReplyMs,
    answeredMs: reply.refused ? state.answeredMs : Math.max(state.answeredMs, repliedMs),
  };
  const told = believe(landed, headers, flight.grantedMs, repliedMs, cost, rules);
  // A late reply of the previous period has changed nothing, so the new period does not judge it.
  const heldAtMs = told === landed ? flight.grantedMs : countedFromMs(told, flight.grantedMs);
  const seen = isLate ? Number(reply.refused) : othersSeen(told, { headers, refused: reply.refused }, heldAtMs, rules);
  const others = isEven(rules) ? seen : 0;
  const { dateMs, stampMs } = reply;
  const clocks = hearClocks(state, { dateMs, stampMs, grantedMs: flight.grantedMs, repliedMs }, rules.clockToleranceMs);
  const settled: Settled = {
    atMs: Math.floor(at.earliestMs),
    lane: flight.lane,
    // Whether a refusal costs credits is unknown. It is held as if it did, and shown as if it did not.
    cost: reply.refused ? (headers.used ?? 0) : cost,
    limit: limitOf(landed, rules),
    others,
    waitedMs: flight.waitedMs,
    tookMs: Math.max(0, repliedMs - flight.grantedMs),
    refused: reply.refused,
    ...clocks.told,
  };
  const after = { ...told, others: addOthers(told.others, lastReplyMs, others, rules.periodMs), ...clocks.clocks };
  const tellsOfClock = clocks.told.clock !== undefined && !clocks.told.clock.steady;
  // Until they hear of it, others would grant more than the source allows.
  const leavesLess = cost > flight.cost || limitOf(after, rules) < limitOf(state, rules);
  const isNews = reply.refused || tellsOfClock || leavesLess;
  const isAwaited = isNews || othersOf(after) > 0 || !isAlone(state, at.earliestMs, rules);
  return { state: after, settled, isAwaited };
}

/** Takes back a grant whose request was never sent. */
export function cancel(before: State, now: Moment, id: string, rules: Rules): State {
  const state = advance(before, now, rules);
  return { ...state, flights: state.flights.filter(flight => flight.id !== id) };
}

/**
 * These senders are dead: nobody books the replies to their requests, so nobody waits for them. The source may count such a
 * request until its deadline, so it holds its credits and its slot as before. A sender that was only cut off from the
 * database books its reply later, as any other.
 */
export function bury(before: State, now: Moment, dead: readonly number[], rules: Rules): State {
  const state = advance(before, now, rules);
  const isDead = ({ sender }: Flight) => sender !== undefined && dead.includes(sender);
  return { ...state, flights: state.flights.map(one => (isDead(one) ? { ...one, orphaned: true } : one)) };
}

/** A reply rarely takes longer. */
const usualReplyMs = 1000;

/** The senders of requests that have been in flight for unusually long: each may be dead. */
export function overdueSenders(state: State, now: Moment): number[] {
  const sentMs = now.earliestMs - usualReplyMs;
  const overdue = state.flights.filter(one => isOpen(one, now.earliestMs) && one.grantedMs <= sentMs);
  return [...new Set(overdue.flatMap(({ sender }) => sender ?? []))];
}

/** A shorter freeze is a pause that the source asked for, not a spent daily quota. */
const briefMs = 60_000;

/** A person asks by hand: lifts the freeze. Until the next reply, one request goes at a time. */
export function thaw(before: State, now: Moment, rules: Rules): State {
  const state = advance(before, now, rules);
  // A brief pause stays. Without a freeze, a request in flight would block all others.
  if (state.frozenUntilMs <= now.earliestMs + briefMs) return state;
  return { ...state, frozenUntilMs: 0, lastReplyMs: 0 };
}

// ---- when a request may go ----

/** A reply may come: its sender lives, as far as is known, and has not given up. */
const isOpen = (flight: Flight, nowMs: number): boolean => flight.deadlineMs > nowMs && flight.orphaned === undefined;

/** `freeMs`: the earliest time at which every limit may allow the request; not later than now: it may go. */
function freeAtMs(state: State, nowMs: number, me: Wait, rules: Rules): { freeMs: number; expected: Expected } {
  const others = othersOf(state);
  const allowed = allowedOf(state, me.cost, rules);
  const held = heldByLane(state, nowMs);
  // Requests ahead in the queue count as if they had taken their credits.
  const ahead = aheadOf(state, held, me, allowed, rules);
  const need = Math.min(sum(ahead.map(wait => wait.cost)) + me.cost, allowed);
  const open = state.flights.filter(flight => isOpen(flight, nowMs));
  const source = sourceFreeAtMs(state, nowMs, need + rules.reserve, open.length > 0);
  const replies = state.flights.map(flight => earliestReplyMs(flight, nowMs));
  const times = [
    nowMs,
    state.frozenUntilMs,
    creditsFreeAtMs(state, nowMs, sum(held) + need - allowed, rules),
    source === 'reply' ? nowMs : source,
    windowsFreeAtMs(state, nowMs, { wanted: ahead.length + 1, replies }, rules),
  ];
  const awaitsReply = source === 'reply' || (!isAlone(state, nowMs, rules) && open.length > 0);
  if (others > 0) times.push(evenlyAtMs(state, nowMs, need - me.cost, allowed, rules));
  // Backfill keeps an even pace (except for its tenth), so that credits come back evenly, and soon for the next
  // request. (Spent greedily, all come back at once, and a fresh change waited for up to 50 s.)
  else if (!isEven(rules)) {
    if (isSlow(me.lane)) times.push(tenthLeftAtMs(state, nowMs, held, me.cost, allowed, rules));
  } else if (isSlow(me.lane) && slowHeld(held) >= allowed / 10)
    times.push(state.evenMs + ((need - me.cost) * rules.periodMs) / allowed);
  const creditsMs = Math.ceil(Math.max(...times));
  if (awaitsReply && creditsMs < nowMs + pollMs) {
    const untilMs = Math.max(...open.map(flight => flight.deadlineMs));
    return { freeMs: nowMs + pollMs, expected: { awaits: 'reply', untilMs } };
  }
  // Everything has come back after a period and a time-out.
  const untilMs = Math.min(creditsMs, Math.max(state.frozenUntilMs, nowMs + rules.periodMs + rules.timeoutMs));
  return { freeMs: creditsMs, expected: { awaits: 'credits', untilMs } };
}

/** When backfill and sweep hold so little that a tenth is left to the other lanes. */
function tenthLeftAtMs(state: State, nowMs: number, held: Held, cost: number, allowed: number, rules: Rules): number {
  const most = Math.max(cost, allowed - Math.floor(allowed / 10));
  const flying = state.flights
    .filter(flight => isSlow(flight.lane))
    .map(flight => [freedAtMs(earliestReplyMs(flight, nowMs), rules), flight.cost] as const);
  const answered = state.spent.map(
    ([freeMs, _interactive, _fresh, backfill, sweep]) => [freeMs, backfill + sweep] as const,
  );
  return whenFreed([...answered, ...flying], nowMs, slowHeld(held) + cost - most);
}

/** Lanes that keep an even pace, so that the others find credits. */
const isSlow = (lane: Lane): boolean => lane === 'backfill' || lane === 'sweep';
const slowHeld = ([, , backfill, sweep]: Held): number => backfill + sweep;

/**
 * With other clients, credits are spent evenly over a period. If periods are fixed, ours last to the end of the
 * source's period; otherwise credits that slow replies held up are made up for. (Spending greedily refused a client at
 * 33 a minute 2,047 of its 5,940 requests.)
 */
function evenlyAtMs(state: State, nowMs: number, ahead: number, allowed: number, rules: Rules): number {
  const { source } = state;
  const evenMs = rules.periodMs / allowed;
  if (!source || source.untilMs <= nowMs || nowMs < state.slidingUntilMs) return state.evenMs + ahead * evenMs;
  const creditMs = Math.max(evenMs, (source.untilMs - nowMs) / Math.max(1, source.remaining - rules.reserve));
  return state.lastGrantMs + (state.lastGrantCost + ahead) * creditMs;
}

function creditsFreeAtMs(state: State, nowMs: number, missing: number, rules: Rules): number {
  if (missing <= 0) return nowMs;
  const flying = state.flights.map(flight => [freedAtMs(earliestReplyMs(flight, nowMs), rules), flight.cost] as const);
  return whenFreed([...state.spent, ...flying], nowMs, missing);
}

/** The clocks of the source and of the database may be so far apart. */
const apartMs = 60_000;

/** When credits that were answered at this time are free again: then no period of the source holds both uses. */
function freedAtMs(answeredMs: number, { periodMs, aligned }: Limits): number {
  return aligned ? Math.ceil((answeredMs + apartMs) / periodMs) * periodMs + apartMs : answeredMs + periodMs;
}

/** A live sender may get its answer at any moment; the request of a dead one may be counted until its deadline. */
function earliestReplyMs(flight: Flight, nowMs: number): number {
  return flight.orphaned ? flight.deadlineMs : Math.min(flight.deadlineMs, nowMs);
}

/**
 * The limit by the source's own headers: `remaining` credits until the reset, less the requests in flight, which may be
 * counted or not. A reply to one of them tells.
 */
function sourceFreeAtMs(state: State, nowMs: number, need: number, mayReply: boolean): number | 'reply' {
  const { source } = state;
  if (!source || source.untilMs <= nowMs) return nowMs;
  const missing = need + sum(state.flights.map(flight => flight.cost)) - source.remaining;
  if (missing <= 0) return nowMs;
  if (source.remaining >= need && mayReply) return 'reply';
  if (nowMs >= state.slidingUntilMs) return source.untilMs;
  // Without this, a sliding source whose Reset tells when everything is back would be used at 88 %.
  return Math.min(source.untilMs, whenFreed(state.spent, nowMs, missing));
}

/**
 * The waiting requests ahead of this one: by lane, then by time. But a tenth of the credits belongs to the lowest
 * waiting lane, another tenth to backfill while a sweep waits below it, and to the sweep its share. While a lane has
 * had less than that in the last period, its first requests go before all others.
 */
function aheadOf(state: State, held: Held, me: Wait, allowed: number, rules: Rules): Wait[] {
  const queue = state.waits.filter(wait => wait.id !== me.id);
  if (queue.length === 0) return [];
  queue.push(me);
  queue.sort((a, b) => a.sinceMs - b.sinceMs || (a.id < b.id ? -1 : 1));
  const laneOf = queue.map(wait => lanes.indexOf(wait.lane));
  const lowest = Math.max(...laneOf);
  const used = [...held];
  const rank = laneOf.map((lane, n) => {
    const share = lanes[lane] === 'sweep' ? (rules.sweepShare ?? 0.1) : 0.1;
    if ((lane !== lowest && lanes[lane] !== 'backfill') || used[lane]! >= allowed * share) return lane;
    used[lane]! += queue[n]!.cost;
    return -1;
  });
  // Within a rank, requests keep their order of arrival.
  const mine = queue.indexOf(me);
  return queue.filter((_, n) => rank[n]! < rank[mine]! || (rank[n] === rank[mine] && n < mine));
}

/** With other clients, or before the first reply of a period has told about them, one request goes at a time. */
const isAlone = (state: State, nowMs: number, rules: Rules): boolean =>
  othersOf(state) === 0 && nowMs - state.lastReplyMs < rules.periodMs;

// ---- what is held ----

function limitOf(state: State, rules: Rules): number {
  return Math.min(rules.credits, state.limit ?? rules.credits);
}

function othersOf(state: State): number {
  return Math.max(0, ...state.others.map(([, credits]) => credits));
}

/** At least one request a period goes, however busy other clients are, and however low the limit is. */
function allowedOf(state: State, cost: number, rules: Rules): number {
  return Math.max(limitOf(state, rules) - rules.reserve - othersOf(state), cost);
}

type Held = readonly [interactive: number, fresh: number, backfill: number, sweep: number];

/** Credits in flight, or answered less than a period before `atMs`, by lane. */
function heldByLane(state: State, atMs: number): Held {
  const held: [number, number, number, number] = [0, 0, 0, 0];
  for (const flight of state.flights) held[lanes.indexOf(flight.lane)]! += flight.cost;
  // A plain loop: it runs at every grant, and is much of the cost of the ledger.
  for (const one of state.spent) {
    if (one[0] <= atMs) continue;
    held[0] += one[1];
    held[1] += one[2];
    held[2] += one[3];
    held[3] += one[4];
  }
  return held;
}

/**
 * A sum is free when its last part is. Sums of one cell are joined, so a single request is exact, and many requests
 * stay bounded. One that is booked later than it was heard may stand behind a later one.
 */
function addSpent(spent: Spent[], freeMs: number, lane: Lane, cost: number, cellMs: number): Spent[] {
  const index = lanes.indexOf(lane) + 1;
  const added: Spent = [freeMs, 0, 0, 0, 0];
  added[index] = cost;
  const last = spent.at(-1);
  if (!last || Math.floor(last[0] / cellMs) !== Math.floor(freeMs / cellMs)) return [...spent, added];
  const joined: Spent = [...last];
  joined[0] = Math.max(last[0], freeMs);
  joined[index]! += cost;
  return [...spent.slice(0, -1), joined];
}

// ---- what the source says ----

const isEven = ({ evenly }: Rules): boolean => evenly !== false;

/**
 * Credits used by other clients. The source counted after the grant, so its count may hold all that we held at that
 * time, and all that is in flight. Without other clients the result is never above 0.
 */
function othersSeen(state: State, { headers, refused }: Reply, heldAtMs: number, rules: Rules): number {
  // A refusal without figures shows that other clients exist, and not how many: each lowers our rate by a tenth.
  if (headers.remaining === undefined) return refused ? Math.ceil((headers.limit ?? rules.credits) / 10) : 0;
  const ours = sum(heldByLane(state, heldAtMs));
  return Math.max(Number(refused), (headers.limit ?? rules.credits) - headers.remaining - ours);
}

// ---- time passes ----

/** Drops expired entries. */
function advance(before: State, now: Moment, rules: Rules): State {
  // The clock was set back: a time that was a minute away stays a minute away.
  const state = before.atMs > now.latestMs + secondMs ? shift(before, now.latestMs - before.atMs) : before;
  const nowMs = Math.floor(now.earliestMs);
  const freed = (one: Spent) => one[0] > state.atMs && one[0] <= nowMs;
  const back =
    state.source && nowMs < state.slidingUntilMs ? sum(state.spent.filter(freed).flatMap(([, ...sums]) => sums)) : 0;
  // A request in flight may have been counted when it was granted, so its reply is compared with what was held then.
  const flying = state.flights.filter(flight => flight.deadlineMs > nowMs);
  const horizonMs = Math.min(nowMs, ...flying.map(flight => flight.grantedMs));
  return {
    ...state,
    atMs: Math.max(state.atMs, nowMs),
    flights: state.flights.filter(flight => freedAtMs(flight.deadlineMs, rules) > nowMs),
    spent: state.spent.filter(one => one[0] > horizonMs),
    ...stillCounted(state, nowMs),
    waits: state.waits.filter(wait => wait.untilMs > nowMs),
    others: state.others.filter(([untilMs]) => untilMs > nowMs),
    source: state.source && { ...state.source, remaining: state.source.remaining + back },
  };
}

function sum(numbers: readonly number[]): number {
  let all = 0;
  for (const one of numbers) all += one;
  return all;
}
