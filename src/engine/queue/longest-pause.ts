/** How long the schedule leaves something alone: what is read so seldom cannot be promised to be fresher. */
import { parse } from 'node-cron';

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;
/** Every month, and every day of the week on every day of a month that occurs soon. */
const looked = { from: Date.UTC(2026, 0, 1), days: 400 };

/** The longest time between two times at which it is due, but for what daylight saving adds; undefined for an empty one. */
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
  let longestMs = 0;
  let lastMs: number | undefined;
  for (let day = 0; day < looked.days; day++) {
    const atMs = looked.from + day * dayMs;
    if (!isDue(new Date(atMs))) continue;
    for (const time of times) {
      if (lastMs !== undefined) longestMs = Math.max(longestMs, atMs + time - lastMs);
      lastMs = atMs + time;
    }
  }
  return longestMs === 0 ? looked.days * dayMs : longestMs;
}
