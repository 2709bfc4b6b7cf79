/**
 * Shows the progress of a run: one line per stream with share, credits, rate and time left. A terminal is redrawn in place;
 * other outputs get a line every 10 seconds.
 */
import type pg from 'pg';
import type { Clock } from '../../clock.ts';
import type { Limits } from '../../engine/budget/budget.ts';
import { type ForecastTotals, forecastOf } from '../../engine/forecast/forecast-rows.ts';
import type { Wait } from '../../engine/http/send.ts';
import { isMostlyRejected, readProgress, type StreamProgress } from '../../engine/runs/runs.ts';
import { streams as declared, streamNames } from '../../sources/index.ts';
import { amount, count, duration } from '../../words.ts';
import { cursor, frameOf, type Line, percentOf, redraw, type Tone } from './frame.ts';
import { keepBelow, say, style } from './terminal.ts';

/** Interval of progress lines without a terminal. */
const quietMs = 10_000;
/** Between two counts of pending records: at least so long, and so many times as long as the last one took. */
const countMs = 2000;
const countShare = 50;

/** Only streams whose records are fetched by id declare `pending`. */
const pendingOf = (name: string) => declared.find(stream => stream.name === name)?.pending;

export type Progress = ReturnType<typeof showProgress>;

/**
 * `waits`: why this process sends no request of the stream's source now. Another process may run the stream. Without a terminal
 * `tell` gets a line every `everyMs`, and one at once if the run has begun long before.
 */
export function showProgress(
  db: pg.Pool,
  run: number,
  { limits, waits }: { limits: (stream: string) => Limits; waits: (stream: string) => Wait | undefined },
  clock: Clock,
  {
    tell = say,
    everyMs = quietMs,
    isBegun = false,
  }: { tell?: (line: string) => void; everyMs?: number; isBegun?: boolean } = {},
) {
  const screen = process.stderr.isTTY === true ? openScreen() : undefined;
  const begun = new Map<string, Begun>();
  const told = new Set<string>();
  let shownAtMs = isBegun ? -Infinity : clock.monotonic();
  let forecast: ForecastTotals | null | undefined;

  function once(line: string): void {
    if (told.has(line)) return;
    told.add(line);
    if (screen) screen.above(line);
    else tell(line);
  }

  const counted = new Map<string, { waiting: number; untilMs: number }>();
  /** Pending records. The last count is kept: to count a hundred thousand is slow. */
  async function countedLeft({ stream, account_id, expected }: StreamProgress): Promise<number> {
    const pending = pendingOf(stream);
    if (pending === undefined || expected !== null) return 0;
    const last = counted.get(stream);
    const fromMs = clock.monotonic();
    if (last && fromMs <= last.untilMs) return last.waiting;
    const waiting = await pending.countLeft(db, { account: account_id, run });
    const tookMs = clock.monotonic() - fromMs;
    counted.set(stream, { waiting, untilMs: fromMs + tookMs + Math.max(countMs, countShare * tookMs) });
    return waiting;
  }

  async function standOf(current: StreamProgress): Promise<Stand> {
    const waiting = await countedLeft(current);
    const start = begun.get(current.stream) ?? { atMs: clock.monotonic(), credits: current.credits, waiting };
    begun.set(current.stream, start);
    const elapsedMs = clock.monotonic() - start.atMs;
    return standing(current, {
      waiting,
      start,
      elapsedMs,
      limits: limits(current.stream),
      wait: waits(current.stream),
      forecast: totalsOf(current),
    });
  }

  const totalsOf = ({ stream }: StreamProgress) => forecast?.streams[stream];

  return {
    /** Shows the current progress. Returns true once the run has ended. */
    async look(): Promise<boolean> {
      const { state, streams: unordered } = await readProgress(db, run);
      // Null: the run has no forecast and will not get one.
      if (forecast === undefined) forecast = (await forecastOf(db, run)) ?? null;
      const streams = inOrder(unordered);
      const waits = streams.find(stream => stream.state === 'waiting' && stream.waits_for !== null);
      if (waits) once(`${waits.stream} waits for run ${waits.waits_for}, which reads the same`);
      for (const { stream, note } of streams.filter(one => one.state === 'running' && one.note !== null))
        once(`${stream}: ${note}`);
      const stands = new Map<string, Stand>();
      for (const one of streams) if (one.state === 'running') stands.set(one.stream, await standOf(one));
      if (screen) screen.draw(streams.map(one => lineOf(one, stands.get(one.stream), totalsOf(one))));
      else {
        for (const one of streams.filter(isOver)) once(`${mark(one)} ${one.stream.padEnd(10)} ${summary(one)}`);
        if (stands.size > 0 && clock.monotonic() - shownAtMs >= everyMs) {
          // One running stream per source.
          tell(`  ${[...stands].map(([stream, stand]) => `${stream.padEnd(10)} ${sentence(stand)}`).join('  ·  ')}`);
          shownAtMs = clock.monotonic();
        }
      }
      return state !== 'running';
    },
    /** Prints a line unless it was printed before. */
    say: once,
    end: () => screen?.leave(),
  };
}

/** Progress area at the bottom of the terminal. The last frame stays visible. */
function openScreen() {
  let shown: readonly string[] = [];
  let last: readonly Line[] = [];
  let isHidden = false;
  const show = () => {
    if (isHidden) process.stderr.write(cursor.show);
    isHidden = false;
  };
  // A terminal that does not know its size says 0.
  const columns = () => process.stderr.columns || 80;
  const write = (above: readonly string[]) => {
    // Rows that scrolled off cannot be redrawn. Keep the last lines, which are the running streams.
    const lines = frameOf(last, columns(), paint).slice(-Math.max(1, (process.stderr.rows || 24) - 1));
    if (above.length === 0 && lines.join('\n') === shown.join('\n')) return;
    process.stderr.write(`${isHidden ? '' : cursor.hide}${redraw(shown, lines, columns(), above)}`);
    if (!isHidden) process.once('exit', show);
    keepBelow(write);
    isHidden = true;
    shown = lines;
  };
  return {
    draw(lines: readonly Line[]) {
      last = lines;
      write([]);
    },
    above: (line: string) => write([line]),
    leave() {
      show();
      keepBelow(undefined);
      process.removeListener('exit', show);
      shown = [];
      last = [];
    },
  };
}

const colours = { done: 'green', wrong: 'yellow', busy: 'cyan', quiet: 'dim' } as const;
const paint = (tone: Tone, text: string) => (text === '' ? '' : style(colours[tone], text, process.stderr));

/** Streams in the order of a full sync. */
export const inOrder = (streams: readonly StreamProgress[]) =>
  streams.toSorted((a, b) => streamNames.indexOf(a.stream) - streamNames.indexOf(b.stream));

const isOver = ({ state }: StreamProgress) => state !== 'waiting' && state !== 'running';

const mark = (stream: StreamProgress) =>
  isMostlyRejected(stream)
    ? style('red', '✗', process.stderr)
    : stream.state === 'completed'
      ? style('green', '✓', process.stderr)
      : style('yellow', '!', process.stderr);

type StreamForecast = ForecastTotals['streams'][string] | undefined;

// @internal Tests show states that no run stays in.
export function lineOf(stream: StreamProgress, stand: Stand | undefined, forecast: StreamForecast): Line {
  const { stream: name, state, waits_for } = stream;
  if (isOver(stream)) {
    const isDone = state === 'completed';
    if (isMostlyRejected(stream))
      return {
        mark: '✗',
        name,
        hasBar: false,
        text: `${state}: ${summary({ ...stream, state: 'completed' })}`,
        tone: 'wrong',
      };
    return { mark: isDone ? '✓' : '!', name, hasBar: false, text: summary(stream), tone: isDone ? 'done' : 'wrong' };
  }
  if (stand !== undefined) {
    const { share, words, isWaiting } = stand;
    return { mark: '▸', name, share, hasBar: !isWaiting, text: words.join(', '), tone: 'busy' };
  }
  const expected = forecast && forecast.credits > 0;
  const text =
    waits_for !== null
      ? `waits for run ${waits_for}`
      : expected
        ? `waits: about ${count(forecast.credits, 'credit')}, ${duration(forecast.seconds)}`
        : 'waits';
  return { mark: '·', name, hasBar: false, text, tone: 'quiet' };
}

function summary(stream: StreamProgress): string {
  if (stream.carried_from !== null) return `already read by run ${stream.carried_from}`;
  const { seen, inserted, updated, rejected, credits } = stream;
  const parts = [`${amount(seen)} read`, `${amount(inserted)} new`, `${amount(updated)} changed`];
  if (rejected > 0) parts.push(`${amount(rejected)} rejected`);
  parts.push(count(credits, 'credit'));
  return stream.state === 'completed' ? parts.join(', ') : `${stream.state}: ${parts.join(', ')}`;
}

interface Begun {
  readonly atMs: number;
  readonly credits: number;
  readonly waiting: number;
}

/** Progress of a stream: share and texts such as `1,200 of 2,000`, `13 min left`, `24 credits`, `95 credits/min`. */
export interface Stand {
  readonly share: number | undefined;
  readonly words: readonly string[];
  /** The reason of a wait takes the place of the bar. */
  readonly isWaiting: boolean;
}

/** Progress as one line, without a terminal: `1,200 of 2,000 (60 %), 13 min left, 24 credits, 95 credits/min` */
function sentence({ share, words: [first, ...rest] }: Stand): string {
  return [share === undefined ? first : `${first} (${percentOf(share)} %)`, ...rest].join(', ');
}

// @internal Tests show waits and speeds that no run keeps.
export function standing(
  stream: StreamProgress,
  now: {
    waiting: number;
    start: Begun;
    elapsedMs: number;
    limits: Limits;
    forecast: StreamForecast;
    wait?: Wait | undefined;
  },
): Stand {
  const { waiting, start, elapsedMs, limits, forecast, wait } = now;
  // A re-reading run knows its total in advance.
  const one = stream.expected === null ? pendingOf(stream.stream) : undefined;
  const total = one ? start.waiting : stream.expected;
  const done = one ? Math.max(0, start.waiting - waiting) : stream.seen;
  const used = stream.credits - start.credits;
  const share = total
    ? Math.min(1, done / total)
    : forecast?.credits
      ? Math.min(0.99, stream.credits / forecast.credits)
      : undefined;
  const counted = (n: number) => (one ? count(n, one.unit) : amount(n));
  const read = total ? `${amount(Math.min(done, total))} of ${counted(total)}` : counted(done);
  const left = one ? waiting * one.cost : leftOf(stream, share, forecast);
  const isWaiting = wait !== undefined && wait.wholeMs >= shortestWaitMs;
  const isMoving = used > 0 || elapsedMs <= settledMs;
  const workMs = left === undefined || !(isMoving || isWaiting) ? undefined : timeLeftMs(left, used, elapsedMs, limits);
  const leastMs = isWaiting ? wait.ms : 0;
  // The most important words come first, because a narrow line loses its end.
  const words = [
    read,
    ...(isWaiting ? [waitText(wait)] : []),
    ...(workMs === undefined ? [] : [`${duration(Math.max(workMs, leastMs) / 1000)} left`]),
    count(stream.credits, 'credit'),
    ...(elapsedMs > settledMs && used > 0 ? [`${count(Math.round((used / elapsedMs) * 60_000), 'credit')}/min`] : []),
  ];
  return { share, words, isWaiting };
}

/** Between two requests there is always a short wait. */
const shortestWaitMs = 3000;

/** `waiting for credits, resumes in 31 s`, `retrying (connection refused), try 4, next in 12 s` */
export const waitText = ({ why, ends, ms }: Wait): string => `${why}, ${ends} ${duration(ms / 1000)}`;

/** The rate is measured after this time. A stream without used credits by then has no rate and no remaining time. */
const settledMs = 2000;

/** Remaining credits: extrapolated from the use so far; before 2 % are done, taken from the forecast. */
function leftOf({ credits }: StreamProgress, share: number | undefined, forecast: StreamForecast): number | undefined {
  if (share !== undefined && share > 0.02 && credits > 0) return (credits * (1 - share)) / share;
  return forecast && Math.max(0, forecast.credits - credits);
}

/** Time left at the measured rate, or at the limits before any measurement. Never faster than the limits allow. */
function timeLeftMs(
  credits: number,
  used: number,
  elapsedMs: number,
  { credits: most, reserve, periodMs, requestsPerSecond }: Limits,
): number {
  const allowed = (most - reserve) / periodMs;
  if (elapsedMs > settledMs && used > 0) {
    const measured = used / elapsedMs;
    return credits / (credits > most - reserve ? Math.min(measured, allowed) : measured);
  }
  return Math.max(credits / allowed - periodMs, (credits / requestsPerSecond) * 1000, 0);
}
