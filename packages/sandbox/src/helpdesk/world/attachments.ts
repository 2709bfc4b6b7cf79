/**
 * Attachments of messages, by id. Attachments of stored messages are stored. Attachments of the history are generated
 * with the messages of their ticket, which the id reveals.
 */
import type { Attachment } from '../records.ts';

interface Remembered {
  find(id: string): Attachment | undefined;
  all(): Iterable<Attachment>;
}

export class Attachments {
  readonly #kept = new Map<string, Attachment>();
  readonly #remembered: Remembered;
  /** Number of attachments of the history. */
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

  /** Deletes a stored attachment; returns whether it existed. */
  delete(id: string): boolean {
    return this.#kept.delete(id);
  }

  /** All attachments. Slow for a long history: generates all its messages, ticket by ticket. */
  *values(): Generator<Attachment> {
    yield* this.#kept.values();
    yield* this.#remembered.all();
  }
}
