/** The sweep of a list that is read whole: it finds deletions and silent changes in one reading. */
import type { ListStream, Row } from '../../sources/source.ts';
import { count } from '../../words.ts';
import { openSince } from '../commit/rejects.ts';
import type { Context, Outcome } from '../context.ts';
import { readAnew } from '../load/list-loop.ts';
import type { Claim } from '../runs/claims.ts';
import { beginningOf, settleAbsence } from './absence.ts';
import { acceptsDeletions } from './swept-ranges.ts';

export async function sweepWholeList(ctx: Context, claim: Claim, stream: ListStream<Row>): Promise<Outcome> {
  const started = new Date(ctx.clock.now());
  const missing: string[] = [];
  for (const { name: list } of stream.lists) {
    const read = () => readAnew({ ctx, claim, stream }, list, { fromMs: beginningOf(ctx, stream), walk: undefined });
    const { gaps, whole } = await read();
    missing.push(...gaps);
    if (whole === undefined) continue;
    const unknown = await settleAbsence(ctx, claim, { stream, list }, whole, {
      again: async () => (await read()).whole,
      accepts: await acceptsDeletions(ctx.pg, claim.run),
    });
    if (unknown !== undefined) missing.push(unknown);
  }
  const rejects = await openSince(ctx.pg, claim, started);
  if (rejects > 0) missing.push(`${count(rejects, 'record')} could not be stored`);
  return { partial: missing.length > 0 ? missing.join('; ') : undefined };
}
