/** Reads headers, query, override method and credentials of a catalog request. */
import type { Asked } from '../http/request-reply.ts';
import { BooksError } from './errors.ts';
import { lastOf } from './parameters.ts';

export function headerOf({ headers }: Asked, name: string): string | undefined {
  const value = headers[name];
  return value === undefined ? undefined : String(value);
}

/** Method after X-HTTP-Method-Override, which only POST can use. */
export function verb(asked: Asked): string {
  const override = headerOf(asked, 'x-http-method-override')?.toUpperCase() ?? '';
  const known = ['GET', 'PUT', 'PATCH', 'DELETE'].includes(override);
  return asked.method === 'POST' && known ? override : asked.method;
}

/** Whether the request is a POST with a form that overrides to GET, for queries too long for a URL. Other bodies are ignored. */
function standsForGet(asked: Asked): boolean {
  const type = headerOf(asked, 'content-type')?.toLowerCase() ?? '';
  return asked.method === 'POST' && verb(asked) === 'GET' && type.startsWith('application/x-www-form-urlencoded');
}

export function wholeUrl(asked: Asked): string {
  if (!asked.body || isTooLong(asked) || !standsForGet(asked)) return asked.url;
  return `${asked.url}${asked.url.includes('?') ? '&' : '?'}${asked.body.toString('utf8')}`;
}

/** Longest form in bytes, for queries and for the token endpoint; longer than any URL. */
export const LONGEST_FORM = 65_536;

export const isTooLong = ({ body, tooLong }: Asked): boolean => tooLong === true || (body?.length ?? 0) > LONGEST_FORM;

export function demandShortForm(asked: Asked): void {
  if (!standsForGet(asked) || !isTooLong(asked)) return;
  throw new BooksError(413, 'uploadTooLarge', `A form with a query has at most ${LONGEST_FORM} bytes.`);
}

/** All tokens of the request, from the header and both query parameters; '' for an invalid Authorization header. */
export function tokensOf(asked: Asked, query: URLSearchParams): string[] {
  const authorization = headerOf(asked, 'authorization');
  const header = authorization && (/^Bearer +(\S+) *$/i.exec(authorization)?.[1] ?? '');
  const given = [header, lastOf(query, 'access_token'), lastOf(query, 'oauth_token')];
  return given.filter(token => token !== undefined);
}
