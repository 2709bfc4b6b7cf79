/** Stores a record that was read by id, because lists shorten it. */
import type { Row } from '../../sources/source.ts';
import { noteAges } from '../commit/change-latency.ts';
import { keepBooks } from '../commit/commit.ts';
import { writeBatch } from '../commit/rows.ts';
import { type Context, sourceOf } from '../context.ts';
import type { Reply } from '../http/request.ts';
import { byForce, driftOf, rejectOf, singleBatch } from '../load/batch.ts';
import type { Entry } from '../load/commit-queue.ts';
import type { Claim } from '../runs/claims.ts';
import type { ById, Wanted } from './detail-rows.ts';
import type { Heard } from './details.ts';
import { Listed } from './listed.ts';

export function entryOfRecord(
  ctx: Context,
  claim: Claim,
  stream: ById,
  reply: Reply<Row>,
  { wanted, heard }: { wanted: Wanted; heard: Heard | undefined },
): Entry {
  const { send } = sourceOf(ctx, stream.source);
  const at = { nowMs: ctx.clock.now(), asOfMs: reply.asOf };
  const credits = send.takeCredits();
  const single = singleBatch(stream, reply);
  const batch = claim.again ? byForce(single) : single;
  const unreadable = reply.unreadable.map(one => rejectOf(one, batch, wanted.id));
  let isRejected = false;
  return {
    size: reply.text.length,
    committed: () => heard?.(true, isRejected),
    async write(client, care) {
      const tx = { client, claim, at, care };
      const { counts, rejects } = await writeBatch(tx, batch);
      const refused = [...unreadable, ...rejects];
      isRejected = refused.length > 0;
      if (!isRejected) {
        const listed = new Listed(client, claim.account, stream);
        const changedMs = (wanted.since ?? null) === null ? undefined : await listed.changedMs(wanted.id);
        if (changedMs !== undefined) await noteAges(client, claim, [changedMs], send.sourceNow() ?? reply.asOf);
        await listed.note(wanted, reply.asOf);
      }
      await keepBooks(tx, {
        counts: { ...counts, seen: 1, rejected: refused.length, credits },
        filter: batch.filter,
        rejects: refused,
        stored: [wanted.id],
        drift: driftOf(stream, reply.records, reply.unreadable, counts.cleaned > 0, reply.notUtf8),
      });
    },
  };
}
