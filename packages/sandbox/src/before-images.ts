/**
 * What records were before they changed, for replies from a copy that is behind. Nothing is kept until somebody asks
 * for it, and then as long as was asked for: before-images of what changed, so that it costs by changes and not by
 * records. What was changed directly, past the operations of its world, is not noticed.
 */

interface Image<T> {
  /** When it changed, by the steady clock. */
  at: number;
  id: string;
  /** Undefined for what did not exist. */
  before: T | undefined;
}

export class BeforeImages<T> {
  readonly #steady: () => number;
  readonly #copy: (record: T) => T;
  #keep_ms = 0;
  /** In the order of the changes. */
  #images: Image<T>[] = [];

  /** `copy`: one that later changes of the record leave alone. */
  constructor(steady: () => number, copy: (record: T) => T) {
    this.#steady = steady;
    this.#copy = copy;
  }

  /** How many images there are. */
  get size(): number {
    return this.#images.length;
  }

  /** From now on changes can be looked behind this far; 0 forgets all. */
  keepFor(ms: number): void {
    this.#keep_ms = ms;
    if (ms === 0) this.#images = [];
  }

  /** Has to be called before a record changes or goes away, and for one that is about to come without any record. */
  note(id: string, record?: T): void {
    if (this.#keep_ms === 0) return;
    // Never before the last one: what was overdue has not been seen until now.
    const at = Math.max(this.#steady(), this.#images.at(-1)?.at ?? Number.NEGATIVE_INFINITY);
    this.#images.push({ at, id, before: record === undefined ? undefined : this.#copy(record) });
    this.forget();
  }

  /** Each record that has changed after that moment as it was then: undefined if it was not there. */
  asOf(moment: number): Map<string, T | undefined> {
    this.forget();
    const then = new Map<string, T | undefined>();
    for (let at = this.#images.length - 1; at >= 0 && this.#images[at]!.at > moment; at--) {
      const { id, before } = this.#images[at]!;
      then.set(id, before);
    }
    return then;
  }

  /** Of what is too old, all that is twice as old as it may be and what lies beside it: so each image is moved about once. */
  forget(): void {
    const first = this.#images[0];
    const now = this.#steady();
    if (first === undefined || first.at >= now - 2 * this.#keep_ms) return;
    this.#images = this.#images.filter(({ at }) => at >= now - this.#keep_ms);
  }
}
