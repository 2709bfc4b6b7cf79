/** The sweep of a list that is read whole: it finds deletions and silent changes in one reading. */
import type { ListStream, Row } from '../../sources/source.ts';
import { count } from '../../words.ts';
import { keepBooks, noCounts } from '../commit/commit.ts';
import { openSince } from '../commit/rejects.ts';
import { type Context, sourceOf } from '../context.ts';
import { transaction } from '../database/pool.ts';
import { type Outcome, readPart } from '../load/list-loop.ts';
import { floorSecond } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { settleAbsence } from './absence.ts';
import { acceptsDeletions, noteSwept } from './swept-ranges.ts';

const nothing = { ...noCounts(), credits: 0 };

export async function sweepWholeList(ctx: Context, claim: Claim, stream: ListStream<Row>): Promise<Outcome> {
  const started = new Date(ctx.clock.now());
  const missing: string[] = [];
  for (const { name: list } of stream.lists) {
    const { gaps, whole } = await readPart(ctx, claim, stream, list, { fromMs: 0, walk: undefined });
    missing.push(...gaps);
    if (whole === undefined) continue;
    const unknown = await settleAbsence(ctx, claim, stream, whole, await acceptsDeletions(ctx.pg, claim.run));
    if (unknown !== undefined) missing.push(unknown);
    else {
      const { lookbackMs } = sourceOf(ctx, stream.source);
      const range = { from: 0, to: floorSecond(whole.asOfMs) };
      const at = { nowMs: ctx.clock.now(), asOfMs: whole.asOfMs };
      await transaction(ctx.pg, async client => {
        await noteSwept(client, claim, list, range, whole.asOfMs - lookbackMs);
        await keepBooks(client, claim, at, { counts: nothing, rejects: [], stored: [], drift: [] });
      });
    }
  }
  const rejects = await openSince(ctx.pg, claim, started);
  if (rejects > 0) missing.push(`${count(rejects, 'record')} could not be stored`);
  return { partial: missing.length > 0 ? missing.join('; ') : undefined };
}
