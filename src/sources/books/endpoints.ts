/**
 * Every operation of the book catalog (spec, 4 Endpoints) as a pure function to a request value. The specification names
 * paths only; parameters are those of the field notes. Each costs one of the requests of the day. The key, the token and
 * the country are not part of a request: the sender adds them (sources/books/dialect.ts).
 */
import { z } from 'zod';
import type { Request } from '../../engine/http/request.ts';
import { type Shelf, shelf, type Volume, volume } from './records.ts';

/** The largest page (field notes: `maxResults` is 10 unless told, at most 40). */
export const paging = { perPage: 40 };

/** The owner whose shelves are those of the authenticated user. */
export const myLibrary = 'mylibrary';

/** A part of a list: rows from `startIndex` (from 0), `maxResults` of them at most. */
export interface Page {
  startIndex: number;
  maxResults: number;
}

/** The specification names no paging here; `startIndex` is for a source that pages all the same. */
export function listShelves(owner: string, page: Partial<Page> = {}): Request<Shelf> {
  const { startIndex = 0, maxResults = paging.perPage } = page;
  return { ...get(owner, shelvesOf(owner), pageOf({ startIndex, maxResults })), shape: 'items', record: shelf };
}

export function getShelf(owner: string, shelfId: string): Request<Shelf> {
  return { ...get(owner, shelfOf(owner, shelfId)), shape: 'single', record: shelf };
}

/** Rows of a shelf, in its order: shortened volumes. */
export function listVolumes(owner: string, shelfId: string, page: Page): Request<Volume> {
  return { ...get(owner, `${shelfOf(owner, shelfId)}/volumes`, pageOf(page)), shape: 'items', record: volume };
}

/** One volume in full. */
export function getVolume(volumeId: string): Request<Volume> {
  return { ...get('', `/volumes/${encodeURIComponent(volumeId)}`), shape: 'single', record: volume };
}

export function searchVolumes(q: string, page: Page): Request<Volume> {
  return { ...get('', '/volumes', { q, ...pageOf(page) }), shape: 'items', record: volume };
}

export function addVolume(shelfId: string, volumeId: string): Request<unknown> {
  return post(shelfId, 'addVolume', { volumeId });
}

export function removeVolume(shelfId: string, volumeId: string): Request<unknown> {
  return post(shelfId, 'removeVolume', { volumeId });
}

/** `volumePosition` counts from 0. */
export function moveVolume(shelfId: string, volumeId: string, volumePosition: number): Request<unknown> {
  return post(shelfId, 'moveVolume', { volumeId, volumePosition: String(volumePosition) });
}

export function clearVolumes(shelfId: string): Request<unknown> {
  return post(shelfId, 'clearVolumes', {});
}

type Asked = Omit<Request<unknown>, 'shape' | 'record'>;

function get(owner: string, path: string, query: Record<string, string> = {}): Asked {
  return { path, query, cost: 1, ...(owner === myLibrary && { as: 'user' }) };
}

/** Parameters travel in the query, there is no body, and what comes back says nothing (field notes: 200 `{}` or 204). */
function post(shelfId: string, verb: string, query: Record<string, string>): Request<unknown> {
  const path = `${shelfOf(myLibrary, shelfId)}/${verb}`;
  return { method: 'POST', path, query, cost: 1, as: 'user', shape: 'nothing', record: z.unknown() };
}

function shelvesOf(owner: string): string {
  return `${owner === myLibrary ? '/mylibrary' : `/users/${encodeURIComponent(owner)}`}/bookshelves`;
}

function shelfOf(owner: string, shelfId: string): string {
  return `${shelvesOf(owner)}/${encodeURIComponent(shelfId)}`;
}

function pageOf({ startIndex, maxResults }: Page): Record<string, string> {
  return { ...(startIndex > 0 && { startIndex: String(startIndex) }), maxResults: String(maxResults) };
}
