/** Asks for one record of a stream of which most is rejected, and decides whether the stream is read. */
import { Retry } from '../../errors.ts';
import { askForAll, readMostRejected } from '../commit/rejects.ts';
import type { Context, Outcome } from '../context.ts';
import type { Claim, Work } from '../runs/claims.ts';
import { isDue, stillRejected, type Told } from './ask-again.ts';

/** Fetches one record again and commits it. Undefined: the stream has no request by id, so its list is asked for one. */
export type Probe = (id: string | undefined) => Promise<Told>;

/**
 * How the run ends if the stream is not to be read now; undefined if it is. If the record can be stored, all rejects of a wrong
 * shape are due. A record that the source does not have, or does not answer for, gives way to the next one.
 */
export async function probed(
  ctx: Context,
  claim: Claim,
  probe: Probe,
  { now = false } = {},
): Promise<Outcome | undefined> {
  const most = await readMostRejected(ctx.pg, claim);
  if (most === undefined) return undefined;
  if (!now && !isDue(claim.kind, most.next_try_at.getTime(), ctx.clock.now())) return { partial: stillRejected };
  let failed: Retry | undefined;
  for (const id of most.ids.length > 0 ? most.ids : [undefined]) {
    ctx.signal.throwIfAborted();
    try {
      const told = await probe(id);
      if (told === 'rejected') return { partial: stillRejected };
      if (told === 'unknown') continue;
      await askForAll(ctx.pg, claim, new Date(ctx.clock.now()));
      return undefined;
    } catch (error) {
      if (!(error instanceof Retry)) throw error;
      failed = error;
    }
  }
  if (failed) throw failed;
  return { partial: stillRejected };
}

/** Fewer rejects than this are never most of a stream: see sync.most_rejected. */
export const fewRejects = 5;

export const isMostRejected = async ({ pg }: Pick<Context, 'pg'>, claim: Claim): Promise<boolean> =>
  (await readMostRejected(pg, claim)) !== undefined;

/** Whether a run that nobody asked for would only wait: most of the stream is rejected, and the next try is not due. */
export async function isPutOff(
  { pg, clock }: Pick<Context, 'pg' | 'clock'>,
  key: Pick<Work, 'account' | 'stream'>,
): Promise<boolean> {
  const most = await readMostRejected(pg, key);
  return most !== undefined && !isDue('hydrate', most.next_try_at.getTime(), clock.now());
}
