/**
 * The page size while replies are too large: about half after each reply that is too large, down to one record, and
 * larger again after enough records. After a try that came too early, four times as many records must arrive before the
 * next one, because each try costs a request and a reply as large as the cap.
 */
export class PageSize {
  readonly full: number;
  /** From the full size down to one. */
  readonly #sizes: readonly number[];
  /** The place of the present size. */
  #at = 0;
  /** Pages of the present size that have to come before it grows. */
  #patience = 1;
  #arrived = 0;
  #isGrown = false;

  /** `depth`: the number of records that paging reaches, with pages of any size. */
  constructor(full: number, depth = Number.POSITIVE_INFINITY) {
    this.full = full;
    const sizes = [full];
    for (let size = full; size > 1; sizes.push(size)) {
      size = Math.ceil(size / 2);
      while (Number.isFinite(depth) && depth % size !== 0) size--;
    }
    this.#sizes = sizes;
  }

  get present(): number {
    return this.#sizes[this.#at]!;
  }

  get isLess(): boolean {
    return this.#at > 0;
  }

  /** Enough records have come to ask for more a page. */
  get mayGrow(): boolean {
    return this.isLess && this.#arrived >= this.#patience * this.present;
  }

  came(records: number): void {
    this.#arrived += records;
    if (this.#isGrown && records > 0) {
      this.#isGrown = false;
      this.#patience = Math.max(1, this.#patience / 4);
    }
  }

  grow(): void {
    this.#at--;
    this.#arrived = 0;
    this.#isGrown = true;
  }

  /** A page of `perPage` records was too large. */
  failed(perPage: number): void {
    this.#at = this.#sizes.findIndex(size => size < Math.min(perPage, this.present));
    this.#arrived = 0;
    if (this.#isGrown) this.#patience = Math.min(256, this.#patience * 4);
    this.#isGrown = false;
  }

  /** The record that was too large has been passed. */
  passed(): void {
    this.#patience = 1;
    this.#arrived = 0;
    this.#isGrown = false;
  }
}
