/** A state of the model: processes, the server, the ledger, and what the judge remembers. And its canonical key. */
import type { Lane, Moment, State } from '../../../../src/engine/budget/ledger.ts';
import type { Answer, Use } from './server.ts';
import type { Words, World } from './worlds.ts';

export interface Process {
  readonly lane: Lane;
  readonly cost: number;
  /** Requests that it may still begin. */
  readonly left: number;
  /** Its number, which no process has after it. */
  readonly sender: number;
  readonly doing: Doing;
}

export type Doing =
  | { readonly is: 'idle' }
  | {
      readonly is: 'waiting';
      readonly id: string;
      readonly sinceMs: number;
      /** When it asks again. */
      readonly askMs: number;
      readonly unmarked?: number | undefined;
    }
  | {
      /** Granted. The server counts it once it has an answer. */
      readonly is: 'flying';
      readonly id: string;
      readonly waitedMs: number;
      readonly grantedMs: number;
      /** The server has counted it by then, or never. */
      readonly deadlineMs: number;
      readonly answer?: Answer;
      /** Its process has heard the answer, and has not booked it yet. */
      readonly heard?: Heard;
    };

interface Heard {
  readonly words: Words;
  readonly nowMs: number;
  readonly backMs: number;
}

/** A request whose sender died. The server may still count it. */
interface Orphan {
  readonly cost: number;
  readonly untilMs: number;
}

/** A process that died with a request in flight, and whom nobody has looked for yet. */
interface Unseen {
  readonly sender: number;
  readonly untilMs: number;
}

/** Credits that the rules hold: from the grant until a period after the reply, or after the deadline of a dead one. */
export interface Hold {
  readonly untilMs: number;
  readonly cost: number;
  readonly lane: Lane;
  /** The slot of the second is held until then. */
  readonly burstMs: number;
  /** No reply said whether the server had counted it. */
  readonly unsure: boolean;
  readonly refused: boolean;
}

export interface Now {
  readonly nowMs: number;
  /** How far the clock of the database was set back. */
  readonly backMs: number;
  /** The next id. Ids grow, as requests do. */
  readonly ids: number;
  readonly ledger: State;
  readonly processes: readonly Process[];
  readonly orphans: readonly Orphan[];
  readonly unseen: readonly Unseen[];
  readonly uses: readonly Use[];
  readonly left: {
    readonly deaths: number;
    readonly cuts: number;
    readonly cancels: number;
    readonly others: number;
    readonly setBacks: number;
    readonly thaws: number;
  };

  // What the judge remembers.
  readonly holds: readonly Hold[];
  /** After a refusal no request goes before this time. */
  readonly silentMs: number;
  /** The last true word of a fixed window: what is left in it at the most, less what was counted since. */
  readonly word: { readonly endsMs: number; readonly left: number } | null;
  /** The least limit that binds: the one told last. */
  readonly limit: number | null;
  /** Others were seen, and are remembered until then. */
  readonly othersMs: number;
  readonly repliedMs: number;
  /** The mark of a process that died while it waited is gone by then. */
  readonly marksMs: number;
  /** When a reply first told a limit. */
  readonly toldMs: number;
}

/**
 * What the ledger is told of the time. The true time lies at one end of what a process knows: at the beginning for one
 * process, at the end for the other. So whoever stamps too early meets somebody who asks too early.
 */
export function momentOf(world: World, { nowMs, backMs }: Pick<Now, 'nowMs' | 'backMs'>, process = 0): Moment {
  const errorMs = world.clockErrorMs ?? 0;
  const databaseMs = nowMs - backMs;
  if (process % 2 === 0) return { earliestMs: databaseMs, latestMs: databaseMs + errorMs };
  return { earliestMs: databaseMs - errorMs, latestMs: databaseMs };
}

export const isSlow = (lane: Lane): boolean => lane === 'backfill' || lane === 'sweep';

/** Alone, a request waits no longer than this. */
export function longestWaitMs(world: World, lane: Lane): number {
  const { periodMs, timeoutMs } = world.rules;
  const flights = (world.processes.length + 1) * (timeoutMs + 2000);
  return (isSlow(lane) ? 2 : 1) * periodMs + flights + (world.late ? periodMs : 0);
}

const laneLetter: Record<Lane, string> = { interactive: 'i', fresh: 'f', backfill: 'b', sweep: 's' };

/**
 * Two states with one key have the same future. Times are told from now: only how far away they are matters. What lies
 * further back than any rule looks lies equally far back. Processes are sorted: their numbers mean nothing. `advanced` is
 * the ledger with what has expired dropped by itself.
 */
export function keyOf(world: World, state: Now, advanced: State, symmetric = true): string {
  const { periodMs, timeoutMs } = world.rules;
  const { nowMs, backMs } = state;
  const oldestMs = -(periodMs + timeoutMs + 2000 + 2 * (world.clockErrorMs ?? 0));
  /** A time of the world. Tenths of a millisecond, because moments have fractions. */
  const t = (ms: number) => (ms === 0 ? 'n' : Math.max(oldestMs, Math.round((ms - nowMs) * 10) / 10));
  /** Since when one waits. It counts up to the longest wait, and a moment beyond. */
  const w = (lane: Lane, ms: number) => Math.max(-longestWaitMs(world, lane) - 1, Math.round((ms - nowMs) * 10) / 10);
  const d = (ms: number) => (ms === 0 ? 'n' : Math.max(oldestMs, Math.round((ms - nowMs + backMs) * 10) / 10));

  /** A time that only matters as long as it is to come. */
  const past = (ms: number) => Math.max(-1, Math.round((ms - nowMs + backMs) * 10) / 10);

  const doing = state.processes.map(({ lane, cost, left, doing }, n) => {
    // With clocks that are off, processes are not alike.
    const begin = `${world.clockErrorMs ? n : ''}${laneLetter[lane]}${cost}${left}`;
    if (doing.is === 'idle') return begin;
    if (doing.is === 'waiting')
      return `${begin}w${w(lane, doing.sinceMs)},${t(doing.askMs)},${doing.unmarked === undefined ? '' : d(doing.unmarked)}`;
    const { answer, heard } = doing;
    const said = answer
      ? `${answer.refused ? 'r' : 'a'}${answer.headers.remaining},${answer.headers.resetSeconds},${answer.headers.used},${t(answer.endsMs)},${answer.left},${answer.others}`
      : '';
    return `${begin}g${t(doing.grantedMs)},${t(doing.deadlineMs)},${doing.waitedMs}${said}${heard ? `h${heard.words}${t(heard.nowMs)},${d(heard.nowMs - heard.backMs)}` : ''}`;
  });
  const order = doing.map((_, n) => n);
  if (symmetric) {
    // Of equal processes, the one that asked first is the first: their ids say so.
    const idOf = (n: number) => {
      const { doing } = state.processes[n]!;
      return doing.is === 'idle' ? '' : doing.id;
    };
    order.sort((a, b) => (doing[a]! < doing[b]! ? -1 : doing[a]! > doing[b]! ? 1 : idOf(a) < idOf(b) ? -1 : 1));
  }
  const label = new Map<string, number>();
  order.forEach((n, place) => {
    const { doing } = state.processes[n]!;
    if (doing.is !== 'idle') label.set(doing.id, place);
  });
  const name = (id: string) => label.get(id) ?? 'x';
  const s = advanced;
  const flights = s.flights
    .map(
      one =>
        `${name(one.id)}${laneLetter[one.lane]}${one.cost},${d(one.grantedMs)},${d(one.deadlineMs)},${one.waitedMs}${one.orphaned ? 'o' : ''}`,
    )
    .sort();
  const waits = s.waits
    .toSorted((a, b) => a.sinceMs - b.sinceMs || (a.id < b.id ? -1 : 1))
    .map(
      one => `${name(one.id)}${laneLetter[one.lane]}${one.cost},${w(one.lane, one.sinceMs + backMs)},${d(one.untilMs)}`,
    );
  const { source } = s;
  // Only its phase matters, once it is old.
  const olderMs = source
    ? Math.max(0, Math.ceil((nowMs - backMs + oldestMs - source.resetToMs) / periodMs)) * periodMs
    : 0;
  const p = (ms: number) => Math.round((ms + olderMs - nowMs + backMs) * 10) / 10;
  const phase = world.window === 'fixed' ? Math.round(((nowMs - world.phaseMs) % periodMs) * 10) / 10 : '';
  const tick = Math.round((nowMs % world.tickMs) * 10) / 10;
  return [
    order.map(n => doing[n]).join(';'),
    flights.join(';'),
    s.spent.map(([freeMs, ...lanes]) => `${d(freeMs)}:${lanes.join('')}`).join(';'),
    [s.burst, ...s.further.map(([, burst]) => burst)]
      .map(burst => burst.map(([freeMs, n]) => `${d(freeMs)}:${n}`).join(';'))
      .join('+'),
    waits.join(';'),
    `${s.limit}`,
    source &&
      `${source.remaining},${p(source.untilMs)},${p(source.sinceMs)},${source.fixed},${p(source.resetFromMs)},${p(source.resetToMs)}`,
    s.others.map(([untilMs, n]) => `${d(untilMs)}:${n}`).join(';'),
    [s.slidingUntilMs, s.frozenUntilMs].map(past).join(','),
    [s.lastReplyMs, s.answeredMs, s.lastGrantMs, s.evenMs].map(d).join(','),
    `${s.lastGrantCost}`,
    `${phase},${tick},${world.setBacks ? `${d(state.ledger.atMs)},${backMs}` : ''}`,
    state.uses.map(use => `${t(use.atMs)}:${use.cost}${use.ours ? '' : 'o'}`).join(';'),
    state.orphans
      .map(one => `${t(one.untilMs)}:${one.cost}`)
      .sort()
      .join(';'),
    state.unseen
      .map(one => t(one.untilMs))
      .sort()
      .join(';'),
    state.holds
      .map(
        one =>
          `${t(one.untilMs)}:${one.cost}${laneLetter[one.lane]}${one.unsure ? 'u' : ''}${one.refused ? 'r' : ''},${t(one.burstMs)}`,
      )
      .sort()
      .join(';'),
    `${t(state.silentMs)},${state.word ? `${t(state.word.endsMs)}:${state.word.left}` : ''},${state.limit},${t(state.othersMs)},${t(state.repliedMs)},${t(state.marksMs)},${t(state.toldMs)}`,
    Object.values(state.left).join(''),
  ].join('|');
}
