/** One stream of one run, from taking it up to the last word about it: the body of every job that reads a stream. */
import type { Context } from '../context.ts';
import { FencedOff, Interrupted, StreamFailed } from '../errors.ts';
import { type Claim, finish, takeUp } from '../warehouse/runs.ts';
import type { Outcome } from './sync.ts';

export interface Work {
  readonly account: string;
  readonly run: number;
  readonly stream: string;
}

/** Failures are written down with the stream, and thrown; a stream that is over already is nothing to do. */
export async function runStream(ctx: Context, work: Work, read: (claim: Claim) => Promise<Outcome>): Promise<void> {
  const claim = await takeUp(ctx.pg, work, new Date(ctx.clock.now()));
  if (claim === undefined) return;
  const end = async (outcome: Outcome & { error?: unknown }) =>
    finish(ctx.pg, claim, new Date(ctx.clock.now()), { ...outcome, credits: ctx.helpdesk.send.takeCredits() });
  try {
    await end(await read(claim));
  } catch (error) {
    if (error instanceof FencedOff) throw error;
    await end({ error });
    throw error instanceof Interrupted ? error : new StreamFailed(work.stream, error);
  }
}
