/**
 * The ledger once more, as plainly as can be: nothing is summed up, and when a credit is free is found by trying
 * one time after the other. It answers what the ledger must answer, to the millisecond.
 */
import type { Ask, Lane, Moment, RateHeaders, Reply, Rules, Settled } from '../../../../src/engine/budget/ledger.ts';
import {
  type HeardClock,
  hearPlainly,
  type StampedClock,
  setPlainly,
  setStamped,
  shownPlainly,
  stampsPlainly,
  stillPlainly,
} from './plain-clock.ts';
import { windowsOf } from './server.ts';

interface Expected {
  readonly awaits: 'credits' | 'reply';
  readonly untilMs: number;
}
type Told =
  | { granted: true }
  | { granted: false; waitUntilMs: number; expected: Expected; tooLong?: true; unmarked?: number };

interface Grant extends Omit<Ask, 'sender'> {
  readonly sender: number | undefined;
  readonly grantedMs: number;
  readonly deadlineMs: number;
  readonly waitedMs: number;
  /** Nobody waits for its reply. */
  readonly dead: boolean;
}
interface Mark extends Ask {
  readonly sinceMs: number;
  readonly untilMs: number;
}
/** A credit, or a slot of the second, that is taken until then. Those of one group come back together. */
interface Taken {
  readonly endMs: number;
  readonly lane: Lane;
  readonly cost: number;
  readonly group: number;
}
/** What a reply says of the period: `left` binds until `untilMs`, and the period ends between `fromMs` and `toMs`. */
interface Said {
  readonly left: number;
  readonly untilMs: number;
  readonly firstMs: number;
  readonly fixed: boolean;
  readonly fromMs: number;
  readonly toMs: number;
}
/** All that has happened. */
export interface Log {
  readonly atMs: number;
  readonly flying: readonly Grant[];
  readonly marks: readonly Mark[];
  readonly credits: readonly Taken[];
  readonly slots: readonly Taken[];
  /** By the length of each further window. */
  readonly further: readonly (readonly [number, readonly Taken[]])[];
  readonly limit: number;
  readonly said: Said | undefined;
  readonly slidesUntilMs: number;
  readonly others: readonly (readonly [untilMs: number, credits: number])[];
  readonly silentUntilMs: number;
  readonly repliedMs: number;
  readonly answeredMs: number;
  readonly granted: { readonly atMs: number; readonly cost: number };
  /** At an even pace, what was granted lasts until then. */
  readonly lastsUntilMs: number;
  readonly clock: HeardClock | undefined;
  readonly stamped: StampedClock | undefined;
}

const never = Number.POSITIVE_INFINITY;
export const nothing: Log = {
  ...{
    atMs: 0,
    flying: [],
    marks: [],
    credits: [],
    slots: [],
    further: [],
    limit: never,
    said: undefined,
    slidesUntilMs: 0,
  },
  ...{ others: [], silentUntilMs: 0, repliedMs: 0, answeredMs: 0, granted: { atMs: 0, cost: 0 }, lastsUntilMs: 0 },
  clock: undefined,
  stamped: undefined,
};

const hourMs = 3_600_000;
const order: readonly Lane[] = ['interactive', 'fresh', 'backfill', 'sweep'];
const isSlow = (lane: Lane) => order.indexOf(lane) > 1;
const sum = (all: readonly { readonly cost: number }[]) => all.reduce((total, { cost }) => total + cost, 0);
const heldAt = (taken: readonly Taken[], ms: number) => taken.filter(({ endMs }) => endMs > ms);

// ---- time ----

/** A clock that was set back by more than a second: as if it had stood still. */
function look(before: Log, now: Moment, rules: Rules): Log {
  const byMs = Math.ceil(now.latestMs - before.atMs);
  const log = now.latestMs + 1000 < before.atMs ? movedBy(before, byMs) : before;
  const nowMs = Math.floor(now.earliestMs);
  const back =
    nowMs < log.slidesUntilMs ? sum(log.credits.filter(one => one.endMs > log.atMs && one.endMs <= nowMs)) : 0;
  // What is over stays over, also where the clock is set back by less. A reply asks what was held at its grant.
  const flown = log.flying.filter(one => nowMs < one.deadlineMs).map(one => one.grantedMs);
  return {
    ...log,
    atMs: Math.max(log.atMs, nowMs),
    credits: heldAt(log.credits, Math.min(nowMs, ...flown)),
    slots: heldAt(log.slots, nowMs),
    further: log.further.map(([ms, taken]) => [ms, heldAt(taken, nowMs)]),
    others: othersLeft(log, nowMs, rules),
    flying: log.flying.filter(one => nowMs < one.deadlineMs + rules.periodMs),
    marks: log.marks.filter(one => nowMs < one.untilMs),
    said: log.said && { ...log.said, left: log.said.left + back },
  };
}

function movedBy(log: Log, ms: number): Log {
  const keys = /Ms$/;
  // A time is what is named so, but for a length of time.
  const moved = (value: unknown, key: string): unknown => {
    if (typeof value === 'number') return keys.test(key) && key !== 'waitedMs' && value !== never ? value + ms : value;
    if (Array.isArray(value)) return value.map(one => moved(one, ''));
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, moved(one, key)]));
  };
  const { others, clock, stamped } = log;
  return {
    ...(moved(log, '') as Log),
    others: others.map(([untilMs, credits]) => [untilMs + ms, credits]),
    clock: clock && setPlainly(clock, ms),
    stamped: stamped && setStamped(stamped, ms),
  };
}

// ---- what may go ----

const limitOf = (log: Log, rules: Rules) => Math.min(rules.credits, log.limit);

/** Of what was seen in one tenth of a period, the most lasts as long as the last. */
function othersLeft({ others }: Log, nowMs: number, { periodMs }: Rules): Log['others'] {
  const cell = (ms: number) => Math.floor(ms / (periodMs / 10));
  return others.filter(([ms]) => others.findLast(([later]) => cell(later) === cell(ms))![0] > nowMs);
}

const othersAt = (log: Log, nowMs: number, rules: Rules): number =>
  Math.max(0, ...othersLeft(log, nowMs, rules).map(([, credits]) => credits));

/** The first time at which so many are missing no more. */
function whenBack(
  taken: readonly { readonly endMs: number; readonly cost: number }[],
  nowMs: number,
  missing: number,
): number {
  if (missing <= 0) return nowMs;
  const times = taken.map(({ endMs }) => endMs).filter(ms => ms > nowMs);
  return Math.min(
    never,
    ...times.filter(ms => sum(taken.filter(one => one.endMs > nowMs && one.endMs <= ms)) >= missing),
  );
}

/** Whoever would be served before this one. */
function before(log: Log, nowMs: number, me: Mark, allowed: number, { sweepShare = 0.1 }: Rules): Mark[] {
  const all = [...log.marks.filter(({ id }) => id !== me.id), me].toSorted(
    (a, b) => a.sinceMs - b.sinceMs || a.id.localeCompare(b.id),
  );
  if (all.length === 1) return [];
  const lowest = order.findLast(lane => all.some(one => one.lane === lane));
  const first = new Set<Mark>();
  for (const lane of order) {
    if (lane !== lowest && lane !== 'backfill') continue;
    const share = allowed * (lane === 'sweep' ? sweepShare : 0.1);
    let has = sum([...log.flying, ...heldAt(log.credits, nowMs)].filter(one => one.lane === lane));
    for (const one of all.filter(one => one.lane === lane)) {
      if (has >= share) break;
      has += one.cost;
      first.add(one);
    }
  }
  const served = [
    ...all.filter(one => first.has(one)),
    ...order.flatMap(lane => all.filter(one => one.lane === lane && !first.has(one))),
  ];
  return served.slice(0, served.indexOf(me));
}

/** Requests whose replies may come. */
const awaited = ({ flying }: Log, nowMs: number) => flying.filter(one => !one.dead && one.deadlineMs > nowMs);

function whenMay(log: Log, nowMs: number, me: Mark, rules: Rules): { freeMs: number; expected: Expected } {
  const { periodMs, reserve } = rules;
  const others = othersAt(log, nowMs, rules);
  const allowed = Math.max(me.cost, limitOf(log, rules) - reserve - others);
  const ahead = before(log, nowMs, me, allowed, rules);
  const need = Math.min(allowed, sum(ahead) + me.cost);
  // A request in flight may be answered now; one whose sender is dead was counted by its deadline.
  const flying = (ms: number) =>
    log.flying.map(one => ({
      ...one,
      endMs: (one.dead ? one.deadlineMs : Math.min(nowMs, one.deadlineMs)) + ms,
      group: -1,
    }));
  const credits = [...heldAt(log.credits, nowMs), ...flying(periodMs)];
  const slotsIn = (ms: number) => (ms === 1000 ? log.slots : (log.further.find(([of]) => of === ms)?.[1] ?? []));
  const freeIn = ({ ms, requests }: { ms: number; requests: number }) => {
    const slots = heldAt([...slotsIn(ms), ...flying(ms).map(one => ({ ...one, cost: 1 }))], nowMs);
    return whenBack(slots, nowMs, sum(slots) + Math.min(ahead.length + 1, requests) - requests);
  };
  const times = [
    nowMs,
    log.silentUntilMs,
    whenBack(credits, nowMs, sum(credits) + need - allowed),
    ...windowsOf(rules).map(freeIn),
    whenSaid(log, nowMs, need + reserve),
  ];
  const isAlone = others === 0 && nowMs < log.repliedMs + periodMs;
  const slow = sum(credits.filter(one => isSlow(one.lane)));
  if (others > 0) times.push(whenEven(log, nowMs, need - me.cost, allowed, rules));
  else if (isSlow(me.lane)) {
    if (rules.evenly === false) {
      const most = Math.max(me.cost, allowed - Math.floor(allowed / 10));
      times.push(
        whenBack(
          credits.filter(one => isSlow(one.lane)),
          nowMs,
          slow + me.cost - most,
        ),
      );
    } else if (slow >= allowed / 10) times.push(log.lastsUntilMs + ((need - me.cost) * periodMs) / allowed);
  }
  const freeMs = Math.ceil(Math.max(...times));
  const replies = awaited(log, nowMs).map(one => one.deadlineMs);
  const asksAgainMs = nowMs + 200;
  if (replies.length > 0 && freeMs < asksAgainMs && (!isAlone || isToldByReply(log, nowMs, need + reserve)))
    return { freeMs: asksAgainMs, expected: { awaits: 'reply', untilMs: Math.max(...replies) } };
  const allBackMs = Math.max(log.silentUntilMs, nowMs + periodMs + rules.timeoutMs);
  return { freeMs, expected: { awaits: 'credits', untilMs: Math.min(freeMs, allBackMs) } };
}

/** The source left enough at its last word, unless it counts what flies on top. */
function isToldByReply({ said, flying }: Log, nowMs: number, need: number): boolean {
  return !!said && nowMs < said.untilMs && said.left >= need && need + sum(flying) > said.left;
}

/** What the source said binds, and what flies may be counted or not. */
function whenSaid(log: Log, nowMs: number, need: number): number {
  const { said } = log;
  if (!said || nowMs >= said.untilMs) return nowMs;
  const missing = need + sum(log.flying) - said.left;
  if (missing <= 0 || (awaited(log, nowMs).length > 0 && isToldByReply(log, nowMs, need))) return nowMs;
  return nowMs < log.slidesUntilMs
    ? Math.min(said.untilMs, whenBack(heldAt(log.credits, nowMs), nowMs, missing))
    : said.untilMs;
}

/** With others: what is left is spread over the rest of the period, or what is allowed over a whole one. */
function whenEven(log: Log, nowMs: number, ahead: number, allowed: number, { periodMs, reserve }: Rules): number {
  const { said, granted } = log;
  const each = periodMs / allowed;
  if (!said || nowMs >= said.untilMs || nowMs < log.slidesUntilMs) return log.lastsUntilMs + ahead * each;
  const left = Math.max(1, said.left - reserve);
  return granted.atMs + (granted.cost + ahead) * Math.max(each, (said.untilMs - nowMs) / left);
}

// ---- what processes do ----

export function ask(had: Log, now: Moment, wanted: Ask, rules: Rules): { log: Log; told: Told } {
  const log = look(had, now, rules);
  const nowMs = Math.floor(now.earliestMs);
  const { id, lane, cost } = wanted;
  const sinceMs = log.marks.find(one => one.id === id)?.sinceMs ?? wanted.sinceMs ?? nowMs;
  const marks = log.marks.filter(one => one.id !== id);
  const { freeMs, expected } = whenMay(log, nowMs, { id, lane, cost, sinceMs, untilMs: 0 }, rules);
  if (freeMs <= nowMs) {
    const allowed = Math.max(cost, limitOf(log, rules) - rules.reserve - othersAt(log, nowMs, rules));
    const atMs = Math.ceil(now.latestMs);
    const grant: Grant = {
      ...{ id, lane, cost, grantedMs: nowMs, deadlineMs: atMs + rules.timeoutMs + 1000 },
      ...{ waitedMs: Math.max(0, nowMs - sinceMs), sender: wanted.sender, dead: false },
    };
    // What was not granted for long may be made up for, 3.5 s of it.
    const lastsUntilMs = Math.max(log.lastsUntilMs, nowMs - 3500) + (cost * rules.periodMs) / allowed;
    const flying = [...log.flying, grant];
    return { log: { ...log, flying, marks, granted: { atMs, cost }, lastsUntilMs }, told: { granted: true } };
  }
  const waitMs = freeMs - nowMs;
  if (rules.longestWaitMs !== undefined && waitMs > rules.longestWaitMs) {
    const waitUntilMs = nowMs + Math.min(waitMs, rules.periodMs + rules.timeoutMs);
    return { log: { ...log, marks }, told: { granted: false, waitUntilMs, expected, tooLong: true } };
  }
  const mayStayUnmarked = isSlow(lane) && !log.marks.some(one => one.id === id);
  const asksFirst = sinceMs === nowMs;
  const asksEarly = waitMs <= 20 && nowMs - sinceMs + waitMs <= 3020;
  if (mayStayUnmarked && (asksFirst ? waitMs <= 3000 : asksEarly))
    return { log: had, told: { granted: false, waitUntilMs: freeMs, expected, unmarked: sinceMs } };
  const waitUntilMs = nowMs + Math.min(waitMs, 5000);
  const mark = { id, lane, cost, sinceMs, untilMs: waitUntilMs + 2000 };
  return { log: { ...log, marks: [...marks, mark] }, told: { granted: false, waitUntilMs, expected } };
}

export function hear(
  had: Log,
  now: Moment,
  id: string,
  reply: Reply,
  rules: Rules,
  then: Moment = now,
): { log: Log; told: Settled | null; isAwaited: boolean } {
  const log = look(had, now, rules);
  const flight = log.flying.find(one => one.id === id);
  if (!flight) return { log, told: null, isAwaited: false };
  const at = flight.grantedMs <= then.latestMs && then.latestMs <= now.latestMs ? then : now;
  const { refused } = reply;
  const { limit, remaining: left, used = 0, resetSeconds } = meaning(reply.headers);
  const atMs = Math.floor(at.latestMs) + 1;
  const newestMs = Math.max(log.repliedMs, atMs);
  const isLate = Math.floor(now.earliestMs) >= flight.deadlineMs;
  const cost = Math.max(flight.cost, used);
  const { periodMs } = rules;
  const taken = { endMs: atMs + periodMs, lane: flight.lane, cost };
  const silenceMs = !refused ? 0 : atMs + silence(log, atMs, reply, resetSeconds, rules);
  const landed: Log = {
    ...log,
    flying: log.flying.filter(one => one !== flight),
    credits: put(log.credits, taken, periodMs / 120),
    slots: put(log.slots, { ...taken, endMs: atMs + 1000, cost: 1 }, 1000 / 20),
    further: (rules.further ?? []).map(({ ms }) => [
      ms,
      put(log.further.find(([of]) => of === ms)?.[1] ?? [], { ...taken, endMs: atMs + ms, cost: 1 }, ms / 120),
    ]),
    limit: limit ?? log.limit,
    silentUntilMs: Math.max(log.silentUntilMs, silenceMs),
    repliedMs: newestMs,
    answeredMs: refused ? log.answeredMs : Math.max(log.answeredMs, atMs),
  };
  const heard = isLate ? undefined : left;
  const { said, slidesUntilMs, isOld } = believe(landed, heard, resetSeconds, flight.grantedMs, atMs, cost, rules);
  // In a period that is fixed counts what was answered in it; else all that we held at the grant.
  const fromMs = said?.fixed && !isOld ? Math.max(flight.grantedMs, said.fromMs - 1) : flight.grantedMs;
  const ours = sum([...landed.flying, ...heldAt(landed.credits, fromMs)]);
  const least = refused ? 1 : 0;
  const whole = limit ?? rules.credits;
  const unknown = refused ? Math.ceil(whole / 10) : 0;
  const seen = isLate ? least : left === undefined ? unknown : Math.max(least, whole - left - ours);
  const others = rules.evenly === false ? 0 : seen;
  const { dateMs, stampMs } = reply;
  const stamped =
    dateMs === undefined ? undefined : stampsPlainly(landed.stamped, dateMs, stampMs, flight.grantedMs, atMs);
  const clock =
    dateMs === undefined || rules.clockToleranceMs === undefined
      ? undefined
      : hearPlainly(landed.clock, dateMs, flight.grantedMs, atMs, rules.clockToleranceMs);
  const told: Settled = {
    ...{
      atMs: Math.floor(at.earliestMs),
      lane: flight.lane,
      cost: refused ? used : cost,
      limit: limitOf(landed, rules),
      others,
    },
    ...{ waitedMs: flight.waitedMs, tookMs: Math.max(0, atMs - flight.grantedMs), refused },
    ...(clock && { clock: clock.told }),
    asOfMs: stamped ? stamped.asOfMs : stillPlainly(landed.stamped, flight.grantedMs),
    ...shownPlainly(dateMs, flight.grantedMs, atMs),
  };
  const after = {
    ...{ ...landed, said, slidesUntilMs, clock: clock?.clock ?? landed.clock },
    stamped: stamped?.clock ?? landed.stamped,
    others: others > 0 ? [...landed.others, [newestMs + 5 * periodMs, others] as const] : landed.others,
  };
  // Where nobody else is known, and a reply has told so lately, nobody waits.
  const wasAlone = at.earliestMs - log.repliedMs < periodMs && log.others.length === 0;
  const isTighter = used > flight.cost || limitOf(after, rules) < limitOf(log, rules);
  const isAwaited = refused || isTighter || after.others.length > 0 || clock?.told.steady === false || !wasAlone;
  return { log: after, told, isAwaited };
}

export function giveBack(had: Log, now: Moment, id: string, rules: Rules): Log {
  const log = look(had, now, rules);
  return { ...log, flying: log.flying.filter(one => one.id !== id) };
}

export function bury(had: Log, now: Moment, dead: readonly number[], rules: Rules): Log {
  const log = look(had, now, rules);
  return {
    ...log,
    flying: log.flying.map(one => (dead.some(sender => sender === one.sender) ? { ...one, dead: true } : one)),
  };
}

export function thaw(had: Log, now: Moment, rules: Rules): Log {
  const log = look(had, now, rules);
  return log.silentUntilMs > now.earliestMs + 60_000 ? { ...log, silentUntilMs: 0, repliedMs: 0 } : log;
}

/** Headers that are numbers, and not below 0. */
const meaning = (headers: RateHeaders): RateHeaders =>
  Object.fromEntries(Object.entries(headers).filter(([, value]) => value >= 0 && value < never));

/** Sums are kept by cells: what comes back in the cell of the last one comes back with it. */
function put(taken: readonly Taken[], one: Omit<Taken, 'group'>, cellMs: number): Taken[] {
  const cell = (ms: number) => Math.floor(ms / cellMs);
  const last = taken.at(-1);
  if (!last || cell(one.endMs) !== cell(last.endMs)) return [...taken, { ...one, group: (last?.group ?? 0) + 1 }];
  const endMs = Math.max(last.endMs, one.endMs);
  const { group } = last;
  return [...taken.map(other => (other.group === group ? { ...other, endMs } : other)), { ...one, endMs, group }];
}

function silence(log: Log, atMs: number, reply: Reply, resetSeconds: number | undefined, { periodMs }: Rules): number {
  if (reply.freezeMs !== undefined) return Math.min(reply.freezeMs, Math.max(periodMs, hourMs));
  if (!reply.spent) return resetSeconds === undefined ? periodMs + 1000 : Math.min(resetSeconds * 1000, hourMs) + 1000;
  const answered = heldAt(log.credits, atMs).filter(one => one.endMs <= log.answeredMs + periodMs);
  const oldestMs = answered.length === 0 ? 0 : Math.min(...answered.map(({ endMs }) => endMs)) - atMs;
  return Math.min(periodMs, Math.max(hourMs, oldestMs));
}

/** `isOld`: a late reply of the period before, which says nothing of this one. */
function believe(
  { said, slidesUntilMs }: Log,
  left: number | undefined,
  resetSeconds: number | undefined,
  grantedMs: number,
  atMs: number,
  cost: number,
  { periodMs }: Rules,
): { said: Said | undefined; slidesUntilMs: number; isOld?: boolean } {
  if (left === undefined) return { said: said && { ...said, left: said.left - cost }, slidesUntilMs, isOld: !said };
  const resetMs = Math.min(periodMs, resetSeconds === undefined ? never : resetSeconds * 1000);
  const now: Said = {
    ...{ left, untilMs: atMs + resetMs, firstMs: atMs, fixed: false },
    ...{ fromMs: grantedMs + resetMs - 1000, toMs: atMs + resetMs + 1000 },
  };
  if (!said) return { said: now, slidesUntilMs };
  const both = (laterMs: number) => ({
    fromMs: Math.max(now.fromMs, said.fromMs + laterMs),
    toMs: Math.min(now.toMs, said.toMs + laterMs),
  });
  const meet = ({ fromMs, toMs }: { fromMs: number; toMs: number }) => fromMs <= toMs;
  if (meet(both(0))) {
    if (atMs < slidesUntilMs) return { said: { ...now, ...both(0) }, slidesUntilMs };
    const fixed = said.fixed || grantedMs - said.firstMs >= 5000;
    const least = { left: Math.min(left, said.left), untilMs: Math.min(now.untilMs, said.untilMs) };
    return { said: { ...said, ...both(0), ...least, fixed }, slidesUntilMs };
  }
  // Two ends of periods that are surely less than a period apart: it slides.
  if (now.toMs - said.fromMs < periodMs && said.toMs - now.fromMs < periodMs)
    return { said: now, slidesUntilMs: atMs + 5 * periodMs };
  if (now.toMs < said.fromMs) return { said, slidesUntilMs, isOld: true };
  const periods = Math.round((now.toMs - said.toMs) / periodMs);
  return { said: { ...now, fixed: said.fixed && meet(both(periods * periodMs)) }, slidesUntilMs };
}
