/** Days and business hours in plain code: hour by hour, as a wall clock of the zone shows them. */

/** Seconds within business hours from one instant to another, in ms. */
export type Business = (sinceMs: number, untilMs: number) => number;

const hourMs = 3_600_000;
const years = [Date.UTC(2015, 0), Date.UTC(2040, 0)] as const;

/** Weekdays from one full hour to another, but for holidays. Clocks are changed there on the hour: each hour is a business one or is not. */
export function weekdays(zone: string, opens: number, closes: number, holidays: readonly string[] = []): Business {
  const wall = new Intl.DateTimeFormat('sv-SE', {
    ...{ timeZone: zone, hourCycle: 'h23' },
    ...{ year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit' },
  });
  const hours = new Float64Array((years[1] - years[0]) / hourMs + 1);
  for (let n = 0; n < hours.length - 1; n++) {
    const [day, hour] = wall.format(years[0] + n * hourMs).split(' ');
    const weekday = new Date(`${day}T00:00:00Z`).getUTCDay();
    const open =
      weekday !== 0 && weekday !== 6 && Number(hour) >= opens && Number(hour) < closes && !holidays.includes(day!);
    hours[n + 1] = hours[n]! + (open ? 3600 : 0);
  }
  const upTo = (ms: number) => {
    const n = Math.floor((ms - years[0]) / hourMs);
    return hours[n]! + (hours[n + 1]! - hours[n]!) * ((ms - years[0]) / hourMs - n);
  };
  return (sinceMs, untilMs) => upTo(untilMs) - upTo(sinceMs);
}

const clocks = new Map<string, Intl.DateTimeFormat>();

/** What a wall clock of a zone shows: `2026-03-29 03`. */
function wallOf(zone: string, ms: number): string {
  const clock =
    clocks.get(zone) ??
    new Intl.DateTimeFormat('sv-SE', {
      ...{ timeZone: zone, hourCycle: 'h23' },
      ...{ year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit' },
    });
  clocks.set(zone, clock);
  return clock.format(ms);
}
export const dayOf = (zone: string, ms: number) => wallOf(zone, ms).slice(0, 10);
export const hourOf = (zone: string, ms: number) => Number(wallOf(zone, ms).slice(11));
export const nextDay = (day: string, days = 1) =>
  new Date(Date.parse(day) + days * 24 * hourMs).toISOString().slice(0, 10);
export const weekdayOf = (day: string) => new Date(day).getUTCDay() || 7;

/** A day ends when the wall clock first shows a later one. */
export function endOfDay(zone: string, day: string): number {
  let ms = Date.parse(day) + 9 * hourMs;
  while (dayOf(zone, ms) <= day) ms += hourMs / 4;
  return ms;
}
