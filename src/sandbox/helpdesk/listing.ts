/**
 * One page of an ordered list. The order already exists (see ordered.ts), so a page is a place to begin, found by
 * binary search, and as many steps from there as it takes to skip and to fill it; without a filter the skip is a jump.
 */
import type { Sequence } from './overlay.ts';

export interface Selection<T> {
  order: Sequence<T>;
  descending: boolean;
  /** The first position that counts, in ascending order. */
  from: number;
  /** What else has to hold of an item; nothing where there is no filter. */
  filters: ((item: T) => boolean)[];
}

export function readPage<T>(selection: Selection<T>, skip: number, take: number): T[] {
  const rows: T[] = [];
  if (take === 0) return rows;
  const filtered = selection.filters.length > 0;
  let left = filtered ? skip : 0;
  for (const item of walk(selection, filtered ? 0 : skip)) {
    if (!passes(selection, item)) continue;
    if (left-- > 0) continue;
    if (rows.push(item) === take) break;
  }
  return rows;
}

export function countAll<T>(selection: Selection<T>): number {
  if (selection.filters.length === 0) return selection.order.length - selection.from;
  let count = 0;
  for (const item of walk(selection, 0)) if (passes(selection, item)) count++;
  return count;
}

function passes<T>(selection: Selection<T>, item: T): boolean {
  return selection.filters.every(holds => holds(item));
}

function* walk<T>({ order, descending, from }: Selection<T>, skip: number): Generator<T> {
  const length = order.length;
  if (descending) for (let at = length - 1 - skip; at >= from; at--) yield order.at(at)!;
  else for (let at = from + skip; at < length; at++) yield order.at(at)!;
}
