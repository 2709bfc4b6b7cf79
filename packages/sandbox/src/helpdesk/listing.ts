/**
 * One page of an ordered list. The order already exists (see ordered.ts), so a page is a place to begin, found by
 * binary search, and as many steps from there as it takes to skip and to fill it; without a filter the skip is a jump.
 */
import { Ordered } from './ordered-list.ts';
import type { Sequence } from './overlay.ts';

export interface Selection<T> {
  order: Sequence<T>;
  descending: boolean;
  /** The first position that counts, in ascending order. */
  from: number;
  /** What else has to hold of an item; nothing where there is no filter. */
  filters: ((item: T) => boolean)[];
  /** The only items that come into question, where they are known to be few: in any order, each once. */
  among?: Few<T>;
  /** All that the filters let through, found without the order; where there is a quicker way than to walk. */
  find?: () => { count: number; few?: Few<T> | undefined };
}

/** Items that are few enough to be sorted for a page. */
export interface Few<T> {
  items: readonly T[];
  compare: (a: T, b: T) => number;
}

/** So many steps cost about as much as to find all that fits. */
const STEPS = 20_000;

export function readPage<T>(selection: Selection<T>, skip: number, take: number): T[] {
  if (take === 0) return [];
  const { find } = selection;
  const rows = steps(selection, skip, take, find ? STEPS : Number.POSITIVE_INFINITY);
  if (rows !== undefined) return rows;
  const few = find?.().few;
  return steps(few ? { ...selection, among: few } : selection, skip, take, Number.POSITIVE_INFINITY) ?? [];
}

/** The page, or undefined where so many steps did not lead to its end. */
function steps<T>(selection: Selection<T>, skip: number, take: number, most: number): T[] | undefined {
  const rows: T[] = [];
  const jump = selection.filters.length === 0 && selection.among === undefined;
  let toSkip = jump ? 0 : skip;
  let left = most;
  const passes = all(selection.filters);
  walk(selection, jump ? skip : 0, item => {
    if (left-- <= 0) return true;
    return passes(item) && toSkip-- <= 0 && rows.push(item) === take;
  });
  return left < 0 ? undefined : rows;
}

export function countAll<T>(selection: Selection<T>): number {
  const { order, from, filters, among, find } = selection;
  if (filters.length === 0 && among === undefined) return order.length - from;
  if (find !== undefined && among === undefined) return find().count;
  const passes = all(filters);
  let count = 0;
  walk(selection, 0, item => {
    if (passes(item)) count++;
    return false;
  });
  return count;
}

/** Every item from the beginning on, until `visit` says that it is enough. */
function walk<T>(selection: Selection<T>, skip: number, visit: (item: T) => boolean): void {
  const { order, descending, from, among } = selection;
  if (among !== undefined) {
    const first = order.at(from);
    if (first === undefined) return;
    const sorted = among.items.filter(item => among.compare(item, first) >= 0).sort(among.compare);
    if (descending) sorted.reverse();
    sorted.some(visit);
  } else if (descending) walkThrough(order, from, order.length - skip, true, visit);
  else walkThrough(order, from + skip, order.length, false, visit);
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
