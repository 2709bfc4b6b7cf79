/**
 * A sorted list in pieces of at most 2,048 items: an insertion or removal moves no more items than that. A bulk action on
 * thousands of a million items takes milliseconds, and so does the next page. Start positions of pieces are computed at
 * the first read after a change.
 */
const MOST = 2048;

export class Ordered<T> {
  readonly compare: (a: T, b: T) => number;
  /** Non-empty pieces. */
  #pieces: T[][] = [];
  /** Position of the first item of each piece; undefined until the first read after a change. */
  #starts: number[] | undefined;
  #length = 0;

  /** `compare` must be a total order: no two items compare as equal. */
  constructor(compare: (a: T, b: T) => number) {
    this.compare = compare;
  }

  get length(): number {
    return this.#length;
  }

  /** Fills the empty list with one sort; takes ownership of the array. */
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

  /** Call before the item changes: the search uses its current sort key. */
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

  /** First position for which `reached` holds; it must hold for all later ones too. */
  firstWhere(reached: (item: T) => boolean): number {
    const at = this.#pieceWhere(reached);
    const piece = this.#pieces[at];
    return piece === undefined ? this.#length : this.#begin()[at]! + search(piece, reached);
  }

  /** Visits the items from `from` to before `upTo`, in either direction, until `visit` returns true. */
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

  /** Index of the piece with this position. */
  #pieceAt(position: number): number {
    return search(this.#begin(), start => start > position) - 1;
  }

  /** Index of the first piece for whose last item `reached` holds. */
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
