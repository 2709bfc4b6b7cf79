/**
 * Every short history of three clocks: the one that stamps the records, the one of an edge that writes `Date`, and ours.
 * Each is set, alone or with another one; pages show fresh stamps, old ones, none, or one that is dated ahead. Nothing is
 * proven that the records' clock had not shown when the request was granted, and what two clocks of the source agree on is.
 * Where Date or our clock is not behind that clock, no reply shows what was stamped later than is said.
 */
import type { Rules, State } from '../../../../src/engine/budget/ledger.ts';
import type { Replacement } from '../planted.ts';
import { compared } from './compared.ts';
import { beginMs, type Ledger } from './steps.ts';

const secondMs = 1000;
const minuteMs = 60_000;
const hourMs = 3_600_000;
const tookMs = 398;
/** Our clock that is set back takes up to the time between two requests with it, each of four times. */
const unsureMs = 45 * secondMs;
const rules: Rules = { credits: 1e6, periodMs: 4000, requestsPerSecond: 1e6, reserve: 0, timeoutMs: 200_000 };

/** What happens between two requests. Undefined: nothing of that kind. */
interface Happens {
  readonly says: string;
  /** The edge's clock is set, ours, or both clocks of the source. */
  readonly edgeMs?: number;
  readonly oursMs?: number;
  readonly sourceMs?: number;
  /** Second newest stamp of the page, less the records' clock. */
  readonly stampMs?: number;
}

const happens: readonly Happens[] = [
  { says: 'nothing happens' },
  { says: 'two records were just changed', stampMs: -secondMs },
  { says: 'two records were changed three minutes ago', stampMs: -3 * minuteMs },
  { says: 'two records are dated 100 minutes ahead', stampMs: 100 * minuteMs },
  ...[3 * minuteMs, -3 * minuteMs, hourMs, 3 * secondMs].map(edgeMs => ({
    says: `the edge is set by ${edgeMs} ms`,
    edgeMs,
  })),
  ...[hourMs, -hourMs].map(sourceMs => ({ says: `the source is set by ${sourceMs} ms`, sourceMs })),
  { says: 'the source is set by an hour, and changes two records', sourceMs: hourMs, stampMs: -secondMs },
  { says: 'ours is set back by an hour', oursMs: -hourMs },
];

interface Past {
  readonly state: State;
  readonly nowMs: number;
  /** Less the true time. */
  readonly records: number;
  readonly edge: number;
  readonly ours: number;
  /** Our clock, or fresh stamps below `Date`, have told the records' clock since a clock of the source was set. */
  readonly isTold: boolean;
}

/** Returns the first history that goes wrong. `isCompared`: also with the plain ledger. */
export function recordClocksWrong(examined: Ledger, isCompared = true): string | undefined {
  const ledger = isCompared ? compared(examined) : { ...examined, difference: () => undefined };
  const first = { state: ledger.empty, nowMs: beginMs, records: 0, edge: 0, ours: 0, isTold: true };
  return play(ledger, after(ledger, first, { says: 'the first reply' }).next, 4);
}

type Examined = Ledger & { difference(): string | undefined };

function play(ledger: Examined, past: Past, times: number): string | undefined {
  if (times === 0) return undefined;
  for (const one of happens) {
    const { next, wrong: own } = after(ledger, past, one);
    // All witnesses are wrong: nothing can tell.
    if (Math.min(next.edge, next.ours) > next.records) continue;
    const wrong = own ?? ledger.difference() ?? play(ledger, next, times - 1);
    if (wrong) return `${one.says}; ${wrong}`;
  }
  return undefined;
}

function after(ledger: Examined, past: Past, happens: Happens): { next: Past; wrong?: string | undefined } {
  const { edgeMs = 0, sourceMs = 0, oursMs = 0, stampMs } = happens;
  const records = past.records + sourceMs;
  const edge = past.edge + sourceMs + edgeMs;
  const ours = past.ours + oursMs;
  const sentMs = past.nowMs + 10 * secondMs;
  const at = (atMs: number) => ({ earliestMs: atMs + ours, latestMs: atMs + ours });
  const dateMs = Math.floor((sentMs + edge) / secondMs) * secondMs;
  const stamp = stampMs === undefined ? {} : { stampMs: sentMs + records + stampMs };
  const { state } = ledger.acquire(past.state, at(sentMs), { id: 'one', lane: 'fresh', cost: 1 }, rules);
  const reply = { headers: {}, refused: false, dateMs, ...stamp };
  const done = ledger.settle(state, at(sentMs + tookMs), 'one', reply, rules);
  const agree = stampMs === -secondMs && records <= edge && edge - records < 2 * minuteMs - unsureMs;
  const isTold = agree || (past.isTold && edgeMs === 0 && sourceMs === 0);
  const next = { state: done.state, nowMs: sentMs + tookMs, records, edge, ours, isTold };
  const provenMs = Math.min(done.settled?.asOfMs ?? Number.POSITIVE_INFINITY, dateMs - secondMs) - sentMs;
  if (provenMs > records) return { next, wrong: `${provenMs - records} ms more are proven than were shown` };
  const shownByMs = done.settled?.shownByMs ?? dateMs + secondMs;
  const latestMs = Math.max(edge, ours);
  if (sentMs + Math.min(records, latestMs) >= shownByMs)
    return { next, wrong: `what was stamped ${sentMs + records - shownByMs} ms later is shown` };
  if (shownByMs > sentMs + latestMs + tookMs + 3 * secondMs)
    return { next, wrong: `it is shown ${shownByMs - sentMs - latestMs} ms later than by any clock` };
  const agreedMs = Math.min(edge, isTold ? records : Math.min(records, ours));
  if (provenMs < agreedMs - unsureMs)
    return { next, wrong: `${agreedMs - provenMs} ms less are proven than all agree on` };
  return { next };
}

const mistake = (from: string, to: string, file = 'record-clock'): readonly Replacement[] => [
  { file: `src/engine/budget/${file}.ts`, from, to },
];

/** Mistakes that are easily made, by what is wrong. */
export const plantedInRecordClock: Readonly<Record<string, readonly Replacement[]>> = {
  'nothing but Date bounds it': mistake('asOfMs: grantedMs + leastMs - grainMs', 'asOfMs: Number.POSITIVE_INFINITY'),
  'our clock alone bounds it': mistake('Math.max(0, told, kept)', 'Math.max(0)'),
  'a stamp beyond Date counts': mistake('isFresh && stampMs <= dateMs + grainMs', 'isFresh'),
  'Date falls and the bound does not': mistake('keptAt(clock, grantedMs) - fallenMs', 'keptAt(clock, grantedMs)'),
  'stamps count for one reply': mistake('keptAt(clock, grantedMs) - fallenMs', '0'),
  'our clock is set and the bound is not': mistake('leastMs: leastMs - byMs', 'leastMs'),
  'nothing is shown later than Date': mistake('return isEarly ?', 'return false ?', 'clocks'),
  'our clock alone says what is shown': mistake('return isEarly ?', 'return true ?', 'clocks'),
  'what is shown was shown at the grant': mistake(
    'Math.ceil(repliedMs / grainMs + 1) * grainMs + grainMs / 2',
    'grantedMs',
    'clocks',
  ),
};
