/** Office hours in UTC: busy mornings, quiet nights and weekends. */

/** 'even': equal intervals; 'office': many changes on weekday mornings, few at night. */
export type Rhythm = 'even' | 'office';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Weight of each hour of the day, and of each weekday from Sunday; ten is the busiest. */
const HOURS = [1, 1, 1, 1, 1, 2, 4, 7, 10, 10, 9, 8, 7, 8, 9, 9, 8, 7, 6, 5, 4, 3, 2, 2];
const WEEKDAYS = [3, 10, 9, 9, 8, 8, 4];
/** The weekday of 1970-01-01. */
const THURSDAY = 4;

/** Weight of the hour of that moment, 3 to 100. */
export function busyness(moment: number): number {
  return HOURS[Math.floor(moment / HOUR) % 24]! * WEEKDAYS[(Math.floor(moment / DAY) + THURSDAY) % 7]!;
}

const mean = (numbers: readonly number[]) => numbers.reduce((sum, n) => sum + n, 0) / numbers.length;

export const MEAN_BUSYNESS = mean(HOURS) * mean(WEEKDAYS);

/** The first moment of the next hour. */
export const nextHour = (moment: number): number => (Math.floor(moment / HOUR) + 1) * HOUR;
