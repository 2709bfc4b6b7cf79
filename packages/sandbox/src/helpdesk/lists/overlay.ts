/**
 * An earlier state of an ordered list, as an overlay of its current state: changed items are skipped and their old
 * versions inserted. For k changes among n items, building takes k · log n steps and each read log k. A copy of a million
 * tickets, a thousand changes behind, costs a few milliseconds.
 */

/** An ordered list that pages are read from. */
export interface Sequence<T> {
  readonly length: number;
  at(position: number): T | undefined;
  /** First position for which `reached` holds; it must hold for all later ones too. */
  firstWhere(reached: (item: T) => boolean): number;
}

type Compare<T> = (a: T, b: T) => number;

export class Overlay<T> implements Sequence<T> {
  readonly length: number;
  readonly #order: Sequence<T>;
  /** Skipped positions, ascending. */
  readonly #gone: readonly number[];
  /** Inserted old items with their positions in the earlier list, ascending. */
  readonly #old: readonly { item: T; position: number }[];

  /** `gone`: current versions of changed items in `order`; `old`: the earlier versions of items. */
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

/** The smallest number below `count` for which `holds`, by binary search; it must hold for all later ones too. */
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
