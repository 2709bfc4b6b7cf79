/**
 * One page of an ordered list. The order already exists (see ordered.ts), so a page is a place to begin, found by
 * binary search, and as many steps from there as it takes to skip and to fill it; without a filter the skip is a jump.
 */
import { Ordered } from './ordered.ts';
import type { Sequence } from './overlay.ts';

export interface Selection<T> {
  order: Sequence<T>;
  descending: boolean;
  /** The first position that counts, in ascending order. */
  from: number;
  /** What else has to hold of an item; nothing where there is no filter. */
  filters: ((item: T) => boolean)[];
  /** The only items that come into question, where they are known to be few: in any order, each once. */
  among?: { items: readonly T[]; compare: (a: T, b: T) => number };
}

export function readPage<T>(selection: Selection<T>, skip: number, take: number): T[] {
  const rows: T[] = [];
  if (take === 0) return rows;
  const jump = selection.filters.length === 0 && selection.among === undefined;
  let left = jump ? 0 : skip;
  walk(selection, jump ? skip : 0, item => left-- <= 0 && rows.push(item) === take);
  return rows;
}

export function countAll<T>(selection: Selection<T>): number {
  const { order, from, filters, among } = selection;
  if (filters.length === 0 && among === undefined) return order.length - from;
  let count = 0;
  walk(selection, 0, () => {
    count++;
    return false;
  });
  return count;
}

/** Every item that passes, until `visit` says that it is enough. */
function walk<T>(selection: Selection<T>, skip: number, visit: (item: T) => boolean): void {
  const { order, descending, from, among } = selection;
  const passes = all(selection.filters);
  const show = (item: T) => passes(item) && visit(item);
  if (among !== undefined) {
    const first = order.at(from);
    if (first === undefined) return;
    const sorted = among.items.filter(item => among.compare(item, first) >= 0).sort(among.compare);
    if (descending) sorted.reverse();
    sorted.some(show);
  } else if (descending) walkThrough(order, from, order.length - skip, true, show);
  else walkThrough(order, from + skip, order.length, false, show);
}

function walkThrough<T>(
  order: Sequence<T>,
  from: number,
  upTo: number,
  descending: boolean,
  visit: (item: T) => boolean,
): void {
  if (order instanceof Ordered) return void order.walk(from, upTo, descending, visit);
  for (let n = 0; n < upTo - from; n++) {
    if (visit(order.at(descending ? upTo - 1 - n : from + n)!)) return;
  }
}

/** All of them in one, without a loop where there are few: it is asked a million times. */
function all<T>([first, second, ...more]: ((item: T) => boolean)[]): (item: T) => boolean {
  if (first === undefined) return () => true;
  if (second === undefined) return first;
  const others = more.length === 0 ? undefined : all(more);
  return others ? item => first(item) && second(item) && others(item) : item => first(item) && second(item);
}
