/**
 * Attachments of messages, by id: those of messages that are kept, and those of the history, which are made again with
 * the messages of their ticket (an id of the history says which ticket that is).
 */
import type { Attachment } from './records.ts';

interface Remembered {
  find(id: string): Attachment | undefined;
  all(): Iterable<Attachment>;
}

export class Attachments {
  readonly #kept = new Map<string, Attachment>();
  readonly #remembered: Remembered;
  /** How many there are of the history. */
  remembered = 0;

  constructor(remembered: Remembered) {
    this.#remembered = remembered;
  }

  get size(): number {
    return this.#kept.size + this.remembered;
  }

  get(id: string): Attachment | undefined {
    return this.#kept.get(id) ?? this.#remembered.find(id);
  }

  has(id: string): boolean {
    return this.get(id) !== undefined;
  }

  set(id: string, attachment: Attachment): void {
    this.#kept.set(id, attachment);
  }

  /** Of a kept one; whether there was one. */
  delete(id: string): boolean {
    return this.#kept.delete(id);
  }

  /** Those of a long history take their time: all its messages are made for it, one ticket after the other. */
  *values(): Generator<Attachment> {
    yield* this.#kept.values();
    yield* this.#remembered.all();
  }
}
