/** Volumes, or shelves with their volumes, re-read at random and compared while nothing else needs the requests. */
import type { Context } from '../../engine/context.ts';
import type { Outcome } from '../../engine/load/list-loop.ts';
import type { Claim } from '../../engine/runs/claims.ts';
import type { Look } from '../../engine/verify/compare-reply.ts';
import { isFree } from '../../engine/verify/is-free.ts';
import { Spent } from '../../errors.ts';
import type { Catalog } from './compare.ts';
import { booksOf } from './open.ts';
import { verifyAtRandom } from './verify.ts';

/** One shelf is compared for this many volumes: it costs a request, and one more for each page of its volumes. */
const volumesToShelf = 5;

/** A spent quota ends the audit: other work needs the requests of the next day as well. */
export async function auditBooks(ctx: Context, claim: Claim, catalog: Catalog): Promise<Outcome> {
  const { auditVolumesPerHour: many } = booksOf(ctx);
  const sample = claim.stream === 'books.volumes' ? many : Math.ceil(many / volumesToShelf);
  const look: Look = { ctx, claim, repair: true, random: true, expected: sample };
  try {
    await verifyAtRandom(look, catalog, sample, () => isFree(booksOf(ctx), ctx));
  } catch (error) {
    if (!(error instanceof Spent)) throw error;
  }
  return {};
}
