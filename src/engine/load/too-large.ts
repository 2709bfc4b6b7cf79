/**
 * Reads a list whose replies may be larger than the cap (see http/read-body.ts): reading/fewer.ts asks for fewer records a page. One
 * record that is too large alone is a reject. Where its id is not known, the reject has the place of the record for a key, and is
 * cleared once that place was read.
 */

import { ReplyTooLarge } from '../../errors.ts';
import { keepBooks, type Proven } from '../commit/commit.ts';
import type { Reject } from '../commit/page.ts';
import { clearPlaces } from '../commit/rejects.ts';
import { type Context, takeCredits } from '../context.ts';
import { type Client, transaction } from '../database/pool.ts';
import type { Reply } from '../http/request.ts';
import { isOfOne, type TooLarge } from '../reading/fewer.ts';
import { PageSize } from '../reading/page-size.ts';
import { type Ask, type Range, secondMs } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import type { Entry } from './commit-queue.ts';
import type { Job } from './commit-reply.ts';

/** A smaller reply may be read. Without a Date none is. */
const isSmaller = (error: unknown): error is ReplyTooLarge =>
  error instanceof ReplyTooLarge && !Number.isNaN(error.shown.asOf);

/** The reply, or that it is too large. A request for a count alone cannot be made smaller: its error is thrown. */
export async function unlessTooLarge<R>(reply: Promise<R>, ask: Ask): Promise<R | TooLarge> {
  try {
    return await reply;
  } catch (error) {
    if (!isSmaller(error) || ask.perPage === 0) throw error;
    const { id } = error;
    const which = isOfOne(ask) && id !== undefined ? `record ${id}` : 'a record';
    return { tooLarge: `${which} is too large: ${error.message}`, id, asOf: error.shown.asOf };
  }
}

/** The key of a reject of unknown id. */
const placeOf = (list: string, { since = -secondMs, page }: Ask) =>
  `${new Date(since + secondMs).toISOString()} ${list} list, page ${page}`;

interface TooLargeBooks extends Proven {
  readonly list: string;
  readonly ask: Ask;
  readonly answer: TooLarge;
  readonly more?: (client: Client) => Promise<void>;
}

/** What is known after such a reply: a reject if it was one record, and what the reading proves without it. */
export function booksOf({ ctx, claim, stream }: Job, { ask, answer, more, ...books }: TooLargeBooks): Entry {
  const credits = takeCredits(ctx);
  const { id, asOf } = answer;
  const reject: Reject =
    id === undefined
      ? { key: placeOf(books.list, ask), reason: answer.tooLarge }
      : { recordId: id, askId: stream.get && id, reason: answer.tooLarge };
  const rejects = isOfOne(ask) ? [reject] : [];
  return {
    write: async client => {
      await more?.(client);
      const counts = { seen: rejects.length, rejected: rejects.length, credits };
      const at = { nowMs: ctx.clock.now(), asOfMs: asOf };
      // Nothing of the record was kept but its id.
      await keepBooks({ client, claim, at }, { counts, rejects, filter: undefined, ...books });
    },
    size: 0,
  };
}

/** Clears the rejects of unknown id whose places were read now. */
export const clearRead = (ctx: Context, claim: Claim, list: string, range: Range): Promise<void> =>
  transaction(ctx.pg, client => clearPlaces(client, claim, `${list} list`, range, new Date(ctx.clock.now())));

/** Stands in a reply for a record that is too large. */
const lost = {};
/** The reply is one record that was too large. */
export const isLost = ({ unreadable: [first] }: Pick<Reply<unknown>, 'unreadable'>): boolean => first?.raw === lost;

/** If so many records one after the other are too large, the source may ignore how many are asked for. */
const mostLost = 20;

/** Requests of a list of `items` that is read by places, where a page may be shorter than it was asked to be. */
export class ByPlace {
  readonly #size: PageSize;
  #lost = 0;

  constructor(perPage: number) {
    this.#size = new PageSize(perPage);
  }

  /**
   * Asks for the records at a place, at most `wanted`: for fewer while replies are too large. One record that is too large alone
   * comes as an unreadable one.
   */
  async ask<T>(wanted: number, send: (records: number) => Promise<Reply<T>>): Promise<Reply<T>> {
    for (;;) {
      if (this.#size.mayGrow) this.#size.grow();
      const records = Math.min(wanted, this.#size.present);
      try {
        const reply = await send(records);
        this.#size.came(reply.arrived);
        this.#lost = 0;
        return reply;
      } catch (error) {
        if (!isSmaller(error) || (records <= 1 && ++this.#lost >= mostLost)) throw error;
        if (records > 1) this.#size.failed(records);
        else {
          this.#size.passed();
          this.#size.came(1);
          return inPlaceOf(error);
        }
      }
    }
  }
}

function inPlaceOf<T>({ id, message: reason, shown }: ReplyTooLarge): Reply<T> {
  const text = JSON.stringify({ items: [id === undefined ? {} : { id }] });
  const unreadable = [{ place: 0, id, raw: lost, reason, path: '' }];
  return { text, records: [], unreadable, arrived: 1, total: undefined, ...shown };
}
