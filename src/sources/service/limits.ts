/** The limits of a service: their settings, what the ledger makes of them, and the headers that tell of them. */
import { count, type Setting, usually } from '../../app/setting-types.ts';
import type { Limits } from '../../engine/budget/budget.ts';
import type { Dialect } from '../../engine/http/dialect.ts';
import type { Service } from './service.ts';

/** How a service tells of a limit in its headers. */
interface Told {
  /** Header with what is left of the period. */
  readonly remaining?: string;
  /** Header that says when the period ends: in so many seconds, in seconds since 1970, or a date. */
  readonly resets?: string | 'midnight UTC';
}

export interface Limit extends Told {
  readonly per: 'second' | 'minute' | 'hour' | 'day';
  readonly requests: number;
}
const limit =
  (per: Limit['per']) =>
  (requests: number, told: Told = {}): Limit => ({ per, requests, ...told });
export const perSecond: (requests: number) => Limit = limit('second');
export const perMinute = limit('minute');
export const perHour = limit('hour');
export const perDay = limit('day');

export const lengthMs = { second: 1000, minute: 60_000, hour: 3_600_000, day: 86_400_000 };

export type Values = Readonly<Record<string, unknown>>;

export const limitName = (name: string, { per }: Limit) => `${name.toUpperCase()}_REQUESTS_PER_${per.toUpperCase()}`;

export const limitSettings = ({ name, label, limits }: Service<string>): Record<string, Setting> =>
  Object.fromEntries(
    limits.map(one => [
      limitName(name, one),
      {
        ...usually(String(one.requests), count(1)),
        says: `Requests that ${label} allows a ${one.per}.`,
      },
    ]),
  );

/** The longest time is the period of the credits; the others limit requests as well. */
export function limitsOf({ name, limits }: Service<string>, values: Values): Limits {
  const most = (one: Limit) => values[limitName(name, one)] as number;
  const second = limits.find(({ per }) => per === 'second');
  const requestsPerSecond = second ? most(second) : 10;
  const longest = longestOf(limits);
  if (longest === undefined)
    return { credits: requestsPerSecond * 60, periodMs: lengthMs.minute, requestsPerSecond, reserve: 0 };
  const periodMs = lengthMs[longest.per];
  const further = limits
    .filter(one => one !== second && one !== longest)
    .map(one => ({ ms: lengthMs[one.per], requests: most(one) }));
  return {
    ...{ credits: most(longest), periodMs, requestsPerSecond, reserve: 0, evenly: periodMs <= lengthMs.minute },
    ...(longest.per === 'day' && longest.resets === 'midnight UTC' && { aligned: true as const }),
    ...(further.length > 0 && { further }),
  };
}

/** Of those longer than a second. */
export const longestOf = (limits: readonly Limit[]): Limit | undefined =>
  limits.filter(({ per }) => per !== 'second').toSorted((a, b) => lengthMs[b.per] - lengthMs[a.per])[0];

/** Requests that the limits allow in an hour, as they are declared, or as they are set; Infinity: none is known. */
export const perHourOf = ({ name, limits }: Pick<Service<string>, 'name' | 'limits'>, values: Values = {}): number =>
  Math.min(
    ...limits.map(one => {
      const requests = (values[limitName(name, one)] as number | undefined) ?? one.requests;
      return (requests * lengthMs.hour) / lengthMs[one.per];
    }),
  );

/** No period is so long: a larger number is a time. */
const longestPeriod = 1e9;

function secondsUntil(value: string | undefined, nowSeconds: number): number {
  if (value === undefined) return Number.NaN;
  if (!/^\d+(\.\d+)?$/.test(value)) return Date.parse(value) / 1000 - nowSeconds;
  return Number(value) < longestPeriod ? Number(value) : Number(value) - nowSeconds;
}

export function rateOf(
  { remaining, resets }: Told,
  header: (name: string) => string | undefined,
  limit: number | undefined,
): ReturnType<Dialect['rate']> {
  const left = Number(header(remaining!.toLowerCase()) ?? Number.NaN);
  if (!Number.isFinite(left)) return {};
  const second = Math.floor(Date.parse(header('date') ?? '') / 1000);
  const resetSeconds =
    resets === 'midnight UTC' ? 86_400 - (second % 86_400) : secondsUntil(header(resets?.toLowerCase() ?? ''), second);
  return {
    remaining: left,
    ...(limit !== undefined && { limit }),
    ...(Number.isFinite(resetSeconds) && { resetSeconds }),
  };
}
