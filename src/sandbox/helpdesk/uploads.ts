/**
 * Attachments between their upload and the message that takes them (help desk 2): a message can take each of them, but
 * only one message can, and those that none has taken in time are deleted. Of a content only the size is kept, since
 * nothing in the interface gives it back.
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

  add(attachment: Attachment, now: number): void {
    this.#waiting.set(attachment.id, { attachment, until: now + this.#lives_ms });
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

  settle(now: number): void {
    for (const [id, { until }] of this.#waiting) {
      if (until > now) return;
      this.#waiting.delete(id);
    }
  }
}
