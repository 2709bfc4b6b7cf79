/** What a request of the catalog says beside its path: in headers, in the query, and in the form that stands for one. */
import type { Asked } from '../request-reply.ts';
import { BooksError } from './errors.ts';
import { lastOf } from './parameters.ts';

export function headerOf({ headers }: Asked, name: string): string | undefined {
  const value = headers[name];
  return value === undefined ? undefined : String(value);
}

/** A POST may say that it stands for another verb. */
export function verb(asked: Asked): string {
  const override = headerOf(asked, 'x-http-method-override')?.toUpperCase() ?? '';
  const known = ['GET', 'PUT', 'PATCH', 'DELETE'].includes(override);
  return asked.method === 'POST' && known ? override : asked.method;
}

/** A query that is too long for a URL comes as the form of a POST that stands for GET. Other bodies mean nothing here. */
function standsForGet(asked: Asked): boolean {
  const type = headerOf(asked, 'content-type')?.toLowerCase() ?? '';
  return asked.method === 'POST' && verb(asked) === 'GET' && type.startsWith('application/x-www-form-urlencoded');
}

export function wholeUrl(asked: Asked): string {
  if (!asked.body || isTooLong(asked) || !standsForGet(asked)) return asked.url;
  return `${asked.url}${asked.url.includes('?') ? '&' : '?'}${asked.body.toString('utf8')}`;
}

/** As long as the longest of URLs, and more: the query that it stands for is no data. Nor is one for a token. */
export const LONGEST_FORM = 65_536;

export const isTooLong = ({ body, tooLong }: Asked): boolean => tooLong === true || (body?.length ?? 0) > LONGEST_FORM;

export function demandShortForm(asked: Asked): void {
  if (!standsForGet(asked) || !isTooLong(asked)) return;
  throw new BooksError(413, 'uploadTooLarge', `A form that stands for a query has at most ${LONGEST_FORM} bytes.`);
}

/** Every token that was given, '' for what is none: of the header, and of either name that the query has for it. */
export function tokensOf(asked: Asked, query: URLSearchParams): string[] {
  const authorization = headerOf(asked, 'authorization');
  const header = authorization && (/^Bearer +(\S+) *$/i.exec(authorization)?.[1] ?? '');
  const given = [header, lastOf(query, 'access_token'), lastOf(query, 'oauth_token')];
  return given.filter(token => token !== undefined);
}
