/** A reply as a page of records, or what is wrong with it. Pure. */

import { ExactNumber } from '../../engine/exact-json.ts';
import { isObject, type Request } from '../../engine/http/request.ts';
import { ShelfdeskError } from '../../errors.ts';
import { valueAt } from '../service/paginator.ts';
import type { Answer } from './asking.ts';

export interface Page {
  readonly records: readonly unknown[];
  /** By place; a record without one has ''. */
  readonly ids: readonly string[];
  readonly next: string | undefined;
  /** Why no next page can be found in a reply that should name it. */
  readonly nextFault: ShelfdeskError | undefined;
  readonly total: number | undefined;
  readonly body: unknown;
}

/** Undefined if the body has no list there. */
export function pageOf(
  request: Request<unknown>,
  { json, headers }: Pick<Answer, 'json' | 'headers'>,
): Page | undefined {
  const at = request.within === undefined ? json : valueAt(json, request.within);
  const records = at === null && request.within !== undefined ? [] : at;
  if (!Array.isArray(records)) return undefined;
  const { next, nextFault } = nextOf(request, json, headers);
  return { records, ids: records.map(idOf), next, nextFault, total: request.total?.(json), body: json };
}

function nextOf(
  request: Request<unknown>,
  json: unknown,
  headers: Answer['headers'],
): Pick<Page, 'next' | 'nextFault'> {
  try {
    return { next: request.next?.(json, name => String(headers[name] ?? '') || undefined), nextFault: undefined };
  } catch (error) {
    if (!(error instanceof ShelfdeskError)) throw error;
    return { next: undefined, nextFault: error };
  }
}

export function idOf(record: unknown): string {
  const id = isObject(record) ? record.id : undefined;
  return typeof id === 'string' || typeof id === 'number' || id instanceof ExactNumber ? String(id) : '';
}

/** Ids that a double would round, so that one record would be taken for another. */
export const isBeyondDoubles = (id: string): boolean => /^\d{16,}$/.test(id) && !Number.isSafeInteger(Number(id));

/** Paths of lists in a body, a few levels deep. '' is the body itself. */
export function listsIn(body: unknown, depth = 3, path = ''): string[] {
  if (Array.isArray(body)) return [path];
  if (!isObject(body) || depth === 0) return [];
  return Object.entries(body).flatMap(([name, value]) =>
    listsIn(value, depth - 1, path === '' ? name : `${path}.${name}`),
  );
}

/** Paths of numbers that seem to count all records. */
export function totalsIn(body: unknown, within: string | undefined, depth = 2, path = ''): string[] {
  if (!isObject(body) || depth === 0) return [];
  return Object.entries(body).flatMap(([name, value]) => {
    const at = path === '' ? name : `${path}.${name}`;
    if (at === within) return [];
    if (typeof value === 'number')
      return /^(?:total|count|total_?(?:count|items|results|size|records)|num_?found)$/i.test(name) ? [at] : [];
    return totalsIn(value, within, depth - 1, at);
  });
}

/** What a refusal looks like, without its words. */
export function shapeOf({ status, headers, json, text }: Answer): string {
  const type = String(headers['content-type'] ?? 'no content type').split(';')[0];
  const body = isObject(json)
    ? `JSON with ${Object.keys(json).slice(0, 5).join(', ') || 'nothing in it'}`
    : json !== undefined
      ? 'other JSON'
      : text === ''
        ? 'no body'
        : type;
  return `${status}, ${body}`;
}
