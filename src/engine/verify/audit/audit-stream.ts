/**
 * The audit: spends spare credits on verification. Random records are re-read with their members, compared and
 * repaired. Then members that were last read long ago are re-read, oldest first, as far as the share of re-reading
 * allows. The audit ends as soon as another run needs the source.
 */

import { type Context, type Outcome, sourceNow, sourceOf } from '../../context.ts';
import { transaction } from '../../database/pool.ts';
import { detailsLeft } from '../../deletions/rotation.ts';
import { noteSwept } from '../../deletions/swept-ranges.ts';
import { Pending } from '../../details/pending.ts';
import type { Claim } from '../../runs/claims.ts';
import type { Look } from '../compare-reply.ts';
import { oldestAsOf } from '../details/chosen-records.ts';
import { type Compared, examineDetail } from '../details/examine-detail.ts';
import { examineSample, liveOf } from '../one-by-one.ts';
import { isFree } from './is-free.ts';

/** Records per query of the oldest members. */
const batchSize = 100;
/** Longest duration of an audit. The next audit then starts, and results are reported. */
const longestMs = 3_600_000;

/**
 * `perHour`: how many records are compared. `again`: the age after which members are read again; undefined: as the rotation of
 * the source has it, and no more than its share.
 */
export async function auditDetails(
  ctx: Context,
  claim: Claim,
  compared: Compared,
  { perHour, again }: { perHour: number; again: { readonly ageMs: number } | undefined },
): Promise<Outcome> {
  const begunMs = ctx.clock.monotonic();
  const { details } = compared;
  const look: Look = { ctx, claim, repair: true, random: true, expected: perHour };
  await examineSample(look, {
    ...{ sample: perHour, ids: liveOf(claim.stream), also: [details.key] },
    isCompared: id => examineDetail(look, compared, id, { whole: true }),
  });
  const source = sourceOf(ctx, details.source);
  const due = again ?? (await detailsLeft(ctx, source, details));
  if (due !== undefined) await rereadOldest({ ...look, random: false, expected: undefined }, compared, begunMs, due);
  await noteOldest(ctx, claim, details);
  return {};
}

/** Reads the oldest members again, as long as nothing else needs the source. */
async function rereadOldest(
  look: Look,
  compared: Compared,
  begunMs: number,
  { ageMs, perHour = Infinity }: { readonly ageMs: number; readonly perHour?: number },
): Promise<void> {
  const { ctx, claim } = look;
  const { details } = compared;
  const tried = new Set<string>();
  const pending = new Pending(ctx.pg, claim.account, details);
  const next = async () => {
    const nowMs = ctx.clock.now();
    const when = { agedMs: sourceNow(ctx, details.source) - ageMs, startedMs: nowMs, nowMs };
    const left = Math.min(batchSize, perHour - tried.size);
    const oldest = await pending.aged(when, left + tried.size);
    // A record that cannot be read stays among the oldest, so failed records count as tried too.
    return oldest.flatMap(({ id }) => (tried.has(id) ? [] : [id])).slice(0, left);
  };
  while (ctx.clock.monotonic() - begunMs < longestMs) {
    const ids = await next();
    if (ids.length === 0) return;
    for (const id of ids) {
      if (!(await isFree(ctx, details.source))) return;
      tried.add(id);
      await examineDetail(look, compared, id, { whole: true });
    }
  }
}

/** Notes as of when the oldest members were read. sync.unchecked_since looks at those that came later. */
async function noteOldest(ctx: Context, claim: Claim, details: Compared['details']): Promise<void> {
  const { lookbackMs } = sourceOf(ctx, details.source);
  const asOfMs = await oldestAsOf(ctx.pg, claim.account, details);
  if (asOfMs === undefined) return;
  await transaction(ctx.pg, client =>
    noteSwept(
      client,
      { ...claim, stream: details.key },
      'details',
      { from: -Infinity, to: Infinity },
      asOfMs - lookbackMs,
    ),
  );
}
