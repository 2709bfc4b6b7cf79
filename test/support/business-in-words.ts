/** Business hours in plain code: hour by hour, as a wall clock of the zone shows them. */

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
