/**
 * Before-images of changed records, for replies from a stale copy. Nothing is kept until `keepFor` asks for a time span.
 * The cost grows with changes, not with records. Changes that bypass the operations of the world are not noticed.
 */

interface Image<T> {
  /** Steady time of the change. */
  at: number;
  id: string;
  /** Undefined for a record that did not exist. */
  before: T | undefined;
}

export class BeforeImages<T> {
  readonly #steady: () => number;
  readonly #copy: (record: T) => T;
  #keep_ms = 0;
  /** Oldest change first. */
  #images: Image<T>[] = [];

  /** `copy`: makes a copy that later changes of the record do not affect. */
  constructor(steady: () => number, copy: (record: T) => T) {
    this.#steady = steady;
    this.#copy = copy;
  }

  /** Number of images kept. */
  get size(): number {
    return this.#images.length;
  }

  /** Keeps images this long from now on; 0 drops all. */
  keepFor(ms: number): void {
    this.#keep_ms = ms;
    if (ms === 0) this.#images = [];
  }

  /** Call before a record changes or is deleted; without `record` before one is created. */
  note(id: string, record?: T): void {
    if (this.#keep_ms === 0) return;
    // Times never decrease: an overdue change becomes visible only now.
    const at = Math.max(this.#steady(), this.#images.at(-1)?.at ?? Number.NEGATIVE_INFINITY);
    this.#images.push({ at, id, before: record === undefined ? undefined : this.#copy(record) });
    this.forget();
  }

  /** Records changed after that steady time, as they were then; undefined for records that did not exist. */
  asOf(moment: number): Map<string, T | undefined> {
    this.forget();
    const then = new Map<string, T | undefined>();
    for (let at = this.#images.length - 1; at >= 0 && this.#images[at]!.at > moment; at--) {
      const { id, before } = this.#images[at]!;
      then.set(id, before);
    }
    return then;
  }

  /** Drops outdated images once the oldest is twice the allowed age: so each image is moved about once. */
  forget(): void {
    const first = this.#images[0];
    const now = this.#steady();
    if (first === undefined || first.at >= now - 2 * this.#keep_ms) return;
    this.#images = this.#images.filter(({ at }) => at >= now - this.#keep_ms);
  }
}
