/**
 * Every short history of the source's clock: it stands, drifts, is set back and forward, and back again; replies come at once, late
 * or the wrong way round; our own clock is set as well.
 */
import type { Rules, State } from '../../../../src/engine/budget/ledger.ts';
import { compared } from './compared.ts';
import { beginMs, type Ledger } from './steps.ts';

const lookbackMs = 120_000;
const hourMs = 3_600_000;
const believedMs = 300_000;
const tookMs = 398;
/** How far from its middle a Date may lie: it has a grain of a second, and was written between grant and reply. */
const unsureMs = (1000 + tookMs + 2) / 2;
const rules: Rules = {
  ...{ credits: 1_000_000, periodMs: 4000, requestsPerSecond: 1_000_000, reserve: 0, timeoutMs: 200_000 },
  clockToleranceMs: lookbackMs,
};

interface Happens {
  /** The source's clock is set by this. */
  readonly stepMs: number;
  /** Then so much time passes until the next request. */
  readonly passesMs: number;
  /** How long it is on its way; default: 398 ms. */
  readonly tookMs?: number;
  /** Our clock is set by this. */
  readonly oursMs?: number;
  /** A request that was sent before it is answered after it. */
  readonly overtaken?: boolean;
}

const times = <A, B, C>(as: readonly A[], bs: readonly B[], both: (a: A, b: B) => C): C[] =>
  as.flatMap(a => bs.map(b => both(a, b)));
const step = (stepMs: number, passesMs: number): Happens => ({ stepMs, passesMs });

/** What may happen, and how many times in a row anything of it does. */
const histories: readonly { readonly happens: readonly Happens[]; readonly times: number }[] = [
  {
    happens: [
      ...times([0, -hourMs, hourMs, 2 * hourMs], [1000, believedMs - tookMs], step),
      { stepMs: 0, passesMs: 1000, oursMs: -hourMs },
      { stepMs: 0, passesMs: 1000, oursMs: 500 - hourMs },
    ],
    times: 4,
  },
  {
    happens: times(
      [
        0,
        lookbackMs,
        lookbackMs + 1,
        lookbackMs + unsureMs - 1,
        lookbackMs + unsureMs,
        lookbackMs + unsureMs + 1,
      ].flatMap(ms => [ms, -ms]),
      [2000 - tookMs],
      step,
    ),
    times: 3,
  },
  {
    happens: [
      ...times([0, -hourMs, hourMs, 60_000, -60_000], [1000], step),
      { stepMs: 0, passesMs: 1000, tookMs: 130_000 },
      { stepMs: -hourMs, passesMs: 1000, tookMs: 130_000 },
      { stepMs: 0, passesMs: 1000, overtaken: true },
      { stepMs: -hourMs, passesMs: 1000, overtaken: true },
    ],
    times: 4,
  },
];

interface Past {
  readonly state: State;
  readonly nowMs: number;
  readonly sourceMs: number;
  readonly oursMs: number;
  /** All before this time of the source is claimed. */
  readonly claimedMs: number;
  /** The last request, and what the source's clock was then. */
  readonly lastMs: number;
  /** Since when the clock has stood still. */
  readonly stillMs: number;
  /** The last reply that came when the clock had stood still for long enough. */
  readonly settled: boolean;
}

export function clocksWrong(ledger: Ledger): string | undefined {
  const examined = compared(ledger);
  for (const { happens, times } of histories) {
    const begun = after(examined, { ...first, state: examined.empty }, step(0, 1000)).past;
    const wrong = play(examined, begun, happens, times);
    if (wrong) return wrong;
  }
  return undefined;
}

const first = {
  ...{ nowMs: beginMs, sourceMs: -7 * hourMs, oursMs: 0, claimedMs: 0, lastMs: beginMs, stillMs: beginMs },
  settled: false,
};

function play(
  ledger: ReturnType<typeof compared>,
  past: Past,
  happens: readonly Happens[],
  times: number,
): string | undefined {
  if (times === 0) return undefined;
  for (const one of happens) {
    const done = after(ledger, past, one);
    const wrong = done.wrong ?? ledger.difference() ?? play(ledger, done.past, happens, times - 1);
    if (wrong) return `${says(one)}; ${wrong}`;
  }
  return undefined;
}

const says = ({ stepMs, passesMs, tookMs, oursMs, overtaken }: Happens) =>
  [
    `${passesMs} ms pass`,
    ...(stepMs !== 0 ? [`the source's clock is set by ${stepMs} ms`] : []),
    ...(oursMs !== undefined ? [`ours is set by ${oursMs} ms`] : []),
    ...(overtaken ? ['a request overtakes another'] : []),
    ...(tookMs !== undefined ? [`a request takes ${tookMs} ms`] : []),
  ].join(', ');

function after(ledger: Ledger, past: Past, happens: Happens): { past: Past; wrong?: string | undefined } {
  const ms = happens.tookMs ?? tookMs;
  const sentMs = past.nowMs + happens.passesMs;
  const oursMs = past.oursMs + (happens.oursMs ?? 0);
  const sourceMs = past.sourceMs + happens.stepMs;
  const at = (atMs: number) => ({ earliestMs: atMs + oursMs, latestMs: atMs + oursMs });
  const send = (had: State, id: string, atMs: number) =>
    ledger.acquire(had, at(atMs), { id, lane: 'fresh', cost: 1 }, rules).state;
  const dateOf = (atMs: number) => Math.floor((atMs + sourceMs) / 1000) * 1000;
  const hear = (had: State, id: string, atMs: number, dateMs: number) =>
    ledger.settle(had, at(atMs), id, { headers: {}, refused: false, dateMs }, rules);
  let state = past.state;
  // Sent half a second before, and answered after this one; so late that the account knows it is alone.
  if (happens.overtaken) state = send(state, 'overtaken', sentMs - 500);
  state = send(state, 'one', sentMs);
  const done = hear(state, 'one', sentMs + ms, dateOf(sentMs));
  ({ state } = done);
  if (happens.overtaken) ({ state } = hear(state, 'overtaken', sentMs + ms + 1, dateOf(sentMs - 500)));
  const clock = done.settled?.clock;
  if (!clock) return { past, wrong: 'a reply tells nothing of the clock' };
  const moved = happens.stepMs !== 0 || happens.oursMs !== undefined || happens.overtaken === true;
  const stillMs = moved ? sentMs + ms : past.stillMs;
  // The reply that makes it believed proves nothing yet.
  const settled = !moved && sentMs + ms - stillMs >= believedMs;
  const kept = Math.min(past.claimedMs, clock.voidFromMs ?? Number.POSITIVE_INFINITY);
  const dateMs = dateOf(sentMs);
  const claimedMs = clock.steady ? Math.max(kept, dateMs - lookbackMs) : kept;
  const next = { state, nowMs: sentMs + ms, sourceMs, oursMs, claimedMs, lastMs: sentMs, stillMs, settled };
  if (past.settled && settled && !clock.steady)
    return { past: next, wrong: 'a clock that stands still is not believed' };
  // It may have been set back right after the last reply.
  const shownMs = past.lastMs + sourceMs;
  if (happens.stepMs < -lookbackMs - 2 * unsureMs && kept > shownMs)
    return { past: next, wrong: `what is claimed is shown again, ${kept - shownMs} ms of it` };
  return { past: next };
}
