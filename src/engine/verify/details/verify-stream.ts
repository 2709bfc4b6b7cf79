/** Verifies a stream by what it declares. Sampled records are compared with their members. All members are read record by record. */

import type { ListStream, Row } from '../../../sources/source.ts';
import type { Context, Outcome } from '../../context.ts';
import type { Queryable } from '../../database/pool.ts';
import { ownParts } from '../../deletions/row-facts.ts';
import { type ById, type Detail, detailsBeside } from '../../details/detail-rows.ts';
import type { Claim } from '../../runs/claims.ts';
import { examineSample, fromPlace, liveOf } from '../one-by-one.ts';
import type { Verifying } from '../read-whole.ts';
import { movePlace } from '../verifications.ts';
import { verifyById } from '../verify-by-id.ts';
import { beginVerifying, outcomeOf, verifyList, verifyOrphans } from '../verify-list.ts';
import { recordsAfter, recordsForAllNames } from './chosen-records.ts';
import { type Compared, examineDetail, examineNamesOfNothing } from './examine-detail.ts';

/** Compares a stream, or a sample of it, with the details that come with its records. */
export function verify(ctx: Context, claim: Claim, stream: ListStream<Row> | Detail | ById): Promise<Outcome> {
  if (stream.kind === 'by id') return verifyById(ctx, claim, stream);
  const details = stream.kind === 'detail' ? stream : detailsBeside(ctx.streams, stream.key);
  const lists = ctx.streams.filter(one => one.kind === 'list');
  if (stream.kind === 'list' && details === undefined) return verifyList(ctx, claim, stream);
  return verifyStream(ctx, claim, lists, details!);
}

/** `lists`: the lists of the source. */
export async function verifyStream(
  ctx: Context,
  claim: Claim,
  lists: readonly ListStream<Row>[],
  details: Detail,
): Promise<Outcome> {
  const of = lists.find(({ key }) => key === details.of.key)!;
  const list = lists.find(({ key }) => key === claim.stream);
  if (list && list !== of) return verifyList(ctx, claim, list);
  const compared = { of, details };
  if (list)
    return verifyList(ctx, claim, of, {
      key: details.key,
      examine: (look, id) => examineDetail(look, compared, id, { whole: true }),
    });
  const { verifying, sample } = await beginVerifying(ctx, claim, of);
  if (sample !== null && details.list !== undefined) {
    const isCompared = (id: string) => examineDetail(verifying.look, compared, id, { whole: false });
    verifying.unread += await examineSample(verifying.look, { sample, ids: liveOf(of.key), isCompared });
    return outcomeOf(verifying);
  }
  await verifyMembers(verifying, compared);
  await examineNamesOfNothing(verifying.look, details);
  const { root, others } = details.merge.declared;
  if (sample === null)
    await verifyOrphans(verifying, ownParts({ declared: { root, others: [root, ...others] } }), details.key);
  return outcomeOf(verifying);
}

/**
 * Reads every record by id with its members. Each name is embedded with one of the records that mention it.
 */
async function verifyMembers(verifying: Verifying, compared: Compared): Promise<void> {
  const { look } = verifying;
  const { ctx, claim } = look;
  const { details } = compared;
  const embeds = await recordsForAllNames(ctx.pg, claim.account, details);
  const next = (after: string, limit: number) => recordsAfter(ctx.pg, claim, details, after, limit);
  for await (const id of fromPlace(look, 'default', next)) {
    const more = (client: Queryable) => movePlace(client, claim, 'default', id);
    const ok = await examineDetail(look, compared, id, { whole: false, embeds: embeds.get(id) ?? [], more });
    if (!ok) verifying.unread++;
  }
}
