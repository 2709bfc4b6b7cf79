/**
 * The longest time between two slots of a schedule. A stream that is read so rarely cannot have a shorter freshness
 * target.
 */
import { parse } from 'node-cron';

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;
/** Covers every month, and every weekday on every day of a month that occurs soon. */
const looked = { from: Date.UTC(2026, 0, 1), days: 400 };

/** The longest time between two due times, apart from what daylight saving adds; undefined for an empty schedule. */
export function longestPauseMs(expression: string): number | undefined {
  if (expression === '') return undefined;
  const { minute, hour, dayOfMonth, month, dayOfWeek } = parse(expression);
  const isDue = (at: Date) => {
    const isLast = new Date(at.getTime() + dayMs).getUTCDate() === 1;
    const days: readonly unknown[] = dayOfMonth;
    return (
      month.includes(at.getUTCMonth() + 1) &&
      (days.includes(at.getUTCDate()) || (isLast && days.includes('L'))) &&
      dayOfWeek.map(day => Number(day) % 7).includes(at.getUTCDay())
    );
  };
  const times = hour.flatMap(h => minute.map(m => (h * 60 + m) * minuteMs)).sort((a, b) => a - b);
  const first = times[0]!;
  const last = times.at(-1)!;
  const withinDayMs = Math.max(0, ...times.slice(1).map((time, i) => time - times[i]!));
  let longestMs = 0;
  let lastMs: number | undefined;
  for (let day = 0; day < looked.days; day++) {
    const atMs = looked.from + day * dayMs;
    if (!isDue(new Date(atMs))) continue;
    longestMs = Math.max(longestMs, lastMs === undefined ? withinDayMs : atMs + first - lastMs);
    lastMs = atMs + last;
  }
  return longestMs === 0 ? looked.days * dayMs : longestMs;
}
