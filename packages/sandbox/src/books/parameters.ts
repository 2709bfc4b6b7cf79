/**
 * The query of an operation. The specification names no parameter but `q`; these are the names that public clients of
 * services of this shape (`books/v1`) know, and what they allow. A value that a known parameter does not take is refused
 * with 400 invalidParameter, which names the parameter; of a repeated one the last value counts; an empty text is none.
 */
import { BooksError, invalid, missing } from './errors.ts';

/** What every operation takes, beside what its row in the table of routes names. */
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

/** A whole number from `least` to `most`. */
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
 * One of the words, in lower or upper case: the public clients of different years write both. They also write
 * `ORDER_BY_UNDEFINED` and the like where nothing is meant.
 */
export function oneOf<T extends string>(query: URLSearchParams, name: string, allowed: readonly T[]): T | undefined {
  const value = lastOf(query, name);
  if (value === undefined || value === `${snake(name)}_UNDEFINED`) return undefined;
  const word = allowed.find(word => word.toLowerCase() === value.toLowerCase());
  if (word !== undefined) return word;
  throw invalid(name, `Invalid value '${value}' for ${name}. Allowed values: [${allowed.join(', ')}]`);
}

const snake = (name: string) => name.replaceAll(/[A-Z]/g, letter => `_${letter}`).toUpperCase();

/** A text that has to look like something. */
export function shaped(query: URLSearchParams, name: string, shape: RegExp, what: string): string | undefined {
  const value = lastOf(query, name);
  if (!value || shape.test(value)) return value || undefined;
  throw invalid(name, `Invalid value '${value}' for ${name}. It must be ${what}.`);
}

/** Two letters, as upper case. */
export function countryOf(query: URLSearchParams): string | undefined {
  return shaped(query, 'country', /^[a-z]{2}$/i, 'a country of ISO 3166 such as US')?.toUpperCase();
}

/** What holds for every operation. `takes`: what this one knows besides; `strict`: whether other names are refused. */
export function checkParameters(query: URLSearchParams, takes: readonly string[], strict: boolean): void {
  oneOf(query, 'alt', ['json']);
  oneOf(query, '$.xgafv', ['1', '2']);
  yesOrNo(query, 'prettyPrint');
  if (query.has('callback')) throw invalid('callback', 'Replies as scripts (JSONP) are not offered.');
  const odd = strict && [...query.keys()].find(name => !EVERYWHERE.includes(name) && !takes.includes(name));
  if (odd)
    throw new BooksError(400, 'invalidParameter', `Unknown name "${odd}": it is no parameter of this operation.`);
}
