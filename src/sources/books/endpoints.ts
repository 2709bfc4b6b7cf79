/**
 * Each operation of the book catalog that the mirror reads (spec, 4 Endpoints) as a pure function that returns a request value. The
 * specification names paths only; parameters come from the field notes. Each operation costs one request of the daily
 * quota. The sender adds key, token and country (dialect.ts).
 */
import type { Request } from '../../engine/http/request.ts';
import { checkOf } from '../record/check.ts';
import { type Shelf, shelf, type Volume, volume } from './records.ts';

const ofShelf = { kind: 'shelves', record: checkOf(shelf) } as const;
const ofVolume = { kind: 'volumes', record: checkOf(volume) } as const;

/** The largest page (field notes: `maxResults` defaults to 10 and is at most 40). */
export const paging = { perPage: 40 };

/** Owner id of the authenticated user's shelves. */
export const myLibrary = 'mylibrary';

/** A page of a list: at most `maxResults` rows from `startIndex`, counted from 0. */
export interface Page {
  startIndex: number;
  maxResults: number;
}

/** The specification names no paging here. `startIndex` serves a source that pages anyway. */
export function listShelves(owner: string, page: Partial<Page> = {}): Request<Shelf> {
  const { startIndex = 0, maxResults = paging.perPage } = page;
  return { ...get(owner, shelvesOf(owner), pageOf({ startIndex, maxResults })), shape: 'items', ...ofShelf };
}

export function getShelf(owner: string, shelfId: string): Request<Shelf> {
  return { ...get(owner, shelfOf(owner, shelfId)), shape: 'single', ...ofShelf };
}

/** Rows of a shelf, in its order: shortened volumes. */
export function listVolumes(owner: string, shelfId: string, page: Page): Request<Volume> {
  const path = `${shelfOf(owner, shelfId)}/volumes`;
  return { ...get(owner, path, pageOf(page)), shape: 'items', ofOne: true, ...ofVolume };
}

/** One volume in full. */
export function getVolume(volumeId: string): Request<Volume> {
  return { ...get('', `/volumes/${encodeURIComponent(volumeId)}`), shape: 'single', ...ofVolume };
}

type Asked = Omit<Request<unknown>, 'shape' | 'kind' | 'record'>;

function get(owner: string, path: string, query: Record<string, string> = {}): Asked {
  return { path, query, cost: 1, ...(owner === myLibrary && { as: 'user' }) };
}

function shelvesOf(owner: string): string {
  return `${owner === myLibrary ? `/${myLibrary}` : `/users/${encodeURIComponent(owner)}`}/bookshelves`;
}

function shelfOf(owner: string, shelfId: string): string {
  return `${shelvesOf(owner)}/${encodeURIComponent(shelfId)}`;
}

function pageOf({ startIndex, maxResults }: Page): Record<string, string> {
  return { ...(startIndex > 0 && { startIndex: String(startIndex) }), maxResults: String(maxResults) };
}
