/**
 * Attachments between their upload and the message that takes them (help desk 2). A message can take each of them, but
 * only one message can. An attachment that no message takes in time is deleted, by the clock that the service shows, as
 * snoozes end. Of a content only the size is kept, since nothing in the interface gives it back.
 */
import type { Attachment } from './records.ts';

const HOUR = 3_600_000;

export class Uploads {
  readonly #lives_ms: number;
  readonly #waiting = new Map<string, { attachment: Attachment; until: number }>();
  /** No attachment ends before this time. */
  #earliest = Number.POSITIVE_INFINITY;

  /** After 0 hours nothing is deleted. */
  constructor(hours: number) {
    this.#lives_ms = hours === 0 ? Number.POSITIVE_INFINITY : hours * HOUR;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** `now`: what the service believes the time to be, here and below. */
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

  /** It belongs to a message from now on. */
  take(id: string): Attachment {
    const attachment = this.get(id);
    if (attachment === undefined) throw new Error(`No attachment ${id} waits for a message`);
    this.#waiting.delete(id);
    return attachment;
  }

  /** A clock that was set back lets later uploads end earlier, so all of them are looked at once one is due. */
  settle(now: number): void {
    if (now < this.#earliest) return;
    this.#earliest = Number.POSITIVE_INFINITY;
    for (const [id, { until }] of this.#waiting) {
      if (until <= now) this.#waiting.delete(id);
      else this.#earliest = Math.min(this.#earliest, until);
    }
  }
}
