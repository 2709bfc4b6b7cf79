/** Methods of a path: for 405, for OPTIONS, and for CORS. */
import type { Asked } from '../http/request-reply.ts';
import { findAmong } from '../http/routing.ts';
import { BooksError, envelope } from './errors.ts';
import { headerOf } from './request.ts';
import { BOOKS_ROUTES, type BooksAnswer } from './routes.ts';

export type Answer = BooksAnswer & { headers?: Record<string, string> };

/** Value of Allow; '' for an unknown path. A POST can override to GET. */
function offeredAt(path: string): string {
  const verbs = ['GET', 'POST'].filter(method => typeof findAmong(BOOKS_ROUTES, method, path) !== 'string');
  return verbs.map(method => (method === 'GET' ? 'GET, HEAD, POST, OPTIONS' : `${method}, OPTIONS`)).join(', ');
}

export function notOffered(method: string, path: string): BooksError {
  const headers = { Allow: offeredAt(path) };
  return new BooksError(405, 'httpMethodNotAllowed', `${method} is not offered at ${path}`, { headers });
}

/** Answers OPTIONS. Needs no credentials: browsers send none with a CORS preflight. */
export function optionsOf(asked: Asked, path: string): Answer {
  const allowed = offeredAt(path);
  if (allowed === '') return { status: 404, body: envelope(404, 'notFound', `Unknown path ${path}`) };
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

/** CORS headers: pages of any origin may read every reply, because no credentials are in cookies. */
export function forBrowsers(asked: Asked): Record<string, string> {
  if (headerOf(asked, 'origin') === undefined) return {};
  return { 'Access-Control-Allow-Origin': '*', 'Access-Control-Expose-Headers': 'Date, Retry-After' };
}
