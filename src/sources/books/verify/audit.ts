/**
 * Runs the audit of the catalog: re-reads random volumes, or shelves with their volumes, with spare requests, and
 * compares them with the stored rows.
 */
import type { Context, Outcome } from '../../../engine/context.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import type { Look } from '../../../engine/verify/compare-reply.ts';
import { isFree } from '../../../engine/verify/is-free.ts';
import { Spent } from '../../../errors.ts';
import { booksOf } from '../open.ts';
import type { Catalog } from './compare.ts';
import { verifyAtRandom } from './verify.ts';

/** Number of volumes per compared shelf. A shelf costs one request, plus one per page of its volumes. */
const volumesToShelf = 5;

/** Ends when the daily quota is used up, because other work needs the requests of the next day. */
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
