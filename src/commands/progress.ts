/**
 * What people see while a run is at work: counts, credits, rate, time left. One line that is rewritten on a terminal,
 * a line now and then elsewhere.
 */
import type pg from 'pg';
import type { Limits } from '../budget/budget.ts';
import type { Clock } from '../clock.ts';
import { streamNames } from '../streams/index.ts';
import { readProgress, type StreamProgress } from '../warehouse/runs.ts';
import { countWaitingVolumes } from '../warehouse/volumes.ts';
import { countLeft } from '../warehouse/waiting.ts';
import { amount, duration, say, style } from './terminal.ts';

/** Between two lines where nothing can be rewritten. */
const quietMs = 10_000;
/** Between two counts of what waits. */
const countMs = 2000;
/** What is asked for by id, and what one of it costs: a ticket with its messages 2 credits (spec, Limits). */
const byId: Record<string, { things: string; credits: number }> = {
  messages: { things: 'tickets', credits: 2 },
  volumes: { things: 'volumes', credits: 1 },
};

export interface Progress {
  /** Shows where the run is; true when it is over. */
  look(): Promise<boolean>;
  /** A line that is said once, however often it would be. */
  say(line: string): void;
  end(): void;
}

export function showProgress(db: pg.Pool, run: number, limits: (stream: string) => Limits, clock: Clock): Progress {
  const lively = process.stderr.isTTY === true;
  const begun = new Map<string, { atMs: number; credits: number; waiting: number }>();
  const told = new Set<string>();
  let shownAtMs = clock.monotonic();

  function show(line: string): void {
    if (lively) process.stderr.write(`\r\x1b[2K${line.slice(0, (process.stderr.columns ?? 80) - 1)}`);
    else if (clock.monotonic() - shownAtMs >= quietMs) {
      say(line);
      shownAtMs = clock.monotonic();
    }
  }

  function once(line: string): void {
    if (told.has(line)) return;
    told.add(line);
    if (lively) process.stderr.write('\r\x1b[2K');
    say(line);
  }

  const counted = new Map<string, { waiting: number; atMs: number }>();
  /** Counted anew every few seconds: there may be a hundred thousand. */
  async function countedLeft({ stream, account_id, expected }: StreamProgress): Promise<number> {
    if (!(stream in byId) || expected !== null) return 0;
    const last = counted.get(stream);
    if (last && clock.monotonic() - last.atMs <= countMs) return last.waiting;
    const waiting = stream === 'messages' ? await countLeft(db, run) : await countWaitingVolumes(db, account_id);
    counted.set(stream, { waiting, atMs: clock.monotonic() });
    return waiting;
  }

  async function lineOf(current: StreamProgress): Promise<string> {
    const waiting = await countedLeft(current);
    const start = begun.get(current.stream) ?? { atMs: clock.monotonic(), credits: current.credits, waiting };
    begun.set(current.stream, start);
    const elapsedMs = clock.monotonic() - start.atMs;
    return `${current.stream.padEnd(10)} ${line(current, waiting, start, elapsedMs, limits(current.stream))}`;
  }

  return {
    async look() {
      const { state, streams } = await readProgress(db, run);
      for (const stream of inOrder(streams)) {
        if (['waiting', 'running'].includes(stream.state) || told.has(stream.stream)) continue;
        told.add(stream.stream);
        if (lively) process.stderr.write('\r\x1b[2K');
        say(`${mark(stream)} ${stream.stream.padEnd(10)} ${summary(stream)}`);
      }
      const waits = streams.find(stream => stream.state === 'waiting' && stream.waits_for !== null);
      if (waits) once(`${waits.stream} waits for run ${waits.waits_for}, which reads the same`);
      for (const { stream, note } of streams.filter(one => one.state === 'running' && one.note !== null))
        once(`${stream}: ${note}`);
      // One for each source.
      const current = inOrder(streams).filter(stream => stream.state === 'running');
      if (current.length > 0) show(`  ${(await Promise.all(current.map(lineOf))).join('  ·  ')}`);
      return state !== 'running';
    },
    say: once,
    end: () => {
      if (lively) process.stderr.write('\r\x1b[2K');
    },
  };
}

/** As a full sync takes them. */
export const inOrder = (streams: readonly StreamProgress[]) =>
  streams.toSorted((a, b) => streamNames.indexOf(a.stream) - streamNames.indexOf(b.stream));

const mark = ({ state }: StreamProgress) =>
  state === 'completed' ? style('green', '✓', process.stderr) : style('yellow', '!', process.stderr);

function summary(stream: StreamProgress): string {
  if (stream.carried_from !== null) return `was read by run ${stream.carried_from}`;
  const { seen, inserted, updated, rejected, credits } = stream;
  const parts = [`${amount(seen)} read`, `${amount(inserted)} new`, `${amount(updated)} changed`];
  if (rejected > 0) parts.push(`${amount(rejected)} rejected`);
  parts.push(`${amount(credits)} credits`);
  return stream.state === 'completed' ? parts.join(', ') : `${stream.state}: ${parts.join(', ')}`;
}

/** `1,200 of 2,000 (60 %), 24 credits, 95 credits/min, 13 min left` */
function line(
  stream: StreamProgress,
  waiting: number,
  start: { credits: number; waiting: number },
  elapsedMs: number,
  limits: Limits,
): string {
  // A run that looks again knows beforehand how many there are.
  const one = stream.expected === null ? byId[stream.stream] : undefined;
  const total = one ? start.waiting : stream.expected;
  const done = one ? start.waiting - waiting : stream.seen;
  const parts = [total ? `${amount(done)} of ${amount(total)} (${percent(done, total)} %)` : amount(done)];
  if (one) parts[0] = `${parts[0]} ${one.things}`;
  parts.push(`${amount(stream.credits)} credits`);
  const used = stream.credits - start.credits;
  if (elapsedMs > 2000 && used > 0) parts.push(`${amount(Math.round((used / elapsedMs) * 60_000))} credits/min`);
  const left = timeLeftMs(one && waiting * one.credits, { done, total }, used, elapsedMs, limits);
  if (left !== undefined) parts.push(`${duration(left)} left`);
  return parts.join(', ');
}

/** By what has been measured; before that, by what the limits allow. */
function timeLeftMs(
  credits: number | undefined,
  { done, total }: { done: number; total: number | null },
  used: number,
  elapsedMs: number,
  limits: Limits,
): number | undefined {
  if (credits !== undefined) {
    const allowed = (limits.credits - limits.reserve) / limits.periodMs;
    return credits / (elapsedMs > 5000 && used > 0 ? used / elapsedMs : allowed);
  }
  return total && done > 0 && elapsedMs > 2000 ? ((total - done) / done) * elapsedMs : undefined;
}

const percent = (done: number, total: number) => Math.min(100, Math.floor((100 * done) / total));
