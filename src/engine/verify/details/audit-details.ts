/**
 * The audit: spends spare credits on verification. Random records are re-read with their members, compared and
 * repaired. Then members that were last read long ago are re-read, oldest first, as far as the share of re-reading
 * allows. The audit ends as soon as another run needs the source.
 */

import { type Context, type Outcome, sourceNow, sourceOf } from '../../context.ts';
import { transaction } from '../../database/pool.ts';
import { detailsLeft } from '../../deletions/rotation.ts';
import { noteSwept } from '../../deletions/swept-ranges.ts';
import type { Claim } from '../../runs/claims.ts';
import type { Look } from '../compare-reply.ts';
import { isFree } from '../is-free.ts';
import { examineSample } from '../one-by-one.ts';
import { chooseAtRandom } from '../stored-rows.ts';
import { oldestAsOf, oldestRead } from './chosen-records.ts';
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
  if (goesOn) await rereadOldest(look, compared, begunMs, again ?? (await detailsLeft(ctx, source, details)));
  return {};
}

/** Notes at the end as of when the oldest members were read. */
async function rereadOldest(
  { ctx, claim, ...look }: Look,
  compared: Compared,
  begunMs: number,
  due: { readonly ageMs: number; readonly perHour?: number } | undefined,
): Promise<void> {
  if (due === undefined) return;
  const { details } = compared;
  const source = sourceOf(ctx, details.source);
  const tried = new Set<string>();
  const next = async () => {
    const beforeMs = sourceNow(ctx, details.source) - due.ageMs;
    const left = Math.min(batchSize, (due.perHour ?? Infinity) - tried.size);
    const oldest = await oldestRead(ctx.pg, claim.account, details, beforeMs, left + tried.size);
    // A record that cannot be read stays among the oldest, so failed records count as tried too.
    return oldest.filter(id => !tried.has(id)).slice(0, left);
  };
  while (ctx.clock.monotonic() - begunMs < longestMs) {
    const ids = await next();
    if (ids.length === 0) break;
    for (const id of ids) {
      if (!(await isFree(source, ctx))) return;
      tried.add(id);
      await examineDetail({ ...look, ctx, claim, random: false, expected: undefined }, compared, id, { whole: true });
    }
  }
  const asOfMs = await oldestAsOf(ctx.pg, claim.account, details);
  if (asOfMs !== undefined)
    await transaction(ctx.pg, client =>
      noteSwept(client, { ...claim, stream: details.key }, 'details', { from: -Infinity, to: Infinity }, asOfMs),
    );
}
