/**
 * What is here alone: the source, asked for it by its id, says 404. It is asked once more before that is believed, and not
 * believed at all of what came so short a while ago that a copy of the source which is behind may not have it yet.
 */

import { keepBooks, noCounts } from '../../../engine/commit/commit.ts';
import { sourceOf, takeCredits } from '../../../engine/context.ts';
import { type Client, transaction } from '../../../engine/database/pool.ts';
import { goneBy } from '../../../engine/deletions/lag.ts';
import { laneOf } from '../../../engine/load/commit-reply.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import { type Absent, type Look, noteAbsent } from '../../../engine/verify/compare-reply.ts';
import { Gone, Retry } from '../../../errors.ts';
import type { ListStream, Row } from '../../source.ts';
import { wasThere } from '../messages/detail-loop.ts';
import { buryRecord, standingOf } from '../verify/rows.ts';

/** Tries for one record before the next one gets its turn. */
const fewTries = 6;

export const options = ({ ctx, claim }: Look) => ({ lane: laneOf(claim), signal: ctx.signal, tries: fewTries });

type More = ((client: Client) => Promise<void>) | undefined;

/** By its id the source has it no more: it is asked once more, and believed then. Answers whether it is known now. */
export async function examineGone(look: Look, stream: ListStream<Row>, id: string, more?: More): Promise<boolean> {
  const { ctx } = look;
  const askedMs = ctx.clock.now();
  try {
    await sourceOf(ctx, stream.source).send(stream.get!(id), options(look));
  } catch (error) {
    // When it was gone is told by the Date of that reply: without one it might be an answer to anything.
    if (error instanceof Gone && Number.isFinite(error.asOf))
      return noteGone(look, stream, id, { askedMs, asOfMs: error.asOf, more });
    if (!(error instanceof Gone || error instanceof Retry)) throw error;
  }
  await keepPlace(look, more);
  return false;
}

/** Answers whether it is known now. */
export async function noteGone(
  look: Look,
  stream: Pick<ListStream<Row>, 'key' | 'source'>,
  id: string,
  { askedMs, asOfMs, more }: { askedMs: Ms; asOfMs: Ms; more?: More },
): Promise<boolean> {
  const { ctx, claim, repair } = look;
  const source = sourceOf(ctx, stream.source);
  const key = { account: claim.account, stream: stream.key };
  const absent: Absent = {
    stream: stream.key,
    id,
    takeCredits: () => takeCredits(ctx),
    standing: async client => (await standingOf(client, key, [id], { askedMs, asOfMs, lock: repair })).get(id),
    // What is not even itself no copy of the source has ever had.
    isBelieved: async (client, ours) => ours.isItself === false || wasThere(ctx, key, id, asOfMs, client),
    bury: (client, { nowMs }) => {
      const gone = { askedMs, asOfMs, byMs: goneBy(source, asOfMs), lookbackMs: source.lookbackMs, nowMs };
      return buryRecord(client, { ...key, run: claim.run }, id, gone);
    },
  };
  return noteAbsent(look, absent, { asOfMs, more });
}

/** Nothing came of it. */
export async function keepPlace({ ctx, claim, expected }: Look, more?: More): Promise<void> {
  const credits = takeCredits(ctx);
  const at = { nowMs: ctx.clock.now(), asOfMs: 0 };
  await transaction(ctx.pg, async client => {
    await more?.(client);
    const counts = { ...noCounts(), seen: 1, credits };
    await keepBooks(client, claim, at, { counts, rejects: [], stored: [], drift: [], expected });
  });
}
