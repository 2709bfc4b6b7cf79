/**
 * Attachments between their upload and the message that takes them (help desk 2): a message can take each of them, but
 * only one message can, and those that none has taken in time are deleted, by the steady clock: however the service's own
 * one is set meanwhile, each waits equally long. Of a content only the size is kept, since nothing in the interface gives
 * it back.
 */
import type { Attachment } from './records.ts';

const HOUR = 3_600_000;

export class Uploads {
  readonly #lives_ms: number;
  /** In the order of their ends, since all of them live equally long. */
  readonly #waiting = new Map<string, { attachment: Attachment; until: number }>();

  /** After 0 hours nothing is deleted. */
  constructor(hours: number) {
    this.#lives_ms = hours === 0 ? Number.POSITIVE_INFINITY : hours * HOUR;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** `steady`: by which clock, here and below. */
  add(attachment: Attachment, steady: number): void {
    this.#waiting.set(attachment.id, { attachment, until: steady + this.#lives_ms });
  }

  *values(): Generator<Attachment> {
    for (const { attachment } of this.#waiting.values()) yield attachment;
  }

  get(id: string): Attachment | undefined {
    return this.#waiting.get(id)?.attachment;
  }

  /** It belongs to a message from now on. */
  take(id: string): Attachment {
    const attachment = this.get(id);
    if (attachment === undefined) throw new Error(`No attachment ${id} waits for a message`);
    this.#waiting.delete(id);
    return attachment;
  }

  settle(steady: number): void {
    for (const [id, { until }] of this.#waiting) {
      if (until > steady) return;
      this.#waiting.delete(id);
    }
  }
}
