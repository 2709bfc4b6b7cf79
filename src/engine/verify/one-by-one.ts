/** Compares records one by one: all of them in the order of their ids, or a sample. */

import { type Context, sourceNow } from '../context.ts';
import { numbered, query } from '../database/sql.ts';
import { type StreamKey, sourceOfKey } from '../database/stream-key.ts';
import { isFree } from './audit/is-free.ts';
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
  /** SQL: selects the `id` of each record, once. $1 is the account. */
  readonly ids: string;
  isCompared(id: string): Promise<boolean>;
  /** Further streams whose records this record contains. */
  readonly also?: readonly StreamKey[];
}

/** SQL: the live rows of a stream. */
export const liveOf = (stream: StreamKey): string =>
  `select id from ${stream} where account_id = $1 and _deleted_at is null`;

/**
 * Compares the part of a random sample that the run has not compared yet. Notes records that could not be read, and
 * returns their number. An audit ends as soon as other work needs the source.
 */
export async function examineSample({ ctx, claim }: Look, { sample, ids, isCompared, also = [] }: Sample) {
  const limit = sample - (await countFindings(ctx.pg, claim));
  const source = sourceOfKey(claim.stream);
  let unread = 0;
  for (const id of await chooseAtRandom(ctx, ids, limit)) {
    ctx.signal.throwIfAborted();
    if (claim.kind === 'audit' && !(await isFree(ctx, source))) break;
    if (await isCompared(id)) continue;
    unread++;
    await noteUnread(ctx.pg, claim, [claim.stream, ...also], id, sourceNow(ctx, source));
  }
  return unread;
}

/** A uniform random sample. */
// @internal Tests count how often each record is drawn.
export async function chooseAtRandom(
  { pg, account, random }: Pick<Context, 'pg' | 'account' | 'random'>,
  ids: string,
  limit: number,
): Promise<string[]> {
  if (limit <= 0) return [];
  const seed = Math.floor(random() * 2 ** 52);
  return query(pg).values`
    select id from (${numbered(ids, account)}) one order by hashtextextended(id, ${seed}), id limit ${limit}`;
}
