/**
 * Tells a source that fails from records that do. A record that the source refuses is a reject. A source that refuses every record has
 * another address: then nothing more is asked. After a few refusals in a row, records that were read before tell one from the other: of
 * several groups where the stream names them, because a group may be refused as a whole. Where an unknown id answers like a temporary
 * failure, all failures are such refusals.
 */
import { type Fatal, Gone, ReplyTooLarge, Retry } from '../../errors.ts';
import { commitNow } from '../load/commit-queue.ts';
import { noteFailure } from '../load/failures.ts';
import type { Wanted } from './detail-rows.ts';
import { type Details, readNoting } from './details.ts';

/** After this many other failures in a row the source is at fault, not the records. */
const mostFailures = 5;

export class Doubts {
  /** After this many refusals in a row, records that were read before are fetched, until one answers. */
  readonly #few: number;
  /** Without such records, this many refusals in a row are those of a source that refuses all. */
  readonly #many: number;
  #refusals = 0;
  #failures = 0;

  constructor({ unknownFails }: Details) {
    [this.#few, this.#many] = unknownFails ? [10, 30] : [5, 15];
  }

  /** A new round begins: failures of the one before do not count. */
  begin(): void {
    this.#failures = 0;
  }

  answered(): void {
    this.#refusals = 0;
    this.#failures = 0;
  }

  /** Notes a failure of one record. Throws if it is one of the source. `isOwn`: it says nothing of the source. */
  async note(details: Details, id: string, error: Retry, isOwn: boolean): Promise<void> {
    const { ctx, claim, unknownFails } = details;
    const refused = unknownFails ? (error.everywhere ?? error) : error.everywhere;
    if (!refused && !isOwn && !(error instanceof ReplyTooLarge) && ++this.#failures >= mostFailures) throw error;
    await noteFailure(ctx, claim, { askId: id, reason: error.message });
    if (refused) await this.#refused(details, refused);
  }

  async #refused(details: Details, everywhere: Fatal | Retry): Promise<void> {
    if (++this.#refusals < this.#few) return;
    const known = await details.known();
    if (known.length === 0 && this.#refusals < this.#many) return;
    for (const wanted of known) {
      if (!(await answers(details, wanted))) continue;
      this.#refusals = 0;
      return;
    }
    throw everywhere;
  }
}

/** Reads the record anew. False if the source refuses it, too. */
async function answers(details: Details, wanted: Wanted): Promise<boolean> {
  const { ctx, unknownFails, send, entry } = details;
  if (unknownFails) return !((await readNoting(details, wanted)) instanceof Retry);
  try {
    const reply = await send(wanted, { lane: 'fresh', signal: ctx.signal });
    await commitNow(ctx, entry(reply, wanted));
  } catch (error) {
    if (error instanceof Retry && error.everywhere) return false;
    if (!(error instanceof Gone)) throw error;
  }
  return true;
}
