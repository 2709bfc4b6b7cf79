/** Checks of the schedule: its existence, and its slots on days with a clock change. */

import type { Times } from '../../../app/config.ts';
import { configuredSources } from '../../../app/context.ts';
import { nextSlots, plansFor, type Timetable, timetables } from '../../../engine/queue/schedule.ts';
import { command } from '../../../engine/runs/pauses.ts';
import { streams, streamsOf } from '../../../sources/index.ts';
import type { Check } from '../doctor-context.ts';
import { ok, skipped, warn } from './check.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
/** 13 months, which contain each clock change at least once. */
const aheadMs = 396 * dayMs;
/** Hours around a clock change. */
const aroundMs = 4 * hourMs;
/** A schedule with this many slots in these hours misses nothing important. */
const often = 8;

export const scheduleChecks: readonly Check[] = [
  {
    name: 'next runs',
    of: 'account',
    looks: 'next slots of the schedule',
    run({ config, clock }) {
      const configured = configuredSources(config);
      const read = configured.size > 0 ? streamsOf(configured) : streams;
      const due = timetables(config.schedule, read).map(timetable => ({
        schedule: timetable.plan.schedule,
        next: nextSlots(timetable, 1, clock.now())[0],
      }));
      const says = due
        .map(({ schedule, next }) => `${schedule} ${next?.toISOString().slice(0, 16) ?? 'never'}Z`)
        .join(', ');
      // An account with a catalog only has no fresh runs.
      const plans = plansFor(read).filter(({ streams }) => streams.length > 0);
      const missing: string[] = plans.map(({ schedule }) => schedule).filter(name => config.schedule[name] === '');
      if (missing.length === 0) return ok(says);
      return warn(
        `${missing.map(name => `SCHEDULE_${name.toUpperCase()}`).join(' and ')} ${missing.length > 1 ? 'are' : 'is'} empty: ${missing.includes('nightly') ? 'deletions and edits that nothing announces are not looked for' : 'new tickets come at night only'}`,
        `Set ${missing.map(name => `SCHEDULE_${name.toUpperCase()}`).join(' and ')}, if nobody runs ${command(config.account, 'sync')} instead.`,
      );
    },
  },
  {
    name: 'daylight saving',
    of: 'account',
    looks: 'scheduled times that daylight saving skips or repeats in the next 13 months',
    run({ config, clock }) {
      const { schedule } = config;
      const changes = clockChanges(schedule.timeZone, clock.now(), clock.now() + aheadMs);
      if (changes.length === 0) return ok(`clocks do not change in ${schedule.timeZone}`);
      if (timetables(schedule, streams).length === 0) return skipped('nothing is scheduled');
      const found = changes.flatMap(change => traps(schedule, change));
      if (found.length === 0) return ok(`no time of ${schedule.timeZone} is lost or doubled in 13 months`);
      return found.map(({ schedule: name, day, what }) =>
        warn(
          `${name} ${what} on ${day}, when clocks change in ${schedule.timeZone}`,
          `Set SCHEDULE_${name.toUpperCase()} to an hour that every day has once, such as 0 4 * * *, or SCHEDULE_TIME_ZONE=UTC.`,
        ),
      );
    },
  },
];

/** From `atMs` on, local time is `byMs` later than before. */
interface ClockChange {
  readonly atMs: number;
  readonly byMs: number;
}

function clockChanges(timeZone: string, fromMs: number, toMs: number): ClockChange[] {
  const local = localTime(timeZone);
  const offset = (ms: number) => local(ms) - ms;
  const found: ClockChange[] = [];
  const first = Math.floor(fromMs / hourMs) * hourMs;
  for (let day = first; day < toMs; day += dayMs) {
    if (offset(day) === offset(day + dayMs)) continue;
    for (let ms = day; ms < day + dayMs; ms += minuteMs * 30) {
      const byMs = offset(ms + minuteMs * 30) - offset(ms);
      if (byMs !== 0) found.push({ atMs: ms + minuteMs * 30, byMs });
    }
  }
  return found;
}

/** The local time as if it were UTC, in ms. */
function localTime(timeZone: string): (ms: number) => number {
  const format = new Intl.DateTimeFormat('en-CA', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  });
  return ms => {
    const parts = Object.fromEntries(format.formatToParts(ms).map(({ type, value }) => [type, value]));
    return Date.parse(`${parts.year}-${parts.month}-${parts.day}T${parts.hour}:${parts.minute}:${parts.second}Z`);
  };
}

/**
 * Slots that the local time suggests around a clock change, compared with the actual slots. The scheduler computes
 * both.
 */
function traps(times: Times, { atMs, byMs }: ClockChange): { schedule: string; day: string; what: string }[] {
  const local = localTime(times.timeZone);
  const [from, to] = [atMs - aroundMs, atMs + aroundMs];
  const promised = timetables({ ...times, timeZone: 'UTC' }, streams).map(one => slotsOf(one, local(from), local(to)));
  return timetables(times, streams).flatMap((timetable, i) => {
    const expected = promised[i]!;
    const come = slotsOf(timetable, from, to);
    if (expected.length === come.length || expected.length >= often) return [];
    const day = new Date(local(atMs) - (byMs > 0 ? minuteMs : 0)).toISOString().slice(0, 10);
    const what = come.length < expected.length ? 'is left out' : 'comes twice';
    return [{ schedule: timetable.plan.schedule, day, what }];
  });
}

function slotsOf({ dueIn, task }: Timetable, fromMs: number, toMs: number): number[] {
  const slots: number[] = [];
  for (let minute = fromMs; minute < toMs; minute += minuteMs) slots.push(...dueIn(minute));
  void task.destroy();
  return slots;
}
