/**
 * What can happen next in a world: processes ask, are granted, die or give up; the server counts; replies come, true or
 * not, in time or late; others use credits; our clock is set back; time passes to the next moment that matters.
 */
import type * as real from '../../../../src/engine/budget/ledger.ts';
import type { RateHeaders } from '../../../../src/engine/budget/ledger.ts';
import type { Step } from './breadth-first.ts';
import { grantWrong, refusedWrong, settledWrong, toldWrong } from './judge.ts';
import { type Answer, answer, inPeriod } from './server.ts';
import { type Doing, type Hold, momentOf, type Now, type Process } from './state.ts';
import type { Words, World } from './worlds.ts';

/** The functions that are examined: those of the product, or a planted mistake. */
export type Ledger = Pick<typeof real, 'acquire' | 'settle' | 'cancel' | 'bury' | 'thaw' | 'empty'>;

type Waiting = Extract<Doing, { is: 'waiting' }>;
type Flying = Extract<Doing, { is: 'flying' }>;

/** A multiple of every period and tick. */
export const beginMs = 600_000_000_000;
/** Replies come within a millisecond, so that no rounding goes unseen. */
const fraction = 0.7;
/** The ledger's own: one statement lies between the decision and the sending. */
const sendingMs = 1000;
const graceMs = 2000;

export function begin(world: World, ledger: Ledger): Now {
  return {
    nowMs: beginMs + fraction,
    backMs: 0,
    ids: 0,
    ledger: ledger.empty,
    processes: world.processes.map((one, n) => ({
      ...one,
      left: world.requests,
      sender: n + 1,
      doing: { is: 'idle' },
    })),
    orphans: [],
    unseen: [],
    uses: [],
    left: {
      deaths: world.deaths ?? 0,
      cuts: world.cuts ?? 0,
      cancels: world.cancels ?? 0,
      others: world.others ?? 0,
      setBacks: world.setBacks ?? 0,
      thaws: world.thaws ?? 0,
    },
    holds: [],
    silentMs: 0,
    word: null,
    limit: null,
    othersMs: 0,
    repliedMs: 0,
    marksMs: 0,
    toldMs: 0,
  };
}

const nameOf = (n: number) => `process ${n + 1}`;
const put = (state: Now, n: number, doing: Doing, more: Partial<Now> = {}, left?: number): Now => ({
  ...state,
  ...more,
  processes: state.processes.map((one, i) => (i === n ? { ...one, doing, left: left ?? one.left } : one)),
});
const isTick = (world: World, { nowMs }: Now) => Math.abs((nowMs % world.tickMs) - fraction) < 0.01;
/** One number for each id, so that ids sort as they came. */
const newId = (ids: number) => String(1000 + ids);

export function* stepsOf(world: World, ledger: Ledger, state: Now): Generator<Step<Now>> {
  const ticks = isTick(world, state);
  let due = false;
  for (const [n, process] of state.processes.entries()) {
    const { doing } = process;
    if (doing.is === 'idle' && ticks && process.left > 0) {
      const id = newId(state.ids);
      const waiting: Waiting = { is: 'waiting', id, sinceMs: state.nowMs, askMs: state.nowMs };
      yield ask(world, ledger, put(state, n, waiting, { ids: state.ids + 1 }, process.left - 1), n, 'asks for');
    }
    if (doing.is === 'waiting' && doing.askMs <= state.nowMs) {
      due = true;
      yield ask(world, ledger, state, n, 'asks again for');
    }
    if (doing.is === 'waiting' && ticks && state.left.deaths > 0) {
      const marksMs = Math.max(state.marksMs, doing.askMs + graceMs);
      yield {
        says: `${nameOf(n)} dies while it waits`,
        state: put(state, n, { is: 'idle' }, { ...dead(state), marksMs }),
      };
    }
    if (doing.is === 'flying') yield* flyingSteps(world, ledger, state, n, process, doing);
  }
  if (ticks) yield* worldSteps(world, ledger, state);
  if (!due && !mustSettle(world, state)) yield* pass(world, ledger, state);
}

const dead = (state: Now) => ({ left: { ...state.left, deaths: state.left.deaths - 1 } });

// ---- a process ----

function ask(world: World, ledger: Ledger, state: Now, n: number, verb: string): Step<Now> {
  const { lane, cost, sender, doing } = state.processes[n]!;
  const { id, sinceMs, unmarked } = doing as Waiting;
  const now = momentOf(world, state, n);
  const wanted = { id, lane, cost, sender, ...(unmarked !== undefined && { sinceMs: unmarked }) };
  const done = ledger.acquire(state.ledger, now, wanted, world.rules);
  const what = `${nameOf(n)} ${verb} ${cost} in lane ${lane}`;
  if (done.granted) {
    const grantedMs = state.nowMs;
    const deadlineMs = grantedMs + world.rules.timeoutMs + sendingMs;
    const flying: Flying = { is: 'flying', id, waitedMs: Math.round(grantedMs - sinceMs), grantedMs, deadlineMs };
    const after = put(state, n, flying, { ledger: done.state });
    const wrong = grantWrong(world, ledger, state, after, n);
    return { says: `${what}, and is granted`, state: after, wrong };
  }
  const waitMs = done.waitUntilMs - now.earliestMs;
  const wrong = toldWrong(world, ledger, state, done, now, wanted);
  if (done.tooLong)
    return {
      says: `${what}, and is told that it would wait too long`,
      state: put(state, n, { is: 'idle' }, { ledger: done.state }),
      wrong,
    };
  // A time is told in whole milliseconds, and asked at once.
  const askMs = state.nowMs + Math.max(waitMs, 0.1);
  const waiting: Waiting = { is: 'waiting', id, sinceMs, askMs, unmarked: done.unmarked ?? unmarked };
  return {
    says: `${what}, and is to wait ${Math.round(waitMs)} ms`,
    state: put(state, n, waiting, { ledger: done.state }),
    wrong,
  };
}

function* flyingSteps(
  world: World,
  ledger: Ledger,
  state: Now,
  n: number,
  { lane, cost, sender }: Process,
  doing: Flying,
): Generator<Step<Now>> {
  const granting = doing.grantedMs === state.nowMs;
  // Where no tick comes in time, everything happens at once.
  const ticks = isTick(world, state) || (granting && nextTick(world, state.nowMs) > doing.deadlineMs);
  const idle: Doing = { is: 'idle' };
  const last = ticks && state.nowMs + world.tickMs > doing.deadlineMs;
  if (!doing.answer) {
    if ((ticks || granting) && state.nowMs <= doing.deadlineMs) yield count(world, state, n, doing);
    if (granting && state.left.cancels > 0) {
      const left = { ...state.left, cancels: state.left.cancels - 1 };
      const after = { left, ledger: ledger.cancel(state.ledger, momentOf(world, state, n), doing.id, world.rules) };
      yield { says: `${nameOf(n)} gives its grant back`, state: put(state, n, idle, after) };
    }
    if (last) yield settle(world, ledger, state, n, undefined, 'hears nothing until its time-out');
  } else if (doing.heard) {
    if (ticks) yield settle(world, ledger, state, n, doing.heard.words, '');
  } else if (ticks) {
    for (const words of world.words) {
      yield settle(world, ledger, state, n, words, '');
      // A refusal is booked at once.
      if (!world.bookedLater || doing.answer.refused) continue;
      const { nowMs, backMs } = state;
      const says = `${nameOf(n)} hears the reply, and books it later`;
      yield { says, state: put(state, n, { ...doing, heard: { words, nowMs, backMs } }) };
    }
    if (last) yield settle(world, ledger, state, n, undefined, 'is counted, and hears nothing until its time-out');
  }
  if (state.left.deaths > 0 && (ticks || granting)) {
    const { deadlineMs } = doing;
    const holds = [...state.holds, hold(world, deadlineMs, lane, cost, true, false)];
    const orphans = doing.answer ? state.orphans : [...state.orphans, { cost, untilMs: deadlineMs }];
    const says = doing.answer
      ? `${nameOf(n)} dies before the reply`
      : `${nameOf(n)} dies; its request may be on its way`;
    const unseen = [...state.unseen, { sender, untilMs: deadlineMs + world.rules.periodMs }];
    const processes = state.processes.map((one, i) =>
      i === n ? { ...one, sender: sender + state.processes.length } : one,
    );
    yield { says, state: put({ ...state, processes }, n, idle, { ...dead(state), orphans, unseen, holds }) };
  }
  if (state.left.cuts > 0 && (ticks || granting)) {
    const left = { ...state.left, cuts: state.left.cuts - 1 };
    const buried = ledger.bury(state.ledger, momentOf(world, state, n), [sender], world.rules);
    yield {
      says: `${nameOf(n)} is cut off from the database, and taken for dead`,
      state: { ...state, left, ledger: buried },
    };
  }
}

const hold = (
  world: World,
  atMs: number,
  lane: Process['lane'],
  cost: number,
  unsure: boolean,
  refused: boolean,
): Hold => ({
  untilMs: Math.ceil(atMs + (world.clockErrorMs ?? 0)) + 1 + world.rules.periodMs,
  burstMs: Math.ceil(atMs + (world.clockErrorMs ?? 0)) + 1001,
  lane,
  cost,
  unsure,
  refused,
});

function count(world: World, state: Now, n: number, doing: Flying): Step<Now> {
  const { cost } = state.processes[n]!;
  const before = inPeriodOf(world, state);
  const { uses, answer: said } = answer(world, before, state.nowMs, { cost, ours: true });
  const after = counted(put(state, n, { ...doing, answer: said }, { uses }), said.headers.used ?? 0, n);
  const says = `the server counts the request of ${nameOf(n)}${said.refused ? ', and refuses it' : ''}`;
  return { says, state: after, wrong: refusedWrong(world, state, said, uses) };
}

const inPeriodOf = (world: World, state: Now) => inPeriod(state.uses, state.nowMs, world.rules.periodMs);

/** Later requests of ours take from what earlier answers left. */
function counted(state: Now, cost: number, but: number): Now {
  if (cost === 0) return state;
  const less = (said: Answer): Answer => ({ ...said, left: said.left - cost });
  return {
    ...state,
    word: state.word && { ...state.word, left: state.word.left - cost },
    processes: state.processes.map((one, n) =>
      n !== but && one.doing.is === 'flying' && one.doing.answer
        ? { ...one, doing: { ...one.doing, answer: less(one.doing.answer) } }
        : one,
    ),
  };
}

const lie: Record<Exclude<Words, 'truth'>, (truth: RateHeaders, world: World) => RateHeaders> = {
  none: () => ({}),
  high: (truth, { rules }) => ({ ...truth, limit: 10 * rules.credits, remaining: 10 * rules.credits, used: 0 }),
  low: (truth, { rules }) => ({ ...truth, remaining: 0, resetSeconds: rules.periodMs / 1000 }),
  odd: truth => ({ ...truth, limit: -1, remaining: Number.NaN, used: Number.NaN, resetSeconds: -1 }),
};

/** `words` undefined: no reply came. */
function settle(
  world: World,
  ledger: Ledger,
  state: Now,
  n: number,
  words: Words | undefined,
  verb: string,
): Step<Now> {
  const { lane, cost, doing } = state.processes[n]!;
  const { id, answer: said, heard: then = state } = doing as Flying;
  const heard = words !== undefined && said !== undefined;
  const headers = !heard ? {} : words === 'truth' ? said.headers : lie[words](said.headers, world);
  const refused = heard && said.refused;
  const told = refusalOf(world, refused, headers);
  const now = momentOf(world, state, n);
  const reply = { headers: told.headers, refused, ...told.more };
  const done = ledger.settle(state.ledger, now, id, reply, world.rules, momentOf(world, then, n));
  const isLate = state.nowMs >= (doing as Flying).deadlineMs;
  const used = Math.max(cost, Number.isFinite(headers.used) ? headers.used! : 0);
  const after = put(
    state,
    n,
    { is: 'idle' },
    { ledger: done.state, repliedMs: done.settled ? Math.max(then.nowMs, state.repliedMs) : state.repliedMs },
  );
  const limit = heard && headers.limit !== undefined && headers.limit >= 0 ? headers.limit : state.limit;
  const othersMs = (done.settled?.others ?? 0) > 0 ? state.nowMs + 5 * world.rules.periodMs + 5 : state.othersMs;
  const judged: Now = {
    ...after,
    limit,
    othersMs,
    toldMs: state.toldMs || (limit === null ? 0 : state.nowMs),
    holds: [...state.holds, hold(world, then.nowMs, lane, used, words !== 'truth' || isLate, refused)],
    // A quota that is used up is told with the time until which nothing is sent.
    silentMs: !refused
      ? state.silentMs
      : world.refusal === 'spent'
        ? done.state.frozenUntilMs + state.backMs - 1
        : Math.max(state.silentMs, state.nowMs + told.silentMs),
    word: words === 'truth' && said && world.window === 'fixed' ? newest(state.word, said) : state.word,
  };
  // Of a reply that was lost we cannot know that it was counted: an earlier reply may come later.
  const known = !heard && said ? counted(judged, -(said.headers.used ?? 0), n) : judged;
  const wrong = settledWrong(world, ledger, {
    ...{ before: state, after: judged, n, done, headers, refused, said, words, heardMs: then.nowMs },
  });
  const says = heard
    ? `${nameOf(n)} ${then === state ? 'hears' : 'books'} ${refused ? 'the refusal' : 'the reply'}${words === 'truth' ? '' : `, with ${words === 'none' ? 'no headers' : `headers that lie (${words})`}`}`
    : `${nameOf(n)} ${verb}`;
  return { says, state: known, wrong };
}

function refusalOf(world: World, refused: boolean, headers: RateHeaders) {
  const { periodMs } = world.rules;
  if (refused && world.refusal === 'spent') return { headers: {}, more: { spent: true }, silentMs: 0 };
  if (refused && world.refusal === 'pause') return { headers: {}, more: { freezeMs: 30_000 }, silentMs: 30_000 };
  const known = headers.resetSeconds !== undefined && headers.resetSeconds >= 0;
  return { headers, more: {}, silentMs: (known ? headers.resetSeconds! * 1000 : periodMs) + 1000 };
}

/** A later window replaces the word; within one window the least is the newest. */
function newest(word: Now['word'], { endsMs, left }: Answer): Now['word'] {
  if (!word || endsMs > word.endsMs) return { endsMs, left };
  return endsMs < word.endsMs ? word : { endsMs, left: Math.min(left, word.left) };
}

// ---- what others do, and the world ----

function* worldSteps(world: World, ledger: Ledger, state: Now): Generator<Step<Now>> {
  for (const [i, orphan] of state.orphans.entries()) {
    if (state.nowMs > orphan.untilMs) continue;
    const said = answer(world, inPeriodOf(world, state), state.nowMs, { cost: orphan.cost, ours: true });
    const orphans = state.orphans.filter((_, j) => j !== i);
    const after = counted({ ...state, uses: said.uses, orphans }, said.answer.headers.used ?? 0, -1);
    const says = 'the server counts the request of a dead process';
    yield { says, state: after, wrong: refusedWrong(world, state, said.answer, said.uses) };
  }
  for (const { sender } of state.unseen)
    yield {
      says: 'another process sees that the sender of a request is dead',
      state: {
        ...state,
        unseen: state.unseen.filter(one => one.sender !== sender),
        ledger: ledger.bury(state.ledger, momentOf(world, state), [sender], world.rules),
      },
    };
  if (state.left.others > 0) {
    const { uses } = answer(world, inPeriodOf(world, state), state.nowMs, {
      cost: world.otherCost ?? 1,
      ours: false,
    });
    yield {
      says: 'another client sends a request',
      state: { ...state, uses, left: { ...state.left, others: state.left.others - 1 } },
    };
  }
  if (state.left.setBacks > 0) {
    const left = { ...state.left, setBacks: state.left.setBacks - 1 };
    yield {
      says: 'the clock of the database is set back by an hour',
      state: { ...state, left, backMs: state.backMs + 3_600_000 },
    };
  }
  if (state.left.thaws > 0) {
    const after = ledger.thaw(state.ledger, momentOf(world, state), world.rules);
    yield {
      says: 'a person asks by hand',
      state: {
        ...state,
        ledger: after,
        silentMs: thawed(state),
        repliedMs: thawed(state) < state.silentMs ? 0 : state.repliedMs,
        left: { ...state.left, thaws: state.left.thaws - 1 },
      },
    };
  }
}

/** A person lifts the freeze of a quota, but no pause that is over within a minute. */
const thawed = ({ silentMs, nowMs }: Now) => (silentMs > nowMs + 60_000 ? 0 : silentMs);

// ---- time ----

/** A sender gives up at its deadline, unless it was suspended. */
function mustSettle(world: World, state: Now): boolean {
  const nextMs = nextTick(world, state.nowMs);
  const { periodMs } = world.rules;
  return state.processes.some(
    ({ doing }) =>
      doing.is === 'flying' && nextMs > doing.deadlineMs + (world.late && doing.answer ? periodMs + world.tickMs : 0),
  );
}

const nextTick = (world: World, nowMs: number): number => {
  const n = Math.floor((nowMs - fraction + 0.01) / world.tickMs);
  return (n + 1) * world.tickMs + fraction;
};

/**
 * To the next tick, or to the next grant if one comes before. A process that is told to go on waiting has only renewed
 * its mark: that is part of the passing of time. Where several ask in the same moment, each may be the first.
 */
function* pass(world: World, ledger: Ledger, state: Now): Generator<Step<Now>> {
  const tickMs = nextTick(world, state.nowMs);
  let now = state;
  for (;;) {
    const askMs = Math.min(
      ...now.processes.map(({ doing }) => (doing.is === 'waiting' ? doing.askMs : Number.POSITIVE_INFINITY)),
    );
    if (askMs >= tickMs) break;
    const at = { ...forget(world, now, askMs), nowMs: askMs };
    const due = at.processes.flatMap(({ doing }, n) => (doing.is === 'waiting' && doing.askMs <= askMs ? [n] : []));
    const ends: Step<Now>[] = [];
    let refused: Now | undefined;
    for (const order of orders(due)) {
      let one = at;
      let granted = false;
      for (const n of order) {
        const step = ask(world, ledger, one, n, 'asks again for');
        if (step.wrong) {
          yield { ...step, says: `${waited(state, askMs)}; ${step.says}` };
          return;
        }
        one = step.state;
        granted = one.processes[n]!.doing.is !== 'waiting';
        if (granted) {
          ends.push({ ...step, says: `${waited(state, askMs)}; ${step.says}` });
          break;
        }
      }
      if (!granted) refused ??= one;
    }
    if (ends.length > 0) {
      yield* ends;
      return;
    }
    now = refused!;
  }
  yield { says: waited(state, tickMs), state: { ...forget(world, now, tickMs), nowMs: tickMs } };
}

const waited = (state: Now, toMs: number) => `${Math.round(toMs - state.nowMs)} ms pass`;

function* orders(of: readonly number[]): Generator<number[]> {
  if (of.length < 2) yield [...of];
  else for (const one of of) for (const rest of orders(of.filter(n => n !== one))) yield [one, ...rest];
}

/** What no longer matters to the judge. */
function forget(world: World, state: Now, nowMs: number): Now {
  // The words of the source may lag by so much.
  const slackMs = world.words.includes('truth') ? world.rules.timeoutMs + 2010 : 10 + 2 * (world.clockErrorMs ?? 0);
  return {
    ...state,
    uses: inPeriod(state.uses, nowMs, world.rules.periodMs),
    orphans: state.orphans.filter(one => one.untilMs >= nowMs),
    unseen: state.unseen.filter(one => one.untilMs > nowMs),
    holds: state.holds.filter(one => one.untilMs + slackMs > nowMs),
    marksMs: state.marksMs > nowMs ? state.marksMs : 0,
    silentMs: state.silentMs > nowMs ? state.silentMs : 0,
    othersMs: state.othersMs > nowMs ? state.othersMs : 0,
    word: state.word && state.word.endsMs > nowMs ? state.word : null,
  };
}
