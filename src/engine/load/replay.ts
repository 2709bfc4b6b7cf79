/**
 * Stores a reject from its stored payload, without a request: after an upgrade that can read it, or a change of the database.
 * The merge orders it against the row that is there, so it never replaces newer values, and no position moves. A sweep that
 * has read its range since did not find the row here, so the row becomes a deletion candidate, or deletions are unknown until the
 * next one.
 */

import type { Stream } from '../../sources/source.ts';
import { withCare } from '../commit/commit.ts';
import { clearReject, lockReject } from '../commit/rejects.ts';
import type { Context } from '../context.ts';
import { lookbackOf } from '../coverage/coverage.ts';
import { isOfRecord } from '../database/pool.ts';
import { addLateCandidates } from '../deletions/candidates.ts';
import { forgetSwept } from '../deletions/swept-ranges.ts';

/** The reason why a reject stays open. The transaction is rolled back. */
export class NotStored extends Error {}

/** Rolls back a replay that would have worked. */
class OnlyTried extends Error {}

/**
 * Returns the reason why the reject could not be stored; undefined if it was stored and cleared. `onlyTry`: undefined if it could
 * be, and nothing is stored.
 */
export async function replay(
  { pg, account, clock }: Pick<Context, 'pg' | 'account' | 'clock'>,
  streams: readonly Stream[],
  id: number,
  { onlyTry = false } = {},
): Promise<string | undefined> {
  const nowMs = clock.now();
  try {
    await withCare({ pg, streams }, async (client, care) => {
      const reject = await lockReject(client, account, id);
      if (reject === undefined) throw new NotStored('it is not open');
      const { payload, as_of } = reject;
      if (payload === null || as_of === null)
        throw new NotStored('nothing came that could be stored; it is asked for again');
      const stream = streams.find(({ key }) => key === reject.stream_key);
      if (stream?.replay === undefined) throw new NotStored('it is fetched again');
      const at = { nowMs, asOfMs: as_of.getTime() };
      const tx = { client, claim: { account, run: null }, at, care };
      await stream.replay({ tx, streams, stream, reject: { ...reject, payload } });
      const shown = stream.kind === 'detail' ? stream.of : stream;
      const shownId = stream.kind === 'detail' ? reject.ask_id : reject.record_id;
      // Without facts about its rows nothing tells whether a list that was read since lacked this one.
      if (stream.kind === 'list' && !shown.rowFacts)
        await forgetSwept(client, { account, stream: shown.key }, at.asOfMs);
      if (shownId !== null && shown.rowFacts)
        await addLateCandidates(client, { account, stream: shown.key }, shown.rowFacts, [shownId], {
          asOfMs: at.asOfMs,
          lookbackMs: await lookbackOf(client, { account, stream: shown.key }),
        });
      if (onlyTry) throw new OnlyTried();
      await clearReject(client, id, new Date(nowMs));
    });
    return undefined;
  } catch (error) {
    if (error instanceof OnlyTried) return undefined;
    if (error instanceof NotStored || isOfRecord(error)) return error.message;
    throw error;
  }
}
