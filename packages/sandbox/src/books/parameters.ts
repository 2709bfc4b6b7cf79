/**
 * Query parameters of the catalog. The specification names only `q`; the other names and values are those of public clients
 * of this interface (`books/v1`). An invalid value gets 400 invalidParameter with the parameter's name. Of a repeated
 * parameter the last value counts; an empty text counts as absent.
 */
import { BooksError, invalid, missing } from './errors.ts';

/** Parameters of every operation, besides those in its route. */
const EVERYWHERE = [
  'access_token',
  'alt',
  'callback',
  'fields',
  'key',
  'oauth_token',
  'prettyPrint',
  'quotaUser',
  'source',
  'uploadType',
  'upload_protocol',
  'userIp',
  '$.xgafv',
];

export function lastOf(query: URLSearchParams, name: string): string | undefined {
  return query.getAll(name).at(-1);
}

export function needed(query: URLSearchParams, name: string): string {
  const value = lastOf(query, name)?.trim();
  if (!value) throw missing(name);
  return value;
}

/** Integer from `least` to `most`; `otherwise` if absent. */
export function wholeNumber(query: URLSearchParams, name: string, least: number, most: number, otherwise: number) {
  const value = lastOf(query, name);
  if (value === undefined) return otherwise;
  const number = Number(value);
  if (/^\d{1,15}$/.test(value) && number >= least && number <= most) return number;
  throw invalid(name, `Invalid value '${value}' for ${name}. It must be a whole number, ${least} to ${most}.`);
}

export function yesOrNo(query: URLSearchParams, name: string): boolean | undefined {
  const value = lastOf(query, name)?.toLowerCase();
  if (value === undefined) return undefined;
  if (value === 'true' || value === '1') return true;
  if (value === 'false' || value === '0') return false;
  throw invalid(name, `Invalid value '${value}' for ${name}. It must be true or false.`);
}

/**
 * One of the words, in any letter case: public clients of different years use both cases. They also send
 * `ORDER_BY_UNDEFINED` and the like for no value.
 */
export function oneOf<T extends string>(query: URLSearchParams, name: string, allowed: readonly T[]): T | undefined {
  const value = lastOf(query, name);
  if (value === undefined || value === `${snake(name)}_UNDEFINED`) return undefined;
  const word = allowed.find(word => word.toLowerCase() === value.toLowerCase());
  if (word !== undefined) return word;
  throw invalid(name, `Invalid value '${value}' for ${name}. Allowed values: [${allowed.join(', ')}]`);
}

const snake = (name: string) => name.replaceAll(/[A-Z]/g, letter => `_${letter}`).toUpperCase();

/** Text of a given shape; `what` describes the shape. */
export function shaped(query: URLSearchParams, name: string, shape: RegExp, what: string): string | undefined {
  const value = lastOf(query, name);
  if (!value || shape.test(value)) return value || undefined;
  throw invalid(name, `Invalid value '${value}' for ${name}. It must be ${what}.`);
}

/** Two letters, returned in upper case. */
export function countryOf(query: URLSearchParams): string | undefined {
  return shaped(query, 'country', /^[a-z]{2}$/i, 'a country of ISO 3166 such as US')?.toUpperCase();
}

/** Checks common to all operations. `takes`: parameters of this operation; `strict`: whether to refuse other names. */
export function checkParameters(query: URLSearchParams, takes: readonly string[], strict: boolean): void {
  oneOf(query, 'alt', ['json']);
  oneOf(query, '$.xgafv', ['1', '2']);
  yesOrNo(query, 'prettyPrint');
  if (query.has('callback')) throw invalid('callback', 'JSONP replies are not supported.');
  const odd = strict && [...query.keys()].find(name => !EVERYWHERE.includes(name) && !takes.includes(name));
  if (odd)
    throw new BooksError(400, 'invalidParameter', `Unknown name "${odd}": this operation has no such parameter.`);
}
