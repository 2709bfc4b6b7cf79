/** Which verbs a path has: for those who used another one (405), who ask for them (OPTIONS), and for browsers. */
import type { Asked } from '../request-reply.ts';
import { findAmong } from '../routing.ts';
import { BooksError, envelope } from './errors.ts';
import { headerOf } from './request.ts';
import { BOOKS_ROUTES, type BooksAnswer } from './routes.ts';

export type Answer = BooksAnswer & { headers?: Record<string, string> };

/** The verbs of a path, as Allow says them; none where there is nothing. A POST is taken in the place of a GET. */
function offeredAt(path: string): string {
  const verbs = ['GET', 'POST'].filter(method => typeof findAmong(BOOKS_ROUTES, method, path) !== 'string');
  return verbs.map(method => (method === 'GET' ? 'GET, HEAD, POST, OPTIONS' : `${method}, OPTIONS`)).join(', ');
}

export function notOffered(method: string, path: string): BooksError {
  const headers = { Allow: offeredAt(path) };
  return new BooksError(405, 'httpMethodNotAllowed', `${method} is not offered at ${path}`, { headers });
}

/** Needs no credentials: browsers send none when they ask whether a page may ask. */
export function optionsOf(asked: Asked, path: string): Answer {
  const allowed = offeredAt(path);
  if (allowed === '') return { status: 404, body: envelope(404, 'notFound', `There is nothing at ${path}`) };
  if (headerOf(asked, 'origin') === undefined) return { status: 204, headers: { Allow: allowed } };
  const headers = headerOf(asked, 'access-control-request-headers');
  return {
    status: 204,
    headers: {
      Allow: allowed,
      'Access-Control-Allow-Methods': allowed,
      ...(headers && { 'Access-Control-Allow-Headers': headers }),
      'Access-Control-Max-Age': '3600',
    },
  };
}

/** A page of any origin may read every reply: nothing here goes by cookies. */
export function forBrowsers(asked: Asked): Record<string, string> {
  if (headerOf(asked, 'origin') === undefined) return {};
  return { 'Access-Control-Allow-Origin': '*', 'Access-Control-Expose-Headers': 'Date, Retry-After' };
}
