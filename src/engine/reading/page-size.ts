/**
 * How many records a page is asked for while replies are too large: half as many after each one that was, down to one, and twice
 * as many again once enough have come. Where that was too early, four times as many have to come before the next try: each try costs a
 * request, and a reply as large as the cap.
 */
export class PageSize {
  now: number;
  readonly full: number;
  /** Pages of the present size that have to come before it grows. */
  #patience = 1;
  #arrived = 0;
  #isGrown = false;

  constructor(full: number) {
    this.full = full;
    this.now = full;
  }

  get isLess(): boolean {
    return this.now < this.full;
  }

  /** Enough records have come to ask for more a page. */
  get mayGrow(): boolean {
    return this.isLess && this.#arrived >= this.#patience * this.now;
  }

  came(records: number): void {
    this.#arrived += records;
    if (this.#isGrown && records > 0) {
      this.#isGrown = false;
      this.#patience = Math.max(1, this.#patience / 4);
    }
  }

  grow(): void {
    this.now = Math.min(this.full, this.now * 2);
    this.#arrived = 0;
    this.#isGrown = true;
  }

  /** A page of so many records was too large. */
  failed(perPage: number): void {
    this.now = Math.ceil(Math.min(perPage, this.now) / 2);
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
