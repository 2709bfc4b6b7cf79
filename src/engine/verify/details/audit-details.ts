/**
 * The audit: spends spare credits on verification. Random records are re-read with their members, compared and
 * repaired. Then members that were last read long ago are re-read, oldest first, as far as the share of re-reading
 * allows. The audit ends as soon as another run needs the source.
 */

import { type Context, type Outcome, sourceNow, sourceOf } from '../../context.ts';
import { detailsLeft } from '../../deletions/rotation.ts';
import type { Claim } from '../../runs/claims.ts';
import type { Look } from '../compare-reply.ts';
import { isFree } from '../is-free.ts';
import { examineSample } from '../one-by-one.ts';
import { chooseAtRandom } from '../stored-rows.ts';
import { oldestRead } from './chosen-records.ts';
import { type Compared, examineDetail } from './examine-detail.ts';

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
  const source = sourceOf(ctx, details.source);
  const look: Look = { ctx, claim, repair: true, random: true, expected: perHour };
  let goesOn = true;
  await examineSample(look, {
    sample: perHour,
    choose: async of =>
      (await chooseAtRandom(ctx.pg, claim, of)).map(id => [
        id,
        () => examineDetail(look, compared, id, { whole: true }),
      ]),
    goesOn: async () => {
      goesOn = await isFree(source, ctx);
      return goesOn;
    },
    also: [details.key],
  });
  const due = again ? { ...again, perHour: Infinity } : await detailsLeft(ctx, source, details);
  if (!goesOn || due === undefined) return {};
  const tried = new Set<string>();
  while (ctx.clock.monotonic() - begunMs < longestMs) {
    const beforeMs = sourceNow(ctx, details.source) - due.ageMs;
    const oldest = await oldestRead(ctx.pg, claim.account, details, beforeMs, batchSize + tried.size);
    const ids = oldest.filter(id => !tried.has(id)).slice(0, due.perHour - tried.size);
    if (ids.length === 0) break;
    for (const id of ids) {
      if (!(await isFree(source, ctx))) return {};
      // A record that cannot be read stays among the oldest, so failed records count as tried too.
      tried.add(id);
      await examineDetail({ ...look, random: false, expected: undefined }, compared, id, { whole: true });
    }
  }
  return {};
}
