/**
 * One page of an ordered list. The order exists already (see ordered-list.ts): binary search finds the start, and a walk
 * skips and fills the page. Without filters the skip is a single jump.
 */
import { Ordered } from './ordered-list.ts';
import type { Sequence } from './overlay.ts';

export interface Selection<T> {
  order: Sequence<T>;
  descending: boolean;
  /** First position of the list, in ascending order. */
  from: number;
  /** All of them must hold. */
  filters: ((item: T) => boolean)[];
  /** Candidates, if an index knows them to be few: in any order, without duplicates. */
  among?: Few<T>;
  /** Finds all matches without the order; present if that is faster than a long walk. */
  find?: () => { count: number; few?: Few<T> | undefined };
}

/** Items few enough to sort for one page. */
interface Few<T> {
  items: readonly T[];
  compare: (a: T, b: T) => number;
}

/** A walk of this many steps costs about as much as `find`. */
const STEPS = 20_000;

export function readPage<T>(selection: Selection<T>, skip: number, take: number): T[] {
  if (take === 0) return [];
  const { find } = selection;
  const rows = steps(selection, skip, take, find ? STEPS : Number.POSITIVE_INFINITY);
  if (rows !== undefined) return rows;
  const few = find?.().few;
  return steps(few ? { ...selection, among: few } : selection, skip, take, Number.POSITIVE_INFINITY) ?? [];
}

/** The page; undefined if it is incomplete after `most` steps. */
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

/** Visits the items in order until `visit` returns true. */
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

/** Combines the filters into one, without a loop for few: it runs up to a million times per list. */
function all<T>([first, second, ...more]: ((item: T) => boolean)[]): (item: T) => boolean {
  if (first === undefined) return () => true;
  if (second === undefined) return first;
  const others = more.length === 0 ? undefined : all(more);
  return others ? item => first(item) && second(item) && others(item) : item => first(item) && second(item);
}
