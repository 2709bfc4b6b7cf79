/**
 * An ordered list as it was, laid over the list as it is: items that have changed since are skipped, and stand where
 * they stood. With k changes among n items it takes k · log n to make, and log k for each item read, so a copy of a
 * million tickets that is behind by a thousand changes costs a few milliseconds.
 */

/** What a page is read from. */
export interface Sequence<T> {
  readonly length: number;
  at(position: number): T | undefined;
  /** The first position for which `reached` holds; it has to hold for every later one too. */
  firstWhere(reached: (item: T) => boolean): number;
}

type Compare<T> = (a: T, b: T) => number;

export class Overlay<T> implements Sequence<T> {
  readonly length: number;
  readonly #order: Sequence<T>;
  /** Positions that are skipped, ascending. */
  readonly #gone: readonly number[];
  /** Items that stand between those that stay, and their positions in the list as it was, ascending. */
  readonly #old: readonly { item: T; position: number }[];

  /** `gone`: items of the order as they are now; `old`: items as they were, among them the former selves of these. */
  constructor(order: Sequence<T>, compare: Compare<T>, gone: readonly T[], old: readonly T[]) {
    const placeOf = (item: T) => order.firstWhere(other => compare(other, item) >= 0);
    this.#order = order;
    this.#gone = gone.map(placeOf).toSorted((a, b) => a - b);
    this.#old = old.toSorted(compare).map((item, nth) => {
      const place = placeOf(item);
      return { item, position: place - countBelow(this.#gone, place) + nth };
    });
    this.length = order.length - gone.length + old.length;
  }

  at(position: number): T | undefined {
    const before = firstAt(this.#old.length, nth => this.#old[nth]!.position >= position);
    const old = this.#old[before];
    if (old?.position === position) return old.item;
    const kept = position - before;
    const skipped = firstAt(this.#gone.length, nth => this.#gone[nth]! - nth > kept);
    return this.#order.at(kept + skipped);
  }

  firstWhere(reached: (item: T) => boolean): number {
    return firstAt(this.length, position => reached(this.at(position)!));
  }
}

const countBelow = (positions: readonly number[], limit: number) =>
  firstAt(positions.length, nth => positions[nth]! >= limit);

/** The first of so many numbers from 0 for which it holds; it has to hold for every later one too. */
function firstAt(count: number, holds: (nth: number) => boolean): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
