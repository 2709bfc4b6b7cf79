/**
 * Uploaded attachments without a message (help desk 2). One message can take each of them. An attachment that no message
 * takes in time is deleted; the deadline follows the service's own clock, as snoozes do. Of the content only the size is
 * kept: the interface never returns the content.
 */
import type { Attachment } from '../records.ts';

const HOUR = 3_600_000;

export class Uploads {
  readonly #lives_ms: number;
  readonly #waiting = new Map<string, { attachment: Attachment; until: number }>();
  /** No attachment expires before this time. */
  #earliest = Number.POSITIVE_INFINITY;

  /** 0 hours: attachments never expire. */
  constructor(hours: number) {
    this.#lives_ms = hours === 0 ? Number.POSITIVE_INFINITY : hours * HOUR;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** `now`: the service's own time, here and in `settle`. */
  add(attachment: Attachment, now: number): void {
    const until = now + this.#lives_ms;
    this.#waiting.set(attachment.id, { attachment, until });
    this.#earliest = Math.min(this.#earliest, until);
  }

  *values(): Generator<Attachment> {
    for (const { attachment } of this.#waiting.values()) yield attachment;
  }

  get(id: string): Attachment | undefined {
    return this.#waiting.get(id)?.attachment;
  }

  /** Hands the attachment over to a message. Throws if unknown. */
  take(id: string): Attachment {
    const attachment = this.get(id);
    if (attachment === undefined) throw new Error(`No attachment ${id} waits for a message`);
    this.#waiting.delete(id);
    return attachment;
  }

  /** Deletes expired attachments. Checks all of them: after a clock jump, upload order is not expiry order. */
  settle(now: number): void {
    if (now < this.#earliest) return;
    this.#earliest = Number.POSITIVE_INFINITY;
    for (const [id, { until }] of this.#waiting) {
      if (until <= now) this.#waiting.delete(id);
      else this.#earliest = Math.min(this.#earliest, until);
    }
  }
}
