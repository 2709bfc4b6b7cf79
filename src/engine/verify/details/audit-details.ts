/**
 * The audit: spends spare credits on verification. Random records are re-read with their members, compared and
 * repaired. Then, if configured, members that were last read long ago are re-read, oldest first. The audit ends as
 * soon as another run needs the source.
 */

import { type Context, type Outcome, sourceNow } from '../../context.ts';
import { Pending } from '../../details/pending.ts';
import type { Claim } from '../../runs/claims.ts';
import type { Look } from '../compare-reply.ts';
import { isFree } from '../is-free.ts';
import { examineSample, liveOf } from '../one-by-one.ts';
import { type Compared, examineDetail } from './examine-detail.ts';

/** Records per query of the oldest members. */
const batchSize = 100;
/** Longest duration of an audit. The next audit then starts, and results are reported. */
const longestMs = 3_600_000;

/** `perHour`: how many records are compared. `ageMs`: the age after which members are read again; undefined: never. */
export async function auditDetails(
  ctx: Context,
  claim: Claim,
  compared: Compared,
  { perHour, ageMs }: { perHour: number; ageMs: number | undefined },
): Promise<Outcome> {
  const begunMs = ctx.clock.monotonic();
  const { details } = compared;
  const look: Look = { ctx, claim, repair: true, random: true, expected: perHour };
  await examineSample(look, {
    ...{ sample: perHour, ids: liveOf(claim.stream), also: [details.key] },
    isCompared: id => examineDetail(look, compared, id, { whole: true }),
  });
  if (ageMs === undefined) return {};
  const tried = new Set<string>();
  while (ctx.clock.monotonic() - begunMs < longestMs) {
    const nowMs = ctx.clock.now();
    const when = { agedMs: sourceNow(ctx, details.source) - ageMs, startedMs: nowMs, nowMs };
    const oldest = await new Pending(ctx.pg, claim.account, details).aged(when, batchSize + tried.size);
    const ids = oldest.flatMap(({ id }) => (tried.has(id) ? [] : [id]));
    if (ids.length === 0) break;
    for (const id of ids) {
      if (!(await isFree(ctx, details.source))) return {};
      // A record that cannot be read stays among the oldest, so failed records count as tried too.
      tried.add(id);
      await examineDetail({ ...look, random: false, expected: undefined }, compared, id, { whole: true });
    }
  }
  return {};
}
