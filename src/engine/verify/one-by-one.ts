/** Compares records one by one: all of them in the order of their ids, or a sample. */

import { sourceNow } from '../context.ts';
import { type StreamKey, sourceOfKey } from '../database/stream-key.ts';
import type { Look } from './compare-reply.ts';
import { countFindings, noteUnread } from './findings.ts';
import { placeOf } from './verifications.ts';

/** Ids per query. */
const batchSize = 100;

/** The ids of a list in their order, from the place of the run on. `next`: the ids after one. */
export async function* fromPlace(
  { ctx, claim }: Look,
  list: string,
  next: (after: string, limit: number) => Promise<string[]>,
): AsyncGenerator<string> {
  for (let after = (await placeOf(ctx.pg, claim, list))?.place ?? ''; ; ) {
    const ids = await next(after, batchSize);
    if (ids.length === 0) return;
    for (const id of ids) {
      ctx.signal.throwIfAborted();
      yield id;
    }
    after = ids.at(-1)!;
  }
}

interface Sample {
  /** The number of records to compare. */
  readonly sample: number;
  /** Chooses records, and says how each is compared. `chance`, from 0 to 1, seeds the choice. */
  choose(of: { limit: number; chance: number }): Promise<readonly [id: string, isCompared: () => Promise<boolean>][]>;
  /** Asked before each record. False ends the comparison. */
  goesOn?(): Promise<boolean>;
  /** Further streams whose records this record contains. */
  readonly also?: readonly StreamKey[];
}

/**
 * Compares the part of a random sample that the run has not compared yet. Notes records that could not be read, and
 * returns their number.
 */
export async function examineSample({ ctx, claim }: Look, { sample, also = [], ...how }: Sample): Promise<number> {
  const limit = sample - (await countFindings(ctx.pg, claim));
  let unread = 0;
  for (const [id, isCompared] of await how.choose({ limit, chance: ctx.random() })) {
    ctx.signal.throwIfAborted();
    if (how.goesOn && !(await how.goesOn())) break;
    if (await isCompared()) continue;
    unread++;
    await noteUnread(ctx.pg, claim, [claim.stream, ...also], id, sourceNow(ctx, sourceOfKey(claim.stream)));
  }
  return unread;
}
