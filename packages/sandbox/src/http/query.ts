/**
 * Query parameters of the help desk. A value outside the documented ones is refused with 400, because 422 is for
 * creating and modifying. Unknown parameters are ignored. Lists are comma separated, repeated, or both. Of a repeated
 * single value the last one counts.
 */
import { Refusal } from './refusal.ts';

/** Trimmed, non-empty values of a list parameter; undefined without any. */
export function list(query: URLSearchParams, name: string): string[] | undefined {
  const values = query
    .getAll(name)
    .flatMap(value => value.split(','))
    .map(value => value.trim())
    .filter(value => value !== '');
  return values.length === 0 ? undefined : values;
}

/** As `list`, with values from `allowed` only. */
export function listOf<T extends string>(
  query: URLSearchParams,
  name: string,
  allowed: readonly T[],
): readonly T[] | undefined {
  const values = list(query, name);
  const odd = values?.find(value => !allowed.includes(value as T));
  if (odd !== undefined) throw new Refusal(400, `${name}: "${odd}" is not one of ${allowed.join(', ')}`);
  return values as T[] | undefined;
}

export function flag(query: URLSearchParams, name: string): boolean | undefined {
  const value = query.getAll(name).at(-1);
  if (value === undefined || value === 'true' || value === 'false') return value && value === 'true';
  throw new Refusal(400, `${name}: "${value}" is neither true nor false`);
}

export function whole(query: URLSearchParams, name: string, least: number, most: number, otherwise: number): number {
  const value = query.getAll(name).at(-1);
  if (value === undefined) return otherwise;
  const number = Number(value);
  if (/^\d{1,15}$/.test(value) && number >= least && number <= most) return number;
  const range = most === Number.MAX_SAFE_INTEGER ? `${least} or more` : `${least} to ${most}`;
  throw new Refusal(400, `${name}: "${value}" is not a whole number, ${range}`);
}

/** Sorts before every timestamp. */
export const EARLIEST = '';

const TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:?\d\d)$/;

/**
 * The first timestamp that a `since_*` parameter admits, in the format of the help desk. Stored times have whole seconds,
 * so a value with a fraction admits from the next second on, inclusive or not.
 */
export function since(query: URLSearchParams, name: string, inclusive: boolean): string {
  const value = query.getAll(name).at(-1);
  if (value === undefined) return EARLIEST;
  const [, second, fraction, zone] = TIME.exec(value) ?? [];
  const ms = Date.parse(`${second}${zone?.replace(/^(...)(\d\d)$/, '$1:$2')}`);
  const sameDay =
    second !== undefined && new Date(`${second.slice(0, 10)}T00:00:00Z`).getUTCDate() === +second.slice(8, 10);
  if (Number.isNaN(ms) || !sameDay) {
    throw new Refusal(400, `${name}: "${value}" is not an ISO 8601 timestamp such as 2024-05-01T12:30:00Z`);
  }
  const ownSecond = inclusive && !(fraction && +fraction > 0);
  const first = new Date(ownSecond ? ms : ms + 1000).toISOString();
  if (first.startsWith('-')) return EARLIEST;
  return first.startsWith('+') ? '9999-12-31T23:59:60Z' : `${first.slice(0, 19)}Z`;
}
