/** Reports and repairs orphaned parts of a record that is missing or deleted here. */

import type { ListStream, Row } from '../../sources/source.ts';
import { keepBooks, noCounts } from '../commit/commit.ts';
import { takeCredits } from '../context.ts';
import { transaction } from '../database/pool.ts';
import type { StreamKey } from '../database/stream-key.ts';
import type { Ms } from '../reading/reading.ts';
import type { Look } from './compare-reply.ts';
import { writeFindings } from './findings.ts';
import { orphansOf, type Parts, takeAway } from './orphans.ts';
import { standingOf } from './stored-rows.ts';

/** `of`: the stream that the parts are of. Removes them if the run repairs. A record that has come back keeps its parts. */
export async function noteOrphans(
  { ctx, claim, repair, random }: Look,
  stream: ListStream<Row>,
  { parts, of }: { parts: readonly Parts[]; of: StreamKey },
  id: string,
  asOfMs: Ms,
): Promise<void> {
  const at = { nowMs: ctx.clock.now(), asOfMs };
  const credits = takeCredits(ctx);
  await transaction(ctx.pg, async client => {
    // A worker that brings the record back waits for this transaction, or has brought its parts back too.
    const standing = await standingOf(client, claim.account, stream, [id], { askedMs: at.nowMs, asOfMs, lock: true });
    const isHere = standing.get(id)?.hasTombstone === false;
    const found = isHere ? undefined : await orphansOf(client, claim.account, parts, id);
    const deleted = found !== undefined && repair ? await takeAway(client, claim, parts, id, at) : 0;
    if (found !== undefined)
      await writeFindings(client, claim, [{ stream: of, record: id, ...found, repaired: deleted > 0 }], {
        ...at,
        random,
      });
    const counts = { ...noCounts(), deleted, credits };
    await keepBooks(client, claim, at, { counts, rejects: [], stored: [], drift: [] });
  });
}
