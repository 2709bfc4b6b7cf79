/**
 * Items kept in order without sorting them for each reading. They lie in pieces of at most some two thousand, so that
 * putting one in or taking one out moves no more than that, wherever it belongs: a bulk action on thousands of a
 * million costs milliseconds, and so does the page that is read after it. Where a piece begins is counted when asked.
 */
const MOST = 2048;

export class Ordered<T> {
  readonly compare: (a: T, b: T) => number;
  /** None is empty. */
  #pieces: T[][] = [];
  /** The position of the first item of each piece; undefined while nobody has asked since the last change. */
  #starts: number[] | undefined;
  #length = 0;

  /** The order has to be total: only an item and itself compare as equal. */
  constructor(compare: (a: T, b: T) => number) {
    this.compare = compare;
  }

  get length(): number {
    return this.#length;
  }

  /** Many at once, by one sort, into an order that is empty. The array is the caller's no more. */
  fill(items: T[]): void {
    if (this.#length > 0) throw new Error('Only an empty order can be filled');
    items.sort(this.compare);
    for (let at = 0; at < items.length; at += MOST / 2) this.#pieces.push(items.slice(at, at + MOST / 2));
    this.#changed(items.length);
  }

  add(item: T): void {
    const behind = (other: T) => this.compare(other, item) > 0;
    const at = Math.min(this.#pieceWhere(behind), this.#pieces.length - 1);
    const piece = this.#pieces[at] ?? [];
    piece.splice(search(piece, behind), 0, item);
    if (piece.length === 1) this.#pieces.push(piece);
    if (piece.length > MOST)
      this.#pieces.splice(at + 1, 0, piece.splice(at === this.#pieces.length - 1 ? MOST : MOST / 2));
    this.#changed(1);
  }

  /** Has to be called before the item changes: it is found by the place it has now. */
  remove(item: T): void {
    const notBefore = (other: T) => this.compare(other, item) >= 0;
    const at = this.#pieceWhere(notBefore);
    const piece = this.#pieces[at] ?? [];
    const place = search(piece, notBefore);
    if (piece[place] !== item) throw new Error('The item is not where its order says; was it changed in place?');
    piece.splice(place, 1);
    if (piece.length === 0) this.#pieces.splice(at, 1);
    this.#changed(-1);
  }

  at(position: number): T | undefined {
    const index = this.#pieceAt(position);
    return this.#pieces[index]?.[position - this.#begin()[index]!];
  }

  /** The first position for which `reached` holds; it has to hold for every later one too. */
  firstWhere(reached: (item: T) => boolean): number {
    const at = this.#pieceWhere(reached);
    const piece = this.#pieces[at];
    return piece === undefined ? this.#length : this.#begin()[at]! + search(piece, reached);
  }

  /** Shows every item from one position up to another, upwards or downwards, until `visit` says that it is enough. */
  walk(from: number, upTo: number, descending: boolean, visit: (item: T) => boolean): void {
    if (from >= upTo) return;
    const starts = this.#begin();
    const first = this.#pieceAt(from);
    const last = this.#pieceAt(upTo - 1);
    for (let n = 0; n <= last - first; n++) {
      const index = descending ? last - n : first + n;
      const piece = this.#pieces[index]!;
      const low = Math.max(from - starts[index]!, 0);
      const high = Math.min(upTo - starts[index]!, piece.length);
      if (descending) for (let at = high - 1; at >= low; at--) if (visit(piece[at]!)) return;
      if (!descending) for (let at = low; at < high; at++) if (visit(piece[at]!)) return;
    }
  }

  #changed(by: number): void {
    this.#length += by;
    this.#starts = undefined;
  }

  #begin(): number[] {
    if (this.#starts !== undefined) return this.#starts;
    let next = 0;
    this.#starts = this.#pieces.map(({ length }) => {
      next += length;
      return next - length;
    });
    return this.#starts;
  }

  /** The piece that holds a position. */
  #pieceAt(position: number): number {
    return search(this.#begin(), start => start > position) - 1;
  }

  /** The first piece whose last item has been reached. */
  #pieceWhere(reached: (item: T) => boolean): number {
    return search(this.#pieces, piece => reached(piece[piece.length - 1]!));
  }
}

function search<T>(items: readonly T[], reached: (item: T) => boolean): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (reached(items[middle]!)) high = middle;
    else low = middle + 1;
  }
  return low;
}
