/**
 * The schedule. Each replica has its own timer (node-cron). PostgreSQL decides which replica opens the run of a slot
 * (runs/slots.ts). When a timer fires, and now and then without one, a replica takes the last due slot if it is still
 * free. So a missed night is caught up once.
 */
import { createTask, parse, type ScheduledTask, setLogger } from 'node-cron';
import type { Times } from '../../app/config.ts';
import type { Stream } from '../../sources/source.ts';
import type { Context } from '../context.ts';
import { query } from '../database/sql.ts';
import type { StreamKey } from '../database/stream-key.ts';
import { dailyMs, dueOf, rotationOf } from '../deletions/rotation.ts';
import { claimSlot, lastSlot, type Plan } from '../runs/slots.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
/** How far back a due slot is searched if no earlier slot is known. */
const longestMs = 32 * 24 * 60 * minuteMs;
/** The amounts by which clocks are put back anywhere on earth. */
const putBackMs = [hourMs, hourMs / 2, 2 * hourMs];

/**
 * The plans. Each stream declares the schedules that read it. The nightly plan also sweeps what is due and fetches the
 * names that are due, because no source announces deletions, edits and renames. Details follow on their own: see
 * openWaiting in reconcile.ts.
 */
const plans: Record<'nightly' | 'fresh', Pick<Plan, 'kind' | 'unless'> & { schedule: 'nightly' | 'fresh' }> = {
  nightly: { schedule: 'nightly', kind: 'nightly', unless: ['nightly'] },
  fresh: { schedule: 'fresh', kind: 'fresh', unless: ['sync', 'fresh', 'nightly'] },
};

/** The plans with the streams that each one reads, in the order in which slots of one time are taken. */
export function plansFor(streams: readonly Stream[]): (Plan & { schedule: keyof typeof plans })[] {
  return Object.values(plans).map(plan => {
    const read = streams.filter(one => one.schedule.includes(plan.schedule)).map(({ key }) => key);
    if (plan.schedule !== 'nightly') return { ...plan, streams: read };
    const sweeps = streams.filter(one => one.jobs.sweep !== undefined && !one.sweptBySync).map(({ key }) => key);
    const names = streams.find(({ nightlyDetails }) => nightlyDetails)?.key;
    return { ...plan, streams: read, sweeps, ...(names !== undefined && { names }) };
  });
}

// @internal A test and a bench ask what a night would sweep.
/**
 * The plan as of now. A night sweeps no stream whose lists are all read by day, at least daily, if none is due yet. It sweeps each that the
 * last sweep has not settled: a night is handed off as complete only if its own sweep is.
 */
export async function planOfNow<P extends Plan>(ctx: Context, plan: P): Promise<P> {
  if (plan.sweeps === undefined) return plan;
  const later: StreamKey[] = [];
  for (const source of ctx.sources.values()) {
    const rotation = await rotationOf(ctx, source);
    for (const { stream, inMs } of dueOf(ctx, rotation))
      if (inMs > 0 && rotation.every(one => one.stream !== stream.key || one.everyMs <= dailyMs))
        later.push(stream.key);
  }
  const settled = await query(ctx.pg).values<StreamKey>`
    select k from unnest(${later}::text[]) k
    where not exists (select from sync.deletion_candidates d where d.account_id = ${ctx.account} and d.stream_key = k) and (
      select s.state from sync.stored_run_streams s join sync.stored_runs r on r.id = s.run_id
      where s.account_id = ${ctx.account} and s.stream_key = k and r.kind = 'sweep' order by s.run_id desc limit 1) = 'completed'`;
  return { ...plan, sweeps: plan.sweeps.filter(key => !settled.includes(key)) };
}

const silent = { info() {}, warn() {}, error() {}, debug() {} };

/** A plan with its times. node-cron decides when it is due, so only one dialect of cron exists. */
export interface Timetable {
  readonly plan: Plan;
  readonly expression: string;
  readonly task: ScheduledTask;
  /** The due times within this minute. */
  dueIn(minute: number): readonly number[];
  /** The last due time in (`afterMs`, `nowMs`]. */
  lastDue(nowMs: number, afterMs: number): number | undefined;
}

/** In the order in which slots of one time are taken: after a nightly run a fresh run is unnecessary. */
export function timetables(times: Times, streams: readonly Stream[], ring: () => void = () => {}): Timetable[] {
  setLogger(silent);
  return plansFor(streams)
    .map(plan => ({ plan, expression: times[plan.schedule] }))
    .filter(({ plan, expression }) => expression !== '' && plan.streams.length > 0)
    .map(({ plan, expression }) => {
      const task = createTask(expression, ring, { timezone: times.timeZone, suppressMissedWarning: true });
      const { second, hour } = parse(expression);
      const seconds = [...new Set(second)].sort((a, b) => a - b);
      const everyHour = new Set(hour).size === 24;
      const localTime = new Intl.DateTimeFormat('en-GB', {
        timeZone: times.timeZone,
        dateStyle: 'short',
        timeStyle: 'medium',
      });
      /** When clocks are put back, an hour comes twice. The nightly run happens once. */
      const isRepeated = (slot: number) =>
        !everyHour && putBackMs.some(ms => localTime.format(slot) === localTime.format(slot - ms));
      // All seconds of a minute have the same local minute, so one second is checked for all.
      const askDueIn = (minute: number) => {
        const slots = seconds.map(second => minute + second * 1000);
        return task.match(new Date(slots[0]!)) && !isRepeated(slots[0]!) ? slots : none;
      };
      const known = knownOf(`${expression} ${times.timeZone}`);
      const dueIn = (minute: number): readonly number[] => {
        const before = known.get(minute);
        if (before) return before;
        if (knownMinutes++ >= mostKnown) forgetAll();
        const slots = askDueIn(minute);
        known.set(minute, slots);
        return slots;
      };
      const lastDue = (nowMs: number, afterMs: number) => {
        for (
          let minute = minuteOf(nowMs);
          minute > Math.max(afterMs, nowMs - longestMs) - minuteMs;
          minute -= minuteMs
        ) {
          const slot = dueIn(minute).findLast(slot => slot <= nowMs && slot > afterMs);
          if (slot !== undefined) return slot;
        }
        return undefined;
      };
      return { plan, expression, task, dueIn, lastDue };
    });
}

/**
 * The due times by minute, of all timetables with these times. The first look of an account needs the minutes since the last time,
 * which may be a month ago. node-cron takes 0.01 ms for one, and accounts usually have the same times.
 */
function knownOf(times: string): Map<number, readonly number[]> {
  const known = allKnown.get(times) ?? new Map<number, readonly number[]>();
  allKnown.set(times, known);
  return known;
}
const allKnown = new Map<string, Map<number, readonly number[]>>();

/** More minutes than one search needs, of all times together: accounts may have times of their own. */
const mostKnown = longestMs / minuteMs + 60;
let knownMinutes = 0;
const none: readonly number[] = [];

function forgetAll(): void {
  for (const known of allKnown.values()) known.clear();
  knownMinutes = 0;
}

const minuteOf = (ms: number) => Math.floor(ms / minuteMs) * minuteMs;

/**
 * The next `count` slots after `nowMs`, which must be now: node-cron knows no other time. Fewer if slots are years
 * apart and clocks are being put back.
 */
export function nextSlots({ task, dueIn, lastDue }: Timetable, count: number, nowMs: number): Date[] {
  const nearMs = minuteOf(nowMs) + 2 * 24 * hourMs;
  const slots: number[] = [];
  for (let minute = minuteOf(nowMs); minute < nearMs && slots.length < count; minute += minuteMs)
    slots.push(...dueIn(minute).filter(slot => slot > nowMs));
  if (slots.length < count) {
    // If an hour comes twice (end of summer time), node-cron names one of the two. So it computes only far times.
    const far = task.getNextRuns(count + 1).map(run => lastDue(run.getTime(), run.getTime() - 4 * hourMs)!);
    slots.push(...far.filter(slot => slot >= nearMs));
  }
  void task.destroy();
  return slots.slice(0, count).map(slot => new Date(slot));
}

export interface Schedule extends AsyncDisposable {
  /** Takes the due slots that are free. Returns true if it opened a run. */
  look(): Promise<boolean>;
}

/** `ring` is called when a slot may be due. `opener` is the number of this process in sync.workers. */
export function keepSchedule(ctx: Context, times: Times, opener: number, ring: () => void): Schedule {
  const all = timetables(
    times,
    ctx.streams.filter(({ source }) => ctx.sources.has(source)),
    ring,
  );
  /** The time up to which each plan was searched, so that no time is searched twice. */
  const lookedMs = new Map<Timetable, number>();
  for (const { task } of all) void task.start();

  async function lookAt(timetable: Timetable): Promise<boolean> {
    const { plan, lastDue } = timetable;
    const nowMs = ctx.clock.now();
    const afterMs =
      lookedMs.get(timetable) ??
      (await lastSlot(ctx.pg, ctx.account, plan.schedule, new Date(nowMs)))?.slot.getTime() ??
      0;
    const slot = lastDue(nowMs, afterMs);
    const claimed =
      slot === undefined
        ? undefined
        : await claimSlot(ctx.pg, ctx.account, await planOfNow(ctx, plan), {
            ...{ slot: new Date(slot), opener, now: new Date(nowMs) },
          });
    lookedMs.set(timetable, slot ?? Math.max(afterMs, nowMs - hourMs));
    if (claimed) ctx.log.debug({ schedule: plan.schedule, slot: new Date(slot!), ...claimed }, 'slot taken');
    return claimed !== undefined && 'run' in claimed;
  }

  return {
    async look() {
      let opened = false;
      for (const timetable of all) opened = (await lookAt(timetable)) || opened;
      return opened;
    },
    async [Symbol.asyncDispose]() {
      for (const { task } of all) await task.destroy();
    },
  };
}
