/**
 * The schedule. Each replica has its own alarm clock (node-cron); which of them opens the run of a slot is decided in
 * Postgres (warehouse/slots.ts). When an alarm rings, and now and then without one, the last slot that was due is looked
 * up and taken, unless it has been: so a night that was missed is caught up, once, by whoever comes first.
 */
import { createTask, parse, type ScheduledTask, setLogger } from 'node-cron';
import type { Times } from '../config.ts';
import type { Context } from '../context.ts';
import { claimSlot, lastSlot, type Plan } from '../warehouse/slots.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
/** So far back a slot is looked for where none is known, and where nobody was there for long. */
const longestMs = 32 * 24 * 60 * minuteMs;

/**
 * What is read when. `fresh` extends the top of what moves; `nightly` also reads the team, and customers whole, since
 * nothing announces their edits. The messages follow by themselves (see openHydration in tend.ts).
 */
export const plans = {
  nightly: {
    schedule: 'nightly',
    kind: 'nightly',
    streams: ['users', 'customers', 'tickets'],
    unless: ['nightly'],
    again: 'customers',
  },
  fresh: {
    schedule: 'fresh',
    kind: 'fresh',
    streams: ['customers', 'tickets'],
    unless: ['sync', 'fresh', 'nightly'],
  },
} as const satisfies Record<string, Plan>;

const silent = { info() {}, warn() {}, error() {}, debug() {} };

/** A plan with its times: when it is due, by node-cron's own judgement, so that there is one dialect of cron. */
export interface Timetable {
  readonly plan: Plan;
  readonly expression: string;
  readonly task: ScheduledTask;
  /** The last time at or before `nowMs`, and later than `afterMs`, at which it was due. */
  lastDue(nowMs: number, afterMs: number): number | undefined;
}

/** In the order in which slots of one time are taken: once a nightly run has been opened, a fresh one need not be. */
export function timetables(times: Times, ring: () => void = () => {}): Timetable[] {
  setLogger(silent);
  return Object.values<Plan>(plans)
    .map(plan => ({ plan, expression: times[plan.schedule as keyof typeof plans] }))
    .filter(({ expression }) => expression !== '')
    .map(({ plan, expression }) => {
      const task = createTask(expression, ring, { timezone: times.timeZone, suppressMissedWarning: true });
      const { second, hour } = parse(expression);
      const everyHour = hour.length === 24;
      const localTime = new Intl.DateTimeFormat('en-GB', {
        timeZone: times.timeZone,
        dateStyle: 'short',
        timeStyle: 'medium',
      });
      /** Where clocks are put back, an hour comes twice: the night is not read twice for it. */
      const isRepeated = (slot: Date) =>
        !everyHour && localTime.format(slot) === localTime.format(slot.getTime() - hourMs);
      const isDue = (slot: Date) => task.match(slot) && !isRepeated(slot);
      return { plan, expression, task, lastDue: (nowMs, afterMs) => lastDue(isDue, second, nowMs, afterMs) };
    });
}

function lastDue(
  isDue: (slot: Date) => boolean,
  seconds: readonly number[],
  nowMs: number,
  afterMs: number,
): number | undefined {
  const latestFirst = seconds.toSorted((a, b) => b - a);
  const thisMinute = Math.floor(nowMs / minuteMs) * minuteMs;
  for (let minute = thisMinute; minute > Math.max(afterMs, nowMs - longestMs) - minuteMs; minute -= minuteMs) {
    for (const second of latestFirst) {
      const slot = minute + second * 1000;
      if (slot <= nowMs && slot > afterMs && isDue(new Date(slot))) return slot;
    }
  }
  return undefined;
}

/** The next `count` slots. */
export async function nextSlots({ task }: Timetable, count: number): Promise<Date[]> {
  // One that was never started knows no next run.
  await task.start();
  const next = task.getNextRuns(count);
  await task.destroy();
  return next;
}

export interface Schedule extends AsyncDisposable {
  /** Takes the slots that are due and that nobody has taken. True if a run was opened. */
  look(): Promise<boolean>;
}

/** `ring` is called when a slot may be due; `opener` is the number of this process in sync.workers. */
export function keepSchedule(ctx: Context, times: Times, opener: number, ring: () => void): Schedule {
  const all = timetables(times, ring);
  /** Up to when slots have been looked for, so that each time is looked at once. */
  const lookedMs = new Map<Timetable, number>();
  for (const { task } of all) void task.start();

  async function lookAt(timetable: Timetable): Promise<boolean> {
    const { plan, lastDue } = timetable;
    const nowMs = ctx.clock.now();
    const afterMs =
      lookedMs.get(timetable) ?? (await lastSlot(ctx.pg, ctx.account, plan.schedule))?.slot.getTime() ?? 0;
    const slot = lastDue(nowMs, afterMs);
    const claimed =
      slot === undefined
        ? undefined
        : await claimSlot(ctx.pg, ctx.account, plan, new Date(slot), opener, new Date(nowMs));
    lookedMs.set(timetable, slot ?? Math.max(afterMs, nowMs - hourMs));
    if (claimed) ctx.log.info({ schedule: plan.schedule, slot: new Date(slot!), ...claimed }, 'slot taken');
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
