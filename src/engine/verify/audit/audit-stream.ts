/**
 * The audit: spends spare credits on verification. Random records are re-read with their members, compared and
 * repaired. Then members that were last read long ago are re-read, oldest first, as far as the share of re-reading
 * allows. The audit ends as soon as another run needs the source, or the quota is used up.
 */

import { Spent } from '../../../errors.ts';
import type { Stream } from '../../../sources/source.ts';
import { type Context, type Outcome, sourceNow, sourceOf } from '../../context.ts';
import { transaction } from '../../database/pool.ts';
import { detailsLeft } from '../../deletions/rotation.ts';
import { noteSwept } from '../../deletions/swept-ranges.ts';
import { type Detail, detailsBeside } from '../../details/detail-rows.ts';
import { Pending } from '../../details/pending.ts';
import type { Claim } from '../../runs/claims.ts';
import type { Look } from '../compare-reply.ts';
import { oldestAsOf } from '../details/chosen-records.ts';
import { type Compared, examineDetail } from '../details/examine-detail.ts';
import { isFree } from './is-free.ts';

/** Records per query of the oldest members. */
const batchSize = 100;
/** Longest duration of an audit. The next audit then starts, and results are reported. */
const longestMs = 3_600_000;

/** Compares some random records of a stream, then reads details again that were read long ago. */
export async function auditStream(ctx: Context, claim: Claim, { key, jobs }: Stream): Promise<Outcome> {
  const begunMs = ctx.clock.monotonic();
  try {
    await jobs.verify!.read(ctx, claim);
    const details = detailsBeside(ctx.streams, key);
    if (details) await rereadDetails(ctx, claim, details, begunMs);
  } catch (error) {
    // Other work needs what the quota of the next day allows.
    if (!(error instanceof Spent)) throw error;
  }
  return {};
}

/** Details with an age of their own are read again by it, and no sooner. */
async function rereadDetails(ctx: Context, claim: Claim, details: Detail, begunMs: number): Promise<void> {
  const of = ctx.streams.filter(one => one.kind === 'list').find(({ key }) => key === details.of.key)!;
  const source = sourceOf(ctx, details.source);
  const againMs = source.audit?.againMs;
  if (details.ageMs === undefined) {
    const due = againMs === undefined ? await detailsLeft(ctx, source, details) : { ageMs: againMs };
    const look: Look = { ctx, claim, repair: true, random: false };
    if (due !== undefined) await rereadOldest(look, { of, details }, begunMs, due);
  }
  await noteOldest(ctx, claim, details);
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
      await examineDetail(look, compared, id, { whole: details.list === undefined });
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
